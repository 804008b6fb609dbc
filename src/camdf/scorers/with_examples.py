"""A tool is read as its text and its examples: the one way in which scorers use what people ask a tool for.

`BM25` counts the words of all these texts as those of one, and `Embeddings` takes the mean of their directions, so a
decision costs what it costs without examples: they are read when a list is seen first. Comparing a task with single
examples, by the nearest or by a vote of neighbors, ranks worse on the whole (benchmarks/examples_left_out.py).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from os import PathLike
from typing import TypeAlias

from camdf.datasets.examples import Example, read_examples, renamed_examples
from camdf.errors import UsageError
from camdf.policies.renames import NO_RENAMES, Renames
from camdf.scorers.base import LISTS_KEPT, ends
from camdf.tools import READ, Tool

Texts: TypeAlias = tuple[str, ...]
"""What is read of one tool: its own text, then those of its examples."""


class ToolExamples:
    """Examples, by the tools of a list. `digest` is their SHA-256, empty where there are none.

    `renames` has the new names of tools that the examples have under their old ones; the digest is that of the examples
    as they are written, so that a scorer stays the one that it was.

    Of those that are `given`, a scorer reads the ones that have a text and no vector: the others are past requests,
    which a policy recalls.

    A name means the tools of that full name ("mail/send"), or, where the list has none, all of that name ("send"). An
    example counts only where all tools that it names are in the list. So a list of trusted tools is read without every
    example that names an untrusted tool, unless that has no server and the name of a trusted one.
    """

    def __init__(self, examples: str | PathLike[str] | Sequence[Example], renames: Renames = NO_RENAMES) -> None:
        if isinstance(examples, (str, PathLike)):
            examples = read_examples(examples)
        given = tuple(examples)
        if not all(isinstance(example, Example) for example in given):
            raise UsageError(
                "The 'examples' of a scorer must be the path of a JSON Lines file, or a list of camdf.datasets.Example."
            )
        self.written = given
        self.renames = dict(renames)
        self.given = tuple(renamed_examples(given, renames))
        self.examples = _examples_to_read(self.given)
        self.digest = _digest_of_examples(_examples_to_read(given))
        self._lists: tuple[tuple[tuple[tuple[str, str], ...], list[Texts]], ...] = ()

    def without_servers(self) -> ToolExamples:
        """The same for lists whose tools have no servers: a tool is named by its name alone."""
        renames = {old.rpartition("/")[2]: new.rpartition("/")[2] for old, new in self.renames.items()}
        return ToolExamples([_without_servers(example) for example in self.written], renames)

    @cached_property
    def digest_by_name(self) -> str:
        """The digest of the same examples `without_servers`: equal wherever one file of them is read."""
        return self.without_servers().digest

    def name_any(self, tools: Sequence[Tool]) -> bool:
        """Whether any example counts for this list."""
        return any(self.texts_of(tools))

    def texts(self, tools: Sequence[Tool], text: Callable[[Tool], str]) -> list[Texts]:
        """What is read of each tool, where `text` makes its own text."""
        return [(text(tool), *theirs) for tool, theirs in zip(tools, self.texts_of(tools), strict=True)]

    def texts_of(self, tools: Sequence[Tool]) -> list[Texts]:
        """The texts of each tool's examples. Kept and replaced whole, so threads may share it.

        >>> mail, chat = Tool("send", server="mail"), Tool("send", server="chat")
        >>> examples = ToolExamples([Example("Write to Bob", ("mail/send",)), Example("Tell them both", ("send",))])
        >>> examples.texts_of([mail, chat]), examples.texts_of([chat])
        ([('Write to Bob', 'Tell them both'), ('Tell them both',)], [('Tell them both',)])
        """
        if not self.examples:
            return [()] * len(tools)
        names = tuple((tool.server, tool.name) for tool in tools)
        for known, theirs in self._lists:
            if known == names:
                return theirs
        theirs = self._texts_by_tool(tools)
        self._lists = ((names, theirs), *self._lists[: LISTS_KEPT - 1])
        return theirs

    def _texts_by_tool(self, tools: Sequence[Tool]) -> list[Texts]:
        by_full_name: dict[str, list[int]] = {}
        by_name: dict[str, list[int]] = {}
        for place, tool in enumerate(tools):
            by_full_name.setdefault(tool.full_name, []).append(place)
            by_name.setdefault(tool.name, []).append(place)
        texts: list[list[str]] = [[] for _ in tools]
        for example in self.examples:
            named = [by_full_name.get(name) or by_name.get(name, []) for name in example.right]
            if all(named):
                for place in {place for places in named for place in places}:
                    texts[place].append(ends(example.text, READ // 2))
        return [tuple(dict.fromkeys(theirs)) for theirs in texts]


def _examples_to_read(given: Sequence[Example]) -> tuple[Example, ...]:
    """Those that say something of a tool to a ranking."""
    return tuple(example for example in given if example.text and not example.is_past)


def _digest_of_examples(examples: Sequence[Example]) -> str:
    if not examples:
        return ""
    records = (json.dumps(example.as_record(), sort_keys=True) for example in examples)
    return hashlib.sha256("\n".join(records).encode()).hexdigest()


def _without_servers(example: Example) -> Example:
    """An example whose tools are named without their servers.

    >>> _without_servers(Example("Write to Bob", ("mail/send", "log"))).needed
    ('send', 'log')
    """
    return replace(
        example,
        needed=_names_alone(example.needed),
        alternatives=tuple(map(_names_alone, example.alternatives)),
    )


def _names_alone(names: Sequence[str]) -> tuple[str, ...]:
    """Each once, without its server."""
    return tuple(dict.fromkeys(name.rpartition("/")[2] for name in names))


GivenExamples: TypeAlias = str | PathLike[str] | Sequence[Example] | ToolExamples
"""Examples as a scorer takes them: the path of a file, a list, or those that another scorer has read."""


def tool_examples(examples: GivenExamples) -> ToolExamples:
    """Examples by tool; those that another scorer has read stay one object, so that a list is read once for both."""
    if isinstance(examples, ToolExamples):
        return examples
    return ToolExamples(examples)


def examples_digest_of(scorer: object) -> str:
    """The digest of the examples that a scorer reads, empty where it reads none."""
    digest: str = getattr(scorer, "examples_digest", "")
    return digest

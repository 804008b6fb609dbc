"""From a list of tools to a file of examples: ask, check, ask once more, and keep what is done.

Beside the file stands one with the digest of every tool that its examples were written for, so that a later run asks
only for tools that are new or that changed.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path

from camdf.datasets.examples import Example, read_examples, renamed_examples, write_examples
from camdf.errors import DataError, UsageError
from camdf.examples.answers import read_answer
from camdf.examples.asking import Prompt, Wanted, lacking_by_tool
from camdf.policies.renames import NO_RENAMES, Renames
from camdf.runtime.files import locked, write_whole
from camdf.runtime.loose_json import without_repeats
from camdf.runtime.progress import Progress, counted, silent
from camdf.tools import NO_TOOLS, Tool, view

SUFFIX = ".digests.json"


@dataclass
class ExamplesFile:
    """The examples of some tools, and where they are kept.

    What was written for a tool that changed since is `outdated`: it stays in the file until the tool has new examples.
    Examples of tools that are no longer listed are left out, and `unlisted` names these tools.
    """

    path: Path
    tools: Mapping[str, Tool]
    examples: list[Example] = field(default_factory=list)
    outdated: list[Example] = field(default_factory=list)
    unlisted: list[str] = field(default_factory=list)
    digests: Mapping[str, str] = field(default_factory=dict)
    """Of the tools, when their examples were written."""

    refused: Counter[str] = field(default_factory=Counter)
    """How many lines of answers were left out, by why."""

    logged_before: frozenset[Example] = frozenset()
    """The logged requests that the file had when it was opened."""

    renames: Renames = field(default_factory=dict)
    """The new names of tools that the file has under old ones."""

    @classmethod
    def open(cls, path: Path, tools: Mapping[str, Tool], renames: Renames = NO_RENAMES) -> ExamplesFile:
        """The file as it is, or an empty one where there is none, each tool under its new name.

        Examples of a tool that has a new name count as current, however its definition changed with the name.
        """
        before = renamed_examples(_examples_in(path), renames)
        gone = {name for example in before for name in example.right} - tools.keys()
        known = [example for example in before if gone.isdisjoint(example.right)]
        if gone and not any(example.right for example in known):
            raise UsageError(f"{path} has examples of other tools than these. Name another file to write.")
        digests = {name: digest for name, digest in _read_digests(path).items() if name not in renames}
        changed = {*_changed_tools(tools, digests)}
        return cls(
            path,
            tools,
            examples=[example for example in known if not _is_outdated(example, changed)],
            outdated=[example for example in known if _is_outdated(example, changed)],
            unlisted=sorted(gone),
            digests=digests,
            logged_before=frozenset(example for example in known if example.origin == "logged"),
            renames=renames,
        )

    @property
    def changed(self) -> list[str]:
        """Tools whose definition is another one than when their examples were written."""
        return _changed_tools(self.tools, self.digests)

    @property
    def made_up(self) -> list[Example]:
        """Those that a language model wrote."""
        return [example for example in self.examples if example.origin == "made up"]

    def lacking(self, wanted: Wanted) -> dict[str, list[str]]:
        """Tools that have no made-up example of their own in some of the languages, and these languages."""
        lacking = lacking_by_tool(dict.fromkeys(self.tools, wanted.by_language), self.made_up)
        return {name: list(counts) for name, counts in lacking.items()}

    def ask(self, asked: Sequence[Prompt], model: Callable[[Prompt], str], progress: Progress = silent) -> None:
        """Put prompts to a model, and what an answer lacks once more."""
        for prompt in counted(asked, len(asked), progress):
            less = self.take(model(prompt), prompt)
            if less is not None:
                self.take(model(less), less)

    def take(self, answer: str, prompt: Prompt) -> Prompt | None:
        """Add the examples of an answer, save, and say what it leaves to be asked for again."""
        beside = [example for example in self.made_up if prompt.shown.keys() >= {*example.right}]
        reading = read_answer(answer, prompt, beside)
        self.examples += reading.examples
        self.refused += reading.refused
        self.save()
        return prompt.lacking(reading.examples)

    def replace_own(self, own: Iterable[Example]) -> None:
        """Put a user's own and logged examples in the place of those that the file had."""
        self.examples = [*self.made_up, *own]

    def save(self) -> None:
        """Write the examples in the order of their tools, and the digests of the tools that have some.

        Logged requests that are no longer in the file were forgotten meanwhile, and are not written back.
        """
        with locked(self.path, wait=True) if self.path.exists() else nullcontext():
            forgotten = self.logged_before.difference(renamed_examples(_examples_in(self.path), self.renames))
            self.examples = [example for example in self.examples if example not in forgotten]
            self._write_examples_and_digests()

    def _write_examples_and_digests(self) -> None:
        changed = {*self.changed}
        written = {name for example in self.made_up if len(example.needed) < 2 for name in example.right}
        kept = [example for example in self.outdated if (changed & written).isdisjoint(example.right)]
        place = {name: number for number, name in enumerate(self.tools)}

        def places(example: Example) -> list[int]:
            return [place[name] for name in example.right] or [len(place)]

        write_examples(self.path, sorted([*self.examples, *kept], key=places))
        digests = {name: tool.digest() for name, tool in self.tools.items() if name in written}
        digests |= {name: self.digests[name] for name in sorted(changed - written)}
        write_whole(_digests_of(self.path), (json.dumps(digests, indent=1, ensure_ascii=False) + "\n").encode())


def named_tools(natives: Iterable[object]) -> dict[str, Tool]:
    """Tools by server and name, as examples name them; what a provider runs itself has no examples."""
    named: dict[str, Tool] = {}
    twice = []
    for tool in map(view, natives):
        if tool.foreign:
            continue
        if tool.full_name in named:
            twice.append(tool.full_name)
        named[tool.full_name] = tool
    if twice:
        raise UsageError(f"Tools must have names of their own. These stand twice: {', '.join(sorted(set(twice)))}.")
    if not named:
        raise UsageError(NO_TOOLS)
    return named


def _examples_in(path: Path) -> list[Example]:
    """The examples of a file; none where there is no file."""
    return read_examples(path) if path.exists() else []


def _changed_tools(tools: Mapping[str, Tool], digests: Mapping[str, str]) -> list[str]:
    return [name for name, tool in tools.items() if digests.get(name, tool.digest()) != tool.digest()]


def _is_outdated(example: Example, changed: Collection[str]) -> bool:
    """Whether a language model wrote it for a tool that changed."""
    return example.origin == "made up" and any(name in changed for name in example.right)


def _digests_of(path: Path) -> Path:
    return path.with_name(path.name + SUFFIX)


def _read_digests(path: Path) -> dict[str, str]:
    place = _digests_of(path)
    if not place.exists() or not path.exists():
        return {}
    try:
        digests = json.loads(place.read_bytes(), object_pairs_hook=without_repeats)
    except ValueError:
        digests = None
    if not isinstance(digests, dict) or not all(isinstance(digest, str) for digest in digests.values()):
        raise DataError(f"{place}: must map tools to digests, and does not. Remove it to take all examples as current.")
    return digests

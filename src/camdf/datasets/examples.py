"""Examples: requests with the tools that they need, by which a ranking learns what people ask a tool for."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Iterable
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from camdf.datasets.records import fields, json_lines, list_of_names, objects_of, refuse, text
from camdf.errors import DataError
from camdf.policies.models.past_tasks import PastTasks
from camdf.policies.renames import Renames, check_renames
from camdf.runtime.files import write_whole

Origin: TypeAlias = Literal["made up", "own", "logged"]
"""Who wrote an example: a language model, the user, or the people whose requests were logged."""


@dataclass(frozen=True)
class Example:
    """A request and the tools that it needs.

    `alternatives` are groups of tools of which one will do ("or" in a file): each of them is right for a ranking, and a
    fit leaves the request out. `language` is a code such as "en", or empty. A logged request may have its `vector`, the
    direction of its text a signed byte a number, with its text or without, the `group` that it belongs to, and the
    `user` who asked.
    """

    text: str
    needed: tuple[str, ...] = ()
    alternatives: tuple[tuple[str, ...], ...] = ()
    language: str = ""
    origin: Origin = "made up"
    vector: bytes = b""
    group: str = ""
    user: str = ""

    @property
    def right(self) -> tuple[str, ...]:
        """Every tool that a ranking should prefer for this request.

        >>> Example("Count the users", alternatives=(("database/run_query", "warehouse/run_query"),)).right
        ('database/run_query', 'warehouse/run_query')
        """
        return tuple(dict.fromkeys((*self.needed, *(name for group in self.alternatives for name in group))))

    @property
    def is_past(self) -> bool:
        """Whether a policy recalls it: it has a vector, or its user is known."""
        return bool(self.vector) or (self.origin == "logged" and bool(self.user))

    def as_record(self) -> dict[str, Any]:
        """The example as a line of a file has it."""
        record: dict[str, Any] = {"text": self.text, "needed": list(self.needed)}
        if self.alternatives:
            record["or"] = [list(group) for group in self.alternatives]
        if self.language:
            record["lang"] = self.language
        if self.vector:
            record["vector"] = b64encode(self.vector).decode()
        record |= {name: value for name, value in (("group", self.group), ("user", self.user)) if value}
        return {**record, "origin": self.origin}


def read_examples(path: str | PathLike[str]) -> list[Example]:
    """The examples of a JSON Lines file; a DataError names the line and the field that is not as it should be."""
    return [_example(where, record) for where, record in json_lines(Path(path))]


def made_up_in(path: str | PathLike[str]) -> int:
    """From how many lines a fit would learn that say that they are made up; 0 where it is no file of JSON lines."""
    if Path(path).is_dir():
        return 0
    try:
        records = [record for _, record in json_lines(Path(path))]
    except DataError:
        return 0
    return sum(record.get("origin") == "made up" and not record.get("or") for record in records)


def examples_in(content: str, name: str) -> list[Example]:
    """The examples in the text of such a file; errors call it by `name`."""
    return [_example(where, record) for where, record in objects_of(content.encode().splitlines(), name)]


def renamed_examples(examples: Iterable[Example], renames: Renames) -> list[Example]:
    """The same examples with each tool under its new name, where `renames` has one for it."""
    check_renames(renames)
    known: list[Example] = []
    for example in examples:
        needed = _under_new_names(example.needed, renames)
        alternatives = tuple(_under_new_names(group, renames) for group in example.alternatives)
        known.append(replace(example, needed=needed, alternatives=alternatives))
    return known


def _under_new_names(names: Iterable[str], renames: Renames) -> tuple[str, ...]:
    return tuple(dict.fromkeys(renames.get(name, name) for name in names))


def write_examples(path: str | PathLike[str], examples: Iterable[Example]) -> None:
    """Write examples as JSON Lines, in one step; none at all are an empty line, which no half-written file is.

    A new file with logged requests is its owner's alone.
    """
    written = list(examples)
    lines = (json.dumps(example.as_record(), ensure_ascii=False) + "\n" for example in written)
    private = any(example.origin == "logged" for example in written)
    write_whole(path, ("".join(lines) or "\n").encode(), private=private)


def _example(where: str, record: dict[str, Any]) -> Example:
    known = fields(where, record, ("text", "needed"), ("or", "lang", "kind", "origin", "vector", "group", "user"))
    groups = known.get("or", [])
    if not isinstance(groups, list):
        refuse(where, "or", "be a list of lists of tool names", groups, 'Write it as [["...", "..."]].')
    origin = known.get("origin", "made up")
    if origin not in get_args(Origin):
        refuse(where, "origin", f"be one of {', '.join(get_args(Origin))}", origin, "Leave it out for 'made up'.")
    vector = _direction_from_base64(where, known.get("vector"))
    asked = known["text"]
    user = _text_or_empty(where, "user", known)
    if asked != "" or not (vector or user):
        text(where, "text", asked)
    return Example(
        asked,
        tuple(list_of_names(where, "needed", known["needed"])),
        tuple(tuple(list_of_names(where, "or", group)) for group in groups),
        _text_or_empty(where, "lang", known),
        origin,
        vector,
        _text_or_empty(where, "group", known),
        user,
    )


def _text_or_empty(where: str, name: str, known: dict[str, Any]) -> str:
    """The text of an optional field; "" where it is not there or empty."""
    value = known.get(name)
    return text(where, name, value) if value else ""


def _direction_from_base64(where: str, value: object) -> bytes:
    if not value:
        return b""
    try:
        return b64decode(text(where, "vector", value), validate=True)
    except ValueError:
        refuse(where, "vector", "be base64", value, "Write the file again with camdf fit --remember.")


def past_tasks(examples: Iterable[Example]) -> PastTasks | None:
    """The past requests among examples, for `ExpectedPayoffBySet.recalling`; None where none is one.

    >>> past = past_tasks([Example("", ("mail",), origin="logged", vector=bytes([127, 1])), Example("Hello")])
    >>> len(past), past.tools
    (1, ('mail',))
    """
    known = [example for example in examples if example.is_past]
    if not known:
        return None
    if len({len(example.vector) for example in known}) > 1:
        raise DataError("The vectors of examples must be equally long. Make all of them with one model.")
    tools = tuple(dict.fromkeys(name for example in known for name in example.needed))
    position = {name: place for place, name in enumerate(tools)}
    return PastTasks(
        tools,
        np.frombuffer(b"".join(example.vector for example in known), np.int8).reshape(len(known), -1),
        np.array([len(set(example.needed)) for example in known], dtype=np.int64),
        np.array([position[name] for example in known for name in dict.fromkeys(example.needed)], dtype=np.int64),
        np.array([example.group or str(place) for place, example in enumerate(known)], dtype=np.str_),
        _empty_if_all_are([example.text for example in known]),
        _empty_if_all_are([example.user for example in known]),
    )


def _empty_if_all_are(texts: list[str]) -> tuple[str, ...]:
    return tuple(texts) if any(texts) else ()


def logged_examples(past: PastTasks) -> list[Example]:
    """Past tasks as examples, a line of a file each."""
    ends = np.cumsum(past.counts)[:-1]
    unknown = ("",) * len(past)
    needed = np.split(past.needed, ends)
    rows = zip(past.texts or unknown, needed, past.vectors, past.groups.tolist(), past.users or unknown, strict=True)
    return [
        Example(
            text,
            tuple(past.tools[place] for place in places),
            origin="logged",
            vector=vector.tobytes(),
            group=group,
            user=user,
        )
        for text, places, vector, group, user in rows
    ]

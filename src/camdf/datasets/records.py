"""Reading JSON records from files that may be wrong: every error names the file, the line, the field and the remedy."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from functools import lru_cache
from pathlib import Path
from reprlib import Repr
from typing import Any, NoReturn

from camdf.errors import DataError

FOR_SCORES = "Clip cosine similarities at 0, and pass logits through a sigmoid."
"""The remedy for a score that is negative or not finite."""

FOR_COSTS = "Give a free tool a small price, such as 0.01."
"""The remedy for a price that is not above 0."""

_UNSTORABLE = re.compile("[\0\ud800-\udfff]")
_shown = Repr()
_shown.maxstring = _shown.maxother = 60


class Pairs(tuple[tuple[str, Any], ...]):
    """A JSON object as the file has it: keys in order, and repeated keys not yet merged."""


def refuse(where: str, field: str, requirement: str, value: object, remedy: str) -> NoReturn:
    """Raise the one form of error that this package has for data."""
    if isinstance(value, Pairs):
        value = dict(value)
    shown = _shown.repr(value)
    raise DataError(f"{where}, field {_shown.repr(field)}: must {requirement}. Got {shown} instead. {remedy}")


def json_lines(path: Path) -> Iterator[tuple[str, Pairs]]:
    """The objects of a JSON Lines file, each with its place in words, for errors. Blank lines are skipped."""
    with path.open("rb") as file:
        yield from objects_of(file, str(path))


def objects_of(lines: Iterable[bytes], name: str) -> Iterator[tuple[str, Pairs]]:
    """The same of lines whose file is called by a name."""
    for number, line in enumerate(lines, start=1):
        if line.strip():
            where = f"{name}, line {number}"
            yield where, json_object(where, line, first=number == 1)


def json_object(where: str, line: bytes, *, first: bool) -> Pairs:
    """The object in a line of JSON Lines; the `first` line of a file may have a byte order mark."""
    encoding = "utf-8-sig" if first else "utf-8"
    try:
        value = json.loads(line.decode(encoding).rstrip(), object_pairs_hook=Pairs)
    except (ValueError, RecursionError) as error:
        reason = str(error)
        if isinstance(error, json.JSONDecodeError):  # whose own text counts lines, of which there is one
            reason = f"{error.msg} at column {error.colno}"
        raise DataError(f"{where}: must be one JSON object in UTF-8. {reason}. Mend or remove it.") from None
    if not isinstance(value, Pairs):
        raise DataError(f"{where}: must be one JSON object. Got {_shown.repr(value)} instead. Use {{...}}.")
    return value


def fields(
    where: str,
    record: Pairs,
    required: tuple[str, ...],
    optional: tuple[str, ...],
    ignored: Counter[str] | None = None,
) -> dict[str, Any]:
    """The record as a dict with all the required fields and perhaps optional ones.

    Others are refused; where `ignored` counts them, only those that look like a misspelling of one that is not there.
    """
    known = (*required, *optional)
    absent = tuple(name for name in known if name not in dict(record))
    values: dict[str, Any] = {}
    for name, value in record:
        if name not in known:
            if ignored is None or misspelt(name, absent):
                refuse(where, name, f"be one of {', '.join(known)}", name, "Rename or remove it.")
            ignored[name] += 1
        elif name in values:
            refuse(where, name, "occur once", value, "Remove one of the two.")
        else:
            values[name] = value
    for name in required:
        if name not in values:
            raise DataError(f"{where}, field {name!r}: must be there, and is missing. Add it.")
    return values


@lru_cache(maxsize=1024)
def misspelt(name: str, absent: tuple[str, ...]) -> bool:
    """Whether an unknown field looks like one of those that a record lacks: what is there is not misspelt."""
    return bool(get_close_matches(name.lower(), absent, n=1, cutoff=0.75))


def ignored_fields(ignored: Counter[str], unit: str) -> str:
    """The fields that were left out, in one line."""
    return "ignored fields: " + ", ".join(f"{name} (in {count:,} {unit})" for name, count in ignored.most_common(20))


def is_text(value: object) -> bool:
    """Whether it is a string that is not empty and that every file and array can hold."""
    return isinstance(value, str) and bool(value) and not _UNSTORABLE.search(value)


def text(where: str, field: str, value: object) -> str:
    """A name: a string that is not empty and that every file and array can hold."""
    if not isinstance(value, str) or not is_text(value):
        refuse(where, field, "be a string of valid characters, not empty", value, "Write it between quotes.")
    return value


def list_of_names(where: str, field: str, value: object) -> list[str]:
    """A list of different names."""
    if not isinstance(value, list):
        refuse(where, field, "be a list of tool names", value, 'Write it as ["...", "..."].')
    names: dict[str, None] = {}
    for item in value:
        name = text(where, field, item)
        if name in names:
            refuse(where, field, "name every tool once", name, "Remove the repetition.")
        names[name] = None
    return list(names)


def whole(where: str, field: str, value: object) -> int:
    """A whole number, not negative."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**31:
        refuse(where, field, "be a whole number of at least 0", value, "Leave it out where 'required' names them all.")
    return value


def numbers(where: str, field: str, value: object, *, positive: bool, remedy: str) -> dict[str, float]:
    """A mapping from tool to number: finite, at least 0 or above 0, every tool once, in the file's order."""
    if not isinstance(value, Pairs):
        refuse(where, field, "map tools to numbers", value, 'Write it as {"tool": 0.5}.')
    by_tool: dict[str, float] = {}
    for name, item in value:
        text(where, field, name)
        if name in by_tool:
            refuse(where, field, "name every tool once", name, "Remove the repetition.")
        if isinstance(item, bool) or not isinstance(item, int | float) or not _fits(item, positive):
            kind = "a finite number above 0" if positive else "a finite number of at least 0"
            refuse(where, field, f"give {name!r} {kind}", item, remedy)
        by_tool[name] = float(item)
    return by_tool


def _fits(value: float, positive: bool) -> bool:
    # A whole number in JSON may be too large for a float; comparing is exact, and converting would overflow.
    if positive and value == 0:
        return False
    return 0 <= value <= 1.7e308

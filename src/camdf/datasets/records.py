"""Reading JSON records from files that may be wrong: every error names the file, the line, the field and the remedy."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from reprlib import Repr
from typing import Any, NoReturn

from camdf.errors import DataError

FOR_SCORES = "Clip cosine similarities at 0, and pass logits through a sigmoid."
"""The remedy for a score that is negative or not finite."""

_UNSTORABLE = re.compile("[\0\ud800-\udfff]")
_shown = Repr()
_shown.maxstring = _shown.maxother = 60


class Pairs(tuple[tuple[str, Any], ...]):
    """A JSON object as the file has it: keys in order, and repeated keys not yet merged."""


def refuse(where: str, field: str, requirement: str, value: object, remedy: str) -> NoReturn:
    """Raise the one form of error that this package has for data."""
    shown = _shown.repr(dict(value) if isinstance(value, Pairs) else value)
    raise DataError(f"{where}, field {field!r}: must {requirement}. Got {shown} instead. {remedy}")


def json_lines(path: Path) -> Iterator[tuple[str, Pairs]]:
    """The objects of a JSON Lines file, each with its place in words, for errors. Blank lines are skipped."""
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            where = f"{path}, line {number}"
            try:
                content = line.decode("utf-8-sig" if number == 1 else "utf-8").rstrip()
                value = json.loads(content, object_pairs_hook=Pairs)
            except (ValueError, RecursionError) as error:
                reason = f"{error.msg} at column {error.colno}" if isinstance(error, json.JSONDecodeError) else error
                raise DataError(f"{where}: must be one JSON object in UTF-8. {reason}. Mend or remove it.") from None
            if not isinstance(value, Pairs):
                raise DataError(f"{where}: must be one JSON object. Got {_shown.repr(value)} instead. Use {{...}}.")
            yield where, value


def fields(where: str, record: Pairs, required: tuple[str, ...], optional: tuple[str, ...]) -> dict[str, Any]:
    """The record as a dict with all the required fields, perhaps optional ones, and no others."""
    known = ", ".join((*required, *optional))
    found: dict[str, Any] = {}
    for name, value in record:
        if name not in (*required, *optional):
            refuse(where, name, f"be one of {known}", name, "Rename or remove it.")
        if name in found:
            refuse(where, name, "occur once", value, "Remove one of the two.")
        found[name] = value
    for name in required:
        if name not in found:
            raise DataError(f"{where}, field {name!r}: must be there, and is missing. Add it.")
    return found


def text(where: str, field: str, value: object) -> str:
    """A name: a string that is not empty and that every file and array can hold."""
    if not isinstance(value, str) or not value or _UNSTORABLE.search(value):
        refuse(where, field, "be a string of valid characters, not empty", value, "Write it between quotes.")
    return value


def names(where: str, field: str, value: object) -> list[str]:
    """A list of different names."""
    if not isinstance(value, list):
        refuse(where, field, "be a list of tool names", value, 'Write it as ["...", "..."].')
    found: dict[str, None] = {}
    for item in value:
        name = text(where, field, item)
        if name in found:
            refuse(where, field, "name every tool once", name, "Remove the repetition.")
        found[name] = None
    return list(found)


def whole(where: str, field: str, value: object) -> int:
    """A whole number, not negative."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**31:
        refuse(where, field, "be a whole number of at least 0", value, "Leave it out where 'required' names them all.")
    return value


def numbers(where: str, field: str, value: object, *, positive: bool, remedy: str) -> dict[str, float]:
    """A mapping from tool to number: finite, at least 0 or above 0, every tool once, in the file's order."""
    if not isinstance(value, Pairs):
        refuse(where, field, "map tools to numbers", value, 'Write it as {"tool": 0.5}.')
    found: dict[str, float] = {}
    for name, item in value:
        text(where, field, name)
        if name in found:
            refuse(where, field, "name every tool once", name, "Remove the repetition.")
        if isinstance(item, bool) or not isinstance(item, int | float) or not _fits(item, positive):
            kind = "a finite number above 0" if positive else "a finite number of at least 0"
            refuse(where, field, f"give {name!r} {kind}", item, remedy)
        found[name] = float(item)
    return found


def _fits(value: float, positive: bool) -> bool:
    # A whole number in JSON may be too large for a float; comparing is exact, and converting would overflow.
    return (value > 0 if positive else value >= 0) and value <= 1.7e308 and math.isfinite(value)

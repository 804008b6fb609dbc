"""Reading JSON records from files that may be wrong: every error names the file, the line, the field and the remedy."""

from __future__ import annotations

import json
import re
from codecs import BOM_UTF8
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from difflib import get_close_matches
from functools import lru_cache
from pathlib import Path
from reprlib import Repr
from typing import Any, NoReturn, TypeGuard

from camdf.errors import DataError

FOR_SCORES = "Clip cosine similarities at 0, and pass logits through a sigmoid."
"""The remedy for a score that is negative or not finite."""

FOR_COSTS = "Give a free tool a small price, such as 0.01."
"""The remedy for a price that is not above 0."""

NUMBERS = frozenset((float, int))
LARGEST = 1.7e308
"""The largest number of a list of scores or prices."""

_UNSTORABLE = re.compile("[\0\ud800-\udfff]")
_shown = Repr()
_shown.maxstring = _shown.maxother = 60


class Pairs(tuple[tuple[str, Any], ...]):
    """A JSON object in which a name stands twice: a dict would keep the last of the two without a word."""

    def items(self) -> Iterable[tuple[str, Any]]:
        """Names and values, as a dict gives them."""
        return self

    @property
    def repeated(self) -> tuple[str, Any]:
        """The first name that stands there again, and its second value."""
        names = [name for name, _ in self]
        return next(pair for place, pair in enumerate(self) if pair[0] in names[:place])


def dict_or_pairs(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any] | Pairs:
    """A JSON object as a dict, or as `Pairs` where a dict would lose some: for `object_pairs_hook`."""
    by_name = dict(pairs)
    return by_name if len(by_name) == len(pairs) else Pairs(pairs)


_decoder = json.JSONDecoder(object_pairs_hook=dict_or_pairs)


def refuse(where: str, field: str, requirement: str, value: object, remedy: str) -> NoReturn:
    """Raise the one form of error that this package has for data."""
    if isinstance(value, Pairs):
        value = dict(value)
    shown = _shown.repr(value)
    raise DataError(f"{where}, field {_shown.repr(field)}: must {requirement}. Got {shown} instead. {remedy}")


def json_lines(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """The objects of a JSON Lines file, each with its place in words, for errors. Blank lines are skipped."""
    with path.open("rb") as file:
        yield from objects_of(file, str(path))


def objects_of(lines: Iterable[bytes], name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The same of lines whose file is called by a name."""
    for number, line in enumerate(lines, start=1):
        if line.strip():
            where = f"{name}, line {number}"
            yield where, json_object(where, line)


def json_object(where: str, line: bytes) -> dict[str, Any]:
    """The object in a line of JSON Lines, which may begin with the byte order mark of a file."""
    try:
        value = _decoder.decode(line.removeprefix(BOM_UTF8).decode().rstrip())
    except (ValueError, RecursionError) as error:
        reason = str(error)
        if isinstance(error, json.JSONDecodeError):  # whose own text counts lines, of which there is one
            reason = f"{error.msg} at column {error.colno}"
        raise DataError(f"{where}: must be one JSON object in UTF-8. {reason}. Mend or remove it.") from None
    if isinstance(value, Pairs):
        name, again = value.repeated
        refuse(where, name, "occur once", again, "Remove one of the two.")
    if not isinstance(value, dict):
        raise DataError(f"{where}: must be one JSON object. Got {_shown.repr(value)} instead. Use {{...}}.")
    return value


def fields(
    where: str,
    record: dict[str, Any],
    required: tuple[str, ...],
    optional: tuple[str, ...],
    ignored: Counter[str] | None = None,
) -> dict[str, Any]:
    """All the required fields of a record, and the optional ones that it has.

    Others are refused; where `ignored` counts them, only those that look like a misspelling of one that is not there.
    """
    known = (*required, *optional)
    others = [name for name in record if name not in known]
    if others:
        absent = tuple(name for name in known if name not in record)
        for name in others:
            if ignored is None or misspelt(name, absent):
                refuse(where, name, f"be one of {', '.join(known)}", name, "Rename or remove it.")
            ignored[name] += 1
        record = {name: value for name, value in record.items() if name in known}
    for name in required:
        if name not in record:
            raise DataError(f"{where}, field {name!r}: must be there, and is missing. Add it.")
    return record


@lru_cache(maxsize=1024)
def misspelt(name: str, absent: tuple[str, ...]) -> bool:
    """Whether an unknown field looks like one of those that a record lacks: what is there is not misspelt."""
    return bool(get_close_matches(name.lower(), absent, n=1, cutoff=0.75))


def ignored_fields(ignored: Counter[str], unit: str) -> str:
    """The fields that were left out, in one line."""
    return "ignored fields: " + ", ".join(f"{name} (in {count:,} {unit})" for name, count in ignored.most_common(20))


def is_text(value: object) -> TypeGuard[str]:
    """Whether it is a string that is not empty and that every file and array can hold."""
    return isinstance(value, str) and bool(value) and not _UNSTORABLE.search(value)


def text(where: str, field: str, value: object) -> str:
    """A name: a string that is not empty and that every file and array can hold."""
    if not is_text(value):
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


def numbers(
    where: str, field: str, value: object, *, positive: bool, remedy: str, known: Collection[str] = ()
) -> dict[str, float]:
    """A mapping from tool to number: finite, at least 0 or above 0, every tool once.

    Names that are `known` were checked before.
    """
    if not isinstance(value, (dict, Pairs)):
        refuse(where, field, "map tools to numbers", value, 'Write it as {"tool": 0.5}.')
    for name, number in value.items():
        if name not in known:
            text(where, field, name)
        # A whole number in JSON may be too large for a float; comparing is exact, and converting would overflow.
        if type(number) not in NUMBERS or not 0 <= number <= LARGEST or (positive and number == 0):
            kind = "a finite number above 0" if positive else "a finite number of at least 0"
            refuse(where, field, f"give {name!r} {kind}", number, remedy)
    if isinstance(value, Pairs):
        name, _ = value.repeated
        refuse(where, field, "name every tool once", name, "Remove the repetition.")
    return value

"""Values in the shapes that tracers write: JSON inside of strings, times, errors, outcomes, a gate's decision.

Every span passes through here, so what most of them hold is asked first and at little cost: plain ASCII, digits, no
value at all.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, get_args

from camdf.errors import require
from camdf_traces.readers.names import BAD, DECISION, GOOD, OUTCOMES, FieldNames
from camdf_traces.spans import SPAN_COLUMNS, Kind, Span

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_OUTCOMES = frozenset(name.replace("_", "") for name in OUTCOMES)


class Unreadable(ValueError):  # noqa: N818
    """A record that is no span, and why, in words that hold nothing of the record."""


@cache
def _decode() -> Callable[[bytes | str], Any]:
    decode: Callable[[bytes | str], Any] = require("msgspec.json", "mining").Decoder().decode
    return decode


def decoded(text: bytes | str) -> Any:
    """What a JSON text says; ValueError or RecursionError where it is none.

    The standard library has the last word: it reads NaN, half a pair of surrogates and UTF-16 too. Whatever both read
    they read alike.
    """
    decode = _decode()
    try:
        return decode(text)
    except Exception:
        return json.loads(text)


def checked_span(**columns: Any) -> Span:
    """A span from whatever values a record holds: one that does not fit its column counts as not recorded."""
    checked: dict[str, Any] = _NOTHING_RECORDED.copy()
    for name, value in columns.items():
        if value or value == 0:
            sort = type(value)
            if name in _PLAIN_COLUMNS.get(sort, ()) and (sort is tuple or value.isascii()):
                checked[name] = value
            else:
                checked[name] = _CONVERSIONS[name](value)
    if not checked["trace_id"] or not checked["span_id"]:
        raise Unreadable("a span without a trace id or a span id")
    if checked["kind"] not in _KINDS:
        checked["kind"] = "other"
    if len(checked["ranked"]) != len(checked["scores"]):
        checked["ranked"] = checked["scores"] = ()
    return Span(*checked.values())


def as_text(value: Any) -> str:
    """A string or a number as text that any table can hold; "" for anything else."""
    if isinstance(value, str):
        if value.isascii():
            return value
        return value.encode("utf-8", "replace").decode()
    is_short = isinstance(value, int) and not isinstance(value, bool) and value.bit_length() < 200
    if is_short or isinstance(value, float):
        return str(value)
    return ""


def as_whole(value: Any) -> int | None:
    """A whole number of 64 bits; a string of digits is one."""
    is_digits = isinstance(value, str) and re.fullmatch(r"-?\d{1,19}", value, flags=re.ASCII)
    if is_digits or (isinstance(value, float) and value.is_integer()):
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool) and -(2**63) <= value < 2**63:
        return value
    return None


def as_truth(value: Any) -> bool | None:
    """True or false, also as a string."""
    if isinstance(value, str):
        return {"true": True, "false": False}.get(value.strip().lower())
    return value if isinstance(value, bool) else None


def as_texts(value: Any) -> tuple[str, ...]:
    """A list of names; a tuple is one that a reader made."""
    if isinstance(value, tuple):
        return value
    items = structured(value)
    if not isinstance(items, list):
        return ()
    return tuple(filter(None, map(as_text, items)))


def as_numbers(value: Any) -> tuple[float, ...]:
    """A list of finite numbers; empty where one of them is not."""
    numbers = structured(value)
    if not isinstance(numbers, (list, tuple)) or not all(map(_is_finite, numbers)):
        return ()
    return tuple(map(float, numbers))


def _is_finite(value: Any) -> bool:
    """Whether a value is a number, and neither infinite nor NaN, for which no comparison holds."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 1e300


_BY_KIND: dict[str, Callable[[Any], Any]] = {
    "text": as_text,
    "texts": as_texts,
    "whole": as_whole,
    "numbers": as_numbers,
    "truth": as_truth,
}
_CONVERSIONS = {name: _BY_KIND[kind] for name, kind in SPAN_COLUMNS.items()}


def _columns_of_kind(wanted: str) -> frozenset[str]:
    return frozenset(name for name, kind in SPAN_COLUMNS.items() if kind == wanted)


_NOTHING_RECORDED = {name: {"text": "", "texts": (), "numbers": ()}.get(kind) for name, kind in SPAN_COLUMNS.items()}
_PLAIN_COLUMNS: dict[type, frozenset[str]] = {str: _columns_of_kind("text"), tuple: _columns_of_kind("texts")}
"""The columns that hold a text in ASCII as it is, and those that hold a tuple as it is."""

_KINDS = frozenset(get_args(Kind))


def structured(value: Any) -> Any:
    """A list or an object that may be written as a JSON string."""
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
        try:
            return decoded(value)
        except (ValueError, RecursionError):
            return value
    return value


def parsed_json(value: Any) -> Any:
    """What a JSON string says, of any sort; anything else as it is."""
    if not isinstance(value, str):
        return value
    try:
        return decoded(value)
    except (ValueError, RecursionError):
        return value


def as_mapping(value: Any) -> dict[str, Any]:
    """An object, a JSON string of one, or the pairs of a Parquet map column; empty for anything else."""
    if isinstance(value, dict):
        return value
    fields = structured(value)
    if isinstance(fields, dict):
        return fields
    if isinstance(fields, list) and all(isinstance(item, tuple) and len(item) == 2 for item in fields):
        return {str(key): item for key, item in fields}
    return {}


def as_list(value: Any) -> list[Any]:
    """A list, also as a JSON string; empty for anything else."""
    items = structured(value)
    if isinstance(items, (list, tuple)):
        return list(items)
    return []


def lookup(record: Mapping[str, Any], names: FieldNames, column: str) -> Any:
    """The value under the first of a column's names that a record has: as a key, or level by level at the dots."""
    for name in names.get(column, ()):
        value = record.get(name)
        if value is None and "." in name:
            value = _descend(record, name.split("."))
        if value or (value is not None and value not in ("", [], {})):
            return value
    return None


class Fields:
    """Columns by the names of a table, all looked up together, for the price of the few that a record has."""

    def __init__(self, names: FieldNames) -> None:
        self._names = names
        self._columns = dict.fromkeys(names)
        self.keys: dict[str, dict[str, bool]] = {}
        """The keys that matter, with the columns that each may lead to, and whether it is the first name of each."""

        for column, keys in names.items():
            for key in keys:
                steps = key.split(".")
                for end in range(1, len(steps) + 1):  # any beginning of a name may hold the rest of it, nested
                    beginning = ".".join(steps[:end])
                    self.keys.setdefault(beginning, {})[column] = beginning == keys[0]

    def values_in(self, record: Mapping[str, Any]) -> dict[str, Any]:
        """What `lookup` finds for every column of the table."""
        values: dict[str, Any] = self._columns.copy()
        for key, value in record.items():
            if key in self.keys and (value or value == 0):
                for column, first in self.keys[key].items():
                    if values[column] is None:
                        values[column] = value if first and value else lookup(record, self._names, column)
        return values


def _descend(record: Any, path: list[str]) -> Any:
    if not path:
        return record
    level = as_mapping(record)
    for end in range(len(path), 0, -1):  # keys may have dots of their own
        inner = level.get(".".join(path[:end]))
        if inner is not None:
            return _descend(inner, path[end:])
    return None


def nanoseconds(value: Any, unit: int = 1) -> int | None:
    """A time since 1970: a number in units of `unit` nanoseconds, or a date in ISO form, in UTC where it names none.

    A number that is too large for its unit is in nanoseconds, as every time of a table is.
    """
    if unit == 1 and type(value) is str and len(value) < 20 and value.isdigit() and value.isascii():
        return as_whole(int(value))
    if isinstance(value, str) and not re.fullmatch(r"-?\d+", value):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            return None
    if isinstance(value, datetime):
        aware = value if value.tzinfo else value.replace(tzinfo=UTC)
        return (aware - EPOCH) // timedelta(microseconds=1) * 1000
    if isinstance(value, float):
        return as_whole(float(round(value * unit))) if abs(value) < 1e30 else None
    number = as_whole(value)
    if number is None:
        return None
    in_units = as_whole(number * unit)
    return number if in_units is None else in_units


_DECISION = Fields(DECISION)


def gate_decision(sources: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """The first ranking of a gate among some attributes, and whether any of its decisions let the run see every tool.

    It does where the conversation explores, and where the gate only watches: neither censors what is called.
    """
    decisions = [_DECISION.values_in(source) for source in sources if not _DECISION.keys.keys().isdisjoint(source)]
    if not decisions:
        return {}
    explored = [source["mode"] == "shadow" or as_truth(source["explored"]) for source in decisions]
    known = [saw_all for saw_all in explored if saw_all is not None]
    first = next((source for source in decisions if as_texts(source["ranked"])), {})
    return {"ranked": first.get("ranked"), "scores": first.get("scores"), "explored": any(known) if known else None}


def outcome(scores: Iterable[tuple[Any, Any]]) -> bool | None:
    """Whether a run succeeded by its named scores: all that name an outcome must be good; None where none does."""
    ratings = [_rating(value) for name, value in scores if re.sub(r"[\W_]+", "", as_text(name).lower()) in _OUTCOMES]
    known = [rating for rating in ratings if rating is not None]
    return all(known) if known else None


def _rating(value: Any) -> bool | None:
    if not isinstance(value, (str, int, float)):
        return None
    word = str(value).strip().lower()[:20]
    if word in GOOD or word in BAD:
        return word in GOOD
    try:
        number = float(word)
    except ValueError:
        return None
    return None if math.isnan(number) else number >= 0.5


def hands_over(error: Any) -> bool:
    """Whether an error, by its type or its own words, is none: LangGraph raises to hand over to another agent."""
    return re.match(r"(\w+\.)*ParentCommand\b", as_text(error)) is not None


def error_type(message: Any) -> str:
    """The type that an error's own words begin with, as in `ValueError('...')`; never more of them."""
    if not message:
        return ""
    named = re.match(r"[A-Za-z_][\w.]{0,80}(Error|Exception|Timeout|Interrupt|Exit)\b", as_text(message))
    return named[0] if named else "error"

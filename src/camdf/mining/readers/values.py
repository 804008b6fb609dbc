"""Values as tracers write them: JSON inside of strings, times, errors, outcomes, a gate's decision."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, get_args

from camdf.mining.readers.names import BAD, DECISION, GOOD, OUTCOMES, Names
from camdf.mining.spans import COLUMNS, Kind, Span

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Unreadable(ValueError):  # noqa: N818
    """A record that is no span, and why, in words that hold nothing of the record."""


def span(**found: Any) -> Span:
    """A span from values as they were found: what does not fit its column counts as not recorded."""
    checked = {name: _CHECKS[kind](found.get(name)) for name, kind in COLUMNS.items()}
    if not checked["trace_id"] or not checked["span_id"]:
        raise Unreadable("a span without a trace id or a span id")
    if checked["kind"] not in get_args(Kind):
        checked["kind"] = "other"
    if len(checked["ranked"]) != len(checked["scores"]):
        checked["ranked"] = checked["scores"] = ()
    return Span(**checked)


def text(value: Any) -> str:
    """A string or a number as text that any table can hold."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return str(value) if not isinstance(value, int) or value.bit_length() < 200 else ""
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else ""


def whole(value: Any) -> int | None:
    """A whole number of 64 bits; a string of digits is one."""
    if isinstance(value, str) and re.fullmatch(r"-?\d{1,19}", value, flags=re.ASCII):
        value = int(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    fits = isinstance(value, int) and not isinstance(value, bool) and -(2**63) <= value < 2**63
    return value if fits else None


def truth(value: Any) -> bool | None:
    """True or false, also as a string."""
    if isinstance(value, str):
        value = {"true": True, "false": False}.get(value.strip().lower())
    return value if isinstance(value, bool) else None


def texts(value: Any) -> tuple[str, ...]:
    """A list of names."""
    found = structured(value)
    return tuple(filter(None, map(text, found))) if isinstance(found, (list, tuple)) else ()


def numbers(value: Any) -> tuple[float, ...]:
    """A list of finite numbers; none of them where one is not."""
    found = structured(value)
    found = found if isinstance(found, (list, tuple)) else ()
    fine = all(isinstance(each, (int, float)) and not isinstance(each, bool) and abs(each) < 1e300 for each in found)
    return tuple(map(float, found)) if fine and not any(map(math.isnan, found)) else ()


_CHECKS: dict[str, Any] = {"text": text, "texts": texts, "whole": whole, "numbers": numbers, "truth": truth}


def structured(value: Any) -> Any:
    """A list or an object that may be written as a JSON string."""
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            return value
    return value


def mapping(value: Any) -> dict[str, Any]:
    """An object: as such, as a JSON string, or as the pairs that a map column of Parquet gives."""
    found = structured(value)
    if isinstance(found, dict):
        return found
    pairs = isinstance(found, list) and all(isinstance(each, tuple) and len(each) == 2 for each in found)
    return {str(key): each for key, each in found} if pairs else {}


def listed(value: Any) -> list[Any]:
    """A list, also as a JSON string; empty for anything else."""
    found = structured(value)
    return list(found) if isinstance(found, (list, tuple)) else []


def lookup(record: Mapping[str, Any], names: Names, column: str) -> Any:
    """What a record holds under the first of a column's names that it has: as a key, or level by level at the dots."""
    for name in names.get(column, ()):
        found = record.get(name)
        if found is None and "." in name:
            found = _descend(record, name.split("."))
        if found is not None and found not in ("", [], {}):
            return found
    return None


def _descend(record: Any, path: list[str]) -> Any:
    level = mapping(record)
    for end in range(len(path), 0, -1):  # keys may have dots of their own
        inner = level.get(".".join(path[:end]))
        if inner is not None:
            return inner if end == len(path) else _descend(inner, path[end:])
    return None


def nanoseconds(value: Any, unit: int = 1) -> int | None:
    """A time since 1970: a number in units of `unit` nanoseconds, or a date in ISO form, in UTC where it names none."""
    if isinstance(value, str) and not re.fullmatch(r"-?\d+", value):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            return None
    if isinstance(value, datetime):
        aware = value if value.tzinfo else value.replace(tzinfo=UTC)
        return (aware - EPOCH) // timedelta(microseconds=1) * 1000
    if isinstance(value, float):
        return whole(float(round(value * unit))) if abs(value) < 1e30 else None
    number = whole(value)
    return None if number is None else whole(number * unit)


def decision(told: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """The first ranking of a gate among some attributes, and whether any of its decisions explored."""
    decisions = [{name: lookup(each, DECISION, name) for name in DECISION} for each in told]
    explored = [truth(each["explored"]) for each in decisions]
    known = [each for each in explored if each is not None]
    first = next((each for each in decisions if texts(each["ranked"])), {})
    return {"ranked": first.get("ranked"), "scores": first.get("scores"), "explored": any(known) if known else None}


def outcome(scores: Iterable[tuple[Any, Any]]) -> bool | None:
    """Whether a run succeeded by its named scores: all that speak of it must say so; None where none does."""
    said = [_verdict(value) for name, value in scores if re.sub(r"\W+", "_", text(name).lower()) in OUTCOMES]
    known = [each for each in said if each is not None]
    return all(known) if known else None


def _verdict(value: Any) -> bool | None:
    word = str(value).strip().lower()[:20] if isinstance(value, (str, int, float)) else ""
    if word in GOOD or word in BAD:
        return word in GOOD
    try:
        return None if math.isnan(float(word)) else float(word) >= 0.5
    except ValueError:
        return None


def error_type(said: Any) -> str:
    """The type that an error's own words begin with, as in `ValueError('...')`; never more of them."""
    if not said:
        return ""
    named = re.match(r"[A-Za-z_][\w.]{0,80}(Error|Exception|Timeout|Interrupt|Exit)\b", text(said))
    return named[0] if named else "error"

"""What a policy's file may hold: bounds on every number, name and list, and annotated classes as JSON objects.

A saved policy may come from anywhere, so every length is bounded and no error quotes the file. Lines of logged tasks
are another matter: `camdf.datasets.records` reads those, and its errors show the value to mend.

An attribute is kept in a file where its annotation has a check, and is read by that check:

    k: Annotated[int, count]
    weights: Annotated[tuple[tuple[int, ...], ...], small_rows, Written(rows_as_text)]
    remember: Annotated[bool, truth, LEFT_OUT] = False
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from camdf.core.features import COLUMNS
from camdf.errors import UsageError
from camdf.policies.models.tuning import LARGEST
from camdf.runtime.settings import LEFT_OUT, Check, check_that, checks_of, is_number, metadata_of, whole_number

MOST_NAMES = 16_384
LONGEST_NAME = 512
LONGEST_ROWS = 2_000_000


@dataclass(frozen=True)
class Written:
    """Beside a check: how a value becomes one of JSON, where that is not plain."""

    write: Callable[[Any], Any]


def number_within(least: float, most: float, what: str) -> Check:
    """A number within bounds, as a float."""
    within = check_that(what, lambda value: is_number(value) and least <= value <= most)
    return lambda value: float(within(value))


# With this bound a coefficient times a cost pressure times a feature is far from overflow, so no file makes a decision
# warn.
number = number_within(-LARGEST, LARGEST, f"a finite number from {-LARGEST:g} to {LARGEST:g}")
share = number_within(0, 1, "a share from 0 to 1")


count = whole_number(0, 2**53)


def short_text(value: Any) -> str:
    """A string of a bounded length."""
    if not isinstance(value, str) or len(value) > LONGEST_NAME:
        raise ValueError(f"a string of at most {LONGEST_NAME} characters")
    return value


def list_of(check: Check, what: str, most: int = MOST_NAMES) -> Check:
    """A list of a bounded length, whose items a check accepts, as a tuple."""
    must = f"a list of at most {most} {what}"

    def checked_list(value: Any) -> tuple[Any, ...]:
        if not isinstance(value, list | tuple) or len(value) > most:
            raise ValueError(must)
        try:
            return tuple(map(check, value))
        except ValueError:
            raise ValueError(must) from None

    return checked_list


def names_of(most: int) -> Check:
    """So many names at most, none twice."""
    what = f"strings of at most {LONGEST_NAME} characters, none twice"
    listed = list_of(short_text, what, most)

    def distinct_names(value: Any) -> Any:
        given_names = listed(value)
        if len(set(given_names)) != len(given_names):
            raise ValueError(f"a list of at most {most} {what}")
        return given_names

    return distinct_names


numbers = list_of(number, "numbers")
shares = list_of(share, "numbers from 0 to 1")
names = names_of(MOST_NAMES)
"""Of tools: `camdf.policies.renames` gives new names to what an attribute with this check holds."""

column_names = names_of(MOST_NAMES)
"""Of the columns of a model."""


def columns(value: Any) -> tuple[str, ...]:
    """Columns of the feature map."""
    given_names = tuple(value) if isinstance(value, list | tuple) else ()
    if not given_names or given_names != tuple(name for name in COLUMNS if name in given_names):
        raise ValueError("names of camdf.core.features.COLUMNS, in that order, at least one")
    return given_names


def table_of(check: Check, what: str, most: int) -> Check:
    """A JSON object of a bounded size, whose values a check accepts."""
    must = f"an object of at most {most} {what}"

    def checked_table(value: Any) -> dict[str, Any]:
        if not isinstance(value, dict) or len(value) > most:
            raise ValueError(must)
        try:
            return {short_text(name): check(item) for name, item in value.items()}
        except ValueError:
            raise ValueError(must) from None

    return checked_table


def small_rows(value: Any) -> tuple[tuple[int, ...], ...]:
    """Rows of whole numbers from -127 to 127, one row a line of two hexadecimal digits a number."""
    must = f"lines of hexadecimal digits, at most {LONGEST_ROWS} characters"
    if not isinstance(value, str) or len(value) > LONGEST_ROWS:
        raise ValueError(must)
    try:
        rows = [bytes.fromhex(line) for line in value.split("\n")]
    except ValueError:
        raise ValueError(must) from None
    return tuple(map(_weights, rows))


def rows_as_text(rows: Any) -> str:
    """The inverse of `small_rows`."""
    return "\n".join(map(_digits, rows))


def _weights(row: bytes) -> tuple[int, ...]:
    return tuple(byte - 128 for byte in row)


def _digits(row: Sequence[int]) -> str:
    return bytes(weight + 128 for weight in row).hex()


def object_of(kind: Any) -> Check:
    """A JSON object with the annotated attributes of a dataclass, which is made of them."""
    return lambda value: kind(**read_object(value, checks_of(kind), defaults_left_out(kind)))


def read_object(value: Any, checks: dict[str, Check], left_out: dict[str, Any]) -> dict[str, Any]:
    """What a JSON object holds, each attribute as its check keeps it; a UsageError names the one that is wrong."""
    if not isinstance(value, dict):
        raise UsageError(f"must be an object, not {shown_json(value)}")
    given = {**left_out, **value}
    unknown = sorted(given.keys() - checks.keys())
    missing = sorted(checks.keys() - given.keys())
    if unknown or missing:
        beginnings = [name[:40] for name in unknown[:3]]
        raise UsageError(f"must have exactly its own fields; unknown: {beginnings}, missing: {missing[:3]}")
    return {name: _read_part(name, given[name], check, left_out) for name, check in checks.items()}


def _read_part(name: str, value: Any, check: Check, left_out: dict[str, Any]) -> Any:
    if name in left_out and value is left_out[name]:
        return value
    try:
        return check(value)
    except UsageError as error:
        raise UsageError(f"{name}: {error}") from None
    except ValueError as error:
        raise UsageError(f"{name}: must be {error}, not {shown_json(value)}") from None


def written_object(owner: Any) -> dict[str, Any]:
    """The inverse: the annotated attributes of an object, in values of JSON."""
    left_out = defaults_left_out(type(owner))
    kept = [name for name in checks_of(type(owner)) if name not in left_out or getattr(owner, name) != left_out[name]]
    return {name: written_part(owner, name) for name in kept}


def written_part(owner: Any, name: str) -> Any:
    """One annotated attribute of an object, in values of JSON."""
    kind: Any = type(owner)
    value = getattr(owner, name)
    for said in metadata_of(kind)[name]:
        if isinstance(said, Written):
            return said.write(value)
    return json_value(value)


def defaults_left_out(kind: Any) -> dict[str, Any]:
    """The attributes of a class that a file leaves out where they are these, its defaults."""
    return {name: getattr(kind, name) for name in checks_of(kind) if LEFT_OUT in metadata_of(kind)[name]}


def json_value(value: Any) -> Any:
    """A value in those of JSON: lists for tuples and arrays, an object for an annotated dataclass."""
    if hasattr(value, "tolist"):  # numpy's
        return value.tolist()
    if isinstance(value, list | tuple):
        return [json_value(item) for item in value]
    if hasattr(type(value), "__dataclass_fields__") and checks_of(type(value)):
        return written_object(value)
    return value


def shown_json(value: Any) -> str:
    """A JSON value for a message: short, and never a text out of the file."""
    for kind, name in ((str, "a string"), (list, "a list"), (dict, "an object")):
        if isinstance(value, kind):
            return f"{name} of length {len(value)}"
    return {"None": "null", "True": "true", "False": "false"}.get(str(value), str(value)[:24])

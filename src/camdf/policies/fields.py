"""What each attribute of a policy may be: checked when it is set, written to JSON, checked when it is read.

A saved policy may come from anywhere, so every length is bounded and no error quotes the file. Lines of logged tasks
are another matter: `camdf.datasets.records` reads those, and its errors show the value to mend.

Policies are written and read in one `SCHEMA`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from camdf.core.features import COLUMNS
from camdf.core.probability import CLIP
from camdf.models.linear import LinearModel
from camdf.models.membership import Doubt, MembershipModel
from camdf.models.task_text import TextSignal
from camdf.models.tuning import LARGEST

SCHEMA = 3
"""What is written, and all that is read."""

MOST_NAMES = 16_384
LONGEST_NAME = 512
LONGEST_ROWS = 2_000_000


_NOTHING = object()


@dataclass(frozen=True)
class Field:
    """`write` turns an attribute into JSON values; `read` turns them back and raises ValueError on anything else.

    A value that is `unwritten` is left out, and a document without the field means it.
    """

    read: Callable[[Any], Any]
    write: Callable[[Any], Any] = lambda value: value
    unwritten: Any = _NOTHING


def _number(value: Any) -> float:
    # Compared before it is converted, because float() of a long integer raises; NaN fails the comparison. With this
    # bound a coefficient times a cost pressure times a feature is far from overflow, so no file makes a decision warn.
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= LARGEST:
        raise ValueError(f"must be a finite number from {-LARGEST:g} to {LARGEST:g}, not {_shown(value)}")
    return float(value)


def _whole(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= 2**53:
        raise ValueError(f"must be a whole number from 0 to 2^53, not {_shown(value)}")
    return value


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"must be true or false, not {_shown(value)}")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str) or len(value) > LONGEST_NAME:
        raise ValueError(f"must be a string of at most {LONGEST_NAME} characters, not {_shown(value)}")
    return value


def _names(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or len(value) > MOST_NAMES:
        raise ValueError(f"must be a list of at most {MOST_NAMES} strings, not {_shown(value)}")
    names = tuple(_text(item) for item in value)
    if len(set(names)) != len(names):
        raise ValueError("must not name anything twice")
    return names


def _numbers(value: Any) -> tuple[float, ...]:
    if not isinstance(value, list) or len(value) > MOST_NAMES:
        raise ValueError(f"must be a list of at most {MOST_NAMES} numbers, not {_shown(value)}")
    return tuple(_number(item) for item in value)


def _shown(value: Any) -> str:
    """A JSON value for a message: short, and never a text out of the file."""
    for kind, name in ((str, "a string"), (list, "a list"), (dict, "an object")):
        if isinstance(value, kind):
            return f"{name} of length {len(value)}"
    return {"None": "null", "True": "true", "False": "false"}.get(str(value), str(value)[:24])


def optional(field: Field) -> Field:
    """The same field, where null is allowed."""
    return Field(
        lambda value: None if value is None else field.read(value),
        lambda value: None if value is None else field.write(value),
    )


def choice(*allowed: str) -> Field:
    """One of a few words."""

    def read(value: Any) -> str:
        if not isinstance(value, str) or value not in allowed:
            raise ValueError(f"must be one of {', '.join(allowed)}")
        return value

    return Field(read)


def mapping(fields: dict[str, Field], value: Any) -> dict[str, Any]:
    """A JSON object with exactly these fields, each read by its own."""
    if not isinstance(value, dict):
        raise ValueError(f"must be an object, not {_shown(value)}")
    left_out = {name: field.unwritten for name, field in fields.items() if field.unwritten is not _NOTHING}
    value = {**left_out, **value}
    unknown, missing = sorted(value.keys() - fields.keys()), sorted(fields.keys() - value.keys())
    if unknown or missing:
        shown = [name[:40] for name in unknown[:3]]
        raise ValueError(f"must have exactly its own fields; unknown: {shown}, missing: {missing[:3]}")
    parsed = {}
    for name, field in fields.items():
        if value[name] is field.unwritten:
            parsed[name] = field.unwritten
            continue
        try:
            parsed[name] = field.read(value[name])
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None
    return parsed


def written_fields(fields: dict[str, Field], owner: object) -> dict[str, Any]:
    """The inverse of `mapping`: attributes of `owner` by name, each written by its own field."""
    values = {name: getattr(owner, name) for name in fields}
    return {name: field.write(values[name]) for name, field in fields.items() if values[name] != field.unwritten}


def record(make: Callable[..., Any], fields: dict[str, Field]) -> Field:
    """An object that `make` builds from exactly these fields, passed by name."""
    return Field(lambda value: make(**mapping(fields, value)), lambda owner: written_fields(fields, owner))


def _share(value: Any) -> float:
    if not 0 <= (parsed := _number(value)) <= 1:
        raise ValueError(f"must lie from 0 to 1, not {_shown(value)}")
    return parsed


def _shares(value: Any) -> tuple[float, ...]:
    parsed = _numbers(value)
    if not all(0 <= part <= 1 for part in parsed):
        raise ValueError("must be numbers from 0 to 1")
    return parsed


def _columns(value: Any) -> tuple[str, ...]:
    names = _names(value)
    if not names or names != tuple(name for name in COLUMNS if name in names):
        raise ValueError("must be names of camdf.core.features.COLUMNS, in that order, at least one")
    return names


def _small_rows(value: Any) -> tuple[tuple[int, ...], ...]:
    """Rows of whole numbers from -127 to 127, one row a line of two hexadecimal digits a number."""
    if not isinstance(value, str) or len(value) > LONGEST_ROWS:
        raise ValueError(f"must be a string of at most {LONGEST_ROWS} characters, not {_shown(value)}")
    try:
        rows = [bytes.fromhex(line) for line in value.split("\n")]
    except ValueError:
        raise ValueError("must be lines of hexadecimal digits") from None
    return tuple(tuple(byte - 128 for byte in row) for row in rows)


def _as_text(rows: Any) -> str:
    return "\n".join(bytes(weight + 128 for weight in row).hex() for row in rows)


number = Field(_number, float)
share = Field(_share, float)
whole = Field(_whole, operator.index)
flag = Field(_flag, bool)
text = Field(_text)
names = Field(_names, list)
columns = Field(_columns, list)
numbers = Field(_numbers, lambda values: [float(value) for value in values])
shares = Field(_shares, numbers.write)
linear_model = record(
    LinearModel,
    {"columns": names, "coefficients": numbers, "intercept": number, "tools": names, "tool_coefficients": numbers},
)

text_signal = record(
    TextSignal,
    {"tools": names, "rates": shares, "scales": numbers, "weights": Field(_small_rows, _as_text)},
)
membership_model = record(
    MembershipModel,
    {
        "columns": names,
        "coefficients": numbers,
        "intercept": number,
        "base_rate": number,
        "tools": names,
        **dict.fromkeys(
            ("times_listed", "times_required", "levels", "slopes", "holds", "calibration", "missing", "sizes"), numbers
        ),
        "sharpness": number,
        "text": optional(text_signal),
        "text_coefficients": numbers,
        "flips": share,
        "doubt": optional(record(Doubt, {"precision": numbers, "of_tools": numbers})),
        "past_coefficients": replace(numbers, unwritten=()),
        "lowest_score": replace(share, unwritten=CLIP),
        "tools_per_list": replace(number, unwritten=0.0),
    },
)

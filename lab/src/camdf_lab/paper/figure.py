"""A number with its interval, and how the paper's printed numbers are written down here."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from camdf.errors import UsageError


@dataclass(frozen=True)
class Figure:
    """A number, ours or the paper's, with its 95% interval where there is one.

    `clear` says whether the number is clearly on one side of zero: from the interval, or from the paper's mark where it
    prints no interval; None where neither is known. A value of nan stands for "not measured" and prints as a dash.
    """

    value: float
    low: float | None = None
    high: float | None = None
    clear: bool | None = None

    @classmethod
    def between(cls, value: float, low: float, high: float) -> Figure:
        """A number with an interval, which decides whether the number is clear."""
        return cls(value, low, high, low > 0 or high < 0)

    @property
    def measured(self) -> bool:
        """False where the paper has a number and we have none."""
        return not math.isnan(self.value)


_NUMBER = r"[-+]?\d*\.?\d+"
_FIGURE = re.compile(
    rf"^(?P<value>{_NUMBER})(?P<star>\*?)"
    rf"(?:\s*\[(?P<low>{_NUMBER}),\s*(?P<high>{_NUMBER})\]|\s*\((?P<error>{_NUMBER})\))?$"
)


def figures(text: str, columns: Sequence[str], *, starred: bool = False) -> dict[tuple[str, str], Figure]:
    """The paper's numbers from a text table: one line a row, `label | number | number`, a dash where there is none.

    A number may carry an interval, `+0.048 [+0.019, +0.075]`, a standard error, `+0.64 (0.01)`, which stands for an
    interval of 1.96 of them to either side, or a star for an interval that excludes zero; with `starred`, a number
    without a star is one whose interval covers zero. An upper end printed as -0.000 is below zero; a lower end printed
    as +0.000 may be zero, and does not make a number clear.

    >>> figures("fixed-k | +0.12* | -0.01", ["d=0", "d=1"], starred=True)["fixed-k", "d=1"]
    Figure(value=-0.01, low=None, high=None, clear=False)
    """
    numbers = {}
    for line in filter(None, map(str.strip, text.strip().splitlines())):
        label, *values = (part.strip() for part in line.split("|"))
        for column, value in zip(columns, values, strict=True):
            if value not in {"", "-"}:
                numbers[label, column] = _parsed_figure(value, starred)
    return numbers


def _parsed_figure(text: str, starred: bool) -> Figure:
    match = _FIGURE.match(text)
    if match is None:
        raise UsageError(
            f"A figure must look like 0.31, +0.048*, +0.64 (0.01) or +0.048 [+0.019, +0.075]. Got {text!r} instead."
        )
    value = float(match["value"])
    if match["low"] is not None:
        low = float(match["low"])
        high = float(match["high"])
        return Figure(value, low, high, clear=low > 0 or math.copysign(1.0, high) < 0)
    if match["error"] is not None:
        reach = 1.96 * float(match["error"])
        return Figure.between(value, value - reach, value + reach)
    marked = bool(match["star"])
    return Figure(value, clear=marked if starred or marked else None)

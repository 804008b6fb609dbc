"""A study: one table or figure of the paper, declared as entries over cells, the paper's numbers beside them."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from camdf.core.resampling import paired_bootstrap
from camdf.lab.cells import Cell
from camdf.lab.replay import ORACLE, Outcomes


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
        """A number with an interval, which says whether it is clear."""
        return cls(value, low, high, low > 0 or high < 0)

    @property
    def measured(self) -> bool:
        """False where there is no number: the row stands for what the paper has and we do not."""
        return not math.isnan(self.value)

    def __str__(self) -> str:
        if not self.measured:
            return "-"
        text = f"{self.value:+.3f}" if self.clear is not None else f"{self.value:.3f}"
        if self.low is not None and self.high is not None:
            return f"{text} [{self.low:+.3f}, {self.high:+.3f}]"
        return text + ("*" if self.clear else "")


class Quantity(Protocol):
    """What an entry measures."""

    def of(self, outcomes: Sequence[Outcomes]) -> Figure:
        """The figure, from the outcomes of the entry's cells."""
        ...


@dataclass(frozen=True)
class Mean:
    """The mean of a measure for one policy, over tasks; over several cells, the mean of their means."""

    policy: str
    measure: str = "payoff"

    def of(self, outcomes: Sequence[Outcomes]) -> Figure:
        return Figure(float(np.mean([each.mean(self.policy, self.measure) for each in outcomes])))


@dataclass(frozen=True)
class Difference:
    """Mean payoff of a policy minus a baseline, with its paired bootstrap interval; cells of one domain are pooled.

    Tasks are resampled, or with `by_group` whole groups of near-copies.
    """

    policy: str
    baseline: str
    by_group: bool = False

    def of(self, outcomes: Sequence[Outcomes]) -> Figure:
        paired = np.mean(
            [each.values[self.policy][:, 0] - each.values[self.baseline][:, 0] for each in outcomes], axis=0
        )
        tested = ~np.isnan(paired)
        groups = outcomes[0].groups[tested] if self.by_group else None
        interval = paired_bootstrap(paired[tested], np.random.default_rng(0), groups=groups)
        return Figure.between(interval.mean, interval.low, interval.high)


@dataclass(frozen=True)
class ShareOfCells:
    """In which share of the cells a policy pays more than a baseline; `clearly` counts intervals above zero."""

    policy: str
    baseline: str
    clearly: bool = False

    def of(self, outcomes: Sequence[Outcomes]) -> Figure:
        found = [Difference(self.policy, self.baseline).of([each]) for each in outcomes]
        return Figure(float(np.mean([each.value > 0 and (not self.clearly or bool(each.clear)) for each in found])))


@dataclass(frozen=True)
class Computed:
    """A number that needs no replay: of the data itself, or of models fitted once."""

    compute: Callable[[], Figure]

    def of(self, outcomes: Sequence[Outcomes]) -> Figure:
        return self.compute()


@dataclass(frozen=True)
class Entry:
    """One number of a table: where it stands, what it measures on which cells, and what the paper has there.

    `contrast` is the difference that decides whether the paper's finding replicates, where the number itself is a level
    that another scorer or other labels would move anyway; `paper_contrast` is the paper's. For a difference both are
    the entry's own.
    """

    row: str
    column: str
    cells: tuple[Cell, ...]
    quantity: Quantity
    paper: Figure | None = None
    contrast: Quantity | None = None
    paper_contrast: Figure | None = None


@dataclass(frozen=True)
class Study:
    """A named table of the paper. `differs` says what is not as in the paper, in a sentence that its readers need."""

    name: str
    title: str
    where: str
    differs: str
    entries: tuple[Entry, ...]

    @property
    def cells(self) -> tuple[Cell, ...]:
        """Every cell that the study needs, once."""
        return tuple(dict.fromkeys(cell for entry in self.entries for cell in entry.cells))

    @property
    def rows(self) -> tuple[str, ...]:
        """Row labels in order."""
        return tuple(dict.fromkeys(entry.row for entry in self.entries))

    @property
    def columns(self) -> tuple[str, ...]:
        """Column labels in order."""
        return tuple(dict.fromkeys(entry.column for entry in self.entries))


@dataclass(frozen=True)
class Result:
    """An entry filled in.

    `margin` is the difference that was judged, and `paper_margin` the paper's: the entry's own numbers, or where these
    are levels, how far the study's leader is ahead.
    """

    study: str
    row: str
    column: str
    ours: Figure
    paper: Figure | None
    margin: Figure
    paper_margin: Figure | None
    verdict: str
    why: str


def fill(study: Study, outcomes: Mapping[Cell, Outcomes]) -> list[Result]:
    """Measure every entry of a study and judge it against the paper."""
    results = []
    for entry in study.entries:
        found = [outcomes[cell] for cell in entry.cells]
        ours = entry.quantity.of(found)
        margin, theirs = ours, entry.paper
        if entry.contrast is not None:
            margin, theirs = entry.contrast.of(found), entry.paper_contrast
        results.append(
            Result(study.name, entry.row, entry.column, ours, entry.paper, margin, theirs, *judge(margin, theirs))
        )
    return results


def judge(ours: Figure, paper: Figure | None) -> tuple[str, str]:
    """A plain verdict on a signed finding: replicates, same direction, differs, or cannot be compared; and why."""
    if paper is None:
        return "cannot be compared", "the paper prints no number here"
    if not ours.measured:
        return "cannot be compared", "the paper's number alone; nothing here corresponds to it"
    if ours.clear is None:
        return "cannot be compared", "a level, which another scorer or other labels move"
    same_side = (ours.value >= 0) == (paper.value >= 0)
    if paper.clear is None:
        if not ours.clear:
            return "cannot be compared", "no clear difference here, and the paper prints no interval"
        verdict = "same direction" if same_side else "differs"
        return verdict, "clear here; the paper prints no interval"
    if ours.clear and paper.clear:
        return ("replicates", "clear in both") if same_side else ("differs", "clear in both, with opposite signs")
    if not ours.clear and not paper.clear:
        return "replicates", "no clear difference in either"
    if not same_side:
        return "differs", "clear in the paper, absent here" if paper.clear else "clearly the other way here"
    return "same direction", "clear in the paper, not here" if paper.clear else "clearer here than in the paper"


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
    found = {}
    for line in filter(None, map(str.strip, text.strip().splitlines())):
        label, *values = (part.strip() for part in line.split("|"))
        for column, value in zip(columns, values, strict=True):
            if value not in {"", "-"}:
                found[label, column] = _figure(value, starred)
    return found


def _figure(text: str, starred: bool) -> Figure:
    match = _FIGURE.match(text)
    if match is None:
        raise ValueError(
            f"A figure must look like 0.31, +0.048*, +0.64 (0.01) or +0.048 [+0.019, +0.075]. Got {text!r} instead."
        )
    value = float(match["value"])
    if match["low"] is not None:
        low, high = float(match["low"]), float(match["high"])
        return Figure(value, low, high, clear=low > 0 or math.copysign(1.0, high) < 0)
    if match["error"] is not None:
        reach = 1.96 * float(match["error"])
        return Figure.between(value, value - reach, value + reach)
    return Figure(value, clear=bool(match["star"]) if starred or match["star"] else None)


def levels(
    columns: Mapping[str, Cell],
    policies: Mapping[str, str],
    paper: Mapping[tuple[str, str], Figure],
    leader: str,
    leader_row: str,
) -> Iterable[Entry]:
    """Entries for a table of mean payoffs: policies down, cells across.

    What is judged is the leader's margin over each row, because the level itself moves with the scorer; the oracle's
    lead is no finding and is not judged. `paper` has a star where the leader is clearly ahead of that row.
    """
    for row, policy in policies.items():
        for column, cell in columns.items():
            theirs = paper.get((row, column))
            leading = paper.get((leader_row, column))
            level = None if theirs is None else replace(theirs, clear=None)
            if policy in (leader, ORACLE):
                yield Entry(row, column, (cell,), Mean(policy), level)
                continue
            margin = None
            if theirs is not None and leading is not None:
                margin = Figure(leading.value - theirs.value, clear=theirs.clear)
            yield Entry(row, column, (cell,), Mean(policy), level, Difference(leader, policy), margin)

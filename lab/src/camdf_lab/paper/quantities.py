"""What an entry of a table measures on the outcomes of its cells."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np

from camdf.core.resampling import paired_bootstrap
from camdf.evaluation.replay import Outcomes
from camdf_lab.paper.figure import Figure


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
        return Figure(float(np.mean([outcome.mean(self.policy, self.measure) for outcome in outcomes])))


@dataclass(frozen=True)
class Difference:
    """Mean payoff of a policy minus a baseline, with its paired bootstrap interval; cells of one domain are pooled.

    The bootstrap resamples tasks, or with `by_group` whole groups of near-copies.
    """

    policy: str
    baseline: str
    by_group: bool = False

    def of(self, outcomes: Sequence[Outcomes]) -> Figure:
        paired = np.mean(
            [outcome.values[self.policy][:, 0] - outcome.values[self.baseline][:, 0] for outcome in outcomes], axis=0
        )
        tested = ~np.isnan(paired)
        groups = outcomes[0].groups[tested] if self.by_group else None
        interval = paired_bootstrap(paired[tested], groups=groups)
        return Figure.between(interval.mean, interval.low, interval.high)


@dataclass(frozen=True)
class WinRate:
    """The share of tasks on which a policy pays more than a baseline; over several cells, the mean of the shares."""

    policy: str
    baseline: str

    def of(self, outcomes: Sequence[Outcomes]) -> Figure:
        return Figure(float(np.mean([outcome.win_rate(self.policy, self.baseline) for outcome in outcomes])))


@dataclass(frozen=True)
class ShareOfCells:
    """The share of cells in which a policy pays more than a baseline; with `clearly`, where the interval is above 0."""

    policy: str
    baseline: str
    clearly: bool = False

    def of(self, outcomes: Sequence[Outcomes]) -> Figure:
        differences = [Difference(self.policy, self.baseline).of([outcome]) for outcome in outcomes]
        won = [one.value > 0 and (not self.clearly or bool(one.clear)) for one in differences]
        return Figure(float(np.mean(won)))


@dataclass(frozen=True)
class ExtremeOfCells:
    """The lowest or highest mean difference between a policy and a baseline among the cells."""

    policy: str
    baseline: str
    end: Literal["lowest", "highest"]

    def of(self, outcomes: Sequence[Outcomes]) -> Figure:
        means = [outcome.mean(self.policy) - outcome.mean(self.baseline) for outcome in outcomes]
        return Figure(min(means) if self.end == "lowest" else max(means))


@dataclass(frozen=True)
class StandardError:
    """The standard error of one policy's payoff over the pooled task and split records of one cell."""

    policy: str

    def of(self, outcomes: Sequence[Outcomes]) -> Figure:
        (only,) = outcomes
        return Figure(only.standard_error(self.policy))


@dataclass(frozen=True)
class Computed:
    """A number that needs no replay: it describes the data itself, or models that are fitted once."""

    compute: Callable[[], Figure]

    def of(self, outcomes: Sequence[Outcomes]) -> Figure:
        return self.compute()


@dataclass(frozen=True)
class NotMeasured:
    """For a row of the paper that has no counterpart here: a dash stands beside the paper's number."""

    def of(self, outcomes: Sequence[Outcomes]) -> Figure:
        return Figure(math.nan)

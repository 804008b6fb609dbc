"""What some tables measure besides means and paired differences."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from camdf.lab.replay import Outcomes
from camdf.lab.study import Figure


@dataclass(frozen=True)
class WinRate:
    """The share of tasks on which a policy pays more than a baseline; over several cells, the mean of the shares."""

    policy: str
    baseline: str

    def of(self, outcomes: Sequence[Outcomes]) -> Figure:
        return Figure(float(np.mean([each.win_rate(self.policy, self.baseline) for each in outcomes])))


@dataclass(frozen=True)
class StandardError:
    """The standard error of one policy's payoff over the pooled task and split records of one cell."""

    policy: str

    def of(self, outcomes: Sequence[Outcomes]) -> Figure:
        (only,) = outcomes
        return Figure(only.standard_error(self.policy))


@dataclass(frozen=True)
class ExtremeOfCells:
    """The lowest or highest mean difference between a policy and a baseline among the cells."""

    policy: str
    baseline: str
    end: Literal["lowest", "highest"]

    def of(self, outcomes: Sequence[Outcomes]) -> Figure:
        means = [each.mean(self.policy) - each.mean(self.baseline) for each in outcomes]
        return Figure(min(means) if self.end == "lowest" else max(means))


@dataclass(frozen=True)
class NotMeasured:
    """For a row of the paper that has no counterpart here: its number stands beside a dash."""

    def of(self, outcomes: Sequence[Outcomes]) -> Figure:
        return Figure(math.nan)

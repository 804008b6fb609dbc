"""How many labels are wrong? A bound from the data itself: how often the surest predictions are contradicted."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from camdf.core.rankings import Bools, Floats, LoggedTasks
from camdf.policies.models.membership import HeldOut
from camdf.policies.models.prior import KINDS, shipped_prior
from camdf.policies.models.warm_start import fit_warm

FEWEST_LABELS = 40
"""Smaller sets of sure predictions are not looked at: a lucky one would pass for clean labels."""

NORMAL_QUANTILE = 1.96
"""Of 97.5%: the two ends of an interval that holds 95%."""


@dataclass(frozen=True)
class LabelNoise:
    """An upper bound on the share of membership labels that were flipped.

    `rate` is the share of contradicted labels among the surest predictions and `at_most` the upper end of its 95%
    interval; `labels` is how many predictions that is. A task that is hard to read looks like a wrong label, so the
    true share may be lower. Labels that are wrong in a way that the scores foresee cannot be noticed at all.
    """

    rate: float
    at_most: float
    labels: int

    def share_of_tasks(self, logged: LoggedTasks) -> float:
        """The share of tasks with one wrong label or more, if `rate` of all labels are wrong wherever they stand."""
        if not len(logged):
            return 0.0
        return float((1.0 - (1.0 - self.rate) ** logged.rankings.lengths).mean())


def estimate_label_noise(logged: LoggedTasks) -> LabelNoise:
    """Bound the share of flipped labels by how often they contradict predictions that are nearly sure.

    Where a label is flipped with probability e, independently of everything else, a prediction that is right with
    probability r is contradicted with probability e + (1 - 2e)(1 - r). That is never below e, and comes close to it
    where r is close to 1. Predictions come from membership models that have not seen the task's group, and are taken by
    how sure they are: all of them, the surest half, the surest quarter, and so on. The set whose interval ends lowest
    is the tightest bound.
    """
    return noise_of(logged, fit_warm(logged, tuple(map(shipped_prior, KINDS))).held)


def noise_of(logged: LoggedTasks, held: HeldOut) -> LabelNoise:
    """The estimate from held-out predictions that are there already."""
    if not held.any:
        return LabelNoise(0.0, 1.0, 0)
    listed = logged.rankings.listed
    return _tightest_bound(held.probability[listed], logged.required[listed])


def _tightest_bound(probability: Floats, required: Bools) -> LabelNoise:
    """The tightest bound among sets of held-out predictions, one prediction and label a listed candidate."""
    surest_first = np.argsort(-np.abs(probability - 0.5), kind="stable")
    wrong = np.cumsum(((probability >= 0.5) != required)[surest_first])
    count = len(wrong)
    tightest = LabelNoise(0.0, 1.0, 0)
    while count and (count >= FEWEST_LABELS or count == len(wrong)):
        rate = float(wrong[count - 1] / count)
        at_most = upper_end(rate, count)
        if at_most < tightest.at_most:
            tightest = LabelNoise(rate, at_most, count)
        count //= 2
    return tightest


def upper_end(share: float, count: int) -> float:
    """Of Wilson's 95% interval for a share of `count` independent cases.

    >>> round(upper_end(0.0, 100), 3), round(upper_end(0.1, 100), 3)
    (0.037, 0.174)
    """
    square = NORMAL_QUANTILE**2 / count
    reach = NORMAL_QUANTILE * float(np.sqrt(share * (1 - share) / count + square / (4 * count)))
    return (share + square / 2 + reach) / (1 + square)

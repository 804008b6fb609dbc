"""The paired bootstrap: how sure a difference between two policies is, resampling tasks, or whole groups of tasks."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from camdf.core.groups import numbered_as_seen
from camdf.core.rankings import Floats
from camdf.errors import UsageError

RESAMPLES = 2000
"""The paper's number of resamples."""

LEVEL = 0.95


@dataclass(frozen=True)
class Interval:
    """A mean and its percentile interval."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.mean:+.3f} [{self.low:+.3f}, {self.high:+.3f}]"


def paired_bootstrap(
    differences: Floats,
    seed: int = 0,
    *,
    groups: npt.NDArray[Any] | None = None,
    resamples: int = RESAMPLES,
) -> Interval:
    """The mean of paired differences, one a task, with the 95% percentile interval of its bootstrap distribution.

    With `groups`, whole groups are drawn and the mean is taken over the tasks drawn: near-copies of a task then count
    as one piece of evidence. A group for every task is the bootstrap by task.

    >>> print(paired_bootstrap(np.array([0.1, 0.3, 0.2, 0.4])))
    +0.250 [+0.150, +0.350]
    """
    if differences.ndim != 1 or len(differences) == 0 or not np.isfinite(differences).all():
        raise UsageError("The 'differences' must be one finite number a task, at least one. Leave out untested tasks.")
    member = np.arange(len(differences)) if groups is None else numbered_as_seen(groups)
    if len(member) != len(differences):
        raise UsageError(f"The 'groups' must name one group a task. Got {len(member)} for {len(differences)} tasks.")
    sums = np.bincount(member, weights=differences)
    sizes = np.bincount(member).astype(np.float64)
    drawn = _drawn(len(sums), seed, resamples)
    means = np.einsum("bg,g->b", drawn, sums) / np.einsum("bg,g->b", drawn, sizes)
    low, high = np.quantile(means, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Interval(float(differences.mean()), float(low), float(high))


@lru_cache(maxsize=1)
def _drawn(groups: int, seed: int, resamples: int) -> Floats:
    """(resamples, groups): how often each group is drawn. Drawn once for the many intervals over the same tasks."""
    rng = np.random.default_rng(seed)
    return rng.multinomial(groups, np.full(groups, 1.0 / groups), size=resamples).astype(np.float64)

"""The paired bootstrap: how sure a difference between two policies is, resampling tasks, or whole groups of tasks."""

from __future__ import annotations

from collections.abc import Iterator
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

CONFIDENCE = 0.95

AT_A_TIME = 2**22
"""How many draws are in memory together: 32 MB, and one row where that is more."""

DRAWS_KEPT = 2**24
"""How many draws are kept for the next interval: those of 8,000 tasks."""


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
    draws = _kept_draws if len(sums) * resamples <= DRAWS_KEPT else _draws
    means = [
        np.einsum("bg,g->b", drawn, sums) / np.einsum("bg,g->b", drawn, sizes)
        for drawn in draws(len(sums), seed, resamples)
    ]
    low, high = np.quantile(np.concatenate(means), [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    return Interval(float(differences.mean()), float(low), float(high))


def _draws(groups: int, seed: int, resamples: int) -> Iterator[Floats]:
    """(resamples, groups): how often each group is drawn, in blocks of rows. The draws are those of one block."""
    rng = np.random.default_rng(seed)
    shares = np.full(groups, 1.0 / groups)
    rows = max(1, AT_A_TIME // groups)
    for before in range(0, resamples, rows):
        yield rng.multinomial(groups, shares, size=min(rows, resamples - before)).astype(np.float64)


@lru_cache(maxsize=1)
def _kept_draws(groups: int, seed: int, resamples: int) -> list[Floats]:
    """The same, drawn once for the many intervals over the same tasks."""
    return list(_draws(groups, seed, resamples))

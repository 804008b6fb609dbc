"""Choosing one threshold on validation payoff, among training quantiles or a grid that the caller gives."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from camdf.core.payoff import Payoff
from camdf.core.rankings import Bools, Floats, LoggedTasks
from camdf.core.stopping import first_stop

LARGEST = 1e100
"""Beyond any evidence: the thresholds of acquire-nothing and acquire-all. No number in a saved policy is larger."""

MOST_QUANTILES = 24


def between_quantiles(values: Floats) -> list[float]:
    """At most 24 cuts through `values`, rising, each half way between two distinct neighbors.

    A cut never coincides with a value that was seen, so rounding in another code path cannot flip a decision.
    """
    distinct = np.unique(np.round(values, 9))
    cuts = (distinct[1:] + distinct[:-1]) / 2
    if len(cuts) > MOST_QUANTILES:
        mass = np.searchsorted(np.sort(values), cuts) / len(values)
        levels = np.arange(1, MOST_QUANTILES + 1) / (MOST_QUANTILES + 1)
        cuts = np.unique(cuts[np.abs(mass[:, None] - levels).argmin(axis=0)])
    return [float(cut) for cut in cuts]


def falling_cutoffs(values: Floats, grid: Sequence[float] | None) -> list[float]:
    """Thresholds for 'acquire what reaches it', from acquire-nothing to acquire-all."""
    if grid is None:
        grid = between_quantiles(values)
    return [LARGEST, *sorted(grid, reverse=True), -LARGEST]


def best_cutoff(
    cutoffs: Sequence[float], acquire: Callable[[float], Bools], logged: LoggedTasks, payoff: Payoff
) -> float:
    """The cutoff with the highest mean payoff; the earlier of two that tie, so put those that acquire less first."""
    means = [payoff.of(logged, acquire(cutoff)).mean() for cutoff in cutoffs]
    return cutoffs[int(np.argmax(means))]


def best_stop_cutoff(
    evidence: Floats,
    logged: LoggedTasks,
    payoff: Payoff,
    cutoffs: Sequence[float],
    stops: Callable[[Floats, float], Bools],
) -> float:
    """The cutoff on stopping evidence with the highest mean payoff; the earlier of two that tie.

    `stops` says in which states (n, m) evidence (n, m) stops at a cutoff.
    """
    payoffs = payoff.by_depth(logged)
    rows = np.arange(len(logged))
    depths = (first_stop(stops(evidence, cutoff), logged.rankings.lengths) for cutoff in cutoffs)
    means = [payoffs[rows, depth].mean() for depth in depths]
    return cutoffs[int(np.argmax(means))]

"""Does a promised sufficiency hold, and what does it cost? Recalibrated many times on held-out tasks, fitted once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from camdf.core.groups import numbered
from camdf.core.payoff import Payoff
from camdf.core.rankings import Floats, Ints, LoggedTasks
from camdf.policies.by_set import ExpectedPayoffBySet
from camdf.policies.pressure import (
    highest_level,
    highest_pressure,
    leaving_pressures,
    lowest_pressure,
    sufficient_below,
    unit_weights,
)

LEVELS = (0.80, 0.90, 0.95)
BUDGETS = (1.0, 5.0)
RECALIBRATIONS = 1000
CALIBRATION_SHARE = 0.7
"""Of the held-out groups; the rest tests. More of them calibrate, since 0.95 needs at least 19."""

THRESHOLDS = (0.1, 0.3, 0.5, 0.7)


@dataclass(frozen=True, eq=False)
class Frontier:
    """Mean cost and sufficiency at every pressure where a set changes, from the highest pressure to the lowest."""

    pressure: Floats
    cost: Floats
    sufficiency: Floats


@dataclass(frozen=True)
class Coverage:
    """What a promised level gave over recalibrations, each measured on the tasks that did not calibrate.

    `units` groups calibrate. `refused` is the share of recalibrations that refused the level, and `highest` the mean of
    the highest level that they could promise. The rest is over the recalibrations that did promise: mean sufficiency
    with its standard error over recalibrations, the middle 90% of them, and mean cost; NaN where all refused.
    `kept` is what the guarantee bounds from below by `level`: 1 - mean loss, a refusal counting as no loss.
    """

    level: float
    units: int
    refused: float
    highest: float
    sufficiency: float
    error: float
    spread: tuple[float, float]
    cost: float
    kept: float


@dataclass(frozen=True)
class Spending:
    """What a budget found on the calibration tasks gives on the others: mean cost and sufficiency."""

    budget: float
    cost: float
    sufficiency: float


@dataclass(frozen=True, eq=False)
class Promises:
    """One fitted policy on held-out tasks: its frontier, the simple rules', and what promises and budgets gave.

    Means count every group once. `by_k` is a common top-k at k = 0 to m, and `by_score` a common score threshold; both
    are drawn in hindsight on the tasks shown, at every setting.
    """

    held_out: int
    groups: int
    frontier: Frontier
    by_k: Frontier
    by_score: Frontier
    coverage: tuple[Coverage, ...]
    spending: tuple[Spending, ...]


def promises(logged: LoggedTasks, policy: ExpectedPayoffBySet, seed: int = 0) -> Promises:
    """Fit a policy on half of the groups; recalibrate on random parts of the other half, and measure on its rest."""
    group, groups = numbered(logged.groups)
    taught = np.random.default_rng(seed).permutation(groups) < groups // 2
    policy.fit(logged.take(taught[group]), Payoff(0.1))
    held = logged.take(~taught[group])
    weights = unit_weights(held)
    rankings = held.rankings
    leaving = leaving_pressures(policy, rankings)
    leaving_by_k = np.where(rankings.listed, rankings.width - np.arange(rankings.width), 0.0)
    leaving_by_score = np.where(rankings.listed, 1.0 + rankings.scores, 0.0)
    draws = list(_draws(held, seed))
    return Promises(
        held_out=len(held),
        groups=numbered(held.groups)[1],
        frontier=nested_frontier(held, leaving, weights),
        by_k=nested_frontier(held, leaving_by_k, weights),
        by_score=nested_frontier(held, leaving_by_score, weights),
        coverage=tuple(_coverage(held, leaving, weights, draws, level) for level in LEVELS),
        spending=tuple(_spending(held, leaving, weights, draws, budget) for budget in BUDGETS),
    )


def nested_frontier(logged: LoggedTasks, leaving: Floats, weights: Floats) -> Frontier:
    """The whole frontier of a nested family, from where each candidate leaves (0: never in)."""
    share = weights / weights.sum()
    pressures = np.unique(np.append(leaving[leaving > 0], 0.0))[::-1]
    cost = _above(leaving.ravel(), (logged.rankings.costs * share[:, None]).ravel(), pressures)
    return Frontier(pressures, cost, _above(sufficient_below(logged, leaving), share, pressures))


def _above(places: Floats, amounts: Floats, pressures: Floats) -> Floats:
    """For every pressure, the sum of the amounts whose place is above it."""
    order = np.argsort(-places, kind="stable")
    total = np.concatenate([[0.0], np.cumsum(amounts[order])])
    result: Floats = total[np.searchsorted(-places[order], -pressures, side="left")]
    return result


def _draws(held: LoggedTasks, seed: int) -> Iterator[tuple[Ints, Ints]]:
    """Rows that calibrate and rows that test; no group is in both."""
    group, groups = numbered(held.groups)
    calibrating = min(groups - 1, round(CALIBRATION_SHARE * groups))
    for number in range(RECALIBRATIONS):
        chosen = np.random.default_rng([seed, number]).permutation(groups) < calibrating
        yield np.flatnonzero(chosen[group]), np.flatnonzero(~chosen[group])


def _coverage(
    held: LoggedTasks, leaving: Floats, weights: Floats, draws: Sequence[tuple[Ints, Ints]], level: float
) -> Coverage:
    below = sufficient_below(held, leaving)
    highest = []
    measured = []
    for calibrating, testing in draws:
        highest.append(highest_level(below[calibrating], weights[calibrating]))
        limit = highest_pressure(below[calibrating], weights[calibrating], level)
        if limit is not None:
            measured.append(_measured(held, leaving, below, weights, testing, np.nextafter(limit, 0.0)))
    units = round(float(weights[draws[0][0]].sum()))
    if not measured:
        nan = float("nan")
        return Coverage(
            level,
            units,
            refused=1.0,
            highest=float(np.mean(highest)),
            sufficiency=nan,
            error=nan,
            spread=(nan, nan),
            cost=nan,
            kept=1.0,
        )
    cost, sufficiency = np.array(measured).T
    promised = len(measured) / len(draws)
    low, high = np.quantile(sufficiency, (0.05, 0.95))
    return Coverage(
        level,
        units,
        refused=1.0 - promised,
        highest=float(np.mean(highest)),
        sufficiency=float(sufficiency.mean()),
        error=float(sufficiency.std() / np.sqrt(len(measured))),
        spread=(float(low), float(high)),
        cost=float(cost.mean()),
        kept=float(1.0 - promised * (1.0 - sufficiency).mean()),
    )


def _spending(
    held: LoggedTasks, leaving: Floats, weights: Floats, draws: Sequence[tuple[Ints, Ints]], budget: float
) -> Spending:
    below = sufficient_below(held, leaving)
    costs = held.rankings.costs
    measured = []
    for calibrating, testing in draws:
        pressure = lowest_pressure(leaving[calibrating], costs[calibrating], budget)
        measured.append(_measured(held, leaving, below, weights, testing, pressure))
    cost, sufficiency = np.array(measured).mean(axis=0)
    return Spending(budget, float(cost), float(sufficiency))


def _measured(
    held: LoggedTasks, leaving: Floats, below: Floats, weights: Floats, rows: Ints, pressure: float
) -> tuple[float, float]:
    """Mean cost and sufficiency of some tasks at one pressure."""
    share = weights[rows] / weights[rows].sum()
    cost = np.where(leaving[rows] > pressure, held.rankings.costs[rows], 0.0).sum(axis=1)
    return float((share * cost).sum()), float((share * (below[rows] > pressure)).sum())

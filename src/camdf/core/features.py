"""The public state of a prefix walk as named columns: the paper's feature map.

At depth t the first t candidates are selected, the rest remains, and the one at rank t + 1 is next. Every column is a
function of scores, costs, rank and cost pressure alone: nothing here can see which tools a task required.

The paper names four groups and counts 39 columns on Retail, but lists only the ten of CAM-DF-lite. The inventory below
is ours: 16 aggregates (9 of them without costs), 11 of the next candidate, 5 of the cost pressure, and one identity
column for each tool of a shared catalogue (`models.linear`), which is 7 on Retail.

Sums run in rank order (never pairwise, never through BLAS), so padding and batch size cannot change a bit. What
columns share is computed once, because one live decision is a few dozen small numpy calls and little else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TypeAlias

import numpy as np

from camdf.core.payoff import Payoff
from camdf.core.rankings import Floats, Rankings
from camdf.errors import UsageError

_TINY = 1e-300
"""Divisors are floored here, so that 0 / 0 is 0: at padding, and in a list of zero scores."""

HIGH_COST = 1.0 + 1e-9
"""A tool is 'high-cost' if it costs more than this multiple of its list's mean, so that equal costs are never high."""


@lru_cache(maxsize=256)
def _depths(width: int) -> tuple[Floats, Floats]:
    """0 .. m - 1, and the same with 1 for 0, to divide by."""
    depth = np.arange(width, dtype=np.float64)
    return depth, np.maximum(depth, 1.0)


def _spread_out(column: Floats, shape: tuple[int, ...]) -> Floats:
    """One value a list, (n, 1), as one value a state, (n, m)."""
    out = np.empty(shape)
    out[...] = column
    return out


class PrefixWalk:
    """The quantities that columns share: (n, m), or (n, 1) for a whole list."""

    def __init__(self, rankings: Rankings, payoff: Payoff) -> None:
        n, m = rankings.scores.shape
        depth, taken = _depths(m)
        length = np.maximum(rankings.lengths, 1.0)[:, None]
        pair = np.array((rankings.scores, rankings.costs))
        sums = np.zeros((4, n, m))
        sums[:2, :, 1:] = pair[:, :, :-1]
        sums[2:] = pair[:, :, ::-1]
        np.add.accumulate(sums, axis=2, out=sums)
        selected = sums[:2]
        remaining = np.maximum(sums[2:, :, ::-1], _TINY)
        self.pressure = payoff.cost_pressure
        self.scores, self.costs = _two(pair)
        self.selected_score, self.selected_cost = _two(selected)
        self.selected_score_mean, self.selected_cost_mean = _two(selected / taken)
        self.remaining_score, self.remaining_cost = _two(remaining)
        self.onward_score = sums[2, :, ::-1]
        self.remaining_score_mean, self.remaining_cost_mean = _two(remaining / np.maximum(length - depth, 1.0))
        self.total_score, self.total_cost = _two(remaining[:, :, :1])
        self.progress = depth / length
        self.relative_cost = self.costs / (self.total_cost / length)
        self.priced_cost = self.pressure * self.costs
        self.surplus = self.scores - self.priced_cost
        self.last_score = np.concatenate((self.scores[:, :1], self.scores[:, :-1]), axis=1)


def _two(pair: Floats) -> tuple[Floats, Floats]:
    """The score half and the cost half of a (2, n, m) array."""
    return pair[0], pair[1]


Column: TypeAlias = Callable[[PrefixWalk], Floats]
"""The values of one feature at every state: (n, m)."""

COLUMNS: dict[str, Column] = {}
"""Every column by name, in the order of the feature map. The docstring of each is its definition."""


def _column(compute: Column) -> Column:
    COLUMNS[compute.__name__] = compute
    return compute


# Aggregates of the selected and the remaining candidates, scores only.


@_column
def progress(walk: PrefixWalk) -> Floats:
    """t / m: the share of the list that is selected."""
    return walk.progress


@_column
def selected_score_sum(walk: PrefixWalk) -> Floats:
    """The sum of the selected scores."""
    return walk.selected_score


@_column
def selected_score_mean(walk: PrefixWalk) -> Floats:
    """The mean of the selected scores; 0 at depth 0."""
    return walk.selected_score_mean


@_column
def selected_score_last(walk: PrefixWalk) -> Floats:
    """The score of the last selected candidate; at depth 0 that of the first candidate."""
    return walk.last_score


@_column
def remaining_score_sum(walk: PrefixWalk) -> Floats:
    """The sum of the remaining scores."""
    return walk.remaining_score


@_column
def remaining_score_mean(walk: PrefixWalk) -> Floats:
    """The mean of the remaining scores."""
    return walk.remaining_score_mean


@_column
def remaining_score_max(walk: PrefixWalk) -> Floats:
    """The highest remaining score; in score order that of the next candidate."""
    return np.maximum.accumulate(walk.scores[:, ::-1], axis=1)[:, ::-1]


@_column
def remaining_score_share(walk: PrefixWalk) -> Floats:
    """The remaining scores as a share of all scores: the normalized remaining-score sum."""
    return walk.onward_score / walk.total_score


@_column
def first_score(walk: PrefixWalk) -> Floats:
    """The score of the list's first candidate: how sure the ranker is of anything."""
    return _spread_out(walk.scores[:, :1], walk.scores.shape)


# Aggregates with costs.


@_column
def selected_cost_sum(walk: PrefixWalk) -> Floats:
    """The cost of the selected candidates."""
    return walk.selected_cost


@_column
def selected_cost_share(walk: PrefixWalk) -> Floats:
    """The cost of the selected candidates as a share of the whole list's: the normalized selected cost."""
    return walk.selected_cost / walk.total_cost


@_column
def selected_cost_mean(walk: PrefixWalk) -> Floats:
    """The mean cost of the selected candidates; 0 at depth 0."""
    return walk.selected_cost_mean


@_column
def remaining_cost_sum(walk: PrefixWalk) -> Floats:
    """The cost of the remaining candidates."""
    return walk.remaining_cost


@_column
def remaining_cost_mean(walk: PrefixWalk) -> Floats:
    """The mean cost of the remaining candidates."""
    return walk.remaining_cost_mean


@_column
def selected_score_per_cost(walk: PrefixWalk) -> Floats:
    """Selected score over selected cost; 0 at depth 0."""
    return walk.selected_score / np.maximum(walk.selected_cost, _TINY)


@_column
def remaining_score_per_cost(walk: PrefixWalk) -> Floats:
    """Remaining score over remaining cost."""
    return walk.remaining_score / walk.remaining_cost


# The next candidate.


@_column
def next_score(walk: PrefixWalk) -> Floats:
    """The score of the next candidate."""
    return walk.scores


@_column
def next_cost(walk: PrefixWalk) -> Floats:
    """The cost of the next candidate."""
    return walk.costs


@_column
def next_score_per_cost(walk: PrefixWalk) -> Floats:
    """The next candidate's score over its cost."""
    return walk.scores / np.maximum(walk.costs, _TINY)


@_column
def next_high_cost(walk: PrefixWalk) -> Floats:
    """1 if the next candidate costs more than the list's mean, else 0."""
    return (walk.relative_cost > HIGH_COST).astype(np.float64)


@_column
def next_score_gap(walk: PrefixWalk) -> Floats:
    """The next score minus the one after it; the last candidate has 0 after it."""
    after = np.zeros(walk.scores.shape)
    after[:, :-1] = walk.scores[:, 1:]
    return walk.scores - after


@_column
def next_score_drop(walk: PrefixWalk) -> Floats:
    """The last selected score minus the next; 0 at depth 0."""
    return walk.last_score - walk.scores


@_column
def next_score_share(walk: PrefixWalk) -> Floats:
    """The next score as a share of the remaining scores."""
    return walk.scores / walk.remaining_score


@_column
def next_score_squared(walk: PrefixWalk) -> Floats:
    """The next score squared: scores are seldom linear in what they are worth."""
    return walk.scores * walk.scores


@_column
def next_score_times_cost(walk: PrefixWalk) -> Floats:
    """The next candidate's score times its cost."""
    return walk.scores * walk.costs


@_column
def next_score_times_progress(walk: PrefixWalk) -> Floats:
    """The next score times t / m."""
    return walk.scores * walk.progress


@_column
def next_relative_cost(walk: PrefixWalk) -> Floats:
    """The next candidate's cost over the list's mean cost."""
    return walk.relative_cost


# Cost pressure.


@_column
def cost_spread(walk: PrefixWalk) -> Floats:
    """The list's highest cost over its mean cost: its cost dispersion; 1 where all costs are equal."""
    return _spread_out(np.maximum.reduce(walk.relative_cost, axis=1, keepdims=True), walk.costs.shape)


@_column
def priced_next_cost(walk: PrefixWalk) -> Floats:
    """lambda times the next candidate's cost."""
    return walk.priced_cost


@_column
def priced_remaining_cost(walk: PrefixWalk) -> Floats:
    """lambda times the cost of the remaining candidates."""
    return walk.pressure * walk.remaining_cost


@_column
def next_surplus(walk: PrefixWalk) -> Floats:
    """The next score minus lambda times its cost: its surplus if scores were probabilities (Proposition 1)."""
    return walk.surplus


@_column
def remaining_surplus(walk: PrefixWalk) -> Floats:
    """The summed surplus of the remaining candidates that have one: what Proposition 2 would still collect."""
    gains = np.maximum(walk.surplus, 0.0)
    return np.add.accumulate(gains[:, ::-1], axis=1)[:, ::-1]


FULL: tuple[str, ...] = tuple(COLUMNS)
"""The 32 columns of the paper's first three groups."""

AGGREGATES: tuple[str, ...] = FULL[:16]
"""The 16 cost-inclusive public aggregates."""

SCORE_AGGREGATES: tuple[str, ...] = FULL[:9]
"""The 9 aggregates that no cost enters."""


def _subset(*names: str) -> tuple[str, ...]:
    """Some of the columns, in the order of the feature map: every model keeps that order."""
    return tuple(name for name in FULL if name in names)


LITE: tuple[str, ...] = _subset(
    "progress",
    "next_score",
    "next_score_per_cost",
    "next_score_gap",
    "remaining_score_max",
    "remaining_score_share",
    "remaining_score_per_cost",
    "selected_cost_share",
    "priced_next_cost",
    "next_high_cost",
)
"""Exactly the ten columns of CAM-DF-lite."""

COST_FREE: tuple[str, ...] = _subset(
    *SCORE_AGGREGATES,
    "next_score",
    "next_score_gap",
    "next_score_drop",
    "next_score_share",
    "next_score_squared",
    "next_score_times_progress",
)
"""The 15 columns of the MCP-Atlas unit-cost replay: no cost enters."""

COST_AUGMENTED: tuple[str, ...] = _subset(
    *COST_FREE,
    "next_cost",
    "next_relative_cost",
    "next_high_cost",
    "priced_next_cost",
    "cost_spread",
)
"""COST_FREE and five cost columns that are constant where all costs are equal, so both models coincide there."""


def state_features(rankings: Rankings, payoff: Payoff, columns: Sequence[str] = FULL) -> Floats:
    """The feature map: (columns, n, m), one value for every column at every nonterminal state t = 0 .. m - 1.

    Values at padding are finite and mean nothing; `rankings.listed` says which states exist.
    """
    shape = (len(columns), *rankings.scores.shape)
    if 0 in shape:
        return np.empty(shape)
    walk = PrefixWalk(rankings, payoff)
    try:
        return np.concatenate([COLUMNS[name](walk) for name in columns]).reshape(shape)
    except KeyError as error:
        raise UsageError(f"The 'columns' must be names in COLUMNS. Got {error} instead.") from None

"""The stopping problem along a ranking: frontier, gap, training targets (Algorithm A1) and the scan (Algorithm A2)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from camdf.core.payoff import Payoff
from camdf.core.rankings import Bools, Floats, Ints, LoggedTasks

WEIGHT_FLOOR = 1e-4
"""The paper's epsilon: added to every regret weight, so that states where nothing is at stake stay in training."""


def frontier(payoffs: Floats) -> Floats:
    """F_t = max over k >= t of U_k: the best payoff from depth t onward. Takes and gives (n, m + 1)."""
    best: Floats = np.maximum.accumulate(payoffs[:, ::-1], axis=1)[:, ::-1]
    return best


def gap(payoffs: Floats) -> Floats:
    """Delta_t = U_t - F_{t+1}: stopping now against the best later prefix in hindsight. (n, m + 1) to (n, m)."""
    return payoffs[:, :-1] - frontier(payoffs)[:, 1:]


def earliest_best_depth(payoffs: Floats) -> Ints:
    """(n,): the smallest depth of the highest payoff, which is min {t : U_t = F_t} (Lemma 1)."""
    depth: Ints = payoffs.argmax(axis=1)
    return depth


@dataclass(frozen=True, eq=False)
class Targets:
    """One training row for every nonterminal state: its label, its weight, and the gap behind both. All (n, m)."""

    gap: Floats
    stop: Bools
    weight: Floats
    state: Bools
    """True where the state exists (t < length); the rest is padding and must not be trained on."""


def hindsight_targets(logged: LoggedTasks, payoff: Payoff) -> Targets:
    """Algorithm A1: stop where the gap is not negative (a tie stops), weigh by |gap| + 0.0001."""
    delta = gap(payoff.by_depth(logged))
    return Targets(delta, delta >= 0, np.abs(delta) + WEIGHT_FLOOR, logged.rankings.listed)


def first_stop(stop: Bools, lengths: Ints) -> Ints:
    """Algorithm A2: walk each list to the first state that says stop, else to its end. (n, m) to (n,)."""
    ends = np.ones((stop.shape[0], stop.shape[1] + 1), dtype=bool)
    ends[:, :-1] = stop
    depth: Ints = np.minimum(ends.argmax(axis=1), lengths)
    return depth

"""The stopping problem along a ranking: frontier, gaps, training targets (Algorithm A1) and the scan (Algorithm A2)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from camdf.core.decisions import Decisions
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
    return _targets(gap(payoff.by_depth(logged)), logged)


def on_policy_targets(logged: LoggedTasks, payoff: Payoff, stop: Bools) -> Targets:
    """Algorithm A1 with the on-policy gap of a stop pattern (n, m) in place of the gap in hindsight.

    With the hindsight labels as the pattern these are the hindsight targets: the paper's target supposes that whoever
    goes on is an oracle from the next depth on.
    """
    return _targets(on_policy_gap(payoff.by_depth(logged), stop), logged)


def realized(payoffs: Floats, stop: Bools) -> Floats:
    """V_t: what a walk that goes on from depth t is paid; U_t where the pattern stops, else V_{t+1}, and V_m = U_m.

    (n, m + 1) and (n, m) to (n, m + 1). `payoffs` repeat past a list's end, so a pattern may say anything at padding.
    """
    depth = np.arange(payoffs.shape[1])
    stops_at = np.full(payoffs.shape, depth[-1])
    stops_at[:, :-1] = np.where(stop, depth[:-1], depth[-1])
    next_stop = np.minimum.accumulate(stops_at[:, ::-1], axis=1)[:, ::-1]
    paid: Floats = np.take_along_axis(payoffs, next_stop, axis=1)
    return paid


def on_policy_gap(payoffs: Floats, stop: Bools) -> Floats:
    """D_t = U_t - V_{t+1}: stopping now against walking on as the pattern itself would. (n, m + 1), (n, m) to (n, m).

    Theorem (payoff difference). Take one list, a stop pattern a with gaps D, and any other pattern b. Then

        V_0(b) - V_0(a) = sum over the states t that b visits of (b_t - a_t) * D_t,

    where a pattern is 1 where it stops and 0 where it goes on. Proof: with q_t(1) = U_t and q_t(0) = V_{t+1}(a), the
    sum of q_t(b_t) - V_t(a) over the states that b visits telescopes to the left side, and V_t(a) = q_t(a_t).

    Three consequences.
    - Improvement: if b stops exactly where D_t >= 0, no term is negative, so b pays no less than a, from any depth.
    - The paper's Theorem 1 is the case where a is the oracle: then V = F, D is the gap in hindsight, and regret is the
      sum of |gap| over the mistakes on the way.
    - Bayes: nothing is revealed on the way, so the theorem also holds for expectations given what the ranking shows,
      with E[D_t] for D_t. A pattern that stops exactly where its own E[D_t] >= 0 satisfies
      E[V_t] = max(E[U_t], E[V_{t+1}]), hence E[V_0] = max over k of E[U_k]: it is the best prefix rule there is. The
      gap in hindsight has no such fixed point, because E[max over k of U_k] exceeds max over k of E[U_k].
    """
    return payoffs[:, :-1] - realized(payoffs, stop)[:, 1:]


def _targets(delta: Floats, logged: LoggedTasks) -> Targets:
    return Targets(delta, delta >= 0, np.abs(delta) + WEIGHT_FLOOR, logged.rankings.listed)


def prefix_oracle(logged: LoggedTasks, payoff: Payoff) -> Decisions:
    """The earliest prefix with the highest payoff of each task: a bound for policies that stop along the ranking.

    A function and no `Policy`, because it reads the required tools, which no policy may.
    """
    return Decisions.prefix(logged.rankings, earliest_best_depth(payoff.by_depth(logged)))


def first_stop(stop: Bools, lengths: Ints) -> Ints:
    """Algorithm A2: walk each list to the first state that says stop, else to its end. (n, m) to (n,)."""
    ends = np.ones((stop.shape[0], stop.shape[1] + 1), dtype=bool)
    ends[:, :-1] = stop
    depth: Ints = np.minimum(ends.argmax(axis=1), lengths)
    return depth

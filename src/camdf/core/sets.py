"""The best set of candidates when each is required with a known probability: exact at any prices if independently.

Notation: p_j is the probability that candidate j is required, S(B) the sum of log(1 - p_j) over a set B, and h the
probability that the list holds all required tools. A task requires at least one tool, hence the correction by S(all):

    P(required within A) = h * (exp(S(not in A)) - exp(S(all))) / (1 - exp(S(all)))

Under the exact payoff the best set is a cut of the order by -log(1 - p_j) / c_j, largest first. For with W(A) the sum
of -log(1 - p_j) over A and C(A) its cost, the payoff is convex in (W, C), so a vertex of the hull of all (W, C) is
best; that hull is a zonotope, and its vertices where W is high and C low are exactly those cuts. Under the partial
payoff expected value is additive, and the best set keeps j where E[1{j required} / number required] >= lambda * c_j.

With recourse r (`Payoff.recourse`) a set that misses k required tools is worth r^k where the list holds all, else 0.
With m = 1 - r and T(A) the product of (1 - m * p_j) over what is not in A,

    E[r^missed] = h * (T(A) - exp(S(all))) / (1 - exp(S(all))).

The proof holds with -log(1 - m * p_j) in place of -log(1 - p_j), so the best set is a cut of the order by
-log(1 - m * p_j) / c_j. Under the partial payoff the best set keeps j where m times its expected share is at least
lambda * c_j.

Tasks need not take their tools independently: where every task needs two, no single tool suffices however likely each
is. A `SizeLaw` says so: the required set is R with a chance proportional to g(|R|) times the product of p_j / (1 - p_j)
over R. With g = 1 from one tool on that is independence, given that something is required (`AT_LEAST_ONE`). All sums
over sets run over their sizes: e(k, s), the sum over all sets of s of the first k candidates, is the running sum over j
of odds_j * e(j - 1, s - 1). Cuts are taken in the order above, which is best under independence.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from camdf.core.probability import logit, sigmoid
from camdf.core.rankings import Bools, Floats, Ints
from camdf.core.sums import before_each, over_columns

SMALLEST = 1e-9
"""Probabilities are kept this far from 0 and 1."""

LOWEST_COST = 1e-300
"""Costs are floored here before they divide: padding costs 0, and a quotient must stay finite."""

TINY = 1e-300
"""Sums are floored here before they divide: only an empty list has one of 0."""

CLOSE = 1e-9
"""A shift is found once it is known this well."""

MOST_STEPS = 60
"""Halving alone finds a shift in so many steps."""

SIZES = 13
"""Sets of this many tools and larger ones count alike."""


class SizeLaw(NamedTuple):
    """How many tools a task requires: `weights[s - 1]` is g(s), up to a common factor; the last serves larger sets."""

    weights: tuple[float, ...]

    def by_size(self) -> Floats:
        """(SIZES + 1,): g(0) = 0, g(1), and so on."""
        return np.array([0.0, *self.weights])


AT_LEAST_ONE = SizeLaw((1.0,) * SIZES)
"""Independence, given that at least one tool is required."""


@lru_cache(maxsize=64)
def _nodes(missing: tuple[float, ...]) -> tuple[Floats, Floats]:
    """Gauss-Legendre on [0, 1]: t - 1, and the weights times E[t^M], with t = 0 of weight 0 as first of 33 nodes.

    Made on first use, because numpy loads polynomials late.
    """
    nodes, weights = np.polynomial.legendre.leggauss(32)
    t = (nodes + 1.0) / 2.0
    return np.append(-1.0, t - 1.0), np.append(0.0, np.polynomial.polynomial.polyval(t, missing) * weights / 2.0)


def shift_to_expect(log_odds: Floats, listed: Bools, wanted: Floats) -> Floats:
    """(n,): what to add to the log odds of each list so that it expects `wanted` required candidates, less than all.

    With q the wanted share of the list, the shift lies between logit(q) less the largest log odds and logit(q) less the
    least. There Newton's method finds it on the logit of the expected share; a step that leaves what is left of the
    interval goes to its middle instead. A list that has its shift keeps it, so none depends on the others of a batch.
    An empty list has the shift 0.
    """
    length = np.maximum(np.add.reduce(listed, axis=1), 1.0)
    share = wanted / length
    target = logit(share, SMALLEST)
    low = target - np.maximum.reduce(log_odds, axis=1, where=listed, initial=-np.inf)
    high = target - np.minimum.reduce(log_odds, axis=1, where=listed, initial=np.inf)
    low = np.where(np.isfinite(low), low, 0.0)
    high = np.where(np.isfinite(high), high, 0.0)
    shift = low
    for _ in range(MOST_STEPS):
        chance = sigmoid(log_odds + shift[:, None]) * listed
        expected = np.add.accumulate(chance, axis=1)[:, -1] / length
        slope = np.add.accumulate(chance * (1.0 - chance), axis=1)[:, -1] / length
        low = np.where(expected < share, shift, low)
        high = np.where(expected > share, shift, high)
        step = (target - logit(expected, SMALLEST)) * expected * (1.0 - expected) / np.maximum(slope, TINY)
        then = np.where((shift + step >= low) & (shift + step <= high), shift + step, (low + high) / 2.0)
        moving = (high - low > CLOSE) & (np.abs(then - shift) > CLOSE)
        if not moving.any():
            break
        shift = np.where(moving, then, shift)
    return shift


def log_not_required(probability: Floats, listed: Bools) -> Floats:
    """(n, m): log(1 - p), 0 at padding."""
    log_not: Floats = np.log1p(-np.minimum(np.maximum(probability, SMALLEST), 1.0 - SMALLEST)) * listed
    return log_not


def value_order(probability: Floats, costs: Floats, listed: Bools, recourse: float = 0.0) -> tuple[Ints, Floats]:
    """The order in which an exact payoff takes candidates, (n, m) positions, and log(1 - p) in that order."""
    log_not = log_not_required(probability, listed)
    # No key is above 0, that of padding: it stays last, because the sort is stable.
    keys = _log_kept(log_not, recourse) if recourse else log_not
    order: Ints = (keys / np.maximum(costs, LOWEST_COST)).argsort(axis=1, kind="stable")
    return order, log_not[np.arange(len(order))[:, None], order]


def sufficiency_by_cut(log_not: Floats, law: SizeLaw = AT_LEAST_ONE) -> Floats:
    """(n, m + 1): P(required within the first k | the list holds all, at least one is required), k = 0 to m."""
    left_out = _left_out(log_not)
    if law == AT_LEAST_ONE:  # in closed form what the sums over sizes give
        return _given_any(left_out, left_out[:, :1])
    of_first = size_chances(log_not)
    within = over_columns(of_first * law.by_size()[:, None, None])
    return within * left_out / np.maximum(within[:, -1:], TINY)


def worth_by_cut(log_not: Floats, recourse: float, law: SizeLaw = AT_LEAST_ONE) -> Floats:
    """(n, m + 1): E[recourse^missed | the list holds all, at least one is required] of the first k, k = 0 to m.

    Where a law of sizes is given, more than 13 missed tools count as 13.
    """
    if law == AT_LEAST_ONE:
        return _given_any(_left_out(_log_kept(log_not, recourse)), _left_out(log_not)[:, :1])
    of_first = size_chances(log_not)
    of_rest = size_chances(log_not[:, ::-1])[:, :, ::-1]
    whole = over_columns(of_first[:, :, -1:] * law.by_size()[:, None, None])
    kept = of_rest * (recourse ** np.arange(SIZES + 1.0))[:, None, None]
    return _over_sizes(of_first, kept, law.by_size()) / np.maximum(whole, TINY)


def size_chances(log_not: Floats) -> Floats:
    """(SIZES + 1, n, m + 1): how likely 0, 1, 2, ... of the first k candidates are required, if independently.

    The last of them is that of `SIZES` or more. Candidates stand in any order, with log(1 - p) each.
    """
    odds = np.expm1(-log_not)
    none = np.exp(before_each(log_not))
    chances = np.empty((SIZES + 1, *none.shape))
    ways = np.ones(none.shape)
    for size in range(SIZES):
        chances[size] = ways * none
        ways = before_each(odds * ways[:, :-1])
    chances[SIZES] = np.maximum(1.0 - over_columns(chances[:SIZES]), 0.0)
    return chances


def _over_sizes(some: Floats, others: Floats, by_size: Floats) -> Floats:
    """(n, k): the sum over sizes a and b of by_size[a + b] * some[a] * others[b]; larger sums count as the last."""
    sizes = np.arange(SIZES + 1)
    together = by_size[np.minimum(sizes[:, None] + sizes, SIZES)]
    inner = np.zeros(others.shape)
    for size in sizes:
        inner += together[:, size, None, None] * others[size]
    return over_columns(some * inner)


def _log_kept(log_not: Floats, recourse: float) -> Floats:
    """log(1 - (1 - recourse) * p), the log of what leaving a candidate out keeps of the value, from log(1 - p)."""
    kept: Floats = np.log1p((1.0 - recourse) * np.expm1(log_not))
    return kept


def _left_out(logs: Floats) -> Floats:
    """(n, m) to (n, m + 1): the exponential of the sum over all that the first k leave out."""
    taken = before_each(logs)
    left_out: Floats = np.exp(taken[:, -1:] - taken)
    return left_out


def _given_any(value: Floats, none: Floats) -> Floats:
    """An expected value, given that at least one is required: where none is, with that chance, every set is worth 1."""
    # The floor is below what one candidate of the smallest probability gives, so only an empty list meets it.
    given: Floats = (value - none) / np.maximum(1.0 - none, SMALLEST / 2)
    return np.maximum(given, 0.0)


def expected_shares(
    probability: Floats, listed: Bools, missing: tuple[float, ...], law: SizeLaw = AT_LEAST_ONE
) -> Floats:
    """(n, m): E[1{j required} / number required], given that at least one is.

    With M required tools outside the list, `missing[k]` = P(M = k): the expectation is the integral over t in [0, 1] of
    p_j * E[t^M] * product over i != j of (1 - p_i + p_i t), a polynomial in t. Gauss-Legendre with 32 nodes is exact up
    to degree 63, and far beyond it as good as exact. At t = 0 the product over all is P(none is required).

    Under another law of sizes it is a sum over the sizes of what stands before j and after it. A task whose list holds
    none of its tools then weighs as one that needs a single tool.
    """
    p = np.minimum(np.maximum(probability, SMALLEST), 1.0 - SMALLEST) * listed
    if law != AT_LEAST_ONE:
        return _shares_by_law(p, missing, law)
    below_one, weights = _nodes(missing)
    factors = p[:, :, None] * below_one
    factors += 1.0
    product = np.multiply.reduce(factors, axis=1)
    others = np.add.reduce((product * weights)[:, None] / factors, axis=2)
    none = product[:, :1] * missing[0]
    result: Floats = p * others / np.maximum(1.0 - none, SMALLEST)
    return result


def _shares_by_law(p: Floats, missing: tuple[float, ...], law: SizeLaw) -> Floats:
    log_not = np.log1p(-p)
    before = size_chances(log_not)
    after = size_chances(log_not[:, ::-1])[:, :, ::-1]
    number = np.arange(1.0, SIZES + 1.0)
    share_of_one = sum(chance / (number + outside) for outside, chance in enumerate(missing))
    gain = np.append(np.array(law.weights) * share_of_one, 0.0)  # of a set of one more than 0, 1, 2, ... others
    gain[-1] = gain[-2]
    weight = law.by_size()
    weight[0] = (1.0 - missing[0]) * weight[1]
    whole = over_columns(before[:, :, -1:] * weight[:, None, None])
    shares: Floats = p * _over_sizes(before[:, :, :-1], after[:, :, 1:], gain) / np.maximum(whole, TINY)
    return shares


def leaving_cuts(worth: Floats, cost: Floats, lengths: Ints) -> Floats:
    """(n, m): the slope of the least concave majorant of worth against cost, cut by cut; 0 past its top.

    argmax over k of worth[k] - L * cost[k] reaches past cut k exactly where that slope exceeds L. From each vertex the
    next one is where the line from it is steepest, and of equally steep ones the last.
    """
    tasks, cuts = worth.shape
    place = np.arange(cuts)
    leaving = np.zeros((tasks, cuts - 1))
    rows = np.arange(tasks)
    here = np.zeros(tasks, dtype=np.int64)
    while len(rows):
        run = cost[rows] - cost[rows, here][:, None]
        later = (place > here[:, None]) & (place <= lengths[rows, None]) & (run > 0)
        rise = worth[rows] - worth[rows, here][:, None]
        slope = np.where(later, rise / np.where(later, run, 1.0), -np.inf)
        then = cuts - 1 - slope[:, ::-1].argmax(axis=1)
        steepest = slope[np.arange(len(rows)), then]
        goes = steepest > 0
        rows = rows[goes]
        here = here[goes]
        then = then[goes]
        steepest = steepest[goes]
        passed = (place[:-1] >= here[:, None]) & (place[:-1] < then[:, None])
        leaving[rows] = np.where(passed, steepest[:, None], leaving[rows])
        here = then
    # Slopes that are equal but for rounding may rise by it; cuts are nested.
    result: Floats = np.minimum.accumulate(leaving, axis=1)
    return result

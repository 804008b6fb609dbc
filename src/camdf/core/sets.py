"""The best set of candidates when each is required with a known probability, independently: exact, at any prices.

Notation: p_j is the probability that candidate j is required, S(B) the sum of log(1 - p_j) over a set B, and h the
probability that the list holds all required tools. A task requires at least one tool, hence the correction by S(all):

    P(required within A) = h * (exp(S(not in A)) - exp(S(all))) / (1 - exp(S(all)))

Under the exact payoff the best set is a cut of the order by -log(1 - p_j) / c_j, largest first. For with W(A) the sum
of -log(1 - p_j) over A and C(A) its cost, the payoff is convex in (W, C), so a vertex of the hull of all (W, C) is
best; that hull is a zonotope, and its vertices where W is high and C low are exactly those cuts. Under the partial
payoff expected value is additive, and the best set keeps j where E[1{j required} / number required] >= lambda * c_j.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from camdf.core.rankings import Bools, Floats, Ints

SMALLEST = 1e-9
"""Probabilities are kept this far from 0 and 1."""


@lru_cache(maxsize=1)
def _nodes() -> tuple[Floats, Floats]:
    """Gauss-Legendre on [0, 1]: 32 nodes and their weights. Made on first use, because numpy loads polynomials late."""
    nodes, weights = np.polynomial.legendre.leggauss(32)
    return (nodes + 1.0) / 2.0, weights / 2.0


def value_order(probability: Floats, costs: Floats, listed: Bools) -> tuple[Ints, Floats]:
    """The order in which an exact payoff takes candidates, (n, m) positions, and log(1 - p) in that order."""
    log_not = np.log1p(-np.minimum(np.maximum(probability, SMALLEST), 1.0 - SMALLEST)) * listed
    with np.errstate(over="ignore"):  # a candidate that costs next to nothing goes first
        keys = np.where(listed, log_not / np.where(listed, costs, 1.0), 1.0)
    order: Ints = keys.argsort(axis=1, kind="stable")
    return order, log_not[np.arange(len(order))[:, None], order]


def sufficiency_by_cut(log_not: Floats) -> Floats:
    """(n, m + 1): P(required within the first k | the list holds all, at least one is required), k = 0 to m."""
    taken = np.zeros((log_not.shape[0], log_not.shape[1] + 1))
    np.add.accumulate(log_not, axis=1, out=taken[:, 1:])
    everything = taken[:, -1:]
    none = np.exp(everything)
    left = np.exp(np.minimum(everything - taken, 0.0))
    # The floor is below what one candidate of the smallest probability gives, so only an empty list meets it.
    chance: Floats = (left - none) / np.maximum(1.0 - none, SMALLEST / 2)
    return np.minimum(np.maximum(chance, 0.0), 1.0)


def expected_shares(probability: Floats, listed: Bools, missing: Floats) -> Floats:
    """(n, m): E[1{j required} / number required], given that at least one is.

    With M required tools outside the list, `missing[k]` = P(M = k): the expectation is the integral over t in [0, 1] of
    p_j * E[t^M] * product over i != j of (1 - p_i + p_i t), a polynomial in t. Gauss-Legendre with 32 nodes is exact up
    to degree 63, and far beyond it as good as exact.
    """
    p = np.where(listed, np.clip(probability, SMALLEST, 1.0 - SMALLEST), 0.0)
    t, weights = _nodes()
    others = np.log(1.0 - p[None] * (1.0 - t)[:, None, None])
    total = np.cumsum(others, axis=2)[:, :, -1:]
    outside = np.polynomial.polynomial.polyval(t, missing) * weights
    terms = np.exp(total - others) * outside[:, None, None]
    share = p * np.cumsum(terms, axis=0)[-1]
    none = np.exp(np.cumsum(np.log1p(-p), axis=1)[:, -1:]) * missing[0]
    result: Floats = share / np.maximum(1.0 - none, SMALLEST)
    return result

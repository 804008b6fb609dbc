"""How likely is a task to need no tool? Learned from held-out predictions, where some task is known to need none.

The law of set sizes speaks of tasks that need something. If it went on to the empty set, that set's log odds would be
log g(0) plus

    o(x) = log P(nothing) - log of the sum over sizes s from 1 on of g(s) * P(s candidates),

with P as if candidates were independent. Labels may say more, since a list without a good match looks different:

    log odds that a task needs nothing = a + b * o(x) + w . (what describes the list),

around a law of sizes that begins at 0: a is log g(0), b is 1, and w is 0. A log without a task that needs nothing does
not say whether there are none or whether they were left out when it was written, and a few of them may be wrong labels:
nothing is learned from fewer than five, or fewer than one in twenty.
"""

from __future__ import annotations

import numpy as np

from camdf.core.rankings import Bools, Floats, LoggedTasks
from camdf.core.sets import TINY, SizeLaw, log_not_required, size_chances
from camdf.core.sums import before_each, over_columns
from camdf.policies.models.posterior import Belief, Fitted, Rows, most_likely
from camdf.policies.models.set_law import SetLaw, sharpened

LEVEL = -3.0
"""Log g(0), where g(1) is 1 or so: one task in twenty needs nothing."""

SPREADS = (2.0, 0.25, 0.5)
"""How far a, b and each of w are expected to be from that, in standard deviations."""

FEWEST = 5
LEAST_SHARE = 0.05
"""With fewer tasks that need nothing, or a smaller share of them, nothing is learned."""

SUREST = 30.0
"""The odds of the empty set are bounded here: a list without candidates has none."""


def empty_set_odds(probability: Floats, listed: Bools, law: SizeLaw, sharpness: float) -> Floats:
    """(n,): o(x) of every task, whose candidates are required with these probabilities."""
    log_not = log_not_required(sharpened(probability, sharpness), listed)
    by_size = np.array(law.weights)[:, None, None] * size_chances(log_not)[1:, :, -1:]
    odds: Floats = before_each(log_not)[:, -1] - np.log(np.maximum(over_columns(by_size)[:, 0], TINY))
    return np.minimum(np.maximum(odds, -SUREST), SUREST)


def tasks_without_need(logged: LoggedTasks) -> Bools:
    """(n,): the tasks that need nothing; none of them where they are too few to learn from."""
    needs_none: Bools = logged.n_required == 0
    count = int(needs_none.sum())
    if count < FEWEST or count < LEAST_SHARE * len(logged):
        return np.zeros_like(needs_none)
    return needs_none


def fit_none(
    probability: Floats, listed: Bools, described: Floats, needs_none: Bools, weights: Floats, law: SetLaw
) -> Floats:
    """a, b and w (2 + columns,): from held-out probabilities, standardized columns of each list, and labels."""
    columns = described.shape[1]
    start = np.append([LEVEL, 1.0], np.zeros(columns))
    spreads = np.append(SPREADS[:2], np.full(columns, SPREADS[2]))
    before = Belief(Fitted(start, np.zeros(0), np.zeros(0)), np.diag(spreads**-2.0), np.zeros((0, 2, 2)))
    odds = empty_set_odds(probability, listed, law.sizes, law.sharpness)
    rows = Rows.without_tools(
        dense=np.column_stack([np.ones(len(odds)), odds, described]),
        labels=needs_none.astype(np.float64),
        weights=weights,
    )
    return most_likely(rows, before, 0.0).theta

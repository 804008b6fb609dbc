"""What whoever asks has needed before: a column for every candidate, from this user's own past tasks.

Of n past tasks n_u are this user's, and c_j of those needed tool j. Then

    own_j = logit((c_j + r_j) / (n_u + 1)) - logit(r_j),        r_j = (how many of all n needed j + 1/2) / (n + 1).

It is 0 for a user without past tasks, and for a tool that past tasks could not have needed. A policy adds a multiple of
it to the log odds of its model, which itself knows nothing of users: so one user's tasks change nothing that is decided
for others, beyond the r_j that all share. The multiple is near 1, unless labels tell otherwise, and it is 0 where
held-out labels do not clearly speak for any. What is said of a task that is learned from comes from the other groups:
where a log's groups are its users, nothing can be learned of them.
"""

from __future__ import annotations

import numpy as np

from camdf.core.groups import numbered
from camdf.core.probability import logit, sigmoid
from camdf.core.rankings import Floats, Ints, LoggedTasks, Rankings
from camdf.policies.models.past_tasks import PastTasks

SPREAD = 0.5
"""How far the multiple is expected to be from 1, as a standard deviation."""

SUREST = 1e-12
"""Probabilities are kept this far from 0 and 1 while the column is added to their log odds."""

FIRM = 1e9
"""The precision of a coefficient that labels cannot move."""


def own_column(past: PastTasks, rankings: Rankings) -> Floats:
    """(n, m): what each task's user needed before."""
    nobody = np.zeros(0, dtype=np.int64)
    return _column(past, rankings, [nobody] * len(rankings))


def own_left_out(past: PastTasks, rankings: Rankings) -> Floats:
    """(n, m): the same for these very tasks, each from the other groups."""
    group, groups = numbered(past.groups)
    by_group = np.argsort(group, kind="stable")
    members = np.split(by_group, np.searchsorted(group[by_group], np.arange(1, groups)))
    return _column(past, rankings, [members[number] for number in group.tolist()])


def with_own(probability: Floats, own: Floats, multiple: float) -> Floats:
    """The probabilities with a multiple of the column added to their log odds; where it is 0 they stay to the bit."""
    moved = sigmoid(logit(probability, SUREST) + multiple * own)
    return np.where(own == 0, probability, moved)


def fit_own(logged: LoggedTasks, probability: Floats, flips: float) -> float:
    """The multiple that held-out probabilities (n, m) and labels speak for; 0 where none clearly helps."""
    from camdf.policies.models.posterior import Belief, Fitted, Rows, log_loss, most_likely
    from camdf.policies.models.warm_start import SURE, Fall

    listed = logged.rankings.listed
    column = own_left_out(PastTasks.all_of(logged), logged.rankings)[listed]
    if not column.any():
        return 0.0
    labels = logged.required[listed].astype(np.float64)
    before = logit(probability[listed], SUREST)
    rows = Rows.without_tools(np.column_stack([before, column]), labels, np.ones(len(labels)))
    expected = Fitted(np.array([1.0, 1.0]), np.zeros(0), np.zeros(0))
    belief = Belief(expected, np.diag([FIRM, SPREAD**-2.0]), np.zeros((0, 2, 2)))
    multiple = float(most_likely(rows, belief, flips).theta[1])
    group, groups = numbered(logged.groups)
    of_row = np.repeat(group, logged.rankings.lengths)

    def losses(log_odds: Floats) -> Floats:
        return np.bincount(of_row, weights=log_loss(log_odds, labels, flips), minlength=groups).astype(np.float64)

    fall = Fall.of(losses(before), losses(before + multiple * column))
    if multiple <= 0 or not fall.is_clear(SURE):
        return 0.0
    return multiple


def _column(past: PastTasks, rankings: Rankings, left_out: list[Ints]) -> Floats:
    """(n, m), where the past tasks of these rows do not count, by task."""
    column = np.zeros(rankings.scores.shape)
    if rankings.users is None or not past.users:
        return column
    place = past.places(rankings)
    for row, user in enumerate(rankings.users.tolist()):
        mine = np.setdiff1d(past.tasks_of(user), left_out[row])
        if not len(mine):
            continue
        others = past.totals - past.times_needed(left_out[row])
        rate = (others + 0.5) / (len(past) - len(left_out[row]) + 1.0)
        own = (past.times_needed(mine) + rate) / (len(mine) + 1.0)
        more = np.append(logit(own, SUREST) - logit(rate, SUREST), 0.0)
        column[row] = more[place[row]]
    return column

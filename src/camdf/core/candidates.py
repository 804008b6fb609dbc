"""What a list says about each of its candidates, as named columns: the inputs of a membership model.

Where `features` describes the states of a walk, these columns describe candidates: no cost and no cost pressure enters,
so what is learned from them holds at any price. A candidate's history is how often it was listed and how often it was
then required in the training tasks, whose groups are weighed down; a tool that was never seen has none, and counts as
an average one.

Equal scores say the same: among them rank is the order of the catalogue, so what is read from it is averaged over them.

Sums run in rank order and nothing goes through BLAS, so padding and batch size cannot change a bit.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple, TypeAlias

import numpy as np

from camdf.core.groups import numbered, sizes_of
from camdf.core.probability import CLIP, logit
from camdf.core.rankings import Bools, Floats, Ints, Rankings, Strings

ROUNDING = 1e-9
"""What is left of a count below this is nothing."""

PRIOR_WEIGHTS = (1.0, 5.0)
"""How many sightings of an average tool a tool's own history is mixed with: few in one column, more in the other."""


class History(NamedTuple):
    """What training tasks say about tools, as columns: one value a tool, or one a candidate."""

    light: Floats
    heavy: Floats
    log_times_listed: Floats
    never_listed: Floats


def history(listed: Floats, required: Floats, base_rate: float) -> History:
    """From how often each was listed and then required; `base_rate` is the average tool's rate."""
    average = logit(np.array(base_rate))

    def over_average(weight: float) -> Floats:
        """The logit of each rate over the average tool's, once mixed with so many sightings of an average tool."""
        mixed: Floats = logit((required + weight * base_rate) / (listed + weight)) - average
        return mixed

    few, many = PRIOR_WEIGHTS
    return History(
        light=over_average(few),
        heavy=over_average(many),
        log_times_listed=np.log1p(listed),
        never_listed=(listed == 0).astype(np.float64),
    )


def base_rate_of(required: float, listed: float) -> float:
    """The average tool's rate, from how often tools were required when listed; never 0 or 1."""
    return float(np.clip((required + 0.5) / (listed + 1.0), 1e-3, 1 - 1e-3))


def counts_of(rankings: Rankings, required: Bools, groups: Strings) -> tuple[Floats, Floats]:
    """(tools,) each: how often every tool of the catalogue was listed, and how often it was then required.

    A task of a group of n counts n^(-1/2).
    """
    ids = rankings.tool_ids[rankings.listed]
    tools = len(rankings.catalogue)
    times_listed, times_required = _times_by_row(rankings, required, groups)
    listed = np.bincount(ids, weights=times_listed, minlength=tools)
    needed = np.bincount(ids, weights=times_required, minlength=tools)
    return listed.astype(np.float64), needed.astype(np.float64)


def history_in_others(
    rankings: Rankings,
    required: Bools,
    groups: Strings,
    times_listed: Floats,
    times_required: Floats,
    base_rate: float,
) -> History:
    """(n, m) a column: what the tasks of other groups say about each candidate, from the counts of all (`counts_of`).

    A group that is seen for the first time says nothing of its tools, and neither may a task's own.
    """
    ids = rankings.tool_ids[rankings.listed]
    group = np.repeat(numbered(groups)[0], rankings.lengths)
    _, of_group = np.unique(group * len(times_listed) + ids, return_inverse=True)

    def left_to_others(counts: Floats, times: Floats) -> Floats:
        """(n, m): what is left of the counts of all without those of the candidate's own group."""
        left = counts[ids] - np.bincount(of_group, weights=times)[of_group]
        column = np.zeros(rankings.scores.shape)
        column[rankings.listed] = np.where(left < ROUNDING, 0.0, left)
        return column

    own_listed, own_required = _times_by_row(rankings, required, groups)
    return history(
        left_to_others(times_listed, own_listed),
        left_to_others(times_required, own_required),
        base_rate,
    )


def _times_by_row(rankings: Rankings, required: Bools, groups: Strings) -> tuple[Floats, Floats]:
    """(rows,) each: what every listed candidate counts, and what it counts as a required one."""
    times = np.repeat(sizes_of(groups) ** -0.5, rankings.lengths)
    return times, times * required[rankings.listed]


@lru_cache(maxsize=256)
def _by_rank(width: int) -> tuple[Floats, Floats, Floats, Floats]:
    """(m,) each: 0 .. m - 1, its log1p, and marks of the first and the second."""
    rank = np.arange(width, dtype=np.float64)
    return rank, np.log1p(rank), (rank == 0).astype(np.float64), (rank == 1).astype(np.float64)


def _following(values: Floats, last: float) -> Floats:
    """(n, m): the value of the candidate ranked next; `last` where there is none."""
    out = np.empty(values.shape)
    out[:, :-1] = values[:, 1:]
    out[:, -1] = last
    return out


class CandidateView:
    """The quantities that candidate columns share: (n, m), (n, 1) for a whole list, or (m,) for a rank.

    Logits are those of scores that are kept `lowest_score` away from 0 and 1. The last candidate has no next one; its
    `next_logit` is that of a score of 0.
    """

    def __init__(self, rankings: Rankings, tools: History, lowest_score: float) -> None:
        self.scores = scores = rankings.scores
        self.tools = tools
        self.rank, self.log_rank, self.is_first, self.is_second = _by_rank(rankings.width)
        self.squared = scores * scores
        self.logit = logit(scores, lowest_score)
        self.before = np.concatenate((scores[:, :1], scores[:, :-1]), axis=1)
        self.after = _following(scores, 0.0)
        self.next_logit = _following(self.logit, float(logit(np.zeros(1), lowest_score)[0]))
        self.length = np.maximum(rankings.lengths, 1.0)[:, None]
        self.total = np.maximum(np.add.accumulate(scores, axis=1)[:, -1:], 1e-9)
        self.top = np.maximum(np.maximum.reduce(scores, axis=1, keepdims=True), 1e-9)
        self.top_logit = np.maximum.reduce(self.logit, axis=1, keepdims=True)
        self.mean = self.total / self.length
        mean_square = np.add.accumulate(self.squared, axis=1)[:, -1:] / self.length
        self.deviation = np.sqrt(np.maximum(mean_square - self.mean * self.mean, 1e-12))
        self.share_of_top = scores / self.top
        self.below_top = self.logit - self.top_logit


CandidateColumn: TypeAlias = Callable[[CandidateView], Floats]

CANDIDATE_COLUMNS: dict[str, CandidateColumn] = {
    "score": lambda view: view.scores,
    "score_squared": lambda view: view.squared,
    "score_logit": lambda view: view.logit,
    "log_rank": lambda view: view.log_rank,
    "relative_rank": lambda view: view.rank / view.length,
    "is_first": lambda view: view.is_first,
    "is_second": lambda view: view.is_second,
    "share_of_top": lambda view: view.share_of_top,
    "logit_below_top": lambda view: view.below_top,
    "gap_to_next": lambda view: view.scores - view.after,
    "gap_to_previous": lambda view: view.before - view.scores,
    "standard_score": lambda view: (view.scores - view.mean) / view.deviation,
    "share_of_total": lambda view: view.scores / view.total,
    "next_logit": lambda view: view.next_logit,
    "share_of_top_by_rank": lambda view: view.share_of_top * view.log_rank,
    "list_total": lambda view: view.total,
    "list_top": lambda view: view.top,
    "list_top_logit": lambda view: view.top_logit,
    "list_mean": lambda view: view.mean,
    "list_deviation": lambda view: view.deviation,
    "list_log_length": lambda view: np.log(view.length),
    "light_history": lambda view: view.tools.light,
    "heavy_history": lambda view: view.tools.heavy,
    "log_times_listed": lambda view: view.tools.log_times_listed,
    "never_listed": lambda view: view.tools.never_listed,
    "history_by_logit": lambda view: view.tools.heavy * view.below_top,
}
"""Every column by name. The names say what they are; `history` is the logit of a tool's shrunken rate of being required
when listed, over the average tool's."""


OF_RANK = tuple(
    tuple(CANDIDATE_COLUMNS).index(name)
    for name in (
        "log_rank",
        "relative_rank",
        "is_first",
        "is_second",
        "gap_to_next",
        "gap_to_previous",
        "next_logit",
        "share_of_top_by_rank",
    )
)
"""The columns in which candidates of equal scores would differ."""


def candidate_features(rankings: Rankings, tools: History, lowest_score: float = CLIP) -> Floats:
    """(columns, n, m), from the rankings and each candidate's history, (n, m) a column."""
    features = np.empty((len(CANDIDATE_COLUMNS), *rankings.scores.shape))
    if features.size:
        view = CandidateView(rankings, tools, lowest_score)
        for i, column in enumerate(CANDIDATE_COLUMNS.values()):
            features[i] = column(view)
        ties = _ties(rankings.scores, rankings.listed)
        if ties is not None:
            for i in OF_RANK:
                features[i] = _evened(features[i], ties)
    return features


def _ties(ranked: Floats, listed: Bools) -> Ints | None:
    """(n * m,): a number for every run of equal scores in a row; None where all scores differ."""
    equal = (ranked[:, 1:] == ranked[:, :-1]) & listed[:, 1:]
    if not equal.any():
        return None
    begins = np.ones(ranked.shape, dtype=bool)
    begins[:, 1:] = ~equal
    return np.cumsum(begins.ravel()) - 1


def _evened(column: Floats, ties: Ints) -> Floats:
    """(n, m): the mean over each run."""
    mean = np.bincount(ties, weights=column.ravel()) / np.bincount(ties)
    return mean[ties].reshape(column.shape)

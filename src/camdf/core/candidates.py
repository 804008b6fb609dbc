"""What a list says about each of its candidates, as named columns: the inputs of a membership model.

Where `features` describes the states of a walk, these columns describe candidates: no cost and no cost pressure enters,
so what is learned from them holds at any price. A candidate's history is how often it was listed and how often it was
then required in the training tasks; a tool that was never seen has none, and counts as an average one.

Sums run in rank order and nothing goes through BLAS, so padding and batch size cannot change a bit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from camdf.core.rankings import Floats, Rankings

CLIP = 1e-4
"""Scores are kept this far from 0 and 1 before a logit is taken."""

PRIOR_WEIGHTS = (1.0, 5.0)
"""A tool's history is shrunk to the average by so many average sightings: once lightly, once heavily."""


class CandidateView:
    """The quantities that candidate columns share, (n, m), or (n, 1) for a whole list."""

    def __init__(self, rankings: Rankings, listed: Floats, required: Floats, base_rate: float) -> None:
        n, m = rankings.scores.shape
        self.scores = scores = rankings.scores
        self.zeros = np.zeros((n, m))
        self.rank = np.arange(m, dtype=np.float64) + self.zeros
        self.length = np.maximum(rankings.lengths, 1.0)[:, None]
        self.total = np.maximum(np.cumsum(scores, axis=1)[:, -1:], 1e-9)
        self.top = np.maximum(scores.max(axis=1, keepdims=True), 1e-9)
        self.mean = self.total / self.length
        squares = np.cumsum(scores * scores, axis=1)[:, -1:] / self.length
        self.deviation = np.sqrt(np.maximum(squares - self.mean * self.mean, 1e-12))
        self.logit = logit(scores)
        self.top_logit = logit(self.top)
        self.after = np.concatenate((scores[:, 1:], np.zeros((n, 1))), axis=1)
        self.before = np.concatenate((scores[:, :1], scores[:, :-1]), axis=1)
        self.log_rank = np.log1p(self.rank)
        self.relative = scores / self.top
        self.times_listed = listed
        light, heavy = ((required + w * base_rate) / (listed + w) for w in PRIOR_WEIGHTS)
        average = logit(np.array(base_rate))
        self.light_history = logit(light) - average
        self.heavy_history = logit(heavy) - average


CandidateColumn: TypeAlias = Callable[[CandidateView], Floats]

CANDIDATE_COLUMNS: dict[str, CandidateColumn] = {
    "score": lambda view: view.scores,
    "score_squared": lambda view: view.scores * view.scores,
    "score_logit": lambda view: view.logit,
    "log_rank": lambda view: view.log_rank,
    "relative_rank": lambda view: view.rank / view.length,
    "is_first": lambda view: (view.rank == 0).astype(np.float64),
    "is_second": lambda view: (view.rank == 1).astype(np.float64),
    "share_of_top": lambda view: view.relative,
    "logit_below_top": lambda view: view.logit - view.top_logit,
    "gap_to_next": lambda view: view.scores - view.after,
    "gap_to_previous": lambda view: view.before - view.scores,
    "standard_score": lambda view: (view.scores - view.mean) / view.deviation,
    "share_of_total": lambda view: view.scores / view.total,
    "next_logit": lambda view: logit(view.after),
    "share_of_top_by_rank": lambda view: view.relative * view.log_rank,
    "list_total": lambda view: view.total + view.zeros,
    "list_top": lambda view: view.top + view.zeros,
    "list_top_logit": lambda view: view.top_logit + view.zeros,
    "list_mean": lambda view: view.mean + view.zeros,
    "list_deviation": lambda view: view.deviation + view.zeros,
    "list_log_length": lambda view: np.log(view.length) + view.zeros,
    "light_history": lambda view: view.light_history,
    "heavy_history": lambda view: view.heavy_history,
    "log_times_listed": lambda view: np.log1p(view.times_listed),
    "never_listed": lambda view: (view.times_listed == 0).astype(np.float64),
    "history_by_logit": lambda view: view.heavy_history * (view.logit - view.top_logit),
}
"""Every column by name. The names say what they are; `history` is the logit of a tool's shrunken rate of being required
when listed, over the average tool's."""


def candidate_features(rankings: Rankings, listed: Floats, required: Floats, base_rate: float) -> Floats:
    """(columns, n, m). `listed` and `required` (n, m) count each candidate's sightings; `base_rate` is the average."""
    shape = (len(CANDIDATE_COLUMNS), *rankings.scores.shape)
    if 0 in shape:
        return np.empty(shape)
    view = CandidateView(rankings, listed, required, base_rate)
    return np.concatenate([column(view) for column in CANDIDATE_COLUMNS.values()]).reshape(shape)


def logit(values: Floats) -> Floats:
    """log(p / (1 - p)), with p kept away from 0 and 1."""
    kept = np.minimum(np.maximum(values, CLIP), 1.0 - CLIP)
    result: Floats = np.log(kept / (1.0 - kept))
    return result

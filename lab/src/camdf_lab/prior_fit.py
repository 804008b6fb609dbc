"""Learning a prior: one membership model for many domains, and how far each lies from what the others say of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add

import numpy as np

from camdf.core.candidates import CANDIDATE_COLUMNS, candidate_features, counts_of, history, history_in_others
from camdf.core.groups import sizes_of
from camdf.core.probability import unscaled
from camdf.core.rankings import Bools, Floats, LoggedTasks
from camdf.policies.models.prior import Prior
from camdf_lab.newton import NewtonSums, minimize, partial_sums, penalized

COLUMNS_READ = {"similarity": tuple(CANDIDATE_COLUMNS), "probability": ("score_logit",)}
"""What is read of a candidate, by what its score is."""

LOWEST_SCORE = 0.02
"""How far scores are kept from 0 and 1 before their logits are taken: a negative cosine is scored 0, and says no more
than a small one."""

PENALTY = 1e-4
"""Of a mean loss: next to none, for there are 26 columns and 200,000 candidates."""


@dataclass(frozen=True, eq=False)
class CandidateRows:
    """The candidates of one ranking as rows: their columns without any history, labels, and what a task counts.

    `missing` are shares of tasks by how many required tools their list lacks. `means` and `squares`, the means of
    squares, are those of the columns with what other groups say of each tool.
    """

    matrix: Floats
    labels: Bools
    weights: Floats
    missing: Floats
    means: Floats
    squares: Floats

    @classmethod
    def of(cls, logged: LoggedTasks) -> CandidateRows:
        """Every candidate counts alike, except that tasks of a group of n count n^(-1/2) in `weights`."""
        rankings = logged.rankings
        listed = rankings.listed
        nothing = np.zeros(listed.shape)
        rate = float(logged.required[listed].mean())
        counts = counts_of(rankings, logged.required, logged.groups)
        in_others = history_in_others(rankings, logged.required, logged.groups, *counts, rate)
        without_history = candidate_features(rankings, history(nothing, nothing, 0.5), LOWEST_SCORE)[:, listed].T
        with_history = candidate_features(rankings, in_others, LOWEST_SCORE)[:, listed].T
        return cls(
            matrix=without_history,
            labels=logged.required[listed],
            weights=np.repeat(sizes_of(logged.groups) ** -0.5, rankings.lengths),
            missing=np.bincount(logged.missing) / len(logged),
            means=with_history.mean(axis=0),
            squares=(with_history**2).mean(axis=0),
        )


def pooled(rankings: Sequence[CandidateRows], scores: str) -> tuple[Floats, float]:
    """Coefficients and intercept of one logistic regression, in which every ranking counts alike.

    No tool has a history, so the columns that read one are constant and count for nothing.
    """
    read = np.array([name in COLUMNS_READ[scores] for name in CANDIDATE_COLUMNS])
    shares = [np.full(len(ranking.labels), 1.0 / (len(ranking.labels) * len(rankings))) for ranking in rankings]
    mean: Floats = np.add.reduce([share @ ranking.matrix for ranking, share in zip(rankings, shares, strict=True)])
    squares = [share @ (ranking.matrix - mean) ** 2 for ranking, share in zip(rankings, shares, strict=True)]
    spread: Floats = np.sqrt(np.add.reduce(squares))
    varies = read & (spread > 1e-9)
    standard = [(ranking.matrix[:, varies] - mean[varies]) / spread[varies] for ranking in rankings]

    def sums_at(coefficients: Floats) -> NewtonSums:
        of_rankings = [
            partial_sums(matrix, ranking.labels, share, coefficients)
            for matrix, ranking, share in zip(standard, rankings, shares, strict=True)
        ]
        return penalized(reduce(add, of_rankings), coefficients, PENALTY)

    solution = minimize(sums_at, np.zeros(int(varies.sum()) + 1))
    raw = np.zeros(len(CANDIDATE_COLUMNS))
    raw[varies], intercept = unscaled(solution[:-1], solution[-1], mean[varies], spread[varies])
    return raw, intercept


def missing_shares(rankings: Sequence[CandidateRows]) -> Floats:
    """Shares of tasks by how many required tools their list lacks, the mean over rankings."""
    width = max(len(ranking.missing) for ranking in rankings)
    shares: Floats = np.mean(
        [np.pad(ranking.missing, (0, width - len(ranking.missing))) for ranking in rankings], axis=0
    )
    return shares


def distance(ranking: CandidateRows, coefficients: Floats, intercept: float) -> Floats:
    """(2,): a and s - 1, where a + s * z0 is the likeliest shift and scale of a model's log odds on this ranking."""
    z0 = ranking.matrix @ coefficients + intercept
    weights = ranking.weights / ranking.weights.sum()
    scale, shift = minimize(lambda at: partial_sums(z0[:, None], ranking.labels, weights, at), np.array([1.0, 0.0]))
    return np.array([shift, scale - 1.0])


def assembled(
    rankings: Sequence[CandidateRows], coefficients: Floats, intercept: float, distances: Sequence[Sequence[Floats]]
) -> Prior:
    """A prior from its model, and from how far each domain's rankings lay from a model that had not seen the domain."""
    means = np.mean([ranking.means for ranking in rankings], axis=0)
    spreads = np.sqrt(np.maximum(np.mean([ranking.squares for ranking in rankings], axis=0) - means**2, 0.0))
    covariance = np.mean([_mean_square(domain) for domain in distances], axis=0)
    return Prior(
        coefficients=tuple(coefficients.tolist()),
        intercept=intercept,
        means=tuple(means.tolist()),
        spreads=tuple(np.where(spreads > 1e-9, spreads, 1.0).tolist()),
        covariance=(float(covariance[0, 0]), float(covariance[0, 1]), float(covariance[1, 1])),
        missing=tuple(missing_shares(rankings).tolist()),
        lowest_score=LOWEST_SCORE,
    )


def _mean_square(distances: Sequence[Floats]) -> Floats:
    """(2, 2): the mean outer product of the distances of one domain's rankings, each with itself."""
    squares: Floats = np.mean([np.outer(away, away) for away in distances], axis=0)
    return squares

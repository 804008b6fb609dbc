"""How well a ranking separates required from other tools: the paper's score-quality table, for all that ships."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from camdf.core.rankings import Bools, Floats, Ints, LoggedTasks, mean_ranks
from camdf_lab.domains.catalogue import DOMAINS
from camdf_lab.domains.shipped import load


@dataclass(frozen=True)
class ScoreQuality:
    """One row of the table.

    `required_score` and `other_score` are mean scores over all listed candidates of all tasks, `auc` the chance that a
    required one outscores another drawn from that pool, ties counting half. `covered` is the share of tasks whose list
    holds every required tool, and `cover_rank` the mean depth, over those tasks, at which the list has named them all.
    A figure over nothing is nan.
    """

    tasks: int
    fewest_candidates: int
    most_candidates: int
    mean_candidates: float
    mean_required: float
    required_score: float
    other_score: float
    auc: float
    cover_rank: float
    covered: float


def score_quality(logged: LoggedTasks) -> ScoreQuality:
    """The quality of one ranking: of a shipped domain, or of tasks of your own.

    >>> quality = score_quality(load("retail", "claude"))
    >>> round(quality.auc, 3), round(quality.cover_rank, 2)
    (0.984, 3.88)
    """
    rankings = logged.rankings
    listed = rankings.listed
    required = rankings.scores[logged.required]
    other = rankings.scores[listed & ~logged.required]
    covered: Bools = logged.missing == 0
    depth: Ints = (logged.required * np.arange(1, rankings.width + 1)).max(axis=1, initial=0)
    return ScoreQuality(
        tasks=len(logged),
        fewest_candidates=int(rankings.lengths.min(initial=rankings.width)),
        most_candidates=int(rankings.lengths.max(initial=0)),
        mean_candidates=_mean_or_nan(rankings.lengths.astype(np.float64)),
        mean_required=_mean_or_nan(logged.n_required.astype(np.float64)),
        required_score=_mean_or_nan(required),
        other_score=_mean_or_nan(other),
        auc=auc(required, other),
        cover_rank=_mean_or_nan(depth[covered].astype(np.float64)),
        covered=_mean_or_nan(covered.astype(np.float64)),
    )


def auc(positive: Floats, negative: Floats) -> float:
    """P(positive > negative) + P(positive = negative) / 2 over all pairs, by ranks; nan where a side is empty.

    >>> auc(np.array([0.9, 0.5]), np.array([0.5, 0.1]))
    0.875
    """
    if not (positive.size and negative.size):
        return float("nan")
    from_the_lowest = mean_ranks(-np.concatenate([positive, negative]))
    rank_sum = from_the_lowest[: positive.size].sum()
    return float((rank_sum - positive.size * (positive.size + 1) / 2) / (positive.size * negative.size))


def quality_table() -> dict[tuple[str, str], ScoreQuality]:
    """(domain, scorer) -> quality, for every ranking that ships."""
    return {
        (domain.name, scorer): score_quality(load(domain.name, scorer))
        for domain in DOMAINS
        for scorer in domain.scorers
    }


def as_markdown(table: Mapping[tuple[str, str], ScoreQuality]) -> str:
    """The table as text, one row a ranking."""
    lines = [
        "| domain | scorer | tasks | candidates | required | req. score | other score | AUC | cover rank | covered |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for (domain, scorer), row in table.items():
        candidates = f"{row.mean_candidates:.1f}"
        if row.fewest_candidates == row.most_candidates:
            candidates = str(row.most_candidates)
        cells = (
            domain,
            scorer,
            f"{row.tasks:,}",
            candidates,
            f"{row.mean_required:.2f}",
            f"{row.required_score:.3f}",
            f"{row.other_score:.3f}",
            f"{row.auc:.3f}",
            f"{row.cover_rank:.2f}",
            f"{row.covered:.0%}",
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _mean_or_nan(values: Floats) -> float:
    return float(values.mean()) if values.size else float("nan")

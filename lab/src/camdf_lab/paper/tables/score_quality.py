"""How well each ranking separates required tools from others."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache, partial

from camdf_lab import domains
from camdf_lab.domains import DOMAINS, ScoreQuality
from camdf_lab.paper.entries import only_in_the_paper
from camdf_lab.paper.figure import Figure, figures
from camdf_lab.paper.quantities import Computed
from camdf_lab.paper.table import Entry, Table

PAPER = figures(
    """
paper: retail/qwen-plus                | .867 | .239 | .946 | 4.04
paper: retail/qwen-plus (conservative) | .771 | .102 | .894 | 4.45
paper: retail/qwen-turbo               | .746 | .302 | .906 | 4.24
paper: retail/qwen-max                 | .791 | .194 | .953 | 3.97
paper: retail/deepseek-v3              | .668 | .214 | .835 | 5.13
paper: airline/qwen-plus               | -    | -    | .903 | -
paper: airline/qwen-max                | -    | -    | .916 | -
paper: telecom/qwen-plus               | -    | -    | .943 | -
paper: workbench/qwen-plus             | -    | -    | .982 | 2.01
paper: mcp-atlas/qwen-plus             | -    | -    | .867 | -
paper: mcp-atlas/qwen-turbo            | -    | -    | .754 | -
paper: metatool/TF-IDF                 | -    | -    | .765 | 6.82
""",
    ("required score", "other score", "AUC", "cover rank"),
)

MEASURED = {
    "required score": "required_score",
    "other score": "other_score",
    "AUC": "auc",
    "cover rank": "cover_rank",
    "lists complete": "covered",
}
"""Column label to the field of `ScoreQuality`."""


@lru_cache(maxsize=64)
def _quality(domain: str, scorer: str) -> ScoreQuality:
    return domains.score_quality(domains.load(domain, scorer))


def _measured(domain: str, scorer: str, field: str) -> Figure:
    return Figure(float(getattr(_quality(domain, scorer), field)))


def quality_of(domain: str, scorer: str, column: str) -> Computed:
    """One measure of one ranking, by its column label."""
    return Computed(partial(_measured, domain, scorer, MEASURED[column]))


def _entries() -> Iterator[Entry]:
    for domain in DOMAINS:
        for scorer in domain.scorers:
            for column in MEASURED:
                yield Entry(f"{domain.name}/{scorer}", column, (), quality_of(domain.name, scorer, column))
    yield from only_in_the_paper(dict.fromkeys(row for row, _ in PAPER), MEASURED, PAPER)


TABLE = Table(
    "score-quality",
    "How well each ranking separates required tools from others",
    "tab:scores",
    "None of the paper's scorers is ours: its rows stand beside ours for reference.",
    tuple(_entries()),
)

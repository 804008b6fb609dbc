"""CAM-DF-lite minus three baselines on MetaTool."""

from __future__ import annotations

from collections.abc import Iterator

from camdf_lab.paper.entries import differences, minus
from camdf_lab.paper.figure import figures
from camdf_lab.paper.protocols import metatool
from camdf_lab.paper.table import Entry, Table

PAPER = figures(
    """
predict-then-threshold | +.026 [+.002, +.050]
fixed-k                | -.009 [-.025, +.005]
score-threshold        | -.014 [-.031, +.002]
""",
    ("TF-IDF",),
)


def _entries() -> Iterator[Entry]:
    columns = {scorer: metatool(scorer) for scorer in ("minilm", "claude")}
    beside_both = {(row, scorer): figure for (row, _), figure in PAPER.items() for scorer in columns}
    baselines = ("predict-then-threshold", "fixed-k", "score-threshold")
    yield from differences(minus("cam-df-lite", baselines), columns, beside_both)


TABLE = Table(
    "metatool",
    "How much more CAM-DF-lite earns than three simpler policies on MetaTool, where all tools cost the same",
    "app:tables, MetaTool reduced boundary check",
    "Scores are MiniLM's (AUC 0.926) and Claude's (0.989) where the paper has TF-IDF (0.765), whose numbers stand "
    "beside both.",
    tuple(_entries()),
)

"""CAM-DF minus its variants on Retail."""

from __future__ import annotations

from collections.abc import Iterator

from camdf_lab.paper.entries import differences, minus
from camdf_lab.paper.figure import figures
from camdf_lab.paper.protocols import BY_DISPERSION, MAIN_PRESSURE, RETAIL_DIFFERS, SCORES_ONLY, retail_by_dispersion
from camdf_lab.paper.table import Entry, Table

PAPER = figures(
    """
cam-df, no identity                          | +.027 [-.013, +.065] | +.028 [+.003, +.056] | +.023 [+.003, +.051]
aggregate-only-df                            | +.034 [-.006, +.072] | +.051 [+.022, +.083] | +.047 [+.019, +.079]
cam-df, uniform weights                      | +.041 [-.006, +.098] | +.034 [-.014, +.087] | +.037 [-.009, +.091]
cam-df-lite                                  | +.024 [-.016, +.062] | +.027 [-.004, +.063] | +.022 [-.008, +.057]
cam-df, uniform weights at 0.05              | +.079 [+.020, +.149] | +.072 [+.016, +.136] | +.077 [+.024, +.142]
cam-df, no identity - predict-then-threshold | -                    | +.035 [+.000, +.067] | +.045 [+.008, +.082]
""",
    BY_DISPERSION,
)

ABLATED = ("cam-df, no identity", "aggregate-only-df", "cam-df, uniform weights", "cam-df-lite")


def _entries(scorer: str) -> Iterator[Entry]:
    columns = retail_by_dispersion(MAIN_PRESSURE, scorer)
    yield from differences(minus("cam-df", ABLATED), columns, PAPER)
    weights = {"cam-df, uniform weights at 0.05": ("cam-df", "cam-df, uniform weights")}
    yield from differences(weights, retail_by_dispersion(0.05, scorer), PAPER)
    row = "cam-df, no identity - predict-then-threshold"
    rest = {row: ("cam-df, no identity", "predict-then-threshold, scores only")}
    yield from differences(rest, columns, PAPER)


TABLES = tuple(
    Table(
        name,
        f"How much less CAM-DF earns on Retail when a part of it is left out{ranker}",
        "tab:ablation",
        f"{differs} {SCORES_ONLY}.",
        tuple(_entries(scorer)),
    )
    for name, scorer, ranker, differs in (
        ("ablations", "claude", "", RETAIL_DIFFERS),
        (
            "ablations-brief",
            "claude-brief",
            ", where the ranker saw only 22 words of each request",
            "Scores are Claude's on the first 22 words of each request (AUC 0.964).",
        ),
        (
            "ablations-minilm",
            "minilm",
            ", with a weaker ranker",
            "Scores are cosine similarities of MiniLM embeddings (AUC 0.736).",
        ),
    )
)

"""Retail where some training labels are wrong."""

from __future__ import annotations

from collections.abc import Iterator

from camdf_lab.paper.figure import Figure, figures
from camdf_lab.paper.protocols import FEW_RETAIL_POLICIES, MAIN_PRESSURE, RETAIL_DIFFERS, RETAIL_POLICIES, retail
from camdf_lab.paper.quantities import Difference, Mean
from camdf_lab.paper.table import Entry, Table

POLICIES_WITH_NOISE = ("cam-df", "cam-df-lite", "predict-then-threshold", "score-per-cost-threshold")

PAPER = figures(
    """
noise 0, d=0    | .400 | .378 | .361 | .376
noise 0, d=1    | .331 | .307 | .273 | .293
noise 0.05, d=0 | .331 | .360 | .331 | .353
noise 0.05, d=1 | .269 | .272 | .244 | .276
noise 0.1, d=0  | .263 | .298 | .293 | .325
noise 0.1, d=1  | .228 | .237 | .225 | .261
noise 0.2, d=0  | .174 | .183 | .196 | .249
noise 0.2, d=1  | .176 | .180 | .185 | .213
""",
    POLICIES_WITH_NOISE,
)


def _entries() -> Iterator[Entry]:
    for noise in (0.0, 0.05, 0.1, 0.2):
        for d in (0.0, 1.0):
            policies = FEW_RETAIL_POLICIES if noise else RETAIL_POLICIES
            cell = retail(MAIN_PRESSURE, d, noise=noise, policies=policies)
            row = f"noise {noise:g}, d={d:g}"
            for policy in POLICIES_WITH_NOISE:
                yield Entry(row, policy, (cell,), Mean(policy), PAPER[row, policy])
            margin = Figure(PAPER[row, "cam-df"].value - PAPER[row, "score-per-cost-threshold"].value)
            difference = Difference("cam-df", "score-per-cost-threshold")
            yield Entry(row, "cam-df - score-per-cost-threshold", (cell,), difference, margin)


TABLE = Table(
    "label-noise",
    "What policies earn on Retail when some of the labels that they learn from were made wrong on purpose",
    "tab:noise",
    f"{RETAIL_DIFFERS} The paper prints levels; the margins are their differences, and have no interval.",
    tuple(_entries()),
)

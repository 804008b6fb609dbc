"""Retail under the exact and the partial payoff."""

from __future__ import annotations

from camdf.evaluation.replay import ORACLE
from camdf_lab.paper.entries import levels
from camdf_lab.paper.figure import figures
from camdf_lab.paper.protocols import FEW_RETAIL_POLICIES, MAIN_PRESSURE, RETAIL_DIFFERS, retail
from camdf_lab.paper.table import Table

ROWS = ("predict-then-threshold", "score-per-cost-threshold", "cam-df-lite", "cam-df", ORACLE)

COLUMNS = {
    "exact, d=0": retail(MAIN_PRESSURE, 0.0),
    "exact, d=1": retail(MAIN_PRESSURE, 1.0),
    "partial, d=0": retail(MAIN_PRESSURE, 0.0, value="partial", policies=FEW_RETAIL_POLICIES),
    "partial, d=1": retail(MAIN_PRESSURE, 1.0, value="partial", policies=FEW_RETAIL_POLICIES),
}

PAPER = figures(
    """
predict-then-threshold   | .352 | .281 | .469 | .398
score-per-cost-threshold | .376 | .293 | .474 | .423
cam-df-lite              | .378 | .307 | .478 | .421
cam-df                   | .400 | .331 | .481 | .427
prefix-oracle            | .513 | .450 | .517 | .452
""",
    tuple(COLUMNS),
)

TABLE = Table(
    "partial-payoff",
    "What each policy earns on Retail where only complete sets of tools count, and where a part counts for its share",
    "tab:partial",
    f"{RETAIL_DIFFERS} The paper prints no intervals here.",
    tuple(levels({name: name for name in ROWS}, COLUMNS, PAPER, "cam-df")),
)

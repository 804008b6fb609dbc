"""The main table on Retail in detail: standard errors, sufficiency, cost and waste."""

from __future__ import annotations

from collections.abc import Iterator

from camdf_lab.paper.entries import means, only_in_the_paper
from camdf_lab.paper.figure import figures
from camdf_lab.paper.protocols import BY_DISPERSION, MAIN_PRESSURE, RETAIL_DIFFERS, retail_by_dispersion
from camdf_lab.paper.quantities import StandardError
from camdf_lab.paper.table import Entry, Table
from camdf_lab.paper.tables.main import PAPER_LEVELS, RETAIL_ROWS

MEASURES_SHOWN = ("sufficiency", "cost", "waste")

COLUMNS = (*(f"SE, {column}" for column in BY_DISPERSION), *MEASURES_SHOWN)

PAPER = figures(
    """
fixed-k                  | .014 | .013 | .012 | .885  | 5.55 | 1.31
score-threshold          | .012 | .012 | .012 | .924  | 5.18 | .90
score-per-cost-threshold | .012 | .012 | .011 | .906  | 5.10 | .89
keyword-rule             | .013 | .013 | .014 | .891  | 4.94 | .71
predict-then-threshold   | .014 | .015 | .015 | .856  | 4.78 | .61
aggregate-only-df        | .011 | .013 | .012 | .907  | 5.27 | 1.02
cam-df-lite              | .012 | .014 | .014 | .885  | 4.84 | .64
cam-df                   | .012 | .012 | .012 | .922  | 4.93 | .68
prefix-oracle            | .005 | .006 | .006 | 1.000 | 4.58 | .22
""",
    COLUMNS,
)


def _entries() -> Iterator[Entry]:
    columns = retail_by_dispersion(MAIN_PRESSURE)
    yield from means(RETAIL_ROWS, columns, PAPER_LEVELS)
    for row, policy in RETAIL_ROWS.items():
        for column, cell in columns.items():
            label = f"SE, {column}"
            yield Entry(row, label, (cell,), StandardError(policy), PAPER[row, label])
    for measure in MEASURES_SHOWN:
        yield from means(RETAIL_ROWS, {measure: columns["d=1"]}, PAPER, measure)
    yield from only_in_the_paper(["keyword-rule"], BY_DISPERSION, PAPER_LEVELS)
    yield from only_in_the_paper(["keyword-rule"], COLUMNS, PAPER)


TABLE = Table(
    "retail-absolute",
    "What each policy earns on Retail, how often its tools suffice, what they cost, and how much of that is wasted",
    "tab:retailabs",
    f"{RETAIL_DIFFERS} The keyword rule is not replicated.",
    tuple(_entries()),
)

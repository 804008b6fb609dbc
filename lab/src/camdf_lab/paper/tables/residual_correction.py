"""What correcting the predictable errors of predict-then-threshold changes on Retail."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from camdf_lab.paper.entries import differences, means
from camdf_lab.paper.figure import figures
from camdf_lab.paper.protocols import BY_DISPERSION, MAIN_PRESSURE, RETAIL_DIFFERS, retail_by_dispersion
from camdf_lab.paper.table import Entry, Table

PAPER = figures(
    """
predict-then-threshold                      | .366  | .285  | .247
residual-corrected                          | .366  | .289  | .247
cam-df                                      | .370  | .290  | .269
residual-corrected - predict-then-threshold | +.000 | +.004 | +.000
cam-df - residual-corrected                 | +.004 | +.001 | +.022
""",
    BY_DISPERSION,
)

ROWS = {name: name for name in ("predict-then-threshold", "residual-corrected", "cam-df")}


def _entries() -> Iterator[Entry]:
    # The paper: statistically indistinguishable.
    no_difference = {place: replace(figure, clear=False) for place, figure in PAPER.items()}
    correction = {"residual-corrected - predict-then-threshold": ("residual-corrected", "predict-then-threshold")}
    lead = {"cam-df - residual-corrected": ("cam-df", "residual-corrected")}
    for column, cell in retail_by_dispersion(MAIN_PRESSURE).items():
        yield from means(ROWS, {column: cell}, PAPER)
        yield from differences(correction, {column: cell}, no_difference)
        yield from differences(lead, {column: cell}, PAPER)


TABLE = Table(
    "residual-correction",
    "What correcting the predictable errors of predict-then-threshold changes on Retail",
    "app:robust, residual-corrected prediction",
    f"{RETAIL_DIFFERS} The paper prints levels; its differences follow from them, and have no interval.",
    tuple(_entries()),
)

"""CAM-DF minus three baselines on Retail, over five cost pressures and five dispersions."""

from __future__ import annotations

from collections.abc import Iterator

from camdf_lab.paper.entries import differences
from camdf_lab.paper.figure import figures
from camdf_lab.paper.protocols import RETAIL_DIFFERS, retail
from camdf_lab.paper.table import Entry, Table

DENSE_PRESSURES = (0.05, 0.08, 0.12, 0.16, 0.20)
DENSE_DISPERSIONS = (0.0, 0.5, 1.0, 1.5, 2.0)

PAPER = figures(
    """
predict-then-threshold, d=0     | +.031* | +.027  | +.053* | +.082* | +.094*
predict-then-threshold, d=0.5   | +.028* | +.040* | +.060* | +.077* | +.076*
predict-then-threshold, d=1     | +.030* | +.043* | +.057* | +.068* | +.087*
predict-then-threshold, d=1.5   | +.036* | +.047* | +.062* | +.068* | +.130*
predict-then-threshold, d=2     | +.038* | +.050* | +.074* | +.091* | +.208*
score-per-cost-threshold, d=0   | +.018  | +.013  | +.030  | +.043  | +.050*
score-per-cost-threshold, d=0.5 | -.001  | +.016  | +.043  | +.053* | +.040
score-per-cost-threshold, d=1   | -.002  | +.006  | +.040  | +.057* | +.052
score-per-cost-threshold, d=1.5 | -.005  | +.001  | +.021  | +.041  | +.109*
score-per-cost-threshold, d=2   | -.020  | -.025  | -.016  | -.013  | +.095*
""",
    tuple(f"lambda {pressure:.2f}" for pressure in DENSE_PRESSURES),
    starred=True,
)


def _entries() -> Iterator[Entry]:
    for baseline in ("predict-then-threshold", "score-per-cost-threshold", "fixed-k"):
        for d in DENSE_DISPERSIONS:
            columns = {f"lambda {pressure:.2f}": retail(pressure, d) for pressure in DENSE_PRESSURES}
            yield from differences({f"{baseline}, d={d:g}": ("cam-df", baseline)}, columns, PAPER)


TABLE = Table(
    "dense-grid",
    "How much more CAM-DF earns than three simpler policies on Retail, at five cost pressures and spreads of costs",
    "tab:griddense, fig:regimemap",
    f"{RETAIL_DIFFERS} The paper shows its gains over fixed-k as colors only.",
    tuple(_entries()),
)

"""Standardized coefficients of CAM-DF-lite on Retail."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache, partial

import numpy as np

from camdf.core.features import LITE
from camdf.core.stopping import hindsight_targets
from camdf.policies.models.linear import logistic_pipeline, state_matrix
from camdf_lab.paper.figure import Figure, figures
from camdf_lab.paper.protocols import BY_DISPERSION, MAIN_PRESSURE, RETAIL_DIFFERS, retail, retail_by_dispersion
from camdf_lab.paper.quantities import Computed
from camdf_lab.paper.table import Entry, Table

PAPER = figures(
    """
intercept                | +1.84 (.04) | +1.92 (.04) | +1.98 (.04)
progress                 | -.50 (.02)  | -.72 (.03)  | -.79 (.03)
next_score               | +.53 (.01)  | +.64 (.01)  | +.70 (.01)
next_score_per_cost      | +.53 (.01)  | +.24 (.02)  | +.04 (.01)
next_score_gap           | +.36 (.03)  | +.28 (.03)  | +.25 (.03)
remaining_score_max      | +.53 (.01)  | +.64 (.01)  | +.70 (.01)
remaining_score_share    | +.12 (.01)  | +.29 (.01)  | +.36 (.01)
remaining_score_per_cost | +.14 (.03)  | +.16 (.04)  | +.12 (.04)
selected_cost_share      | -.50 (.02)  | -.34 (.02)  | -.21 (.02)
priced_next_cost         | .00 (.00)   | -.13 (.03)  | -.33 (.03)
next_high_cost           | .00 (.00)   | -.57 (.03)  | -.58 (.03)
""",
    BY_DISPERSION,
)


@lru_cache(maxsize=8)
def _coefficients(dispersion: float) -> dict[str, Figure]:
    """CAM-DF-lite's standardized coefficients: mean over the splits, 1.96 standard errors to either side."""
    cell = retail(MAIN_PRESSURE, dispersion)
    logged = cell.logged()
    fitted = []
    for split in cell.drawn_splits(logged):
        train = logged.take(split.train)
        targets = hindsight_targets(train, cell.payoff)
        matrix = state_matrix(train.rankings, cell.payoff, LITE, (), targets.state)
        model = logistic_pipeline(matrix, ~targets.stop[targets.state], targets.weight[targets.state])
        fitted.append([*model.named_steps["fit"].intercept_, *model.named_steps["fit"].coef_[0]])
    values = np.round(fitted, 9) + 0.0  # a constant column's coefficient is zero up to rounding, and counts as zero
    mean = values.mean(axis=0)
    reach = 1.96 * values.std(axis=0, ddof=1) / np.sqrt(len(values))
    low = mean - reach
    high = mean + reach
    return {
        name: Figure.between(float(mean[place]), float(low[place]), float(high[place]))
        for place, name in enumerate(("intercept", *LITE))
    }


def _coefficient(name: str, dispersion: float) -> Figure:
    return _coefficients(dispersion)[name]


def _entries() -> Iterator[Entry]:
    cells = retail_by_dispersion(MAIN_PRESSURE)
    for name in dict.fromkeys(row for row, _ in PAPER):
        for column, cell in cells.items():
            yield Entry(name, column, (), Computed(partial(_coefficient, name, cell.dispersion)), PAPER[name, column])


TABLE = Table(
    "lite-coefficients",
    "What CAM-DF-lite has learned on Retail: standardized coefficients, positive where they speak for one more tool",
    "tab:coef",
    f"{RETAIL_DIFFERS} Intervals are 1.96 standard errors over 30 overlapping splits on either side, in the paper's "
    "numbers and ours: a verdict is about signs.",
    tuple(_entries()),
)

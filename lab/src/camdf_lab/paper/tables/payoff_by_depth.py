"""Payoff against tools on Retail: one depth for all tasks, and policies that choose a depth for each."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from camdf.core.payoff import Payoff
from camdf.core.rankings import Floats
from camdf.core.stopping import earliest_best_depth
from camdf_lab import domains
from camdf_lab.domains.costs import RETAIL_BASE_COSTS
from camdf_lab.paper.figure import Figure, figures
from camdf_lab.paper.protocols import MAIN_PRESSURE, RETAIL_DIFFERS, retail
from camdf_lab.paper.quantities import Computed, Mean
from camdf_lab.paper.table import Entry, Table
from camdf_lab.paper.tables.main import RETAIL_ROWS

PAPER = figures(
    """
best common depth     | .300 | 5
cam-df                | .400 | 4.34
prefix-oracle         | .513 | -
shallowest best depth | -    | 3
deepest best depth    | -    | 7
""",
    ("payoff", "tools"),
)


def _payoffs() -> Floats:
    """(tasks, depths): the payoff of every depth."""
    return Payoff(MAIN_PRESSURE).by_depth(domains.load("retail", "claude"))


def _at_common_depth(depth: int) -> Figure:
    return Figure(float(_payoffs().mean(axis=0)[depth]))


def _best_common_payoff() -> Figure:
    return Figure(float(_payoffs().mean(axis=0).max()))


def _best_common_depth() -> Figure:
    return Figure(float(np.argmax(_payoffs().mean(axis=0))))


def _shallowest_best_depth() -> Figure:
    return Figure(float(earliest_best_depth(_payoffs()).min()))


def _deepest_best_depth() -> Figure:
    return Figure(float(earliest_best_depth(_payoffs()).max()))


def _entries() -> Iterator[Entry]:
    for depth in range(len(RETAIL_BASE_COSTS) + 1):
        yield Entry(f"depth {depth} for all", "payoff", (), Computed(partial(_at_common_depth, depth)))
        yield Entry(f"depth {depth} for all", "tools", (), Computed(partial(Figure, float(depth))))
    for row, column, compute in (
        ("best common depth", "payoff", _best_common_payoff),
        ("best common depth", "tools", _best_common_depth),
        ("shallowest best depth", "tools", _shallowest_best_depth),
        ("deepest best depth", "tools", _deepest_best_depth),
    ):
        yield Entry(row, column, (), Computed(compute), PAPER[row, column])
    cell = retail(MAIN_PRESSURE, 0.0)
    for row, policy in RETAIL_ROWS.items():
        for measure in ("payoff", "tools"):
            yield Entry(row, measure, (cell,), Mean(policy, measure), PAPER.get((row, measure)))


TABLE = Table(
    "payoff-by-depth",
    "What the same number of tools for every task earns on Retail, and what choosing a number for each task earns",
    "fig:payoffdepth",
    f"{RETAIL_DIFFERS} The paper prints three points of its figure.",
    tuple(_entries()),
)

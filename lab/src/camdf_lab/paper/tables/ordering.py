"""CAM-DF walking Retail lists by score, and by score per cost."""

from __future__ import annotations

from collections.abc import Iterator

from camdf.core.payoff import Payoff
from camdf.core.rankings import Floats
from camdf.core.resampling import paired_bootstrap
from camdf_lab import domains
from camdf_lab.paper.contestants import by_score_per_cost
from camdf_lab.paper.entries import differences
from camdf_lab.paper.figure import Figure, figures
from camdf_lab.paper.protocols import MAIN_PRESSURE, PRESSURES, RETAIL_DIFFERS, retail
from camdf_lab.paper.quantities import Computed, WinRate
from camdf_lab.paper.table import Entry, Table

PAPER = figures(
    """
lambda 0.05                | -.003 [-.016, +.009] | -.015 [-.043, +.003] | -
lambda 0.12                | +.003 [-.013, +.019] | +.007 [-.029, +.033] | -
lambda 0.20                | +.005 [-.030, +.043] | +.053 [+.002, +.098] | .84
prefix-oracle, score order | -                    | .419                 | -
prefix-oracle, ratio order | -                    | .385                 | -
prefix-oracle, difference  | -                    | +.034                | -
""",
    ("d=1", "d=1.5", "wins, d=1.5"),
)


def _oracles() -> tuple[Floats, Floats]:
    """The best prefix payoff of every task at d = 1.5, by score and by score per cost."""
    payoff = Payoff(MAIN_PRESSURE)
    logged = domains.load("retail", "claude", dispersion=1.5)
    by_ratio = logged.reordered(by_score_per_cost(logged.rankings))
    return payoff.by_depth(logged).max(axis=1), payoff.by_depth(by_ratio).max(axis=1)


def _oracle_by_score() -> Figure:
    return Figure(float(_oracles()[0].mean()))


def _oracle_by_ratio() -> Figure:
    return Figure(float(_oracles()[1].mean()))


def _oracle_difference() -> Figure:
    by_score, by_ratio = _oracles()
    interval = paired_bootstrap(by_score - by_ratio)
    return Figure.between(interval.mean, interval.low, interval.high)


def _entries() -> Iterator[Entry]:
    for pressure in PRESSURES:
        row = f"lambda {pressure:.2f}"
        columns = {"d=1": retail(pressure, 1.0), "d=1.5": retail(pressure, 1.5)}
        yield from differences({row: ("cam-df", "cam-df, ratio order")}, columns, PAPER)
        wins = WinRate("cam-df", "cam-df, ratio order")
        yield Entry(row, "wins, d=1.5", (columns["d=1.5"],), wins, PAPER.get((row, "wins, d=1.5")))
    for row, compute in (
        ("prefix-oracle, score order", _oracle_by_score),
        ("prefix-oracle, ratio order", _oracle_by_ratio),
        ("prefix-oracle, difference", _oracle_difference),
    ):
        yield Entry(row, "d=1.5", (), Computed(compute), PAPER[row, "d=1.5"])


TABLE = Table(
    "ordering",
    "How much more CAM-DF earns on Retail with lists sorted by score than with lists sorted by score per cost",
    "tab:order",
    f"{RETAIL_DIFFERS} The oracle rows are at lambda 0.12.",
    tuple(_entries()),
)

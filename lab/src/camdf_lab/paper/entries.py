"""Entries that many tables have: differences or levels of policies, over columns of cells."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from camdf.evaluation.replay import ORACLE
from camdf_lab.paper.cells import Cell
from camdf_lab.paper.figure import Figure
from camdf_lab.paper.quantities import Difference, Mean, NotMeasured
from camdf_lab.paper.table import Entry

Printed: TypeAlias = Mapping[tuple[str, str], Figure]
"""The paper's numbers by row and column, as `figures` reads them."""


def differences(
    rows: Mapping[str, tuple[str, str]],
    columns: Mapping[str, Cell | Sequence[Cell]],
    paper: Printed,
    *,
    by_group: bool = False,
) -> Iterator[Entry]:
    """One policy minus another for every row, over every column's cell, or its cells pooled."""
    for row, (policy, baseline) in rows.items():
        for column, cells in columns.items():
            pooled = (cells,) if isinstance(cells, Cell) else tuple(cells)
            yield Entry(row, column, pooled, Difference(policy, baseline, by_group), paper.get((row, column)))


def minus(leader: str, baselines: Iterable[str]) -> dict[str, tuple[str, str]]:
    """Rows for `differences`: the leader minus each baseline, every row labeled with the baseline's name."""
    return {baseline: (leader, baseline) for baseline in baselines}


def means(
    rows: Mapping[str, str], columns: Mapping[str, Cell], paper: Printed, measure: str = "payoff"
) -> Iterator[Entry]:
    """The mean of a measure for every row's policy and every column's cell; nothing is judged."""
    for row, policy in rows.items():
        for column, cell in columns.items():
            yield Entry(row, column, (cell,), Mean(policy, measure), paper.get((row, column)))


def levels(rows: Mapping[str, str], columns: Mapping[str, Cell], paper: Printed, leader: str) -> Iterator[Entry]:
    """The mean payoff of every row's policy in every column's cell, judged by how far the leader is ahead of it.

    The level itself moves with the scorer, so it is not judged; nor is the oracle, whose lead is no finding. `paper`
    has a star where the leader is clearly ahead of that row.
    """
    (leading_row,) = (row for row, policy in rows.items() if policy == leader)
    for row, policy in rows.items():
        for column, cell in columns.items():
            printed = paper.get((row, column))
            leading = paper.get((leading_row, column))
            level = None if printed is None else replace(printed, clear=None)
            if policy in (leader, ORACLE):
                yield Entry(row, column, (cell,), Mean(policy), level)
                continue
            lead = None
            if printed is not None and leading is not None:
                lead = Figure(leading.value - printed.value, clear=printed.clear)
            yield Entry(row, column, (cell,), Mean(policy), level, Difference(leader, policy), lead)


def only_in_the_paper(rows: Iterable[str], columns: Iterable[str], paper: Printed) -> Iterator[Entry]:
    """Rows of the paper that have no counterpart here, for reference."""
    listed = tuple(columns)
    for row in rows:
        for column in listed:
            if (row, column) in paper:
                yield Entry(row, column, (), NotMeasured(), paper[row, column])

"""Tables as entries: rows of comparisons or policies over columns of cells."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from camdf.lab.cells import Cell
from camdf.lab.studies.protocols import DISPERSIONS, retail
from camdf.lab.studies.quantities import NotMeasured
from camdf.lab.study import Difference, Entry, Figure, Mean

Printed = Mapping[tuple[str, str], Figure]
"""The paper's numbers by row and column, as `figures` gives them."""


def differences(
    rows: Mapping[str, tuple[str, str]],
    columns: Mapping[str, Cell | Sequence[Cell]],
    paper: Printed,
    *,
    by_group: bool = False,
) -> Iterator[Entry]:
    """A policy minus another for every row, over every column's cell, or its cells pooled."""
    for row, (policy, baseline) in rows.items():
        for column, cells in columns.items():
            quantity = Difference(policy, baseline, by_group)
            yield Entry(row, column, _several(cells), quantity, paper.get((row, column)))


def means(
    rows: Mapping[str, str], columns: Mapping[str, Cell], paper: Printed, measure: str = "payoff"
) -> Iterator[Entry]:
    """A level for every policy and cell; nothing is judged."""
    for row, policy in rows.items():
        for column, cell in columns.items():
            yield Entry(row, column, (cell,), Mean(policy, measure), paper.get((row, column)))


def only_in_the_paper(rows: Iterable[str], columns: Iterable[str], paper: Printed) -> Iterator[Entry]:
    """Rows of the paper that have no counterpart here, for reference."""
    listed = tuple(columns)
    for row in rows:
        for column in listed:
            if (row, column) in paper:
                yield Entry(row, column, (), NotMeasured(), paper[row, column])


def retail_by_dispersion(pressure: float, scorer: str = "claude") -> dict[str, Cell]:
    """Columns d=0, d=1 and d=1.5 on Retail."""
    return {f"d={d:g}": retail(pressure, d, scorer) for d in DISPERSIONS}


def minus(leader: str, rows: Iterable[str] | Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """Rows for `differences`: the leader minus each baseline, given as names or as label to name."""
    named = rows if isinstance(rows, Mapping) else {name: name for name in rows}
    return {label: (leader, name) for label, name in named.items()}


def _several(cells: Cell | Sequence[Cell]) -> tuple[Cell, ...]:
    return (cells,) if isinstance(cells, Cell) else tuple(cells)

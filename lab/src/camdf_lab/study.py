"""One study past the paper: measured once, stored as a table, then drawn and written from there alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

import numpy as np

from camdf.core.rankings import Floats
from camdf.evaluation.replay import Outcomes
from camdf_lab.jobs import Job
from camdf_lab.stored import Row, Rows, agrees

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture

J = TypeVar("J", bound=Job)
Pair: TypeAlias = tuple[str, str]


class Run(Protocol):
    """Works jobs off on all cores, with progress; a study that is interrupted resumes."""

    def __call__(self, jobs: Sequence[J], /) -> dict[J, Outcomes]:
        """What the jobs replay."""
        ...

    def rows(self, rows_of: Callable[..., Rows], places: Iterable[Sequence[Any]], /) -> Rows:
        """What a function of a module measures at all places."""
        ...


@dataclass(frozen=True)
class Study:
    """What a study measures, how a sample of it is measured again, and what the page shows of it."""

    name: str
    """Its rows are stored as results/NAME.csv."""

    measure: Callable[[Run], Rows]
    """All rows: flat, of texts, whole numbers and floats."""

    recheck: Callable[[Rows, int, Run], list[str]]
    """Where a sample drawn by seed, measured again in seconds, differs from the stored rows, in words."""

    section: Callable[[Rows], list[str]]
    """Its lines of the page, from stored rows alone."""

    pictures: Callable[[Rows], dict[str, Picture]]
    """What it draws, by file stem."""


def differing(before: Rows, now: Rows, place: Sequence[str], figures: Sequence[str]) -> list[str]:
    """Where figures measured again differ from the stored ones, in words; the columns of `place` tell rows apart."""
    known = {place_of_row(row, place): row for row in before}
    differences = []
    for row in now:
        where = place_of_row(row, place)
        stored_row = known.get(where, {})
        for name in figures:
            then = stored_row.get(name, "nothing")
            again = row[name]
            if not agrees(then, again):
                differences.append(f"{where} {name}: stored {then}, now {again}")
    return differences


def place_of_row(row: Row, place: Sequence[str]) -> tuple[Any, ...]:
    """What tells a row from the others of its table: its values in these columns."""
    return tuple(row[name] for name in place)


def row_disagreements(before: Rows, now: Rows) -> list[str]:
    """Where all rows measured again differ from the stored ones, in words; both come in the same order."""
    if len(before) != len(now):
        return [f"{len(before)} rows are stored, {len(now)} were measured"]
    return [
        f"row {number} {name}: stored {value}, now {again.get(name)}"
        for number, (then, again) in enumerate(zip(before, now, strict=True), start=1)
        for name, value in then.items()
        if not agrees(value, again.get(name))
    ]


def pairs_of(rows: Rows) -> list[Pair]:
    """Every domain and ranking that the rows tell of, in their order."""
    return list(dict.fromkeys((row["domain"], row["scorer"]) for row in rows))


def of_pair(rows: Rows, pair: Pair) -> Rows:
    """The rows of one domain and ranking."""
    return [row for row in rows if (row["domain"], row["scorer"]) == pair]


def column(rows: Rows, name: str) -> Floats:
    """(rows,): one figure of every row."""
    return np.array([row[name] for row in rows], dtype=np.float64)


def mean_of(rows: Rows, name: str) -> float:
    """The mean of one figure over rows that count alike."""
    return float(column(rows, name).mean())


def margins(rows: Rows, policy: str, other: str) -> Floats:
    """(rows,): how much more one policy pays than another."""
    return column(rows, policy) - column(rows, other)

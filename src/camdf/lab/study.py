"""One study past the paper: measured once, stored as a table, then drawn and written from there alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeVar

import numpy as np

from camdf.evaluation.replay import Outcomes
from camdf.lab.jobs import Job
from camdf.lab.stored import AGREEMENT, Rows

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture

J = TypeVar("J", bound=Job)


class Run(Protocol):
    """Replays jobs, with progress."""

    def __call__(self, jobs: Sequence[J], /) -> dict[J, Outcomes]: ...


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
    known = {tuple(row[name] for name in place): row for row in before}
    found = []
    for row in now:
        where = tuple(row[name] for name in place)
        for name in figures:
            then, again = (float(each.get(name, "nan")) for each in (known.get(where, {}), row))
            if not np.isclose(then, again, rtol=0, atol=AGREEMENT, equal_nan=True):
                found.append(f"{where} {name}: stored {then:.6f}, now {again:.6f}")
    return found


def row_disagreements(before: Rows, now: Rows) -> list[str]:
    """Where all rows measured again differ from the stored ones, in words; both come in the same order."""
    if len(before) != len(now):
        return [f"{len(before)} rows are stored, {len(now)} were measured"]
    found = []
    for number, (then, again) in enumerate(zip(before, now, strict=True)):
        for name, value in then.items():
            other = again.get(name)
            if isinstance(value, float) and isinstance(other, int | float):
                same = bool(np.isclose(value, other, rtol=0, atol=AGREEMENT, equal_nan=True))
            else:
                same = bool(value == other)
            if not same:
                found.append(f"row {number + 1} {name}: stored {value}, now {other}")
    return found

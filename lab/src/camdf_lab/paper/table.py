"""A table or figure of the paper, declared as entries over cells, with the paper's numbers beside them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from camdf.evaluation.replay import Outcomes
from camdf_lab.paper.cells import Cell
from camdf_lab.paper.figure import Figure
from camdf_lab.paper.quantities import Quantity


@dataclass(frozen=True)
class Entry:
    """One number of a table: its place, what it measures on which cells, and the paper's number at that place.

    Where the number is a level, another scorer or other labels would move it anyway. `contrast` is then the difference
    that decides whether the paper's finding replicates, and `paper_contrast` is the paper's. An entry that is itself a
    difference needs neither.
    """

    row: str
    column: str
    cells: tuple[Cell, ...]
    quantity: Quantity
    paper: Figure | None = None
    contrast: Quantity | None = None
    paper_contrast: Figure | None = None


@dataclass(frozen=True)
class Table:
    """A named table of the paper. `differs` tells readers, in a sentence or two, what is not as in the paper."""

    name: str
    title: str
    where: str
    differs: str
    entries: tuple[Entry, ...]

    @property
    def cells(self) -> tuple[Cell, ...]:
        """Every cell that the table needs, once."""
        return tuple(dict.fromkeys(cell for entry in self.entries for cell in entry.cells))

    @property
    def rows(self) -> tuple[str, ...]:
        """Row labels in order."""
        return tuple(dict.fromkeys(entry.row for entry in self.entries))

    @property
    def columns(self) -> tuple[str, ...]:
        """Column labels in order."""
        return tuple(dict.fromkeys(entry.column for entry in self.entries))


@dataclass(frozen=True)
class Result:
    """An entry, filled in. `table` is the name of its table.

    `margin` is the difference that was judged, and `paper_margin` the paper's: the entry's own numbers, or where these
    are levels, how far the table's leader is ahead.
    """

    table: str
    row: str
    column: str
    ours: Figure
    paper: Figure | None
    margin: Figure
    paper_margin: Figure | None
    verdict: str
    why: str


def fill(table: Table, outcomes: Mapping[Cell, Outcomes]) -> list[Result]:
    """Measure every entry of a table and judge it against the paper."""
    results = []
    for entry in table.entries:
        replayed = [outcomes[cell] for cell in entry.cells]
        ours = entry.quantity.of(replayed)
        margin = ours
        paper_margin = entry.paper
        if entry.contrast is not None:
            margin = entry.contrast.of(replayed)
            paper_margin = entry.paper_contrast
        verdict, why = judge(margin, paper_margin)
        results.append(
            Result(
                table=table.name,
                row=entry.row,
                column=entry.column,
                ours=ours,
                paper=entry.paper,
                margin=margin,
                paper_margin=paper_margin,
                verdict=verdict,
                why=why,
            )
        )
    return results


def judge(ours: Figure, paper: Figure | None) -> tuple[str, str]:
    """A plain verdict on a signed finding, one of `camdf_lab.paper.summary.VERDICTS`, and why."""
    if paper is None:
        return "cannot be compared", "the paper prints no number here"
    if not ours.measured:
        return "cannot be compared", "the paper's number alone; nothing here corresponds to it"
    if ours.clear is None:
        return "cannot be compared", "a level, which another scorer or other labels move"
    same_side = (ours.value >= 0) == (paper.value >= 0)
    if paper.clear is None:
        if not ours.clear:
            return "cannot be compared", "no clear difference here, and the paper prints no interval"
        verdict = "same direction" if same_side else "differs"
        return verdict, "clear here; the paper prints no interval"
    if ours.clear and paper.clear:
        if same_side:
            return "replicates", "clear in both"
        return "differs", "clear in both, with opposite signs"
    if not ours.clear and not paper.clear:
        return "unclear in both", "with the same sign" if same_side else "with opposite signs"
    if same_side:
        return "same direction", "clear in the paper, not here" if paper.clear else "clearer here than in the paper"
    return "differs", "clear in the paper, absent here" if paper.clear else "clearly the other way here"

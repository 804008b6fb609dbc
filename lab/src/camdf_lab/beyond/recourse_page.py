"""What the page says of misses that are round trips: by recourse, by domain and ranking, and every loss."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from camdf.core.rankings import Floats
from camdf.evaluation.drawing import BLUE, COLUMN, GRAY, VERMILLION, canvas, styled
from camdf_lab.beyond.batches import BATCHES, of_batch
from camdf_lab.beyond.recourse import (
    BY_PRESSURE,
    IGNORING,
    RECOURSE_COMPARED,
    RECOURSE_CONSTANTS,
    TOLD,
    measure,
    recheck,
)
from camdf_lab.page import picture_line
from camdf_lab.stored import Row, Rows
from camdf_lab.study import Study, column, mean_of, of_pair, pairs_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture

BEST_CONSTANT = "best constant"
AGAINST = (IGNORING, BY_PRESSURE, BEST_CONSTANT)


def section(rows: Rows) -> list[str]:
    """The study's part of the page."""
    return [*_opening(rows), *_by_recourse(rows), *_against(rows), *_by_pair(rows), *_losses(rows)]


def margin(row: Row, other: str) -> float:
    """How much more the policy that is told pays, in misses: payoff over what one miss costs."""
    paid = row[_best_constant(row) if other == BEST_CONSTANT else other]
    return float((row[TOLD] - paid) / (1.0 - row["recourse"]))


def _best_constant(row: Row) -> str:
    """The constant that pays most in a cell."""
    return max(RECOURSE_CONSTANTS, key=lambda constant: float(row[constant]))


def _margins(rows: Rows, other: str) -> Floats:
    return np.array([margin(row, other) for row in rows])


def _with_recourse(rows: Rows) -> Rows:
    """The exact value with recourse, where the policies differ: partial and scaled, all three that learn agree."""
    return [row for row in rows if row["value"] == "exact" and row["recourse"] > 0]


def _opening(rows: Rows) -> list[str]:
    return [
        "## Where a miss is a round trip\n",
        "An agent that can search for a tool it was not given pays a round trip for a miss, not the task.",
        "`Payoff(recourse=r)` values a set that misses k required tools at r^k, or each missed one at r of its share",
        "(`partial`). A required tool outside the list is found by no search.",
        f"{len(rows)} cells: every domain and ranking, four splits (grouped where groups exist), both values,",
        "pressures 0.05, 0.12 and 0.20 (and 0.02 on long lists), dispersions 0 and 1. A miss costs only 1 - r of a",
        "task, so the pressure is scaled by 1 - r: a tool costs the same share of a miss at every r. One fit of the",
        f"default a split serves three columns. `{TOLD}` knows the recourse. `{IGNORING}` is paid the same and decides",
        f"as if a miss were final. `{BY_PRESSURE}` does not know it either, but its pressure was divided by 1 - r by",
        "hand. The others are constants; the most used tools are those that most training tasks required, loaded",
        "where the task's list has them. Mean payoff, tools loaded up front, share of tasks with a miss:\n",
    ]


def _by_recourse(rows: Rows) -> list[str]:
    lines = [
        "| domains, value, recourse | " + " | ".join(RECOURSE_COMPARED) + " |",
        "| --- |" + " --- |" * len(RECOURSE_COMPARED),
    ]
    for batch in BATCHES:
        here = of_batch(rows, batch)
        for value, recourse in sorted({(row["value"], row["recourse"]) for row in here}):
            some = [row for row in here if (row["value"], row["recourse"]) == (value, recourse)]
            figures = " | ".join(_cells_of_policy(some, name) for name in RECOURSE_COMPARED)
            lines.append(f"| {batch}, {value}, {recourse:g} | {figures} |")
    return [*lines, ""]


def _cells_of_policy(rows: Rows, name: str) -> str:
    missed = 1 - mean_of(rows, f"enough: {name}")
    return f"{mean_of(rows, name):+.3f}, {mean_of(rows, f'tools: {name}'):.1f}, {missed:.0%}"


def _against(rows: Rows) -> list[str]:
    shown = _with_recourse(rows)
    lines = [
        f"Under the exact value with recourse, {len(shown)} cells; margins are in misses: payoff over 1 - r, what one",
        f"miss costs. (Under the partial value `{BY_PRESSURE}` is the same policy as `{TOLD}`: a candidate stays where",
        "1 - r times its share is at least 1 - r times its price.) The best constant is picked in hindsight for each",
        "cell. Intervals resample groups.\n",
        f"| domains | `{TOLD}` against | mean margin | median | cells above | wholly above | wholly below |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for batch, other in product(BATCHES, AGAINST):
        some = of_batch(shown, batch)
        margins = _margins(some, other)
        wholly = " | "
        if other != BEST_CONSTANT:
            above = (column(some, f"low: {other}") > 0).mean()
            below = (column(some, f"high: {other}") < 0).mean()
            wholly = f"{above:.3f} | {below:.3f}"
        lines.append(
            f"| {batch} | {other} | {margins.mean():+.3f} | {np.median(margins):+.3f} | {(margins > 0).mean():.3f} "
            f"| {wholly} |"
        )
    even = float(np.mean(np.abs(_margins(shown, BY_PRESSURE)) < 0.05))
    fewer = (column(shown, f"tools: {TOLD}") < column(shown, f"tools: {IGNORING}")).mean()
    return [
        *lines,
        "",
        f"Being told loads fewer tools up front than not being told in {fewer:.0%} of cells, and pays more in most.",
        f"Dividing the pressure by hand comes within 0.05 misses of it in {even:.0%} of cells, and falls behind where",
        "tasks require many tools: without recourse they look hopeless at that pressure, and too little is loaded.\n",
        picture_line("recourse", "Margins of the default told of the recourse") + "\n",
    ]


def _by_pair(rows: Rows) -> list[str]:
    shown = _with_recourse(rows)
    lines = [
        "| domain, ranking | tools, told | not told | misses, told | not told | "
        + " | ".join(f"over {other}" for other in AGAINST)
        + " |",
        "| --- | --- | --- | --- | --- |" + " --- |" * len(AGAINST),
    ]
    for pair in pairs_of(shown):
        some = of_pair(shown, pair)
        figures = [f"{mean_of(some, f'tools: {name}'):.1f}" for name in (TOLD, IGNORING)]
        figures += [f"{1 - mean_of(some, f'enough: {name}'):.0%}" for name in (TOLD, IGNORING)]
        figures += [f"{_margins(some, other).mean():+.3f}" for other in AGAINST]
        lines.append(f"| {pair[0]}, {pair[1]} | {' | '.join(figures)} |")
    return [*lines, ""]


def _losses(rows: Rows) -> list[str]:
    shown = _with_recourse(rows)
    lost = sorted(
        ((row, other) for row in shown for other in (IGNORING, BY_PRESSURE) if row[f"high: {other}"] < 0),
        key=lambda loss: margin(*loss),
    )
    behind = sorted((row for row in shown if margin(row, BEST_CONSTANT) < 0), key=lambda r: margin(r, BEST_CONSTANT))
    lines = [
        f"Wholly below one of the two policies that are not told in {len(lost)} comparisons of {2 * len(shown)}, and",
        f"below the best constant of its cell in {len(behind)} cells of {len(shown)}. The five worst of each:\n",
        "| domain, ranking | pressure | dispersion | recourse | against | margin |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for row, other in [*lost[:5], *((row, BEST_CONSTANT) for row in behind[:5])]:
        place = f"{row['domain']}, {row['scorer']} | {row['cost_pressure']:g} | {row['dispersion']:g}"
        name = _best_constant(row) if other == BEST_CONSTANT else other
        lines.append(f"| {place} | {row['recourse']:g} | {name} | {margin(row, other):+.3f} |")
    return [*lines, ""]


def pictures(rows: Rows) -> dict[str, Picture]:
    """Every cell's margins."""
    return {"recourse": margins_picture(rows)}


@styled
def margins_picture(rows: Rows) -> Picture:
    """A panel a comparison, a line a domain and ranking, a dot a cell: blue where being told pays."""
    shown = _with_recourse(rows)
    pairs = pairs_of(shown)[::-1]
    pair_names = [f"{domain}, {scorer}" for domain, scorer in pairs]
    picture, grid = canvas(2 * COLUMN, 0.17 * len(pairs) + 0.9, 1, len(AGAINST))
    for place, (axes, other) in enumerate(zip(np.ravel(grid), AGAINST, strict=True)):
        for line, pair in enumerate(pairs):
            margins = _margins(of_pair(shown, pair), other)
            for part, color in ((margins > 0, BLUE), (margins <= 0, VERMILLION)):
                axes.plot(margins[part], np.full(part.sum(), line), "o", color=color, markersize=2, alpha=0.5, mew=0)
        axes.axvline(0, color=GRAY, linewidth=0.8)
        axes.set_yticks(range(len(pairs)), pair_names if place == 0 else [""] * len(pairs))
        axes.set_title(f"over {other}", fontsize=7)
    label = "payoff of the default that is told of the recourse minus the other's, in misses; a dot is a cell"
    picture.supxlabel(label, fontsize=8)
    return picture


STUDY = Study("recourse", measure, recheck, section, pictures)

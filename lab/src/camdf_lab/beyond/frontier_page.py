"""What the page says of the grid: the headline against its targets, by domain and ranking, and every loss."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from camdf.core.rankings import Floats
from camdf.evaluation.drawing import BLUE, COLUMN, GRAY, VERMILLION, canvas, styled
from camdf.policies.registry import DEFAULT
from camdf_lab.beyond.batches import BATCHES, CATALOGUES, of_batch, size_of_catalogue
from camdf_lab.beyond.frontier import COMPARED, PAPER, SIMPLE_RULES, headline, measure, recheck
from camdf_lab.page import yes_or_no
from camdf_lab.stored import Rows
from camdf_lab.study import Study, of_pair, pairs_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture

TARGETS: dict[str, dict[str, tuple[float, bool]]] = {
    "mean margin": {"shipped": (0.075, True), "later": (0.15, True)},
    "cells wholly below -0.02": dict.fromkeys(BATCHES, (0, False)),
    "significantly below": dict.fromkeys(BATCHES, (0.01, False)),
    "above cam-df": {"shipped": (0.65, True)},
}
"""Targets of the default with past tasks, by batch of domains; True: at least."""

WAYS = {"alone_": "from the ranking alone", "": "with texts", "past_": "with past tasks"}
"""How the default decides, by how the columns of that way begin (`STARTS`)."""


def section(rows: Rows) -> list[str]:
    """The grid's part of the page."""
    return [*_headline(rows), *_by_size(rows), *_by_pair(rows), *_losses(rows)]


def pictures(rows: Rows) -> dict[str, Picture]:
    """Every cell's margin."""
    return {"past-the-paper": grid_picture(rows)}


@styled
def grid_picture(rows: Rows) -> Picture:
    """Every cell's margin over the best simple rule, by domain and ranking: the paper's policy and the default."""
    pairs = sorted(pairs_of(rows), key=lambda pair: _mean_margin(of_pair(rows, pair), DEFAULT))
    picture, axes = canvas(2 * COLUMN, 0.2 * len(pairs) + 0.9)
    for place, pair in enumerate(pairs):
        for policy, color, shift in ((PAPER, VERMILLION, -0.17), (DEFAULT, BLUE, 0.17)):
            margins = _margins(of_pair(rows, pair), policy)
            axes.plot(margins, np.full(len(margins), place + shift), "o", color=color, markersize=2, alpha=0.45, mew=0)
            axes.plot([margins.mean()], [place + shift], "|", color=color, markersize=9, markeredgewidth=2)
    axes.axvline(0, color=GRAY, linewidth=0.8)
    axes.set_yticks(range(len(pairs)), [f"{domain}, {scorer}" for domain, scorer in pairs])
    axes.set_xlabel("mean payoff minus that of the best simple rule of the cell; a dot is a cell, a bar their mean")
    for policy, color in (("the paper's CAM-DF", VERMILLION), ("expected payoff by set, the default", BLUE)):
        axes.plot([], [], "o", color=color, label=policy, markersize=4)
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2)
    return picture


def _headline(rows: Rows) -> list[str]:
    lines = [
        "## Against the best simple rule of each cell\n",
        f"{len(rows)} cells: every domain and ranking, exact and partial value, cost pressures 0.05, 0.12 and 0.20",
        "(and 0.02 on long lists), dispersions 0, 1.0 and 1.5, random splits, and grouped ones where groups exist. The",
        f"bar is the best of {', '.join(SIMPLE_RULES)},",
        "picked in hindsight for each cell. Intervals resample groups. The default starts from priors that have not",
        "seen the domain. 'With texts' it also reads a vector of 64 numbers of each task's text, where held-out labels",
        "show that it helps; alone it has the scores and nothing else. 'With past tasks' it also knows what similar",
        "training tasks needed, where that lowers its held-out loss (`remember=True`). The targets are for that way.\n",
        f"| domains | the default | {' | '.join(WAYS.values())} | target | |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for batch in BATCHES:
        here = of_batch(rows, batch)
        figures = [headline(here, start) for start in WAYS]
        lines.append(f"| {batch} | cells | {' | '.join([f'{len(here)}'] * len(WAYS))} | | |")
        for name, value in list(figures[-1].items())[1:]:
            target = _target(name, batch, value)
            lines.append(f"| {batch} | {name} | {' | '.join(f'{way[name]:.3f}' for way in figures)} | {target} |")
    return [*lines, "", "![Margins by domain and ranking](pictures/past-the-paper.png)\n"]


def _target(figure: str, batch: str, value: float) -> str:
    """The target of a figure and whether it is reached, or two empty columns."""
    if batch not in TARGETS.get(figure, {}):
        return " | "
    target, at_least = TARGETS[figure][batch]
    if at_least:
        return f"at least {target:g} | {yes_or_no(value >= target)}"
    return f"at most {target:g} | {yes_or_no(value <= target)}"


def _by_size(rows: Rows) -> list[str]:
    lines = [
        "By size of the catalogue: the mean margin over the best simple rule, and the share of cells clearly below.\n",
        f"| domains | catalogue | cells | {' | '.join(WAYS.values())} | below | below | below |",
        "| --- | --- | --- |" + " --- |" * (2 * len(WAYS)),
    ]
    for batch in BATCHES:
        for size in CATALOGUES:
            here = [row for row in of_batch(rows, batch) if size_of_catalogue(row["domain"]) == size]
            if here:
                figures = [headline(here, start) for start in WAYS]
                means = " | ".join(f"{way['mean margin']:+.3f}" for way in figures)
                below = " | ".join(f"{way['significantly below']:.1%}" for way in figures)
                lines.append(f"| {batch} | {size} | {len(here)} | {means} | {below} |")
    return [*lines, ""]


def _by_pair(rows: Rows) -> list[str]:
    shown = [policy for policy in COMPARED if policy not in SIMPLE_RULES]
    lines = [
        "## By domain and ranking\n",
        "Mean margin over the best simple rule of each cell.\n",
        "| domains | domain, ranking | cells | " + " | ".join(shown) + " |",
        "| --- | --- | --- |" + " --- |" * len(shown),
    ]
    for batch in BATCHES:
        here = of_batch(rows, batch)
        for pair in pairs_of(here):
            cells = of_pair(rows, pair)
            means = [f"{_mean_margin(cells, policy):+.3f}" for policy in shown]
            lines.append(f"| {batch} | {pair[0]}, {pair[1]} | {len(cells)} | {' | '.join(means)} |")
        total = [f"{_mean_margin(here, policy):+.3f}" for policy in shown]
        lines.append(f"| {batch} | **all** | {len(here)} | {' | '.join(total)} |")
    return [*lines, ""]


def _losses(rows: Rows) -> list[str]:
    lines = ["## Where the default loses\n"]
    for start, way in WAYS.items():
        lost = sorted((row for row in rows if row[f"{start}hi"] < 0), key=lambda row: row[f"{start}margin"])
        lines += [
            f"Significantly below the best simple rule, {way}, in {len(lost)} of {len(rows)} cells:\n",
            "| domain, ranking | splits | value | pressure | dispersion | best rule | margin |",
            "| --- | --- | --- | --- | --- | --- | --- |",
        ]
        for row in lost:
            margin = f"{row[f'{start}margin']:+.3f} [{row[f'{start}lo']:+.3f}, {row[f'{start}hi']:+.3f}]"
            place = f"{row['domain']}, {row['scorer']} | {row['splits']} | {row['value']}"
            price = f"{row['cost_pressure']:g} | {row['dispersion']:g}"
            lines.append(f"| {place} | {price} | {row['baseline']} | {margin} |")
        lines.append("")
    return lines


def _margins(rows: Rows, policy: str) -> Floats:
    """(rows,): how much more a policy pays than the best simple rule of the cell."""
    return np.array([row[policy] - row[row["baseline"]] for row in rows])


def _mean_margin(rows: Rows, policy: str) -> float:
    return float(_margins(rows, policy).mean())


STUDY = Study("frontier", measure, recheck, section, pictures)

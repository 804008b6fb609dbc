"""What the page says of the grid: the headline against what was asked, by domain and ranking, and every loss."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from camdf.lab.beyond.frontier import BASELINES, COMPARED, PAPER, measure, recheck, summary
from camdf.lab.drawing import BLUE, COLUMN, GRAY, VERMILLION, canvas, styled
from camdf.lab.stored import Rows
from camdf.lab.study import Pair, Study, of_pair, pairs_of
from camdf.policies.registry import DEFAULT

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture

TARGETS = {
    "mean gain": (0.05, True),
    "median gain": (0.015, True),
    "mean gain without the best pair": (0.03, True),
    "cells wholly below -0.02": (0, False),
    "significantly below": (0.025, False),
    "significantly above": (0.45, True),
    "above cam-df": (0.60, True),
    "below cam-df": (0.025, False),
}
"""What the default was asked to reach; True: at least."""


def section(rows: Rows) -> list[str]:
    """The grid's part of the page."""
    return [*_headline(rows), *_by_pair(rows), *_losses(rows)]


def pictures(rows: Rows) -> dict[str, Picture]:
    """Every cell's margin."""
    return {"past-the-paper": margins(rows)}


@styled
def margins(rows: Rows) -> Picture:
    """Every cell's margin over the best simple rule, by domain and ranking: the paper's policy and the default."""
    pairs = sorted(pairs_of(rows), key=lambda pair: _mean(rows, pair, DEFAULT))
    picture, axes = canvas(2 * COLUMN, 0.27 * len(pairs) + 0.9)
    for place, pair in enumerate(pairs):
        for policy, colour, shift in ((PAPER, VERMILLION, -0.17), (DEFAULT, BLUE, 0.17)):
            found = _margins(rows, pair, policy)
            axes.plot(found, np.full(len(found), place + shift), "o", color=colour, markersize=2, alpha=0.45, mew=0)
            axes.plot([found.mean()], [place + shift], "|", color=colour, markersize=9, markeredgewidth=2)
    axes.axvline(0, color=GRAY, linewidth=0.8)
    axes.set_yticks(range(len(pairs)), [f"{domain}, {scorer}" for domain, scorer in pairs])
    axes.set_xlabel("mean payoff minus that of the best simple rule of the cell; a dot is a cell, a bar their mean")
    for policy, colour in (("the paper's CAM-DF", VERMILLION), ("expected payoff by set, the default", BLUE)):
        axes.plot([], [], "o", color=colour, label=policy, markersize=4)
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2)
    return picture


def _headline(rows: Rows) -> list[str]:
    found = summary(rows)
    lines = [
        "## Against the best simple rule of each cell\n",
        f"{found['cells']:.0f} cells: every domain and ranking, exact and partial value, cost pressures 0.05, 0.12 and",
        "0.20 (and 0.02 on long lists), dispersions 0, 1.0 and 1.5, random splits, and grouped ones where groups",
        f"exist. The bar is the best of {', '.join(BASELINES)}, picked in hindsight for each cell. Intervals",
        "resample groups.\n",
        "| the default | measured | asked for | |",
        "| --- | --- | --- | --- |",
    ]
    for name, value in found.items():
        if name == "cells":
            continue
        target, at_least = TARGETS.get(name, (None, True))
        asked = "" if target is None else f"at {'least' if at_least else 'most'} {target:g}"
        reached = target is None or (value >= target if at_least else value <= target)
        lines.append(f"| {name} | {value:.3f} | {asked} | {'' if target is None else 'yes' if reached else '**no**'} |")
    return [*lines, "", "![Margins by domain and ranking](pictures/past-the-paper.png)\n"]


def _by_pair(rows: Rows) -> list[str]:
    shown = [policy for policy in COMPARED if policy not in BASELINES]
    lines = [
        "## By domain and ranking\n",
        "Mean margin over the best simple rule of each cell. The iterated target was not run on seal-tools.\n",
        "| domain, ranking | cells | " + " | ".join(shown) + " |",
        "| --- | --- |" + " --- |" * len(shown),
    ]
    for pair in pairs_of(rows):
        means = [f"{_mean(rows, pair, policy):+.3f}".replace("+nan", "") for policy in shown]
        lines.append(f"| {pair[0]}, {pair[1]} | {len(_margins(rows, pair, DEFAULT))} | {' | '.join(means)} |")
    total = [f"{np.nanmean([row[p] - row[row['baseline']] for row in rows]):+.3f}" for p in shown]
    return [*lines, f"| **all** | {len(rows)} | {' | '.join(total)} |", ""]


def _losses(rows: Rows) -> list[str]:
    lost = sorted((row for row in rows if row["hi"] < 0), key=lambda row: row["default_minus_baseline"])
    lines = [
        "## Where the default loses\n",
        f"Significantly below the best simple rule in {len(lost)} of {len(rows)} cells:\n",
        "| domain, ranking | splits | value | pressure | dispersion | best rule | margin |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in lost:
        margin = f"{row['default_minus_baseline']:+.3f} [{row['lo']:+.3f}, {row['hi']:+.3f}]"
        place = f"{row['domain']}, {row['scorer']} | {row['splits']} | {row['value']}"
        lines.append(f"| {place} | {row['cost_pressure']:g} | {row['dispersion']:g} | {row['baseline']} | {margin} |")
    return [*lines, ""]


def _margins(rows: Rows, pair: Pair, policy: str) -> Any:
    return np.array([row[policy] - row[row["baseline"]] for row in of_pair(rows, pair)])


def _mean(rows: Rows, pair: Pair, policy: str) -> float:
    return float(_margins(rows, pair, policy).mean())


STUDY = Study("frontier", measure, recheck, section, pictures)

"""Wrong labels: what the default and the paper's CAM-DF pay over the grid when they learn from flipped memberships."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from camdf.lab.past.chapter import Chapter, Row, Rows, Run, differing
from camdf.lab.past.frontier import DEFAULT, PAPER, PLACE, Sweep, in_cell, place_of, sample, sweeps
from camdf.lab.plots import BLUE, COLUMN, GRAY, GREEN, VERMILLION, canvas, styled
from camdf.lab.replay import Outcomes

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture

THRESHOLD = "score-per-cost"
POLICIES = (DEFAULT, THRESHOLD, PAPER)
NOISE = (0.0, 0.05, 0.1, 0.2)
MOST_BELOW = 0.025
"""The share of cells in which the default may be significantly below the threshold, as asked."""

MARGINS = {"default_minus_score_per_cost": "", "camdf_minus_score_per_cost": "_paper", "default_minus_camdf": "_camdf"}
"""A margin's column, and how its interval's columns end after lo and hi."""


def rows_of(sweep: Sweep, outcomes: Outcomes) -> list[Row]:
    """One row a cell: the three means, and their margins with intervals by group."""
    rows: list[Row] = []
    for cell in sweep.cells:
        place = dict(zip(PLACE, place_of(sweep, cell), strict=True))
        figures = {name: outcomes.mean(in_cell(cell, name)) for name in POLICIES}
        pairs = ((DEFAULT, THRESHOLD), (PAPER, THRESHOLD), (DEFAULT, PAPER))
        for (margin, end), (policy, other) in zip(MARGINS.items(), pairs, strict=True):
            found = outcomes.difference(in_cell(cell, policy), in_cell(cell, other), by_group=True)
            figures |= {margin: found.mean, f"lo{end}": found.low, f"hi{end}": found.high}
        rows.append({**place, "noise": sweep.noise, "n_tasks": len(outcomes.task_ids), **figures})
    return rows


def measure(run: Run) -> Rows:
    """The whole grid at every noise: 40 minutes of one core."""
    grid = [sweep for noise in NOISE for sweep in sweeps(POLICIES, noise)]
    return [row for sweep, found in run(grid).items() for row in rows_of(sweep, found)]


def recheck(rows: Rows, seed: int, run: Run) -> list[str]:
    """One small sweep at one noise, replayed."""
    noise = NOISE[np.random.default_rng(seed).integers(len(NOISE))]
    again = [row for sweep, found in run(sample(1, seed, POLICIES, noise)).items() for row in rows_of(sweep, found)]
    return differing(rows, again, (*PLACE, "noise"), (*POLICIES, *MARGINS))


def summary(rows: Rows) -> dict[float, dict[str, float]]:
    """By noise: the mean margins over the threshold, and the shares of cells clearly below and above it."""
    found = {}
    for noise in NOISE:
        here = [row for row in rows if row["noise"] == noise]
        found[noise] = {
            "cells": len(here),
            "default": np.mean([row["default_minus_score_per_cost"] for row in here]),
            "default below": np.mean([row["hi"] < 0 for row in here]),
            "default above": np.mean([row["lo"] > 0 for row in here]),
            "camdf": np.mean([row["camdf_minus_score_per_cost"] for row in here]),
            "camdf below": np.mean([row["hi_paper"] < 0 for row in here]),
            "camdf above": np.mean([row["lo_paper"] > 0 for row in here]),
            "default below camdf": np.mean([row["hi_camdf"] < 0 for row in here]),
        }
    return {noise: {name: float(value) for name, value in each.items()} for noise, each in found.items()}


def section(rows: Rows) -> list[str]:
    """Margins by noise, what was asked, and where the default loses."""
    found = summary(rows)
    cells = f"{found[0.0]['cells']:.0f}"
    lines = [
        "## When labels are wrong\n",
        f"The same {cells} cells, with every listed tool's membership flipped at random in the training and validation",
        "labels; the test labels stay clean. The bar is the score-per-cost threshold, tuned on the same wrong labels.",
        f"Asked: the default is significantly below it in at most {MOST_BELOW:.1%} of cells at every noise.\n",
        "| noise | default minus threshold | below | above | asked | CAM-DF minus threshold | below | above |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for noise, each in found.items():
        reached = "yes" if each["default below"] <= MOST_BELOW else "**no**"
        lines.append(
            f"| {noise:g} | {each['default']:+.3f} | {each['default below']:.1%} | {each['default above']:.1%} "
            f"| {reached} | {each['camdf']:+.3f} | {each['camdf below']:.1%} | {each['camdf above']:.1%} |"
        )
    retail = _paper_cell(rows)
    return [
        *lines,
        "",
        "'Below' and 'above' are the shares of cells whose whole 95% interval is. In the paper's own cell (retail,",
        "claude, exact, 0.12, equal costs, noise 0.1), where its CAM-DF falls 0.06 below the threshold, CAM-DF comes",
        f"to {retail['camdf_minus_score_per_cost']:+.3f} here and the default to "
        f"{retail['default_minus_score_per_cost']:+.3f}.\n",
        "![Margin over the threshold against label noise](pictures/noise.png)\n",
        *_losses(rows),
    ]


def _paper_cell(rows: Rows) -> Row:
    place = ("retail", "claude", "random", "exact", 0.12, 0.0, 0.1)
    return next(row for row in rows if tuple(row[name] for name in (*PLACE, "noise")) == place)


def _losses(rows: Rows) -> list[str]:
    """How many cells of each domain and ranking are clearly below, by noise."""
    lost = [row for row in rows if row["hi"] < 0]
    if not lost:
        return ["No cell is significantly below the threshold.\n"]
    judged = sum(row["scorer"].startswith("claude") for row in lost)
    lines = [
        f"Of the {len(lost)} cells with a loss, {judged} are under a ranking that a language model scored, where one",
        "threshold needs hardly any label. The default learns how often a label says 'required', and flips lift that",
        "for every tool. Where it loses, in cells, and its lowest margin there:\n",
        "| domain, ranking | splits | " + " | ".join(f"noise {noise:g}" for noise in NOISE) + " | lowest |",
        "| --- | --- |" + " --- |" * (len(NOISE) + 1),
    ]
    for place in dict.fromkeys((row["domain"], row["scorer"], row["splits"]) for row in lost):
        here = [row for row in lost if (row["domain"], row["scorer"], row["splits"]) == place]
        total = sum((row["domain"], row["scorer"], row["splits"]) == place for row in rows) // len(NOISE)
        counts = [sum(row["noise"] == noise for row in here) for noise in NOISE]
        lowest = min(here, key=lambda row: row["default_minus_score_per_cost"])
        margin = f"{lowest['default_minus_score_per_cost']:+.3f} [{lowest['lo']:+.3f}, {lowest['hi']:+.3f}]"
        shown = " | ".join(f"{count} of {total}" if count else "" for count in counts)
        lines.append(f"| {place[0]}, {place[1]} | {place[2]} | {shown} | {margin} |")
    return [*lines, ""]


def pictures(rows: Rows) -> dict[str, Picture]:
    """Margin against noise."""
    return {"noise": margin_by_noise(rows)}


@styled
def margin_by_noise(rows: Rows) -> Picture:
    """Mean margin over the threshold, a thin line a domain and a thick one for all; and the shares clearly below."""
    picture, (default, paper, below) = canvas(2 * COLUMN, 2.8, 1, 3)
    domains = list(dict.fromkeys(row["domain"] for row in rows))
    for axes, margin, colour, title in (
        (default, "default_minus_score_per_cost", BLUE, "the default"),
        (paper, "camdf_minus_score_per_cost", VERMILLION, "the paper's CAM-DF"),
    ):
        for domain in domains:
            axes.plot(NOISE, _means(rows, margin, domain), color=colour, linewidth=0.7, alpha=0.45)
        axes.plot(NOISE, _means(rows, margin), color=colour, linewidth=2.2, marker="o", markersize=4)
        axes.axhline(0, color=GRAY, linewidth=0.8)
        axes.set(title=title, xticks=NOISE)
    default.set_ylabel("mean payoff minus that of\nthe score-per-cost threshold")
    reach = [axes.get_ylim() for axes in (default, paper)]
    for axes in (default, paper):
        axes.set_ylim(min(low for low, _ in reach), max(high for _, high in reach))
    found = summary(rows)
    for name, colour, label, marker in (("camdf", VERMILLION, "CAM-DF", "s"), ("default", BLUE, "the default", "o")):
        shares = [100 * found[noise][f"{name} below"] for noise in NOISE]
        below.plot(NOISE, shares, color=colour, marker=marker, markersize=4, label=label)
    below.axhline(100 * MOST_BELOW, color=GREEN, linewidth=1.0, linestyle="--", label="asked, at most")
    below.set(title="cells significantly below, %", xticks=NOISE, ylim=(0, None))
    below.legend(loc="center right", bbox_to_anchor=(1.0, 0.65))
    picture.supxlabel("share of training labels flipped; a thin line is a domain, the thick one all cells", fontsize=8)
    return picture


def _means(rows: Rows, margin: str, domain: str | None = None) -> list[float]:
    here = [row for row in rows if domain is None or row["domain"] == domain]
    return [float(np.mean([row[margin] for row in here if row["noise"] == noise])) for noise in NOISE]


CHAPTER = Chapter("noise", measure, recheck, section, pictures)

"""The page 'Where CAM-DF breaks, and what we do about it', and its pictures, from the stored grid."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from camdf.lab.calibration import expected_calibration_error
from camdf.lab.frontier import BASELINES, DEFAULT, PAPER, POLICIES, summary
from camdf.lab.plots import BLUE, COLUMN, GRAY, VERMILLION, canvas, save, styled

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture

Rows = Sequence[Mapping[str, Any]]
Bins = Mapping[tuple[str, str], Sequence[tuple[int, float, float]]]

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


FEWEST = 20
"""Bins of fewer candidates are left out of the picture; the table counts them."""

OPENING = """# Where CAM-DF breaks, and what we do about it

Written by `camdf lab frontier` from `results/frontier.csv` and `results/calibration.csv`.

The paper's target compares stopping with the best later prefix *in hindsight*. Where the ranking is ambiguous, the
expected maximum exceeds the maximum of expectations, so the classifier learns to go on. Ten candidates, one of them
required, its rank uniform, unit costs, pressure 0.2: acquiring nothing is best and pays 0, but the Bayes rule of the
hindsight target continues to depth 8 and pays -0.8. No amount of data mends that. And no prefix can skip an expensive
middling tool.

Three remedies, each a policy:

- `CAMDF(target="on-policy")` replaces hindsight by what the policy itself would realise from the next depth on,
  iterated until it stops changing. For two stop patterns a and b on one list, with V_t(a) the payoff that a realises
  from depth t on and D_t = U_t - V_{t+1}(a), the difference V_0(b) - V_0(a) is the sum of (b_t - a_t) * D_t over the
  states that b visits. So stopping exactly where D_t >= 0 never pays less, and a fixed point of the expected gap is
  Bayes-optimal among depths: nothing is revealed on the way.
- `ExpectedPayoffByDepth` models what each depth is worth and takes the argmax of value minus priced cost.
- `ExpectedPayoffBySet`, the default, learns how likely each candidate is to be required (from its score, its place in
  the list, and how often that tool was required when it was listed before), calibrates the probability that a set
  suffices, and takes the best set. The best set is a cut of the order by -log(1 - p_j) / c_j: the payoff is convex in
  (sum of -log(1 - p_j), cost), so a vertex of the hull of all sets is best, and its vertices are those cuts. One fit
  serves every cost pressure, price and both payoffs.

Read the figures with one caveat. Every fit and every choice inside a policy sees training tasks alone, but the default
itself was designed with this grid in view: about half a dozen model variants (with and without tool history and set
calibration, averaged over regularisation strengths) and eight fall-back rules were measured on it, and the best kept.
The grid has no domain that was kept aside for a final look, so the margins below are somewhat optimistic.
"""


@styled
def margins(rows: Rows) -> Picture:
    """Every cell's margin over the best simple rule, by domain and ranking: the paper's policy and the default."""
    pairs = sorted({(row["domain"], row["scorer"]) for row in rows}, key=lambda pair: _mean(rows, pair, DEFAULT))
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


@styled
def reliability_diagram(calibration: Bins) -> Picture:
    """Held-out membership probability against the share that was required, one line a ranking, one panel a domain."""
    domains = list(dict.fromkeys(domain for domain, _ in calibration))
    picture, grid = canvas(2 * COLUMN, 5.6, 3, 3)
    colours = {"claude": BLUE, "minilm": VERMILLION, "bm25": "#009E73"}
    for axes, domain in zip(np.ravel(grid), domains, strict=True):
        axes.plot([0, 1], [0, 1], color=GRAY, linewidth=0.7, linestyle=":")
        for (name, scorer), bins in calibration.items():
            if name == domain:
                known = colours.get(scorer, "#56B4E9" if scorer == "claude-brief" else "#CC79A7")
                _, mean, share = zip(*(each for each in bins if each[0] >= FEWEST), strict=True)
                axes.plot(mean, share, marker="o", markersize=2.5, linewidth=0.9, color=known, label=scorer)
        axes.set_title(domain)
        axes.set(xlim=(0, 1), ylim=(0, 1), xticks=(0, 0.5, 1), yticks=(0, 0.5, 1))
        axes.legend(loc="upper left", fontsize=5.5, handlelength=1.2)
    picture.supxlabel("probability that the tool is required", fontsize=8)
    picture.supylabel("share of tools that were", fontsize=8)
    return picture


def write_pictures(rows: Rows, calibration: Bins, folder: Path) -> None:
    """Both pictures, as SVG and PNG."""
    folder.mkdir(parents=True, exist_ok=True)
    save(margins(rows), folder / "past-the-paper")
    save(reliability_diagram(calibration), folder / "reliability")


def page(rows: Rows, calibration: Bins) -> str:
    """The page's text, from stored results alone."""
    return "\n".join([OPENING, *_headline(rows), *_by_pair(rows), *_losses(rows), *_calibration(calibration)]) + "\n"


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
    shown = [policy for policy in POLICIES if policy not in BASELINES]
    lines = [
        "## By domain and ranking\n",
        "Mean margin over the best simple rule of each cell. The iterated target was not run on seal-tools.\n",
        "| domain, ranking | cells | " + " | ".join(shown) + " |",
        "| --- | --- |" + " --- |" * len(shown),
    ]
    for pair in dict.fromkeys((row["domain"], row["scorer"]) for row in rows):
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


def _calibration(calibration: Bins) -> list[str]:
    lines = [
        "## Do the probabilities mean what they say?\n",
        "Held-out membership probabilities: every task is predicted by models that saw no task of its group.\n",
        "| domain, ranking | candidates | expected calibration error |",
        "| --- | --- | --- |",
    ]
    for (domain, scorer), bins in calibration.items():
        count = sum(size for size, _, _ in bins)
        lines.append(f"| {domain}, {scorer} | {count:,} | {expected_calibration_error(bins):.3f} |")
    note = f"The picture leaves out bins of fewer than {FEWEST} candidates; the errors count them."
    return [*lines, "", note, "", "![Reliability diagrams](pictures/reliability.png)"]


def _margins(rows: Rows, pair: tuple[str, str], policy: str) -> Any:
    return np.array([r[policy] - r[r["baseline"]] for r in rows if (r["domain"], r["scorer"]) == pair])


def _mean(rows: Rows, pair: tuple[str, str], policy: str) -> float:
    return float(_margins(rows, pair, policy).mean())

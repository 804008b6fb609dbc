"""What code that was frozen said before anybody looked: tables in `results/frozen` that no command of the lab makes.

The grids of the shipped domains, and of the second look when it was first seen; and the default of that code beside
today's at every number of labels, which `scripts/frozen_labels.py` measures.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np

from camdf.policies.registry import DEFAULT
from camdf_lab.beyond.cold_start import COLD, CONSTANTS
from camdf_lab.beyond.labels import MOST_BELOW, by_labels
from camdf_lab.beyond.looks import LOOKS, of_look
from camdf_lab.stored import stored

FOLDER = "frozen"
GRIDS = {"shipped": ("frontier",), "second look": ("frontier_second_look", "frontier_second_look_claude")}
COLD_STARTS = {"shipped": "cold_start", "second look": "cold_start_second_look"}


def section(results: Path) -> list[str]:
    """The page's part."""
    return [*_grids(results), *_cold_starts(results), *_labels(results)]


def _grids(results: Path) -> list[str]:
    lines = [
        "## What the frozen code said\n",
        "Until commit 5ea6493 everything was chosen in view of nine domains, the shipped ones. Eight more were then",
        "fixed before any score of them was computed, and looked at once with that code: the second look. (A ninth,",
        "ultratool, states no licence and is left out here.) Its default fitted a model from nothing and subtracted",
        "an estimate of wrong labels. The margins held; safety did not, and the default below was made for that.\n",
        "| look | cells | mean margin | median | wholly below -0.02 | clearly below | above | over CAM-DF | under |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for look, names in GRIDS.items():
        rows = of_look([row for name in names for row in stored(results / FOLDER, name)], look)
        margin, low, high = (np.array([row[name] for row in rows]) for name in ("default_minus_baseline", "lo", "hi"))
        over, under = (np.array([row[name] for row in rows]) for name in ("lo_camdf", "hi_camdf"))
        lines.append(
            f"| {look} | {len(rows)} | {margin.mean():+.3f} | {np.median(margin):+.3f} | {(high < -0.02).sum()} "
            f"| {(high < 0).mean():.1%} | {(low > 0).mean():.1%} | {(over > 0).mean():.1%} | {(under < 0).mean():.1%} |"
        )
    return [*lines, ""]


def _cold_starts(results: Path) -> list[str]:
    lines = [
        "Its cold start, beside six constants:\n",
        "| look | cells | comparisons won | all six beaten | worst margin over the best constant |",
        "| --- | --- | --- | --- | --- |",
    ]
    for look, name in COLD_STARTS.items():
        rows = of_look(stored(results / FOLDER, name), look)
        margins = np.array([[row[COLD] - row[constant] for constant in CONSTANTS] for row in rows])
        won = margins > 0
        lines.append(
            f"| {look} | {len(rows)} | {won.mean():.3f} | {won.all(axis=1).mean():.3f} | {margins.min():+.3f} |"
        )
    return [*lines, ""]


def _labels(results: Path) -> list[str]:
    lines = [
        "From the first label on, the default of today beside the frozen one, on the same tasks and splits, from the",
        f"ranking alone. 'Below' counts margins wholly below -0.02; asked, at most {MOST_BELOW:.1%} of cells:\n",
        "| look | labels | cells | today's | the frozen | below | clearly above |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    rows = stored(results / FOLDER, "labels")
    for look in LOOKS:
        for number, here in by_labels(of_look(rows, look)).items():
            today, frozen, low, high = (np.array([row[name] for row in here]) for name in (DEFAULT, FOLDER, "lo", "hi"))
            below = (high < -0.02).mean()
            shown = f"{below:.1%}" if below <= MOST_BELOW else f"**{below:.1%}**"
            lines.append(
                f"| {look} | {number} | {len(here)} | {today.mean():.3f} | {frozen.mean():.3f} | {shown} "
                f"| {(low > 0).mean():.1%} |"
            )
    below = Counter((row["domain"], row["scorer"], f"{row['labels']:g}") for row in rows if row["hi"] < -0.02)
    most = [f"{domain} under {scorer} at {number} ({n})" for (domain, scorer, number), n in below.most_common(3)]
    return [*lines, "", f"Of the {below.total()} cells below, most are in {', '.join(most)}.", ""]

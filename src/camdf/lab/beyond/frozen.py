"""What code that was frozen said before anybody looked: tables in `results/frozen` that no command makes again.

The grids of the shipped domains, and of the second look when it was first seen.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from camdf.lab.beyond.cold_start import COLD, CONSTANTS
from camdf.lab.beyond.looks import of_look
from camdf.lab.stored import stored

FOLDER = "frozen"
GRIDS = {"shipped": ("frontier",), "second look": ("frontier_second_look", "frontier_second_look_claude")}
COLD_STARTS = {"shipped": "cold_start", "second look": "cold_start_second_look"}


def section(results: Path) -> list[str]:
    """The page's part."""
    return [*_grids(results), *_cold_starts(results)]


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
        found = np.array([[row[COLD] - row[each] for each in CONSTANTS] for row in rows])
        won = found > 0
        lines.append(f"| {look} | {len(rows)} | {won.mean():.3f} | {won.all(axis=1).mean():.3f} | {found.min():+.3f} |")
    return [*lines, ""]

"""What code that was frozen said before anybody looked: tables in `results/frozen` that no command of the lab makes.

The grids of the shipped domains, and of the later domains when they were first seen; and the default of that code
beside today's at every number of labels, which `scripts/frozen_labels.py` measures.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np

from camdf.policies.registry import DEFAULT
from camdf_lab.beyond.batches import BATCHES, of_batch
from camdf_lab.beyond.cold_start import COLD, CONSTANTS
from camdf_lab.beyond.labels import MOST_BELOW, by_labels
from camdf_lab.stored import stored

FOLDER = "frozen"
GRIDS = {"shipped": ("frontier",), "later": ("frontier_second_look", "frontier_second_look_claude")}
COLD_STARTS = {"shipped": "cold_start", "later": "cold_start_second_look"}


def section(results: Path) -> list[str]:
    """The page's part."""
    return [*_grids(results), *_cold_starts(results), *_labels(results)]


def _grids(results: Path) -> list[str]:
    lines = [
        "## What the frozen code said\n",
        "Until commit 5ea6493 everything was chosen in view of nine domains, the shipped ones. Eight more were then",
        "fixed before any score of them was computed, and looked at once with that code: the later domains. (A",
        "ninth, ultratool, states no license and is left out here.) The default of that code fitted a model from",
        "nothing and subtracted an estimate of wrong labels. The margins held; safety did not, and the default below",
        "was made for that.\n",
        "| domains | cells | mean margin | median | wholly below -0.02 | clearly below | above | over CAM-DF | under |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for batch, names in GRIDS.items():
        rows = of_batch([row for name in names for row in stored(results / FOLDER, name)], batch)
        margin, low, high = (np.array([row[name] for row in rows]) for name in ("default_minus_baseline", "lo", "hi"))
        over, under = (np.array([row[name] for row in rows]) for name in ("lo_camdf", "hi_camdf"))
        lines.append(
            f"| {batch} | {len(rows)} | {margin.mean():+.3f} | {np.median(margin):+.3f} | {(high < -0.02).sum()} "
            f"| {(high < 0).mean():.1%} | {(low > 0).mean():.1%} | {(over > 0).mean():.1%} | {(under < 0).mean():.1%} |"
        )
    return [*lines, ""]


def _cold_starts(results: Path) -> list[str]:
    lines = [
        "The cold start of that code, compared with six constants:\n",
        "| domains | cells | comparisons won | all six beaten | worst margin over the best constant |",
        "| --- | --- | --- | --- | --- |",
    ]
    for batch, name in COLD_STARTS.items():
        rows = of_batch(stored(results / FOLDER, name), batch)
        margins = np.array([[row[COLD] - row[constant] for constant in CONSTANTS] for row in rows])
        won = margins > 0
        lines.append(
            f"| {batch} | {len(rows)} | {won.mean():.3f} | {won.all(axis=1).mean():.3f} | {margins.min():+.3f} |"
        )
    return [*lines, ""]


def _labels(results: Path) -> list[str]:
    lines = [
        "From the first label on, the default of today compared with the frozen one, on the same tasks and splits,",
        f"from the ranking alone. 'Below' counts margins wholly below -0.02 (target: at most {MOST_BELOW:.1%}):\n",
        "| domains | labels | cells | today's | the frozen | below | clearly above |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    rows = stored(results / FOLDER, "labels")
    for batch in BATCHES:
        for number, here in by_labels(of_batch(rows, batch)).items():
            today, frozen, low, high = (np.array([row[name] for row in here]) for name in (DEFAULT, FOLDER, "lo", "hi"))
            below = (high < -0.02).mean()
            shown = f"{below:.1%}" if below <= MOST_BELOW else f"**{below:.1%}**"
            lines.append(
                f"| {batch} | {number} | {len(here)} | {today.mean():.3f} | {frozen.mean():.3f} | {shown} "
                f"| {(low > 0).mean():.1%} |"
            )
    below = Counter((row["domain"], row["scorer"], f"{row['labels']:g}") for row in rows if row["hi"] < -0.02)
    most = [f"{domain} under {scorer} at {number} ({n})" for (domain, scorer, number), n in below.most_common(3)]
    return [*lines, "", f"Of the {below.total()} cells below, most are in {', '.join(most)}.", ""]

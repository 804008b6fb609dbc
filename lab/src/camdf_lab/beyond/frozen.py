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
from camdf_lab.beyond.cold_start import margins_over_constants, shares_won
from camdf_lab.beyond.labels import MOST_BELOW, by_labels, share_below
from camdf_lab.stored import stored
from camdf_lab.study import column, mean_of

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
        margin = column(rows, "default_minus_baseline")
        low = column(rows, "lo")
        high = column(rows, "hi")
        over = (column(rows, "lo_camdf") > 0).mean()
        under = (column(rows, "hi_camdf") < 0).mean()
        lines.append(
            f"| {batch} | {len(rows)} | {margin.mean():+.3f} | {np.median(margin):+.3f} | {(high < -0.02).sum()} "
            f"| {(high < 0).mean():.1%} | {(low > 0).mean():.1%} | {over:.1%} | {under:.1%} |"
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
        comparisons, cells = shares_won(rows)
        worst = margins_over_constants(rows).min()
        lines.append(f"| {batch} | {len(rows)} | {comparisons:.3f} | {cells:.3f} | {worst:+.3f} |")
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
            below = (column(here, "hi") < -0.02).mean()
            above = (column(here, "lo") > 0).mean()
            lines.append(
                f"| {batch} | {number} | {len(here)} | {mean_of(here, DEFAULT):.3f} | {mean_of(here, FOLDER):.3f} "
                f"| {share_below(below)} | {above:.1%} |"
            )
    lost = Counter((row["domain"], row["scorer"], f"{row['labels']:g}") for row in rows if row["hi"] < -0.02)
    most = [f"{domain} under {scorer} at {number} ({n})" for (domain, scorer, number), n in lost.most_common(3)]
    return [*lines, "", f"Of the {lost.total()} cells below, most are in {', '.join(most)}.", ""]

"""Do membership probabilities mean what they say? Held-out reliability of every domain and ranking."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from camdf.core.rankings import Bools, Floats
from camdf.evaluation.drawing import BLUE, COLUMN, GRAY, VERMILLION, canvas, styled
from camdf_lab import domains
from camdf_lab.beyond.batches import all_pairs, batch_of
from camdf_lab.beyond.priors import Unseen
from camdf_lab.stored import Row, Rows
from camdf_lab.study import Pair, Run, Study, of_pair, row_disagreements

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture

BINS = 10
FEWEST_CANDIDATES = 20
"""Bins of fewer candidates are left out of the picture; the table counts them."""

NEXT_TO_NEVER = 0.005
MOST_TRUE = 0.02
"""Candidates believed less often than the first are to be required in less than the second: a target."""

COLORS = {"claude": BLUE, "minilm": VERMILLION, "bm25": "#009E73", "claude-brief": "#56B4E9"}
OTHER_COLOR = "#CC79A7"
"""Of every other ranking in the picture."""

RECHECKED_TASKS = 100
"""Domains of at most this many tasks are fitted again in a second or two."""


def reliability(probability: Floats, required: Bools) -> list[tuple[int, float, float]]:
    """For ten bins of equal width: how many candidates, their mean probability, and the share that was required."""
    place = np.minimum((probability * BINS).astype(int), BINS - 1)
    filled = [place == number for number in range(BINS)]
    return [
        (int(inside.sum()), float(probability[inside].mean()), float(required[inside].mean()))
        for inside in filled
        if inside.any()
    ]


def expected_calibration_error(bins: Iterable[tuple[int, float, float]]) -> float:
    """The mean over candidates of |share required - mean probability| of their bin."""
    filled = list(bins)
    candidates = sum(count for count, _, _ in filled)
    return sum(count * abs(share - mean) for count, mean, share in filled) / candidates


def rows_of(domain: str, scorer: str) -> list[Row]:
    """One row a bin: predictions for each task come from models that saw no near-copy of it.

    `unlikely` counts the ranking's candidates below `NEXT_TO_NEVER`; `came_true` is the share that was required.
    """
    logged = domains.load(domain, scorer)
    held = Unseen(domain).learn(logged)
    listed = logged.rankings.listed
    probability = held.probability[listed]
    required = logged.required[listed]
    unlikely = probability < NEXT_TO_NEVER
    low = {"unlikely": int(unlikely.sum()), "came_true": float(required[unlikely].sum() / max(unlikely.sum(), 1))}
    names = ("candidates", "probability", "required")
    return [
        {"domain": domain, "scorer": scorer, **dict(zip(names, figures, strict=True)), **low}
        for figures in reliability(probability, required)
    ]


def measure(run: Run) -> Rows:
    """Every domain and ranking."""
    return run.rows(rows_of, all_pairs())


def recheck(rows: Rows, seed: int, run: Run) -> list[str]:
    """One small domain and ranking, fitted again."""
    pairs = all_pairs(RECHECKED_TASKS)
    pair = pairs[np.random.default_rng(seed).integers(len(pairs))]
    return [f"{', '.join(pair)}, {line}" for line in row_disagreements(of_pair(rows, pair), rows_of(*pair))]


def bins_of(rows: Rows) -> dict[Pair, list[tuple[int, float, float]]]:
    """(domain, scorer) -> bins."""
    by_pair: dict[Pair, list[tuple[int, float, float]]] = {}
    for row in rows:
        bins = by_pair.setdefault((row["domain"], row["scorer"]), [])
        bins.append((int(row["candidates"]), row["probability"], row["required"]))
    return by_pair


def section(rows: Rows) -> list[str]:
    """Expected calibration errors."""
    lines = [
        "## Do the probabilities mean what they say?\n",
        "Held-out membership probabilities: every task is predicted by models that saw no task of its group, from the",
        f"ranking alone and from priors that have not seen the domain. Candidates below {NEXT_TO_NEVER} are to be",
        f"required in less than {MOST_TRUE:.0%} of cases.\n",
        f"| domains | domain, ranking | candidates | expected calibration error | below {NEXT_TO_NEVER} | required |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for (domain, scorer), bins in bins_of(rows).items():
        count = sum(size for size, _, _ in bins)
        low = of_pair(rows, (domain, scorer))[0]
        lines.append(
            f"| {batch_of(domain)} | {domain}, {scorer} | {count:,} | {expected_calibration_error(bins):.3f} "
            f"| {low['unlikely']:,.0f} | {_came_true(low)} |"
        )
    note = f"The picture leaves out bins of fewer than {FEWEST_CANDIDATES} candidates; the errors count them."
    return [*lines, "", note, "", "![Reliability diagrams](pictures/reliability.png)\n"]


def _came_true(row: Row) -> str:
    """The share of the unlikely candidates that was required, bold where it misses the target."""
    if not row["unlikely"]:
        return ""
    share = f"{row['came_true']:.2%}"
    return share if row["came_true"] < MOST_TRUE else f"**{share}**"


def pictures(rows: Rows) -> dict[str, Picture]:
    """Reliability diagrams."""
    return {"reliability": reliability_diagram(rows)}


@styled
def reliability_diagram(rows: Rows) -> Picture:
    """Held-out membership probability against the share that was required, one line a ranking, one panel a domain."""
    calibration = bins_of(rows)
    domains = list(dict.fromkeys(domain for domain, _ in calibration))
    picture, grid = canvas(2 * COLUMN, 7.6, -(-len(domains) // 4), 4)
    for axes in np.ravel(grid)[len(domains) :]:
        axes.set_axis_off()
    for axes, domain in zip(np.ravel(grid), domains, strict=False):
        axes.plot([0, 1], [0, 1], color=GRAY, linewidth=0.7, linestyle=":")
        for (name, scorer), bins in calibration.items():
            if name == domain:
                color = COLORS.get(scorer, OTHER_COLOR)
                _, mean, share = zip(*(row for row in bins if row[0] >= FEWEST_CANDIDATES), strict=True)
                axes.plot(mean, share, marker="o", markersize=2.5, linewidth=0.9, color=color, label=scorer)
        axes.set_title(domain)
        axes.set(xlim=(0, 1), ylim=(0, 1), xticks=(0, 0.5, 1), yticks=(0, 0.5, 1))
        axes.legend(loc="upper left", fontsize=5.5, handlelength=1.2)
    picture.supxlabel("probability that the tool is required", fontsize=8)
    picture.supylabel("share of tools that were", fontsize=8)
    return picture


STUDY = Study("calibration", measure, recheck, section, pictures)

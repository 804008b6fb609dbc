"""From the first label on: the default beside the cold start and the tuned threshold, in every cell, at 3 to 1,000.

A row is a cell at one number of labels. The default learns from the rankings alone, and from priors that have not seen
the domain; nor has the cold start, to which labels mean nothing. Subsets are nested and drawn as for a learning curve.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from camdf.core.rankings import LoggedTasks
from camdf.evaluation.curve import LABEL_COUNTS, THRESHOLD, CurveStep, at_step, draw_steps
from camdf.evaluation.drawing import COLUMN, GRAY, GREEN, VERMILLION, canvas, styled
from camdf.evaluation.replay import Outcomes
from camdf.policies.registry import DEFAULT, POLICIES
from camdf_lab import domains
from camdf_lab.beyond.batches import BATCHES, SLOWEST_FIRST, of_batch
from camdf_lab.beyond.cold_start import COLD
from camdf_lab.beyond.frontier import DISPERSIONS, Sweep, sampled_jobs, splits_for
from camdf_lab.beyond.priors import Cold, Unseen
from camdf_lab.jobs import RankingJob
from camdf_lab.regimes import Regime, replay_regimes
from camdf_lab.stored import Row, Rows
from camdf_lab.study import Run, Study, column, differing, margins, mean_of, of_pair, pairs_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture

PLACE = ("domain", "scorer", "value", "cost_pressure", "dispersion", "step")
MARGIN_ENDS = {THRESHOLD: "threshold", COLD: "cold"}
TARGET_MEANS = {3: 0.330, 10: 0.347, 20: 0.351}
"""The target of the mean payoff at so many labels, over the shipped cells."""

MOST_BELOW = 0.025
"""The share of cells in which the margin over either may lie wholly below -0.02 at any number of labels: a target."""

RECHECKED_SMALL = 61


@dataclass(frozen=True)
class Labels(RankingJob):
    """One domain under one ranking, in every regime, at every number of labels."""

    @property
    def regimes(self) -> list[Regime]:
        """Those of the grid."""
        return Sweep(self.domain, self.scorer).regimes

    def steps(self) -> list[CurveStep]:
        """What is learned from at each step; the grid has what all labels give."""
        drawn = draw_steps(domains.load(self.domain, self.scorer), self.splits, self.seed)
        return [step for step in drawn if step.labels in LABEL_COUNTS]

    def run(self) -> Outcomes:
        """What the three paid at every step, in every regime; the cold start has no steps."""
        priced = {d: domains.load(self.domain, self.scorer, dispersion=d) for d in DISPERSIONS}
        learning = {DEFAULT: lambda: Unseen(self.domain), THRESHOLD: POLICIES[THRESHOLD]}
        steps = self.steps()
        cold = replay_regimes(
            {COLD: lambda: Cold(self.domain, self.scorer)}, priced, self.regimes, steps[0].splits, training=_as_it_is
        )
        values = dict(cold.values)
        for number, step in enumerate(steps):
            here = replay_regimes(learning, priced, self.regimes, step.splits, training=_as_it_is)
            values |= {at_step(number, name): paid for name, paid in here.values.items()}
        return Outcomes(cold.task_ids, cold.groups, values, {})


def _as_it_is(logged: LoggedTasks, split: int) -> LoggedTasks:
    return logged


def jobs() -> list[Labels]:
    """Every domain and ranking, the slowest first."""
    return [
        Labels(domain.name, scorer, splits_for(domain.name)) for domain in SLOWEST_FIRST for scorer in domain.scorers
    ]


def rows_of(job: Labels, outcomes: Outcomes) -> list[Row]:
    """One row a cell and number of labels: mean payoffs, and the default's margins with intervals by group."""
    rows: list[Row] = []
    for number, step in enumerate(job.steps()):
        for regime in job.regimes:
            name = {COLD: regime.name(COLD)}
            name |= {policy: at_step(number, regime.name(policy)) for policy in (DEFAULT, THRESHOLD)}
            figures = {policy: outcomes.mean(name[policy]) for policy in name}
            for other, end in MARGIN_ENDS.items():
                margin = outcomes.difference(name[DEFAULT], name[other], by_group=True)
                figures |= {f"lo_{end}": margin.low, f"hi_{end}": margin.high}
            place = zip(PLACE, (job.domain, job.scorer, *regime, number), strict=True)
            rows.append({**dict(place), "labels": step.labels, **figures})
    return rows


def measure(run: Run) -> Rows:
    """Every domain and ranking: minutes of one core."""
    return [row for job, outcomes in run(jobs()).items() for row in rows_of(job, outcomes)]


def recheck(rows: Rows, seed: int, run: Run) -> list[str]:
    """One small domain and ranking, replayed."""
    some = sampled_jobs(1, seed, jobs(), RECHECKED_SMALL)
    again = [row for job, outcomes in run(some).items() for row in rows_of(job, outcomes)]
    ends = [f"{side}_{end}" for end in MARGIN_ENDS.values() for side in ("lo", "hi")]
    return differing(rows, again, PLACE, ("labels", DEFAULT, THRESHOLD, COLD, *ends))


def by_labels(rows: Rows) -> dict[int, Rows]:
    """The cells at every number of labels."""
    cells: dict[int, Rows] = {}
    for number in LABEL_COUNTS:
        here = [row for row in rows if row["labels"] == number]
        if here:
            cells[number] = here
    return cells


def share_below(share: float) -> str:
    """The share of cells that are wholly below, bold where there are more than the target allows."""
    shown = f"{share:.1%}"
    return shown if share <= MOST_BELOW else f"**{shown}**"


def section(rows: Rows) -> list[str]:
    """Means by number of labels, and the shares of cells that are clearly below."""
    lines = [
        "## From the first label on\n",
        "Every cell of the grid at 3 to 1,000 labels, from the ranking alone. The default starts from priors that have",
        "not seen the domain, as the cold start has not. 'Below' is the share of cells whose margin over the cold",
        f"start, or over the tuned threshold, lies wholly below -0.02: target, at most {MOST_BELOW:.1%}. Domains with",
        "fewer tasks drop out as labels grow, so means compare within a line only; the target is for the mean over",
        "all 438 shipped cells, which airline, with its 28 tasks, leaves at 20 labels.\n",
        "| domains | labels | cells | the default | target | cold start | threshold | below cold start "
        "| below threshold |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for batch in BATCHES:
        for number, here in by_labels(of_batch(rows, batch)).items():
            target = ""
            if batch == "shipped" and number in TARGET_MEANS:
                target = f"at least {TARGET_MEANS[number]:.3f}"
            below_cold = (column(here, "hi_cold") < -0.02).mean()
            below_threshold = (column(here, "hi_threshold") < -0.02).mean()
            lines.append(
                f"| {batch} | {number} | {len(here)} | {mean_of(here, DEFAULT):.3f} | {target} "
                f"| {mean_of(here, COLD):.3f} | {mean_of(here, THRESHOLD):.3f} | {share_below(below_cold)} "
                f"| {share_below(below_threshold)} |"
            )
    lines += [
        "",
        "![Margins by number of labels](pictures/labels.png)\n",
        "The default's mean margin over the tuned threshold, by domain and ranking (`camdf curve` draws the curve of",
        "your own logged tasks):\n",
        "| domain, ranking | " + " | ".join(f"{number} labels" for number in LABEL_COUNTS) + " |",
        "| --- |" + " --- |" * len(LABEL_COUNTS),
    ]
    for pair in pairs_of(rows):
        cells = by_labels(of_pair(rows, pair))
        means = {number: f"{margins(here, DEFAULT, THRESHOLD).mean():+.3f}" for number, here in cells.items()}
        shown = " | ".join(means.get(number, "") for number in LABEL_COUNTS)
        lines.append(f"| {pair[0]}, {pair[1]} | {shown} |")
    return [*lines, ""]


def pictures(rows: Rows) -> dict[str, Picture]:
    """Margins by number of labels."""
    return {"labels": margins_by_labels(rows)}


@styled
def margins_by_labels(rows: Rows) -> Picture:
    """The default's margin over both, a panel a batch: the middle of the cells, and the band that holds 90% of them."""
    picture, panels = canvas(2 * COLUMN, 2.7, 1, len(BATCHES))
    for axes, batch in zip(panels, BATCHES, strict=True):
        cells = by_labels(of_batch(rows, batch))
        for other, color, name in ((COLD, GREEN, "the cold start"), (THRESHOLD, VERMILLION, "the tuned threshold")):
            bands = [np.quantile(margins(here, DEFAULT, other), (0.05, 0.5, 0.95)) for here in cells.values()]
            low, middle, high = np.array(bands).T
            axes.plot(list(cells), middle, color=color, marker="o", markersize=3, label=f"over {name}")
            axes.fill_between(list(cells), low, high, color=color, alpha=0.12, linewidth=0)
        axes.axhline(0, color=GRAY, linewidth=0.8)
        axes.set_xscale("log")
        axes.set_xticks(list(cells), [str(number) for number in cells])
        axes.minorticks_off()
        axes.set(title=batch, xlabel="labeled tasks to learn from")
    panels[0].set_ylabel("mean payoff of the default, minus theirs")
    panels[0].legend(loc="upper left")
    return picture


STUDY = Study("labels", measure, recheck, section, pictures)

"""How many labels are enough: learning curves of every domain, and where learning overtakes the tuned threshold."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import numpy as np

from camdf import datasets
from camdf.core.payoff import Payoff
from camdf.core.rankings import LoggedTasks
from camdf.core.resampling import Interval
from camdf.evaluation.curve import (
    FIXED,
    LEARNING,
    PAPER,
    CurveStep,
    Point,
    ahead_from,
    draw_steps,
    points_of,
    replay_steps,
)
from camdf.evaluation.replay import Outcomes
from camdf.lab.drawing import COLUMN, canvas, styled
from camdf.lab.learning_curve import draw_curve
from camdf.lab.stored import Row, Rows
from camdf.lab.study import Run, Study, differing
from camdf.policies.registry import DEFAULT

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture

COST_PRESSURE, DISPERSION = 0.12, 1.0
"""The centre of the paper's grid."""

VALUES = ("exact", "partial")
PLACE = ("domain", "scorer", "value", "step")
RECHECKED_TASKS = 30


@dataclass(frozen=True)
class LearningCurve:
    """One domain, ranking and value at every number of labels; groups are kept together where they exist."""

    domain: str
    scorer: str
    value: str
    splits: int = 10
    seed: int = 0

    @property
    def key(self) -> str:
        """Everything that determines the outcome, as one line of JSON."""
        return json.dumps({"curve": asdict(self), "pressure": COST_PRESSURE, "dispersion": DISPERSION}, sort_keys=True)

    def logged(self) -> LoggedTasks:
        """The tasks, priced."""
        return datasets.load(self.domain, self.scorer, dispersion=DISPERSION)

    def steps(self) -> list[CurveStep]:
        """What is learned from at each step."""
        return draw_steps(self.logged(), self.splits, self.seed)

    def run(self) -> Outcomes:
        """What every policy paid at every step."""
        return replay_steps(self.logged(), Payoff(COST_PRESSURE, self.value), self.steps())


def curves() -> list[LearningCurve]:
    """Every domain, ranking and value; the slowest first."""
    return [
        LearningCurve(domain.name, scorer, value, 5 if domain.name == "seal-tools" else 10)
        for value in VALUES
        for domain in sorted(datasets.DOMAINS, key=lambda domain: -domain.tasks)
        for scorer in domain.scorers
    ]


def rows_of(curve: LearningCurve, outcomes: Outcomes) -> list[Row]:
    """One row a number of labels."""
    rows: list[Row] = []
    for number, point in enumerate(points_of(outcomes, curve.steps())):
        place = dict(zip(PLACE, (curve.domain, curve.scorer, curve.value, number), strict=True))
        figures = {"labels": point.labels} | _columns("default_minus_score_per_cost", "", point.margin)
        for name, interval in point.payoff.items():
            figures |= _columns(name, f"_{name}", interval)
        rows.append({**place, "n_tasks": len(outcomes.task_ids), **figures})
    return rows


def _columns(name: str, end: str, interval: Interval) -> dict[str, float]:
    return {name: interval.mean, f"lo{end}": interval.low, f"hi{end}": interval.high}


def measure(run: Run) -> Rows:
    """Every curve: a quarter of an hour of one core."""
    return [row for curve, found in run(curves()).items() for row in rows_of(curve, found)]


def recheck(rows: Rows, seed: int, run: Run) -> list[str]:
    """One curve of a small domain, replayed."""
    small = {domain.name for domain in datasets.DOMAINS if domain.tasks <= RECHECKED_TASKS}
    quick = [curve for curve in curves() if curve.domain in small]
    chosen = quick[np.random.default_rng(seed).integers(len(quick))]
    again = [row for curve, found in run([chosen]).items() for row in rows_of(curve, found)]
    return differing(rows, again, PLACE, ("labels", *LEARNING, *FIXED, "default_minus_score_per_cost", "lo", "hi"))


def points(rows: Rows, domain: str, scorer: str, value: str) -> list[Point]:
    """A stored curve."""
    here = [row for row in rows if (row["domain"], row["scorer"], row["value"]) == (domain, scorer, value)]
    return [
        Point(
            row["labels"],
            {name: Interval(row[name], row[f"lo_{name}"], row[f"hi_{name}"]) for name in (*LEARNING, *FIXED)},
            Interval(row["default_minus_score_per_cost"], row["lo"], row["hi"]),
        )
        for row in here
    ]


def section(rows: Rows) -> list[str]:
    """Where learning overtakes the tuned threshold."""
    found = {
        (domain, scorer, value): points(rows, domain, scorer, value)
        for domain, scorer, value in dict.fromkeys((row["domain"], row["scorer"], row["value"]) for row in rows)
    }
    level = sum(ahead_from(each) is not None for each in found.values())
    clear = sum(ahead_from(each, clearly=True) is not None for each in found.values())
    lines = [
        "## How many labels are enough\n",
        "Held-out payoff after learning from 10, 25, 50, 100, 200 and all labelled tasks, at pressure "
        f"{COST_PRESSURE:g} and dispersion {DISPERSION:g}.",
        "Subsets are nested, drawn anew in ten splits (five on seal-tools) that keep groups together, and every policy",
        "learns and tunes on all labels of a step. 'Level' is the fewest labels from which on the default stays at",
        f"least level with the tuned score-per-cost threshold ({level} of {len(found)} curves get there), 'clearly'",
        f"the fewest from which on its whole 95% interval stays above ({clear} of {len(found)}). The margin and the",
        "payoffs are those with all labels.\n",
        "| domain, ranking | value | labels | level | clearly | margin | the default | cam-df | best without labels |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for (domain, scorer, value), curve in sorted(found.items()):
        last = curve[-1]
        fixed = max(FIXED, key=lambda name: last.payoff[name].mean)
        lines.append(
            f"| {domain}, {scorer} | {value} | {last.labels:.0f} | {_number(ahead_from(curve))} "
            f"| {_number(ahead_from(curve, clearly=True))} | {last.margin} | {last.payoff[DEFAULT].mean:.3f} "
            f"| {last.payoff[PAPER].mean:.3f} | {last.payoff[fixed].mean:.3f} ({fixed}) |"
        )
    wiser = sum(
        max(curve[-1].payoff[name].mean for name in FIXED) > curve[-1].payoff[DEFAULT].mean for curve in found.values()
    )
    few = [curve[0].margin.mean for curve in found.values()]
    return [
        *lines,
        "",
        f"With ten labels the default is behind the tuned threshold in {sum(each < 0 for each in few)} of {len(few)}",
        f"curves, by {-np.mean(few):.3f} on average over all of them: with so few, ship the threshold."
        if np.mean(few) < 0
        else f"curves, and ahead by {np.mean(few):.3f} on average over all of them.",
        f"In {wiser} of {len(found)} curves the best of three rules that learn nothing, picked in hindsight, pays more",
        "than the default does with all labels.",
        "`camdf curve` draws the same curve on your own logged tasks.\n",
        "![Learning curves, exact value](pictures/learning-curves.png)\n",
    ]


def _number(labels: float | None) -> str:
    return "not yet" if labels is None else f"{labels:.0f}"


def pictures(rows: Rows) -> dict[str, Picture]:
    """A panel a domain."""
    return {"learning-curves": learning_curves(rows)}


@styled
def learning_curves(rows: Rows) -> Picture:
    """The exact value under each domain's first ranking; bands are 95% intervals."""
    picture, grid = canvas(2 * COLUMN, 6.6, 3, 3)
    for axes, domain in zip(np.ravel(grid), datasets.DOMAINS, strict=True):
        draw_curve(axes, points(rows, domain.name, domain.scorers[0], "exact"))
        axes.set_title(f"{domain.name}, {domain.scorers[0]}")
    picture.supxlabel("labelled tasks to learn from", fontsize=8)
    picture.supylabel("payoff on held-out tasks, mean", fontsize=8)
    handles, names = np.ravel(grid)[0].get_legend_handles_labels()
    picture.legend(handles, names, loc="outside upper center", ncols=6, columnspacing=1.0, handlelength=1.6)
    return picture


STUDY = Study("learning_curves", measure, recheck, section, pictures)

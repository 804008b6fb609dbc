"""Is a policy right about its own doubts? How likely it says a set is to suffice, beside how often such sets do.

A row is one domain under one ranking and one number of tools kept. The default, from priors that have not seen the
domain, is fitted on every split and decides on its test tasks in every regime of equal costs; each set that it keeps is
one case, and a task's cases are averaged before tasks are. Under the exact value there is also a row for each cost
pressure, whatever was kept, nothing included: what an estimate says where a miss is final.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from camdf.core.payoff import Payoff
from camdf.core.rankings import Bools, Ints
from camdf.core.resampling import paired_bootstrap
from camdf.evaluation.drawing import BLUE, COLUMN, GRAY, VERMILLION, canvas, styled
from camdf.evaluation.replay import Outcomes
from camdf.evaluation.splits import draw_splits
from camdf_lab import domains
from camdf_lab.beyond.batches import BATCHES, SLOWEST_FIRST, of_batch
from camdf_lab.beyond.frontier import Sweep, has_groups, sampled_jobs, splits_for
from camdf_lab.beyond.priors import Unseen
from camdf_lab.jobs import RankingJob
from camdf_lab.page import yes_or_no
from camdf_lab.regimes import Regime
from camdf_lab.stored import Row, Rows
from camdf_lab.study import Run, Study, column, differing

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture

TOOLS_KEPT = {
    "one": (1, 1),
    "two": (2, 2),
    "three": (3, 3),
    "4 to 5": (4, 5),
    "6 to 10": (6, 10),
    "over 10": (11, 10**6),
}
ALL = "any number"
EXACT = "exact at "
"""How the rows of one cost pressure under the exact value are named."""

MOST_OFF = 0.05
"""How far the mean may be off, pooled over a batch of domains."""

MOST_OFF_EXACT = 0.01
MOST_CELLS_OFF = 0.10
"""How far the mean over the cells of the exact value may be off, and the share of these cells that may be."""

FEWEST_SETS = 10
"""Fewer tasks say nothing about one ranking and number of tools."""

PLACE = ("domain", "scorer", "kept")
FIGURES = ("tasks", "expected", "realized", "low", "high")


@dataclass(frozen=True)
class Doubts(RankingJob):
    """One domain under one ranking, over splits that keep groups together where there are any."""

    def run(self) -> Outcomes:
        """By number of tools kept, (tasks, 3): how many sets, and the sums of what was expected and realized."""
        logged = domains.load(self.domain, self.scorer, texts=True)
        regimes = [regime for regime in Sweep(self.domain, self.scorer).regimes if not regime.dispersion]
        exact = [_exact(regime) for regime in regimes if regime.value == "exact"]
        sums = {name: np.zeros((len(logged), 3)) for name in (*TOOLS_KEPT, ALL, *exact)}
        for split in draw_splits(logged, self.splits, self.seed, grouped=has_groups(self.domain)):
            policy = Unseen(self.domain).fit(logged.take(split.train), Payoff(0.1), logged.take(split.validation))
            test = logged.take(split.test)
            for regime in regimes:
                acquired = policy.decide(test.rankings, Payoff(regime.cost_pressure, regime.value)).acquired
                expected = policy.estimated_sufficiency(test.rankings, acquired)
                realized = test.sufficient(acquired)
                cases = np.stack([np.ones(len(test)), expected, realized], axis=1)
                for name, those in _by_kept(acquired.sum(axis=1)).items():
                    np.add.at(sums[name], split.test[those], cases[those])
                if regime.value == "exact":
                    np.add.at(sums[_exact(regime)], split.test, cases)
        return Outcomes(logged.task_ids, logged.groups, sums, {})


def _by_kept(tools: Ints) -> dict[str, Bools]:
    by_kept: dict[str, Bools] = {name: (tools >= low) & (tools <= high) for name, (low, high) in TOOLS_KEPT.items()}
    return {**by_kept, ALL: tools >= 1}


def _exact(regime: Regime) -> str:
    return f"{EXACT}{regime.cost_pressure:g}"


def jobs() -> list[Doubts]:
    """Every domain and ranking, the slowest first."""
    return [
        Doubts(domain.name, scorer, splits_for(domain.name)) for domain in SLOWEST_FIRST for scorer in domain.scorers
    ]


def rows_of(job: Doubts, outcomes: Outcomes) -> list[Row]:
    """One row a number of tools: means over tasks, and the interval of expected minus realized, by group."""
    rows: list[Row] = []
    for name, cases in outcomes.values.items():
        some = cases[:, 0] > 0
        if some.sum() < FEWEST_SETS:
            continue
        expected = cases[some, 1] / cases[some, 0]
        realized = cases[some, 2] / cases[some, 0]
        off = paired_bootstrap(expected - realized, groups=outcomes.groups[some])
        figures = (int(some.sum()), float(expected.mean()), float(realized.mean()), off.low, off.high)
        named = zip((*PLACE, *FIGURES), (job.domain, job.scorer, name, *figures), strict=True)
        rows.append(dict(named))
    return rows


def measure(run: Run) -> Rows:
    """Every domain and ranking: minutes of one core."""
    return [row for job, outcomes in run(jobs()).items() for row in rows_of(job, outcomes)]


def recheck(rows: Rows, seed: int, run: Run) -> list[str]:
    """One small domain and ranking, replayed."""
    again = [row for job, outcomes in run(sampled_jobs(1, seed, jobs())).items() for row in rows_of(job, outcomes)]
    return differing(rows, again, PLACE, FIGURES)


def section(rows: Rows) -> list[str]:
    """Pooled by number of tools, and every ranking whose interval does not hold zero."""
    lines = [
        "## Is it right about its own doubts?\n",
        "`estimated_sufficiency` is how likely the default takes a set to suffice. Here it is compared with",
        "how often the sets that it kept for held-out tasks did, by number of tools, at all cost pressures and both",
        f"values, at equal costs. Target: off by at most {MOST_OFF:g} pooled over each batch of domains, and zero",
        "inside the 95% interval of every ranking.",
        "'Rankings off' counts those whose interval does not hold zero; of so many, one in twenty is chance.\n",
        "| domains | tools kept | rankings | expected | realized | off by | target reached | rankings off |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for batch in BATCHES:
        for name in (*TOOLS_KEPT, ALL):
            here = [row for row in of_batch(rows, batch) if row["kept"] == name]
            expected = _mean_over_tasks(here, "expected")
            realized = _mean_over_tasks(here, "realized")
            off_by = expected - realized
            lines.append(
                f"| {batch} | {name} | {len(here)} | {expected:.3f} | {realized:.3f} | {off_by:+.3f} "
                f"| {yes_or_no(abs(off_by) <= MOST_OFF)} | {sum(map(_is_off, here))} |"
            )
    of_sizes = [row for row in rows if not _is_exact(row)]
    wrong = [row for row in of_sizes if _is_off(row)]
    worst = sorted(wrong, key=lambda row: -abs(row["expected"] - row["realized"]))[:12]
    lines += [
        "",
        "The rankings and numbers of tools that are furthest off, of those whose interval does not hold zero:\n",
        "| domain, ranking | tools kept | tasks | expected | realized | interval of the difference |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for row in worst:
        lines.append(
            f"| {row['domain']}, {row['scorer']} | {row['kept']} | {row['tasks']:.0f} | {row['expected']:.3f} "
            f"| {row['realized']:.3f} | {row['low']:+.3f} to {row['high']:+.3f} |"
        )
    lines += [
        "",
        "Where a miss is final, the exact value, a cell is a ranking at one cost pressure. Its estimate is the mean",
        f"over all tasks, those that keep nothing included. Target: off by at most {MOST_OFF_EXACT:g} in the mean over",
        f"cells, and in at most {MOST_CELLS_OFF:.0%} of cells an interval that does not hold zero.\n",
        "| domains | cells | off by, in the mean | cells too low | too high | target reached |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for batch in BATCHES:
        here = [row for row in of_batch(rows, batch) if _is_exact(row)]
        off_by = float((column(here, "expected") - column(here, "realized")).mean())
        low = float(np.mean(list(map(_too_low, here))))
        high = float(np.mean(list(map(_too_high, here))))
        reached = yes_or_no(abs(off_by) <= MOST_OFF_EXACT and low + high <= MOST_CELLS_OFF)
        lines.append(f"| {batch} | {len(here)} | {off_by:+.3f} | {low:.1%} | {high:.1%} | {reached} |")
    low_in = Counter(str(row["domain"]) for row in rows if _is_exact(row) and _too_low(row))
    most = " and ".join(f"{domain} ({count})" for domain, count in low_in.most_common(2))
    lines += [
        "",
        f"Of the {low_in.total()} cells that are too low, most are of {most}:",
        "their few tasks are easier than those of the domains that the prior comes from, and estimates lie between.",
    ]
    return [*lines, "", "![Expected and realized sufficiency](pictures/doubts.png)\n"]


def _mean_over_tasks(rows: Rows, figure: str) -> float:
    """The mean of a figure, in which every task counts alike."""
    tasks = column(rows, "tasks")
    return float(tasks @ column(rows, figure) / tasks.sum())


def _is_exact(row: Row) -> bool:
    return str(row["kept"]).startswith(EXACT)


def _too_low(row: Row) -> bool:
    return bool(row["high"] < 0)


def _too_high(row: Row) -> bool:
    return bool(row["low"] > 0)


def _is_off(row: Row) -> bool:
    """Whether the interval of the difference does not hold zero."""
    return _too_low(row) or _too_high(row)


def pictures(rows: Rows) -> dict[str, Picture]:
    """Expected against realized."""
    return {"doubts": expected_and_realized(rows)}


@styled
def expected_and_realized(rows: Rows) -> Picture:
    """A panel a batch of domains, a dot a ranking and number of tools kept; its area grows with the tasks."""
    picture, panels = canvas(2 * COLUMN, 3.2, 1, len(BATCHES))
    for axes, batch in zip(panels, BATCHES, strict=True):
        axes.plot([0, 1], [0, 1], color=GRAY, linewidth=0.7, linestyle=":")
        for off, color, label in ((False, BLUE, "zero inside the interval"), (True, VERMILLION, "outside")):
            here = [row for row in of_batch(rows, batch) if row["kept"] in TOOLS_KEPT and _is_off(row) == off]
            sizes = 2 + column(here, "tasks") / 12
            expected = column(here, "expected")
            realized = column(here, "realized")
            axes.scatter(expected, realized, s=sizes, color=color, alpha=0.55, linewidths=0, label=label)
        axes.set(title=batch, xlim=(0, 1), ylim=(0, 1), xlabel="expected to suffice")
    panels[0].set_ylabel("did suffice")
    panels[0].legend(loc="upper left")
    return picture


STUDY = Study("doubts", measure, recheck, section, pictures)

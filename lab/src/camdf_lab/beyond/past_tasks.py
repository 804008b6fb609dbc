"""What similar past tasks add to the default with texts, by size of the catalogue and number of labels.

A row is a cell of the grid at one number of labels, under MiniLM's ranking, over grouped splits. One fit gives both
columns: it decides once with its past tasks, and once without them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from camdf.core.payoff import Payoff
from camdf.core.rankings import Floats, Ints, LoggedTasks
from camdf.evaluation.replay import MEASURES, Outcomes, Tally
from camdf.evaluation.splits import Split, draw_splits
from camdf_lab import domains
from camdf_lab.beyond.batches import BATCHES, CATALOGUES, DOMAINS, SLOWEST_FIRST, batch_of, size_of_catalogue
from camdf_lab.beyond.frontier import DISPERSIONS, Sweep, sampled_jobs
from camdf_lab.beyond.priors import Unseen
from camdf_lab.jobs import RankingJob
from camdf_lab.regimes import Regime
from camdf_lab.stored import Row, Rows
from camdf_lab.study import Run, Study, column, differing, margins, mean_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture

SCORER = "minilm"
TEXTS = "with texts"
PAST = "with past tasks"
SPLITS = 4
"""A round: every task is tested once."""

LABELS = (38, 0)
"""Numbers of labels to learn from; 0 stands for all."""

PLACE = ("domain", "labels", "value", "cost_pressure", "dispersion")
FIGURES = (TEXTS, PAST, "lo", "hi", "auc_texts", "auc_past", "chosen")


@dataclass(frozen=True)
class PastJob(RankingJob):
    """One domain at one number of labels, in every regime."""

    labels: int = 0

    @property
    def regimes(self) -> list[Regime]:
        """Those of the grid."""
        return Sweep(self.domain, self.scorer).regimes

    def drawn(self, logged: LoggedTasks) -> Iterator[Split]:
        """Grouped splits; where labels are few, those of a split come group by group in random order."""
        for number, split in enumerate(draw_splits(logged, self.splits, self.seed, grouped=True)):
            rows = np.concatenate([split.train, split.validation])
            if self.labels:
                order = np.random.default_rng([self.seed, number, self.labels])
                rows = _group_by_group(logged, rows, order)[: self.labels]
            yield Split(rows, np.zeros(0, dtype=np.int64), split.test)

    def run(self) -> Outcomes:
        """What both paid in every regime, how well both rank, and whether past tasks were chosen."""
        priced = {d: domains.load(self.domain, self.scorer, dispersion=d, texts=True) for d in DISPERSIONS}
        logged = priced[0.0]
        tally = Tally(logged)
        areas = {name: np.full((len(logged), len(MEASURES)), np.nan) for name in (TEXTS, PAST)}
        chosen = np.full((len(logged), len(MEASURES)), np.nan)
        for split in self.drawn(logged):
            tally.appearances[split.test] += 1
            past = Unseen(self.domain, remember=True).fit(logged.take(split.train), Payoff(0.12))
            chosen[split.test] = past.past_ is not None
            for name, policy in ((TEXTS, past.recalling(None)), (PAST, past)):
                unpriced = logged.take(split.test)
                areas[name][split.test] = area_by_task(unpriced, policy.probabilities(unpriced.rankings)[0])[:, None]
                for regime in self.regimes:
                    payoff = Payoff(regime.cost_pressure, regime.value)
                    test = priced[regime.dispersion].take(split.test)
                    tally.add(regime.name(name), split.test, test, payoff, policy.decide(test.rankings, payoff))
        outcomes = tally.outcomes()
        more = {f"auc: {name}": area for name, area in areas.items()}
        return Outcomes(outcomes.task_ids, outcomes.groups, {**outcomes.values, **more, "chosen": chosen}, {})


def area_by_task(logged: LoggedTasks, probability: Floats) -> Floats:
    """(n,): how often a required candidate has the higher probability than one that is not; NaN without both."""
    areas = np.full(len(logged), np.nan)
    for row, length in enumerate(logged.rankings.lengths.tolist()):
        needed = logged.required[row, :length]
        chance = probability[row, :length]
        pairs = chance[needed][:, None] - chance[~needed]
        if pairs.size:
            areas[row] = ((pairs > 0) + 0.5 * (pairs == 0)).mean()
    return areas


def _group_by_group(logged: LoggedTasks, rows: Ints, rng: np.random.Generator) -> Ints:
    groups = logged.groups[rows]
    place = {group: turn for turn, group in enumerate(rng.permutation(np.unique(groups)).tolist())}
    return rows[np.argsort([place[group] for group in groups.tolist()], kind="stable")]


def jobs() -> list[PastJob]:
    """Every domain at every number of labels, the slowest first."""
    return [PastJob(domain.name, SCORER, SPLITS, labels=labels) for domain in SLOWEST_FIRST for labels in LABELS]


def rows_of(job: PastJob, outcomes: Outcomes) -> list[Row]:
    """One row a cell: both means, the margin with its interval by group, and what holds for all cells of the job."""
    rows: list[Row] = []
    for regime in job.regimes:
        margin = outcomes.difference(regime.name(PAST), regime.name(TEXTS), by_group=True)
        place = zip(PLACE, (job.domain, job.labels, *regime), strict=True)
        figures = {name: outcomes.mean(regime.name(name)) for name in (TEXTS, PAST)}
        figures |= {"lo": margin.low, "hi": margin.high}
        figures |= {"auc_texts": outcomes.mean(f"auc: {TEXTS}"), "auc_past": outcomes.mean(f"auc: {PAST}")}
        rows.append({**dict(place), **figures, "chosen": outcomes.mean("chosen")})
    return rows


def measure(run: Run) -> Rows:
    """Every domain: ten minutes of two cores."""
    return [row for job, outcomes in run(jobs()).items() for row in rows_of(job, outcomes)]


def recheck(rows: Rows, seed: int, run: Run) -> list[str]:
    """One small domain, replayed."""
    some = run(sampled_jobs(1, seed, jobs(), 71))
    again = [row for job, outcomes in some.items() for row in rows_of(job, outcomes)]
    return differing(rows, again, PLACE, FIGURES)


def section(rows: Rows) -> list[str]:
    """What past tasks add, by catalogue and number of labels, then by domain."""
    lines = [
        "## What similar past tasks add (`past_tasks`)\n",
        "The default with texts compared with the same fit that also knows what similar past tasks needed: a vote of",
        "the 50 nearest, and the cosines of the 3 nearest that needed the tool, as two columns of the membership",
        f"model. MiniLM rankings of all {len(DOMAINS)} domains, every regime of the grid, grouped splits, 38 labels",
        "and all that a split leaves. A fit uses past tasks only where they clearly lower its held-out loss; 'chosen'",
        "is the share of fits that do. 'Above' and 'below' are cells whose 95% interval, resampled by group, lies",
        "wholly there. The columns, and that they may count in catalogues of any size, were chosen on the shipped",
        "domains, where about ten variants were tried on at most four splits; the later domains were looked at once,",
        "but when the last choice was made, the figures of one of them, stabletoolbench-g3, were known.\n",
        "| domains | catalogue | labels | cells | with texts | with past tasks | margin | above | below "
        "| wholly below -0.02 | AUC | with past tasks | chosen |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for batch in BATCHES:
        for size in CATALOGUES:
            for labels in LABELS:
                here = [
                    row
                    for row in rows
                    if row["labels"] == labels
                    and batch_of(row["domain"]) == batch
                    and size_of_catalogue(row["domain"]) == size
                ]
                if here:
                    lines.append(f"| {batch} | {size} | {labels or 'all'} | {len(here)} | {_cells_of_rows(here)} |")
    lines += [
        "",
        "By domain, over all regimes:\n",
        "| domain | catalogue | labels | cells | with texts | with past tasks | margin | above | below "
        "| wholly below -0.02 | AUC | with past tasks | chosen |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for domain in DOMAINS:
        for labels in LABELS:
            here = [row for row in rows if row["labels"] == labels and row["domain"] == domain.name]
            size = size_of_catalogue(domain.name)
            lines.append(f"| {domain.name} | {size} | {labels or 'all'} | {len(here)} | {_cells_of_rows(here)} |")
    return [*lines, ""]


def _cells_of_rows(rows: Rows) -> str:
    margin = margins(rows, PAST, TEXTS).mean()
    low = column(rows, "lo")
    high = column(rows, "hi")
    return (
        f"{mean_of(rows, TEXTS):.3f} | {mean_of(rows, PAST):.3f} | {margin:+.3f} | {(low > 0).mean():.1%} "
        f"| {(high < 0).mean():.1%} | {(high < -0.02).sum()} | {mean_of(rows, 'auc_texts'):.3f} "
        f"| {mean_of(rows, 'auc_past'):.3f} | {mean_of(rows, 'chosen'):.0%}"
    )


def pictures(rows: Rows) -> dict[str, Picture]:
    """None."""
    return {}


STUDY = Study("past_tasks", measure, recheck, section, pictures)

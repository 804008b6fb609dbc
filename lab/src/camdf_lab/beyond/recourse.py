"""Where a miss is a round trip: the default told of it, beside itself not told, and beside what providers recommend.

A miss costs 1 - recourse of a task instead of all of it. At one and the same cost pressure nothing would be worth
loading long before a search is sure to find what was missed, so the pressure is scaled by 1 - recourse: a tool costs
the same share of a miss at every recourse. What is left to compare is how misses add up, which is what a payoff with
recourse knows, and whether a policy takes a miss for the end of the task.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import NamedTuple

import numpy as np

from camdf.core.decisions import Decisions
from camdf.core.payoff import Payoff
from camdf.core.rankings import Bools, LoggedTasks, Rankings, joined
from camdf.evaluation.replay import Outcomes, Tally
from camdf.evaluation.splits import draw_splits
from camdf.policies.by_set import ExpectedPayoffBySet
from camdf_lab import domains
from camdf_lab.beyond.batches import SLOWEST_FIRST
from camdf_lab.beyond.frontier import cost_pressures, has_groups, sampled_jobs
from camdf_lab.beyond.priors import Unseen
from camdf_lab.jobs import RankingJob
from camdf_lab.stored import Row, Rows
from camdf_lab.study import Run, differing

RECOURSES = (0.0, 0.5, 0.8, 0.95)
RECOURSE_DISPERSIONS = (0.0, 1.0)
TOLD = "told"
IGNORING = "not told"
BY_PRESSURE = "pressure raised"
RECOURSE_CONSTANTS = ("all tools", "nothing up front", "3 most used", "5 most used")
RECOURSE_COMPARED = (TOLD, IGNORING, BY_PRESSURE, *RECOURSE_CONSTANTS)
PLACE = ("domain", "scorer", "splits", "value", "cost_pressure", "dispersion", "recourse")
FIGURES = {"": "payoff", "tools: ": "tools", "enough: ": "sufficiency"}
"""A column's prefix, and the measure that it holds of every policy."""


class RecourseSetting(NamedTuple):
    """Under which value, cost pressure (before it is scaled), dispersion and recourse policies are compared."""

    value: str
    cost_pressure: float
    dispersion: float
    recourse: float

    @property
    def payoff(self) -> Payoff:
        """What decisions are paid."""
        return Payoff(self.cost_pressure * (1.0 - self.recourse), self.value, self.recourse)

    def name(self, policy: str) -> str:
        """The name under which a policy's outcome in this cell is kept."""
        return f"{' '.join(map(str, self))}: {policy}"


@dataclass(frozen=True)
class RecourseJob(RankingJob):
    """One domain under one ranking in every cell, over splits that keep groups together where there are any."""

    splits: int = 4

    @property
    def cells(self) -> list[RecourseSetting]:
        """Every value, cost pressure, dispersion and recourse."""
        grid = product(("exact", "partial"), cost_pressures(self.domain), RECOURSE_DISPERSIONS, RECOURSES)
        return [RecourseSetting(*cell) for cell in grid]

    @property
    def grouped(self) -> bool:
        """Whether some tasks share a group, so that splits keep groups together."""
        return has_groups(self.domain)

    def run(self) -> Outcomes:
        """What every policy paid on every task in every cell."""
        priced = {d: domains.load(self.domain, self.scorer, dispersion=d) for d in RECOURSE_DISPERSIONS}
        tally = Tally(priced[0.0])
        for split in draw_splits(priced[0.0], self.splits, self.seed, grouped=self.grouped):
            tally.appearances[split.test] += 1
            known = joined(*(priced[0.0].take(rows) for rows in split[:2]))
            policy = Unseen(self.domain).fit(known, Payoff(0.1))
            for cell in self.cells:
                test = priced[cell.dispersion].take(split.test)
                for name, acquired in decided(policy, known, test.rankings, cell):
                    tally.add(cell.name(name), split.test, test, cell.payoff, Decisions(acquired))
        return replace(tally.outcomes(), by_split={})


def decided(
    policy: ExpectedPayoffBySet, known: LoggedTasks, rankings: Rankings, cell: RecourseSetting
) -> Iterator[tuple[str, Bools]]:
    """What each of `RECOURSE_COMPARED` loads up front. All three that learn share one fit under different payoffs."""
    final = replace(cell.payoff, recourse=0.0)
    yield TOLD, policy.decide(rankings, cell.payoff).acquired
    yield IGNORING, policy.decide(rankings, final).acquired
    yield BY_PRESSURE, policy.decide(rankings, replace(final, cost_pressure=cell.cost_pressure)).acquired
    yield "all tools", rankings.listed
    yield "nothing up front", np.zeros_like(rankings.listed)
    for k in (3, 5):
        kept = most_used(known, k)
        chosen = np.array([name in kept for name in rankings.catalogue] + [False])
        yield f"{k} most used", chosen[rankings.tool_ids]


def most_used(known: LoggedTasks, k: int) -> frozenset[str]:
    """The k tools that most of these tasks required; of tools that tie, the first in the catalogue."""
    catalogue = known.rankings.catalogue
    times = np.bincount(known.rankings.tool_ids[known.required], minlength=len(catalogue))
    return frozenset(catalogue[i] for i in np.argsort(-times, kind="stable")[:k])


def rows_of(job: RecourseJob, outcomes: Outcomes) -> list[Row]:
    """One row a cell: every policy's figures, and by how much the one that is told pays more, with intervals."""
    rows: list[Row] = []
    splits = "grouped" if job.grouped else "random"
    for cell in job.cells:
        place = job.domain, job.scorer, splits, *cell
        means = {
            f"{prefix}{name}": outcomes.mean(cell.name(name), measure)
            for prefix, measure in FIGURES.items()
            for name in RECOURSE_COMPARED
        }
        margins: dict[str, float] = {}
        for other in (IGNORING, BY_PRESSURE):
            interval = outcomes.difference(cell.name(TOLD), cell.name(other), by_group=True)
            margins |= {f"low: {other}": interval.low, f"high: {other}": interval.high}
        rows.append({**dict(zip(PLACE, place, strict=True)), "n_tasks": len(outcomes.task_ids), **means, **margins})
    return rows


def jobs() -> list[RecourseJob]:
    """Every domain and ranking, the slowest first."""
    return [RecourseJob(domain.name, scorer) for domain in SLOWEST_FIRST for scorer in domain.scorers]


def measure(run: Run) -> Rows:
    """The whole grid: minutes on two cores."""
    return [row for job, outcomes in run(jobs()).items() for row in rows_of(job, outcomes)]


def recheck(rows: Rows, seed: int, run: Run) -> list[str]:
    """Two domains of at most 100 tasks under one ranking each, replayed."""
    some = sampled_jobs(2, seed, jobs())
    again = [row for job, outcomes in run(some).items() for row in rows_of(job, outcomes)]
    return differing(rows, again, PLACE, [f"{prefix}{name}" for prefix in FIGURES for name in RECOURSE_COMPARED])

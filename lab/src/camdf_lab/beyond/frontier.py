"""How far past the paper: every domain, ranking, value, cost pressure and dispersion, and what each policy pays there.

A sweep is one domain under one ranking, in every regime; a sweep in one regime is a cell. Policies that no price enters
are fitted once a split for a whole sweep, so the grid takes half an hour on two cores. The bar is the best of five
simple rules, picked in hindsight for each cell. The default starts from priors that have not seen the domain; one fit
decides with the vectors of the tasks' texts, from the ranking alone, and with what similar past tasks needed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from typing import TypeVar

import numpy as np

from camdf.core.rankings import LoggedTasks
from camdf.evaluation.replay import ORACLE, Outcomes
from camdf.evaluation.splits import draw_splits
from camdf.policies.base import Policy
from camdf.policies.registry import DEFAULT, POLICIES
from camdf_lab import domains
from camdf_lab.beyond.batches import DOMAINS, SLOWEST_FIRST, batch_of
from camdf_lab.beyond.priors import Unseen
from camdf_lab.flips import noisy
from camdf_lab.jobs import RankingJob
from camdf_lab.regimes import Regime, replay_regimes
from camdf_lab.stored import Row, Rows
from camdf_lab.study import Run, column, differing, mean_of, of_pair, pairs_of

SIMPLE_RULES = ("fixed-k", "score-threshold", "score-per-cost-threshold", "predict-then-threshold", "constant-set")
J = TypeVar("J", bound="Sweep | RankingJob")
PAPER = "cam-df"
ALONE = f"{DEFAULT}, ranking alone"
PAST = f"{DEFAULT}, past tasks"
TRUSTING = f"{DEFAULT}, trusting"
COMPARED = (*SIMPLE_RULES, PAPER, ALONE, DEFAULT, PAST)
STARTS = {"": DEFAULT, "alone_": ALONE, "past_": PAST}
"""How the columns of each way in which the default decides begin."""

PLACE = ("domain", "scorer", "splits", "value", "cost_pressure", "dispersion")
DISPERSIONS = (0.0, 1.0, 1.5)
LONG_LISTS = ("bfcl-multi-turn", "livemcpbench", "seal-tools")


@dataclass(frozen=True)
class Sweep:
    """One domain under one ranking, in every regime, over random or grouped splits.

    `noise` flips each listed tool's membership in the training and validation labels with that probability; tests keep
    the true ones. Without `texts` nothing but the ranking is there to learn from.
    """

    domain: str
    scorer: str
    grouped: bool = False
    splits: int = 10
    seed: int = 0
    noise: float = 0.0
    policies: tuple[str, ...] = COMPARED
    texts: bool = True

    @property
    def key(self) -> str:
        """Everything that determines the outcome, as one line of JSON."""
        return json.dumps(asdict(self), sort_keys=True)

    @property
    def regimes(self) -> list[Regime]:
        """Every value, cost pressure and dispersion."""
        grid = product(("exact", "partial"), cost_pressures(self.domain), DISPERSIONS)
        return [Regime(*cell) for cell in grid]

    def run(self) -> Outcomes:
        """What every policy paid on every task in every regime."""
        priced = {d: domains.load(self.domain, self.scorer, dispersion=d, texts=self.texts) for d in DISPERSIONS}
        splits = draw_splits(priced[0.0], self.splits, self.seed, grouped=self.grouped)
        served = (DEFAULT, ALONE) if PAST in self.policies else ()
        policies = {name: maker(name, self.domain) for name in self.policies if name not in served}
        return replay_regimes(policies, priced, self.regimes, splits, training=self._with_noise, ways={PAST: all_ways})

    def _with_noise(self, logged: LoggedTasks, split: int) -> LoggedTasks:
        return noisy(logged, self.noise, self.seed, split)


def cost_pressures(domain: str) -> tuple[float, ...]:
    """Under which cost pressures a domain is measured: also the lowest, where lists are long."""
    usual = (0.05, 0.12, 0.20)
    return (0.02, *usual) if has_long_lists(domain) else usual


def has_long_lists(domain: str) -> bool:
    """Whether the lowest cost pressure is measured too: all lists of the later domains hold over 30 tools."""
    return domain in LONG_LISTS or batch_of(domain) == "later"


def has_groups(domain: str) -> bool:
    """Whether splits that keep groups together differ: in the later domains, where a tenth of tasks share a group."""
    groups = domains.load(domain).groups
    share = 1.0 if batch_of(domain) == "shipped" else 0.9
    return len(set(groups.tolist())) < share * len(groups)


def splits_for(domain: str) -> int:
    """How many splits: the largest domain has half as many."""
    return 5 if domain == "seal-tools" else 10


def maker(name: str, domain: str) -> Callable[[], Policy]:
    """What makes a policy for a study of this domain; the default's priors have not seen it."""
    ours: dict[str, Callable[[], Policy]] = {
        DEFAULT: lambda: Unseen(domain),
        ALONE: lambda: Unseen(domain, texts=False),
        PAST: lambda: Unseen(domain, remember=True),
        TRUSTING: lambda: Unseen(domain, trust_labels=True),
    }
    return ours.get(name) or POLICIES[name]


def all_ways(fit: Policy) -> dict[str, Policy]:
    """A fit that remembers its tasks, as it decides with them, with texts alone, and from the ranking alone."""
    assert isinstance(fit, Unseen)
    return {PAST: fit, DEFAULT: fit.recalling(None), ALONE: fit.without_texts()}


def sweeps(policies: Sequence[str] = COMPARED, noise: float = 0.0, *, texts: bool = True) -> list[Sweep]:
    """The grid: every domain and ranking, and again with grouped splits where groups exist; the slowest first."""
    grid = []
    for domain in SLOWEST_FIRST:
        splits = splits_for(domain.name)
        ways_to_split = (False, True) if has_groups(domain.name) else (False,)
        grid += [
            Sweep(domain.name, scorer, grouped, splits, noise=noise, policies=tuple(policies), texts=texts)
            for grouped in ways_to_split
            for scorer in domain.scorers
        ]
    return grid


def rows_of(sweep: Sweep, outcomes: Outcomes) -> list[Row]:
    """One row a cell: every policy's mean, the best baseline, and the default's margins with intervals by group."""
    rows: list[Row] = []
    for regime in sweep.regimes:
        means: dict[str, float] = dict.fromkeys(COMPARED, np.nan)
        means |= {name: outcomes.mean(regime.name(name)) for name in (*sweep.policies, ORACLE)}
        best = max(SIMPLE_RULES, key=lambda name: means[name])
        margins: dict[str, float] = {}
        for start, policy in STARTS.items():
            for other, end in ((best, ""), (PAPER, "_camdf")):
                margin = outcomes.difference(regime.name(policy), regime.name(other), by_group=True)
                figures = {"margin": margin.mean, "lo": margin.low, "hi": margin.high}
                margins |= {f"{start}{name}{end}": value for name, value in figures.items()}
        place = dict(zip(PLACE, place_of(sweep, regime), strict=True))
        rows.append({**place, "n_tasks": len(outcomes.task_ids), **means, "baseline": best, **margins})
    return rows


def place_of(sweep: Sweep, regime: Regime) -> tuple[str | float, ...]:
    """What tells a cell from the others of the grid: the values of `PLACE`."""
    splits = "grouped" if sweep.grouped else "random"
    return sweep.domain, sweep.scorer, splits, *regime


def measure(run: Run) -> Rows:
    """The whole grid: half an hour on two cores."""
    return [row for sweep, outcomes in run(sweeps()).items() for row in rows_of(sweep, outcomes)]


def recheck(rows: Rows, seed: int, run: Run) -> list[str]:
    """Two small sweeps, replayed."""
    return sweep_disagreements(rows, run(sampled_jobs(2, seed, sweeps())))


def sweep_disagreements(stored: Rows, outcomes: Mapping[Sweep, Outcomes]) -> list[str]:
    """Where recomputed sweeps differ from the stored rows, in words."""
    return [
        line
        for sweep, again in outcomes.items()
        for line in differing(stored, rows_of(sweep, again), PLACE, (*sweep.policies, ORACLE))
    ]


def sampled_jobs(count: int, seed: int, among: Sequence[J], tasks: int = 100) -> list[J]:
    """Some of the jobs over domains of at most so many tasks, which take seconds each."""
    small = {domain.name for domain in DOMAINS if domain.tasks <= tasks}
    quick = [job for job in among if job.domain in small]
    return [quick[i] for i in np.random.default_rng(seed).permutation(len(quick))[:count]]


def headline(table: Rows, start: str = "") -> dict[str, float]:
    """The headline figures of some cells: of the default, or by another of `STARTS` of the default fitted so."""
    margin = column(table, f"{start}margin")
    low = column(table, f"{start}lo")
    high = column(table, f"{start}hi")
    by_pair = {pair: mean_of(of_pair(table, pair), f"{start}margin") for pair in pairs_of(table)}
    best = max(by_pair, key=lambda pair: by_pair[pair])
    others = [row for row in table if (row["domain"], row["scorer"]) != best]
    return {
        "cells": len(table),
        "mean margin": margin.mean(),
        "median margin": float(np.median(margin)),
        "mean margin without the best pair": mean_of(others, f"{start}margin"),
        "cells wholly below -0.02": int((high < -0.02).sum()),
        "significantly below": (high < 0).mean(),
        "significantly above": (low > 0).mean(),
        "above cam-df": (column(table, f"{start}lo_camdf") > 0).mean(),
        "below cam-df": (column(table, f"{start}hi_camdf") < 0).mean(),
    }

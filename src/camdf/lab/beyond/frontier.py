"""How far past the paper: every domain, ranking, value, cost pressure and dispersion, and what each policy pays there.

A sweep is one domain under one ranking, in every regime; a sweep in one regime is a cell. Policies that no price enters
are fitted once a split for a whole sweep, so the grid takes an hour on two cores. The bar is the best of five simple
rules, picked in hindsight for each cell.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import product

import numpy as np

from camdf import datasets
from camdf.core.rankings import LoggedTasks
from camdf.evaluation.replay import ORACLE, Outcomes, Regime, replay_regimes
from camdf.evaluation.splits import draw_splits
from camdf.lab.flips import noisy
from camdf.lab.stored import Row, Rows
from camdf.lab.study import Run, differing
from camdf.policies.registry import DEFAULT, POLICIES

BASELINES = ("fixed-k", "score-threshold", "score-per-cost-threshold", "predict-then-threshold", "constant-set")
PAPER, ON_POLICY = "cam-df", "cam-df, on-policy"
TRUSTING = "expected-payoff-by-set, trusting"
COMPARED = (*BASELINES, PAPER, "cam-df-lite", ON_POLICY, "expected-payoff-by-depth", DEFAULT)
PLACE = ("domain", "scorer", "splits", "value", "cost_pressure", "dispersion")
LONG_LISTS = ("bfcl-multi-turn", "livemcpbench", "seal-tools")


@dataclass(frozen=True)
class Sweep:
    """One domain under one ranking, in every regime, over random or grouped splits.

    `noise` flips each listed tool's membership in the training and validation labels with that probability; tests keep
    the true ones.
    """

    domain: str
    scorer: str
    grouped: bool = False
    splits: int = 10
    seed: int = 0
    noise: float = 0.0
    policies: tuple[str, ...] = COMPARED

    @property
    def key(self) -> str:
        """Everything that determines the outcome, as one line of JSON."""
        return json.dumps(asdict(self), sort_keys=True)

    @property
    def regimes(self) -> list[Regime]:
        """Every value, cost pressure and dispersion."""
        low = (0.02,) if self.domain in LONG_LISTS else ()
        grid = product(("exact", "partial"), (*low, 0.05, 0.12, 0.20), (0.0, 1.0, 1.5))
        return [Regime(*each) for each in grid]

    def run(self) -> Outcomes:
        """What every policy paid on every task in every regime."""
        priced = {d: datasets.load(self.domain, self.scorer, dispersion=d) for d in (0.0, 1.0, 1.5)}
        splits = draw_splits(priced[0.0], self.splits, self.seed, grouped=self.grouped)
        policies = {name: POLICIES[name] for name in self.policies}
        return replay_regimes(policies, priced, self.regimes, splits, training=self._with_noise)

    def _with_noise(self, logged: LoggedTasks, split: int) -> LoggedTasks:
        return noisy(logged, self.noise, self.seed, split)


def sweeps(policies: Sequence[str] = COMPARED, noise: float = 0.0) -> list[Sweep]:
    """The grid: every domain and ranking, and again with grouped splits where groups exist; the slowest first.

    The iterated target is left out on seal-tools: up to ten fits of 37,000 states, 240 times over.
    """
    found = []
    for domain in sorted(datasets.DOMAINS, key=lambda domain: -domain.tasks):
        large = domain.name == "seal-tools"
        splits, run = 5 if large else 10, tuple(name for name in policies if not (large and name == ON_POLICY))
        groups = datasets.load(domain.name).groups
        kinds = (False, True) if len(set(groups.tolist())) < domain.tasks else (False,)
        found += [
            Sweep(domain.name, scorer, grouped, splits, noise=noise, policies=run)
            for grouped in kinds
            for scorer in domain.scorers
        ]
    return found


def rows_of(sweep: Sweep, outcomes: Outcomes) -> list[Row]:
    """One row a cell: every policy's mean, the best baseline, and the default's margins with intervals by group."""
    rows: list[Row] = []
    for regime in sweep.regimes:
        means: dict[str, float] = dict.fromkeys(COMPARED, np.nan)
        means |= {name: outcomes.mean(regime.name(name)) for name in (*sweep.policies, ORACLE)}
        best = max(BASELINES, key=lambda name: means[name])
        margins: dict[str, float] = {}
        for suffix, other in (("baseline", best), ("camdf", PAPER)):
            interval = outcomes.difference(regime.name(DEFAULT), regime.name(other), by_group=True)
            end = "" if suffix == "baseline" else "_camdf"
            margins |= {f"default_minus_{suffix}": interval.mean, f"lo{end}": interval.low, f"hi{end}": interval.high}
        place = dict(zip(PLACE, place_of(sweep, regime), strict=True))
        rows.append({**place, "n_tasks": len(outcomes.task_ids), **means, "baseline": best, **margins})
    return rows


def place_of(sweep: Sweep, regime: Regime) -> tuple[str | float, ...]:
    """What tells a cell from the others of the grid: the values of `PLACE`."""
    return sweep.domain, sweep.scorer, "grouped" if sweep.grouped else "random", *regime


def measure(run: Run) -> Rows:
    """The whole grid: an hour on two cores."""
    return [row for sweep, found in run(sweeps()).items() for row in rows_of(sweep, found)]


def recheck(rows: Rows, seed: int, run: Run) -> list[str]:
    """Two small sweeps, replayed."""
    return disagreements(rows, run(sample(2, seed)))


def disagreements(stored: Rows, outcomes: Mapping[Sweep, Outcomes]) -> list[str]:
    """Where recomputed sweeps differ from the stored rows, in words."""
    return [
        line
        for sweep, again in outcomes.items()
        for line in differing(stored, rows_of(sweep, again), PLACE, (*sweep.policies, ORACLE))
    ]


def sample(count: int, seed: int, policies: Sequence[str] = COMPARED, noise: float = 0.0) -> list[Sweep]:
    """Some of the sweeps over domains of at most 100 tasks, which take seconds each."""
    small = {domain.name for domain in datasets.DOMAINS if domain.tasks <= 100}
    quick = [sweep for sweep in sweeps(policies, noise) if sweep.domain in small]
    return [quick[i] for i in np.random.default_rng(seed).permutation(len(quick))[:count]]


def summary(table: Rows) -> dict[str, float]:
    """The headline figures of the grid."""
    gain = np.array([row["default_minus_baseline"] for row in table])
    low, high = np.array([row["lo"] for row in table]), np.array([row["hi"] for row in table])
    pairs = [(row["domain"], row["scorer"]) for row in table]
    by_pair = {pair: gain[[p == pair for p in pairs]].mean() for pair in set(pairs)}
    best = max(by_pair, key=lambda pair: by_pair[pair])
    oracle = np.array([row[DEFAULT] > row[ORACLE] for row in table])
    grouped = np.array([row["splits"] == "grouped" for row in table])
    return {
        "cells": len(table),
        "mean gain": gain.mean(),
        "median gain": float(np.median(gain)),
        "mean gain without the best pair": gain[[p != best for p in pairs]].mean(),
        "cells wholly below -0.02": int((high < -0.02).sum()),
        "significantly below": (high < 0).mean(),
        "significantly above": (low > 0).mean(),
        "above cam-df": np.mean([row["lo_camdf"] > 0 for row in table]),
        "below cam-df": np.mean([row["hi_camdf"] < 0 for row in table]),
        "above the prefix oracle, random": oracle[~grouped].mean(),
        "above the prefix oracle, grouped": oracle[grouped].mean(),
        "airline, mean over the constant set": np.mean(
            [row[DEFAULT] - row["constant-set"] for row in table if row["domain"] == "airline"]
        ),
    }

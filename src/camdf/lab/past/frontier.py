"""How far past the paper: every domain, ranking, value, cost pressure and dispersion, and what each policy pays there.

A sweep is one domain under one ranking: policies that no price enters are fitted once a split and serve all its cells,
so the whole grid is an hour on two cores. The best of five simple rules, picked in hindsight for each cell, is the bar.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from itertools import product
from typing import Any

import numpy as np

from camdf import datasets
from camdf.core.payoff import Payoff
from camdf.core.rankings import Bools, Floats, LoggedTasks
from camdf.core.resampling import paired_bootstrap
from camdf.lab.contestants import CONTESTANTS
from camdf.lab.past.chapter import AGREEMENT, Row, Rows, Run
from camdf.lab.replay import ORACLE, Outcomes, measured
from camdf.lab.splits import draw_splits
from camdf.policies.base import Policy
from camdf.policies.oracle import prefix_oracle

BASELINES = ("fixed-k", "score-threshold", "score-per-cost", "predict", "constant-set")
DEFAULT, PAPER = "by-set", "cam-df"
ON_POLICY, BY_DEPTH = "cam-df, on-policy", "by-depth"
FITTED_ONCE = (BY_DEPTH, DEFAULT)
"""No price enters these: one fit a split and value serves every pressure and dispersion."""

POLICIES = (*BASELINES, PAPER, "cam-df-lite", ON_POLICY, BY_DEPTH, DEFAULT)
LONG_LISTS = ("bfcl-multi-turn", "livemcpbench", "seal-tools")


@dataclass(frozen=True)
class Sweep:
    """One domain under one ranking, all cells, over random or grouped splits."""

    domain: str
    scorer: str
    grouped: bool = False
    splits: int = 10
    seed: int = 0

    @property
    def key(self) -> str:
        """Everything that determines the outcome, as one line of JSON."""
        return json.dumps({"sweep": asdict(self), "policies": self.policies}, sort_keys=True)

    @property
    def policies(self) -> tuple[str, ...]:
        """All but the iterated target on seal-tools: up to ten fits of 37,000 states, 240 times over."""
        return tuple(name for name in POLICIES if not (name == ON_POLICY and self.domain == "seal-tools"))

    @property
    def cells(self) -> list[tuple[str, float, float]]:
        """Value, cost pressure, dispersion."""
        low = (0.02,) if self.domain in LONG_LISTS else ()
        return list(product(("exact", "partial"), (*low, 0.05, 0.12, 0.20), (0.0, 1.0, 1.5)))

    def run(self) -> Outcomes:
        """What every policy paid on every task of every cell; names are those of `in_cell`."""
        priced = {d: datasets.load(self.domain, self.scorer, dispersion=d) for d in (0.0, 1.0, 1.5)}
        tasks = priced[0.0]
        totals: dict[str, Floats] = {}
        appearances = np.zeros(len(tasks))
        for split in draw_splits(tasks, self.splits, self.seed, grouped=self.grouped):
            appearances[split.test] += 1
            once: dict[tuple[str, str], Policy] = {}
            for cell in self.cells:
                value, pressure, dispersion = cell
                payoff = Payoff(pressure, value)
                train, validation, test = (priced[dispersion].take(rows) for rows in split)
                for name in self.policies:
                    policy = once.get((name, value)) or CONTESTANTS[name]().fit(train, payoff, validation)
                    if name in FITTED_ONCE:
                        once[name, value] = policy
                    acquired = policy.decide(test.rankings, payoff).acquired
                    _add(totals, in_cell(cell, name), split.test, len(tasks), test, payoff, acquired)
                oracle = prefix_oracle(test, payoff).acquired
                _add(totals, in_cell(cell, ORACLE), split.test, len(tasks), test, payoff, oracle)
        values = {name: total / appearances[:, None] for name, total in totals.items()}
        return Outcomes(tasks.task_ids, tasks.groups, values, {})


def _add(
    totals: dict[str, Floats], name: str, rows: Any, tasks: int, test: LoggedTasks, payoff: Payoff, acquired: Bools
) -> None:
    total = totals.setdefault(name, np.zeros((tasks, 5)))
    total[rows] += measured(test, payoff, acquired)


def in_cell(cell: tuple[str, float, float], policy: str) -> str:
    """The name under which a policy's outcome in a cell is kept."""
    value, pressure, dispersion = cell
    return f"{value} {pressure:g} {dispersion:g}: {policy}"


def sweeps() -> list[Sweep]:
    """The grid: every domain and ranking, and again with grouped splits where groups exist; the slowest first."""
    found = []
    for domain in sorted(datasets.DOMAINS, key=lambda domain: -domain.tasks):
        splits = 5 if domain.name == "seal-tools" else 10
        groups = datasets.load(domain.name).groups
        kinds = (False, True) if len(set(groups.tolist())) < domain.tasks else (False,)
        found += [Sweep(domain.name, scorer, grouped, splits) for grouped in kinds for scorer in domain.scorers]
    return found


def rows_of(sweep: Sweep, outcomes: Outcomes) -> list[Row]:
    """One row a cell: every policy's mean, the best baseline, and the default's margins with intervals by group."""
    rows: list[Row] = []
    for cell in sweep.cells:
        means: dict[str, float] = dict.fromkeys(POLICIES, np.nan)
        means |= {name: outcomes.mean(in_cell(cell, name)) for name in (*sweep.policies, ORACLE)}
        best = max(BASELINES, key=lambda name: means[name])
        default = outcomes.values[in_cell(cell, DEFAULT)][:, 0]
        margins: dict[str, float] = {}
        for suffix, other in (("baseline", best), ("camdf", PAPER)):
            paired = default - outcomes.values[in_cell(cell, other)][:, 0]
            interval = paired_bootstrap(paired, np.random.default_rng(0), groups=outcomes.groups)
            end = "" if suffix == "baseline" else "_camdf"
            margins |= {f"default_minus_{suffix}": interval.mean, f"lo{end}": interval.low, f"hi{end}": interval.high}
        value, pressure, dispersion = cell
        rows.append(
            {
                "domain": sweep.domain,
                "scorer": sweep.scorer,
                "splits": "grouped" if sweep.grouped else "random",
                "value": value,
                "cost_pressure": pressure,
                "dispersion": dispersion,
                "n_tasks": len(outcomes.task_ids),
                **means,
                "baseline": best,
                **margins,
            }
        )
    return rows


def measure(run: Run) -> Rows:
    """The whole grid: an hour on two cores."""
    return [row for sweep, found in run(sweeps()).items() for row in rows_of(sweep, found)]


def recheck(rows: Rows, seed: int, run: Run) -> list[str]:
    """Two small sweeps, replayed."""
    return disagreements(rows, run(sample(2, seed)))


def disagreements(stored: Rows, outcomes: Mapping[Sweep, Outcomes]) -> list[str]:
    """Where recomputed sweeps differ from the stored rows, in words."""
    place = ("domain", "scorer", "splits", "value", "cost_pressure", "dispersion")
    before = {tuple(row[name] for name in place): row for row in stored}
    found = []
    for sweep, again in outcomes.items():
        for row in rows_of(sweep, again):
            where = tuple(row[name] for name in place)
            found += [
                f"{where} {name}: stored {before[where][name]:.6f}, now {row[name]:.6f}"
                for name in (*sweep.policies, ORACLE)
                if abs(before[where][name] - row[name]) > AGREEMENT
            ]
    return found


def sample(count: int, seed: int) -> list[Sweep]:
    """Some of the sweeps over domains of at most 100 tasks, which take seconds each."""
    small = {domain.name for domain in datasets.DOMAINS if domain.tasks <= 100}
    quick = [sweep for sweep in sweeps() if sweep.domain in small]
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

"""Learning from logs that a gate cut: a loop of deciding, logging and fitting, in worlds whose truth is known.

python benchmarks/gated_logs.py                 a table; a minute of one processor
python benchmarks/gated_logs.py --json FILE     the same numbers as JSON
python benchmarks/gated_logs.py --check FILE    exit 1 where a number of its first row is not what the file has

The worlds are those of `generated_worlds` in which every task needs a tool. A gate starts from no label, decides on 20
rounds of 100 tasks, and lets 5% of them see every tool; the others can call what it chose. After some rounds a policy
is fitted to all logs so far, by the function that `camdf fit` calls, and decides from then on. At the end it decides on
1,500 later tasks: what it earns, how often its tools are all that a task needs, and how often it believes so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
from generated_worlds import PAYOFF, World, is_same
from stored import measure_and_compare

from camdf import ExpectedPayoffBySet, LoggedTasks, Rankings
from camdf.core.rankings import Bools, GatedTasks, joined
from camdf.evaluation.fit import fit
from camdf.policies.base import Policy
from camdf.policies.cold_start import cold_start

ROUNDS = 20
TASKS = 100
EXPLORED = 0.05
FITS = (2, 5, 8, 12, 20)
"""After so many rounds the policy is fitted anew."""

LATER = 1500
SEEDS = (0, 1)
ALL = "all logs, as if nothing had been cut"
ALONE = "those that saw every tool, alone"
BOTH = "those, then what the others were offered"
FIGURES = ("payoff", "tools", "sufficient", "believed")


class Log(NamedTuple):
    """Tasks as their agents called tools, and what each could call."""

    seen: LoggedTasks
    offered: Bools

    def of(self, rows: Bools) -> Log:
        """Some of them."""
        return Log(self.seen.take(rows), self.offered[rows])

    @property
    def whole(self) -> Bools:
        """(n,): which saw every tool."""
        return np.asarray(self.offered.all(axis=1))

    def plus(self, other: Log) -> Log:
        """Both."""
        return Log(joined(self.seen, other.seen), np.concatenate([self.offered, other.offered]))


def naively(log: Log) -> Policy:
    """Fitted as if a tool that was not offered had not been needed; a task without a call says nothing."""
    return fit(log.seen.take(np.flatnonzero(log.seen.required.any(axis=1))), PAYOFF).policy


def alone(log: Log) -> Policy:
    """Fitted to the tasks that saw every tool."""
    return fit(log.of(log.whole).seen, PAYOFF).policy


def with_gated(log: Log) -> Policy:
    """What `camdf fit` does."""
    cut = log.of(np.logical_not(log.whole))
    return fit(log.of(log.whole).seen, PAYOFF, gated=GatedTasks(cut.seen, cut.offered)).policy


WAYS: dict[str, Callable[[Log], Policy]] = {BOTH: with_gated, ALONE: alone, ALL: naively}


def logged_by_gate(tasks: LoggedTasks, policy: Policy, explores: Bools) -> Log:
    """What became of tasks: some see every tool, and so do those for which nothing was chosen."""
    offered = policy.decide(tasks.rankings, PAYOFF).acquired
    offered[explores | ~offered.any(axis=1)] = True
    called = tasks.required & offered
    return Log(replace(tasks, required=called, n_required=called.sum(axis=1)), offered)


def measured(way: str, seed: int) -> dict[str, Any]:
    """What the policy after the last round does on later tasks."""
    world = World(seed, 0.0)
    rng = np.random.default_rng(600 + seed)
    policy: Policy = cold_start()
    logs: list[Log] = []
    for number in range(1, ROUNDS + 1):
        tasks = world.draw(TASKS, rng, f"round {number}").logged
        explores = np.random.default_rng([seed, number]).random(TASKS) < EXPLORED
        logs.append(logged_by_gate(tasks, policy, explores))
        if number in FITS:
            policy = WAYS[way](reduce(Log.plus, logs))
    later = world.draw(LATER, np.random.default_rng(70 + seed), "later").logged
    return {"way": way, "seed": seed, **outcome(policy, later, later.rankings)}


def outcome(policy: Policy, later: LoggedTasks, rankings: Rankings) -> dict[str, float]:
    """`FIGURES` on later tasks."""
    assert isinstance(policy, ExpectedPayoffBySet)
    chosen = policy.decide(rankings, PAYOFF).acquired
    figures = (
        PAYOFF.of(later, chosen).mean(),
        chosen.sum(axis=1).mean(),
        later.sufficient(chosen).mean(),
        policy.estimated_sufficiency(rankings, chosen).mean(),
    )
    return dict(zip(FIGURES, map(float, figures), strict=True))


def measure() -> list[dict[str, Any]]:
    """Every way, in the worlds of both seeds."""
    return [measured(way, seed) for way in WAYS for seed in SEEDS]


def measure_first() -> list[dict[str, Any]]:
    """The first way, in the first world."""
    return [measured(next(iter(WAYS)), SEEDS[0])]


def table(rows: Sequence[dict[str, Any]]) -> str:
    """Markdown: a row for each way and seed."""
    lines = [
        "| learned from | seed | payoff | tools | sufficient | believed |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for row in rows:
        payoff, tools, *shares = (row[name] for name in FIGURES)
        cells = [f"{payoff:.3f}", f"{tools:.1f}", *(f"{share:.0%}" for share in shares)]
        lines.append(f"| {row['way']} | {row['seed']} | {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    raise SystemExit(measure_and_compare(__doc__, measure, table, is_same, measure_first))

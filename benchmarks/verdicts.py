"""How often `camdf evaluate` says "worth it", where nothing beats the best fixed k, and where something does.

python benchmarks/verdicts.py --json FILE     500 and 200 repetitions: two processor minutes
python benchmarks/verdicts.py --check FILE    exit 1 where the first repetitions are not what the file has

In the world 'nothing to gain' scores are those of the rank alone and every task needs one tool, so the best fixed k is
the best that a policy can do. In the world 'something to gain' scores say something of each tool. A policy that was
fitted once is evaluated on 60 fresh tasks a repetition. What is true of it is measured on 2,000 more: its margin over
the rule that it was judged by, tuned on those 60 tasks.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from camdf import ExpectedPayoffBySet, LoggedTasks, Payoff, Rankings
from camdf.core.probability import sigmoid
from camdf.evaluation.assess import assess
from camdf.evaluation.replay import Fixed, all_handed_over
from camdf.policies.base import Policy
from camdf.policies.registry import POLICIES

PAYOFF = Payoff(0.05)
TASKS = 60
FRESH = 2000
REPETITIONS = {"nothing to gain": 500, "something to gain": 200}
CHECKED = 5
NOISE = 1e-6
"""By how much a number may differ from the stored one."""


def logged(scores: Any, required: Any, tools: Any, names: int) -> LoggedTasks:
    """Tasks from scores and labels by place, and which tool stands there; ranked."""
    order = np.argsort(-scores, axis=1, kind="stable")
    ids = np.array([f"task {row}" for row in range(len(scores))])
    rankings = Rankings(
        np.take_along_axis(scores, order, axis=1),
        np.ones(scores.shape),
        np.full(len(scores), scores.shape[1]),
        np.take_along_axis(tools, order, axis=1).astype(np.int64),
        tuple(f"tool {number}" for number in range(names)),
    )
    return LoggedTasks(rankings, np.take_along_axis(required, order, axis=1), required.sum(axis=1), ids, ids)


def nothing_to_gain(count: int, rng: np.random.Generator) -> LoggedTasks:
    """Ten tools of 400 a task; the one that is needed stands at a rank drawn as if by a coin."""
    chance = 0.8 ** np.arange(10)
    required = np.zeros((count, 10), dtype=bool)
    required[np.arange(count), rng.choice(10, count, p=chance / chance.sum())] = True
    scores = np.tile(0.9 / (1 + 0.3 * np.arange(10)), (count, 1))
    tools = np.array([rng.choice(400, 10, replace=False) for _ in range(count)])
    return logged(scores, required, tools, 400)


def something_to_gain(count: int, rng: np.random.Generator) -> LoggedTasks:
    """Twelve tools, one to three of them needed, with Gaussian logits of scores that lie higher where one is."""
    fixed = np.random.default_rng(0)
    level = 0.5 * fixed.standard_normal(12) - 1.5
    share = np.exp(0.8 * fixed.standard_normal(12))
    required = np.zeros((count, 12), dtype=bool)
    for task, size in enumerate(rng.choice([1, 2, 3], count, p=[0.4, 0.4, 0.2])):
        required[task, rng.choice(12, size, replace=False, p=share / share.sum())] = True
    scores = sigmoid(level + 1.8 * required + 1.2 * rng.standard_normal(required.shape))
    return logged(scores, required, np.tile(np.arange(12), (count, 1)), 12)


WORLDS: dict[str, Callable[[int, np.random.Generator], LoggedTasks]] = {
    "nothing to gain": nothing_to_gain,
    "something to gain": something_to_gain,
}


@cache
def policy_of(world: str) -> ExpectedPayoffBySet:
    """The policy that is evaluated."""
    return ExpectedPayoffBySet().fit(WORLDS[world](200, np.random.default_rng(1)), PAYOFF)


def earned(policy: Policy, fresh: LoggedTasks) -> float:
    """What a policy's tools pay once a gate hands them over."""
    handed = all_handed_over(fresh.rankings, policy.decide(fresh.rankings, PAYOFF))
    return float(PAYOFF.of(fresh, handed).mean())


def measured(world: str, repetition: int) -> dict[str, Any]:
    """One evaluation, and what is true."""
    rng = np.random.default_rng([repetition, list(WORLDS).index(world)])
    tasks = WORLDS[world](TASKS, rng)
    fresh = WORLDS[world](FRESH, rng)
    policy = policy_of(world)
    found = assess(lambda: Fixed(policy), tasks, PAYOFF)
    rule = POLICIES[found.best_rule]().fit(tasks, PAYOFF)
    margin = found.margin
    true = earned(policy, fresh) - earned(rule, fresh)
    return {"world": world, "mean": margin.mean, "low": margin.low, "high": margin.high, "true": true}


def table(rows: list[dict[str, Any]]) -> str:
    """Markdown."""
    lines = ["| world | says 'worth it' | mean margin | true margin | interval holds it |", "|" + " --- |" * 5]
    for world in WORLDS:
        own = [row for row in rows if row["world"] == world]
        low, mean, high, true = (np.array([row[name] for row in own]) for name in ("low", "mean", "high", "true"))
        holds = ((low <= true) & (true <= high)).mean()
        lines.append(f"| {world} | {(low > 0).mean():.1%} | {mean.mean():.3f} | {true.mean():.3f} | {holds:.1%} |")
    return "\n".join(lines)


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--json", type=Path)
    options.add_argument("--check", type=Path)
    chosen = options.parse_args()
    if chosen.check:
        stored = json.loads(chosen.check.read_text())
        for world in WORLDS:
            own = [row for row in stored if row["world"] == world]
            for repetition in range(CHECKED):
                now = measured(world, repetition)
                before = own[repetition]
                if any(abs(now[name] - before[name]) > NOISE for name in ("mean", "low", "high", "true")):
                    print(f"stored {before}\nnow    {now}", file=sys.stderr)
                    return 1
        return 0
    rows = [measured(world, repetition) for world in WORLDS for repetition in range(REPETITIONS[world])]
    print(table(rows))
    if chosen.json:
        chosen.json.write_text("[\n" + ",\n".join(map(json.dumps, rows)) + "\n]\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

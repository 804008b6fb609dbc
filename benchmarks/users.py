"""What is gained by knowing who asks: a generated world of users, each of whom needs four of 200 tools.

python benchmarks/users.py                 a table; two processor minutes
python benchmarks/users.py --json FILE     the same numbers as JSON
python benchmarks/users.py --check FILE    exit 1 where one of the worlds is not what the file has

A task needs one or two of its user's four tools, and the logits of the scores are Gaussian: so the best decision is
known (the oracle, which knows each user's tools). One log and its policy decide on 600 later tasks of the same 30
users, told who asks and not. What a policy chooses counts, in the exact payoff at a cost pressure of .05.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from camdf import ExpectedPayoffBySet, LoggedTasks, Payoff, Rankings
from camdf.core.probability import sigmoid
from camdf.core.rankings import Bools, Floats, Ints

PAYOFF = Payoff(0.05)
TOOLS = 200
USERS = 30
OWN = 4
"""How many tools a user needs now and then."""

ONE_TOOL = 0.6
"""The share of tasks that need one tool; the others need two."""

LABELS = (100, 400)
SEEDS = (0, 1)
LATER = 600
APART = 2.2
"""By how much the mean logit of a needed tool's score is above that of others."""

SPREAD = 1.2
NOISE = 1e-6
"""By how much a payoff may differ from the stored one."""


class Tasks(NamedTuple):
    """Tasks, who asked each, and how likely each tool's score is where it is needed, compared with where it is not."""

    logged: LoggedTasks
    users: Ints
    ratio: Floats


class World:
    """Users, and the tools that each of them needs."""

    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.level = 0.5 * rng.standard_normal(TOOLS) - 1.5
        self.own = np.array([rng.choice(TOOLS, OWN, replace=False) for _ in range(USERS)])

    def draw(self, count: int, rng: np.random.Generator, prefix: str) -> Tasks:
        """So many tasks of users at random."""
        users = rng.integers(USERS, size=count)
        sizes = rng.choice([1, 2], count, p=[ONE_TOOL, 1 - ONE_TOOL])
        needed = np.zeros((count, TOOLS), dtype=bool)
        for task, (user, size) in enumerate(zip(users, sizes, strict=True)):
            needed[task, rng.choice(self.own[user], size, replace=False)] = True
        noise = SPREAD * rng.standard_normal(needed.shape)
        beyond = APART * needed + noise
        scores = sigmoid(self.level + beyond)
        ratio = np.exp((beyond * APART - APART**2 / 2) / SPREAD**2)
        order = np.argsort(-scores, axis=1, kind="stable")
        rankings = Rankings(
            np.take_along_axis(scores, order, axis=1),
            np.ones(scores.shape),
            np.full(count, TOOLS),
            order.astype(np.int64),
            tuple(f"tool {number:03}" for number in range(TOOLS)),
            users=np.array([f"user {user}" for user in users]),
        )
        ids = np.array([f"{prefix} {task}" for task in range(count)])
        required = np.take_along_axis(needed, order, axis=1)
        return Tasks(LoggedTasks(rankings, required, needed.sum(axis=1), ids, ids), users, ratio)

    def oracle(self, tasks: Tasks) -> Bools:
        """(n, tools) in rank order: the best set of each user's tools, by the true chance of every set."""
        sets = [chosen for size in (1, 2) for chosen in combinations(range(OWN), size)]
        ways = {1: OWN, 2: OWN * (OWN - 1) // 2}
        share = {1: ONE_TOOL, 2: 1 - ONE_TOOL}
        acquired = np.zeros(tasks.ratio.shape, dtype=bool)
        choices = [chosen for size in range(OWN + 1) for chosen in combinations(range(OWN), size)]
        for task, user in enumerate(tasks.users):
            own = self.own[user]
            odds = tasks.ratio[task, own]
            chance = {chosen: share[len(chosen)] / ways[len(chosen)] * odds[list(chosen)].prod() for chosen in sets}
            total = sum(chance.values())
            best = max(choices, key=lambda choice: _worth(choice, chance, total))
            acquired[task, own[list(best)]] = True
        return np.take_along_axis(acquired, tasks.logged.rankings.tool_ids, axis=1)


def _worth(choice: Sequence[int], chance: dict[tuple[int, ...], float], total: float) -> float:
    enough = sum(each for needed, each in chance.items() if set(needed) <= set(choice))
    return float(enough / total - PAYOFF.cost_pressure * len(choice))


def measured(labels: int, seed: int) -> dict[str, Any]:
    """What one world gives: payoff by who is known."""
    world = World(seed)
    rng = np.random.default_rng(5000 + seed)
    taught = world.draw(labels, rng, "task")
    later = world.draw(LATER, rng, "later")
    policy = ExpectedPayoffBySet(remember=True).fit(taught.logged, PAYOFF)
    known = later.logged.rankings
    nameless = replace(known, users=None)

    def paid(acquired: Bools) -> float:
        return float(PAYOFF.of(later.logged, acquired).mean())

    return {
        "labels": labels,
        "seed": seed,
        "nobody named": paid(policy.decide(nameless, PAYOFF).acquired),
        "users named": paid(policy.decide(known, PAYOFF).acquired),
        "oracle": paid(world.oracle(later)),
        "multiple": policy.own_multiple_,
    }


def table(rows: Sequence[dict[str, Any]]) -> str:
    """Markdown: the mean over the worlds of each number of labels."""
    names = ("nobody named", "users named", "oracle")
    lines = [f"| labels | {' | '.join(names)} |", "|" + " --- |" * (1 + len(names))]
    for labels in LABELS:
        own = [row for row in rows if row["labels"] == labels]
        cells = [f"{np.mean([row[name] for row in own]):.3f}" for name in names]
        lines.append(f"| {labels} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--json", type=Path)
    options.add_argument("--check", type=Path)
    chosen = options.parse_args()
    if chosen.check:
        stored, *_ = json.loads(chosen.check.read_text())
        now = measured(stored["labels"], stored["seed"])
        if all(abs(now[name] - stored[name]) <= NOISE for name in stored):
            return 0
        print(f"stored {stored}\nnow    {now}", file=sys.stderr)
        return 1
    rows = [measured(labels, seed) for labels in LABELS for seed in SEEDS]
    print(table(rows))
    if chosen.json:
        chosen.json.write_text(json.dumps(rows, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

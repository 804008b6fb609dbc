"""How many tasks does the default learn from? Its learning curve on made-up tasks, with the history of every tool.

python benchmarks/at_scale.py --json results/at_scale.json    a few minutes
python benchmarks/at_scale.py --check results/at_scale.json   the smallest sizes again
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from spark import PAYOFF, say

from camdf import ExpectedPayoffBySet, LoggedTasks, Rankings

SIZES = (30, 100, 300, 1_000, 3_000, 10_000, 30_000)
CHECKED = 2
HELD_OUT = 20_000


def world(rng: np.random.Generator, tasks: int, tools: int = 12) -> LoggedTasks:
    """Tasks whose scores say something of what they need, and whose prices differ by tool."""
    scores = np.sort(rng.random((tasks, tools)) ** rng.uniform(0.5, 3.0, (tasks, 1)), axis=1)[:, ::-1]
    ids = rng.permuted(np.tile(np.arange(100), (tasks, 1)), axis=1)[:, :tools]
    costs = np.linspace(0.2, 1.8, 100)[ids]
    required = rng.random((tasks, tools)) < 1.0 / (1.0 + np.exp(9.0 - 12.0 * scores))
    missing = (rng.random(tasks) < 0.1).astype(np.int64)
    names = np.arange(tasks).astype(str)
    rankings = Rankings(scores, costs, np.full(tasks, tools), ids, tuple(f"tool-{tool}" for tool in range(100)))
    return LoggedTasks(rankings, required, required.sum(axis=1) + missing, names, names)


def curve(sizes: tuple[int, ...]) -> list[dict[str, Any]]:
    """The payoff on other tasks after a fit on so many."""
    rng = np.random.default_rng(17)
    held_out = world(rng, HELD_OUT)
    every = world(rng, max(SIZES))
    rows = []
    for tasks in sizes:
        policy = ExpectedPayoffBySet().fit(every.take(slice(0, tasks)), PAYOFF)
        acquired = policy.decide(held_out.rankings, PAYOFF).acquired
        rows.append({"tasks": tasks, "payoff": round(float(PAYOFF.of(held_out, acquired).mean()), 5)})
        say(rows[-1])
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", type=Path, help="where to store the curve")
    parser.add_argument("--check", type=Path, help="a stored curve to compare the smallest sizes with")
    options = parser.parse_args()
    if options.check:
        stored = json.loads(options.check.read_text())["curve"]
        if (now := curve(SIZES[:CHECKED])) != stored[:CHECKED]:
            sys.exit(f"at scale: the curve begins with {now}, stored {stored[:CHECKED]}")
        print("at scale: the curve begins as stored")
        return
    found = {"held_out": HELD_OUT, "curve": curve(SIZES)}
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()

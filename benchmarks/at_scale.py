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
from spark_fit import world

from camdf import ExpectedPayoffBySet
from spark import PAYOFF, say

SIZES, CHECKED = (30, 100, 300, 1_000, 3_000, 10_000, 30_000), 2
HELD_OUT = 20_000


def curve(sizes: tuple[int, ...]) -> list[dict[str, Any]]:
    """The payoff on other tasks after a fit on so many."""
    rng = np.random.default_rng(17)
    held_out, every = world(rng, HELD_OUT), world(rng, max(SIZES))
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

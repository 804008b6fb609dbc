"""How long it takes to ask what similar past tasks needed, from 10^4 to 10^6 of them, in numpy alone.

python benchmarks/past_tasks.py                  a table
python benchmarks/past_tasks.py --store          the same in results/past_tasks.json
python benchmarks/past_tasks.py --check          exit 1 where a multiple is too large, of the two smaller sizes

A request has 50 candidates of a catalogue of 1,000 tools, and vectors have 64 numbers. Times are those of
one processor, and multiples of what one product of the vectors as floats, which any exact search must do, takes.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from camdf.core.rankings import Rankings
from camdf.policies.models.past_tasks import PastTasks

STORED = Path(__file__).parents[1] / "results" / "past_tasks.json"
SIZES = (10_000, 100_000, 1_000_000)
DIMENSIONS = 64
TOOLS = 1000
CANDIDATES = 50
NEEDED = 3
MOST = 40
"""Products that a request may take: it does not grow faster than the product itself."""


def past_of(size: int) -> PastTasks:
    """So many past tasks in random directions, three tools each."""
    rng = np.random.default_rng(0)
    return PastTasks(
        tuple(f"tool {number}" for number in range(TOOLS)),
        rng.integers(-127, 128, (size, DIMENSIONS), dtype=np.int8),
        np.full(size, NEEDED),
        rng.integers(0, TOOLS, size * NEEDED),
        np.arange(size).astype(np.str_),
    )


def request() -> Rankings:
    """One request with its vector."""
    rng = np.random.default_rng(1)
    scores = {f"tool {number}": float(score) for number, score in enumerate(rng.random(CANDIDATES))}
    return replace(Rankings.from_scores(scores), vectors=rng.normal(size=(1, DIMENSIONS)))


def fastest(function: Callable[[], object], rounds: int) -> float:
    """The best of some rounds, in seconds of processor."""
    seconds = []
    for _ in range(rounds):
        start = time.process_time()
        function()
        seconds.append(time.process_time() - start)
    return min(seconds)


def measured(size: int) -> dict[str, float]:
    """Milliseconds of a request, megabytes held, and the time as a multiple of one product of floats."""
    past = past_of(size)
    rankings = request()
    wide = past.vectors.astype(np.float32)
    vector = rankings.vectors[0].astype(np.float32) if rankings.vectors is not None else wide[0]
    rounds = max(5, 200_000 // size)
    others = iter(np.random.default_rng(2).normal(size=(rounds, 1, DIMENSIONS)))
    seconds = fastest(lambda: past.columns(replace(rankings, vectors=next(others))), rounds)
    product = fastest(lambda: wide @ vector, rounds)
    held = sum(part.nbytes for part in vars(past).values() if isinstance(part, np.ndarray))
    return {
        "tasks": size,
        "milliseconds": round(1000 * seconds, 2),
        "of one product": round(seconds / product, 1),
        "megabytes": round(held / 1e6, 1),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", action="store_true")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    with threadpool_limits(1):
        rows = [measured(size) for size in (SIZES[:2] if options.check else SIZES)]
    for row in rows:
        print("  ".join(f"{name} {value:g}" for name, value in row.items()))
    if options.store:
        STORED.write_text(json.dumps(rows, indent=1) + "\n")
    return int(options.check and max(row["of one product"] for row in rows) > MOST)


if __name__ == "__main__":
    sys.exit(main())

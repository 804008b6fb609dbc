"""How long the lab takes, and what dominates: the nine-cell Retail grid with all policies of the paper, timed by part.

python benchmarks/replays.py            a table
python benchmarks/replays.py --json     the same numbers as JSON
"""

from __future__ import annotations

import argparse
import cProfile
import json
import os
import pstats
import time
from pathlib import Path

import camdf
from camdf_lab.jobs import run_jobs
from camdf_lab.paper import TABLES


def measure() -> dict[str, object]:
    cells = TABLES["grid"].cells
    start = time.perf_counter()
    run_jobs(cells)
    together = time.perf_counter() - start
    profile = cProfile.Profile()
    start = time.perf_counter()
    profile.enable()
    cells[0].run()
    profile.disable()
    one = time.perf_counter() - start
    stats = pstats.Stats(profile).stats  # type: ignore[attr-defined]
    inside = {"scikit-learn": 0.0, "numpy and the standard library": 0.0, "camdf": 0.0}
    for (file, _, _), (_, _, own, _, _) in stats.items():
        inside[part_of(file)] += own
    total = sum(inside.values())
    return {
        "cells": len(cells),
        "policies": len(cells[0].policies),
        "splits": cells[0].splits,
        "workers": os.cpu_count(),
        "seconds for the grid": round(together, 1),
        "seconds for one cell, profiled": round(one, 1),
        "share of own time": {part: round(seconds / total, 2) for part, seconds in inside.items()},
    }


def part_of(file: str) -> str:
    """Where a function's own time is counted."""
    if file.startswith(str(Path(camdf.__file__).parent)):
        return "camdf"
    return "scikit-learn" if "sklearn" in file else "numpy and the standard library"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    results = measure()
    if options.json:
        print(json.dumps(results, indent=1))
    else:
        for name, value in results.items():
            print(f"{name}: {value}")


if __name__ == "__main__":
    main()

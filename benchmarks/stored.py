"""What the programs of this folder share that measure rows: print them as a table, store them, compare them."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from operator import eq
from pathlib import Path
from typing import Any

Rows = Sequence[dict[str, Any]]


def measure_and_compare(
    description: str | None,
    measure: Callable[[], Rows],
    table: Callable[[Rows], str],
    is_same: Callable[[dict[str, Any], dict[str, Any]], bool] = eq,
    measure_first: Callable[[], Rows] | None = None,
) -> int:
    """Run a program that has `--json FILE` and `--check FILE`; 1 where a row is not what the file has.

    `measure_first` measures the first rows alone, where that is all that a check does.
    """
    options = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--json", type=Path)
    options.add_argument("--check", type=Path)
    chosen = options.parse_args()
    if chosen.check and measure_first is not None:
        measure = measure_first
    now = measure()
    print(table(now))
    if chosen.json:
        chosen.json.write_text(json.dumps(now, indent=1) + "\n")
    stored = json.loads(chosen.check.read_text()) if chosen.check else now
    if measure_first is not None:
        stored = stored[: len(now)]
    differ = [(before, after) for before, after in zip(stored, now, strict=True) if not is_same(before, after)]
    for before, after in differ:
        print(f"stored {before}\nnow    {after}", file=sys.stderr)
    return 1 if differ else 0

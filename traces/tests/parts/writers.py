"""Processes that write to one table of days at the same time."""

from __future__ import annotations

import subprocess
import sys
from datetime import date, timedelta
from pathlib import Path

import pyarrow.parquet as pq

from arrivals import BEGIN, FIRST, run
from camdf_traces.spans import Span, arrow_table

CHILD = """
import sys
from datetime import date
from camdf_traces.days import mine_day
print("ready", flush=True)
for line in sys.stdin:
    print(mine_day(line.strip(), sys.argv[1], date.fromisoformat(sys.argv[2]), grace_hours=0).added, flush=True)
"""


class Writer:
    """A process of its own that brings the spans of one day after another."""

    def __init__(self, table: str, day: date) -> None:
        command = [sys.executable, "-c", CHILD, table, str(day)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.told() == "ready"

    def told(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def bring(self, file: Path) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{file}\n")
        self.process.stdin.flush()

    def end(self) -> None:
        self.process.kill()
        self.process.communicate()


def race(table: str, folder: Path, races: int) -> list[Span]:
    """Two processes bring spans of two days again and again, each time at once; all spans that they brought."""
    brought, files = [], []
    for number in range(2 * races):
        spans = [span for n in range(20) for span in run(100 * number + n + 1, BEGIN)]
        brought += spans
        files.append(folder / f"{number}.parquet")
        pq.write_table(arrow_table(spans), files[-1])
    writers = [Writer(table, FIRST + timedelta(number)) for number in range(2)]
    try:
        for pair in zip(files[:races], files[races:], strict=True):
            for each, file in zip(writers, pair, strict=True):
                each.bring(file)
            assert all(each.told().isdigit() for each in writers)
    finally:
        for each in writers:
            each.end()
    return brought

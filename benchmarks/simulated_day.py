"""A day of spans that arrives by the hour, some of it late, some with wrong clocks, one hour twice: is it one batch's?

python benchmarks/simulated_day.py --json results/simulated_day.json    2,000,000 spans: four minutes, 4 GB of memory

Every run of an agent has its spans within an hour. One span in a hundred comes 1 to 6 hours after the others, and one
in a thousand has a clock that is two days ahead. Every hour is mined into a table of days when it is over, and the
eighth hour again after the twelfth. Then all spans are mined into another table at once.
`traces/tests/test_simulated_day.py` has the tenth part of it.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path
from random import Random
from typing import Any

from camdf_traces.days import MinedDay, mine_day, read_days
from camdf_traces.spans import Span, arrow_table

SPANS = 2_000_000
DAY = date(2026, 3, 2)
HOUR = 3600 * 10**9
BEGIN = int(datetime(2026, 3, 2, tzinfo=UTC).timestamp()) * 10**9
ARRIVALS = (*range(12), 7, *range(12, 24))
TOOLS = tuple(f"tool_{number:02d}" for number in range(12))
LATE = 0.01
WRONG_CLOCK = 0.001


def run(number: int, start: int, required: list[str]) -> list[Span]:
    """A run whose model asks for one tool after the other, and then answers."""
    trace = f"{number:032x}"
    spans = [
        Span(trace, "agent", kind="agent", name="clerk", conversation=f"c{number // 3}", start=start, end=start + 99)
    ]
    for place, tool in enumerate([*required, ""]):
        at = start + 10 * place
        asked = (tool,) if tool else ()
        spans.append(
            Span(trace, f"m{place}", "agent", "model", "m", start=at, end=at + 1, offered=TOOLS, requested=asked)
        )
        if tool:
            spans.append(Span(trace, f"t{place}", "agent", "tool", tool, start=at + 2, end=at + 3))
    return spans


def arriving(spans: int) -> tuple[list[list[Span]], Counter[str]]:
    """About so many spans by the hour of their arrival, and what was done to them."""
    rng = Random(1)
    counts = Counter[str]()
    hours: list[list[Span]] = [[] for _ in range(24)]
    while counts["spans"] < spans:
        hour = rng.randrange(24)
        of_run = run(counts["runs"], BEGIN + hour * HOUR + rng.randrange(HOUR), rng.sample(TOOLS, rng.randint(1, 3)))
        for span in of_run:
            ahead = rng.random() < WRONG_CLOCK
            late = rng.random() < LATE
            moved = replace(span, start=(span.start or 0) + 48 * HOUR) if ahead else span
            hours[min(23, hour + rng.randint(1, 6)) if late else hour].append(moved)
            counts.update(ahead=ahead, late=late)
        counts.update(runs=1, spans=len(of_run))
    return hours, counts


def mined(hours: list[list[Span]], folder: Path) -> Iterator[MinedDay]:
    """What every arrival brought into the table of hours; last, what the batch did."""
    spans = sum(map(len, hours))
    for hour in ARRIVALS:
        yield mine_day(arrow_table(hours[hour]), folder / "hourly", DAY, spans_a_day=spans)
    yield mine_day(arrow_table([span for some in hours for span in some]), folder / "batch", DAY)


def measure(spans: int) -> dict[str, Any]:
    """The counts of such a day, and whether it is the day of one batch."""
    hours, counts = arriving(spans)
    took = []
    days = []
    before = time.process_time()
    with tempfile.TemporaryDirectory(prefix="camdf-day-") as scratch:
        for day in mined(hours, Path(scratch)):
            took.append(time.process_time() - before)
            days.append(day)
            before = time.process_time()
        by_hour, at_once = (read_days(Path(scratch) / name) for name in ("hourly", "batch"))
    *arrivals, batch = days
    adds_up = all(whole == sum(parts) for day in days for whole, *parts in map(dict.values, day.sums.values()))
    return {
        "machine": {"cores": os.cpu_count(), "processor": platform.machine(), "python": platform.python_version()},
        **counts,
        "arrivals": len(arrivals),
        "tasks": len(by_hour),
        "tasks of one batch": len(at_once),
        "equal": by_hour.equals(at_once),
        "every count adds up": adds_up,
        "repeated": sum(day.repeated for day in arrivals),
        "of the hour that came twice": len(hours[7]),
        "held back": sum(day.ahead for day in arrivals),
        "traces that wait": batch.waiting,
        "processor seconds": {"by the hour": round(sum(took[:-1]), 1), "at once": round(took[-1], 1)},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--spans", type=int, default=SPANS, help="how many (default: %(default)s)")
    parser.add_argument("--json", type=Path, help="where to store what came of it")
    options = parser.parse_args()
    measured = json.dumps(measure(options.spans), indent=1)
    print(measured)
    if options.json:
        options.json.write_text(measured + "\n")


if __name__ == "__main__":
    main()

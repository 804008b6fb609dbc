"""A day that arrives by the hour, some of it late, some with wrong clocks, one hour twice: the tasks of one batch.

`SPANS=2000000 pytest tests/test_simulated_day.py` is the whole day; without it, a hundredth.
"""

from __future__ import annotations

import os
from collections import defaultdict
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path
from random import Random

import pytest

from camdf.mining.days import mine_day, read_days
from camdf.mining.spans import Span, arrow_table

pytest.importorskip("deltalake")

SPANS = int(os.environ.get("SPANS", "20000"))
DAY = date(2026, 3, 2)
HOUR = 3600 * 10**9
BEGIN = int(datetime(2026, 3, 2, tzinfo=UTC).timestamp()) * 10**9
TOOLS = tuple(f"tool_{number:02d}" for number in range(12))
LATE, WRONG_CLOCK = 0.01, 0.001


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


def test_a_day_that_arrives_by_the_hour_ends_with_the_tasks_of_one_batch(tmp_path: Path) -> None:
    rng, arrivals = Random(1), defaultdict[int, list[Span]](list)
    count = number = 0
    while count < SPANS:
        hour = rng.randrange(24)
        spans = run(number, BEGIN + hour * HOUR + rng.randrange(HOUR), rng.sample(TOOLS, rng.randint(1, 3)))
        for span in spans:
            if rng.random() < WRONG_CLOCK:
                span = replace(span, start=(span.start or 0) + 48 * HOUR)
            arrivals[min(23, hour + rng.randint(1, 6)) if rng.random() < LATE else hour].append(span)
        count, number = count + len(spans), number + 1
    ahead = sum((span.start or 0) > BEGIN + 26 * HOUR for spans in arrivals.values() for span in spans)
    held = 0
    for hour in (*range(12), 7, *range(12, 24)):  # the eighth hour is run again
        brought = mine_day(arrow_table(arrivals[hour]), tmp_path / "hourly", DAY, spans_a_day=SPANS)
        held += brought.ahead
        for counts in brought.sums.values():
            whole, *parts = counts.values()
            assert whole == sum(parts)
    everything = [span for spans in arrivals.values() for span in spans]
    whole_day = mine_day(arrow_table(everything), tmp_path / "batch", DAY)
    assert read_days(tmp_path / "hourly").equals(read_days(tmp_path / "batch"))
    assert held == ahead == whole_day.ahead > 0
    assert whole_day.added == number - whole_day.waiting

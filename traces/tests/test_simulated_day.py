"""A day that arrives by the hour, some of it late, some with wrong clocks, one hour twice: the tasks of one batch.

Here is a tenth of it, 200,000 spans. `benchmarks/simulated_day.py` has the whole day, and its result is stored.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from loading import benchmark_module

pytest.importorskip("deltalake")

SPANS = 200_000
STORED = Path(__file__).parents[2] / "results" / "simulated_day.json"


def holds(day: dict[str, Any]) -> None:
    assert day["equal"]
    assert day["every count adds up"]
    assert day["tasks"] == day["tasks of one batch"] == day["runs"] - day["traces that wait"]
    assert day["held back"] == day["ahead"] > 0
    assert day["repeated"] == day["of the hour that came twice"] > 0
    assert day["late"] > 0


def test_a_day_that_arrives_by_the_hour_ends_with_the_tasks_of_one_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    day = benchmark_module("simulated_day", monkeypatch).measure(SPANS)
    assert day["spans"] >= SPANS
    holds(day)


def test_the_stored_day_is_the_whole_one_and_held(monkeypatch: pytest.MonkeyPatch) -> None:
    day, program = json.loads(STORED.read_text()), benchmark_module("simulated_day", monkeypatch)
    assert day["spans"] >= program.SPANS == 2_000_000
    assert day["arrivals"] == 25
    assert day["late"] / day["spans"] == pytest.approx(0.01, rel=0.05)
    assert day["ahead"] / day["spans"] == pytest.approx(0.001, rel=0.05)
    holds(day)

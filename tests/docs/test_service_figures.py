"""The figures on the service's page are those that are stored, and what is promised of them holds."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from loading import benchmark_module
from neighbors import BEYOND, CROWDS
from saying import says

ROOT = Path(__file__).parents[2]
STORED = json.loads((ROOT / "results" / "service.json").read_text("utf-8"))


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch) -> Any:
    return benchmark_module("service", monkeypatch)


def test_the_page_shows_what_is_stored(benchmark: Any) -> None:
    page = (ROOT / "docs" / "service.md").read_text("utf-8")
    assert benchmark.figures(STORED) in page
    assert f"takes {STORED['load']['32 connections: requests a second']:,.0f} decisions a second" in page


def test_the_arithmetic_of_copies_is_that_of_what_is_stored(benchmark: Any) -> None:
    page = " ".join((ROOT / "docs" / "production.md").read_text("utf-8").split())
    assert " ".join(benchmark.copies(STORED).split()) in page
    load, image = STORED["load"], json.loads((ROOT / "results" / "image.json").read_text("utf-8"))
    alone = load["32 connections: processor time of a request, microseconds"]
    talked = load["conversations: processor time of a request, microseconds"]
    listed = load["lists of 32: processor time of a decision, microseconds"]
    crowded = load[benchmark.RUDE] / load["overload: p99 at capacity, microseconds"]
    for said in (
        f"one process took {load['32 connections: requests a second']:,.0f} decisions a second",
        f"{alone:.0f} microseconds of processor time",
        f"{max(look['mb'] for look in STORED['soak']['looks']):.0f} MB … ten minutes",
        f"a copy {benchmark.BUSY:.0%} … it can take",
        f"({listed:.0f} in place of {alone:.0f} microseconds each)",
        f"p99 rose {crowded:.1f} times",
        f"takes {talked / alone:.1f} times the processor time",
        f"{image['image']} … base is {image['base']}",
    ):
        assert says(page, said), said


def test_the_example_scales_to_the_last_row_of_the_arithmetic(benchmark: Any) -> None:
    most = re.search(r"maxReplicas: (\d+)", (ROOT / "deploy" / "kubernetes.yaml").read_text("utf-8"))
    last = re.search(r"\| 1,000,000 \| ([\d,]+) \|", benchmark.copies(STORED))
    assert most
    assert last
    assert int(most[1]) >= int(last[1].replace(",", ""))


def test_whatever_one_tenant_sent_the_other_was_answered_and_every_refusal_said_when_to_come_back() -> None:
    assert set(STORED["tenants"]) == set(CROWDS | BEYOND)
    for crowd in STORED["tenants"].values():
        assert set(crowd["answers to the one that waits"]) == {"200"}
        assert set(crowd["answers to the crowd"]) <= {"200", "408", "503, and when to come back"}


def test_a_thousand_swaps_failed_no_request_and_mixed_no_decision() -> None:
    swaps = STORED["swaps"]
    assert swaps["swaps"] == 1000
    assert swaps["refused"] >= 200
    assert swaps["decisions"] > 10_000
    assert swaps["failed"] == swaps["mixed"] == 0


def test_ten_minutes_of_load_leave_memory_threads_and_files_as_they_are() -> None:
    soak = STORED["soak"]
    first, last = soak["looks"][0], soak["looks"][-1]
    assert soak["seconds"] == 600
    assert last["mb"] - first["mb"] < 16
    assert last["threads"] - first["threads"] <= 4
    assert last["descriptors"] - first["descriptors"] <= 4


def test_what_misses_what_was_asked_is_said_by_the_check(benchmark: Any) -> None:
    worse = {**STORED, "load": {**STORED["load"], "32 connections: p99 / median": 9.0}}
    assert any(says(line, "32 connections: p99 / median … 9.00 … 4.0") for line in benchmark.missed(worse))
    torn = {**STORED, "swaps": {**STORED["swaps"], "mixed": 1}}
    assert any(line.startswith("swaps: ") for line in benchmark.missed(torn))

"""What docs/examples.md says of examples in a ranking is stored, and what is stored holds today."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from camdf.policies.models.prior import FROM_MADE_UP
from camdf.scorers import Start
from everyday import examples
from loading import benchmark_module
from pages import run_page
from saying import says

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "examples.md"
TEXT = PAGE.read_text(encoding="utf-8")
STORED = json.loads((ROOT / "results" / "examples.json").read_text())
MADE_UP = json.loads((ROOT / "results" / "made_up_labels.json").read_text())
POLICY = json.loads((ROOT / "results" / "examples_policy.json").read_text())
LEFT_OUT = json.loads((ROOT / "results" / "examples_left_out.json").read_text())
ROWS: list[dict[str, Any]] = STORED["rankings"]


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch) -> Any:
    return benchmark_module("examples", monkeypatch)


def start(with_examples: bool) -> dict[str, Any]:
    (row,) = (row for row in ROWS if (row["ranking"], row["examples"]) == ("Start", with_examples))
    return row


def loaded(row: dict[str, Any], size: str) -> float:
    groups = row["requests"][size].values()
    return float(sum(group["loaded"] for group in groups) / sum(group["requests"] for group in groups))


def test_the_page_runs() -> None:
    assert run_page(PAGE) > 0


def test_the_page_has_the_stored_tables(benchmark: Any) -> None:
    assert benchmark.table([start(with_examples=False), start(with_examples=True)]) in TEXT
    assert benchmark.cost_table(STORED["costs"]) in TEXT


def test_the_readme_has_the_figures_of_examples() -> None:
    readme = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    before, after = (f"{loaded(start(with_examples), '40'):.0%}" for with_examples in (False, True))
    assert says(readme, f"{after} of 75", "over 40 tools", f"without examples in {before}")


def test_the_first_day_has_the_figures_of_examples() -> None:
    first_day = " ".join((ROOT / "docs" / "first-day.md").read_text(encoding="utf-8").split())
    before, after = start(with_examples=False), start(with_examples=True)
    for size in ("40", "400"):
        assert f"from {loaded(before, size):.0%} to {loaded(after, size):.0%} over {size} tools" in first_day
    found = [row["searches"]["found"] for row in (before, after)]
    assert says(first_day, f"{found[1]} of 60 plain searches … instead of {found[0]}")


def test_start_with_examples_reaches_what_was_asked_for() -> None:
    row = start(with_examples=True)
    assert loaded(row, "40") >= 0.78
    assert loaded(row, "400") >= 0.65
    assert (row["searches"]["found"] >= 51, row["searches"]["in full"] >= 42) == (True, True)
    assert row["conversations"]["mean share"] <= 0.3
    assert row["conversations"]["needed tools loaded"] / row["conversations"]["turns"] >= 0.75
    for cost in STORED["costs"]:
        assert cost["with"]["decision"] < 5
    assert STORED["costs"][0]["ratio"] <= 2


def test_what_start_does_with_examples_today_is_what_is_stored(benchmark: Any) -> None:
    """The requests over 40 tools: the rest is measured again by `.ci/run`."""
    now = benchmark.of_requests("Start", Start(examples=examples("40")), "40")
    stored = start(with_examples=True)["requests"]["40"]
    assert all(abs(now[group]["loaded"] - stored[group]["loaded"]) <= benchmark.NOISE for group in stored)


def test_the_way_that_was_chosen_is_best_on_examples_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    left_out = benchmark_module("examples_left_out", monkeypatch)
    means = {
        way: sum(left_out.share(LEFT_OUT[size], way, kind) for size in LEFT_OUT for kind in ("one", "several")) / 4
        for way in left_out.WAYS
    }
    assert means[left_out.CHOSEN] == max(means.values())
    ways = ("text alone", "the three nearest examples", "a vote of all examples", left_out.CHOSEN)
    alone, nearest, vote, chosen = (f"{means[way]:.2f}" for way in ways)
    page = " ".join((ROOT / "lab" / "docs" / "everyday.md").read_text(encoding="utf-8").split())
    assert says(page, alone, "text alone", nearest, "nearest examples", vote, "vote of neighbors", chosen)


def test_the_page_has_the_stored_tables_of_made_up_labels(monkeypatch: pytest.MonkeyPatch) -> None:
    labels = benchmark_module("made_up_labels", monkeypatch)
    page = (ROOT / "lab" / "docs" / "made-up-labels.md").read_text(encoding="utf-8")
    assert labels.domain_table(MADE_UP) in page
    assert labels.label_table(MADE_UP) in page
    _, cold, made_up, few, both = re.findall(r"[\d.]+", labels.domain_table(MADE_UP).splitlines()[-1])
    said = f"{made_up} instead of {cold}, and with 20 real labels {both}, where these alone earn {few}"
    assert said in " ".join(TEXT.split())
    assert MADE_UP["covariance"] == pytest.approx(FROM_MADE_UP, abs=0.0061)  # which has two digits
    assert benchmark_module("examples_policy", monkeypatch).table(POLICY) in page


def test_what_the_page_says_of_made_up_labels_is_stored() -> None:
    before = MADE_UP["before labels"].values()
    assert all(paid["made up"] > paid["cold start"] - 0.02 for paid in before)
    earned = {way: sum(paid[way] for paid in before) for way in ("made up", "cold start")}
    assert says(TEXT, f"earn {earned['made up'] / earned['cold start']:.1f} times … cold start")
    assert {row["splits"] for row in MADE_UP["after"]} == {2}
    assert {row["domain"] for row in MADE_UP["after"] if row["clearly worse"]} == {"toolalpaca", "stabletoolbench-g3"}
    with_20 = [row for row in MADE_UP["after"] if row["labels"] == 20]
    assert sum(row["clearly worse"] for row in with_20) <= 0.025 * 6 * len(with_20)
    for row in with_20:
        if row["domain"] == "retail":
            assert row["from made-up tasks"] >= row["from the shipped prior"]

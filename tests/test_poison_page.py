"""docs/poison.md shows what is stored, and says no more than that."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import everyday
from camdf.lab.drawing import svg
from camdf.scorers import BM25, Wary
from camdf.tools import Tool, view
from loading import benchmark_module

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "poison.md").read_text(encoding="utf-8")
TEXT = " ".join(PAGE.split())
STORED: dict[str, Any] = json.loads((ROOT / "results" / "poison.json").read_text())
NAMED = ("the request's words", "'always call this first'", "copies of needed tools")
"""What was asked to cost at most 0.02."""


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch) -> Any:
    return benchmark_module("poison", monkeypatch)


def largest(benchmark: Any, attacks: tuple[str, ...], way: str, domains: tuple[str, ...] = ()) -> float:
    found: list[float] = [
        fall
        for attack in attacks
        for scorer in benchmark.SCORERS
        for domain, fall in benchmark.worst(STORED, scorer, attack, way).items()
        if domain in (domains or benchmark.DOMAINS)
    ]
    return max(found)


def test_the_page_has_the_stored_tables_and_the_picture_drawn_from_them(benchmark: Any) -> None:
    for table in (benchmark.table, benchmark.places_table, benchmark.shown_table, benchmark.doubted_table):
        assert table(STORED) in PAGE
    drawn = (ROOT / "docs" / "pictures" / "poison.svg").read_text(encoding="utf-8")
    assert svg(benchmark.draw(STORED)) == drawn


def test_what_was_asked_holds_under_every_scorer_in_four_domains_and_is_missed_in_one(benchmark: Any) -> None:
    four = benchmark.DOMAINS[1:]
    now, before = (largest(benchmark, NAMED, way, four) for way in ("trusted", "before"))
    assert now <= benchmark.ASKED
    assert f"at most {now:.3f} under every scorer in mcp-atlas, bfcl-multi-turn, metatool and workbench" in TEXT
    assert f"instead of up to {before:.2f}" in TEXT
    missed = largest(benchmark, NAMED, "trusted", (benchmark.EVERYDAY,))
    assert f"On everyday requests they cost at most {missed:.3f}, which misses 0.02" in TEXT


def test_one_server_takes_at_most_one_place_from_others() -> None:
    assert max(row["before"][1] for row in STORED["places"]) == 5
    assert "Before, one server could take all five places" in TEXT
    assert max(row["trusted"][1] for row in STORED["places"]) == 1
    assert len(STORED["places"]) == 5 * 3 * 6


def test_losses_are_told(benchmark: Any) -> None:
    for attack in (*benchmark.ADAPTED, "words of many requests"):
        assert f"{largest(benchmark, (attack,), 'trusted'):.2f}" in TEXT.partition("What it does not hold off")[2]
    strangers = largest(benchmark, ("copies of needed tools",), "strangers")
    assert f"up to {strangers:.2f} where nobody is trusted" in TEXT
    alone = largest(benchmark, (benchmark.NONE,), "strangers")
    assert f"falls by up to {alone:.3f}" in TEXT


def test_searches_that_echo_the_tool_they_mean_are_counted() -> None:
    wary, searches = Wary(BM25()), list[tuple[str, frozenset[str], str]]()
    for asked in everyday.requests():
        searches += [(asked.size, *each) for each in zip(asked.needed, asked.queries, strict=True)]
    searches += [("400", frozenset([name]), query) for name, query in everyday.plain_searches().items()]
    tools = {size: [view(tool) for tool in everyday.catalogue(size)[0]] for size in ("40", "400")}
    doubted = sum(bool(meant & wary.doubts(query, tools[size]).keys()) for size, meant, query in searches)
    assert f"in {doubted} of {len(searches)} everyday searches" in TEXT


def test_equal_scores_are_taken_in_any_order(benchmark: Any) -> None:
    task = benchmark.Task("x", tuple(Tool(name) for name in "abcdefgh"), (frozenset([0]), frozenset([1, 2])))
    assert benchmark.sufficient([3, 2, 1, 0, 0, 0, 0, 0], task) == [1.0, 1.0, 1.0]
    assert benchmark.sufficient([0, 2, 1, 0, 0, 0, 0, 0], task) == pytest.approx([0.0, 1 / 6, 2 / 6])
    assert benchmark.sufficient([0] * 8, task) == pytest.approx([2 / 56, 6 / 56, 12 / 56])

"""docs/first-day.md, docs/first-day-measured.md and the lab's tables show what is stored: what scorers do today."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import camdf
from camdf.gate import Gate, Guards, Limits
from camdf.scorers import Necessity, Start
from camdf.tools import view
from everyday import catalogue, plain_searches, requests
from loading import benchmark_module
from saying import says

ROOT = Path(__file__).parents[2]
PAGE = "".join((ROOT / "docs" / f"first-day{end}.md").read_text(encoding="utf-8") for end in ("", "-measured"))
TABLES = (ROOT / "lab" / "docs" / "everyday.md").read_text(encoding="utf-8")
TEXT = " ".join(PAGE.split())
STORED = json.loads((ROOT / "results" / "first_day.json").read_text())
ROWS: list[dict[str, Any]] = STORED["requests"]
ASKED = {40: (8, 0.98), 400: (12, 0.95)}
"""By the length of the list: at most so many tools loaded, and at least this share found."""

TARGETED = "cold start, target 8"


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch) -> Any:
    return benchmark_module("first_day", monkeypatch)


def of(
    ranking: str, tool_search: bool = True, tools: tuple[int, ...] = (40, 400), kept: str = ""
) -> list[dict[str, Any]]:
    """Rows of one ranking; of a working set, those of the best few where `kept` names no other."""
    kept = kept or ("the best" if tool_search and ranking != "a language model" else "")
    return [
        row
        for row in ROWS
        if (row["ranking"], row["tool_search"]) == (ranking, tool_search)
        and row["tools"] in tools
        and kept in row["kept"]
    ]


def missed(ranking: str) -> list[tuple[int, str]]:
    """Where a way to start with a tool search does not reach what was asked for."""
    return [
        (row["tools"], row["language"])
        for row in of(ranking)
        if row["loaded"] > ASKED[row["tools"]][0] or row["found"] / row["needing"] < ASKED[row["tools"]][1]
    ]


def test_the_page_and_the_lab_have_the_stored_tables(benchmark: Any) -> None:
    assert benchmark.table(ROWS, tool_search=True) in TABLES
    assert benchmark.table(ROWS, tool_search=False) in TABLES
    assert benchmark.plain_table(STORED["searches"]) in PAGE


def test_what_start_does_today_is_what_is_stored(benchmark: Any) -> None:
    """All requests, both lists: what needs no torch is measured again here, the rest by `.ci/run`."""
    gate = Gate(
        camdf.TopK(benchmark.WORKING_SET),
        Start(),
        camdf.Payoff(0.0),
        guards=Guards(fallback=()),
        limits=Limits(seconds=None),
    )
    way = benchmark.Way("Start", "", gate, True)
    for row in of("Start"):
        asked = [each for each in requests() if (each.size, each.language) == (str(row["tools"]), row["language"])]
        assert not benchmark.differ(row, benchmark.measured(way, asked) | {"tools": row["tools"]})
    for row in of("Start", kept=TARGETED):
        asked = [each for each in requests() if (each.size, each.language) == (str(row["tools"]), row["language"])]
        again = benchmark.measured(benchmark.targeted("Start", Start(), str(row["tools"])), asked)
        assert not benchmark.differ(row, again | {"tools": row["tools"]})
    (stored,) = (row for row in STORED["searches"] if row["ranking"] == "Start")
    assert not benchmark.differ_in_searches(stored, benchmark.plain(way))


def test_the_plain_searches_are_for_tools_that_no_request_needs() -> None:
    needed = {name for each in requests() if each.size == "400" for options in each.needed for name in options}
    assert len(plain_searches()) == 60
    assert not needed & plain_searches().keys()


def test_the_ways_that_the_page_offers_reach_what_was_asked_for_with_a_tool_search() -> None:
    assert missed("Start") == missed("Start and MiniLM") == missed("a language model") == []
    assert missed("MiniLM") == [(40, "es"), (400, "en")]
    assert [len(missed(f"{kind} of words alone")) for kind in ("parts", "stems")] == [3, 3]
    assert len(missed("BM25")) == 7
    assert missed("word vectors alone") == []


def test_the_policy_that_is_targeted_finds_as_much_as_the_best_eight_and_loads_what_the_page_says() -> None:
    for size, asked in ((40, "8"), (400, "12")):
        best, targeted = (of("Start", tools=(size,), kept=kept) for kept in ("the best", TARGETED))
        assert [row["found"] for row in targeted] == [row["found"] for row in best] == [row["needing"] for row in best]
        mean = sum(row["loaded"] * row["requests"] for row in targeted) / sum(row["requests"] for row in targeted)
        assert round(mean, 1) <= 8
        least, most = (f"{pick(row['loaded'] for row in targeted):.1f}" for pick in (min, max))
        assert says(TEXT, f"{least} to {most} of {size} by language", f"target is {asked}")
    loaded = {kept: sum(row["needed loaded"] for row in of("Start", kept=kept)) for kept in ("the best", TARGETED)}
    assert says(TEXT, f"loaded in {loaded[TARGETED]} of the 108", f"instead of {loaded['the best']}")


def test_the_counts_in_the_text_are_the_stored_ones() -> None:
    assert f"in {sum(row['in full'] for row in of('Start'))} of the 108 requests" in TEXT
    loaded = {
        name: sum(row["needed loaded"] for row in of(name, tools=(40,)))
        for name in ("Start", "word vectors alone", "parts of words alone", "stems of words alone")
    }
    both, vectors, parts, stems = loaded.values()
    assert says(TEXT, f"parts … {parts} of the 75 requests … stems of {stems}")
    assert says(TEXT, f"vectors … {vectors} requests … with parts … {both}")
    english, *others = (f"{row['needed loaded'] / row['needing']:.0%}" for row in of("Start", tools=(40,)))
    assert says(TEXT, f"{english} need none … other languages {min(others)} to {max(others)}")


def test_without_a_tool_search_the_estimates_are_as_far_off_as_the_page_says() -> None:
    careful, usual = (of("a language model", tool_search=False, kept=pressure) for pressure in ("0.005", "0.05"))
    assert all(row["needed loaded"] == row["needing"] for row in careful + usual)
    by_0, most = (max(1 - row["estimate"] for row in rows) for rows in (careful, usual))
    assert says(TEXT, f"by {by_0:.2f} at pressure 0.005 … {most:.2f} at 0.05")
    assert by_0 - min(1 - row["estimate"] for row in careful) < 0.005
    for ranking in ("MiniLM", "Start", "BM25"):
        for row in of(ranking, tool_search=False):
            kept = row["needed loaded"] / row["needing"]
            good = kept >= 0.95 and abs(kept - row["estimate"]) <= 0.05
            assert not good or row["loaded"] >= 0.9 * row["tools"]
    over_400 = [row for ranking in ("MiniLM", "Start", "BM25") for row in of(ranking, tool_search=False, tools=(400,))]
    off = max(abs(row["needed loaded"] / row["needing"] - row["estimate"]) for row in over_400)
    assert says(TEXT, f"over 400 tools … off by up to {off:.2f}")


def test_the_prompt_of_a_language_model_is_as_long_as_the_page_says() -> None:
    judge = Necessity("http://localhost/v1", "any")
    lengths = []
    for size in ("40", "400"):
        named = {tool.name: tool for tool in map(view, catalogue(size)[0])}
        lengths.append(sum(len(message["content"]) for message in judge.messages("", named)))
    few, many = (round(length, -2) for length in lengths)
    assert f"{few:,} characters for 40 tools and {many:,} for 400" in TEXT
    assert f"about {round(lengths[0] / 4, -2):,.0f} tokens for 40 tools" in TEXT

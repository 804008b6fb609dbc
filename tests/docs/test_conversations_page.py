"""docs/conversations.md and the lab's tables behind it show what is stored, and what the command prints."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from camdf.cli import main
from camdf.gate.worth import Conversation, worth
from camdf.prices import Prices
from everyday import conversations
from loading import benchmark_module
from saying import says

ROOT = Path(__file__).parents[2]
EVERYDAY = ROOT / "tests" / "data" / "everyday"
PAGE = (ROOT / "docs" / "conversations.md").read_text(encoding="utf-8")
TABLES = (ROOT / "lab" / "docs" / "everyday.md").read_text(encoding="utf-8")
TEXT = " ".join(PAGE.split())


@pytest.mark.parametrize(("name", "page"), [("conversations", TABLES), ("cache", PAGE)])
def test_a_page_has_the_stored_table(name: str, page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    stored = json.loads((ROOT / "results" / f"{name}.json").read_text())
    assert benchmark_module(name, monkeypatch).table(stored) in page


def test_the_page_has_what_the_recipe_costs(monkeypatch: pytest.MonkeyPatch) -> None:
    stored = json.loads((ROOT / "results" / "recipe.json").read_text())
    benchmark = benchmark_module("cache", monkeypatch)
    assert benchmark.table(stored, benchmark.RECIPE) in PAGE


def test_the_figures_in_the_text_are_the_stored_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = json.loads((ROOT / "results" / "conversations.json").read_text())
    found = {(row["ranking"], row["policy"], row["tool_search"]): row for row in rows}
    best = "the best {:.1%} of the list"
    tool_search, without = (
        found["MiniLM", best.format(0.375), True],
        found["MiniLM", best.format(0.5), False],
    )
    assert (
        f"has {tool_search['needed tools loaded'] / tool_search['turns']:.0%} at {tool_search['mean share']:.0%}: close"
        in TEXT
    )
    assert tool_search["mean share"] <= 0.40
    assert without["needed tools loaded"] / without["turns"] >= 0.95
    assert f"{without['mean share']:.0%} on average" in TEXT
    cache = json.loads((ROOT / "results" / "cache.json").read_text())
    several = [row for row in cache if row["cache"] == "empty" and row["turns"] > 1]
    recommended = {row["tools"]: [] for row in several}  # type: dict[int, list[float]]
    for row in several:
        recommended[row["tools"]] += [row["drop, with a tool search"], row["defer"]]
    assert max(max(ratios) for tools, ratios in recommended.items() if tools >= 24) < 1
    assert max(max(ratios) for tools, ratios in recommended.items() if tools >= 40) <= 0.80


def test_the_summary_says_what_a_tool_search_saves() -> None:
    ratios: dict[int, list[float]] = {}
    for row in json.loads((ROOT / "results" / "cache.json").read_text()):
        if row["cache"] == "empty" and row["turns"] > 1:
            ratios.setdefault(row["tools"], []).append(row["drop, with a tool search"])
    saved = {tools: (f"{1 - max(costs):.0%}", f"{1 - min(costs):.0%}") for tools, costs in ratios.items()}
    of_40, of_100 = (" to ".join(saved[size]) for size in (40, 100))
    assert says(TEXT, "37.5% of the list", f"{of_40} and {of_100} less")
    least, most = 1 - min(ratios[12]), max(ratios[12]) - 1
    assert says(TEXT, "12 tools and 37.5% loaded", f"{least:.0%} less to {most:.0%} more")


def test_the_page_says_what_the_recipe_saves() -> None:
    stored = json.loads((ROOT / "results" / "recipe.json").read_text())
    empty = {
        size: [
            row["Gate.start"] for row in stored if (row["tools"], row["cache"]) == (size, "empty") and row["turns"] > 1
        ]
        for size in (12, 40, 100)
    }
    saved = {size: f"{1 - max(ratios):.0%} to {1 - min(ratios):.0%} less" for size, ratios in empty.items()}
    assert f"over 40 tools cost {saved[40]}, and over 100 tools {saved[100]}" in TEXT
    assert {round(ratio, 2) for ratio in empty[12]} == {1.0}, "loads such a list whole"
    of_one = ("tools", "turns", "cache", "cached")
    (single,) = (row["Gate.start"] for row in stored if [row[name] for name in of_one] == [40, 1, "shared", "0.1"])
    assert f"eight tools of 40 {single:.1f} times" in TEXT
    assert f"and {single:.2f} as measured" in TEXT


def test_the_page_says_from_when_on_cutting_saves_money(monkeypatch: pytest.MonkeyPatch) -> None:
    stored = json.loads((ROOT / "results" / "cache.json").read_text())
    benchmark = benchmark_module("cache", monkeypatch)
    assert benchmark.pays_table(stored) in TABLES
    from_on = {
        (cache, price): [
            benchmark.pays_from(stored, benchmark.RECOMMENDED, cache=cache, cached=price, turns=turns)
            for turns in benchmark.TURNS
        ]
        for cache in benchmark.CACHES
        for price in benchmark.PRICES
    }
    empty, shared = benchmark.CACHES
    tenth, quarter = benchmark.PRICES
    assert from_on[empty, tenth] == from_on[empty, quarter] == ["12 tools"] * 4 + ["24 tools"]
    assert set(from_on[shared, quarter]) == {"24 tools", "40 tools"}
    assert from_on[shared, tenth] == ["never here"] * 3 + ["40 tools"] * 2
    singles = [row for row in stored if (row["turns"], row["cache"], row["cached"]) == (1, "shared", "0.1")]
    assert all(2 < row["drop, with a tool search"] < 3 for row in singles)  # "two to three times as much"
    searches = [row["searches a turn"] for row in stored if row["turns"] >= 8]
    fewer = sum(row["append"] for row in searches) / sum(row["drop, with a tool search"] for row in searches)
    assert f"{fewer:.1f}" == "0.1"  # "a tenth of the searches"
    for row in stored:
        if row["cache"] == "empty" and 1 < row["turns"] <= 8 and row["tools"] >= 24:
            assert row["append"] < row["drop, no tool search"]
    longest = [row for row in stored if row["tools"] == 500 and row["cache"] == "empty" and row["turns"] > 1]
    more = max(row["drop, with a tool search"] - row["the same, without names"] for row in longest)
    assert f"{more:.2f} at 500 tools" in TEXT


def test_the_page_says_what_eight_tools_cost_beside_a_list_that_is_cached_before() -> None:
    for size, ratio in ((400, 0.38), (40, 1.40)):
        tools = [entry["tool"] for entry in json.loads((EVERYDAY / f"catalogue-{size}.json").read_text())]
        without, dropped, *_ = worth(tools, Prices(), Conversation(turns=1, share=8 / size), shared=True)
        assert dropped.dollars / without.dollars == pytest.approx(ratio, abs=0.005)
        assert f"{ratio:.2f}" in TEXT


def test_how_many_turns_need_only_what_the_first_did_is_counted() -> None:
    wanted = [[turn.needed for turn in each.turns if turn.signal] for each in conversations()]
    only = [needed <= turns[0] for turns in wanted for needed in turns]
    assert len(only) == 117
    assert says(TEXT, f"only {sum(only) / len(only):.0%} of turns … the first one")


def test_the_estimate_is_near_what_was_measured() -> None:
    tools = [entry["tool"] for entry in json.loads((ROOT / "tests/data/everyday/catalogue-40.json").read_text())]
    for row in json.loads((ROOT / "results" / "cache.json").read_text()):
        if row["tools"] == 40 and row["turns"] > 1 and row["cache"] == "empty":
            read, write = {"0.1": (0.1, 1.25), "0.25": (0.25, 1.0)}[row["cached"]]
            costs = worth(tools, Prices(uncached=3 * write, cached=3 * read), Conversation(turns=row["turns"]))
            ratios = {cost.mode: cost.dollars / costs[0].dollars for cost in costs}
            assert ratios["drop, with a tool search"] == pytest.approx(row["drop, with a tool search"], abs=0.1)
            assert ratios["append"] == pytest.approx(row["append"], abs=0.25)


def test_the_command_prints_what_the_page_shows(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["worth", str(ROOT / "tests/data/everyday/catalogue-40.json"), "--turns", "6"]) == 0
    assert f"--turns 6\n{capsys.readouterr().out}```" in PAGE

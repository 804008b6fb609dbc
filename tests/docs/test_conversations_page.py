"""docs/conversations.md and the lab's tables behind it show what is stored, and what the command prints."""

from __future__ import annotations

import json
from collections import Counter
from math import ceil
from pathlib import Path
from typing import Any

import pytest

from camdf.cli import main
from camdf.gate import Limits
from camdf.gate.worth import Conversation, worth
from camdf.policies.rules import NearBest
from camdf.prices import Prices
from everyday import conversations
from loading import benchmark_module
from saying import says

ROOT = Path(__file__).parents[2]
EVERYDAY = ROOT / "tests" / "data" / "everyday"
PAGE = (ROOT / "docs" / "conversations.md").read_text(encoding="utf-8")
TABLES = (ROOT / "lab" / "docs" / "everyday.md").read_text(encoding="utf-8")
TEXT = " ".join(PAGE.split())


@pytest.mark.parametrize(
    ("name", "page"),
    [("conversations", TABLES), ("cache", PAGE), ("joining", PAGE), ("core", PAGE), ("note_calls", PAGE)],
)
def test_a_page_has_the_stored_table(name: str, page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    stored = json.loads((ROOT / "results" / f"{name}.json").read_text())
    assert benchmark_module(name, monkeypatch).table(stored) in page


def test_the_page_has_what_the_recipe_costs(monkeypatch: pytest.MonkeyPatch) -> None:
    stored = json.loads((ROOT / "results" / "recipe.json").read_text())
    benchmark = benchmark_module("cache", monkeypatch)
    assert benchmark.table(stored, benchmark.RECIPE) in PAGE
    assert benchmark.cached_table(stored) in PAGE


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


def recipe_rows(**situation: Any) -> list[dict[str, Any]]:
    """What was measured of the recipe, with the smallest cached prompt that it is set to."""
    stored = json.loads((ROOT / "results" / "recipe.json").read_text())
    wanted = {"smallest": Limits().cached_prefix, **situation}
    return [row for row in stored if wanted.items() <= row.items()]


def test_the_page_says_what_the_recipe_saves() -> None:
    ratios = {
        size: [row["Gate.start"] for row in recipe_rows(tools=size, cache="empty") if row["turns"] > 1]
        for size in (12, 40, 100)
    }
    saved = {size: f"{1 - max(costs):.0%} to {1 - min(costs):.0%} less" for size, costs in ratios.items()}
    assert says(TEXT, f"40 tools cost {saved[40]}, and over 100 tools {saved[100]}")
    assert {round(ratio, 2) for ratio in ratios[12]} == {1.0}, "leaves a list of 12 tools whole"
    (single,) = recipe_rows(tools=40, turns=1, cache="shared", cached="0.1")
    assert says(TEXT, f"40 tools costs {single['Gate.start, tools alone']:.1f} times")


def test_the_page_says_where_notes_cost_more_than_a_list() -> None:
    def more(**situation: Any) -> float:
        return max(float(row["Gate.start"] - row["Gate.start, tools alone"]) for row in recipe_rows(**situation))

    few = more(tools=24, cache="empty")
    single = more(tools=40, cache="empty", turns=1)
    assert says(TEXT, f"24 tools cost up to {few:.2f} more", f"40 tools in a single turn {single:.2f}")
    others = [row for row in recipe_rows() if row["tools"] != 24 and (row["tools"], row["turns"]) != (40, 1)]
    assert all(row["Gate.start"] <= row["Gate.start, tools alone"] + 0.02 for row in others)
    assert all(more(tools=size, cache="shared") <= 0.0 for size in (24, 40, 100, 400))


def test_tools_that_most_tasks_need_cost_no_more_in_the_head() -> None:
    stored = json.loads((ROOT / "results" / "core.json").read_text())
    costs = [row["cost"] for row in stored]
    assert max(costs) <= 1.02
    assert min(costs) < 0.9
    assert sum(costs) / len(costs) < 0.99
    assert says(TEXT, f"up to {max(costs) - 1:.2f} in {max(stored, key=lambda row: row['cost'])['domain']}")
    most = {row["domain"]: f"{row['most needed']:.0%}" for row in stored}
    assert says(TEXT, f"{most['tau2-banking']} of the tasks", f"{most['api-bank']} in api-bank")
    assert says(TEXT, f"has {most['stabletoolbench-g3']}")
    needed = Counter(name for each in conversations() for name in set().union(*[turn.needed for turn in each.turns]))
    assert says(TEXT, "most needed one", f"in {max(needed.values())} of 30")


def test_what_comes_of_a_slip_is_what_is_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    stored = json.loads((ROOT / "results" / "note_calls.json").read_text())
    assert benchmark_module("note_calls", monkeypatch).rows() == stored


def test_the_page_says_how_a_conversation_of_four_subjects_goes() -> None:
    stored = json.loads((ROOT / "results" / "joining.json").read_text())
    there = {row["way"]: (row["with all tools"], row["turns"]) for row in stored}
    assert (there["four subjects, joined"], there["four subjects, tools alone"]) == ((4, 4), (1, 4))
    assert says(TEXT, "four subjects", "40 tools")
    measured = [row for row in stored if row["way"] == "joined" and row["told"] == "no examples"]
    assert says(TEXT, f"{sum(row['turns'] for row in measured)} turns of thirty")
    usual = NearBest()
    assert says(TEXT, "five tools join", f"{usual.share} of the best")
    assert usual.k == 5


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
    longest = [row for row in stored if row["tools"] == 500 and row["cache"] == "empty" and row["turns"] > 1]
    more = max(row["drop, with a tool search"] - row["the same, without names"] for row in longest)
    assert f"{more:.2f} at 500 tools" in TEXT


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
    far = [
        abs(ratio - row["Gate.start"])
        for row in recipe_rows(tools=40, cache="empty", smallest=0)
        if row["turns"] > 1
        for ratio in [_estimated(tools, row)]
    ]
    assert says(TEXT, "estimate … 0.10", f"within {ceil(100 * max(far)) / 100:.2f} for `append`")


def _estimated(tools: list[Any], row: dict[str, Any]) -> float:
    read, write = {"0.1": (0.1, 1.25), "0.25": (0.25, 1.0)}[row["cached"]]
    costs = worth(tools, Prices(uncached=3 * write, cached=3 * read), Conversation(turns=row["turns"]))
    (appending,) = (cost.dollars for cost in costs if cost.mode == "append")
    return appending / costs[0].dollars


def test_the_command_prints_what_the_page_shows(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["worth", str(ROOT / "tests/data/everyday/catalogue-40.json"), "--turns", "6"]) == 0
    assert f"--turns 6\n{capsys.readouterr().out}```" in PAGE

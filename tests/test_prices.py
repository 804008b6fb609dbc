"""What a tool costs: positive, additive, monotone in every price, and in one unit with the payoff."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from camdf import Payoff, PlugIn, Prices
from camdf.core.rankings import Rankings
from camdf.errors import DataError
from camdf.gate import Gate
from camdf.prices import COUNTS_KEPT, MISSED, NOTED, ToolStatistics, estimated_tokens
from camdf.tools import EFFECTS, Effect, Tool
from saying import refuses

SCHEMA = {"type": "object", "properties": {"query": {"type": "string", "description": "What to look for."}}}

amounts = st.floats(0, 100)
names = st.sampled_from(["search", "mail", "maps"])
tools = st.builds(Tool, names, st.text(max_size=60), st.just(SCHEMA), st.sampled_from(["", "web"]))
statistics = st.builds(
    lambda calls, seconds, failing: ToolStatistics(calls, calls * seconds, int(calls * failing)),
    st.integers(0, 1000),
    st.floats(0, 60),
    st.floats(0, 1),
)
prices = st.builds(
    lambda cached, **rest: Prices(cached=cached * rest["uncached"], **rest),
    cached=st.floats(0, 1),
    uncached=st.floats(0.01, 100),
    turns=st.floats(1, 50),
    cache=st.booleans(),
    misuse=st.floats(0, 3),
    dollars_per_second=st.floats(0, 1),
    dollars_per_failure=amounts,
    statistics=st.dictionaries(names, statistics),
    privacy=st.dictionaries(st.sampled_from(["search", "web", "web/mail"]), amounts),
    effects=st.dictionaries(st.sampled_from(EFFECTS), amounts),
)
effects = st.sampled_from(EFFECTS)


@settings(deadline=None)
@given(prices, tools, effects)
def test_a_price_is_positive_finite_and_the_sum_of_its_three_terms(prices: Prices, tool: Tool, effect: Effect) -> None:
    terms = prices.of_tokens(prices.count(tool)), prices.of_needless_calls(tool), prices.of_exposure(tool, effect)
    assert min(terms) >= 0
    assert 0 < prices.of(tool, effect) < float("inf")
    assert prices.of(tool, effect) == sum(terms)


@settings(deadline=None)
@given(prices, tools, effects, effects, amounts)
def test_a_worse_effect_and_a_higher_price_of_any_never_cost_less(
    prices: Prices, tool: Tool, effect: Effect, raised: Effect, amount: float
) -> None:
    costs = [prices.of(tool, each) for each in EFFECTS]
    assert costs == sorted(costs)
    assert costs[-1] == prices.of(tool), "what nobody says counts as the worst"
    dearer = replace(prices, effects={**prices.effects, raised: prices.effects.get(raised, 0.0) + amount})
    assert dearer.of(tool, effect) >= prices.of(tool, effect)


@settings(deadline=None)
@given(prices, tools, st.sampled_from(["turns", "uncached", "misuse", "dollars_per_second", "dollars_per_failure"]))
def test_a_price_never_falls_as_turns_rates_or_dollars_rise(prices: Prices, tool: Tool, name: str) -> None:
    dearer = replace(prices, **{name: getattr(prices, name) * 1.5})
    assert dearer.of(tool) >= prices.of(tool)


@settings(deadline=None)
@given(prices, tools)
def test_a_cached_tool_list_never_costs_more_than_an_uncached_one(prices: Prices, tool: Tool) -> None:
    assert replace(prices, cache=True).of(tool) <= replace(prices, cache=False).of(tool)


@settings(deadline=None)
@given(prices, st.integers(0, 5000), st.integers(0, 5000))
def test_the_price_of_tokens_adds_up_over_tools(prices: Prices, one: int, other: int) -> None:
    assert prices.of_tokens(one) + prices.of_tokens(other) == pytest.approx(prices.of_tokens(one + other))


@settings(deadline=None)
@given(prices, tools)
def test_a_longer_description_never_costs_less(prices: Prices, tool: Tool) -> None:
    assert prices.of(replace(tool, description=tool.description + " and more")) >= prices.of(tool)


def test_the_first_request_is_uncached_and_the_later_ones_are_cached() -> None:
    assert Prices(uncached=3, cached=0.3, turns=1).of_tokens(1e6) == 3
    assert Prices(uncached=3, cached=0.3, turns=5).of_tokens(1e6) == pytest.approx(3 + 4 * 0.3)
    assert Prices(uncached=3, cached=0.3, turns=5, cache=False).of_tokens(1e6) == 15


def test_needless_calls_cost_their_seconds_and_their_failures() -> None:
    prices = Prices(misuse=0.5, seconds=2, dollars_per_second=0.01, failure_rate=0.1, dollars_per_failure=0.3)
    assert prices.of_needless_calls(Tool("search")) == pytest.approx(0.5 * (2 * 0.01 + 0.1 * 0.3))


def test_rates_of_a_tool_with_few_calls_lean_on_all_tools_together() -> None:
    known = {"often": ToolStatistics(10_000, 10_000.0, 100), "rarely": ToolStatistics(2, 40.0, 2)}
    prices = Prices(statistics=known, prior_calls=20)
    pooled = 10_040 / 10_002, 102 / 10_002
    assert prices.per_call(Tool("never")) == pytest.approx(pooled)
    assert prices.per_call(Tool("rarely")) == pytest.approx(((40 + 20 * pooled[0]) / 22, (2 + 20 * pooled[1]) / 22))
    assert prices.per_call(Tool("often")) == pytest.approx((1.0, 0.01), rel=1e-2)
    assert Prices(seconds=3, failure_rate=0.2).per_call(Tool("never")) == (3, 0.2)


@settings(deadline=None)
@given(statistics, st.floats(0.1, 100))
def test_a_shrunken_rate_lies_between_the_tools_own_and_the_pooled(own: ToolStatistics, k: float) -> None:
    prices = Prices(statistics={"a": own, "b": ToolStatistics(50, 100.0, 10)}, prior_calls=k)
    pooled = prices.per_call(Tool("unseen"))
    for found, mean, total in zip(prices.per_call(Tool("a")), pooled, (own.seconds, own.failures), strict=True):
        bounds = sorted((mean, total / own.calls if own.calls else mean))
        assert bounds[0] - 1e-9 <= found <= bounds[1] + 1e-9


def test_a_tool_is_looked_up_with_its_server_first() -> None:
    prices = Prices(privacy={"crm": 0.3, "find": 0.2, "crm/find": 0.1})
    assert prices.of_exposure(Tool("find", server="crm")) == 0.1
    assert prices.of_exposure(Tool("find", server="web")) == 0.2
    assert prices.of_exposure(Tool("list", server="crm")) == 0.3
    assert prices.of_exposure(Tool("list", server="web")) == 0.0
    seen = Prices(statistics={"web/find": ToolStatistics(10**6, 7e6, 0), "find": ToolStatistics(10**6, 1e6, 0)})
    assert seen.per_call(Tool("find", server="web"))[0] == pytest.approx(7, rel=1e-3)
    assert seen.per_call(Tool("find", server="crm"))[0] == pytest.approx(1, rel=1e-3)


def test_any_tokenizer_replaces_the_estimate_and_reads_each_definition_once() -> None:
    read: list[str] = []

    def words(text: str) -> int:
        read.append(text)
        return len(text.split())

    prices, tool = Prices(tokens=words), Tool("search", "Search the web.", SCHEMA)
    assert prices.count(tool) == len(tool.definition().split())
    assert prices.of(tool) == prices.of(Tool("search", "Search the web.", json.loads(json.dumps(SCHEMA))))
    assert read == [tool.definition()]
    changed = replace(tool, parameters={**SCHEMA, "title": "Search"})
    assert prices.count(changed) == len(changed.definition().split())
    assert Prices(tokens=lambda text: 0).of(tool) > 0


def test_a_schema_of_other_than_plain_values_is_counted_as_written() -> None:
    odd: dict[str, Any] = {"properties": MappingProxyType({}), "default": Path("x")}
    tool = Tool("search", "Search the web.", odd)
    assert Prices().count(tool) == estimated_tokens(tool.definition())


def test_remembered_counts_stay_bounded_and_right() -> None:
    prices = Prices()
    for i in range(COUNTS_KEPT + 10):
        prices.count(Tool(f"tool-{i}"))
    assert len(prices._counted) <= COUNTS_KEPT
    assert prices.count(Tool("tool-1")) == estimated_tokens(Tool("tool-1").definition())


@settings(deadline=None)
@given(st.floats(0.001, 1000), st.sampled_from(["exact", "partial"]))
def test_the_payoff_is_that_of_money(worth: float, value: str) -> None:
    assert Prices().payoff(worth, value) == Payoff.from_money(worth, value)
    assert Prices().payoff(worth).cost_pressure * worth == pytest.approx(1)


def test_a_gate_takes_the_prices_as_they_are() -> None:
    prices = Prices(privacy={"crm": 0.3})
    found, hidden = Tool("search", "Search the web."), Tool("customers", "Look a customer up.", server="crm")
    gate = Gate(PlugIn(), payoff=prices.payoff(task_worth=0.40), prices=prices)
    decision = gate.decide("Who asked?", [found, hidden], scores={"search": 0.6, "customers": 0.5})
    assert (decision.reason, list(decision.cut)) == ("decided", ["customers"])
    asked = {each.name: each.priced_cost for each in decision.ranking}
    assert asked == pytest.approx({tool.name: prices.of(tool) / 0.40 for tool in (found, hidden)})


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"turns": 0.5}, ["'turns'", "1 or more", "0.5"]),
        ({"uncached": 0.0}, ["'uncached'", "above 0"]),
        ({"uncached": float("inf")}, ["'uncached'", "inf"]),
        ({"cached": 4.0}, ["'cached'", "at most 'uncached'"]),
        ({"misuse": -1.0}, ["'misuse'", "0 or more"]),
        ({"failure_rate": 1.5}, ["'failure_rate'", "0 to 1"]),
        ({"dollars_per_second": float("nan")}, ["'dollars_per_second'", "nan"]),
        ({"privacy": {"mail": -1.0}}, ["mail", "0 or more"]),
        ({"effects": {"write": -1.0}}, ["'effects'", "0 or more"]),
        ({"effects": {"delete": 1.0}}, ["'effects'", "read, write, egress"]),
    ],
)
def test_a_wrong_price_is_refused_by_name(wrong: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(ValueError, match="of Prices must be") as error:
        Prices(**wrong)
    assert all(word in str(error.value) for word in words)


@pytest.mark.parametrize("wrong", [(1, 1.0, 2), (-1, 1.0, 0), (1, -1.0, 0), (1, float("nan"), 0)])
def test_impossible_statistics_are_refused(wrong: tuple[int, float, int]) -> None:
    with pytest.raises(ValueError, match="of ToolStatistics must be"):
        ToolStatistics(*wrong)


# The sizes that ship


def test_prices_take_what_mining_wrote_and_settings_go_before_it(tmp_path: Path) -> None:
    from camdf.cli import main
    from camdf_traces.spans import Span

    spans = [
        Span("t", "1", kind="agent"),
        *(Span("t", f"m{i}", "1", "model", offered=("search",)) for i in range(3)),
        Span("t", "s", "1", "tool", "search", start=0, end=2_000_000_000),
    ]
    (tmp_path / "spans.jsonl").write_text("\n".join(json.dumps(asdict(span)) for span in spans))
    file = tmp_path / "statistics.json"
    assert main(["mine", str(tmp_path), "-o", str(tmp_path / "tasks.parquet"), "--statistics", str(file)]) == 0
    found = Prices.from_statistics(file, dollars_per_second=0.01)
    assert (found.turns, found.dollars_per_second) == (3.0, 0.01)
    assert found.statistics == {"search": ToolStatistics(1, 2.0, 0)}
    assert Prices.from_statistics(file, turns=7.0).turns == 7.0
    empty = {"usage": {"runs": 0, "turns": 0.0}, "tools": {}}
    file.write_text(json.dumps(empty))
    assert Prices.from_statistics(file) == Prices()


def test_statistics_that_are_not_there_are_said_to_be_written_by_mining(tmp_path: Path) -> None:
    for missing in (tmp_path / "none.json", tmp_path):
        with refuses(DataError, "camdf", "--statistics"):
            Prices.from_statistics(missing)


@pytest.mark.parametrize(
    "content", ["", "[]", '{"tools": {}}', '{"tools": {"a": 1}, "usage": {"runs": 1, "turns": 2}}']
)
def test_a_file_of_something_else_holds_no_statistics(content: str, tmp_path: Path) -> None:
    (tmp_path / "statistics.json").write_text(content)
    with refuses(DataError, "statistics.json", "camdf", "mine", "--statistics", "writes"):
        Prices.from_statistics(tmp_path / "statistics.json")


@settings(deadline=None)
@given(prices, tools, st.floats(0.01, 0.99), st.integers(0, 20_000))
def test_a_tool_is_given_where_the_chance_that_it_is_called_times_a_search_is_worth_its_cost(
    prices: Prices, tool: Tool, chance: float, prefix: int
) -> None:
    search = prices.of_search(prefix_tokens=prefix, found_tokens=600)
    worth = 2 * search
    recourse = prices.recourse(worth, found=1.0, prefix_tokens=prefix, found_tokens=600)
    payoff = prices.payoff(worth, "partial", recourse)
    cost = prices.of(tool)
    given = PlugIn().decide(Rankings.from_scores({"it": chance}, {"it": cost}), payoff).acquired[0, 0]
    assert given == (chance * search >= cost) or chance * search == pytest.approx(cost)


@settings(deadline=None)
@given(prices, st.floats(1, 10_000), st.floats(0, 20_000))
def test_joining_costs_a_note_and_a_part_of_a_search(prices: Prices, tokens: float, prefix: float) -> None:
    joining = prices.of_joining(tokens, prefix_tokens=prefix)
    search = prices.of_search(prefix_tokens=prefix, found_tokens=2 * tokens)
    note = NOTED * prices.of_tokens(tokens)
    assert MISSED * search < joining <= MISSED * search + note * (1 + 1e-9)
    assert joining <= prices.of_joining(2 * tokens, prefix_tokens=2 * prefix)
    assert 0 <= prices.of_listing(tokens) <= prices.of_tokens(tokens) * (1 + 1e-9)
    if prices.cache and not prices.cached:
        assert prices.of_listing(tokens) == 0

"""Tools that logs put into the head of mode "append", by prices."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import camdf
from camdf import Payoff, Prices, TopK
from camdf.core.rankings import LoggedTasks
from camdf.gate import Gate, Guards, Limits
from camdf.policies.by_set import ExpectedPayoffBySet
from camdf.tools import Tool

TOOLS = [Tool(f"tool_{number}", "Does it. " * (number + 1)) for number in range(12)]
NAMES = [tool.name for tool in TOOLS]

parts = st.dictionaries(st.sampled_from(NAMES), st.floats(0, 1))
prices = st.builds(
    lambda cached, **rest: Prices(cached=cached * rest["uncached"], **rest),
    cached=st.floats(0, 1),
    uncached=st.floats(0.01, 100),
    turns=st.floats(1, 50),
)


class Knowing(TopK):
    """A policy whose log says how many tasks need a tool."""

    def __init__(self, needed: Mapping[str, float]) -> None:
        super().__init__(1)
        self.known = needed

    @property
    def needed(self) -> Mapping[str, float]:
        return self.known


def words(task: str, tools: Any) -> list[float]:
    return [1 / (1 + place) for place, _ in enumerate(tools)]


def head(needed: Mapping[str, float], prices: Any, *said: str, **settings: Any) -> list[str]:
    """The tools that a request declares."""
    history = [{"role": "user", "content": text} for text in said or ("Do a thing.",)]
    more = {"limits": Limits(cached_prefix=0), **settings}
    gate = Gate(Knowing(needed), words, Payoff(0.0), prices=prices, mode="append", tool_search=True, **more)
    return [tool.name for tool in gate.decide(history, TOOLS).head]


@given(parts, prices, st.sampled_from(NAMES), st.floats(1, 2))
def test_more_use_never_takes_a_tool_out_of_the_head(
    needed: Mapping[str, float], prices: Prices, name: str, more: float
) -> None:
    before = head(needed, prices)
    after = head({**needed, name: min(1.0, more * needed.get(name, 0.0))}, prices)
    assert set(before) <= set(after)


@given(parts, st.floats(0.01, 100), st.floats(1, 50))
def test_where_reading_costs_nothing_every_tool_that_was_ever_needed_is_there(
    needed: Mapping[str, float], uncached: float, turns: float
) -> None:
    usable = {name: part for name, part in needed.items() if part == 0 or part > 1e-6}
    ever = [name for name in NAMES if usable.get(name)]
    assert head(usable, Prices(uncached=uncached, cached=0.0, turns=turns)) == ever


@given(parts, prices, st.lists(st.text(max_size=20), min_size=1, max_size=3))
def test_it_follows_from_no_request(needed: Mapping[str, float], prices: Prices, said: list[str]) -> None:
    assert head(needed, prices, *said) == head(needed, prices)


@given(parts, prices)
def test_a_tool_is_there_where_listing_it_costs_less_than_joining(needed: Mapping[str, float], prices: Prices) -> None:
    for tool in TOOLS:
        tokens = prices.count(tool)
        joining = needed.get(tool.name, 0.0) * prices.of_joining(tokens, prefix_tokens=0)
        assert (tool.name in head(needed, prices)) == (joining > prices.of_listing(tokens))


def test_it_takes_prices_and_servers_that_are_trusted() -> None:
    every = dict.fromkeys(NAMES, 1.0)
    free = Prices(cached=0.0)
    assert head(every, free) == NAMES
    assert head(every, None) == []
    assert head(every, dict.fromkeys(NAMES, 1.0)) == []
    assert head(every, free, guards=Guards(trusted=["mail"])) == []


@pytest.mark.parametrize("turns", [1, 2])
def test_a_fitted_policy_says_it_on_any_worker_alike(tmp_path: Path, turns: int) -> None:
    scores = {name: 1 / (1 + place) for place, name in enumerate(NAMES)}
    required = [["tool_3"], ["tool_3", "tool_5"]]
    logged = LoggedTasks.from_records([{"scores": scores, "required": required[task % 2]} for task in range(60)])
    policy = ExpectedPayoffBySet().fit(logged, Payoff(0.1))
    assert policy.needed["tool_3"] > policy.needed["tool_5"] > policy.needed["tool_4"] == 0
    path = tmp_path / "policy.json"
    camdf.save(policy, path)
    history = [{"role": "user", "content": "Do a thing."}, {"role": "assistant", "content": "Done."}] * turns
    sent = []
    for of in (policy, camdf.load(path)):
        gate = Gate(of, words, Payoff(0.0), prices=Prices(turns=2), mode="append", tool_search=True)
        sent.append(json.dumps(gate.decide(history[:-1], TOOLS).openai(history[:-1])["tools"]))
    assert sent[0] == sent[1]
    assert "tool_3" in sent[0]
    assert ExpectedPayoffBySet().needed == {}

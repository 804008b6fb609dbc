"""Keywords of the release before still work, and say what they are called now."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import camdf
from camdf.gate import Breaker, Gate, Guards, Limits, Records, RedisMemory, Rollout
from camdf.gate.gate import EARLIER
from camdf.tools import Tool

TOOLS = [Tool(f"tool_{number}", f"Does thing {number}.") for number in range(6)]


def by_length(task: str, tools: Any) -> list[float]:
    return [1 / (1 + place) for place, _ in enumerate(tools)]


def test_a_door_is_a_tool_search() -> None:
    gate = Gate(camdf.TopK(2), by_length, camdf.Payoff(0.0))
    expected = gate.decide("Do a thing", TOOLS, tool_search=True).kept
    old: dict[str, Any] = {"door": True}
    with pytest.warns(DeprecationWarning, match="'door' is called 'tool_search' now"):
        assert gate.decide("Do a thing", TOOLS, **old).kept == expected
    with pytest.warns(DeprecationWarning, match="tool_search"):
        assert asyncio.run(gate.adecide("Do a thing", TOOLS, **old)).kept == expected


def test_aiming_is_having_a_target() -> None:
    new = Gate.for_target(camdf.cold_start(), by_length, requests=["Do a thing"], tools=TOOLS, mean_tools=2)
    with pytest.warns(DeprecationWarning, match="for_target"):
        old = Gate.aiming(camdf.cold_start(), by_length, over=["Do a thing"], among=TOOLS, tools=2)
    assert old.payoff == new.payoff
    new.decide("Do another thing", TOOLS)
    with pytest.warns(DeprecationWarning, match="retargeted"):
        assert new.aimed(tools=3).payoff == new.retargeted(mean_tools=3).payoff


OLD: dict[str, Any] = {
    "allow": ["a"],
    "digests": {"a": "0"},
    "pinned": ["b"],
    "fallback": [],
    "trusted": ["mail"],
    "untrusted_places": 1,
    "budget": 2.0,
    "most_tools": 5,
    "most_characters": 500,
    "at_least": 1,
    "at_most": 3,
    "breaker": Breaker(2),
    "explore": 0.1,
    "explore_pressure": 0.01,
    "explore_key": "k",
    "conversations": 7,
    "on_decision": print,
    "tenant": "t",
    "memory": RedisMemory(object()),
}


def test_settings_stand_in_groups() -> None:
    assert OLD.keys() == EARLIER.keys()
    with pytest.warns(DeprecationWarning, match="now") as said:
        old = Gate(camdf.cold_start(), by_length, camdf.Payoff(0.1), **OLD)
    groups = {"guards": Guards(), "limits": Limits(), "rollout": Rollout(), "records": Records()}
    for name, value in OLD.items():
        group, field = EARLIER[name]
        kept = getattr(getattr(old, group), field)
        assert kept == (frozenset(value) if isinstance(value, list) else value)
        assert any(
            f"'{name}' is called {group}={type(groups[group]).__name__}({field}=...) now" in str(w.message)
            for w in said
        )
    with pytest.warns(DeprecationWarning, match="'pinned' is called"):
        tenant = old.for_tenant("other", pinned=["c"])
    assert (tenant.guards.pinned, tenant.guards.allow) == ({"c"}, {"a"}), "what is not given stays"

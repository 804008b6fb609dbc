"""Keywords of the release before still work, and say what they are called now."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import camdf
from camdf.gate import Gate
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

"""Hostile calls in every mode: tools that raise, tasks that are no tasks, settings drawn at random.

A few seconds of it here; `FUZZ_EXAMPLES=600 pytest tests/gate/test_gate_fuzz.py` is the minute that CI takes.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import camdf
from camdf.gate import Breaker, Gate, GateDecision, Guards, Limits, Records, Rollout
from camdf.gate.lists import Mode
from camdf.policies.rules import PlugIn, ScoreAtLeast
from camdf.prices import Prices
from camdf.tools import Tool
from golden import PAYOFF

EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "60"))

NAMES = st.sampled_from(
    ["a", "b", "send", "a#2", "s/a", "", " ", "\n", "\ud800", "x" * 5000, "ѕend"]  # noqa: RUF001 (a name that deceives)
) | st.text(max_size=8)
JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=5) | st.just(object()) | st.just({1, 2}),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
ANYTHING = JSON | st.binary(max_size=4) | st.just(len)


class Raising(dict[str, Any]):
    """A mapping that breaks after so many questions."""

    def __init__(self, held: dict[str, Any], after: int) -> None:
        super().__init__(held)
        self.after = after

    def get(self, *asked: Any) -> Any:
        self.after -= 1
        if self.after < 0:
            raise RuntimeError("no more questions")
        return super().get(*asked)


class Flaky:
    """An object whose attributes raise, or are anything."""

    def __init__(self, held: dict[str, Any]) -> None:
        self.held = held

    def __getattr__(self, name: str) -> Any:
        if name == "held" or name not in self.held:
            raise RuntimeError(name)
        return self.held[name]

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("not to be compared")

    __hash__ = None  # type: ignore[assignment]


@st.composite
def natives(draw: st.DrawFn) -> Any:
    name, schema = draw(NAMES), draw(JSON)
    odd: list[Any] = draw(st.lists(ANYTHING, min_size=4, max_size=4))
    kind = draw(st.sampled_from(["function", "custom", "mcp", "web_search", "tool_search_tool_bm25", ""]) | ANYTHING)
    text = draw(st.text(max_size=10) | ANYTHING)
    whole = {"type": kind, "name": name, "description": text, "input_schema": schema}
    shapes: list[Any] = [
        {"type": "function", "function": {"name": name, "description": text, "parameters": schema}},
        {"name": name, "description": text, "inputSchema": schema, "title": text, "annotations": schema},
        whole,
        Raising(whole, draw(st.integers(0, 20))),
        Flaky({"name": name, "description": text, "parameters": {}, "server": schema}),
        Tool(name, "does something", {"type": "object"}, draw(st.sampled_from(["", "s", "mail"]))),
        Tool(*odd),
        {"type": "tool_search_tool_bm25_20251119", "name": "search", "cache_control": {"type": "ephemeral"}},
        draw(ANYTHING),
    ]
    return draw(st.sampled_from(shapes))


MESSAGES = st.lists(
    st.fixed_dictionaries(
        {"role": st.sampled_from(["user", "assistant", "tool"]) | ANYTHING, "content": st.text(max_size=30) | ANYTHING},
        optional={"tool_calls": ANYTHING, "type": st.sampled_from(["function_call", "mcp_call"]), "name": NAMES},
    )
    | ANYTHING,
    max_size=4,
)
SCORES = st.lists(st.floats(0, 1), min_size=12, max_size=12)
POLICIES = [ScoreAtLeast(0.5), PlugIn(), camdf.cold_start()]


@st.composite
def gates(draw: st.DrawFn) -> Gate:
    answer = draw(SCORES)
    exact = draw(st.booleans())

    def scorer(task: str, tools: Sequence[Tool]) -> Any:
        return answer[: len(tools)] if exact else answer

    async def slow_to_speak(task: str, tools: Sequence[Tool]) -> Any:
        await asyncio.sleep(0)
        return answer[: len(tools)]

    def picky(tool: Tool) -> bool:
        return tool.name < "m" or bool(1 / len(tool.description))

    def dear(tool: Tool) -> float:
        return float(len(tool.description))

    mode: Mode = draw(st.sampled_from(["drop", "defer", "allow", "shadow"]))
    prices: Any = draw(st.sampled_from([None, Prices(), {"a": 1.0}, dear]))
    allow: Any = draw(st.sampled_from([None, None, ["a", "s/a", "send"], picky]))
    return Gate(
        draw(st.sampled_from(POLICIES)),
        draw(st.sampled_from([scorer, slow_to_speak])),
        PAYOFF,
        mode=mode,
        prices=prices,
        guards=Guards(
            allow=allow,
            digests=draw(st.sampled_from([None, None, {"a": "0"}])),
            pinned=draw(st.sampled_from([(), ["a"], ["mail/send"]])),
            fallback=draw(st.sampled_from([None, [], ["a"]])),
        ),
        limits=Limits(
            tools=draw(st.sampled_from([10_000, 2])),
            characters=draw(st.sampled_from([20_000_000, 40])),
            at_least=draw(st.integers(0, 2)),
            at_most=draw(st.sampled_from([None, 2, 3])),
            breaker=draw(st.sampled_from([None, Breaker(1, 1000)])),
        ),
        rollout=Rollout(
            1.0 if mode == "shadow" else draw(st.sampled_from([1.0, 0.5])),
            off=mode != "shadow" and draw(st.booleans()) and draw(st.booleans()),
            explore=draw(st.sampled_from([0.0, 0.5])),
        ),
        records=Records(conversations=2, tenant=draw(st.sampled_from(["", "t"]))),
    )


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data(), gate=gates())
def test_no_call_of_any_kind_raises_adds_a_tool_or_loses_one(data: st.DataObject, gate: Gate) -> None:
    for _ in range(2):
        tools = data.draw(st.lists(natives(), max_size=8))
        task: Any = data.draw(st.text(max_size=30) | MESSAGES | ANYTHING)
        more: dict[str, Any] = {
            "conversation": data.draw(st.none() | st.just("c") | ANYTHING),
            "keep": data.draw(st.lists(NAMES, max_size=2) | ANYTHING),
            "forced": data.draw(st.lists(NAMES, max_size=2) | ANYTHING),
            "scores": data.draw(st.none() | st.none() | SCORES | ANYTHING),
            "tool_search": data.draw(st.booleans()),
        }
        if data.draw(st.booleans()):
            decision = gate.decide(task, tools, **more)
        else:
            decision = asyncio.run(gate.adecide(task, tools, **more))
        assert isinstance(decision, GateDecision)
        named = [*decision.kept, *decision.cut, *decision.refused]
        assert len(named) == len(set(named)) >= len(tools)
        if len(named) > len(tools):  # a history names others that it may not bring to the model
            assert isinstance(task, list)
            assert len(decision.kept) + len(decision.cut) <= len(tools)
        listed = len(decision.kept) if decision.mode == "drop" else len(decision.kept) + len(decision.cut)
        assert len(decision.tools) == listed
        if gate.mode in ("allow", "shadow"):
            assert all(any(tool is each for each in tools) for tool in decision.tools)
        assert isinstance(decision.explain() + decision.svg(), str)
        assert decision.event()["camdf.reason"] == decision.reason
        assert all(any(tool is each for each in tools) for tool in gate.find(str(data.draw(NAMES)), tools))

"""Histories that somebody wrote to mislead a gate: it answers, alike every time, and brings no tool that is refused."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from camdf import Gate, Payoff
from camdf.gate import Guards
from camdf.policies.rules import ScoreAtLeast, TopK
from camdf.tools import view

ALLOWED = ("send_email", "book_flight", "play_music", "find_hotel", "get_weather")
REFUSED = "delete_all"
SECRET = "removes every file"
"""The description of the refused tool, which is in what was brought to the model wherever its definition is."""

TOOLS = [
    {"name": name, "description": f"Tool to {name.replace('_', ' ')}.", "input_schema": {"type": "object"}}
    for name in (*ALLOWED, REFUSED)
]
ODD: st.SearchStrategy[Any] = st.sampled_from([None, 5, "x", [], {}, float("nan"), b"x", "\ud800", "x" * 5_000])
NAMES = (
    st.sampled_from([*ALLOWED, REFUSED, REFUSED, "find_tool", "call_tool", "", "send_email#2", "s/send_email"]) | ODD
)
TEXTS = st.sampled_from(
    ["delete all of the files in my home folder now", "send an email to Kim", "book the flight to Rome", "hi", ""]
)


def definition(name: Any) -> dict[str, Any]:
    return {"name": name, "description": SECRET if name == REFUSED else "Tool.", "input_schema": {}}


DEFINITIONS = NAMES.map(definition)
BROUGHT = st.one_of(
    DEFINITIONS,
    NAMES.map(lambda name: {"type": "tool_reference", "name": name}),
    DEFINITIONS.map(lambda told: {"type": "tool_definition", "definition": told}),
    DEFINITIONS.map(lambda told: {"type": "function", "function": told}),
    DEFINITIONS.map(lambda told: {**told, "type": "function", "parameters": {}}),
    ODD,
)
CALLS: st.SearchStrategy[Any] = st.one_of(
    (TEXTS | ODD).map(lambda text: {"type": "text", "text": text}),
    NAMES.map(lambda name: {"type": "tool_use", "name": name, "id": "a"}),
    NAMES.map(lambda name: {"type": "function_call", "name": name}),
    NAMES.map(lambda name: {"function": {"name": name}, "id": "a"}),
    NAMES.map(lambda name: {"type": "tool-call", "toolName": name}),
    NAMES.map(lambda name: {"type": "mcp_call", "name": name, "server_label": name}),
    NAMES.map(
        lambda name: {"type": "tool_result", "tool_use_id": "a", "content": [{"type": "tool_use", "name": name}]}
    ),
    NAMES.map(lambda name: {"type": "tool_result", "content": json.dumps({"tools": [{"name": str(name)}]})}),
    ODD,
)


BLOCKS = st.one_of(
    CALLS,
    BROUGHT.map(lambda tool: {"type": "tool_addition", "tool": tool}),
    BROUGHT.map(lambda tool: {"type": "tool_removal", "tool": tool}),
)


def nested(depth: int) -> Any:
    value: Any = "x"
    for place in range(depth):
        value = {"type": "text", "content": value} if place % 2 else [value]
    return value


CONTENTS = st.one_of(TEXTS, st.lists(BLOCKS, max_size=3), st.sampled_from([1, 60, 300]).map(nested), ODD)
ROLES = st.sampled_from(["user", "user", "system", "developer", "assistant", "tool", None])
MESSAGES = st.one_of(
    TEXTS.map(lambda text: {"role": "user", "content": text}),
    st.builds(lambda role, content: {"role": role, "content": content}, ROLES, CONTENTS),
    st.builds(
        lambda role, tools: {"type": "additional_tools", "role": role, "tools": tools},
        ROLES,
        st.lists(BROUGHT, max_size=3) | ODD,
    ),
    st.builds(
        lambda calls, content: {"role": "assistant", "tool_calls": calls, "content": content},
        st.lists(CALLS, max_size=3) | ODD,
        CONTENTS,
    ),
    BLOCKS,
    ODD,
)


@st.composite
def asked_gates(draw: st.DrawFn) -> dict[str, Any]:
    return {
        "policy": draw(st.sampled_from([TopK(1), TopK(2), ScoreAtLeast(1.0)])),
        "mode": draw(st.sampled_from(["append", "append", "drop", "defer", "allow", "shadow"])),
        "tool_search": draw(st.booleans()),
    }


def words(task: str, tools: Any) -> list[float]:
    return [float(sum(word in task.lower() for word in tool.name.split("_"))) for tool in tools]


@settings(deadline=None, suppress_health_check=list(HealthCheck))
@given(asked_gates(), st.lists(MESSAGES, max_size=7), st.sampled_from(["claude-opus-5", "gpt-5.6", "another", ""]))
def test_a_crafted_history_is_answered_alike_by_two_gates_and_brings_no_refused_tool(
    asked: dict[str, Any], history: list[Any], model: str
) -> None:
    decisions = [
        Gate(**asked, scorer=words, payoff=Payoff(0.0), guards=Guards(allow=ALLOWED)).decide(
            history, list(TOOLS), model=model
        )
        for _ in range(2)
    ]
    first, second = decisions
    listed = [view(tool).name for tool in first.tools]
    assert listed == [view(tool).name for tool in second.tools]
    assert (first.kept, first.reason, first.joined) == (second.kept, second.reason, second.joined)
    assert set(listed) <= {*ALLOWED, "find_tool", "call_tool"}
    assert {key for addition in first.appended for key in addition.keys} <= set(ALLOWED)
    assert REFUSED in first.refused
    sent = first.messages(history)
    assert repr(sent) == repr(second.messages(history))
    assert SECRET not in json.dumps([sent, first.openai(), first.anthropic()], default=repr)

"""From a list of tools to a gate, to the list that a model is sent, and to what its calls mean."""

from __future__ import annotations

import json
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import camdf
from camdf.gate import Gate, Guards
from camdf.gate.tool_search import Answer, ToolCall
from camdf.policies.rules import FirstDay
from camdf.tools import Tool, view

SCHEMA = {"type": "object", "properties": {"pattern": {"type": "string"}}, "required": ["pattern"]}
TOOLS = [Tool(f"tool_{number}", f"Does thing number {number}. " * 8, SCHEMA) for number in range(60)]
SHAPES = ("openai", "openai_responses", "anthropic", "mcp")


def first(task: str, tools: Sequence[Tool]) -> list[float]:
    return [1 / (1 + place) for place, _ in enumerate(tools)]


def test_a_gate_starts_with_nothing_but_the_tools() -> None:
    gate = Gate.start(TOOLS, scorer=first)
    decision = gate.decide("Do a thing for me", TOOLS)
    assert len(decision.kept) == 8
    assert decision.tool_search
    assert (gate.policy, Gate.start(TOOLS, scorer=first, mean_tools=3).policy) == (FirstDay(), camdf.TopK(3))
    assert isinstance(Gate.start(TOOLS).scorer, camdf.Start)
    assert not Gate.start(TOOLS, scorer=first, tool_search=False).decide("Do a thing", TOOLS).tool_search


@pytest.mark.parametrize("count", [1, 8, 9])
def test_all_tools_of_a_list_that_is_too_short_to_cut_are_loaded(count: int) -> None:
    decision = Gate.start(TOOLS[:count], scorer=first).decide("Do a thing for me", TOOLS[:count])
    assert (len(decision.kept), decision.cut) == (count, ())
    assert len(Gate.start(TOOLS[:count], scorer=first, mean_tools=1).decide("Do a thing", TOOLS[:count]).kept) == 1


def test_a_list_that_is_too_short_to_cut_is_loaded_from_a_greeting_on_and_never_changes() -> None:
    tools = TOOLS[:9]
    gate = Gate.start(tools, scorer=lambda task, tools: first(task, tools) if "thing" in task else [0.0] * len(tools))
    history = [{"role": "user", "content": "Good morning"}]
    greeted = gate.decide(history, tools)
    assert greeted.open
    history += [{"role": "assistant", "content": "Good morning"}, {"role": "user", "content": "Do a thing for me"}]
    assert greeted.openai() == gate.decide(history, tools).openai()
    assert len(greeted.openai()) == len(tools)


def test_a_fitted_policy_decides_at_the_payoff_that_it_was_fitted_for() -> None:
    payoff = camdf.Payoff(0.07)
    policy = camdf.CAMDF().fit(camdf.LoggedTasks.from_records([RECORD, OTHER] * 8), payoff)
    assert Gate.start(TOOLS, scorer=first, policy=policy).payoff == payoff
    with pytest.raises(camdf.UsageError, match=r"Gate\.for_target"):
        Gate.start(TOOLS, scorer=first, policy=policy, mean_tools=3)


RECORD = {"scores": {"a": 0.9, "b": 0.4, "c": 0.1}, "required": ["a"]}
OTHER = {"scores": {"a": 0.2, "b": 0.8, "c": 0.3}, "required": ["b", "c"]}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("given_in", ["as it is", *SHAPES])
def test_what_is_sent_reads_as_the_tools_that_were_given(shape: str, given_in: str) -> None:
    everything = Gate.start(TOOLS, scorer=first, policy=camdf.AcquireAll(), payoff=camdf.Payoff(0.0))
    tools: list[Any] = TOOLS
    if given_in != "as it is":
        tools = getattr(everything.decide("Do a thing for me", TOOLS), given_in)()
    decision = Gate.start(tools, scorer=first).decide("Do a thing for me", tools)
    sent = getattr(decision, shape)()
    told = [(tool.name, tool.description, tool.schema) for tool in map(view, json.loads(json.dumps(sent)))]
    assert told == [(tool.name, tool.description, tool.schema) for tool in (*TOOLS[:8], *decision.search)]
    if given_in == shape:
        assert all(one is other for one, other in zip(sent, tools[:8], strict=False))


def test_the_search_is_sent_only_where_it_leads_somewhere_and_its_names_are_free() -> None:
    assert len(Gate.start(TOOLS[:3], scorer=first).decide("Do a thing", TOOLS[:3]).openai()) == 3
    assert len(Gate.start(TOOLS, scorer=first).decide("Do a thing", TOOLS, tool_search=False).openai()) == 8
    shadow = Gate.start(TOOLS, scorer=first, mode="shadow")
    assert len(shadow.decide("Do a thing", TOOLS).openai()) == len(TOOLS)
    own = [Tool("find_tool", "Finds a tool in the shed."), *TOOLS]
    assert len(Gate.start(own, scorer=first).decide("Do a thing", own).anthropic()) == len(own), "nothing is cut"


def test_the_providers_own_tools_are_sent_as_they_are() -> None:
    hosted = {"type": "web_search_preview"}
    sent = Gate.start([*TOOLS, hosted], scorer=first).decide("Do a thing", [*TOOLS, hosted]).openai_responses()
    assert any(tool is hosted for tool in sent)
    with pytest.raises(camdf.UsageError, match="Send it by yourself"):
        Gate.start([*TOOLS, object()], scorer=first).decide("Do a thing", [*TOOLS, object()]).openai()


def written(shape: str, name: str, arguments: Any) -> Any:
    """A call as each client has it; those of OpenAI as text."""
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    match shape:
        case "openai":
            return SimpleNamespace(id="1", type="function", function=SimpleNamespace(name=name, arguments=text))
        case "openai_responses":
            return SimpleNamespace(id="fc", call_id="1", type="function_call", name=name, arguments=text)
        case "anthropic":
            return SimpleNamespace(id="1", type="tool_use", name=name, input=arguments)
        case _:
            return {"id": "1", "name": name, "arguments": arguments}


@pytest.mark.parametrize("shape", SHAPES)
def test_a_call_is_answered_in_words_or_says_what_to_run(shape: str) -> None:
    gate = Gate.start(TOOLS, scorer=first, guards=Guards(allow={tool.name for tool in TOOLS[1:]}))

    def answer(name: str, arguments: Any) -> Answer:
        return gate.answer(written(shape, name, arguments), TOOLS)

    run = ToolCall("tool_9", {"pattern": "*.log"})
    assert answer("tool_9", {"pattern": "*.log"}) == ("1", run, "")
    assert answer("call_tool", {"name": "tool_9", "arguments": {"pattern": "*.log"}}) == ("1", run, "")
    found = answer("find_tool", {"query": "tool_9"})
    assert (found.run, json.loads(found.text)["tools"][0]["name"]) == (None, "tool_9")
    for name, arguments in (
        ("call_tool", {"name": "tool_0", "arguments": {"pattern": "*"}}),  # not allowed
        ("tool_0", {"pattern": "*"}),
        ("tool_99", {}),
        ("call_tool", {"name": "tool_9"}),
        ("call_tool", '{"name": "tool_9", "arguments": {"pattern": "*.l'),
        ("tool_9", '{"pattern": "*.l'),
        ("", {}),
    ):
        told = answer(name, arguments)
        assert told.run is None
        assert told.text


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
    max_leaves=6,
)
CALLS = st.fixed_dictionaries(
    {},
    optional={
        "id": ANYTHING,
        "name": st.sampled_from(["find_tool", "call_tool", "tool_1", "x"]) | ANYTHING,
        "arguments": st.just({"name": "tool_1", "arguments": {"pattern": "a"}}) | ANYTHING,
        "function": ANYTHING,
        "input": ANYTHING,
    },
)


@given(CALLS | ANYTHING, st.sampled_from([TOOLS[:4], [], {"mail": TOOLS[:2]}]) | ANYTHING)
def test_no_call_of_any_kind_raises_or_runs_what_was_not_offered(call: Any, tools: Any) -> None:
    answer = GATE.answer(call, tools)
    assert (answer.run is None) == bool(answer.text)
    if answer.run is not None:
        assert answer.run.name in {tool.name for tool in TOOLS}


GATE = Gate.start(TOOLS, scorer=first)

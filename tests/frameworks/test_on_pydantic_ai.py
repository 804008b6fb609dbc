"""The capability inside real pydantic-ai agents, which talk over HTTP to a scripted model and to a real local one."""

from __future__ import annotations

import asyncio
import importlib.util
import inspect
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai import Agent
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.exceptions import UserError
from pydantic_ai.messages import ImageUrl, ModelMessage, ToolCallPart, ToolReturnPart, UserPromptPart
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.settings import ToolOrOutput
from pydantic_ai.tools import RunContext, Tool, ToolDefinition

from camdf.gate import Gate
from camdf.integrations.pydantic_ai import ToolGate
from golden import VECTORS, Vector, golden_gate
from local_llm import local_llm
from pages import run_page
from scripted import Call, ScriptedModel

ROOT = Path(__file__).parents[2]
WEATHER = VECTORS[1]
EMPTY: dict[str, Any] = {"type": "object", "properties": {}}


def native(tools: Mapping[str, str]) -> list[Tool]:
    def run() -> str:
        return "ran"

    return [Tool.from_schema(run, name, description, EMPTY) for name, description in tools.items()]


def made(url: str, gate: Gate, tools: Sequence[Tool], **settings: Any) -> Agent[None, Any]:
    model = OpenAIChatModel("scripted", provider=OpenAIProvider(base_url=url, api_key="none"))
    return Agent(model, tools=tools, capabilities=[ToolGate(gate)], **settings)


def answers(messages: Sequence[ModelMessage]) -> dict[str, str]:
    """What each tool call was answered."""
    parts = [part for message in messages for part in message.parts]
    return {part.tool_name: json.dumps(part.content) for part in parts if isinstance(part, ToolReturnPart)}


def test_pydantic_ai_has_every_hook_that_the_capability_relies_on() -> None:
    assert inspect.iscoroutinefunction(AbstractCapability.prepare_tools)
    assert list(inspect.signature(AbstractCapability.prepare_tools).parameters) == ["self", "ctx", "tool_defs"]
    assert AbstractCapability.get_serialization_name() is not None
    assert {"prompt", "messages", "conversation_id", "run_id", "agent", "model"} <= set(RunContext.__dataclass_fields__)
    fields = set(ToolDefinition.__dataclass_fields__)
    assert {"name", "description", "parameters_json_schema", "defer_loading"} <= fields
    assert "tool_name" in ToolCallPart.__dataclass_fields__
    assert "content" in UserPromptPart.__dataclass_fields__
    assert ToolOrOutput(function_tools=["a"]).function_tools == ["a"]


@pytest.mark.parametrize("vector", VECTORS, ids=[each.task or "no task" for each in VECTORS])
def test_the_model_is_sent_exactly_the_tools_that_the_gate_keeps_in_order(vector: Vector) -> None:
    """The scripted model stands in for a real one: the 135M model that runs here cannot drive an agent loop."""
    with ScriptedModel() as model:
        result = made(model.url, golden_gate(), native(vector.tools)).run_sync(vector.task)
        assert result.output == "done"
        assert model.tool_names() == vector.kept


def test_a_streamed_run_is_decided_as_any_other() -> None:
    async def streamed(agent: Agent[None, Any]) -> str:
        async with agent.run_stream(WEATHER.task) as stream:
            return str(await stream.get_output())

    with ScriptedModel() as model:
        assert asyncio.run(streamed(made(model.url, golden_gate(), native(WEATHER.tools)))) == "done"
        assert model.tool_names() == WEATHER.kept


def test_a_real_language_model_answers_with_the_tools_that_were_kept() -> None:
    sent: list[list[str]] = []

    class Note(AbstractCapability[None]):
        async def before_model_request(self, ctx: Any, request_context: Any) -> Any:
            sent.append([tool.name for tool in request_context.model_request_parameters.function_tools])
            return request_context

    with local_llm() as url:
        agent = made(url, golden_gate(), native(WEATHER.tools))
        result = agent.run_sync(WEATHER.task, capabilities=[Note()], model_settings={"max_tokens": 24, "timeout": 120})
    assert result.output.strip()
    assert sent == [WEATHER.kept]


def test_ten_turns_of_one_conversation_only_widen() -> None:
    tasks = [*(vector.task for vector in VECTORS if vector.task), "Thank you", "Book a hotel room"]
    history: list[ModelMessage] = []
    with ScriptedModel() as model:
        agent = made(model.url, golden_gate(), native(WEATHER.tools))
        for task in tasks:
            history = agent.run_sync(task, message_history=history).all_messages()
        turns = [model.requests[turn]["tools"] for turn in range(len(tasks))]
    assert len(turns) == 10
    assert all(later[: len(earlier)] == earlier for earlier, later in pairwise(turns))
    assert len(turns[-1]) > len(turns[0])


def test_a_run_is_decided_once_however_many_steps_it_takes() -> None:
    gate = golden_gate()
    with ScriptedModel([Call("get_weather"), Call("get_weather"), "Sunny"]) as model:
        made(model.url, gate, native(WEATHER.tools)).run_sync(WEATHER.task)
        assert [model.tool_names(step) for step in range(3)] == [WEATHER.kept] * 3
    assert gate.counts == {"decided": 1, "decided before": 2}


def test_runs_without_a_history_are_conversations_of_their_own() -> None:
    with ScriptedModel() as model:
        agent = made(model.url, golden_gate(), native(WEATHER.tools))
        for vector in VECTORS[:3]:
            agent.run_sync(vector.task)
        assert [model.tool_names(run) for run in range(3)] == [vector.kept for vector in VECTORS[:3]]


def test_a_call_to_a_cut_tool_is_answered_unknown_and_offered_from_then_on() -> None:
    with ScriptedModel([Call("play_music"), Call("play_music"), "Done"]) as model:
        result = made(model.url, golden_gate(), native(WEATHER.tools)).run_sync(WEATHER.task)
        told = [message for message in model.requests[1]["messages"] if message["role"] == "tool"]
        assert "Unknown tool name: 'play_music'" in told[0]["content"]
        assert model.tool_names(1) == [*WEATHER.kept, "play_music"]
    assert answers(result.all_messages())["play_music"] == '"ran"'


def test_a_refused_tool_stays_away_even_when_the_model_calls_it() -> None:
    gate = golden_gate(allow=[name for name in WEATHER.tools if name != "run_sql"])
    with ScriptedModel([Call("run_sql"), "Done"]) as model:
        made(model.url, gate, native(WEATHER.tools)).run_sync(WEATHER.task)
        assert model.tool_names(1) == WEATHER.kept


def test_tools_that_the_history_has_called_are_kept() -> None:
    with ScriptedModel([Call("play_music"), "Playing"]) as model:
        ungated = Agent(
            OpenAIChatModel("scripted", provider=OpenAIProvider(base_url=model.url, api_key="none")),
            tools=native(WEATHER.tools),
        )
        history = ungated.run_sync("Play a song").all_messages()
        made(model.url, golden_gate(), native(WEATHER.tools)).run_sync(WEATHER.task, message_history=history)
        assert model.tool_names(2) == ["get_weather", "find_hotel", "play_music"]


def test_output_tools_are_never_cut() -> None:
    @dataclass
    class Forecast:
        degrees: int

    with ScriptedModel([Call("final_result", {"degrees": 21})]) as model:
        agent = made(model.url, golden_gate(), native(WEATHER.tools), output_type=Forecast)
        assert agent.run_sync(WEATHER.task).output == Forecast(degrees=21)
        assert model.tool_names() == [*WEATHER.kept, "final_result"]


def test_deferred_tools_stay_within_reach_of_the_tool_search() -> None:
    tools = native(WEATHER.tools)
    for tool in tools:
        tool.defer_loading = tool.name == "play_music"
    with ScriptedModel([Call("search_tools", {"queries": ["song"]}), "Done"]) as model:
        made(model.url, golden_gate(), tools).run_sync(WEATHER.task)
        assert set(model.tool_names(0)) == {*WEATHER.kept, "search_tools"}
        assert set(model.tool_names(1)) == {*WEATHER.kept, "search_tools", "play_music"}


def test_a_tool_choice_of_the_agent_is_kept() -> None:
    choice = {"tool_choice": ToolOrOutput(function_tools=["play_music"])}
    with ScriptedModel() as model:
        made(model.url, golden_gate(), native(WEATHER.tools), model_settings=choice).run_sync(WEATHER.task)
        assert model.tool_names() == ["get_weather", "find_hotel", "play_music"]


def test_a_tool_choice_of_one_run_is_not_seen_and_must_be_pinned() -> None:
    choice = {"tool_choice": ToolOrOutput(function_tools=["play_music"])}
    with ScriptedModel() as model:
        with pytest.raises(UserError, match="play_music"):
            made(model.url, golden_gate(), native(WEATHER.tools)).run_sync(WEATHER.task, model_settings=choice)
        pinned = golden_gate(pinned=["play_music"])
        made(model.url, pinned, native(WEATHER.tools)).run_sync(WEATHER.task, model_settings=choice)
        assert "play_music" in model.tool_names()


def test_the_task_is_the_text_of_a_prompt_of_many_parts() -> None:
    with ScriptedModel() as model:
        agent = made(model.url, golden_gate(), native(WEATHER.tools))
        agent.run_sync([WEATHER.task, ImageUrl("https://example.org/map.png")])
        assert model.tool_names() == WEATHER.kept


def test_a_run_without_a_prompt_goes_on_with_the_last_one() -> None:
    with ScriptedModel() as model:
        agent = made(model.url, golden_gate(), native(WEATHER.tools))
        asked = agent.run_sync(WEATHER.task).all_messages()[:1]
        made(model.url, golden_gate(), native(WEATHER.tools)).run_sync(message_history=asked)
        assert model.tool_names(1) == WEATHER.kept


def test_a_scorer_that_raises_leaves_the_whole_list() -> None:
    def broken(*_: object) -> list[float]:
        raise RuntimeError("no scores today")

    gate = golden_gate()
    gate.scorer = broken
    with ScriptedModel() as model:
        assert made(model.url, gate, native(WEATHER.tools)).run_sync(WEATHER.task).output == "done"
        assert model.tool_names() == list(WEATHER.tools)
    assert gate.counts == {"scorer failed": 1}


def test_one_capability_serves_runs_that_overlap() -> None:
    vectors = [vector for vector in VECTORS if len(vector.tools) == len(WEATHER.tools)]

    async def all_at_once(agent: Agent[None, Any]) -> None:
        await asyncio.gather(*(agent.run(vector.task) for vector in vectors))

    with ScriptedModel() as model:
        asyncio.run(all_at_once(made(model.url, golden_gate(), native(WEATHER.tools))))
        found = {body["messages"][-1]["content"]: model.tool_names(at) for at, body in enumerate(model.requests)}
    assert found == {vector.task: vector.kept for vector in vectors}


def test_the_example_runs_and_the_page_shows_its_code() -> None:
    example = ROOT / "examples" / "with_pydantic_ai.py"
    told = subprocess.run([sys.executable, str(example)], capture_output=True, text=True, timeout=60, check=True)
    page = (ROOT / "docs" / "integrations" / "pydantic_ai.md").read_text(encoding="utf-8")
    assert example.read_text(encoding="utf-8") in page
    assert f"```text\n{told.stdout}```" in page


def test_the_page_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "examples"))
    assert run_page(ROOT / "docs" / "integrations" / "pydantic_ai.md")


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pydantic_ai.capabilities", None)
    spec = importlib.util.find_spec("camdf.integrations.pydantic_ai")
    assert spec is not None
    assert spec.loader is not None
    with pytest.raises(ImportError, match=r"camdf\[pydantic-ai\]"):
        spec.loader.exec_module(importlib.util.module_from_spec(spec))

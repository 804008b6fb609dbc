"""The OpenAI Agents adapter inside the framework's own Runner, over HTTP.

`ScriptedModel` stands in for the model wherever a loop must be driven: the local model of 135 million parameters never
calls a tool on purpose. One run goes through that local model.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx
import pytest
from agents import (
    Agent,
    FunctionTool,
    ModelBehaviorError,
    ModelSettings,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    RunConfig,
    RunContextWrapper,
    Runner,
    RunState,
    SQLiteSession,
    WebSearchTool,
    get_current_trace,
    set_trace_processors,
    set_tracing_disabled,
)
from openai import AsyncOpenAI

import camdf
from camdf.gate import Gate
from camdf.integrations.openai_agents import gated
from camdf.tools import Tool
from golden import PAYOFF, VECTORS, Vector, golden_gate, overlap
from local_llm import local_llm
from scripted import Call, ScriptedModel

ROOT = Path(__file__).parents[2]
TRIP = VECTORS[0]
RUNNERS = {"chat completions": OpenAIChatCompletionsModel, "responses": OpenAIResponsesModel}
every_model = pytest.mark.parametrize("kind", RUNNERS.values(), ids=RUNNERS)
every_vector = pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector.task or "nothing")


loop = asyncio.Runner()
clients: list[AsyncOpenAI] = []


@pytest.fixture(autouse=True, scope="module")
def one_loop_for_all_and_no_trace_leaves() -> Iterator[None]:
    set_trace_processors([])
    with loop:
        yield


@pytest.fixture
def model() -> Iterator[ScriptedModel]:
    with ScriptedModel() as served:
        yield served
        while clients:
            loop.run(clients.pop().close())


def native(name: str, text: str, **settings: Any) -> FunctionTool:
    async def ran(context: Any, arguments: str) -> str:
        return f"{name} ran"

    schema = {"type": "object", "properties": {}}
    return FunctionTool(name, text, schema, ran, strict_json_schema=False, **settings)


def natives(tools: dict[str, str]) -> list[FunctionTool]:
    return [native(name, text) for name, text in tools.items()]


def plain(model: ScriptedModel, tools: Sequence[Any] = (), kind: Any = OpenAIChatCompletionsModel, **more: Any) -> Any:
    client = AsyncOpenAI(base_url=model.url, api_key="none", max_retries=0)
    clients.append(client)
    offered = list(tools) or natives(TRIP.tools)
    return Agent(**{"name": "Travel", "tools": offered, "model": kind("scripted", openai_client=client), **more})


def run(agent: Any, task: Any, **settings: Any) -> Any:
    return loop.run(Runner.run(agent, task, **settings))


def test_openai_agents_has_every_hook_that_the_adapter_relies_on() -> None:
    assert list(inspect.signature(Agent.get_all_tools).parameters) == ["self", "run_context"]
    assert inspect.iscoroutinefunction(Agent.get_all_tools)
    assert {"model_settings", "name", "tool_use_behavior"} <= set(Agent.__dataclass_fields__)
    assert {"defer_loading", "description", "name", "params_json_schema"} <= set(FunctionTool.__dataclass_fields__)
    assert {"group_id", "tool_not_found_behavior"} <= set(RunConfig.__dataclass_fields__)
    assert "turn_input" in RunContextWrapper.__dataclass_fields__
    assert hash(RunContextWrapper(None))
    assert "tool_choice" in ModelSettings.__dataclass_fields__
    assert get_current_trace() is None


@every_model
@every_vector
def test_the_model_gets_exactly_the_kept_tools_in_order(vector: Vector, kind: Any, model: ScriptedModel) -> None:
    agent = gated(plain(model, natives(vector.tools), kind), golden_gate())
    assert run(agent, vector.task).final_output == "done"
    assert model.tool_names() == vector.kept


@every_model
@every_vector
def test_a_streamed_run_decides_the_same(vector: Vector, kind: Any, model: ScriptedModel) -> None:
    async def streamed() -> Any:
        result = Runner.run_streamed(gated(plain(model, natives(vector.tools), kind), golden_gate()), vector.task)
        async for _ in result.stream_events():
            pass
        return result.final_output

    assert loop.run(streamed()) == "done"
    assert model.tool_names() == vector.kept


def test_a_real_local_model_answers_with_the_kept_tools_on_the_wire() -> None:
    sent: list[dict[str, Any]] = []

    async def note(request: Any) -> None:
        sent.append(json.loads(request.content))

    async def asked(url: str) -> Any:
        async with httpx.AsyncClient(event_hooks={"request": [note]}, timeout=300) as wire:
            client = AsyncOpenAI(base_url=url, api_key="none", http_client=wire)
            llm = OpenAIChatCompletionsModel("local", openai_client=client)
            settings = ModelSettings(max_tokens=24, temperature=0)
            agent = Agent(name="Travel", tools=natives(TRIP.tools), model=llm, model_settings=settings)
            return await Runner.run(gated(agent, golden_gate()), TRIP.task, max_turns=4)

    with local_llm() as url:
        answer = loop.run(asked(url))
    assert [tool["function"]["name"] for tool in sent[0]["tools"]] == TRIP.kept
    assert answer.raw_responses[0].usage.output_tokens > 0


@every_model
def test_ten_turns_of_a_group_never_lose_or_move_a_tool(kind: Any, model: ScriptedModel) -> None:
    agent, session = gated(plain(model, kind=kind), golden_gate()), SQLiteSession("thread")
    tasks = [vector.task for vector in VECTORS if len(vector.tools) == len(TRIP.tools) and vector.task] * 2
    for task in tasks[:10]:
        run(agent, task, session=session, run_config=RunConfig(group_id="thread"))
    lists = [json.dumps(request["tools"])[:-1] for request in model.requests]
    assert len(lists) == 10
    assert all(later.startswith(earlier) for earlier, later in pairwise(lists))
    assert len(lists[-1]) > len(lists[0])


@pytest.mark.parametrize("disabled", [False, True], ids=["traced", "not traced"])
def test_a_run_without_a_group_or_without_tracing_is_a_conversation_of_its_own(
    disabled: bool, model: ScriptedModel
) -> None:
    agent = gated(plain(model), golden_gate())
    set_tracing_disabled(disabled)
    try:
        for vector in VECTORS[1:3]:
            run(agent, vector.task, run_config=RunConfig(group_id="thread" if disabled else None))
            assert model.tool_names(-1) == vector.kept
    finally:
        set_tracing_disabled(False)


def counting(asked: list[str]) -> Callable[[str, Sequence[Tool]], list[float]]:
    def scorer(task: str, tools: Sequence[Tool]) -> list[float]:
        asked.append(task)
        return overlap(task, tools)

    return scorer


def test_a_run_of_many_turns_is_decided_once_where_is_enabled_is_asked_at_every_turn(model: ScriptedModel) -> None:
    """The framework's own switch runs twice a turn for every tool: 12 times for 3 tools and 2 turns."""
    enabled, asked = [], []  # type: ignore[var-annotated]

    def is_enabled(context: Any, agent: Any) -> bool:
        enabled.append(agent.name)
        return True

    tools = [native(name, text, is_enabled=is_enabled) for name, text in list(TRIP.tools.items())[:3]]
    model.script = [Call("get_weather"), "done"]
    run(plain(model, tools), TRIP.task)
    assert len(enabled) == 12
    gate = golden_gate()
    gate.scorer = counting(asked)
    model.script = [Call("book_flight"), Call("find_hotel"), Call("book_hotel"), "done"]
    run(gated(plain(model), gate), TRIP.task)
    assert asked == [TRIP.task]
    assert all(model.tool_names(request) == TRIP.kept for request in range(2, 6))


@every_model
def test_a_call_to_a_cut_tool_raises_unless_the_run_returns_errors_to_the_model(
    kind: Any, model: ScriptedModel
) -> None:
    agent, session = gated(plain(model, kind=kind), golden_gate()), SQLiteSession("thread")
    model.script = [Call("play_music")]
    with pytest.raises(ModelBehaviorError, match="play_music not found"):
        run(agent, TRIP.task)
    model.script = [Call("play_music"), "sorry"]
    forgiving = RunConfig(tool_not_found_behavior="return_error_to_model")
    assert run(agent, TRIP.task, session=session, run_config=forgiving).final_output == "sorry"
    assert "not found" in json.dumps(model.requests[-1])
    assert model.tool_names(-1) == TRIP.kept
    run(agent, TRIP.task, session=session)
    assert model.tool_names(-1) == [name for name in TRIP.tools if name in {*TRIP.kept, "play_music"}]


@every_model
def test_handoffs_are_never_touched_and_the_next_agent_is_decided_for_itself(kind: Any, model: ScriptedModel) -> None:
    gate = golden_gate()
    desk = gated(plain(model, kind=kind, name="Desk"), gate)
    agent = gated(plain(model, natives(VECTORS[3].tools), kind, handoffs=[desk]), gate)
    model.script = [Call("transfer_to_desk"), "at the desk"]
    result = run(agent, TRIP.task)
    assert result.last_agent is desk
    assert model.tool_names(0)[-1] == "transfer_to_desk"
    assert set(model.tool_names(0)[:-1]) < set(VECTORS[3].tools)
    assert model.tool_names(1) == TRIP.kept


def test_a_tool_that_the_provider_runs_passes(model: ScriptedModel) -> None:
    agent = plain(model, [WebSearchTool(), *natives(TRIP.tools)], OpenAIResponsesModel)
    run(gated(agent, golden_gate()), TRIP.task)
    assert model.tool_names() == ["web_search", *TRIP.kept]


@pytest.mark.parametrize(
    "settings",
    [
        {"model_settings": ModelSettings(tool_choice="run_sql")},
        {"tool_use_behavior": {"stop_at_tool_names": ["run_sql"]}},
    ],
    ids=["forced", "ends the run"],
)
def test_a_tool_that_the_agent_needs_stays(settings: dict[str, Any], model: ScriptedModel) -> None:
    run(gated(plain(model, **settings), golden_gate()), TRIP.task)
    assert model.tool_names() == [name for name in TRIP.tools if name in {*TRIP.kept, "run_sql"}]


@pytest.mark.parametrize("deferred", [False, True])
def test_a_deferred_tool_stays(deferred: bool) -> None:
    tools = [*natives(TRIP.tools), native("rare", "Polish a mirror", defer_loading=deferred)]
    agent = gated(Agent(name="Travel", tools=tools), golden_gate())
    context: Any = RunContextWrapper(None, turn_input=[{"role": "user", "content": TRIP.task}])
    names = [tool.name for tool in loop.run(agent.get_all_tools(context))]
    assert len(names) < len(TRIP.tools)
    assert ("rare" in names) == deferred


@pytest.mark.parametrize("choice", [None, "required"])
def test_where_nothing_is_worth_it_an_agent_has_all(choice: str | None, model: ScriptedModel) -> None:
    gate = Gate(camdf.ScoreAtLeast(2.0), overlap, PAYOFF)
    run(gated(plain(model, model_settings=ModelSettings(tool_choice=choice)), gate), TRIP.task)
    assert model.tool_names() == list(TRIP.tools)


@every_model
def test_a_scorer_that_raises_leaves_the_whole_list(kind: Any, model: ScriptedModel) -> None:
    def broken(task: str, tools: Sequence[Tool]) -> list[float]:
        raise RuntimeError

    gate = golden_gate()
    gate.scorer = broken
    run(gated(plain(model, kind=kind), gate), TRIP.task)
    assert model.tool_names() == list(TRIP.tools)


def test_runs_at_once_are_decided_each_for_itself(model: ScriptedModel) -> None:
    agent = gated(plain(model), golden_gate())
    vectors = [vector for vector in VECTORS if len(vector.tools) == len(TRIP.tools) and vector.task]

    async def together() -> None:
        await asyncio.gather(*(Runner.run(agent, vector.task) for vector in vectors))

    loop.run(together())
    seen = {request["messages"][-1]["content"]: model.tool_names(n) for n, request in enumerate(model.requests)}
    assert seen == {vector.task: vector.kept for vector in vectors}


@pytest.mark.parametrize("stored", [False, True], ids=["same process", "from storage"])
def test_an_approval_finds_its_tool_when_it_comes_back(stored: bool, model: ScriptedModel) -> None:
    """The group has the tool from an earlier run, so the task that pauses would not keep it by itself."""
    tools = [native(name, text, needs_approval=name == "play_music") for name, text in TRIP.tools.items()]
    agent, group = gated(plain(model, tools), golden_gate()), RunConfig(group_id="thread")
    run(agent, "play_music", run_config=group)
    model.script = [Call("play_music"), "played"]
    paused = run(agent, TRIP.task, run_config=group)
    assert [each.name for each in paused.interruptions] == ["play_music"]

    async def later() -> Any:
        state, again = paused.to_state(), agent
        if stored:
            again = gated(plain(model, tools), golden_gate())
            state = await RunState.from_json(again, state.to_json())
        state.approve(state.get_interruptions()[0])
        return await Runner.run(again, state, run_config=group)

    assert loop.run(later()).final_output == "played"
    assert "play_music ran" in json.dumps(model.requests[-1])
    assert model.tool_names(-1) == (list(TRIP.tools) if stored else ["play_music", *TRIP.kept])


def test_the_agent_itself_stays_as_it_was_and_clones_of_the_copy_are_gated(model: ScriptedModel) -> None:
    @dataclass
    class Own(Agent[Any]):
        pass

    agent = Own(**vars(plain(model)))
    twin = gated(agent, golden_gate())
    assert isinstance(twin, Own)
    for each in (agent, twin, twin.clone(name="Another")):
        run(each, TRIP.task)
    assert [len(model.tool_names(request)) for request in range(3)] == [len(TRIP.tools), 5, 5]


def test_the_example_runs_and_the_page_shows_its_code() -> None:
    example, page = ROOT / "examples" / "with_openai_agents.py", ROOT / "docs" / "integrations" / "openai_agents.md"
    found = subprocess.run([sys.executable, str(example)], capture_output=True, text=True, timeout=120, check=False)
    assert found.returncode == 0, found.stderr
    shown = f"```python no-run\n{example.read_text()}```\n\n```text\n{found.stdout}```"
    assert shown in page.read_text()

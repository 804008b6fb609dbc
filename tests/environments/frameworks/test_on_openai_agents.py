"""The OpenAI Agents adapter inside the framework's own Runner, over HTTP.

`ScriptedModel` stands in for the model wherever a loop must be driven: the local model of 135 million parameters never
calls a tool on purpose. One run goes through that local model.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from agents import (
    Agent,
    FunctionTool,
    HostedMCPTool,
    ModelBehaviorError,
    ModelSettings,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    RunConfig,
    RunContextWrapper,
    RunHooks,
    Runner,
    RunState,
    SQLiteSession,
    ToolGuardrailFunctionOutput,
    ToolInputGuardrail,
    ToolOutputGuardrail,
    WebSearchTool,
    function_tool,
    get_current_trace,
    set_trace_processors,
    set_tracing_disabled,
)
from agents.mcp import MCPServerStdio
from agents.tool import invoke_function_tool
from agents.tool_context import ToolContext
from agents.util._approvals import evaluate_function_tool_approval
from openai import AsyncOpenAI
from openai.types.responses import FunctionToolParam, ToolSearchToolParam
from pydantic import TypeAdapter

import camdf
import malformed
from camdf.gate import Gate, Guards, Privilege, Rollout
from camdf.integrations import openai_agents
from camdf.integrations.conformance import scripted_model as scripted
from camdf.tools import Tool, view
from golden import PAYOFF, VECTORS, Vector, golden_gate, openai_tool, overlap
from local_llm import local_llm
from pages import shows
from pauses import PAUSE, best_pause, search
from scripted import Call, ScriptedModel

ROOT = Path(__file__).parents[3]
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


def expected(vector: Vector) -> list[str]:
    """What the gate says of a conversation that begins with this task."""
    tools = [openai_tool(name, text) for name, text in vector.tools.items()]
    return list(golden_gate().decide([{"role": "user", "content": vector.task}], tools).kept)


def gated(agent: Any, gate: Gate, *, tool_search: bool = False) -> Any:
    """Without a tool search where a test says nothing of it."""
    return openai_agents.ToolGate(agent, gate, tool_search=tool_search)


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
    assert {"tool_arguments", "tool_call", "tool_call_id", "run_config"} <= set(ToolContext.__dataclass_fields__)
    assert list(inspect.signature(invoke_function_tool).parameters) == ["function_tool", "context", "arguments"]
    asked = ["function_tool", "context", "arguments", "call_id"]
    assert list(inspect.signature(evaluate_function_tool_approval).parameters)[:4] == asked
    assert "tool_choice" in ModelSettings.__dataclass_fields__
    assert get_current_trace() is None


@every_model
@every_vector
def test_the_model_gets_exactly_the_kept_tools_in_order(vector: Vector, kind: Any, model: ScriptedModel) -> None:
    agent = gated(plain(model, natives(vector.tools), kind), golden_gate())
    assert run(agent, vector.task).final_output == "done"
    assert model.tool_names() == expected(vector)


@every_model
@every_vector
def test_a_streamed_run_decides_the_same(vector: Vector, kind: Any, model: ScriptedModel) -> None:
    async def streamed() -> Any:
        result = Runner.run_streamed(gated(plain(model, natives(vector.tools), kind), golden_gate()), vector.task)
        async for _ in result.stream_events():
            pass
        return result.final_output

    assert loop.run(streamed()) == "done"
    assert model.tool_names() == expected(vector)


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
def test_ten_turns_of_a_session_never_lose_or_move_a_tool(kind: Any, model: ScriptedModel) -> None:
    agent, session = gated(plain(model, kind=kind), golden_gate()), SQLiteSession("thread")
    tasks = [vector.task for vector in VECTORS if len(vector.tools) == len(TRIP.tools) and vector.task] * 2
    for task in tasks[:10]:
        run(agent, task, session=session)
    lists = [json.dumps(request["tools"])[:-1] for request in model.requests]
    assert len(lists) == 10
    assert all(later.startswith(earlier) for earlier, later in pairwise(lists))
    assert len(lists[-1]) > len(lists[0])


@pytest.mark.parametrize("disabled", [False, True], ids=["traced", "not traced"])
def test_runs_without_a_history_are_conversations_of_their_own(disabled: bool, model: ScriptedModel) -> None:
    agent = gated(plain(model), golden_gate())
    set_tracing_disabled(disabled)
    try:
        for vector in VECTORS[1:3]:
            run(agent, vector.task, run_config=RunConfig(group_id="thread"))
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
    gate = golden_gate(counting(asked))
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
    assert model.tool_names(-1) == [*TRIP.kept, "play_music"]


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

    async def asked() -> list[Any]:
        server_conversation_tracker = None  # as a run of the framework holds it, where the history is the client's
        return list(await agent.get_all_tools(context)) if server_conversation_tracker is None else []

    names = [tool.name for tool in loop.run(asked())]
    assert len(names) < len(TRIP.tools)
    assert ("rare" in names) == deferred


@pytest.mark.parametrize("choice", [None, "required"])
def test_where_nothing_is_worth_it_an_agent_has_all(choice: str | None, model: ScriptedModel) -> None:
    gate = Gate(camdf.ScoreAtLeast(2.0), overlap, PAYOFF)
    run(gated(plain(model, model_settings=ModelSettings(tool_choice=choice)), gate), TRIP.task)
    assert model.tool_names() == list(TRIP.tools)


@every_model
@pytest.mark.parametrize("clone", [False, True])
def test_a_choice_among_nothing_never_reaches_the_provider(kind: Any, clone: bool, model: ScriptedModel) -> None:
    settings = ModelSettings(tool_choice="required", parallel_tool_calls=True, temperature=0.5)
    agent = gated(plain(model, kind=kind, model_settings=settings), golden_gate(guards=Guards(allow=())))
    agent = agent.clone(instructions="Be brief.") if clone else agent
    assert run(agent, TRIP.task).final_output == "done"
    (request,) = model.requests
    assert not request.get("tools")
    assert "tool_choice" not in request
    assert request["temperature"] == 0.5
    run(gated(plain(model, kind=kind, model_settings=settings), golden_gate()), TRIP.task, max_turns=1)
    assert model.requests[1]["tool_choice"] == "required"


def test_five_hundred_tools_do_not_hold_up_an_event_loop() -> None:
    def made(count: int) -> list[FunctionTool]:
        return [function_tool(search, name_override=f"t{i}", description_override=f"Does {i}") for i in range(count)]

    assert best_pause(made) < PAUSE


def test_tools_of_a_real_mcp_server_have_their_server() -> None:
    async def listed() -> Any:
        script, asked = Path(__file__).with_name("tool_server.py"), json.dumps({"tools": TRIP.tools})
        server = MCPServerStdio({"command": sys.executable, "args": [str(script), asked]}, name="travel")
        async with server:
            return await Agent(name="Travel", mcp_servers=[server]).get_all_tools(RunContextWrapper(None))

    found = [view(tool) for tool in loop.run(listed())]
    assert found
    assert {tool.server for tool in found} == {"travel"}


def test_a_hosted_server_is_known_by_its_label_and_pinned_whole() -> None:
    def hosted(url: str) -> HostedMCPTool:
        return HostedMCPTool(tool_config={"type": "mcp", "server_label": "docs", "server_url": url})

    one, other = view(hosted("https://docs.example")), view(hosted("https://evil.example"))
    assert (one.full_name, one.foreign) == ("docs/hosted_mcp", True)
    assert one.digest() == view(hosted("https://docs.example")).digest() != other.digest()


@every_model
def test_a_scorer_that_raises_leaves_the_whole_list(kind: Any, model: ScriptedModel) -> None:
    def broken(task: str, tools: Sequence[Tool]) -> list[float]:
        raise RuntimeError

    run(gated(plain(model, kind=kind), golden_gate(broken)), TRIP.task)
    assert model.tool_names() == list(TRIP.tools)


def test_runs_at_once_are_decided_each_for_itself(model: ScriptedModel) -> None:
    agent = gated(plain(model), golden_gate())
    vectors = [vector for vector in VECTORS if len(vector.tools) == len(TRIP.tools) and vector.task]

    async def together() -> None:
        await asyncio.gather(*(Runner.run(agent, vector.task) for vector in vectors))

    loop.run(together())
    seen = {request["messages"][-1]["content"]: model.tool_names(n) for n, request in enumerate(model.requests)}
    assert seen == {vector.task: expected(vector) for vector in vectors}


@pytest.mark.parametrize("stored", [False, True], ids=["same process", "from storage"])
def test_a_run_that_comes_back_after_an_approval_has_the_same_tools(stored: bool, model: ScriptedModel) -> None:
    tools = [native(name, text, needs_approval=name == "book_flight") for name, text in TRIP.tools.items()]
    agent = gated(plain(model, tools), golden_gate())
    model.script = [Call("book_flight"), "booked"]
    paused = run(agent, TRIP.task)
    assert [each.name for each in paused.interruptions] == ["book_flight"]
    again = gated(plain(model, tools), golden_gate()) if stored else agent
    assert approved(again, paused, stored).final_output == "booked"
    assert "book_flight ran" in json.dumps(model.requests[-1])
    assert model.requests[-1]["tools"] == model.requests[0]["tools"]


def approved(agent: Any, paused: Any, stored: bool) -> Any:
    """The rest of a paused run, once all that it waits for is approved."""

    async def later() -> Any:
        state = paused.to_state()
        if stored:
            state = await RunState.from_json(agent, state.to_json())
        for each in state.get_interruptions():
            state.approve(each)
        return await Runner.run(agent, state)

    return loop.run(later())


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


# Conversations.

BOOKING = "Book a flight and find a hotel in a city"
IMAGE = {"role": "user", "content": [{"type": "input_image", "image_url": "https://example.org/a.png"}]}


def said(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


def test_a_follow_up_keeps_its_tools_on_any_worker_after_any_restart_and_without_a_group(model: ScriptedModel) -> None:
    model.script = ["Which date?"]
    session = SQLiteSession("thread")
    result = run(gated(plain(model), golden_gate()), BOOKING, session=session)
    run(gated(plain(model), golden_gate()), "Tomorrow please", session=session)
    run(gated(plain(model), golden_gate()), [*result.to_input_list(), said("Tomorrow please")])
    first = model.requests[0]["tools"]
    assert 0 < len(first) < len(TRIP.tools)
    assert [request["tools"] for request in model.requests[1:]] == [first] * 2


@pytest.mark.parametrize("opening", [said("Hello there!"), IMAGE], ids=["a greeting", "an image"])
def test_an_opening_without_signal_does_not_open_the_conversation_for_good(opening: Any, model: ScriptedModel) -> None:
    agent = gated(plain(model, kind=OpenAIResponsesModel), golden_gate())
    history = run(agent, [opening]).to_input_list()
    history = run(agent, [*history, said(TRIP.task)]).to_input_list()
    run(agent, [*history, IMAGE])
    assert model.tool_names(0) == list(TRIP.tools)
    assert model.tool_names(1) == model.tool_names(2) == TRIP.kept


def test_one_failing_scorer_call_opens_one_run(model: ScriptedModel) -> None:
    calls: list[str] = []

    def once(task: str, tools: Sequence[Tool]) -> list[float]:
        calls.append(task)
        if len(calls) == 1:
            raise RuntimeError
        return overlap(task, tools)

    agent, session = gated(plain(model), golden_gate(once)), SQLiteSession("thread")
    run(agent, TRIP.task, session=session)
    run(agent, "And what about tomorrow?", session=session)
    assert model.tool_names(0) == list(TRIP.tools)
    assert model.tool_names(1) == TRIP.kept


@pytest.mark.parametrize(
    "elsewhere",
    [{"conversation_id": "conv_1"}, {"previous_response_id": "resp_0"}, {"auto_previous_response_id": True}],
    ids=lambda each: next(iter(each)),
)
def test_where_the_provider_keeps_the_history_nothing_is_cut(elsewhere: Any, model: ScriptedModel) -> None:
    async def streamed(agent: Any) -> None:
        async for _ in Runner.run_streamed(agent, TRIP.task, **elsewhere).stream_events():
            pass

    gate = golden_gate(guards=Guards(fallback=[]))
    agent = gated(plain(model, kind=OpenAIResponsesModel), gate, tool_search=True)
    run(agent, TRIP.task, **elsewhere)
    loop.run(streamed(agent))
    assert [model.tool_names(request) for request in range(2)] == [list(TRIP.tools)] * 2
    run(agent, TRIP.task)
    assert model.tool_names(2) == [*TRIP.kept, "find_tool", "call_tool"]


@pytest.mark.parametrize("elsewhere", [False, True], ids=["shown", "kept by the provider"])
def test_an_agent_inside_a_tool_has_a_conversation_of_its_own(elsewhere: bool, model: ScriptedModel) -> None:
    gate = golden_gate()
    inner = gated(plain(model, kind=OpenAIResponsesModel, name="Weather"), gate)
    ask = inner.as_tool("ask_weather", "Ask about the weather")
    outer = gated(
        plain(model, [ask, *natives(TRIP.tools)], kind=OpenAIResponsesModel),
        golden_gate(guards=Guards(pinned=[ask.name])),
    )
    model.script = [Call("ask_weather", {"input": VECTORS[1].task}), "Sunny", "Done"]
    run(outer, TRIP.task, **({"conversation_id": "conv_1"} if elsewhere else {}))
    assert model.tool_names(1) == VECTORS[1].kept
    assert model.tool_names(0) == model.tool_names(2)
    assert (len(model.tool_names(0)) == 1 + len(TRIP.tools)) == elsewhere


def test_where_the_provider_keeps_the_history_only_what_is_free_may_run(model: ScriptedModel) -> None:
    reading = next(iter(TRIP.tools))
    gate = golden_gate(privilege=Privilege({reading: "read"}))
    run(gated(plain(model, kind=OpenAIResponsesModel), gate), TRIP.task, conversation_id="conv_1")
    assert model.tool_names() == [reading]


# The tool search.


def through(name: str, **arguments: Any) -> Call:
    return Call("call_tool", {"name": name, "arguments": arguments})


def told(model: ScriptedModel, request: int = -1) -> str:
    """What the tools answered last, as the model saw it."""
    return str(model.requests[request]["messages"][-1]["content"])


def with_music(**settings: Any) -> list[FunctionTool]:
    """The tools, of which `play_music` says what it was called with."""

    def play_music(song: str) -> str:
        """Play a song"""
        if song == "noise":
            raise ValueError("Not that one.")
        return f"playing {song}"

    rest = [tool for tool in natives(TRIP.tools) if tool.name != "play_music"]
    return [*rest, function_tool(**settings)(play_music)]


def test_the_tool_search_leads_to_what_was_cut_and_the_list_stands(model: ScriptedModel) -> None:
    agent, session = gated(plain(model, with_music()), golden_gate(), tool_search=True), SQLiteSession("thread")
    model.script = [Call("find_tool", {"query": "play a song"}), through("play_music", song="Kyrie"), "Playing"]
    run(agent, TRIP.task, session=session)
    run(agent, "Send an email to a person about it", session=session)
    assert model.tool_names() == [*TRIP.kept, "find_tool", "call_tool"]
    assert all(request["tools"] == model.requests[0]["tools"] for request in model.requests)
    assert json.loads(told(model, 1))["tools"][0]["name"] == "play_music"
    assert model.named_by_search() == set(TRIP.tools) - set(TRIP.kept)
    assert told(model, 2) == "playing Kyrie"


def test_the_tool_search_says_what_it_does_not_lead_to(model: ScriptedModel) -> None:
    gate = golden_gate(guards=Guards(allow=[name for name in TRIP.tools if name != "run_sql"]))
    model.script = [through("run_sql"), through("switched_off"), Call("find_tool", {"query": "zzz"}), Call("call_tool")]
    tools = [*natives(TRIP.tools), native("switched_off", "Never there", is_enabled=False)]
    run(gated(plain(model, tools), gate, tool_search=True), TRIP.task)
    assert "There is no tool named 'run_sql'" in told(model, 1)
    assert "There is no tool named 'switched_off'" in told(model, 2)
    assert "run_sql" not in told(model, 3)
    assert "play_music" in told(model, 3)
    assert "takes one whole JSON object" in told(model, 4)


@pytest.mark.parametrize(
    ("pinned", "more"),
    [
        (TRIP.tools, {}),
        ((), {"tool_use_behavior": "stop_on_first_tool"}),
        ((), {"tools": [*natives(TRIP.tools), native("call_tool", "Call a tool in the shed")]}),
    ],
    ids=["nothing is cut", "the first tool ends the run", "a tool has its name"],
)
def test_there_is_no_tool_search_where_none_is_needed_or_can_be(pinned: Any, more: Any, model: ScriptedModel) -> None:
    run(gated(plain(model, **more), golden_gate(guards=Guards(pinned=pinned)), tool_search=True), TRIP.task)
    assert "find_tool" not in model.tool_names()


@pytest.mark.parametrize("stored", [False, True], ids=["same process", "from storage"])
@pytest.mark.parametrize("policy", ["always", "for this song"])
def test_an_approval_holds_behind_the_search(policy: str, stored: bool, model: ScriptedModel) -> None:
    async def asks(context: Any, parameters: dict[str, Any], call_id: str) -> bool:
        return bool(parameters["song"] == "Kyrie")

    tools = with_music(needs_approval=True if policy == "always" else asks)
    agent = gated(plain(model, tools), golden_gate(), tool_search=True)
    model.script = [through("play_music", song="Kyrie"), through("get_weather"), "played"]
    paused = run(agent, TRIP.task)
    [asked] = paused.interruptions
    assert (asked.name, json.loads(asked.arguments)["name"]) == ("call_tool", "play_music")
    again = gated(plain(model, tools), golden_gate(), tool_search=True) if stored else agent
    assert approved(again, paused, stored).final_output == "played"
    assert "playing Kyrie" in json.dumps(model.requests[1])
    assert told(model) == "get_weather ran"
    assert all(request["tools"] == model.requests[0]["tools"] for request in model.requests)


def test_guardrails_failures_and_hooks_behind_the_search(model: ScriptedModel) -> None:
    seen: list[str] = []

    def no_hymns(data: Any) -> ToolGuardrailFunctionOutput:
        seen.append(f"{data.context.tool_name} {data.context.tool_arguments}")
        hymn = "hymn" in data.context.tool_arguments
        return ToolGuardrailFunctionOutput.reject_content("no hymns") if hymn else ToolGuardrailFunctionOutput.allow()

    def nothing_loud(data: Any) -> ToolGuardrailFunctionOutput:
        loud = "loud" in data.output
        return ToolGuardrailFunctionOutput.reject_content("too loud") if loud else ToolGuardrailFunctionOutput.allow()

    class Hooks(RunHooks[Any]):
        async def on_tool_start(self, context: Any, agent: Any, tool: Any) -> None:
            seen.append(tool.name)

    tools = with_music()
    tools[-1].tool_input_guardrails = [ToolInputGuardrail(no_hymns)]
    tools[-1].tool_output_guardrails = [ToolOutputGuardrail(nothing_loud)]
    songs = ["hymn", "loud", "noise", "Kyrie"]
    model.script = [through("play_music", song=song) for song in songs]
    run(gated(plain(model, tools), golden_gate(), tool_search=True), TRIP.task, hooks=Hooks())
    assert [told(model, request) for request in (1, 2, 4)] == ["no hymns", "too loud", "playing Kyrie"]
    assert "An error occurred while running the tool" in told(model, 3)
    assert seen[0] == 'play_music {"song": "hymn"}'
    assert seen.count("call_tool") == 3


# The other modes.


def test_mode_defer_hides_what_is_cut_behind_the_search_of_openai(
    model: ScriptedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    plainly = scripted._response

    def found_by_search(step: Any, body: dict[str, Any]) -> dict[str, Any]:
        """A call to a deferred tool names it as its namespace too."""
        response = plainly(step, body)
        named = [item | ({"namespace": item["name"]} if "name" in item else {}) for item in response["output"]]
        return {**response, "output": named}

    monkeypatch.setattr(scripted, "_response", found_by_search)
    agent, session = gated(plain(model, kind=OpenAIResponsesModel), golden_gate(mode="defer")), SQLiteSession("thread")
    model.script = [Call("play_music"), "played"]
    run(agent, TRIP.task, session=session)
    run(agent, "Send an email to a person about it", session=session)
    sent = model.requests[0]["tools"]
    assert model.tool_names()[: len(TRIP.kept) + 1] == [*TRIP.kept, "tool_search"]
    assert {tool["name"] for tool in sent if tool.get("defer_loading")} == {*TRIP.tools} - {*TRIP.kept}
    for tool in sent:
        TypeAdapter(FunctionToolParam if tool["type"] == "function" else ToolSearchToolParam).validate_python(tool)
    assert "play_music ran" in json.dumps(model.requests[1])
    assert all(request["tools"] == sent for request in model.requests)
    run(agent, "Hello there!")
    assert set(model.tool_names(-1)) == {*TRIP.tools, "tool_search"}
    assert all(tool.get("defer_loading") for tool in model.requests[-1]["tools"] if tool["type"] == "function")


@pytest.mark.parametrize(
    "watching", [{"rollout": Rollout(0.0)}, {"rollout": Rollout(0.0), "mode": "defer"}, {"rollout": Rollout(off=True)}]
)
def test_conversations_outside_the_share_are_left_alone_and_get_no_tool_search(
    watching: Any, model: ScriptedModel
) -> None:
    run(gated(plain(model, kind=OpenAIResponsesModel), golden_gate(**watching), tool_search=True), TRIP.task)
    assert model.tool_names() == list(TRIP.tools)


@pytest.mark.parametrize("mode", ["defer", "allow", "shadow"])
def test_chat_completions_know_no_search_so_the_other_modes_leave_the_list(mode: Any, model: ScriptedModel) -> None:
    run(gated(plain(model), golden_gate(mode=mode), tool_search=True), TRIP.task)
    assert model.tool_names() == list(TRIP.tools)
    assert "tool_choice" not in model.requests[0]


def test_the_page_shows_what_the_example_prints() -> None:
    assert shows(ROOT / "docs" / "integrations" / "openai_agents.md", ROOT / "examples" / "with_openai_agents.py")


def with_danger(deleted: list[str]) -> list[FunctionTool]:
    danger = function_tool(
        malformed.deleting(deleted),
        name_override=malformed.NAME,
        description_override=malformed.DESCRIPTION,
        strict_mode=False,
    )
    return [*natives(TRIP.tools), danger]


@every_model
def test_a_broken_call_runs_a_tool_with_what_the_model_wrote_or_not_at_all(kind: Any, model: ScriptedModel) -> None:
    deleted: list[str] = []
    broken = malformed.slips(malformed.COUNT)
    agent = gated(plain(model, with_danger(deleted), kind=kind), golden_gate(), tool_search=True)
    for calls in malformed.at_once(broken):
        model.script = [calls]
        run(agent, TRIP.task)
    malformed.check(broken, deleted)


def test_no_slip_of_a_model_ends_a_run(model: ScriptedModel) -> None:
    deleted: list[str] = []
    model.script = [*malformed.MISUSED]
    run(gated(plain(model, with_danger(deleted)), golden_gate(), tool_search=True), TRIP.task, max_turns=100)
    sent = [message for message in model.requests[-1]["messages"] if message["role"] == "tool"]
    assert (model.script, len(sent), deleted) == ([], len(malformed.MISUSED), [])
    assert all(message["content"] for message in sent)


def test_nothing_is_cut_where_the_frames_of_a_run_are_not_as_expected(
    model: ScriptedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A version that names its variables otherwise must not have tools cut of a history that was not seen."""
    agent = gated(plain(model), golden_gate())
    frame = SimpleNamespace(f_locals={"session": SimpleNamespace(session_id="thread")}, f_back=None)
    monkeypatch.setattr(openai_agents, "sys", SimpleNamespace(_getframe=lambda depth: frame))
    run(agent, TRIP.task)
    assert model.tool_names() == list(TRIP.tools)

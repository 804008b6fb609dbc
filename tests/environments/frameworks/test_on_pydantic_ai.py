"""The capability inside real pydantic-ai agents, which talk over HTTP to a scripted model and to a real local one."""

from __future__ import annotations

import asyncio
import importlib.util
import inspect
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai import Agent
from pydantic_ai.capabilities import AbstractCapability, HandleDeferredToolCalls, ProcessHistory
from pydantic_ai.exceptions import ModelRetry, UserError
from pydantic_ai.messages import (
    ImageUrl,
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.settings import ToolOrOutput
from pydantic_ai.tool_manager import ToolManager
from pydantic_ai.tools import (
    DeferredToolRequests,
    DeferredToolResults,
    RunContext,
    Tool,
    ToolApproved,
    ToolDefinition,
    ToolDenied,
)
from pydantic_ai.toolsets import FunctionToolset, ToolsetTool

import camdf.tools
import malformed
from camdf.gate import Gate, Guards, Limits, Rollout
from camdf.integrations.pydantic_ai import ToolGate
from golden import VECTORS, Vector, golden_gate, openai_tool, overlap
from local_llm import local_llm
from pages import shows
from pauses import PAUSE, best_pause, search
from scripted import Call, ScriptedModel, Step

ROOT = Path(__file__).parents[3]
WEATHER = VECTORS[1]
EMPTY: dict[str, Any] = {"type": "object", "properties": {}}


def native(tools: Mapping[str, str]) -> list[Tool]:
    def run() -> str:
        return "ran"

    return [Tool.from_schema(run, name, description, EMPTY) for name, description in tools.items()]


def expected(vector: Vector) -> list[str]:
    """What the gate says of a conversation that begins with this task."""
    tools = [openai_tool(name, text) for name, text in vector.tools.items()]
    return list(golden_gate().decide([{"role": "user", "content": vector.task}], tools).kept)


def made(url: str, gate: Gate, tools: Sequence[Tool], tool_search: bool = False, **settings: Any) -> Agent[None, Any]:
    model = OpenAIChatModel("scripted", provider=OpenAIProvider(base_url=url, api_key="none"))
    more = settings.pop("capabilities", ())
    chosen = settings.pop("model", model)
    return Agent(chosen, tools=tools, capabilities=[ToolGate(gate, tool_search=tool_search), *more], **settings)


def answers(messages: Sequence[ModelMessage]) -> dict[str, str]:
    """What each tool call was answered."""
    parts = [part for message in messages for part in message.parts]
    return {part.tool_name: json.dumps(part.content) for part in parts if isinstance(part, ToolReturnPart)}


def test_five_hundred_tools_do_not_hold_up_an_event_loop() -> None:
    def made(count: int) -> list[ToolDefinition]:
        return [Tool(search, name=f"t{i}", description=f"Does {i}", takes_ctx=False).tool_def for i in range(count)]

    assert best_pause(made) < PAUSE


def test_a_tool_has_the_server_that_its_toolset_is_named_after() -> None:
    served: list[str] = []

    def noting(task: str, tools: Sequence[camdf.tools.Tool]) -> list[float]:
        served.extend(tool.full_name for tool in tools)
        return overlap(task, tools)

    mail = FunctionToolset(native({"send": "Send a mail"}), id="mail")
    with ScriptedModel() as model:
        made(model.url, golden_gate(noting), native({"play": "Play a song"}), toolsets=[mail]).run_sync(WEATHER.task)
    assert served == ["play", "mail/send"]


@pytest.mark.parametrize("where", ["agent", "run"])
def test_a_choice_among_nothing_never_reaches_the_provider(where: str) -> None:
    """pydantic-ai refuses a choice of "required" itself, whatever the gate keeps."""
    choice: Any = {"tool_choice": "required"}
    with ScriptedModel() as model:
        settings = {"model_settings": choice} if where == "agent" else {}
        agent = made(model.url, golden_gate(guards=Guards(allow=())), native(WEATHER.tools), **settings)
        with pytest.raises(UserError, match="tool_choice='required'"):
            agent.run_sync(WEATHER.task, model_settings=choice if where == "run" else None)
        assert not model.requests


def test_pydantic_ai_has_every_hook_that_the_capability_relies_on() -> None:
    assert list(inspect.signature(AbstractCapability.get_wrapper_toolset).parameters) == ["self", "toolset"]
    assert list(inspect.signature(AbstractCapability.get_model_settings).parameters) == ["self"]
    assert AbstractCapability.get_serialization_name() is not None
    read = {"messages", "agent", "model", "max_retries", "root_capability", "tool_manager", "model_settings"}
    called = {"tool_call_id", "tool_call_approved", "tool_call_metadata"}
    assert read | called <= set(RunContext.__dataclass_fields__)
    fields = set(ToolDefinition.__dataclass_fields__)
    assert {"name", "description", "parameters_json_schema", "defer_loading", "metadata", "sequential"} <= fields
    assert {"toolset", "tool_def", "max_retries", "args_validator"} <= set(ToolsetTool.__dataclass_fields__)
    assert list(ToolManager.__dataclass_fields__)[:4] == ["toolset", "root_capability", "ctx", "tools"]
    handled = inspect.signature(ToolManager.handle_call).parameters
    assert {"call", "approved", "metadata", "wrap_validation_errors"} <= set(handled)
    assert "tool_name" in ToolCallPart.__dataclass_fields__
    assert "content" in UserPromptPart.__dataclass_fields__
    assert ToolOrOutput(function_tools=["a"]).function_tools == ["a"]


@pytest.mark.parametrize("vector", VECTORS, ids=[each.task or "no task" for each in VECTORS])
def test_the_model_is_sent_exactly_the_tools_that_the_gate_keeps_in_order(vector: Vector) -> None:
    """The scripted model stands in for a real one: the 135M model that runs here cannot drive an agent loop."""
    with ScriptedModel() as model:
        result = made(model.url, golden_gate(), native(vector.tools)).run_sync(vector.task)
        assert result.output == "done"
        assert model.tool_names() == expected(vector)


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
        assert [model.tool_names(run) for run in range(3)] == [expected(vector) for vector in VECTORS[:3]]


def test_a_call_to_a_cut_tool_is_answered_unknown_and_offered_from_then_on() -> None:
    with ScriptedModel([Call("play_music"), Call("play_music"), "Done"]) as model:
        result = made(model.url, golden_gate(), native(WEATHER.tools)).run_sync(WEATHER.task)
        told = [message for message in model.requests[1]["messages"] if message["role"] == "tool"]
        assert "Unknown tool name: 'play_music'" in told[0]["content"]
        assert model.tool_names(1) == [*WEATHER.kept, "play_music"]
    assert answers(result.all_messages())["play_music"] == '"ran"'


def test_a_refused_tool_stays_away_even_when_the_model_calls_it() -> None:
    gate = golden_gate(guards=Guards(allow=[name for name in WEATHER.tools if name != "run_sql"]))
    with ScriptedModel([Call("run_sql"), "Done"]) as model:
        made(model.url, gate, native(WEATHER.tools)).run_sync(WEATHER.task)
        assert model.tool_names(1) == WEATHER.kept


def test_no_note_is_lost_where_a_history_is_processed_before_it_is_sent() -> None:
    history = [ModelRequest([UserPromptPart(WEATHER.task)]), ModelResponse([TextPart("Rain.")])]
    last = ProcessHistory(lambda messages: messages[-1:])
    gate = golden_gate(mode="append", limits=Limits(cached_prefix=0))
    with ScriptedModel() as model:
        agent = made(model.url, gate, native(WEATHER.tools), tool_search=True, capabilities=[last])
        agent.run_sync("Thank you so much for all of your help with this", message_history=history)
        assert model.tool_names() == ["find_tool", "call_tool"]
        (said,) = (message["content"] for message in model.requests[0]["messages"])
    assert all(f"- {name}(" in said for name in WEATHER.kept)


def test_tools_that_the_history_has_called_are_kept() -> None:
    with ScriptedModel([Call("play_music"), "Playing"]) as model:
        ungated = Agent(
            OpenAIChatModel("scripted", provider=OpenAIProvider(base_url=model.url, api_key="none")),
            tools=native(WEATHER.tools),
        )
        history = ungated.run_sync("Hello there").all_messages()
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
        pinned = golden_gate(guards=Guards(pinned=["play_music"]))
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

    gate = golden_gate(broken)
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
    assert found == {vector.task: expected(vector) for vector in vectors}


# Conversations.

BOOKING = "Book a flight and find a hotel in a city"


def test_a_follow_up_keeps_its_tools_on_any_worker_after_any_restart_and_without_a_thread_id() -> None:
    with ScriptedModel(["Which date?"]) as model:
        history = made(model.url, golden_gate(), native(WEATHER.tools)).run_sync(BOOKING).all_messages()
        stored = ModelMessagesTypeAdapter.validate_json(ModelMessagesTypeAdapter.dump_json(history))
        rebuilt: list[ModelMessage] = [
            ModelRequest([UserPromptPart(BOOKING)]),
            ModelResponse([TextPart("Which date?")]),
        ]
        for told in (history, stored, rebuilt):
            made(model.url, golden_gate(), native(WEATHER.tools)).run_sync("Tomorrow please", message_history=told)
        first = model.requests[0]["tools"]
        assert 0 < len(first) < len(WEATHER.tools)
        assert [request["tools"] for request in model.requests[1:]] == [first] * 3


IMAGE = [ImageUrl("https://example.org/map.png")]


@pytest.mark.parametrize("opening", ["Hello there!", IMAGE], ids=["a greeting", "an image"])
def test_an_opening_without_signal_does_not_open_the_conversation_for_good(opening: Any) -> None:
    with ScriptedModel() as model:
        agent = made(model.url, golden_gate(), native(WEATHER.tools))
        history = agent.run_sync(opening).all_messages()
        history = agent.run_sync(WEATHER.task, message_history=history).all_messages()
        agent.run_sync(IMAGE, message_history=history)
        assert model.tool_names(0) == list(WEATHER.tools)
        assert model.tool_names(1) == model.tool_names(2) == WEATHER.kept


def test_one_failing_scorer_call_opens_one_request() -> None:
    calls: list[str] = []

    def once(task: str, tools: Any) -> list[float]:
        calls.append(task)
        if len(calls) == 1:
            raise RuntimeError("no scores today")
        return overlap(task, tools)

    with ScriptedModel() as model:
        agent = made(model.url, golden_gate(once), native(WEATHER.tools))
        history = agent.run_sync(WEATHER.task).all_messages()
        agent.run_sync("And what about the day after?", message_history=history)
        assert model.tool_names(0) == list(WEATHER.tools)
        assert model.tool_names(1) == WEATHER.kept


def test_a_run_that_comes_back_after_an_approval_has_the_same_tools() -> None:
    def agent(url: str) -> Agent[None, Any]:
        tools = native(WEATHER.tools)
        for tool in tools:
            tool.requires_approval = tool.name == "get_weather"
        return made(url, golden_gate(), tools, output_type=[str, DeferredToolRequests])

    with ScriptedModel([Call("get_weather"), "Sunny"]) as model:
        paused = agent(model.url).run_sync(WEATHER.task)
        [asked] = paused.output.approvals
        history = ModelMessagesTypeAdapter.validate_json(paused.all_messages_json())
        answer = DeferredToolResults(approvals={asked.tool_call_id: True})
        assert agent(model.url).run_sync(message_history=history, deferred_tool_results=answer).output == "Sunny"
        assert model.tool_names(0) == WEATHER.kept
        assert model.requests[1]["tools"] == model.requests[0]["tools"]


def test_a_sub_agent_has_a_conversation_of_its_own() -> None:
    with ScriptedModel([Call("ask", {"question": WEATHER.task}), "Sunny", "Done"]) as model:
        gate = golden_gate(guards=Guards(pinned=["ask"]))
        inner = made(model.url, gate, native(WEATHER.tools))

        async def ask(question: str) -> str:
            return str((await inner.run(question)).output)

        outer = made(model.url, gate, [*native(WEATHER.tools), Tool(ask, name="ask")])
        assert outer.run_sync("Send an email to a person").output == "Done"
        assert model.tool_names(1) == WEATHER.kept
        assert model.tool_names(0) == model.tool_names(2)
        assert "get_weather" not in model.tool_names(0)


# The tool search.


def told(model: ScriptedModel, request: int = -1) -> str:
    """What the tools answered last, as the model saw it."""
    return str(model.requests[request]["messages"][-1]["content"])


def through(name: str, **arguments: Any) -> Call:
    return Call("call_tool", {"name": name, "arguments": arguments})


def echoing(**settings: Any) -> list[Tool]:
    """The tools, of which `play_music` says what it was called with."""

    def play(song: str) -> str:
        if song == "noise":
            raise ModelRetry("Not that one.")
        return f"playing {song}"

    rest = [tool for tool in native(WEATHER.tools) if tool.name != "play_music"]
    return [*rest, Tool(play, name="play_music", description="Play a song", **settings)]


def test_the_tool_search_leads_to_what_was_cut_and_the_list_stands() -> None:
    script: list[Step] = [
        Call("find_tool", {"query": "play a song"}),
        through("play_music", song="Kyrie"),
        "Playing",
        "Done",
    ]
    with ScriptedModel(script) as model:
        agent = made(model.url, golden_gate(), echoing(), tool_search=True)
        result = agent.run_sync(WEATHER.task)
        agent.run_sync("Send an email to a person about it", message_history=result.all_messages())
        assert model.tool_names() == [*WEATHER.kept, "find_tool", "call_tool"]
        assert all(request["tools"] == model.requests[0]["tools"] for request in model.requests)
        assert json.loads(told(model, 1))["tools"][0]["name"] == "play_music"
        assert model.named_by_search() == set(WEATHER.tools) - set(WEATHER.kept)
        assert told(model, 2) == "playing Kyrie"


def test_the_tool_search_says_what_it_does_not_lead_to() -> None:
    gate = golden_gate(guards=Guards(allow=[name for name in WEATHER.tools if name != "run_sql"]))
    script: list[Step] = [through("run_sql"), through("nothing"), Call("find_tool", {"query": "zzz"}), "Done"]
    with ScriptedModel(script) as model:
        made(model.url, gate, native(WEATHER.tools), tool_search=True, retries=0).run_sync(WEATHER.task)
        assert "There is no tool named 'run_sql'" in told(model, 1)
        assert "There is no tool named 'nothing'" in told(model, 2)
        assert "run_sql" not in told(model, 3)
        assert "play_music" in told(model, 3)


@pytest.mark.parametrize("needed", [False, True], ids=["nothing is cut", "a tool has its name"])
def test_there_is_no_tool_search_where_none_is_needed_or_its_name_is_taken(needed: bool) -> None:
    tools = {**WEATHER.tools, "find_tool": "Find a tool in the shed"} if needed else WEATHER.tools
    with ScriptedModel() as model:
        gate = golden_gate(guards=Guards(pinned=() if needed else WEATHER.tools))
        made(model.url, gate, native(tools), tool_search=True).run_sync(WEATHER.task)
        assert "call_tool" not in model.tool_names()


def test_mistakes_behind_the_search_are_retries_of_the_call_and_hooks_see_both_tools() -> None:
    seen: list[str] = []

    class Note(AbstractCapability[None]):
        async def before_tool_execute(self, ctx: Any, *, call: Any, tool_def: Any, args: Any) -> Any:
            seen.append(call.tool_name)
            return args

    script: list[Step] = [
        through("play_music", tune="Kyrie"),
        through("play_music", song="noise"),
        through("play_music", song="b"),
    ]
    with ScriptedModel([*script, "Done"]) as model:
        agent = made(model.url, golden_gate(), echoing(), tool_search=True, capabilities=[Note()], retries=2)
        agent.run_sync(WEATHER.task)
        assert "song" in told(model, 1)
        assert "Not that one." in told(model, 2)
        assert told(model, 3) == "playing b"
    assert seen == ["call_tool", "call_tool", "play_music", "call_tool", "play_music"]


@pytest.mark.parametrize("approved", [True, False])
def test_an_approval_holds_behind_the_search_and_after_a_restart(approved: bool) -> None:
    def agent(url: str) -> Agent[None, Any]:
        tools = echoing(requires_approval=True)
        return made(url, golden_gate(), tools, tool_search=True, output_type=[str, DeferredToolRequests])

    with ScriptedModel([through("play_music", song="Kyrie"), "Done"]) as model:
        paused = agent(model.url).run_sync(WEATHER.task)
        [asked] = paused.output.approvals
        assert (asked.tool_name, asked.args_as_dict()["name"]) == ("call_tool", "play_music")
        history = ModelMessagesTypeAdapter.validate_json(paused.all_messages_json())
        answer = DeferredToolResults(approvals={asked.tool_call_id: approved})
        agent(model.url).run_sync(message_history=history, deferred_tool_results=answer)
        assert ("playing Kyrie" in told(model)) == approved
        assert model.requests[1]["tools"] == model.requests[0]["tools"]


@pytest.mark.parametrize("answer", [ToolApproved(), ToolDenied("Not now.")], ids=["approved", "denied"])
def test_a_handler_of_approvals_sees_the_tool_behind_the_search(answer: Any) -> None:
    asked: list[str] = []

    def handler(ctx: Any, requests: DeferredToolRequests) -> DeferredToolResults:
        asked.extend(call.tool_name for call in requests.approvals)
        return DeferredToolResults(approvals={call.tool_call_id: answer for call in requests.approvals})

    with ScriptedModel([through("play_music", song="Kyrie"), "Done"]) as model:
        tools = echoing(requires_approval=True)
        made(
            model.url, golden_gate(), tools, tool_search=True, capabilities=[HandleDeferredToolCalls(handler)]
        ).run_sync(WEATHER.task)
        assert told(model) == ("playing Kyrie" if isinstance(answer, ToolApproved) else "Not now.")
    assert asked == ["play_music"]


# The other modes.


def test_mode_defer_hides_what_is_cut_until_a_search_finds_it() -> None:
    script: list[Step] = [
        Call("search_tools", {"queries": ["song"]}),
        Call("play_music", {"song": "Kyrie"}),
        "Done",
        "Done",
    ]
    with ScriptedModel(script) as model:
        agent = made(model.url, golden_gate(mode="defer"), echoing())
        result = agent.run_sync(WEATHER.task)
        assert model.tool_names(0) == [*WEATHER.kept, "search_tools"]
        assert set(model.tool_names(1)) == {*WEATHER.kept, "search_tools", "play_music"}
        assert told(model, 2) == "playing Kyrie"
        again = made(model.url, golden_gate(mode="defer"), echoing())
        again.run_sync("And once more, please", message_history=result.all_messages())
        assert model.requests[3]["tools"] == model.requests[2]["tools"]


def test_mode_defer_uses_the_tool_search_of_openai() -> None:
    with ScriptedModel() as model:
        served = OpenAIResponsesModel("gpt-5.4", provider=OpenAIProvider(base_url=model.url, api_key="none"))
        made(model.url, golden_gate(mode="defer"), native(WEATHER.tools), model=served).run_sync(WEATHER.task)
        sent = model.requests[0]["tools"]
    assert "tool_search" in [tool["type"] for tool in sent]
    assert [tool["name"] for tool in sent if "name" in tool and not tool.get("defer_loading")] == WEATHER.kept
    assert {tool["name"] for tool in sent if tool.get("defer_loading")} == {*WEATHER.tools} - {*WEATHER.kept}


def test_mode_allow_leaves_the_list_and_names_what_may_be_called() -> None:
    with ScriptedModel([Call("get_weather"), "Done"]) as model:
        served = OpenAIResponsesModel("gpt-5.4", provider=OpenAIProvider(base_url=model.url, api_key="none"))
        agent = made(model.url, golden_gate(mode="allow"), native(WEATHER.tools), model=served)
        history = agent.run_sync(WEATHER.task).all_messages()
        agent.run_sync("Hello there!")
        agent.run_sync("And now?", message_history=history, model_settings={"tool_choice": "none"})
        choices: list[Any] = [request.get("tool_choice") for request in model.requests]
        assert all(model.tool_names(request) == model.tool_names(0) for request in range(4))
    assert set(model.tool_names(0)) == set(WEATHER.tools)
    assert [{tool["name"] for tool in choice["tools"]} for choice in choices[:2]] == [set(WEATHER.kept)] * 2
    assert [choice["mode"] for choice in choices[:2]] == ["auto"] * 2
    assert choices[2:] == ["auto", "none"]


@pytest.mark.parametrize("watching", [{"mode": "shadow"}, {"rollout": Rollout(0.0)}, {"rollout": Rollout(off=True)}])
def test_mode_shadow_changes_nothing(watching: Any) -> None:
    with ScriptedModel() as model:
        made(model.url, golden_gate(**watching), native(WEATHER.tools), tool_search=True).run_sync(WEATHER.task)
        assert model.tool_names() == list(WEATHER.tools)


def test_the_page_shows_what_the_example_prints() -> None:
    assert shows(ROOT / "docs" / "integrations" / "pydantic_ai.md", ROOT / "examples" / "with_pydantic_ai.py")


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pydantic_ai.capabilities", None)
    spec = importlib.util.find_spec("camdf.integrations.pydantic_ai")
    assert spec is not None
    assert spec.loader is not None
    with pytest.raises(ImportError, match=r"camdf\[pydantic-ai\]"):
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


def with_danger(deleted: list[str]) -> list[Tool]:
    danger = Tool(malformed.deleting(deleted), name=malformed.NAME, description=malformed.DESCRIPTION)
    return [*native(WEATHER.tools), danger]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_a_broken_call_runs_a_tool_with_what_the_model_wrote_or_not_at_all(stream: bool) -> None:
    async def streamed(agent: Agent[None, Any]) -> None:
        async with agent.run_stream(WEATHER.task) as answer:
            await answer.get_output()

    deleted: list[str] = []
    broken = malformed.slips(malformed.COUNT)
    with ScriptedModel() as model:
        agent = made(model.url, golden_gate(), with_danger(deleted), tool_search=True)
        for calls in malformed.at_once(broken):
            model.script = [calls]
            asyncio.run(streamed(agent)) if stream else agent.run_sync(WEATHER.task)
    malformed.check(broken, deleted)


def test_no_slip_of_a_model_ends_a_run() -> None:
    deleted: list[str] = []
    with ScriptedModel([*malformed.MISUSED]) as model:
        answer = made(model.url, golden_gate(), with_danger(deleted), tool_search=True, retries=0).run_sync(
            WEATHER.task
        )
        assert (model.script, answer.output, deleted) == ([], "done", [])
        sent = [message for message in model.requests[-1]["messages"] if message["role"] == "tool"]
    assert len(sent) == len(malformed.MISUSED)
    assert all(message["content"] for message in sent)

"""The LangChain adapter inside real LangChain agents, over HTTP.

`ScriptedModel` stands in for the model wherever a loop must be driven: the local model of 135 million parameters never
calls a tool on purpose. One run goes through that local model.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("langchain.agents.middleware")

import httpx
from langchain.agents import create_agent
from langchain.agents.middleware import (
    AgentMiddleware,
    HumanInTheLoopMiddleware,
    LLMToolSelectorMiddleware,
    ModelRequest,
    SummarizationMiddleware,
    wrap_model_call,
)
from langchain.agents.middleware.types import ExtendedModelResponse, ModelResponse
from langchain.agents.structured_output import ToolStrategy
from langchain.tools import ToolRuntime
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import BaseTool, StructuredTool, tool
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.runtime import ExecutionInfo, Runtime
from langgraph.types import Command
from pydantic import BaseModel

import malformed
from camdf.gate import Gate, Guards, Limits, Records, Rollout
from camdf.gate.notes import BEGINS
from camdf.integrations.langchain import HANDOFF, ToolGate
from camdf.tools import Tool, view
from golden import PAYOFF, VECTORS, Vector, golden_gate, openai_tool, overlap
from local_llm import local_llm
from pages import shows
from pauses import PAUSE, best_pause, search
from scripted import Call, ScriptedModel

ROOT = Path(__file__).parents[3]
TRIP = VECTORS[0]
MAIL = VECTORS[2]
SEARCH = {"type": "tool_search"}


def chat(url: str, **settings: Any) -> ChatOpenAI:
    return ChatOpenAI(base_url=url, api_key="none", model="scripted", max_retries=0, **settings)


def natives(tools: dict[str, str]) -> list[BaseTool]:
    return [
        StructuredTool.from_function(lambda name=name: f"{name} ran", name=name, description=text, args_schema={})
        for name, text in tools.items()
    ]


def user(text: str) -> dict[str, Any]:
    return {"messages": [HumanMessage(text)]}


def kept(vector: Vector) -> list[str]:
    """What the library keeps of a conversation that is one task."""
    tools = [openai_tool(name, text) for name, text in vector.tools.items()]
    return list(golden_gate().decide([{"role": "user", "content": vector.task}], tools).kept)


def thread(name: str) -> dict[str, Any]:
    return {"configurable": {"thread_id": name}}


@pytest.fixture
def model() -> Iterator[ScriptedModel]:
    with ScriptedModel() as served:
        yield served


def gated(model: ScriptedModel, tools: Sequence[Any] = (), gate: Gate | None = None, **settings: Any) -> Any:
    offered = tools or natives(TRIP.tools)
    gated = ToolGate(gate or golden_gate(), tool_search=settings.pop("tool_search", False))
    middleware = [*settings.pop("outer", ()), gated, *settings.pop("inner", ())]
    llm = chat(model.url, streaming=settings.pop("streaming", False))
    return create_agent(llm, offered, middleware=middleware, **settings)


def test_five_hundred_tools_do_not_hold_up_an_event_loop() -> None:
    def made(count: int) -> list[BaseTool]:
        return [StructuredTool.from_function(search, name=f"t{i}", description=f"Does {i}") for i in range(count)]

    assert best_pause(made, rounds=2) < PAUSE


def test_the_server_of_a_tool_is_told_and_not_read_from_its_metadata(model: ScriptedModel) -> None:
    (one,) = natives({"send": "Send a mail"})
    assert view(one.model_copy(update={"metadata": {"server": "mail"}})).server == ""
    decisions: list[Any] = []
    gate = golden_gate(guards=Guards(allow=["mail/send"]), records=Records(on_decision=decisions.append))
    agent = create_agent(
        chat(model.url), [one], middleware=[ToolGate(gate, servers={"mail": [one]}, tool_search=False)]
    )
    agent.invoke(user("Send a mail to Ada and to her brother"))
    assert model.tool_names(0) == ["send"]
    assert gate.sink is not None
    gate.sink.drain()
    assert decisions[0].servers == {"send": "mail"}


def test_a_choice_among_nothing_never_reaches_the_provider(model: ScriptedModel) -> None:
    @wrap_model_call
    def insisting(request: Any, handler: Any) -> Any:
        return handler(request.override(tool_choice="any"))

    gated(model, gate=golden_gate(guards=Guards(allow=())), outer=[insisting]).invoke(user(TRIP.task))
    assert not {"tools", "tool_choice"} & set(model.requests[0])
    gated(model, outer=[insisting]).invoke(user(TRIP.task))
    assert model.requests[1]["tool_choice"] == "required"


def test_langchain_has_every_hook_that_the_adapter_relies_on() -> None:
    for name in ("before_agent", "after_agent"):
        assert list(inspect.signature(getattr(AgentMiddleware, name)).parameters) == ["self", "state", "runtime"]
    for name in ("wrap_model_call", "awrap_model_call"):
        assert list(inspect.signature(getattr(AgentMiddleware, name)).parameters) == ["self", "request", "handler"]
    fields = set(ModelRequest.__dataclass_fields__)
    assert {"messages", "state", "tool_choice", "tools"} <= fields
    assert "overrides" in inspect.signature(ModelRequest.override).parameters
    assert "execution_info" in Runtime.__dataclass_fields__
    assert "thread_id" in ExecutionInfo.__dataclass_fields__
    assert {"state", "tools"} <= set(ToolRuntime.__dataclass_fields__)
    assert {"model_response", "command"} <= set(ExtendedModelResponse.__dataclass_fields__)
    assert "result" in ModelResponse.__dataclass_fields__
    assert "extras" in BaseTool.model_fields
    assert hasattr(AgentMiddleware, "state_schema")
    assert "tools" in AgentMiddleware.__annotations__


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector.task or "nothing")
def test_the_model_gets_exactly_the_kept_tools_in_order(vector: Vector, model: ScriptedModel) -> None:
    answer = gated(model, natives(vector.tools)).invoke(user(vector.task))
    assert answer["messages"][-1].text == "done"
    assert model.tool_names() == kept(vector)


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector.task or "nothing")
def test_the_asynchronous_run_decides_the_same(vector: Vector, model: ScriptedModel) -> None:
    asyncio.run(gated(model, natives(vector.tools)).ainvoke(user(vector.task)))
    assert model.tool_names() == kept(vector)


def test_a_real_local_model_answers_with_the_kept_tools_on_the_wire() -> None:
    sent: list[dict[str, Any]] = []
    client = httpx.Client(event_hooks={"request": [lambda request: sent.append(json.loads(request.content))]})
    with local_llm() as url:
        llm = chat(url, http_client=client, max_tokens=24, temperature=0, timeout=300)
        agent = create_agent(llm, natives(TRIP.tools), middleware=[ToolGate(golden_gate(), tool_search=False)])
        answer = agent.invoke(user(TRIP.task), {"recursion_limit": 4})
    assert [tool["function"]["name"] for tool in sent[0]["tools"]] == TRIP.kept
    assert answer["messages"][-1].usage_metadata["output_tokens"] > 0


def test_ten_turns_of_a_thread_never_lose_or_move_a_tool(model: ScriptedModel) -> None:
    agent = gated(model, checkpointer=InMemorySaver())
    tasks = [vector.task for vector in VECTORS if len(vector.tools) == len(TRIP.tools) and vector.task] * 2
    for task in tasks[:10]:
        agent.invoke(user(task), thread("a"))
    lists = [json.dumps(request["tools"])[:-1] for request in model.requests]
    assert len(lists) == 10
    assert all(later.startswith(earlier) for earlier, later in pairwise(lists))
    agent.invoke(user(TRIP.task), thread("b"))
    assert model.tool_names(-1) == TRIP.kept


def test_a_run_scores_once_however_often_it_calls_the_model(model: ScriptedModel) -> None:
    scored: list[str] = []

    def counting(task: str, tools: Sequence[Tool]) -> list[float]:
        scored.append(task)
        return overlap(task, tools)

    gate = Gate(golden_gate().policy, counting, PAYOFF)
    model.script = [Call("book_flight"), Call("book_hotel")]
    gated(model, gate=gate).invoke(user(TRIP.task))
    assert [model.tool_names(request) for request in range(3)] == [TRIP.kept] * 3
    assert scored == [TRIP.task]


def test_runs_without_a_thread_are_decided_apart(model: ScriptedModel) -> None:
    agent = gated(model)
    for vector in VECTORS[:2]:
        agent.invoke(user(vector.task))
    assert [model.tool_names(0), model.tool_names(1)] == [VECTORS[0].kept, VECTORS[1].kept]


def test_the_gate_is_told_the_user_whom_a_run_names(model: ScriptedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    gate = golden_gate()
    decide = gate.decide

    def listening(*given: Any, user: str = "", **others: Any) -> Any:
        asked.append(user)
        return decide(*given, user=user, **others)

    monkeypatch.setattr(gate, "decide", listening)
    agent = create_agent(chat(model.url), natives(TRIP.tools), middleware=[ToolGate(gate)])
    agent.invoke(user(TRIP.task), {"configurable": {"user_id": "ada"}})
    agent.invoke(user(TRIP.task))
    assert asked == ["ada", ""]


def follow_up(agent: Any, *before: Any) -> Any:
    """A follow-up question with the history as the client has it."""
    said = [*before, HumanMessage("Book a flight and find a hotel"), AIMessage("Which date?")]
    return agent.invoke({"messages": [*said, HumanMessage("Tomorrow please")]})


def test_a_follow_up_keeps_its_tools_on_another_worker_after_a_restart_and_without_a_thread(
    model: ScriptedModel,
) -> None:
    saved = InMemorySaver()
    gated(model, checkpointer=saved).invoke(user("Book a flight and find a hotel"), thread("a"))
    gated(model, checkpointer=saved).invoke(user("Tomorrow please"), thread("a"))
    follow_up(gated(model))
    lists = [request["tools"] for request in model.requests]
    assert lists[0] == lists[1] == lists[2]
    assert {"book_flight", "find_hotel"} <= set(model.tool_names(2))
    assert len(lists[2]) < len(TRIP.tools)


@pytest.mark.parametrize("first", ["hello", [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}}]])
def test_a_greeting_or_a_picture_opens_the_list_until_a_turn_says_something(first: Any, model: ScriptedModel) -> None:
    agent = gated(model)
    agent.invoke({"messages": [HumanMessage(first)]})
    assert model.tool_names(0) == list(TRIP.tools)
    follow_up(agent, HumanMessage(first), AIMessage("Hello!"))
    follow_up(agent)
    assert model.tool_names(1) == model.tool_names(2) != model.tool_names(0)


def test_one_failure_of_the_scorer_does_not_open_a_thread_for_good(model: ScriptedModel) -> None:
    failures = [RuntimeError("no scores now")]

    def fragile(task: str, tools: Sequence[Tool]) -> list[float]:
        if failures:
            raise failures.pop()
        return overlap(task, tools)

    agent = gated(model, gate=golden_gate(fragile), checkpointer=InMemorySaver())
    for _ in range(2):
        agent.invoke(user(TRIP.task), thread("a"))
    assert [model.tool_names(0), model.tool_names(1)] == [list(TRIP.tools), TRIP.kept]


class Nudge(AgentMiddleware):
    """Writes into the history, under the user's name."""

    def before_model(self, state: Any, runtime: Any) -> dict[str, Any]:
        return {"messages": [HumanMessage(MAIL.task)]}


def test_what_middleware_writes_into_the_history_is_no_turn_in_this_run_or_a_later_one(model: ScriptedModel) -> None:
    agent = gated(model, outer=[Nudge()], checkpointer=InMemorySaver())
    model.script = [Call("book_flight")]
    for task in (TRIP.task, TRIP.task):
        agent.invoke(user(task), thread("a"))
    assert [model.tool_names(request) for request in range(3)] == [TRIP.kept] * 3


def test_a_summary_takes_the_place_of_the_turns(model: ScriptedModel) -> None:
    summary = SummarizationMiddleware(model=chat(model.url), trigger=("messages", 3), keep=("messages", 1))
    agent = gated(model, outer=[summary], checkpointer=InMemorySaver())
    agent.invoke(user(TRIP.task), thread("a"))
    model.script = ["The user wants to send an email to a person."]
    agent.invoke(user("Yes, go on"), thread("a"))
    assert "tools" not in model.requests[1]  # it asks the model for the summary
    assert "send_email" in model.tool_names(2)
    assert "book_flight" not in model.tool_names(2)


def test_langchain_still_executes_a_cut_tool_and_it_is_offered_from_then_on(model: ScriptedModel) -> None:
    model.script = [Call("play_music")]
    answer = gated(model).invoke(user(TRIP.task))
    results = [message.text for message in answer["messages"] if isinstance(message, ToolMessage)]
    assert results == ["play_music ran"]
    assert model.tool_names(0) == TRIP.kept
    assert model.tool_names(1) == [*TRIP.kept, "play_music"]


def test_a_tool_that_may_not_be_offered_does_not_run_when_it_is_called_from_memory(model: ScriptedModel) -> None:
    model.script = [Call("run_sql")]
    answer = gated(model, gate=golden_gate(guards=Guards(allow=lambda tool: tool.name != "run_sql"))).invoke(
        user(TRIP.task)
    )
    assert [message.text for message in answer["messages"] if isinstance(message, ToolMessage)] == [
        "run_sql may not be used."
    ]
    assert "run_sql" not in model.tool_names(0) + model.tool_names(1)


def test_a_tool_that_was_never_there_is_answered_to_the_model(model: ScriptedModel) -> None:
    model.script = [Call("nothing_of_that_name")]
    answer = gated(model).invoke(user(TRIP.task))
    (result,) = [message for message in answer["messages"] if isinstance(message, ToolMessage)]
    assert result.status == "error"
    assert "not a valid tool" in result.text


def test_a_scorer_that_raises_leaves_every_tool(model: ScriptedModel) -> None:
    def broken(task: str, tools: Sequence[Tool]) -> list[float]:
        raise RuntimeError("no scores today")

    gate = Gate(golden_gate().policy, broken, PAYOFF)
    gated(model, gate=gate).invoke(user(TRIP.task))
    assert model.tool_names() == list(TRIP.tools)
    assert gate.counts["scorer failed"] == 1


@pytest.mark.parametrize("watching", [{"mode": "shadow"}, {"rollout": Rollout(0.0)}, {"rollout": Rollout(off=True)}])
def test_shadow_cuts_nothing_and_adds_no_tool_search(watching: Any, model: ScriptedModel) -> None:
    gated(model, gate=golden_gate(**watching), tool_search=True).invoke(user(TRIP.task))
    assert model.tool_names() == list(TRIP.tools)


def test_provider_tools_pass_through(model: ScriptedModel) -> None:
    gated(model, [*natives(TRIP.tools), {"type": "web_search"}]).invoke(user(TRIP.task))
    assert model.tool_names() == [*TRIP.kept, "web_search"]


def test_structured_output_tools_are_never_cut(model: ScriptedModel) -> None:
    class Weather(BaseModel):
        """Nothing that the task speaks of."""

        degrees: float

    model.script = [Call("Weather", {"degrees": 21.5})]
    answer = gated(model, response_format=ToolStrategy(Weather)).invoke(user(TRIP.task))
    assert model.tool_names() == [*TRIP.kept, "Weather"]
    assert answer["structured_response"] == Weather(degrees=21.5)


def test_handoffs_are_never_cut(model: ScriptedModel) -> None:
    @tool
    def ask_sales() -> str:
        """Sells things."""
        return "sold"

    def offered(handoff: Any, **settings: Any) -> list[str]:
        middleware = [ToolGate(golden_gate(), tool_search=False, **settings)]
        create_agent(chat(model.url), [*natives(TRIP.tools), handoff], middleware=middleware).invoke(user(TRIP.task))
        return model.tool_names(-1)

    first = offered(ask_sales)
    assert "ask_sales" not in first
    assert offered(ask_sales, keep=["ask_sales"]) == [*first, "ask_sales"]
    assert offered(ask_sales.model_copy(update={"metadata": {HANDOFF: "sales"}})) == [*first, "ask_sales"]
    (sent,) = natives({"ask_sales": "Sells things"})  # its schema is JSON, as that of a server is
    assert offered(sent.model_copy(update={"metadata": {HANDOFF: "sales"}})) == first


@pytest.mark.parametrize("choice", ["run_sql", {"type": "function", "function": {"name": "run_sql"}}], ids=type)
def test_a_forced_tool_is_never_cut(choice: Any, model: ScriptedModel) -> None:
    class Force(AgentMiddleware):
        def wrap_model_call(self, request: Any, handler: Any) -> Any:
            return handler(request.override(tool_choice=choice))

    gated(model, outer=[Force()]).invoke(user(TRIP.task))
    assert model.tool_names() == [name for name in TRIP.tools if name in {*TRIP.kept, "run_sql"}]


def test_a_nested_agent_has_a_conversation_of_its_own(model: ScriptedModel) -> None:
    gate = golden_gate()
    nested = gated(model, gate=gate)

    @tool
    def ask_clerk() -> str:
        """Book a flight and a hotel in a city."""
        answer: str = nested.invoke(user(MAIL.task))["messages"][-1].text
        return answer

    model.script = [Call("ask_clerk")]
    gated(model, [*natives(TRIP.tools), ask_clerk], gate).invoke(user(TRIP.task), thread("a"))
    outer, inner, outer_again = (model.tool_names(request) for request in range(3))
    assert inner == MAIL.kept
    assert outer == outer_again
    assert not set(inner) & set(outer)


def test_an_agent_that_is_a_node_widens_over_the_turns_of_the_outer_thread(model: ScriptedModel) -> None:
    outer = StateGraph(MessagesState)
    outer.add_node("clerk", gated(model))
    outer.add_edge(START, "clerk")
    graph = outer.compile(checkpointer=InMemorySaver())
    for vector in VECTORS[:2]:
        graph.invoke(user(vector.task), thread("a"))
    assert model.tool_names(0) == TRIP.kept
    assert model.tool_names(1) == [*TRIP.kept, *(name for name in VECTORS[1].kept if name not in TRIP.kept)]


def test_langchain_s_own_selector_asks_a_model_before_every_model_call(model: ScriptedModel) -> None:
    chosen = json.dumps({"tools": ["book_flight"]})
    model.script = [chosen, Call("book_flight"), chosen]
    agent = create_agent(chat(model.url), natives(TRIP.tools), middleware=[LLMToolSelectorMiddleware()])
    agent.invoke(user(TRIP.task))
    assert len(model.requests) == 4
    model.requests.clear()
    model.script = [Call("book_flight")]
    gated(model).invoke(user(TRIP.task))
    assert len(model.requests) == 2


# The tool search.


TOOL_SEARCH = ["find_tool", "call_tool"]


def results(answer: Any) -> list[str]:
    return [message.text for message in answer["messages"] if isinstance(message, ToolMessage)]


def through(name: str, **arguments: Any) -> Call:
    return Call("call_tool", {"name": name, "arguments": arguments})


@pytest.mark.parametrize("run", ["sync", "async"])
def test_a_cut_tool_is_found_and_run_by_its_own_name(run: str, model: ScriptedModel) -> None:
    model.script = [Call("find_tool", {"query": "play a song"}), through("play_music")]
    agent = gated(model, tool_search=True)
    task = user(TRIP.task)
    answer = agent.invoke(task) if run == "sync" else asyncio.run(agent.ainvoke(task))
    found, ran = results(answer)
    assert [entry["name"] for entry in json.loads(found)["tools"]] == ["play_music"]
    assert model.named_by_search() == set(TRIP.tools) - set(TRIP.kept)
    assert ran == "play_music ran"
    assert [model.tool_names(request) for request in range(3)] == [[*TRIP.kept, *TOOL_SEARCH]] * 3
    assert [call["name"] for message in answer["messages"] for call in getattr(message, "tool_calls", ())] == [
        "find_tool",
        "play_music",
    ]


def test_the_model_sees_the_call_that_it_wrote(model: ScriptedModel) -> None:
    model.script = [(Call("book_flight"), through("play_music"))]
    gated(model, tool_search=True).invoke(user(TRIP.task))
    sent = [message for message in model.requests[1]["messages"] if message["role"] == "assistant"]
    direct, hidden = (call["function"] for call in sent[0]["tool_calls"])
    assert direct["name"] == "book_flight"
    assert hidden["name"] == "call_tool"
    assert json.loads(hidden["arguments"]) == {"name": "play_music", "arguments": {}}


def test_no_tool_search_where_nothing_is_cut_or_a_tool_has_its_name(model: ScriptedModel) -> None:
    gated(model, gate=golden_gate(guards=Guards(pinned=TRIP.tools)), tool_search=True).invoke(user(TRIP.task))
    assert model.tool_names(0) == list(TRIP.tools)
    gated(model, natives({**TRIP.tools, "find_tool": "Finds a tool in the shed"}), tool_search=True).invoke(
        user(TRIP.task)
    )
    assert "call_tool" not in model.tool_names(1)
    gated(model, gate=golden_gate(mode="shadow"), tool_search=True).invoke(user(TRIP.task))
    assert model.tool_names(2) == list(TRIP.tools)
    gated(model, tool_search=True).invoke(user("hello"))
    assert model.tool_names(3) == ["find_tool", "call_tool"], "nothing is decided, and the model can search"


@pytest.mark.parametrize("name", ["run_sql", "nothing_of_that_name", "call_tool"])
def test_the_tool_search_leads_to_no_tool_that_is_unknown_or_may_not_be_offered(
    name: str, model: ScriptedModel
) -> None:
    model.script = [Call("find_tool", {"query": "run a query against the database"}), through(name)]
    gate = golden_gate(guards=Guards(allow=lambda tool: tool.name != "run_sql"))
    found, refused = results(gated(model, gate=gate, tool_search=True).invoke(user(TRIP.task)))
    assert "run_sql" not in found
    assert (
        refused == f"There is no tool named '{name}'. Search with find_tool, and give the name as it is listed there."
    )


def test_where_other_middleware_leaves_turns_out_the_list_has_the_tools_and_no_note_is_lost(
    model: ScriptedModel,
) -> None:
    class LastOnly(AgentMiddleware):
        def wrap_model_call(self, request: Any, handler: Any) -> Any:
            return handler(request.override(messages=request.messages[-1:]))

    gate = golden_gate(mode="append", limits=Limits(cached_prefix=0))
    thanked = user(TRIP.task)["messages"] + [("ai", "Done."), ("user", "Thank you so much for all of your help")]
    gated(model, gate=gate, tool_search=True).invoke({"messages": thanked})
    assert model.tool_names(-1) == ["find_tool", "call_tool"]
    assert BEGINS in json.dumps(model.requests[-1])
    gated(model, gate=gate, outer=[LastOnly()], tool_search=True).invoke({"messages": thanked})
    assert {*TRIP.kept} <= {*model.tool_names(-1)}
    assert BEGINS not in json.dumps(model.requests[-1])


def test_the_tool_search_does_not_lead_to_what_other_middleware_took_away(model: ScriptedModel) -> None:
    class OnlyForAdmins(AgentMiddleware):
        def wrap_model_call(self, request: Any, handler: Any) -> Any:
            return handler(request.override(tools=[each for each in request.tools if each.name != "run_sql"]))

    model.script = [Call("find_tool", {"query": "run_sql"}), through("run_sql")]
    found, refused = results(gated(model, outer=[OnlyForAdmins()], tool_search=True).invoke(user(TRIP.task)))
    assert "run_sql" not in found
    assert refused.startswith("There is no tool named 'run_sql'")


@pytest.mark.parametrize("mode", ["batched", "per_call"])
@pytest.mark.parametrize("place", ["outer", "inner"])
def test_an_approval_asks_about_the_tool_behind_the_search(mode: Any, place: str, model: ScriptedModel) -> None:
    """And the run goes on from storage, with everything built anew."""
    saved, ask = InMemorySaver(), {"play_music": True}

    def agent() -> Any:
        placed: dict[str, Any] = {place: [HumanInTheLoopMiddleware(ask, interrupt_mode=mode)]}
        return gated(model, tool_search=True, checkpointer=saved, **placed)

    model.script = [through("play_music")]
    (asked,) = agent().invoke(user(TRIP.task), thread("a"))["__interrupt__"]
    assert "play_music" in json.dumps(asked.value)
    approved: dict[str, Any] = {"type": "approve"}
    answer = agent().invoke(Command(resume={"decisions": [approved]} if mode == "batched" else approved), thread("a"))
    assert results(answer) == ["play_music ran"]
    assert model.requests[0]["tools"] == model.requests[1]["tools"]


# Other modes.


@pytest.mark.parametrize("responses", [False, True], ids=["chat completions", "responses"])
def test_allow_leaves_the_list_and_names_what_may_be_called(responses: bool, model: ScriptedModel) -> None:
    llm = chat(model.url, use_responses_api=responses)
    create_agent(llm, natives(TRIP.tools), middleware=[ToolGate(golden_gate(mode="allow"))]).invoke(user(TRIP.task))
    assert model.tool_names() == list(TRIP.tools)
    choice = model.requests[0]["tool_choice"]
    allowed = choice if responses else choice["allowed_tools"]
    assert [each["name"] if responses else each["function"]["name"] for each in allowed["tools"]] == TRIP.kept


def test_defer_marks_what_is_cut_where_the_request_has_a_tool_search(model: ScriptedModel) -> None:
    llm = chat(model.url, use_responses_api=True)
    gate = ToolGate(golden_gate(mode="defer"))
    create_agent(llm, [*natives(TRIP.tools), SEARCH], middleware=[gate]).invoke(user(TRIP.task))
    sent = model.requests[0]["tools"]
    assert [tool.get("name") for tool in sent if not tool.get("defer_loading")] == [*TRIP.kept, None]
    assert {tool["name"] for tool in sent if tool.get("defer_loading")} == {*TRIP.tools} - {*TRIP.kept}


def test_the_page_shows_what_the_example_prints() -> None:
    assert shows(ROOT / "docs" / "integrations" / "langchain.md", ROOT / "examples" / "with_langchain.py")


def test_the_example_of_a_privilege_refuses_what_a_mail_orders_and_runs_what_the_user_asks_for() -> None:
    program = ROOT / "examples" / "least_privilege.py"
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    outcomes = [line for line in done.stdout.splitlines() if "transfer_money: " in line]
    assert ["did not run" in line for line in outcomes] == [True, False, True, False]


def with_danger(deleted: list[str]) -> list[BaseTool]:
    danger = StructuredTool.from_function(
        malformed.deleting(deleted), name=malformed.NAME, description=malformed.DESCRIPTION
    )
    return [*natives(TRIP.tools), danger]


@pytest.mark.parametrize("streaming", [False, True], ids=["whole", "streamed"])
def test_a_broken_call_runs_a_tool_with_what_the_model_wrote_or_not_at_all(
    streaming: bool, model: ScriptedModel
) -> None:
    deleted: list[str] = []
    agent = gated(model, with_danger(deleted), tool_search=True, streaming=streaming)
    broken = malformed.slips(malformed.COUNT)
    if not streaming:  # LangChain's client raises on the first, whatever tool is called, and shows us not the second
        unseen = ("no object", "an object that says it twice")
        broken = [slip for slip in broken if malformed.kind(slip) not in unseen]
    for calls in malformed.at_once(broken):
        model.script = [calls]
        agent.invoke(user(TRIP.task))
    malformed.check(broken, deleted)


@pytest.mark.parametrize("streaming", [False, True], ids=["whole", "streamed"])
def test_no_slip_of_a_model_ends_a_run(streaming: bool, model: ScriptedModel) -> None:
    deleted: list[str] = []
    model.script = [*malformed.MISUSED]
    agent = gated(model, with_danger(deleted), tool_search=True, streaming=streaming)
    answer = agent.invoke(user(TRIP.task), {"recursion_limit": 200})
    assert (model.script, answer["messages"][-1].text, deleted) == ([], "done", [])
    sent = [message for message in model.requests[-1]["messages"] if message["role"] == "tool"]
    assert len(sent) == len(malformed.MISUSED)
    assert all(message["content"] for message in sent)

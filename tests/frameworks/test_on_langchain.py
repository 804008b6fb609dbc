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
from langchain.agents.middleware import AgentMiddleware, LLMToolSelectorMiddleware, ModelRequest
from langchain.agents.structured_output import ToolStrategy
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import BaseTool, StructuredTool, tool
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.runtime import ExecutionInfo, Runtime
from pydantic import BaseModel

from camdf.gate import Gate
from camdf.integrations.langchain import HANDOFF, ToolGate
from camdf.tools import Tool
from golden import PAYOFF, VECTORS, Vector, golden_gate, overlap
from local_llm import local_llm
from pages import BLOCK, run_page
from scripted import Call, ScriptedModel

ROOT = Path(__file__).parents[2]
PAGE, EXAMPLE = ROOT / "docs" / "integrations" / "langchain.md", ROOT / "examples" / "with_langchain.py"
TRIP = VECTORS[0]


def chat(url: str, **settings: Any) -> ChatOpenAI:
    return ChatOpenAI(base_url=url, api_key="none", model="scripted", max_retries=0, **settings)


def natives(tools: dict[str, str]) -> list[BaseTool]:
    return [
        StructuredTool.from_function(lambda name=name: f"{name} ran", name=name, description=text, args_schema={})
        for name, text in tools.items()
    ]


def user(text: str) -> dict[str, Any]:
    return {"messages": [HumanMessage(text)]}


def thread(name: str) -> dict[str, Any]:
    return {"configurable": {"thread_id": name}}


@pytest.fixture
def model() -> Iterator[ScriptedModel]:
    with ScriptedModel() as served:
        yield served


def gated(model: ScriptedModel, tools: Sequence[Any] = (), gate: Gate | None = None, **settings: Any) -> Any:
    offered = tools or natives(TRIP.tools)
    middleware = [*settings.pop("outer", ()), ToolGate(gate or golden_gate())]
    return create_agent(chat(model.url), offered, middleware=middleware, **settings)


def test_langchain_has_every_hook_that_the_adapter_relies_on() -> None:
    for name in ("before_agent", "abefore_agent"):
        assert list(inspect.signature(getattr(AgentMiddleware, name)).parameters) == ["self", "state", "runtime"]
    for name in ("wrap_model_call", "awrap_model_call"):
        assert list(inspect.signature(getattr(AgentMiddleware, name)).parameters) == ["self", "request", "handler"]
    fields = set(ModelRequest.__dataclass_fields__)
    assert {"messages", "state", "tool_choice", "tools"} <= fields
    assert "overrides" in inspect.signature(ModelRequest.override).parameters
    assert "execution_info" in Runtime.__dataclass_fields__
    assert {"checkpoint_ns", "thread_id"} <= set(ExecutionInfo.__dataclass_fields__)
    assert hasattr(AgentMiddleware, "state_schema")


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector.task or "nothing")
def test_the_model_gets_exactly_the_kept_tools_in_order(vector: Vector, model: ScriptedModel) -> None:
    answer = gated(model, natives(vector.tools)).invoke(user(vector.task))
    assert answer["messages"][-1].text == "done"
    assert model.tool_names() == vector.kept


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector.task or "nothing")
def test_the_asynchronous_run_decides_the_same(vector: Vector, model: ScriptedModel) -> None:
    asyncio.run(gated(model, natives(vector.tools)).ainvoke(user(vector.task)))
    assert model.tool_names() == vector.kept


def test_a_real_local_model_answers_with_the_kept_tools_on_the_wire() -> None:
    sent: list[dict[str, Any]] = []
    client = httpx.Client(event_hooks={"request": [lambda request: sent.append(json.loads(request.content))]})
    with local_llm() as url:
        llm = chat(url, http_client=client, max_tokens=24, temperature=0, timeout=300)
        agent = create_agent(llm, natives(TRIP.tools), middleware=[ToolGate(golden_gate())])
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


def test_what_middleware_writes_into_the_history_does_not_change_the_task(model: ScriptedModel) -> None:
    class Nudge(AgentMiddleware):
        def before_model(self, state: Any, runtime: Any) -> dict[str, Any]:
            return {"messages": [HumanMessage("Send an email to a person")]}

    model.script = [Call("book_flight")]
    gated(model, outer=[Nudge()]).invoke(user(TRIP.task))
    assert [model.tool_names(0), model.tool_names(1)] == [TRIP.kept, TRIP.kept]


def test_langchain_still_executes_a_cut_tool_and_it_is_offered_from_then_on(model: ScriptedModel) -> None:
    model.script = [Call("play_music")]
    answer = gated(model).invoke(user(TRIP.task))
    results = [message.text for message in answer["messages"] if isinstance(message, ToolMessage)]
    assert results == ["play_music ran"]
    assert model.tool_names(0) == TRIP.kept
    assert model.tool_names(1) == [*TRIP.kept, "play_music"]


def test_a_tool_that_may_not_be_offered_is_executed_too_when_called_from_memory(model: ScriptedModel) -> None:
    model.script = [Call("run_sql")]
    answer = gated(model, gate=golden_gate(allow=lambda tool: tool.name != "run_sql")).invoke(user(TRIP.task))
    assert [message.text for message in answer["messages"] if isinstance(message, ToolMessage)] == ["run_sql ran"]
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


def test_a_state_without_the_run_s_task_leaves_every_tool(model: ScriptedModel) -> None:
    class Forget(AgentMiddleware):
        def wrap_model_call(self, request: Any, handler: Any) -> Any:
            return handler(request.override(state={"messages": request.messages}))

    gated(model, outer=[Forget()]).invoke(user(TRIP.task))
    assert model.tool_names() == list(TRIP.tools)


def test_shadow_cuts_nothing(model: ScriptedModel) -> None:
    gated(model, gate=golden_gate(mode="shadow")).invoke(user(TRIP.task))
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
    *others, handoff = natives({**TRIP.tools, "ask_sales": "Sells things"})
    gated(model, [*others, handoff]).invoke(user(TRIP.task))
    assert "ask_sales" not in model.tool_names(0)
    handoff.metadata = {HANDOFF: "sales"}
    gated(model, [*others, handoff]).invoke(user(TRIP.task))
    assert model.tool_names(1) == [*model.tool_names(0), "ask_sales"]


@pytest.mark.parametrize("choice", ["run_sql", {"type": "function", "function": {"name": "run_sql"}}], ids=type)
def test_a_forced_tool_is_never_cut(choice: Any, model: ScriptedModel) -> None:
    class Force(AgentMiddleware):
        def wrap_model_call(self, request: Any, handler: Any) -> Any:
            return handler(request.override(tool_choice=choice))

    gated(model, outer=[Force()]).invoke(user(TRIP.task))
    assert model.tool_names() == [name for name in TRIP.tools if name in {*TRIP.kept, "run_sql"}]


def test_a_nested_agent_does_not_widen_the_one_that_called_it(model: ScriptedModel) -> None:
    gate, mail = golden_gate(), VECTORS[2]
    nested = gated(model, gate=gate)

    @tool
    def ask_clerk() -> str:
        """Book a flight and a hotel in a city."""
        answer: str = nested.invoke(user(mail.task))["messages"][-1].text
        return answer

    model.script = [Call("ask_clerk")]
    gated(model, [*natives(TRIP.tools), ask_clerk], gate).invoke(user(TRIP.task), thread("a"))
    outer, inner, outer_again = (model.tool_names(request) for request in range(3))
    assert inner == mail.kept
    assert outer == outer_again
    assert not set(inner) & set(outer)
    assert gate.memory.recall("a/tools") is not None


def test_an_agent_that_is_a_node_widens_over_the_turns_of_the_outer_thread(model: ScriptedModel) -> None:
    gate, outer = golden_gate(), StateGraph(MessagesState)
    outer.add_node("clerk", gated(model, gate=gate))
    outer.add_edge(START, "clerk")
    graph = outer.compile(checkpointer=InMemorySaver())
    for vector in VECTORS[:3]:
        graph.invoke(user(vector.task), thread("a"))
    assert model.tool_names(0) == TRIP.kept
    assert model.tool_names(1)[: len(TRIP.kept)] == TRIP.kept
    assert set(model.tool_names(2)) == {*VECTORS[0].kept, *VECTORS[1].kept, *VECTORS[2].kept}
    assert gate.memory.recall("a/clerk") is not None


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


def test_the_page_shows_the_example_and_both_print_what_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(EXAMPLE.parent)
    assert run_page(PAGE) == 1
    (block,) = BLOCK.finditer(PAGE.read_text(encoding="utf-8"))
    assert block["code"] == EXAMPLE.read_text(encoding="utf-8")
    run = subprocess.run([sys.executable, EXAMPLE], capture_output=True, text=True, check=True, timeout=60)
    assert run.stdout == block["printed"]

"""Everyday conversations through real LangChain agents over HTTP: whoever serves, the same tools reach the model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("langchain.agents.middleware")

from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, HumanInTheLoopMiddleware
from langchain_core.messages import HumanMessage, SystemMessage
from langchain_core.tools import BaseTool, StructuredTool, tool
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

import camdf
from camdf.gate import Gate, Limits
from camdf.integrations.langchain import ToolGate
from camdf.scorers import BM25
from everyday import Conversation, Played, promises_broken_by, sampled
from scripted import Call, ScriptedModel


def gate() -> Gate:
    return Gate(camdf.cold_start(), BM25(), camdf.Payoff(0.02), limits=Limits(seconds=60))


def chat(url: str) -> ChatOpenAI:
    return ChatOpenAI(base_url=url, api_key="none", model="scripted", max_retries=0)


def natives(model: Played) -> list[BaseTool]:
    def running(name: str) -> Callable[..., str]:
        return lambda **_: model.result(name)

    functions = [each["function"] for each in model.conversation.tools]
    return [
        StructuredTool.from_function(
            running(each["name"]), name=each["name"], description=each["description"], args_schema=each["parameters"]
        )
        for each in functions
    ]


class Force(AgentMiddleware):
    """The first model call of a turn calls what the client insists on."""

    def __init__(self, model: Played) -> None:
        super().__init__()
        self.model = model

    def wrap_model_call(self, request: Any, handler: Any) -> Any:
        answered = isinstance(request.messages[-1], HumanMessage)
        return handler(request.override(tool_choice=self.model.turn.tool_choice if answered else None))


def play(conversation: Conversation, workers: int, tool_search: bool) -> Played:
    """The conversation as agents without threads serve it, in turn; the client carries the messages."""
    with Played(conversation) as model:
        tools, llm = natives(model), chat(model.url)

        def worker() -> Any:
            middleware = [Force(model), ToolGate(gate(), tool_search=tool_search)]
            return create_agent(llm, tools, middleware=middleware, system_prompt=conversation.system)

        agents = [worker() for _ in range(workers)]
        messages: list[Any] = []
        for turn in conversation.turns:
            model.begin(turn)
            agent = agents[turn.number % workers]
            asked = [*messages, HumanMessage(turn.content)]
            messages = agent.invoke({"messages": asked}, {"recursion_limit": 100})["messages"]
            if turn.number == conversation.summary_after:
                messages = [SystemMessage(conversation.summary)]
    return model


def ways(conversation: Conversation) -> tuple[int, int, int]:
    """How many workers serve in turn: one, two, or a new one for every turn, as after a restart."""
    return 1, 2, len(conversation.turns)


@pytest.mark.parametrize("tool_search", [False, True], ids=["without a tool search", "with a tool search"])
@pytest.mark.parametrize("conversation", sampled(), ids=lambda conversation: conversation.name)
def test_whoever_serves_sends_the_same_tools_and_no_turn_loses_any(
    conversation: Conversation, tool_search: bool
) -> None:
    models = [play(conversation, workers, tool_search) for workers in ways(conversation)]
    one, *others = ([each.bytes for each in model.served] for model in models)
    assert all(other == one for other in others)
    assert promises_broken_by(models[0]) == []
    assert not tool_search or models[0].out_of_reach == []


def small(names: str) -> list[BaseTool]:
    return [
        StructuredTool.from_function(
            lambda name=name: f"{name} ran", name=name, description=name.replace("_", " "), args_schema={}
        )
        for name in names.split()
    ]


TOOLS = small("book_flight cancel_flight find_hotel send_email read_email play_music get_weather run_sql stock_price")
FIRST, LATER = "Book a flight to Oslo for me, then find a hotel", "Tomorrow please"


@pytest.mark.parametrize("tool_search", [False, True], ids=["without a tool search", "with a tool search"])
def test_a_sub_agent_has_a_conversation_of_its_own_whoever_serves(tool_search: bool) -> None:
    def agents(model: ScriptedModel) -> Any:
        clerk = create_agent(chat(model.url), TOOLS, middleware=[ToolGate(gate(), tool_search=tool_search)])

        @tool
        def ask_clerk(task: str) -> str:
            """Book a flight or find a hotel."""
            return str(clerk.invoke({"messages": [HumanMessage(task)]})["messages"][-1].text)

        return create_agent(
            chat(model.url), [*TOOLS, ask_clerk], middleware=[ToolGate(gate(), tool_search=tool_search)]
        )

    lists = []
    for rebuilt in (False, True):
        with ScriptedModel([Call("ask_clerk", {"task": "Send an email to Anna with the weather"})]) as model:
            agent = agents(model)
            messages: list[Any] = []
            for text in (FIRST, LATER):
                asked = [*messages, HumanMessage(text)]
                messages = (agents(model) if rebuilt else agent).invoke({"messages": asked})["messages"]
        lists.append([model.tool_names(request) for request in range(len(model.requests))])
    outer, clerk, outer_again, later = lists[0]
    assert lists[0] == lists[1]
    assert outer == outer_again == later
    assert "send_email" in set(clerk) - set(outer)


@pytest.mark.parametrize("tool_search", [False, True], ids=["without a tool search", "with a tool search"])
def test_a_run_that_is_resumed_from_storage_has_the_tools_that_it_had(tool_search: bool) -> None:
    saved, thread = InMemorySaver(), {"configurable": {"thread_id": "a"}}

    def agent(model: ScriptedModel) -> Any:
        approval = HumanInTheLoopMiddleware({"book_flight": True})
        return create_agent(
            chat(model.url), TOOLS, middleware=[ToolGate(gate(), tool_search=tool_search), approval], checkpointer=saved
        )

    with ScriptedModel([Call("book_flight")]) as model:
        assert "__interrupt__" in agent(model).invoke({"messages": [HumanMessage(FIRST)]}, thread)
        agent(model).invoke(Command(resume={"decisions": [{"type": "approve"}]}), thread)
        agent(model).invoke({"messages": [HumanMessage(LATER)]}, thread)
    lists = [model.tool_names(request) for request in range(3)]
    assert lists[0] == lists[1] == lists[2]
    assert "play_music" not in lists[0]

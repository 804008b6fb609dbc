"""Everyday conversations through real LlamaIndex agents over HTTP: whoever serves, the same tools reach the model."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

pytest.importorskip("llama_index.core", minversion="0.14")

from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.llms import ChatMessage, ImageBlock, TextBlock
from llama_index.core.memory import ChatMemoryBuffer
from llama_index.core.tools import FunctionTool, ToolMetadata
from llama_index.core.workflow import Context, HumanResponseEvent, InputRequiredEvent
from llama_index.llms.openai_like import OpenAILike

import camdf
from camdf.gate import Gate, Limits
from camdf.integrations.llama_index import ToolGate
from camdf.scorers import BM25
from everyday import Conversation, Played, conversations, promises_broken_by, sampled
from scripted import Call, ScriptedModel


def gate() -> Gate:
    return Gate(camdf.cold_start(), BM25(), camdf.Payoff(0.02), limits=Limits(seconds=60))


def chat(url: str) -> OpenAILike:
    known = {"is_chat_model": True, "is_function_calling_model": True, "context_window": 10**6}
    return OpenAILike(api_base=url, api_key="none", model="scripted", max_retries=0, **known)


class Described(ToolMetadata):
    """What a model is told of a tool whose schema is given."""

    def get_parameters_dict(self) -> Any:
        return self.fn_schema


def natives(model: Played) -> list[FunctionTool]:
    def running(name: str) -> Any:
        return lambda **_: model.result(name)

    functions = [tool["function"] for tool in model.conversation.tools]
    described = [Described(each["description"], each["name"], each["parameters"]) for each in functions]
    return [FunctionTool(running(each.name), metadata=each) for each in described]


def said(content: Any) -> ChatMessage:
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
    blocks = [TextBlock(text=part["text"]) if part["type"] == "text" else picture() for part in parts]
    return ChatMessage(role="user", blocks=blocks)


def picture() -> ImageBlock:
    return ImageBlock(url="https://example.com/picture.png", image_mimetype="image/png")


async def play(conversation: Conversation, workers: int, tool_search: bool) -> Played:
    """The conversation as agents serve it, in turn; the client carries the messages."""
    with Played(conversation) as model:
        tools, llm = natives(model), chat(model.url)
        agents = [
            FunctionAgent(
                tool_retriever=ToolGate(gate(), tools, tool_search=tool_search),
                llm=llm,
                streaming=False,
                system_prompt=conversation.system,
            )
            for _ in range(workers)
        ]
        messages: list[ChatMessage] = []
        for turn in conversation.turns:
            model.begin(turn)
            agent, memory = agents[turn.number % workers], ChatMemoryBuffer.from_defaults(token_limit=10**6)
            await agent.run(said(turn.content), chat_history=messages, memory=memory, max_iterations=100)
            messages = memory.get_all()
            if turn.number == conversation.summary_after:
                messages = [ChatMessage(role="system", content=conversation.summary)]
    return model


def test_the_gate_cuts_in_most_of_these_conversations() -> None:
    histories = [(each.before(len(each.turns)), each.tools) for each in conversations()]
    assert sum(bool(gate().decide(history, tools).cut) for history, tools in histories) > 20


def ways(conversation: Conversation) -> tuple[int, int, int]:
    """How many workers serve in turn: one, two, or a new one for every turn, as after a restart."""
    return 1, 2, len(conversation.turns)


@pytest.mark.parametrize("tool_search", [False, True], ids=["without a tool search", "with a tool search"])
@pytest.mark.parametrize("conversation", sampled(), ids=lambda conversation: conversation.name)
def test_whoever_serves_sends_the_same_tools_and_no_turn_loses_any(
    conversation: Conversation, tool_search: bool
) -> None:
    models = [asyncio.run(play(conversation, workers, tool_search)) for workers in ways(conversation)]
    one, *others = ([each.bytes for each in model.served] for model in models)
    assert all(other == one for other in others)
    assert promises_broken_by(models[0]) == []
    assert not tool_search or models[0].out_of_reach == []


NAMES = ["book_flight", "cancel_flight", "find_hotel", "send_email", "play_music", "get_weather", "run_sql"]
FIRST, LATER = "Book a flight to Oslo for me, then find a hotel", "Tomorrow please"


def named(name: str, function: Any = None) -> FunctionTool:
    return FunctionTool.from_defaults(function or (lambda: "ok"), name=name, description=name.replace("_", " "))


def agent_of(model: ScriptedModel, tools: list[FunctionTool], tool_search: bool) -> FunctionAgent:
    return FunctionAgent(
        tool_retriever=ToolGate(gate(), tools, tool_search=tool_search), llm=chat(model.url), streaming=False
    )


@pytest.mark.parametrize("tool_search", [False, True], ids=["without a tool search", "with a tool search"])
def test_a_sub_agent_has_a_conversation_of_its_own_whoever_serves(tool_search: bool) -> None:
    tools = [named(name) for name in NAMES]

    def agents(model: ScriptedModel) -> FunctionAgent:
        async def ask(task: str) -> str:
            return str(await agent_of(model, tools, tool_search).run(task))

        clerk = FunctionTool.from_defaults(async_fn=ask, name="ask_clerk", description="Book a flight or find a hotel")
        return agent_of(model, [*tools, clerk], tool_search)

    async def turns(model: ScriptedModel, rebuilt: bool) -> None:
        agent, memory = agents(model), ChatMemoryBuffer.from_defaults()
        for text in (FIRST, LATER):
            await (agents(model) if rebuilt else agent).run(text, memory=memory)

    lists = []
    for rebuilt in (False, True):
        with ScriptedModel([Call("ask_clerk", {"task": "Send an email to Anna with the weather"})]) as model:
            asyncio.run(turns(model, rebuilt))
        lists.append([model.tool_names(request) for request in range(len(model.requests))])
    outer, clerk, outer_again, later = lists[0]
    assert lists[0] == lists[1]
    assert outer == outer_again == later
    assert "send_email" in set(clerk) - set(outer)


@pytest.mark.parametrize("name", ["book_flight", "play_music"])
def test_a_tool_that_waits_for_a_person_goes_on_and_the_next_turn_has_its_tools(name: str) -> None:
    """Also one that is behind the tool search."""

    async def asking(ctx: Context) -> str:
        answer = await ctx.wait_for_event(HumanResponseEvent, waiter_event=InputRequiredEvent(prefix="Sure?"))
        return f"{name} ran: {answer.response}"

    asking.__annotations__["ctx"] = Context
    tools = [named(each, asking if each == name else None) for each in NAMES]

    async def turns(model: ScriptedModel) -> str:
        memory = ChatMemoryBuffer.from_defaults()
        running = agent_of(model, tools, tool_search=True).run(FIRST, memory=memory)
        async for event in running.stream_events():
            if isinstance(event, InputRequiredEvent):
                running.ctx.send_event(HumanResponseEvent(response="yes"))
        (call,) = (await running).tool_calls
        stored = ChatMemoryBuffer.from_defaults(chat_history=memory.get_all())
        await agent_of(model, tools, tool_search=True).run(LATER, memory=stored)
        return str(call.tool_output.content)

    direct, hidden = Call(name), Call("call_tool", {"name": name, "arguments": {}})
    with ScriptedModel([direct if name == "book_flight" else hidden]) as model:
        assert asyncio.run(turns(model)) == f"{name} ran: yes"
    lists = [model.tool_names(request) for request in range(3)]
    assert lists[0] == lists[1] == lists[2]
    assert "play_music" not in lists[0]

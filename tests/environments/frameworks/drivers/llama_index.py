"""LlamaIndex for the conformance suite: the messages are the history, kept as JSON, or the context of a waiting run."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import httpx
from llama_index.core.agent.workflow import AgentWorkflow, FunctionAgent
from llama_index.core.llms import ChatMessage, ImageBlock, TextBlock
from llama_index.core.memory import ChatMemoryBuffer, Memory
from llama_index.core.tools import FunctionTool, ToolMetadata
from llama_index.core.workflow import Context, HumanResponseEvent, InputRequiredEvent
from llama_index.llms.openai_like import OpenAILike
from pydantic import BaseModel

from camdf.integrations.conformance import ChatTurn, Reply, RunnableTool, Setup
from camdf.integrations.llama_index import ToolGate

LISTS_ALONE = "a retriever of tools is asked for tools, and never sees the request"
EXEMPT = {
    "what a turn needs joins its end": LISTS_ALONE,
    "a forced tool is listed for its turn": LISTS_ALONE,
    "traces have the tools that ran": "LlamaIndex has instrumentation of its own and no OpenTelemetry; traces by "
    "OpenInference have the tools that ran",
}


class Answer(BaseModel):
    """The structured answer."""

    answer: str


class Described(ToolMetadata):
    """What a model is told of a tool whose schema is given."""

    def get_parameters_dict(self) -> Any:
        return self.fn_schema


def build(setup: Setup) -> Setup:
    return setup


def agent_of(setup: Setup, stream: bool) -> Any:
    wire = httpx.AsyncClient(verify=False)  # reading the machine's certificates takes longer than the rest
    known = {"is_chat_model": True, "is_function_calling_model": True, "context_window": 10**6}
    llm = OpenAILike(
        api_base=setup.url, api_key="none", model="scripted", max_retries=0, async_http_client=wire, **known
    )
    agent = FunctionAgent(
        name="agent",
        description="Books journeys.",
        tool_retriever=ToolGate(setup.gate, [native(tool) for tool in setup.tools], tool_search=setup.tool_search),
        llm=llm,
        streaming=stream,
        system_prompt=setup.system,
        output_cls=Answer if setup.structured else None,
        can_handoff_to=[setup.colleague] if setup.colleague else None,
    )
    if not setup.colleague:
        return agent
    instructions = f"You are {setup.colleague}."
    colleague = FunctionAgent(name=setup.colleague, description="Knows bills.", llm=llm, system_prompt=instructions)
    return AgentWorkflow(agents=[agent, colleague], root_agent="agent")


def native(tool: RunnableTool) -> FunctionTool:
    async def run(**arguments: Any) -> str:
        return tool.run(arguments)

    async def ask(ctx: Context, **arguments: Any) -> str:
        asked = InputRequiredEvent(prefix="May it run?")
        await ctx.wait_for_event(HumanResponseEvent, waiter_id=tool.name, waiter_event=asked)
        return tool.run(arguments)

    ask.__annotations__["ctx"] = Context  # LlamaIndex does not read it as a string
    name = f"{tool.server}_{tool.name}" if tool.server else tool.name  # a user renames tools of equal names
    metadata: Any = Described(tool.description, name, dict(tool.parameters))
    return FunctionTool(async_fn=ask if tool.needs_approval else run, metadata=metadata)


def send(setup: Setup, turn: ChatTurn) -> Reply:
    return asyncio.run(_send(setup, turn))


async def _send(setup: Setup, turn: ChatTurn) -> Reply:
    agent = agent_of(setup, turn.stream)
    if turn.approve:
        stored, messages = turn.approve
        context = Context.from_dict(agent, json.loads(stored))
        handler = agent.run(ctx=context)
        await handler.ctx.store.set("memory", remembered(messages))  # a stored context lacks its memory
        handler.ctx.send_event(HumanResponseEvent(response="yes"))
        return Reply(None, str(await handler))
    memory: Any = remembered(turn.history or ())
    if turn.conversation:
        memory = Memory.from_defaults(session_id=turn.conversation)
    handler = agent.run(said(turn), memory=memory, max_iterations=100)
    async for event in handler.stream_events():
        if isinstance(event, InputRequiredEvent):
            waits_for = json.dumps(handler.ctx.to_dict()), await written(memory)
            await handler.cancel_run()
            return Reply(None, waits_for=waits_for)
    result = await handler
    text = json.dumps(result.structured_response) if setup.structured else str(result)
    return Reply(await written(memory), text)


def remembered(messages: Sequence[str]) -> ChatMemoryBuffer:
    told = [ChatMessage.model_validate_json(message) for message in messages]
    return ChatMemoryBuffer.from_defaults(chat_history=told, token_limit=10**6)


async def written(memory: Any) -> list[str]:
    return [message.model_dump_json() for message in await memory.aget_all()]


def said(turn: ChatTurn) -> ChatMessage:
    parts = [{"type": "text", "text": turn.said}] if isinstance(turn.said, str) else turn.said
    picture = ImageBlock(url="https://example.com/picture.png", image_mimetype="image/png")
    return ChatMessage(
        role="user", blocks=[TextBlock(text=part["text"]) if part["type"] == "text" else picture for part in parts]
    )

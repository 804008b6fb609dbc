"""pydantic-ai for the conformance suite: the messages are the history, kept as JSON."""

from __future__ import annotations

import asyncio
from typing import Any

from openai import AsyncOpenAI, DefaultAsyncHttpxClient
from pydantic import BaseModel
from pydantic_ai import Agent
from pydantic_ai.capabilities import Instrumentation
from pydantic_ai.messages import ImageUrl, ModelMessagesTypeAdapter
from pydantic_ai.models.instrumented import InstrumentationSettings
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.settings import ToolOrOutput
from pydantic_ai.tools import DeferredToolRequests, DeferredToolResults, Tool
from pydantic_ai.toolsets import FunctionToolset

from camdf.integrations.conformance import ChatTurn, Reply, RunnableTool, Setup
from camdf.integrations.pydantic_ai import ToolGate

EXEMPT = {
    "handoffs": "pydantic-ai's agents hand over in code, or as sub-agents, and have no tool for it",
}


class Answer(BaseModel):
    answer: str


def build(setup: Setup) -> Setup:
    return setup


def agent_of(setup: Setup, client: AsyncOpenAI) -> Agent[None, Any]:
    servers = {tool.server for tool in setup.tools if tool.server}
    return Agent(
        OpenAIChatModel("scripted", provider=OpenAIProvider(openai_client=client)),
        tools=[native(tool) for tool in setup.tools if not tool.server],
        toolsets=[
            FunctionToolset([native(tool) for tool in setup.tools if tool.server == server], id=server).prefixed(server)
            for server in sorted(servers)
        ],
        instructions=setup.system,
        output_type=Answer if setup.structured else [str, DeferredToolRequests],
        capabilities=[
            ToolGate(setup.gate, tool_search=setup.tool_search),
            *([Instrumentation(settings=InstrumentationSettings())] if setup.traced else ()),
        ],
    )


def native(tool: RunnableTool) -> Tool[None]:
    def run(**arguments: Any) -> str:
        return tool.run(arguments)

    made = Tool.from_schema(run, tool.name, tool.description, dict(tool.parameters))
    made.requires_approval = tool.needs_approval
    return made


def send(setup: Setup, turn: ChatTurn) -> Reply:
    return asyncio.run(_send(setup, turn))


async def _send(setup: Setup, turn: ChatTurn) -> Reply:
    wire = DefaultAsyncHttpxClient(verify=False)  # reading the machine's certificates takes longer than the rest
    async with AsyncOpenAI(base_url=setup.url, api_key="none", max_retries=0, http_client=wire) as client:
        agent = agent_of(setup, client)
        agent.model_settings = {"tool_choice": ToolOrOutput(function_tools=[turn.forced])} if turn.forced else None
        how: dict[str, Any] = {"message_history": ModelMessagesTypeAdapter.validate_json(turn.history or b"[]")}
        if turn.conversation:
            how["conversation_id"] = turn.conversation
        if turn.approve:
            how["deferred_tool_results"] = DeferredToolResults(approvals={turn.approve: True})
        if turn.stream:
            async with agent.run_stream(said(turn), **how) as stream:
                output = await stream.get_output()
                history = stream.all_messages_json()
        else:
            result = await agent.run(said(turn), **how)
            output, history = result.output, result.all_messages_json()
    if isinstance(output, DeferredToolRequests):
        return Reply(history, waits_for=output.approvals[0].tool_call_id)
    return Reply(history, output.model_dump_json() if isinstance(output, Answer) else output)


def said(turn: ChatTurn) -> Any:
    if turn.approve:
        return None
    if isinstance(turn.said, str):
        return turn.said
    return [part["text"] if part["type"] == "text" else ImageUrl(part["image_url"]["url"]) for part in turn.said]

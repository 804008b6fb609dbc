"""Microsoft Agent Framework for the conformance suite: the session is the history, kept as JSON."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from agent_framework import Agent, AgentSession, Content, FunctionTool, Message
from agent_framework.observability import enable_instrumentation
from agent_framework.openai import OpenAIChatCompletionClient
from agent_framework_orchestrations import HandoffBuilder
from openai import AsyncOpenAI, DefaultAsyncHttpxClient
from pydantic import BaseModel

from camdf.integrations.agent_framework import ToolGate
from camdf.integrations.conformance import ChatTurn, Reply, RunnableTool, Setup

EXEMPT: dict[str, str] = {}


class Answer(BaseModel):
    answer: str


def build(setup: Setup) -> Setup:
    if setup.traced:
        enable_instrumentation()
    return setup


def agent_of(setup: Setup, client: AsyncOpenAI) -> Agent:
    return Agent(
        OpenAIChatCompletionClient(model="scripted", async_client=client),
        setup.system,
        name="agent",
        tools=[native(tool) for tool in setup.tools],
        context_providers=[ToolGate(setup.gate, tool_search=setup.tool_search)],
        default_options={"response_format": Answer} if setup.structured else None,
        require_per_service_call_history_persistence=bool(setup.colleague),
    )


def native(tool: RunnableTool) -> FunctionTool:
    def run(**arguments: Any) -> str:
        return tool.run(arguments)

    return FunctionTool(
        name=f"{tool.server}_{tool.name}" if tool.server else tool.name,  # as MCPTool(tool_name_prefix=...) names them
        description=tool.description,
        func=run,
        input_model=dict(tool.parameters),
        approval_mode="always_require" if tool.needs_approval else "never_require",
    )


def send(setup: Setup, turn: ChatTurn) -> Reply:
    return asyncio.run(_send(setup, turn))


async def _send(setup: Setup, turn: ChatTurn) -> Reply:
    wire = DefaultAsyncHttpxClient(verify=False)  # reading the machine's certificates takes longer than the rest
    async with AsyncOpenAI(base_url=setup.url, api_key="none", max_retries=0, http_client=wire) as client:
        agent = agent_of(setup, client)
        if setup.colleague:
            return await handed_over(agent, setup.colleague, turn)
        session = AgentSession.from_dict(json.loads(turn.history)) if turn.history else None
        session = session or agent.create_session(session_id=turn.conversation)
        choice = {"tool_choice": {"mode": "required", "required_function_name": turn.forced}} if turn.forced else None
        if turn.stream:
            stream = agent.run([said(turn)], stream=True, session=session, options=choice)
            async for _ in stream:
                pass
            response = await stream.get_final_response()
        else:
            response = await agent.run([said(turn)], session=session, options=choice)
        asked = [request.to_dict() for request in response.user_input_requests]
        return Reply(json.dumps(session.to_dict()), response.text, asked[0] if asked else None)


async def handed_over(agent: Agent, name: str, turn: ChatTurn) -> Reply:
    more = {"name": name, "require_per_service_call_history_persistence": True}
    colleague = Agent(agent.client, f"You are {name}.", **more)
    await HandoffBuilder(participants=[agent, colleague]).with_start_agent(agent).build().run(turn.said)
    return Reply(None)


def said(turn: ChatTurn) -> Message:
    if turn.approve:
        return Message("user", [Content.from_dict(turn.approve).to_function_approval_response(approved=True)])
    if isinstance(turn.said, str):
        return Message("user", [turn.said])
    parts = [
        part["text"] if part["type"] == "text" else Content.from_uri(part["image_url"]["url"], media_type="image/png")
        for part in turn.said
    ]
    return Message("user", parts)

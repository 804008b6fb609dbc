"""Strands Agents for the conformance suite: a session on disk is the history."""

from __future__ import annotations

import asyncio
import base64
import json
import tempfile
import uuid
from typing import Any

from openai import AsyncOpenAI, DefaultAsyncHttpxClient
from pydantic import BaseModel
from strands import Agent
from strands.agent.conversation_manager import NullConversationManager
from strands.hooks import BeforeToolCallEvent
from strands.models.openai import OpenAIModel
from strands.multiagent import Swarm
from strands.session.file_session_manager import FileSessionManager
from strands.tools.tools import PythonAgentTool

from camdf.integrations.conformance import ChatTurn, Reply, RunnableTool, Setup
from camdf.integrations.strands import ToolGate

EXEMPT = {
    "a forced tool is listed for its turn": "Strands forces the tool of a structured answer, and no other",
}
PIXEL = base64.b64decode("iVBORw0KGgo=")


class Answer(BaseModel):
    """The structured answer."""

    answer: str


def build(setup: Setup) -> Setup:
    return setup


def agent_of(setup: Setup, turn: ChatTurn, managed: FileSessionManager | None) -> Agent:
    agent = Agent(
        model=model_at(setup.url, turn.stream),
        name="agent",
        tools=[native(tool) for tool in setup.tools],
        system_prompt=setup.system,
        plugins=[ToolGate(setup.gate, tool_search=setup.tool_search)],
        structured_output_model=Answer if setup.structured else None,
        session_manager=managed,
        conversation_manager=NullConversationManager(),  # one that drops messages begins the conversation anew
        callback_handler=None,
    )
    needing = {tool.name for tool in setup.tools if tool.needs_approval}

    def ask(event: BeforeToolCallEvent) -> None:
        if event.tool_use["name"] in needing:
            event.interrupt("approval", reason=event.tool_use["name"])

    agent.add_hook(ask, BeforeToolCallEvent)
    return agent


def model_at(url: str, stream: bool) -> OpenAIModel:
    wire = DefaultAsyncHttpxClient(verify=False)  # reading the machine's certificates takes longer than the rest
    client = AsyncOpenAI(base_url=url, api_key="none", max_retries=0, http_client=wire)
    return OpenAIModel(client=client, model_id="scripted", stream=stream)


def native(tool: RunnableTool) -> PythonAgentTool:
    def run(use: Any, **_: Any) -> Any:
        return {"toolUseId": use["toolUseId"], "status": "success", "content": [{"text": tool.run(use["input"])}]}

    name = f"{tool.server}_{tool.name}" if tool.server else tool.name  # as MCPClient(prefix=...) names them
    spec: Any = {"name": name, "description": tool.description, "inputSchema": {"json": dict(tool.parameters)}}
    return PythonAgentTool(name, spec, run)


def send(setup: Setup, turn: ChatTurn) -> Reply:
    return asyncio.run(_send(setup, turn))


async def _send(setup: Setup, turn: ChatTurn) -> Reply:
    if setup.colleague:
        colleague = Agent(model_at(setup.url, False), name=setup.colleague, description="Knows bills.")
        await Swarm([agent_of(setup, turn, None), colleague]).invoke_async(turn.said)
        return Reply(None)
    name, folder = turn.history or (turn.conversation or uuid.uuid4().hex, tempfile.mkdtemp())
    agent = agent_of(setup, turn, FileSessionManager(name, storage_dir=folder))
    result = await agent.invoke_async(said(turn))
    text = json.dumps(result.structured_output.model_dump()) if result.structured_output else str(result).strip()
    waits_for = result.interrupts[0].id if result.interrupts else None
    return Reply((name, folder), text, waits_for)


def said(turn: ChatTurn) -> Any:
    if turn.approve:
        return [{"interruptResponse": {"interruptId": turn.approve, "response": "yes"}}]
    if isinstance(turn.said, str):
        return turn.said
    return [
        {"text": part["text"]} if part["type"] == "text" else {"image": {"format": "png", "source": {"bytes": PIXEL}}}
        for part in turn.said
    ]

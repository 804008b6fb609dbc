"""Haystack for the conformance suite: the messages are the history, kept as JSON."""

from __future__ import annotations

import json
from typing import Any

from haystack.components.agents import Agent
from haystack.components.generators.chat import OpenAIChatGenerator
from haystack.dataclasses import ChatMessage, ImageContent
from haystack.tools import Tool
from haystack.utils import Secret
from pydantic import BaseModel

from camdf.integrations.conformance import ChatTurn, Reply, RunnableTool, Setup
from camdf.integrations.haystack import ToolGate

EXEMPT = {
    "handoffs": "Haystack's agents hand over to no other agent; one that is a tool is a sub-agent",
    "approvals": "Haystack's confirmations block the run until somebody has answered: it cannot stop and be resumed",
    "approvals through the search": "Haystack's confirmations block the run until somebody has answered",
    "a name of the conversation reaches the gate": "a chat generator is told no name of the run or of its session",
    "traces have the tools that ran": "Haystack has an interface for tracers and no OpenTelemetry of its own",
}
PIXEL = "iVBORw0KGgo="


class Answer(BaseModel):
    answer: str


def build(setup: Setup) -> Agent:
    schema = {"type": "json_schema", "json_schema": {"name": "answer", "schema": Answer.model_json_schema()}}
    settings = {"response_format": schema} if setup.structured else {}
    generator = OpenAIChatGenerator(
        api_key=Secret.from_token("none"),
        model="scripted",
        api_base_url=setup.url,
        generation_kwargs=settings,
        tools_strict=setup.structured,  # else the generator refuses a response_format; no search tool can be strict
        max_retries=0,
        http_client_kwargs={"verify": False},  # reading the machine's certificates takes longer than the rest
    )
    return Agent(
        chat_generator=ToolGate(generator, setup.gate, tool_search=setup.tool_search and not setup.structured),
        tools=[native(tool) for tool in setup.tools],
        system_prompt=setup.system or None,
    )


def native(tool: RunnableTool) -> Tool:
    def run(**arguments: Any) -> str:
        return tool.run(arguments)

    name = f"{tool.server}_{tool.name}" if tool.server else tool.name  # MCPToolset has no prefix: a user renames
    return Tool(name=name, description=tool.description, parameters=dict(tool.parameters), function=run)


def send(agent: Agent, turn: ChatTurn) -> Reply:
    messages = [ChatMessage.from_dict(each) for each in json.loads(turn.history or "[]")]
    callback = (lambda chunk: None) if turn.stream else None
    choice = {"type": "function", "function": {"name": turn.forced}}
    settings = {"tool_choice": choice} if turn.forced else None
    result = agent.run([*messages, said(turn)], streaming_callback=callback, generation_kwargs=settings)
    kept = [message.to_dict() for message in result["messages"] if message.role.value != "system"]
    return Reply(json.dumps(kept), result["last_message"].text or "")


def said(turn: ChatTurn) -> ChatMessage:
    if isinstance(turn.said, str):
        return ChatMessage.from_user(turn.said)
    parts = [part["text"] if part["type"] == "text" else ImageContent(PIXEL, "image/png") for part in turn.said]
    return ChatMessage.from_user(content_parts=parts)

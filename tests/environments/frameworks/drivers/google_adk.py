"""Google ADK for the conformance suite: the session is the history, kept as JSON."""

from __future__ import annotations

import asyncio
import base64
import os
import uuid
from typing import Any

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # else it asks the internet for prices

from google.adk.agents import LlmAgent
from google.adk.agents.run_config import RunConfig, StreamingMode
from google.adk.apps.app import App
from google.adk.events.event import Event
from google.adk.models.lite_llm import LiteLlm
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.adk.tools.base_tool import BaseTool
from google.adk.tools.base_toolset import BaseToolset
from google.genai import types
from pydantic import BaseModel

from camdf.integrations.conformance import ChatTurn, Reply, RunnableTool, Setup
from camdf.integrations.google_adk import ToolGate

EXEMPT: dict[str, str] = {}


class Answer(BaseModel):
    answer: str


class AdkTool(BaseTool):
    def __init__(self, tool: RunnableTool) -> None:
        super().__init__(name=tool.name, description=tool.description)
        self.tool = tool

    def _get_declaration(self) -> Any:
        schema = dict(self.tool.parameters)
        return types.FunctionDeclaration(name=self.name, description=self.description, parameters_json_schema=schema)

    async def check_require_confirmation(self, args: dict[str, Any], tool_context: Any) -> bool:
        return self.tool.needs_approval

    async def run_async(self, *, args: dict[str, Any], tool_context: Any) -> Any:
        return self.tool.run(args)


class Server(BaseToolset):
    """A tool with the name of its server before its own, as McpToolset(tool_name_prefix=...) gives it."""

    def __init__(self, tool: RunnableTool) -> None:
        super().__init__(tool_name_prefix=tool.server)
        self.tool = tool

    async def get_tools(self, readonly_context: Any = None) -> list[BaseTool]:
        return [AdkTool(self.tool)]


def build(setup: Setup) -> App:
    model = LiteLlm(model="openai/scripted", api_base=setup.url, api_key="none", max_retries=0)
    colleagues = [LlmAgent(name=setup.colleague, description="Knows bills.", model=model)] if setup.colleague else []
    agent = LlmAgent(
        name="agent",
        model=model,
        instruction=setup.system,
        tools=[Server(tool) if tool.server else AdkTool(tool) for tool in setup.tools],
        output_schema=Answer if setup.structured else None,
        sub_agents=colleagues,
    )
    return App(name="app", root_agent=agent, plugins=[ToolGate(setup.gate, tool_search=setup.tool_search)])


def send(app: App, turn: ChatTurn) -> Reply:
    return asyncio.run(_send(app, turn))


async def _send(app: App, turn: ChatTurn) -> Reply:
    sessions, name = InMemorySessionService(), turn.conversation or uuid.uuid4().hex
    session = await sessions.create_session(app_name="app", user_id="user", session_id=name)
    for event in turn.history or ():
        await sessions.append_event(session, Event.model_validate_json(event))
    runner = Runner(app=app, session_service=sessions)
    app.root_agent.generate_content_config = _forced(turn.forced)
    config = RunConfig(streaming_mode=StreamingMode.SSE if turn.stream else StreamingMode.NONE)
    text, waits_for = "", None
    message = types.Content(role="user", parts=_parts(turn))
    async for event in runner.run_async(user_id="user", session_id=name, new_message=message, run_config=config):
        parts = (event.content.parts if event.content else None) or []
        if not event.partial:
            text = "".join(part.text or "" for part in parts) or text
        calls = [part.function_call for part in parts if part.function_call]
        waits_for = next((call.id for call in calls if call.name == "adk_request_confirmation"), waits_for)
    session = await sessions.get_session(app_name="app", user_id="user", session_id=name)
    return Reply([event.model_dump_json() for event in session.events], text, waits_for)


def _parts(turn: ChatTurn) -> list[types.Part]:
    if turn.approve:
        answer = types.FunctionResponse(id=turn.approve, name="adk_request_confirmation", response={"confirmed": True})
        return [types.Part(function_response=answer)]
    if isinstance(turn.said, str):
        return [types.Part(text=turn.said)]
    return [
        types.Part(text=part["text"])
        if part["type"] == "text"
        else types.Part(inline_data=types.Blob(data=base64.b64decode("iVBORw0KGgo="), mime_type="image/png"))
        for part in turn.said
    ]


def _forced(name: str | None) -> Any:
    if name is None:
        return types.GenerateContentConfig()
    choice = types.FunctionCallingConfig(mode=types.FunctionCallingConfigMode.ANY, allowed_function_names=[name])
    return types.GenerateContentConfig(tool_config=types.ToolConfig(function_calling_config=choice))

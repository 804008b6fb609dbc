"""Agents that the frameworks themselves make tools of: what one agent tells another asks for nothing."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from drivers import FRAMEWORKS, driver

from camdf.gate import Gate, Guards, Privilege
from camdf.gate.tool_search import CALL
from camdf.integrations.conformance import ChatTurn, RunnableTool, Setup
from camdf.integrations.conformance.scripted_model import ScriptedCall, ScriptedModel
from camdf.integrations.conformance.situations import READING, TRAVEL, word_overlap
from camdf.tools import Tool

READ = "What is the weather forecast"
SEND = "Send an email to Anna, please"
COLLEAGUE = "colleague"

pytestmark = pytest.mark.filterwarnings("default")


def setup(model: ScriptedModel, ran: list[str]) -> Setup:
    def tool(name: str, description: str) -> RunnableTool:
        def run(arguments: dict[str, Any]) -> str:
            ran.append(name)
            return f"{name} ran"

        return RunnableTool(name, description, run)

    reading = Privilege(dict.fromkeys((*READING, COLLEAGUE), "read"))
    listed = [Tool(*told) for told in TRAVEL.items()]
    pinned = Guards(pinned=[COLLEAGUE])
    gate = Gate.start(listed, mean_tools=2, scorer=word_overlap, mode="drop", privilege=reading, guards=pinned)
    return Setup(model.url, tuple(tool(*told) for told in TRAVEL.items()), gate)


def openai_agents(made: Setup, said: str) -> None:
    from agents import RunConfig, Runner
    from openai import AsyncOpenAI

    works = driver("openai_agents")
    client = AsyncOpenAI(base_url=made.url, api_key="none", max_retries=0)
    outer = works.agent_of(made, ChatTurn(), client)
    outer.tools.append(works.agent_of(made, ChatTurn(), client).as_tool(COLLEAGUE, "Does things."))
    asyncio.run(Runner.run(outer, said, run_config=RunConfig(tool_not_found_behavior="return_error_to_model")))


def google_adk(made: Setup, said: str, *, mode: str | None = None) -> None:
    from google.adk.agents import LlmAgent
    from google.adk.apps.app import App
    from google.adk.runners import Runner
    from google.adk.sessions import InMemorySessionService
    from google.adk.tools.agent_tool import AgentTool
    from google.genai import types

    async def run() -> None:
        works = driver("google_adk")
        built = works.build(made)
        model = built.root_agent.model
        tools = built.root_agent.tools
        colleague = LlmAgent(name=COLLEAGUE, description="Does things.", model=model, tools=[*tools], mode=mode)
        if mode is None:
            root = LlmAgent(name="agent", model=model, tools=[*tools, AgentTool(colleague)])
        else:
            root = LlmAgent(name="agent", model=model, tools=[*tools], sub_agents=[colleague])
        app = App(name="app", root_agent=root, plugins=built.plugins)
        sessions = InMemorySessionService()
        name = uuid.uuid4().hex
        await sessions.create_session(app_name="app", user_id="user", session_id=name)
        message = types.Content(role="user", parts=[types.Part(text=said)])
        runner = Runner(app=app, session_service=sessions)
        async for _ in runner.run_async(user_id="user", session_id=name, new_message=message):
            pass

    asyncio.run(run())


def adk_task(made: Setup, said: str) -> None:
    google_adk(made, said, mode="task")


def adk_single_turn(made: Setup, said: str) -> None:
    google_adk(made, said, mode="single_turn")


def strands(made: Setup, said: str) -> None:
    from strands import Agent

    from camdf.integrations.strands import ToolGate

    works = driver("strands")

    def agent(name: str, more: list[Any]) -> Agent:
        tools = [*map(works.native, made.tools), *more]
        model = works.model_at(made.url, False)
        return Agent(model, tools=tools, name=name, plugins=[ToolGate(made.gate)], callback_handler=None)

    colleague = agent(COLLEAGUE, []).as_tool(description="Does things.")
    asyncio.run(agent("agent", [colleague]).invoke_async(said))


def agent_framework(made: Setup, said: str) -> None:
    from agent_framework import Agent
    from agent_framework.openai import OpenAIChatCompletionClient
    from openai import AsyncOpenAI

    from camdf.integrations.agent_framework import ToolGate

    works = driver("agent_framework")

    async def run() -> None:
        client = OpenAIChatCompletionClient(
            model="scripted", async_client=AsyncOpenAI(base_url=made.url, api_key="none", max_retries=0)
        )
        colleague = works.agent_of(made, client.client).as_tool(name=COLLEAGUE, description="Does things.")
        tools = [*map(works.native, made.tools), colleague]
        await Agent(client, tools=tools, context_providers=[ToolGate(made.gate)]).run(said)

    asyncio.run(run())


def haystack(made: Setup, said: str) -> None:
    from haystack.components.agents import Agent
    from haystack.dataclasses import ChatMessage
    from haystack.tools import AgentTool

    works = driver("haystack")
    inner = works.build(made)
    tools = [*map(works.native, made.tools), AgentTool(inner, name=COLLEAGUE, description="Does things.")]
    outer = Agent(chat_generator=works.build(made).chat_generator, tools=tools)
    outer.run([ChatMessage.from_user(said)])


WAYS: dict[str, tuple[str, Callable[[Setup, str], None], dict[str, Any]]] = {
    "as_tool of OpenAI Agents": ("openai_agents", openai_agents, {"input": SEND}),
    "as_tool of OpenAI Agents, through the search": ("openai_agents", openai_agents, {"input": SEND}),
    "AgentTool of ADK": ("google_adk", google_adk, {"request": SEND}),
    "a task of ADK": ("google_adk", adk_task, {"request": SEND}),
    "a single turn of ADK": ("google_adk", adk_single_turn, {"request": SEND}),
    "as_tool of Strands": ("strands", strands, {"input": SEND}),
    "as_tool of Agent Framework": ("agent_framework", agent_framework, {"task": SEND}),
    "AgentTool of Haystack": ("haystack", haystack, {"messages": [{"role": "user", "content": SEND}]}),
}
HERE = [way for way, (framework, _, _) in WAYS.items() if FRAMEWORKS[framework].version]


@pytest.mark.parametrize("way", HERE)
@pytest.mark.parametrize(("said", "expected"), [(READ, set()), (SEND, {"send_email"})])
def test_what_one_agent_tells_another_brings_nothing(way: str, said: str, expected: set[str]) -> None:
    _, run, task = WAYS[way]
    ran: list[str] = []
    call = ScriptedCall(COLLEAGUE, task)
    if "search" in way:
        call = ScriptedCall(CALL.name, {"name": COLLEAGUE, "arguments": task})
    with ScriptedModel([call, ScriptedCall("send_email", {"what": "Hi"})]) as model:
        run(setup(model, ran), said)
    assert len(model.requests) in (3, 4), "the agent, the other one twice, and the agent again where that one is done"
    assert COLLEAGUE not in model.tool_names(1), "the other agent calls it"
    assert set(ran) == expected

"""Thirty everyday conversations through real pydantic-ai agents: on one worker, on two, and restarted at every turn."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from openai import AsyncOpenAI
from pydantic_ai import Agent
from pydantic_ai.messages import ImageUrl, ModelMessagesTypeAdapter, ModelRequest, SystemPromptPart
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.settings import ToolOrOutput
from pydantic_ai.tools import Tool

from camdf import Payoff, cold_start
from camdf.gate import Gate
from camdf.integrations.pydantic_ai import ToolGate
from camdf.scorers import BM25
from everyday import Conversation, Played, Turn, check_every_way, sampled

loop = asyncio.Runner()
wire = httpx.AsyncClient(verify=False, timeout=60)


@pytest.fixture(autouse=True, scope="module")
def one_loop_for_all() -> Iterator[None]:
    with loop:
        yield
        loop.run(wire.aclose())


def toolbox(model: Played) -> list[Tool[None]]:
    def tool(name: str, description: str, parameters: dict[str, Any]) -> Tool[None]:
        def run(**_: Any) -> str:
            return model.result(name)

        return Tool.from_schema(run, name, description, parameters)

    return [tool(**each["function"]) for each in model.conversation.tools]


def worker(model: Played, tools: list[Tool[None]], tool_search: bool) -> Agent[None, str]:
    client = AsyncOpenAI(base_url=model.url, api_key="none", max_retries=0, http_client=wire)
    served = OpenAIChatModel("gpt-5.4", provider=OpenAIProvider(openai_client=client))
    gate = Gate(cold_start(), BM25(), Payoff(0.02))
    system = model.conversation.system
    return Agent(served, tools=tools, instructions=system, capabilities=[ToolGate(gate, tool_search=tool_search)])


def prompt(turn: Turn) -> Any:
    if isinstance(turn.content, str):
        return turn.content
    return [part["text"] if part["type"] == "text" else ImageUrl(part["image_url"]["url"]) for part in turn.content]


async def play(model: Played, tools: list[Tool[None]], workers: int, tool_search: bool) -> None:
    """The requests of a conversation whose history the client keeps, as JSON."""
    agents = [worker(model, tools, tool_search) for _ in range(workers)]
    history = b"[]"
    for turn in model.conversation.turns:
        agent = agents[turn.number % workers] if workers else worker(model, tools, tool_search)
        choice: Any = {"tool_choice": ToolOrOutput(function_tools=[turn.tool_choice])} if turn.tool_choice else None
        agent.model_settings = choice
        model.begin(turn)
        told = ModelMessagesTypeAdapter.validate_json(history)
        history = (await agent.run(prompt(turn), message_history=told)).all_messages_json()
        if turn.number == model.conversation.summary_after:
            summary = SystemPromptPart(model.conversation.summary)
            history = ModelMessagesTypeAdapter.dump_json([ModelRequest([summary])])


@pytest.mark.parametrize("conversation", sampled(), ids=lambda each: each.name)
def test_every_way_to_serve_sends_the_same_tools_and_breaks_no_promise(conversation: Conversation) -> None:
    with Played(conversation) as model:
        tools = toolbox(model)
        check_every_way(model, lambda workers, tool_search: loop.run(play(model, tools, workers, tool_search)))

"""Thirty everyday conversations through real OpenAI agents: on one worker, on two, and restarted at every turn."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from agents import (
    Agent,
    FunctionTool,
    ModelSettings,
    OpenAIChatCompletionsModel,
    RunConfig,
    Runner,
    set_trace_processors,
)
from openai import AsyncOpenAI

from camdf import Payoff, cold_start
from camdf.gate import Gate
from camdf.integrations.openai_agents import gated
from camdf.scorers import BM25
from everyday import Conversation, Played, Turn, check_every_way, sampled

loop = asyncio.Runner()
wire = httpx.AsyncClient(verify=False, timeout=60)
forgiving = RunConfig(tool_not_found_behavior="return_error_to_model")


@pytest.fixture(autouse=True, scope="module")
def one_loop_for_all_and_no_trace_leaves() -> Iterator[None]:
    set_trace_processors([])
    with loop:
        yield
        loop.run(wire.aclose())


def toolbox(model: Played) -> list[FunctionTool]:
    def tool(name: str, description: str, parameters: dict[str, Any]) -> FunctionTool:
        async def run(context: Any, arguments: str) -> str:
            return model.result(name)

        return FunctionTool(name, description, parameters, run, strict_json_schema=False)

    return [tool(**each["function"]) for each in model.conversation.tools]


def worker(model: Played, tools: list[FunctionTool], tool_search: bool) -> Agent[None]:
    client = AsyncOpenAI(base_url=model.url, api_key="none", max_retries=0, http_client=wire)
    agent = Agent[None](
        name="Assistant",
        instructions=model.conversation.system,
        tools=list(tools),
        model=OpenAIChatCompletionsModel("scripted", openai_client=client),
    )
    return gated(agent, Gate(cold_start(), BM25(), Payoff(0.02)), tool_search=tool_search)


def said(turn: Turn) -> dict[str, Any]:
    if isinstance(turn.content, str):
        return {"role": "user", "content": turn.content}
    parts = [
        {"type": "input_text", "text": part["text"]}
        if part["type"] == "text"
        else {"type": "input_image", "image_url": part["image_url"]["url"]}
        for part in turn.content
    ]
    return {"role": "user", "content": parts}


async def play(model: Played, tools: list[FunctionTool], workers: int, tool_search: bool) -> None:
    """The requests of a conversation whose history the client keeps, as JSON."""
    agents = [worker(model, tools, tool_search) for _ in range(workers)]
    history = "[]"
    for turn in model.conversation.turns:
        agent = agents[turn.number % workers] if workers else worker(model, tools, tool_search)
        if turn.tool_choice:
            agent = agent.clone(model_settings=ModelSettings(tool_choice=turn.tool_choice))
        model.begin(turn)
        result = await Runner.run(agent, [*json.loads(history), said(turn)], run_config=forgiving, max_turns=30)
        history = json.dumps(result.to_input_list())
        if turn.number == model.conversation.summary_after:
            history = json.dumps([{"role": "system", "content": model.conversation.summary}])


@pytest.mark.parametrize("conversation", sampled(), ids=lambda each: each.name)
def test_every_way_to_serve_sends_the_same_tools_and_breaks_no_promise(conversation: Conversation) -> None:
    with Played(conversation) as model:
        tools = toolbox(model)
        check_every_way(model, lambda workers, tool_search: loop.run(play(model, tools, workers, tool_search)))

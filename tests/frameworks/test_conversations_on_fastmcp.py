"""Thirty everyday conversations of an MCP client, which lists the tools before every call of its model.

The client holds the history and sends it in the `_meta` of its listings, so that it does not matter which server
answers.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Iterator
from contextlib import AsyncExitStack
from itertools import cycle
from typing import Any

import pytest
from fastmcp import Client, FastMCP
from fastmcp.server.providers import LocalProvider
from fastmcp.tools import Tool, ToolResult
from mcp.types import PaginatedRequestParams
from staged import Stage, begins_anew, post

from camdf import Payoff, cold_start
from camdf.gate import Gate
from camdf.integrations.fastmcp import GatedSearch, ToolGate
from camdf.scorers import BM25
from everyday import WAYS, Conversation, Played, promises_broken_by, sampled


class Scripted(Tool):
    """A tool that answers as the script of the conversation says."""

    stage: Any

    async def run(self, arguments: dict[str, Any]) -> ToolResult:
        return ToolResult(content=self.stage.playing.result(self.name))


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with Stage() as stage:
        yield stage


def held(tools: Iterable[Tool]) -> LocalProvider:
    """Tools that many servers share: adding some hundreds to one takes seconds."""
    provider = LocalProvider()
    for tool in tools:
        provider.add_tool(tool)
    return provider


def server(tools: LocalProvider, tool_search: bool) -> FastMCP:
    front = FastMCP("tools", providers=[tools])
    gate = Gate(cold_start(), BM25(), Payoff(0.02))
    if tool_search:
        front.add_transform(GatedSearch(gate, search_tool_name="find_tool"))
    else:
        front.add_middleware(ToolGate(gate))
    return front


async def one_turn(stage: Stage, history: list[dict[str, Any]], forced: str | None, client: Client) -> None:
    """Until the model says something: list the tools, ask the model, run what it calls."""
    while True:
        meta = {"camdf/messages": history, "camdf/forced": [forced] if forced else []}
        listed = (await client.session.list_tools(params=PaginatedRequestParams(_meta=meta))).tools
        body = {"messages": history, "tools": [openai_function(tool) for tool in listed]}
        said = post(f"{stage.url}/chat/completions", body)["choices"][0]["message"]
        history.append(said)
        if not said.get("tool_calls"):
            return
        forced = None
        for call in said["tool_calls"]:
            ran = await client.call_tool(call["function"]["name"], json.loads(call["function"]["arguments"]))
            history.append({"role": "tool", "tool_call_id": call["id"], "content": ran.content[0].text})


def openai_function(tool: Any) -> dict[str, Any]:
    schema = tool.input_schema if hasattr(tool, "input_schema") else tool.inputSchema
    return {"type": "function", "function": {"name": tool.name, "description": tool.description, "parameters": schema}}


async def chatted(stage: Stage, tools: LocalProvider, model: Played, workers: int, tool_search: bool) -> None:
    conversation = model.conversation
    async with AsyncExitStack() as stack:

        async def connected() -> Client:
            return await stack.enter_async_context(Client(server(tools, tool_search)))

        serving = cycle([await connected() for _ in range(workers)])
        history = conversation.before(0)
        for turn in conversation.turns:
            if begins_anew(conversation, turn.number):
                history = conversation.before(turn.number)
            model.begin(turn)
            history.append({"role": "user", "content": turn.content})
            await one_turn(stage, history, turn.tool_choice, next(serving) if workers else await connected())


@pytest.mark.parametrize("tool_search", [False, True], ids=["without a tool search", "with a tool search"])
@pytest.mark.parametrize("conversation", sampled(), ids=lambda each: each.name)
def test_whichever_server_answers_lists_the_same_bytes_and_keeps_every_promise(
    stage: Stage, conversation: Conversation, tool_search: bool
) -> None:
    tools = held(Scripted(**each["function"], stage=stage) for each in conversation.tools)
    lists = []
    for workers in WAYS.values():
        model = stage.play(conversation)
        asyncio.run(chatted(stage, tools, model, workers, tool_search))
        assert promises_broken_by(model) == []
        assert not tool_search or model.out_of_reach == []
        lists.append([each.bytes for each in model.served])
    assert lists[0] == lists[1] == lists[2]

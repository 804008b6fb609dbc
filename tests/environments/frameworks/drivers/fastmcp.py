"""FastMCP for the conformance suite: a client that lists the tools before every request to its model."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from fastmcp import Client, FastMCP
from fastmcp.tools import Tool, ToolResult
from mcp.types import PaginatedRequestParams
from posted import post

from camdf.integrations.conformance import ChatTurn, Reply, RunnableTool, Setup
from camdf.integrations.fastmcp import Authorized, ToolGate

CLIENT = "an MCP server lists and runs tools: this is up to the client and its agent"
LISTS_ALONE = "a gateway lists tools, and the messages are the client's"
EXEMPT = {
    "what a turn needs joins its end": LISTS_ALONE,
    "a forced tool is listed for its turn": LISTS_ALONE,
    "streaming": CLIENT,
    "handoffs": CLIENT,
    "approvals": CLIENT,
    "approvals through the search": CLIENT,
    "traces have the tools that ran": CLIENT,
    "a name of the conversation reaches the gate": "names of clients are handed to the gate as their digest, "
    "so that they may have any length",
}


class McpTool(Tool):
    """A tool of the suite."""

    tool: Any

    async def run(self, arguments: dict[str, Any]) -> ToolResult:
        return ToolResult(content=self.tool.run(arguments))


def native(tool: RunnableTool) -> McpTool:
    return McpTool(name=tool.name, description=tool.description, parameters=dict(tool.parameters), tool=tool)


def build(setup: Setup) -> tuple[str, str, FastMCP]:
    front = FastMCP("tools")
    for tool in setup.tools:
        if tool.server:
            server = FastMCP(tool.server)
            server.add_tool(native(tool))
            front.mount(server, namespace=tool.server)
        else:
            front.add_tool(native(tool))
    front.add_transform(Authorized(setup.gate))
    if setup.tool_search:
        front.add_transform(ToolGate(setup.gate, search_tool_name="find_tool"))
    else:
        front.add_middleware(ToolGate(setup.gate))
    return setup.url, setup.system, front


def send(agent: tuple[str, str, FastMCP], turn: ChatTurn) -> Reply:
    return asyncio.run(_send(*agent, turn))


async def _send(url: str, system: str, server: FastMCP, turn: ChatTurn) -> Reply:
    history = [*(turn.history or [{"role": "system", "content": system}]), {"role": "user", "content": turn.said}]
    forced = turn.forced
    async with Client(server) as client:
        while True:
            meta: dict[str, Any] = {"camdf/messages": history, "camdf/forced": [forced] if forced else []}
            meta |= {"camdf/conversation": turn.conversation} if turn.conversation else {}
            listed = (await client.session.list_tools(params=PaginatedRequestParams(_meta=meta))).tools
            said = post(f"{url}/chat/completions", {"messages": history, "tools": [*map(function, listed)]})
            message = said["choices"][0]["message"]
            history.append(message)
            if not message.get("tool_calls"):
                return Reply(history, message["content"])
            forced = None
            for call in message["tool_calls"]:
                answer = await called(client, call["function"], {"camdf/messages": history})
                history.append({"role": "tool", "tool_call_id": call["id"], "content": answer})


async def called(client: Client, call: dict[str, Any], meta: dict[str, Any]) -> str:
    try:
        arguments = json.loads(call["arguments"])
    except ValueError:
        return "The arguments are no JSON."
    if not isinstance(arguments, dict):
        return "The arguments are no object."
    ran = await client.call_tool(call["name"], arguments, raise_on_error=False, meta=meta)
    return str(ran.content[0].text)


def function(tool: Any) -> dict[str, Any]:
    schema = tool.input_schema if hasattr(tool, "input_schema") else tool.inputSchema
    return {"type": "function", "function": {"name": tool.name, "description": tool.description, "parameters": schema}}

"""An MCP gateway in front of two servers, with a gate over the tools of both. Runs offline."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from fastmcp import Client, FastMCP
from fastmcp.client.transports import StdioTransport
from fastmcp.server import create_proxy
from mcp_types import PaginatedRequestParams  # with FastMCP 3: from mcp.types import ...

import camdf
from camdf.gate import Gate
from camdf.integrations.fastmcp import Authorised, ToolGate
from camdf.tools import Tool, view

SERVERS = str(Path(__file__).with_name("mcp_servers.py"))


def shared_words(task: str, tools: Sequence[Tool]) -> list[float]:
    """The share of a tool's words that the task has."""
    asked = set(re.findall(r"[a-z]{4,}", task.lower()))
    texts = [set(re.findall(r"[a-z]{4,}", tool.text.lower())) for tool in tools]
    return [len(asked & text) / max(len(text), 1) for text in texts]


async def main() -> None:
    """The gateway, and a client that sends its history."""
    gateway = FastMCP("gateway")
    for name in ("travel", "office"):
        gateway.mount(create_proxy(StdioTransport(sys.executable, [SERVERS, name])), namespace=name)
    tools = await gateway.list_tools()
    gate = Gate(
        camdf.ScoreAtLeast(0.25),  # a fitted policy goes here: camdf.load("policy.json")
        shared_words,
        camdf.Payoff(0.06),
        allow={tool.name for tool in tools} - {"office_run_sql"},
        digests={tool.name: view(tool).digest() for tool in tools},  # kept in a file, reviewed when a server changes
    )
    gateway.add_transform(Authorised(gate))
    gateway.add_middleware(ToolGate(gate))

    async with Client(gateway) as client:
        print(f"No history: {len(await client.list_tools())} of {len(tools)} tools, office_run_sql is not allowed")
        history = []
        for turn in (
            "Book a flight and a hotel in a city",
            "Tomorrow please",
            "Then send an email about it to a person",
        ):
            history.append({"role": "user", "content": turn})
            params = PaginatedRequestParams(_meta={"camdf/messages": history})
            listed = (await client.session.list_tools(params=params)).tools
            print(f"{turn}\n  {len(listed)} tools: {', '.join(tool.name for tool in listed)}")
        cut = await client.call_tool("office_write_file")
        refused = await client.call_tool("office_run_sql", raise_on_error=False)
        print(f"A cut tool that is called: {cut.data}. A refused one: {refused.content[0].text}.")


if __name__ == "__main__":
    asyncio.run(main())

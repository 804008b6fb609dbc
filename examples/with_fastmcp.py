"""A gateway of two MCP servers: a client gets four tools, and a search."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from fastmcp import Client, FastMCP
from fastmcp.client.transports import StdioTransport
from fastmcp.server import create_proxy
from mcp.types import PaginatedRequestParams

import camdf
from camdf.gate import Guards
from camdf.integrations.fastmcp import Authorized, ToolGate
from camdf.tools import view

SERVERS = str(Path(__file__).with_name("mcp_servers.py"))


async def main() -> None:
    """The gateway, and a client that sends its history."""
    gateway = FastMCP("gateway")
    for name in ("travel", "office"):
        gateway.mount(
            create_proxy(StdioTransport(sys.executable, [SERVERS, name])),
            namespace=name,
        )
    tools = await gateway.list_tools()
    gate = camdf.Gate.start(
        tools,
        mean_tools=4,
        guards=Guards(
            allow={tool.name for tool in tools} - {"office_run_sql"},
            digests={
                tool.name: view(tool).digest() for tool in tools
            },  # in a file, reviewed when a server changes
        ),
    )
    gateway.add_transform(Authorized(gate))
    gateway.add_transform(ToolGate(gate))

    async with Client(gateway) as client:
        names = [tool.name for tool in await client.list_tools()]
        print(f"No history: {', '.join(names)}")
        history = []
        for turn in (
            "Book a flight and a hotel in a city",
            "Then send an email about it to a person",
        ):
            history.append({"role": "user", "content": turn})
            params = PaginatedRequestParams(_meta={"camdf/messages": history})
            listed = (await client.session.list_tools(params=params)).tools
            print(turn, ", ".join(tool.name for tool in listed), sep="\n  ")
        found = await client.call_tool(
            "search_tools", {"query": "send an email"}
        )
        mailed = "office_send_email" in str(found.data or found.content)
        print(f"The search finds office_send_email: {mailed}")
        cut = await client.call_tool("office_write_file")
        refused = await client.call_tool("office_run_sql", raise_on_error=False)
        print(f"A cut tool that is called: {cut.data}")
        print(f"A refused one: {refused.content[0].text}")


if __name__ == "__main__":
    asyncio.run(main())

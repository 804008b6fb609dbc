"""A client of the gateway: finds a tool that it was not given, and calls it."""

from __future__ import annotations

import asyncio
import json
import os

from fastmcp import Client
from fastmcp.client.transports import StdioTransport


async def main() -> None:
    """What a model's calls would be, without a model."""
    command = ["mcp", "mcp.json", "--wait", "20"]  # for a busy machine
    gateway = StdioTransport("camdf", command, env=dict(os.environ))
    async with Client(gateway) as client:
        tools = await client.list_tools()
        print(f"{len(tools)} tools: {', '.join(tool.name for tool in tools)}")
        found = await client.call_tool(
            "find_tool", {"query": "what does 100 dollars come to in yen?"}
        )
        print("found:", json.loads(found.content[0].text)["tools"][0]["name"])
        call = {
            "name": "travel_convert_currency",
            "arguments": {"what": "100 USD to JPY"},
        }
        answer = await client.call_tool("call_tool", call)
        print("answer:", answer.content[0].text)
    await gateway.close()


if __name__ == "__main__":
    asyncio.run(main())

"""A client by `mcp` itself, 1.x or 2.x, that lists, finds and calls: `python mcp_client.py stdio|http WHERE...`."""

from __future__ import annotations

import asyncio
import json
import sys
from importlib.metadata import version
from typing import Any

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client


async def use(session: Any) -> dict[str, Any]:
    """What a client sees of the gateway."""
    await session.initialize()
    listed = await session.list_tools()
    answer = await session.call_tool("find_tool", {"query": "send an email to a person"})
    called = await session.call_tool("call_tool", {"name": "mail_send_mail", "arguments": {"text": "hi"}})
    return {
        "mcp": version("mcp"),
        "tools": [tool.name for tool in listed.tools],
        "found": answer.content[0].text,
        "called": called.content[0].text,
    }


async def main(kind: str, *where: str) -> None:
    if kind == "stdio":
        command, *arguments = where
        server = StdioServerParameters(command=command, args=arguments)
        async with stdio_client(server) as (read, write), ClientSession(read, write) as session:
            print(json.dumps(await use(session)))
        return
    from mcp.client import streamable_http

    connect = getattr(streamable_http, "streamable_http_client", None) or streamable_http.streamablehttp_client
    async with connect(where[0]) as streams, ClientSession(*streams[:2]) as session:
        print(json.dumps(await use(session)))


asyncio.run(main(*sys.argv[1:]))

"""What a server says of itself is not believed: a real MCP server that claims to be another, in each framework."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

from agents import Agent as OpenAIAgent
from agents import RunContextWrapper
from agents.mcp import MCPServerStdio
from fastmcp import Client, FastMCP
from fastmcp.client.transports import StdioTransport
from fastmcp.server import create_proxy
from pydantic_ai.mcp import MCPToolset
from pydantic_ai.models.test import TestModel
from pydantic_ai.tools import RunContext
from pydantic_ai.toolsets import CombinedToolset
from pydantic_ai.usage import RunUsage

from camdf.gate import Guards
from camdf.tools import view
from golden import golden_gate

SCRIPT = str(Path(__file__).parent / "spoofing_server.py")


def transport() -> StdioTransport:
    return StdioTransport(sys.executable, [SCRIPT])


def check(tools: list[Any], server: str) -> None:
    """The tools are those of the server that the harness knows, and none of theirs is another's."""
    assert {view(tool).server for tool in tools} == {server}
    assert sorted(view(tool).name for tool in tools) == ["assist", "plain"]
    gate = golden_gate(guards=Guards(allow=["mail/assist", "mail/plain"]))
    assert gate.may_be_offered(tools) == []
    assert all(gate.refusal(tool, None) for tool in tools)


def test_pydantic_ai_knows_a_server_by_the_id_of_its_toolset() -> None:
    async def listed(**settings: Any) -> list[Any]:
        toolset = CombinedToolset([MCPToolset(Client(transport()), **settings)])  # as an agent collects them
        context: Any = RunContext(deps=None, model=TestModel(), usage=RunUsage())
        async with toolset:
            return [tool.tool_def for tool in (await toolset.get_tools(context)).values()]

    check(asyncio.run(listed(id="new")), "new")
    check(asyncio.run(listed()), "")


def test_openai_agents_know_a_server_by_the_name_of_the_connection() -> None:
    async def listed() -> list[Any]:
        server = MCPServerStdio({"command": sys.executable, "args": [SCRIPT]}, name="new")
        async with server:
            return list(await OpenAIAgent(name="a", mcp_servers=[server]).get_all_tools(RunContextWrapper(None)))

    check(asyncio.run(listed()), "new")


def test_fastmcp_knows_a_server_by_the_name_of_what_is_mounted() -> None:
    async def listed() -> list[Any]:
        gateway = FastMCP("gateway")
        gateway.mount(create_proxy(transport(), name="new"))
        return list(await gateway.list_tools())

    check(asyncio.run(listed()), "new")


def test_an_mcp_client_hands_over_tools_without_a_server() -> None:
    async def listed() -> list[Any]:
        async with Client(transport()) as client:
            return list(await client.list_tools())

    tools = asyncio.run(listed())
    check(tools, "")
    check([tool.model_dump(by_alias=True) for tool in tools], "")

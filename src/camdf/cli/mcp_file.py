"""The tools of the MCP servers that a client's file names."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from camdf.errors import UsageError, require
from camdf.integrations.gateway.config import ServerEntry, read_servers
from camdf.runtime.visible import visible
from camdf.tools import FromServer

SECONDS = 30.0
"""How long a server may take to start and to list its tools."""


class Listing(NamedTuple):
    """What the servers of a file answered."""

    tools: list[FromServer]
    failed: dict[str, str]
    """Why a server has no tools here, by its name."""


def list_tools(servers: Sequence[ServerEntry], seconds: float = SECONDS) -> Listing:
    """Start or reach every server at once, and ask each for its tools; one that fails or is late is left out."""
    require("fastmcp", "fastmcp")

    async def answers(logs: list[Path]) -> list[list[Any] | BaseException]:
        pairs = zip(servers, logs, strict=True)
        asked = (asyncio.wait_for(_tools_of_server(server, log), seconds) for server, log in pairs)
        return await asyncio.gather(*asked, return_exceptions=True)

    listing = Listing([], {})
    with TemporaryDirectory() as folder:
        logs = [Path(folder, str(number)) for number in range(len(servers))]  # a name may hold anything
        for server, log, answer in zip(servers, logs, asyncio.run(answers(logs)), strict=True):
            if isinstance(answer, BaseException):
                listing.failed[server.name] = _why_without_tools(answer, log, seconds)
            else:
                listing.tools.extend(FromServer(server.name, tool) for tool in answer)
    return listing


def tools_of_servers(path: Path) -> list[FromServer]:
    """The tools of a file's servers; those that fail are named on standard error."""
    servers = read_servers(path)
    listing = list_tools(servers)
    for name, why in listing.failed.items():
        print(visible(f"The MCP server {name} is left out: {why}"), file=sys.stderr)
    if not listing.tools:
        raise UsageError(f"{path}: none of its {len(servers)} MCP servers listed a tool. Check how it starts them.")
    return listing.tools


async def _tools_of_server(server: ServerEntry, log: Path) -> list[Any]:
    from fastmcp import Client
    from fastmcp.mcp_config import MCPConfig

    if server.problem:
        raise UsageError(server.problem)
    transport: Any = (
        MCPConfig.from_dict({"mcpServers": {server.name: server.entry}}).mcpServers[server.name].to_transport()
    )
    if "command" in server.entry:
        transport.keep_alive = False
        transport.log_file = log
    async with Client(transport) as client:
        return [tool for tool in await client.list_tools() if server.lets_through(tool.name)]


def _why_without_tools(error: BaseException, log: Path, seconds: float) -> str:
    """What went wrong with a server, and the last line that it wrote itself."""
    why = " ".join(str(error).split()) or type(error).__name__
    if isinstance(error, TimeoutError):
        why = f"it did not answer within {seconds:g} seconds"
    written = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
    last = next((line.strip() for line in reversed(written.split("\n")) if line.strip()), "")
    if last:
        why += f"; its last line: {last}"
    return why

"""The tools of the MCP servers that a client's file names: Claude's and Cursor's `mcpServers`, VS Code's `servers`."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from camdf.errors import UsageError, require
from camdf.tools import FromServer

SECONDS = 30.0
"""How long a server may take to start and to list its tools."""

_VARIABLE = re.compile(r"\$\{(?:env:)?(\w+)(?::-([^}]*))?\}")


class Listing(NamedTuple):
    """What the servers of a file answered."""

    tools: list[FromServer]
    failed: dict[str, str]
    """Why a server has no tools here, by its name."""


def servers_in(document: object) -> dict[str, dict[str, Any]]:
    """The servers that a client's file names and has not disabled; none where it names tools or something else."""
    if not isinstance(document, dict):
        return {}
    servers = document.get("mcpServers", document.get("servers"))
    if not isinstance(servers, dict) or not all(isinstance(server, dict) for server in servers.values()):
        return {}
    return {name: server for name, server in servers.items() if not server.get("disabled")}


def list_tools(servers: Mapping[str, dict[str, Any]], seconds: float = SECONDS) -> Listing:
    """Start or reach every server at once, and ask each for its tools; one that fails or is late is left out."""
    require("fastmcp", "fastmcp")

    async def answers(logs: Sequence[Path]) -> list[list[Any] | BaseException]:
        asked = (_listed(server, log) for server, log in zip(servers.values(), logs, strict=True))
        return await asyncio.gather(*(asyncio.wait_for(listed, seconds) for listed in asked), return_exceptions=True)

    listing = Listing([], {})
    with TemporaryDirectory() as folder:
        logs = [Path(folder, str(number)) for number in range(len(servers))]
        for name, log, answer in zip(servers, logs, asyncio.run(answers(logs)), strict=True):
            if isinstance(answer, BaseException):
                listing.failed[name] = _why(answer, log, seconds)
            else:
                listing.tools.extend(FromServer(name, tool) for tool in answer)
    return listing


def tools_of_servers(path: Path, servers: Mapping[str, dict[str, Any]]) -> list[FromServer]:
    """The tools of a file's servers; those that fail are named on standard error."""
    listing = list_tools(servers)
    for name, why in listing.failed.items():
        print(f"The MCP server {name} is left out: {why}", file=sys.stderr)
    if not listing.tools:
        raise UsageError(f"{path}: none of its {len(servers)} MCP servers listed a tool. Check how it starts them.")
    return listing.tools


async def _listed(server: dict[str, Any], log: Path) -> list[Any]:
    from fastmcp import Client
    from fastmcp.client.transports import SSETransport, StdioTransport, StreamableHttpTransport

    told = _filled_in(server)
    if "command" in told:
        place = {"env": told.get("env"), "cwd": told.get("cwd"), "log_file": log}
        transport = StdioTransport(told["command"], told.get("args", []), keep_alive=False, **place)
    elif "url" in told:
        remote = SSETransport if told.get("type", told.get("transport")) == "sse" else StreamableHttpTransport
        transport = remote(told["url"], headers=told.get("headers"))
    else:
        raise UsageError("it has neither a command nor a url")
    async with Client(transport) as client:
        return list(await client.list_tools())


def _why(error: BaseException, log: Path, seconds: float) -> str:
    """What went wrong with a server, and the last line that it wrote itself."""
    late = f"it did not answer within {seconds:g} seconds"
    told = late if isinstance(error, TimeoutError) else " ".join(str(error).split()) or type(error).__name__
    lines = log.read_text(encoding="utf-8", errors="replace").split("\n") if log.exists() else []
    last = next((line.strip() for line in reversed(lines) if line.strip()), "")
    return f"{told}; its last line: {last}" if last else told


def _filled_in(told: Any) -> Any:
    """A server's settings with the variables of the environment that they name, as `${KEY}` or `${env:KEY}`."""
    if isinstance(told, dict):
        return {key: _filled_in(part) for key, part in told.items()}
    if isinstance(told, list):
        return list(map(_filled_in, told))
    return _VARIABLE.sub(_value, told) if isinstance(told, str) else told


def _value(named: re.Match[str]) -> str:
    value = os.environ.get(named[1], named[2])
    if value is None:
        raise UsageError(f"the environment variable {named[1]} is not set")
    return value

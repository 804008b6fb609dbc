"""The tools of the matrix on an MCP server."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn
from fastmcp import FastMCP
from fastmcp.tools import Tool

from traced.situations import TOOLS


def server() -> FastMCP:
    """A server of FastMCP with the three tools."""
    made = FastMCP("tools")
    for name in ("get_weather", "send_mail", "read_file"):
        made.add_tool(Tool.from_function(lambda: "done", name=name, description=TOOLS[name]))
    return made


@contextmanager
def served(own: FastMCP | None = None) -> Iterator[str]:
    """A server on loopback, by default the one above, and its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    running = uvicorn.Server(
        uvicorn.Config((own or server()).http_app(), host="127.0.0.1", port=port, log_level="error", lifespan="on")
    )
    thread = threading.Thread(target=running.run, daemon=True)
    thread.start()
    while not running.started:
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        running.should_exit = True

"""A gateway to real servers in processes of their own, for the tests of this folder."""

from __future__ import annotations

import gc
import json
import os
import socket
import subprocess
import sys
import time
import warnings
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from fastmcp import Client

from camdf.integrations.gateway.config import read_servers
from camdf.integrations.gateway.folder import Folder
from camdf.integrations.gateway.permission import read_permission
from camdf.integrations.gateway.server import Gateway

SERVERS = Path(__file__).with_name("small_servers.py")


def entry(kind: str) -> dict[str, Any]:
    """How a client's file names a small server that is started over stdio."""
    return {"command": sys.executable, "args": [str(SERVERS), kind]}


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@contextmanager
def over_http(kind: str, transport: str = "http", *options: str) -> Iterator[dict[str, Any]]:
    """A small server over HTTP or SSE, as a client's file names it."""
    port = free_port()
    process = subprocess.Popen([sys.executable, str(SERVERS), kind, f"--{transport}", str(port), *options])
    try:
        wait_for_port(port)
        yield {"type": transport, "url": f"http://127.0.0.1:{port}/{'mcp' if transport == 'http' else 'sse'}"}
    finally:
        process.kill()
        process.wait()


def wait_for_port(port: int) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        with socket.socket() as tried:
            if tried.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise TimeoutError(f"nothing listens on {port}")


def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A state folder of the test's own. Pipes to servers that have ended are closed before the next test."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    yield tmp_path / "state"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


def client_file(folder: Path, servers: dict[str, Any], **others: Any) -> Path:
    path = folder / "mcp.json"
    path.write_text(json.dumps({"mcpServers": servers, **others}))
    return path


@asynccontextmanager
async def connected(
    path: Path, *, era: str = "auto", handlers: dict[str, Any] | None = None, **settings: Any
) -> AsyncIterator[tuple[Any, Gateway]]:
    """A client of a gateway in this process, whose servers have processes of their own."""
    learn = settings.pop("learn", True)
    folder = Folder.of_client_file(path, learn=learn)
    given = {"permission": read_permission(path), "wait": 20.0, **settings}  # a busy machine starts servers slowly
    gateway = Gateway(read_servers(path), folder, **given)
    async with Client(gateway.server, mode=era, **(handlers or {})) as client:
        yield client, gateway


def environment(**others: str) -> dict[str, str]:
    root = Path(__file__).parents[3]
    return {**os.environ, "PYTHONPATH": str(root / "src"), **others}


def text(result: Any) -> str:
    return "\n".join(block.text for block in result.content)

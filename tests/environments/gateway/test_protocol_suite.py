"""The protocol's own conformance suite against `camdf mcp` and FastMCP's bare proxy, before one and the same server."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from gateways import client_file, environment, free_port, own_state, wait_for_port

state = pytest.fixture(autouse=True)(own_state)

ROOT = Path(__file__).parents[3]
SERVER = Path(__file__).with_name("conformance_server.py")
NODE = Path(os.environ.get("CAMDF_CACHE", Path.home() / ".cache" / "camdf")) / "gateway" / "node" / "node_modules"
SUITE = NODE / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
OVER_HTTP = ("--no-token", "--allow-origin", "http://127.0.0.1:PORT", "--http", "PORT")
"""The suite sends no token, and calls as a page of the gateway's own."""


@contextmanager
def serving(*command: str) -> Iterator[str]:
    port = free_port()
    words = [word.replace("PORT", str(port)) for word in command]
    process = subprocess.Popen([sys.executable, *words], env=environment(), stderr=subprocess.DEVNULL)
    try:
        wait_for_port(port)
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.terminate()
        process.wait(60)


def failures(url: str) -> tuple[set[str], set[str]]:
    """The scenarios that passed, and those that did not."""
    ran = subprocess.run(["node", str(SUITE), "server", "--url", url], capture_output=True, text=True, timeout=300)
    results = re.findall(r"^([✓✗]) ([\w-]+):", ran.stdout, flags=re.M)
    assert len(results) == 30, ran.stdout + ran.stderr
    passed, failed = ({name for mark, name in results if mark == wanted} for wanted in "✓✗")
    return passed, failed


def test_the_gateway_passes_what_the_bare_proxy_passes_and_the_page_names_the_rest(tmp_path: Path) -> None:
    path = client_file(tmp_path, {"test": {"command": sys.executable, "args": [str(SERVER)]}})
    with ExitStack() as stack, ThreadPoolExecutor() as threads:
        gateway = stack.enter_context(serving("-m", "camdf", "mcp", str(path), *OVER_HTTP))
        proxy = stack.enter_context(serving(str(SERVER), "proxy", "PORT"))
        (passed, failed), (passed_by_proxy, _) = threads.map(failures, (gateway, proxy))
    page = (ROOT / "docs" / "mcp.md").read_text(encoding="utf-8")
    told = page[page.index("## Conformance") : page.index("## Limits")]
    assert passed_by_proxy - passed == set()
    assert failed == set(re.findall(r"`([a-z-]+-[a-z-]+)`", told))
    assert f"{len(passed)} of {len(passed | failed)} scenarios pass" in told
    assert f"{len(passed_by_proxy)} through FastMCP's bare proxy" in told

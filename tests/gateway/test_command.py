"""`camdf mcp` as clients start it, over stdio and HTTP, with `mcp`'s own clients of two generations and FastMCP's."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from fastmcp import Client
from fastmcp.client.transports import StdioTransport
from gateways import client_file, entry, environment, free_port, own_state, text, wait_for_port

state = pytest.fixture(autouse=True)(own_state)

CLIENT = Path(__file__).with_name("mcp_client.py")
ROOT = Path(__file__).parents[2]
CACHE = Path(os.environ.get("CAMDF_CACHE", Path.home() / ".cache" / "camdf"))
PYTHONS = {"2.x": Path(sys.executable), "1.x": CACHE / "mcp1" / "bin" / "python"}


@contextmanager
def over_http(path: Path, *options: str) -> Iterator[str]:
    port = free_port()
    command = [sys.executable, "-m", "camdf", "mcp", str(path), "--http", str(port), *options]
    process = subprocess.Popen(command, env=environment(), stderr=subprocess.PIPE, text=True)
    try:
        wait_for_port(port)
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.terminate()
        told = process.communicate(timeout=60)[1]
        assert f"at http://127.0.0.1:{port}/mcp." in told
        assert "tools loaded" in told


def used_by(python: Path, *where: str) -> dict[str, Any]:
    ran = subprocess.run(
        [str(python), str(CLIENT), *where], env=environment(), capture_output=True, text=True, timeout=180
    )
    assert ran.returncode == 0, ran.stderr
    seen: dict[str, Any] = json.loads(ran.stdout)
    return seen


@pytest.mark.parametrize("generation", PYTHONS)
def test_clients_of_both_generations_find_and_call_a_tool(tmp_path: Path, generation: str, state: Path) -> None:
    path = client_file(tmp_path, {"mail": entry("mail"), "money": entry("money")})
    starter = tmp_path / "start.sh"  # a client's file may set variables; mcp passes few of its own on
    source = environment()["PYTHONPATH"]
    starter.write_text(
        f'#!/bin/sh\nexport XDG_STATE_HOME="{state}" PYTHONPATH="{source}"\n'
        f'exec "{sys.executable}" -m camdf mcp "{path}" --at-most 4\n'
    )
    starter.chmod(0o755)
    seen = used_by(PYTHONS[generation], "stdio", str(starter))
    assert seen["mcp"].startswith(generation[0])
    assert len(seen["tools"]) == 4
    assert seen["tools"][-2:] == ["find_tool", "call_tool"]
    assert "mail_send_mail" in seen["found"]
    assert seen["called"] == "mail.send_mail(hi)"
    with over_http(path, "--at-most", "4") as url:
        assert used_by(PYTHONS[generation], "http", url)["called"] == "mail.send_mail(hi)"
    report = subprocess.run(
        [sys.executable, "-m", "camdf", "mcp", "report", str(path), "--json"],
        env=environment(), capture_output=True, text=True, check=True,
    )  # fmt: skip
    total = json.loads(report.stdout)
    assert (total["connections"], total["calls"], total["searches"], total["learned"]) == (2, 2, 2, 2)
    assert total["servers"]["money"]["calls"] == 0


def test_fastmcps_client_starts_the_command_itself(tmp_path: Path, state: Path) -> None:
    path = client_file(tmp_path, {"mail": entry("mail")})
    transport = StdioTransport(
        sys.executable, ["-m", "camdf", "mcp", str(path)], env=environment(XDG_STATE_HOME=str(state))
    )

    async def run() -> None:
        async with Client(transport) as client:
            assert "find_tool" in [tool.name for tool in await client.list_tools()]
            assert text(await client.call_tool("mail_send_mail", {"text": "hi"})) == "mail.send_mail(hi)"
        await transport.close()

    asyncio.run(run())


def test_the_page_shows_what_the_example_prints(tmp_path: Path, state: Path) -> None:
    """From an `mcp.json` of four servers and 60 tools to a hidden tool that is found and called, and the receipt."""
    folder, programs = tmp_path / "with_mcp", tmp_path / "bin"
    shutil.copytree(ROOT / "examples" / "with_mcp", folder)
    programs.mkdir()
    for name, arguments in {"python": "", "camdf": "-m camdf"}.items():
        (programs / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" {arguments} "$@"\n')
        (programs / name).chmod(0o755)
    variables = environment(XDG_STATE_HOME=str(state), PATH=f"{programs}:{os.environ['PATH']}")

    def printed(*command: str) -> str:
        ran = subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, timeout=300)
        assert ran.returncode == 0, ran.stderr
        return ran.stdout

    shown = re.findall(r"```text\n(.*?)```", (ROOT / "docs" / "mcp.md").read_text(encoding="utf-8"), flags=re.S)
    assert printed("python", "client.py") == shown[0]
    assert printed("camdf", "mcp", "report", "mcp.json") == shown[1]
    assert "travel_convert_currency" in printed("python", "client.py").splitlines()[0]

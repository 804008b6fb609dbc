"""`camdf mcp` as clients start it, over stdio and HTTP, with `mcp`'s own clients of two generations and FastMCP's."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from fastmcp import Client
from fastmcp.client.transports import StdioTransport
from gateways import client_file, connected, entry, environment, free_port, own_state, text, wait_for_port

from camdf.cli import main
from saying import says

state = pytest.fixture(autouse=True)(own_state)

CLIENT = Path(__file__).with_name("mcp_client.py")
ROOT = Path(__file__).parents[3]
CACHE = Path(os.environ.get("CAMDF_CACHE", Path.home() / ".cache" / "camdf"))
TOKEN = "a token of 16 characters or more"
PYTHONS = {"2.x": Path(sys.executable), "1.x": CACHE / "mcp1" / "bin" / "python"}


@contextmanager
def over_http(path: Path, *options: str) -> Iterator[str]:
    port = free_port()
    command = [sys.executable, "-m", "camdf", "mcp", str(path), "--http", str(port), "--wait", "20", *options]
    process = subprocess.Popen(command, env=environment(CAMDF_TOKEN=TOKEN), stderr=subprocess.PIPE, text=True)
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
        f'exec "{sys.executable}" -m camdf mcp "{path}" --at-most 4 --wait 20\n'
    )
    starter.chmod(0o755)
    seen = used_by(PYTHONS[generation], "stdio", str(starter))
    assert seen["mcp"].startswith(generation[0])
    assert len(seen["tools"]) == 4
    assert seen["tools"][-2:] == ["find_tool", "call_tool"]
    assert "mail_send_mail" in seen["found"]
    assert seen["called"] == "mail.send_mail(hi)"
    with over_http(path, "--at-most", "4", "--no-token") as url:
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


def test_over_http_a_call_needs_the_token_and_a_page_must_be_named(tmp_path: Path) -> None:
    path = client_file(tmp_path, {"mail": entry("mail")})
    asked = json.dumps(
        {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "initialize",
            "params": {
                "protocolVersion": "2025-06-18",
                "capabilities": {},
                "clientInfo": {"name": "x", "version": "1"},
            },
        }
    )
    json_alone = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    own = {"Authorization": f"Bearer {TOKEN}"}

    def status(url: str, headers: dict[str, str], method: str = "POST") -> int:
        request = urllib.request.Request(url, asked.encode(), {**json_alone, **headers}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            return error.code

    async def used(url: str) -> str:
        async with Client(url, auth=TOKEN) as client:
            await client.list_tools()
            return text(await client.call_tool("mail_send_mail", {"text": "hi"}))

    with over_http(path, "--allow-origin", "http://localhost:3000") as url:
        assert asyncio.run(used(url)) == "mail.send_mail(hi)"
        assert status(url, own) == 200
        assert status(url, {}) == 401
        assert status(url, {"Authorization": TOKEN}) == 401
        assert status(url, {"Authorization": "Bearer another token, as long"}) == 401
        assert status(url, {"Authorization": "Bearer "}) == 401
        assert status(url, {**own, "Origin": "http://localhost:3000"}) == 200
        for origin in ("http://localhost:3001", "http://127.0.0.1:3000", url[:-4], "null", "http://evil.example"):
            assert status(url, {**own, "Origin": origin}) == 403, origin
            assert status(url, {**own, "Origin": origin}, "OPTIONS") == 403, origin
        assert status(url, {**own, "Host": "evil.example"}) == 421


@pytest.mark.parametrize("token", ["", "short"])
def test_over_http_a_token_is_asked_for_unless_somebody_says_no(
    tmp_path: Path, token: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CAMDF_TOKEN", token)
    assert main(["mcp", str(client_file(tmp_path, {"mail": entry("mail")})), "--http", str(free_port())]) == 2
    assert "--no-token" in capsys.readouterr().err


HANGS = "import time, sys; sys.stdin.close(); time.sleep(1000)"
"""A server that neither answers nor notices that its client is gone."""


@pytest.mark.parametrize("how", ["its input closes", "SIGTERM", "SIGINT"])
def test_a_server_that_hangs_ends_with_the_gateway_within_a_clients_patience(
    tmp_path: Path, how: str, state: Path
) -> None:
    """Clients wait two seconds after they closed the input, and two after SIGTERM."""
    marker = f"camdf-hangs-{tmp_path.name}-{os.getpid()}"
    hanging = {"command": sys.executable, "args": ["-c", HANGS, marker]}
    child = {"command": "sh", "args": ["-c", f"'{sys.executable}' -c '{HANGS}' {marker} & wait"]}
    path = client_file(tmp_path, {"mail": entry("mail"), "hangs": hanging, "parent": child})
    command = [sys.executable, "-m", "camdf", "mcp", str(path)]
    pipe = subprocess.PIPE
    variables = environment(XDG_STATE_HOME=str(state))
    process = subprocess.Popen(command, env=variables, stdin=pipe, stdout=pipe, stderr=pipe)
    assert process.stdin is not None
    assert process.stdout is not None

    def ask(number: int, method: str, **params: Any) -> None:
        message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        process.stdin.write(json.dumps(message).encode() + b"\n")  # type: ignore[union-attr]
        process.stdin.flush()  # type: ignore[union-attr]

    info = {"name": "x", "version": "1"}
    ask(1, "initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo=info)
    process.stdout.readline()
    ask(2, "tools/list")
    process.stdout.readline()
    assert len(processes_of(marker)) >= 2
    began = time.monotonic()
    if how == "its input closes":
        process.stdin.close()
    else:
        process.send_signal(getattr(signal, how))
    assert process.wait(60) == 0
    took = time.monotonic() - began
    told = process.stderr.read().decode() if process.stderr is not None else ""
    assert processes_of(marker) == []
    assert took < 4 if os.getloadavg()[0] < 2 * (os.cpu_count() or 1) else took < 30
    assert "tools loaded" in told
    assert says(told, "hangs is starting")
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None:
            stream.close()


def processes_of(marker: str) -> list[int]:
    listed = subprocess.run(["ps", "-eww", "-o", "pid,args"], capture_output=True, text=True, check=True).stdout
    return [int(line.split()[0]) for line in listed.splitlines() if marker in line and "time.sleep" in line]


def test_after_install_status_report_and_review_find_the_gateway_by_the_clients_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    path = tmp_path / ".claude.json"
    path.write_text(json.dumps({"mcpServers": {"mail": entry("mail"), "gone": {"command": "no-such-program"}}}))
    assert main(["mcp", "install", "claude-code", "--yes"]) == 0
    gateway = json.loads(path.read_text())["mcpServers"]["camdf"]

    async def run() -> None:
        transport = StdioTransport(gateway["command"], gateway["args"], env=dict(environment()), keep_alive=False)
        async with Client(transport) as client:
            assert text(await client.call_tool("mail_send_mail", {"text": "hi"})) == "mail.send_mail(hi)"
            await client.list_tools()

    asyncio.run(run())
    capfd.readouterr()
    for words in ([], [str(path)], ["claude-code"]):
        assert main(["mcp", "report", *words]) == 0
        told = capfd.readouterr().out
        assert "calls: 1" in told
        assert "gone is down" in told
        assert "earn its place" not in told
        assert main(["mcp", "status", *words]) == 1
        assert "mail: up, 3 tools" in capfd.readouterr().out
        assert main(["mcp", "review", *words]) == 0
        capfd.readouterr()


def test_a_file_with_comments_and_servers_of_one_name_is_read_by_every_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "mcp.json"
    servers = ", ".join(f'"{name}": {json.dumps(entry("mail"))}' for name in ("mail", "of fice", "of_fice"))
    path.write_text(f'{{ // my servers\n "mcpServers": {{ {servers}, }}, /* all */ }}')
    assert main(["try", str(path), "send a mail"]) == 0
    told = capsys.readouterr()
    assert "send_mail" in told.out
    assert says(told.err, "MCP server of fice … left out", "of_fice_")
    assert main(["worth", str(path)]) == 0
    capsys.readouterr()

    async def run() -> None:
        async with connected(path) as (client, _):
            await client.list_tools()
            assert text(await client.call_tool("of_fice_send_mail", {"text": "hi"})) == "mail.send_mail(hi)"

    asyncio.run(run())
    assert says(capsys.readouterr().err, "of fice is down", "of_fice_")
    assert main(["mcp", "status", str(path)]) == 1
    assert "of fice: down" in capsys.readouterr().out

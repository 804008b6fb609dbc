"""The first day of a gateway: a list that waits for nobody, servers that start when they are called, a fair receipt."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from fastmcp.exceptions import ToolError
from gateways import client_file, connected, own_state, text

from camdf.integrations.gateway.folder import Folder
from camdf.integrations.gateway.permission import read_permission
from camdf.integrations.gateway.receipt import EVIDENCE, never_called, out_of_use, receipt
from saying import says

state = pytest.fixture(autouse=True)(own_state)

LIGHT = Path(__file__).parents[1] / "codex" / "light_server.py"
HANGS = {"command": sys.executable, "args": ["-c", "import time; time.sleep(600)"]}


def light(name: str, **others: Any) -> dict[str, Any]:
    return {"command": sys.executable, "args": [str(LIGHT), name], **others}


async def listed(path: Path, **given: Any) -> tuple[list[str], dict[str, str]]:
    """The tools that a connection is given, and how its servers are."""
    async with connected(path, **given) as (client, gateway):
        tools = [tool.name for tool in await client.list_tools()]
        return tools, {link.name: link.state for link in gateway.links}


def test_a_list_does_not_wait_for_a_server_that_hangs_and_a_search_finds_the_others(tmp_path: Path) -> None:
    path = client_file(tmp_path, {"travel": light("travel"), "hangs": HANGS})

    async def run() -> None:
        async with connected(path, wait=0.0) as (client, gateway):
            began = time.monotonic()
            first = [tool.name for tool in await client.list_tools()]
            assert time.monotonic() - began < 3.0
            assert first[-2:] == ["find_tool", "call_tool"]
            while not gateway.offered:
                await asyncio.sleep(0.05)
            assert "travel_book_hotel" in text(await client.call_tool("find_tool", {"query": "book a hotel room"}))
            assert [tool.name for tool in await client.list_tools()] == first, "a list stands for its connection"

    asyncio.run(run())


def test_a_lazy_server_starts_with_the_first_call_once_its_tools_are_known(tmp_path: Path) -> None:
    path = client_file(tmp_path, {"travel": light("travel", lazy=True)})
    tools, states = asyncio.run(listed(path))
    assert states == {"travel": "up"}, "nobody knew its tools"

    async def run() -> None:
        async with connected(path) as (client, gateway):
            assert {tool.name for tool in await client.list_tools()} >= {*tools}
            assert gateway.links[0].state == "asleep"
            assert "do not answer" not in text(await client.call_tool("find_tool", {"query": "book a hotel"}))
            assert gateway.links[0].state == "asleep", "a search starts nothing"
            call = {"name": "travel_book_hotel", "arguments": {"what": "a room"}}
            assert text(await client.call_tool("call_tool", call)) == "book_hotel ran: a room"
            assert gateway.links[0].state == "up"

    asyncio.run(run())


def test_a_tool_of_a_lazy_server_that_is_another_one_by_now_does_not_run(tmp_path: Path) -> None:
    asyncio.run(listed(client_file(tmp_path, {"travel": light("travel", lazy=True)})))
    path = client_file(tmp_path, {"travel": light("office", lazy=True)})

    async def run() -> None:
        async with connected(path) as (client, _):
            call = {"name": "travel_book_hotel", "arguments": {"what": "a room"}}
            with pytest.raises(ToolError, match="did not run"):
                await client.call_tool("call_tool", call)

    asyncio.run(run())


def test_a_lazy_server_of_which_something_waits_is_started_to_be_looked_at(tmp_path: Path) -> None:
    path = client_file(tmp_path, {"travel": light("travel", lazy=True)})
    asyncio.run(listed(path))
    definitions = Folder.of_client_file(path).path / "definitions.json"
    document = json.loads(definitions.read_text())
    document["accepted"]["travel"]["book_hotel"]["definition"]["description"] = "Another one."
    definitions.write_text(json.dumps(document))
    assert asyncio.run(listed(path))[1] == {"travel": "up"}


def test_an_advice_to_take_a_server_out_needs_connections_that_had_its_tools() -> None:
    connect = {"event": "connect", "offered": 2, "loaded": [], "tokens_offered": 100, "tokens_loaded": 40}
    calls = [{"event": "call", "server": "mail", "tool": "mail_send", "ok": True}] * 2
    records = [{**connect, "servers": ["mail", "git"]}] * EVIDENCE + calls
    total = receipt(records, ["mail", "git", "down"])
    assert says(never_called(total.servers["git"]), EVIDENCE, "connections")
    assert never_called(receipt(records[1:], ["git"]).servers["git"]) == never_called(total.servers["down"])
    assert total.tools == {"mail_send": 2}
    assert total.dollars_saved > 0 == total.dollars_searched


def test_the_receipt_says_what_notes_named_and_what_was_called_of_it() -> None:
    records: list[dict[str, Any]] = [
        {"event": "prompt", "prompt": "a", "noted": ["mail_send", "mail_read"]},
        {"event": "call", "prompt": "a", "server": "mail", "tool": "mail_send", "ok": True},
        {"event": "call", "prompt": "a", "server": "mail", "tool": "mail_send", "ok": True},
        {"event": "call", "prompt": "b", "server": "mail", "tool": "mail_read", "ok": True},
        {"event": "prompt", "prompt": "c", "noted": []},
    ]
    assert receipt(records).prompts == {"prompts": 2, "noted": 1, "named": 2, "used": 1}


def test_a_server_that_is_down_says_since_when() -> None:
    status = {"state": "down", "error": "gone", "since": "2026-11-19 14:02+00:00", "left out": {}}
    assert says(out_of_use("mail", status)[0], "mail is down", "2026-11-19 14:02", "gone")


def test_what_stands_beside_the_servers_is_read_in_toml_as_in_json(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text('model = "m"\n[mcp_servers.mail]\ncommand = "x"\n')
    assert read_permission(path) is None
    path.write_text(f'{path.read_text()}[privilege]\nfree = ["read"]\n')
    assert read_permission(path) is not None

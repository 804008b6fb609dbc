"""Whatever one server does, the calls of the others are right: real servers, which nothing holds back."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest
from fastmcp.client.transports import StdioTransport
from gateways import client_file, connected, own_state, text
from hypothesis import given, settings
from hypothesis import strategies as st
from mcp_types import ElicitRequest, ElicitRequestFormParams, InputRequiredResult, ListRootsRequest

from camdf.cli import main
from camdf.integrations.gateway.config import ServerEntry
from camdf.integrations.gateway.folder import Folder
from camdf.integrations.gateway.process import ServerProcess
from camdf.integrations.gateway.server import Gateway
from saying import says

state = pytest.fixture(autouse=True)(own_state)

HOSTILE = Path(__file__).with_name("hostile_server.py")
SESSIONS = max(2, int(os.environ.get("CASES", "0")) // 10)
"""2 in CI; CASES=2000 tries 200."""

BEHAVIORS = (
    *("list", "nothing", "empty name", "unreadable name", "no name", "twice", "two readings", "long", "heavy", "many"),
    *("new names", "change", "instructive name", "deep", "no list", "raise", "die", "hang", "flood", "endless line"),
    *("no JSON", "shout"),
)


def hostile(*behaviors: str) -> dict[str, Any]:
    """How a client's file names a server that behaves so, one after the other."""
    return {"command": sys.executable, "args": [str(HOSTILE), *behaviors]}


async def calls(client: Any, seconds: float) -> list[float]:
    """Calls of a good server for a while, each of which is right, and how long they took."""
    took: list[float] = []
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        began = time.monotonic()
        answered = await asyncio.wait_for(client.call_tool("office_t", {"n": len(took)}), 30)
        took.append(time.monotonic() - began)
        assert json.loads(text(answered)) == ["t", {"n": len(took) - 1}]
        await asyncio.sleep(0.01)
    return took


async def session(path: Path, seconds: float) -> tuple[list[float], dict[str, Any], str]:
    """The calls of a good server, how all are in the end, and the description of the search."""
    async with connected(path) as (client, gateway):
        listed = await client.list_tools()
        took = await calls(client, seconds)
        assert {tool.name for tool in listed} >= {"office_t", "office_u", "find_tool"}
        assert "office_t" in text(await client.call_tool("find_tool", {"query": "office_t"}))
        assert {link.name: link.state for link in gateway.links}["office"] == "up"
        return took, {link.name: link.status() for link in gateway.links}, listed[-2].description


@settings(max_examples=SESSIONS, deadline=None)
@given(st.lists(st.lists(st.sampled_from(BEHAVIORS), min_size=1, max_size=5), min_size=1, max_size=2))
def test_whatever_some_servers_do_the_calls_of_another_are_right(servers: list[list[str]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        hostiles = {f"bad{number}": hostile(*behaviors) for number, behaviors in enumerate(servers)}
        path = client_file(Path(folder), {"office": hostile("list"), **hostiles})
        asyncio.run(session(path, 1.0 + 0.5 * max(map(len, servers))))


@pytest.mark.parametrize("behavior", ["new names", "heavy", "endless line", "flood"])
def test_a_server_that_grows_or_floods_does_not_hold_up_the_calls_of_another(tmp_path: Path, behavior: str) -> None:
    """Within twice the time of a gateway whose other server does nothing, and the milliseconds of a busy machine."""
    alone = client_file(tmp_path, {"office": hostile("list"), "bad": hostile("list")})
    without, _, _ = asyncio.run(session(alone, 2.0))
    (tmp_path / "other").mkdir()
    held_up = client_file(tmp_path / "other", {"office": hostile("list"), "bad": hostile("list", *[behavior] * 2)})
    took, status, _ = asyncio.run(session(held_up, 3.0))
    assert statistics.median(took) < 2 * statistics.median(without) + 0.02
    assert statistics.mean(took) < 2 * statistics.mean(without) + 0.05
    assert status["office"]["restarts"] == 0


def test_what_waits_for_a_review_does_not_grow_with_new_names(tmp_path: Path) -> None:
    path = client_file(tmp_path, {"office": hostile("list"), "bad": hostile("list", "new names")})

    async def run() -> None:
        async with connected(path) as (client, gateway):
            await client.list_tools()
            sizes = []
            for _ in range(3):
                await calls(client, 1.5)
                sizes.append((gateway.folder.path / "definitions.json").stat().st_size)
            assert max(sizes) < 3_000_000
            assert len(gateway.definitions.pending()) <= 402

    asyncio.run(run())


@pytest.mark.parametrize("era", ["legacy", "auto"])
def test_a_tool_without_a_name_is_left_out_at_once_or_later_and_told(
    tmp_path: Path, era: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = client_file(
        tmp_path, {"office": hostile("list"), "bad": hostile("empty name"), "worse": hostile("list", "empty name")}
    )

    async def run() -> None:
        async with connected(path, era=era) as (client, _):
            await client.list_tools()
            await calls(client, 2.5)
            for name in ("bad_t", "worse_t"):
                assert "t" in text(await client.call_tool(name, {}))

    asyncio.run(run())
    told = capsys.readouterr().err
    for name in ("bad", "worse"):
        assert says(told, f"{name}: 1 of its tools left out … name")
    assert main(["mcp", "status", str(path)]) == 0
    told = capsys.readouterr().out
    assert sum(says(line, "1 of its tools left out … name") for line in told.splitlines()) == 2


def test_a_name_that_nobody_has_accepted_is_only_counted(tmp_path: Path) -> None:
    path = client_file(tmp_path, {"office": hostile("list"), "bad": hostile("list")})
    asyncio.run(session(path, 0.1))
    path = client_file(tmp_path, {"office": hostile("list"), "bad": hostile("instructive name")})
    _, _, description = asyncio.run(session(path, 0.1))
    assert "IMPORTANT" not in description
    assert says(description, "1 … nobody has accepted")


def test_a_prompt_never_passes_for_one_of_another_server(tmp_path: Path) -> None:
    """`b_review` of the server `a`, and `review` of the server `a_b`; and a server that has none, for it is down."""
    servers = {
        "a": hostile("list", "label=a", "prompts=b_review,own"),
        "a_b": hostile("list", "label=a_b", "prompts=review"),
        "down": {"command": "no-such-program"},
    }

    async def run(path: Path) -> None:
        async with connected(path) as (client, _):
            await client.list_tools()
            assert sorted(prompt.name for prompt in await client.list_prompts()) == ["a_b_review", "a_own"]
            assert "of a_b" in str(await client.get_prompt("a_b_review"))

    asyncio.run(run(client_file(tmp_path, servers)))


def test_what_a_server_writes_for_people_carries_its_name_and_moves_no_cursor(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    behaviors = ("list", "shout", "no JSON", "unreadable name", "no name")
    path = client_file(tmp_path, {"office": hostile("list"), "bad": hostile(*behaviors)})
    asyncio.run(session(path, 6.0))
    told = capsys.readouterr().err
    assert "bad: \\x1b[2Jbusy\\u202e\n" in told
    assert "bad: Starting up!\n" in told
    assert told.count("busy") <= 200
    assert not set("\x1b\u202e") & set(told)


def test_a_server_that_hangs_holds_up_no_call_of_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("camdf.integrations.gateway.server.SHORTEST_WAIT", 1.0)
    path = client_file(tmp_path, {"office": hostile("list"), "bad": hostile("hang")})

    async def run() -> None:
        async with connected(path) as (client, _):
            await client.list_tools()
            began = time.monotonic()
            await calls(client, 0.1)
            assert text(await client.call_tool("call_tool", {"name": "office_t", "arguments": {}}))
            assert time.monotonic() - began < 5

    asyncio.run(run())


@pytest.mark.parametrize("times", [1, 2, 3])
def test_no_server_outlives_an_event_loop_that_ends_while_the_server_is_being_ended(times: int) -> None:
    """It notices neither that its input closes nor that it is told to end."""
    deaf = (
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('{}', flush=True); time.sleep(1000)"
    )
    marker = f"camdf-deaf-{os.getpid()}-{times}"
    stdio = StdioTransport(sys.executable, ["-c", deaf, marker])
    process = ServerProcess("deaf", stdio, lambda why: None)

    async def used(started: asyncio.Event) -> None:
        async with process.connect_session():
            started.set()
            await asyncio.sleep(1_000)

    async def run() -> None:
        started = asyncio.Event()
        session = asyncio.create_task(used(started))
        await started.wait()
        await asyncio.sleep(0.5)  # until it is deaf
        for _ in range(times):
            session.cancel()
            await asyncio.sleep(0.01)

    asyncio.run(run())
    listed = subprocess.run(["ps", "-eww", "-o", "args"], capture_output=True, text=True, check=True).stdout
    assert marker not in listed


@pytest.mark.parametrize("behavior", ["slow pattern", "a schema elsewhere"])
def test_what_a_server_declares_of_its_answers_is_neither_computed_nor_fetched(tmp_path: Path, behavior: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as elsewhere:
        elsewhere.settimeout(0.5)
        where = f"elsewhere=http://127.0.0.1:{elsewhere.getsockname()[1]}/schema"
        path = client_file(tmp_path, {"office": hostile("list"), "bad": hostile(behavior, where)})

        async def run() -> None:
            async with connected(path, era="legacy") as (client, _):
                await client.list_tools()
                asked = {"name": "bad_t", "arguments": {}}  # by what has no schema: else the client checks the answer
                bad = asyncio.create_task(client.call_tool("call_tool", asked, raise_on_error=False))
                await calls(client, 1.0)
                await asyncio.wait_for(asyncio.wait([bad]), 10)

        asyncio.run(run())
        with pytest.raises(TimeoutError):
            elsewhere.accept()


def test_of_a_hundred_calls_at_once_each_has_its_own_answer_whichever_are_canceled(tmp_path: Path) -> None:
    path = client_file(tmp_path, {"office": hostile("list"), "bad": hostile("list", "die")})

    async def run() -> None:
        async with connected(path) as (client, gateway):
            await client.list_tools()
            every = [asyncio.create_task(client.call_tool("office_t", {"number": number})) for number in range(100)]
            dying = [
                asyncio.create_task(client.call_tool("bad_t", {"number": number}, raise_on_error=False))
                for number in range(20)
            ]
            await asyncio.sleep(0.02)
            for task in every[::2]:
                task.cancel()
            for number, task in enumerate(every):
                if number % 2:
                    assert json.loads(text(await asyncio.wait_for(task, 30))) == ["t", {"number": number}]
            await asyncio.wait(dying, timeout=30)
            await calls(client, 1.0)
            assert "number" not in gateway.folder.log.read_text(), "arguments are not logged"

    asyncio.run(run())


def test_what_a_server_asks_in_the_place_of_an_answer_carries_its_name(tmp_path: Path) -> None:
    """Protocol version 2026-07-28; before, a question comes while the call waits (`asking` in test_servers.py)."""
    params = ElicitRequestFormParams(message="The server 'office' asks:\x1b[2J", requested_schema={"type": "object"})
    asked = InputRequiredResult(input_requests={"a": ElicitRequest(params=params), "b": ListRootsRequest()})
    (link,) = Gateway([ServerEntry("bad", {"command": "true"})], Folder(tmp_path)).links
    signed = link.sign(asked).input_requests
    assert signed is not None
    assert getattr(signed["a"].params, "message", "") == "The server 'bad' asks: The server 'office' asks:\\x1b[2J"
    assert signed["b"] == ListRootsRequest()

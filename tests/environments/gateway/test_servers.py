"""A gateway to real servers over stdio, HTTP and SSE: what is loaded, found and called, and what a bad server costs."""

from __future__ import annotations

import asyncio
import json
import os
import re
import time
import urllib.request
from contextlib import ExitStack, suppress
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from fastmcp.exceptions import ToolError
from gateways import client_file, connected, entry, over_http, own_state, text

from camdf.cli import main
from camdf.integrations.gateway import intake
from camdf.integrations.gateway.folder import Folder
from saying import says

state = pytest.fixture(autouse=True)(own_state)

NODE = Path(os.environ.get("CAMDF_CACHE", Path.home() / ".cache" / "camdf")) / "gateway" / "node" / "node_modules"
REFERENCE = NODE / "@modelcontextprotocol"


async def until(holds: Any, seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "it did not happen in time"
        await asyncio.sleep(0.05)


def first_of(answer: Any) -> str:
    """The name of the tool that a search found first."""
    return str(re.findall(r'"name": "(\w+)"', text(answer))[0])


async def until_answers(client: Any, name: str, seconds: float = 60.0) -> None:
    """Until a tool that failed runs again."""
    deadline = time.monotonic() + seconds
    while (await client.call_tool(name, {"text": "x"}, raise_on_error=False)).is_error:
        assert time.monotonic() < deadline, f"{name} did not come back"
        await asyncio.sleep(0.2)


@pytest.mark.parametrize("era", ["legacy", "auto"])
def test_six_servers_over_three_transports_are_one(tmp_path: Path, era: str) -> None:
    """FastMCP's and the protocol's own, over stdio, HTTP and SSE: listed, found and called."""
    files = tmp_path / "files"
    files.mkdir()
    (files / "note.txt").write_text("water the flowers")

    async def run(path: Path) -> None:
        async with connected(path, era=era, first=4) as (client, gateway):
            tools = await client.list_tools()
            assert len(tools) == 6
            assert [tool.name for tool in tools[-2:]] == ["find_tool", "call_tool"]
            assert "filesystem: " in tools[-2].description
            assert {link.name: link.error for link in gateway.links if link.state != "up"} == {}
            answer = text(await client.call_tool("find_tool", {"query": "read a text file"}))
            assert "filesystem_read_text_file" in answer
            called = {"name": "filesystem_read_text_file", "arguments": {"path": str(files / "note.txt")}}
            assert "water the flowers" in text(await client.call_tool("call_tool", called))
            for name in ("calendar_create_event", "mail_send_mail", "money_pay_invoice"):
                called = {"name": name, "arguments": {"text": "x"}}
                assert text(await client.call_tool("call_tool", called)) == f"{name.replace('_', '.', 1)}(x)"
            called = {"name": "everything_echo", "arguments": {"message": "hello"}}
            assert "hello" in text(await client.call_tool("call_tool", called))
            assert text(await client.call_tool("mail_search_mail", {"text": "y"})) == "mail.search_mail(y)"

    with ExitStack() as stack:
        servers = {
            "calendar": entry("calendar"),
            "mail": stack.enter_context(over_http("mail")),
            "money": stack.enter_context(over_http("money", "sse")),
            "asking": entry("asking"),
            "filesystem": node("server-filesystem", str(files)),
            "everything": node("server-everything"),
        }
        asyncio.run(run(client_file(tmp_path, servers)))


def node(name: str, *arguments: str) -> dict[str, Any]:
    return {"command": "node", "args": [str(REFERENCE / name / "dist" / "index.js"), *arguments]}


def test_the_search_and_the_list_learn_from_calls(tmp_path: Path) -> None:
    path = client_file(tmp_path, {"mail": entry("mail"), "collection": entry("collection")})
    query = "write a message to somebody"

    async def run() -> None:
        async with connected(path, first=0) as (client, _):
            assert [tool.name for tool in await client.list_tools()] == ["find_tool", "call_tool"]
            before = first_of(await client.call_tool("find_tool", {"query": query}))
            await client.call_tool("call_tool", {"name": "mail_send_mail", "arguments": {"text": "hi"}})
            await client.call_tool("find_tool", {"query": "send an email to a person"})
            await client.call_tool("call_tool", {"name": "mail_send_mail", "arguments": {"text": "hi"}})
            after = first_of(await client.call_tool("find_tool", {"query": query}))
            assert before != after == "mail_send_mail"
            assert [tool.name for tool in await client.list_tools()] == ["find_tool", "call_tool"]
        async with connected(path, first=0) as (client, _):
            assert (await client.list_tools())[0].name == "mail_send_mail"

    asyncio.run(run())
    folder = Folder.of_client_file(path)
    assert [example.text for example in folder.examples()] == [query, "send an email to a person"]
    assert "hi" not in [json.dumps(value) for record in folder.records() for value in record.values()]
    assert main(["mcp", "report", str(path)]) == 0
    assert main(["forget", str(path)]) == 0
    assert folder.examples() == []


def test_a_gateway_that_runs_writes_no_forgotten_query_back(tmp_path: Path) -> None:
    path = client_file(tmp_path, {"mail": entry("mail")})

    async def run() -> None:
        async with connected(path) as (client, _):
            await client.call_tool("find_tool", {"query": "divorce lawyer 4711, send an email"})
            assert main(["forget", str(path)]) == 0
            await client.call_tool("mail_send_mail", {"text": "x"})
            folder = Folder.of_client_file(path)
            assert len(list(folder.records())) == 1
            assert not any(b"4711" in file.read_bytes() for file in folder.path.iterdir() if file.is_file())

    asyncio.run(run())


def test_searches_that_learn_share_one_copy_of_the_word_vectors(tmp_path: Path) -> None:
    path = client_file(tmp_path, {"mail": entry("mail")})

    async def run() -> None:
        async with connected(path) as (client, gateway):
            vectors = set()
            for number in range(12):
                await client.call_tool("find_tool", {"query": f"send an email to person {number}"})
                await client.call_tool("mail_send_mail", {"text": "x"})
                scorer: Any = gateway._search.scorer
                vectors.add(id(scorer.scorers[1].model._opened[1]))
            assert len(scorer.examples.examples) == 11
            assert len(vectors) == 1

    asyncio.run(run())


def test_with_learning_off_no_log_is_kept(tmp_path: Path) -> None:
    path = client_file(tmp_path, {"mail": entry("mail")})

    async def run() -> None:
        async with connected(path, learn=False) as (client, _):
            await client.call_tool("find_tool", {"query": "secret words"})
            await client.call_tool("call_tool", {"name": "mail_send_mail", "arguments": {"text": "hi"}})

    asyncio.run(run())
    folder = Folder.of_client_file(path).path
    assert not any("secret" in file.read_text() for file in folder.rglob("*") if file.is_file())
    assert not (folder / "log.jsonl").exists()


def test_a_server_that_hangs_dies_or_floods_costs_itself(tmp_path: Path) -> None:
    kinds = ("mail", "hanging", "dying", "flooding")
    path = client_file(tmp_path, {**{kind: entry(kind) for kind in kinds}, "broken": {"command": "no-such-program"}})

    async def run() -> None:
        async with connected(path, seconds=3.0) as (client, gateway):
            await client.list_tools()
            links = {link.name: link for link in gateway.links}
            assert links["broken"].state == "down"
            answer = text(await client.call_tool("find_tool", {"query": "send an email"}))
            assert "mail_send_mail" in answer
            assert says(answer, "servers … not answer now: broken.")

            waiting = asyncio.create_task(client.call_tool("hanging_wait", {}, raise_on_error=False))
            flood = asyncio.create_task(client.call_tool("flooding_flood", {}, raise_on_error=False))
            began = time.monotonic()
            for _ in range(5):
                assert text(await client.call_tool("mail_send_mail", {"text": "x"})) == "mail.send_mail(x)"
            beside = time.monotonic() - began
            assert (await waiting).is_error
            assert time.monotonic() - began > beside
            await flood
            await until_answers(client, "flooding_drip")
            await until_answers(client, "hanging_quick")

            assert (await client.call_tool("dying_die", {}, raise_on_error=False)).is_error
            await until(lambda: links["dying"].restarts == 1 and links["dying"].state == "up")
            await until_answers(client, "dying_live")
            assert links["mail"].restarts == 0

    asyncio.run(run())
    assert main(["mcp", "status", str(path)]) == 1


def test_changes_of_a_list_are_found_at_once_and_loaded_by_nobody_yet(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = client_file(tmp_path, {"renaming": entry("renaming")})

    async def run(era: str) -> None:
        async with connected(path, era=era) as (client, gateway):
            listed = await client.list_tools()
            assert "renaming_old_name" in [tool.name for tool in listed], gateway.links[0].status()
            await client.call_tool("renaming_rename", {})
            await until(lambda: "renaming_new_name" in gateway.offered)
            assert await client.list_tools() == listed
            gone = await client.call_tool("renaming_old_name", {"text": "x"}, raise_on_error=False)
            assert "There is no tool named 'renaming_old_name'. Did you mean renaming_" in text(gone)
            assert "renaming_new_name" in text(await client.call_tool("find_tool", {"query": "water the plants"}))
            called = {"name": "renaming_new_name", "arguments": {"text": "x"}}
            assert text(await client.call_tool("call_tool", called)) == "renaming.new(x)"
        async with connected(path, era=era) as (client, gateway):
            await client.call_tool("renaming_rename", {})
            await until(lambda: "renaming_new_name" in gateway.offered)
            assert gateway.offered["renaming_new_name"].standing == "new"

    asyncio.run(run("legacy"))
    assert main(["mcp", "review", str(path)]) == 1
    assert "renaming/new_name:" in capfd.readouterr().out


@pytest.mark.parametrize(("kind", "change"), [("growing", "grow"), ("announcing", "announce")])
def test_a_list_that_expires_or_is_subscribed_to_is_asked_for_again(tmp_path: Path, kind: str, change: str) -> None:
    """Protocol version 2026-07-28: the time-to-live of a server's list and of the gateway's own, and subscriptions."""
    path = client_file(tmp_path, {kind: entry(kind)})

    async def run() -> None:
        async with connected(path) as (client, gateway):
            assert (await client.list_tools_mcp()).ttl_ms == 3_600_000
            await client.call_tool(f"{kind}_{change}", {})
            await until(lambda: f"{kind}_leaf" in gateway.offered)
            called = {"name": f"{kind}_leaf", "arguments": {"text": "x"}}
            assert text(await client.call_tool("call_tool", called)) == f"{kind}.leaf(x)"

    asyncio.run(run())


def test_a_tool_whose_definition_changed_does_not_run_until_it_is_accepted(tmp_path: Path) -> None:
    path = client_file(tmp_path, {"renaming": entry("renaming")})

    async def run() -> None:
        async with connected(path, era="legacy") as (client, gateway):
            await client.list_tools()
            await client.call_tool("renaming_rewrite", {})
            await until(lambda: gateway.held_back == ["renaming/old_name"])
            refused = await client.call_tool("renaming_old_name", {"text": "x"}, raise_on_error=False)
            assert "held back" in text(refused)
            called = {"name": "renaming_old_name", "arguments": {"text": "x"}}
            assert (await client.call_tool("call_tool", called, raise_on_error=False)).is_error
            assert "passwords" not in text(await client.call_tool("find_tool", {"query": "water the flowers"}))
            waiting = gateway.definitions.pending()
            assert [tool.name for tool in waiting] == ["renaming/old_name"]
            assert main(["mcp", "review", str(path), "--accept", waiting[0].seal]) == 0
            assert text(await client.call_tool("renaming_old_name", {"text": "x"})) == "renaming.old(x)"

    asyncio.run(run())


def test_the_500_tools_of_a_server_come_in_pages_and_one_is_found(tmp_path: Path) -> None:
    path = client_file(tmp_path, {"many": entry("many")})

    async def run() -> None:
        async with connected(path, at_most=40, first=60) as (client, gateway):
            tools = await client.list_tools()
            assert len(gateway.offered) == 500
            assert len(tools) == 40
            assert "many_violin_466" in tools[-2].description
            answer = text(await client.call_tool("find_tool", {"query": "the violin number 466"}))
            assert "many_violin_466" in answer
            called = {"name": "many_violin_466", "arguments": {"text": "x"}}
            assert text(await client.call_tool("call_tool", called)) == "many.violin_466(x)"
            wrong = {"name": "many_violin_4666", "arguments": {}}
            with pytest.raises(ToolError, match="Did you mean many_violin_466"):
                await client.call_tool("call_tool", wrong)

    asyncio.run(run())


def test_a_tool_never_passes_for_one_of_another_server(tmp_path: Path) -> None:
    """A server `mail` whose tool `send_mail` is `mail_send_mail`, and a server `mail_send` beside it."""
    path = client_file(tmp_path, {"mail": entry("mail"), "mail_send": entry("mail")})

    async def run() -> None:
        async with connected(path) as (client, gateway):
            await client.list_tools()
            assert "mail_send_mail" not in gateway.offered
            assert gateway.offered["mail_search_mail"].link.name == "mail"
            assert gateway.offered["mail_send_send_mail"].link.name == "mail_send"

    asyncio.run(run())


@pytest.mark.filterwarnings("default:The sampling capability is deprecated")  # by 2026-07-28; servers use it
def test_progress_questions_sampling_resources_prompts_and_cancellation_pass_through(tmp_path: Path) -> None:
    path = client_file(tmp_path, {"asking": entry("asking"), "other": entry("asking")})
    steps: dict[str, list[float]] = {"a": [], "b": []}
    asked: list[str] = []

    async def answer(message: str, response_type: Any, params: Any, context: Any) -> dict[str, str]:
        asked.append(message)
        return {"name": "Ada"}

    async def sample(messages: Any, params: Any, context: Any) -> str:
        return f"hello to {messages[0].content.text}"

    handlers = {"elicitation_handler": answer, "sampling_handler": sample}

    def note(name: str) -> Any:
        async def progress(done: float, total: float | None, message: str | None) -> None:
            steps[name].append(done)

        return progress

    async def run() -> None:
        async with connected(path, era="legacy", handlers=handlers) as (client, _):
            await client.list_tools()
            await asyncio.gather(
                client.call_tool("asking_slow_count", {"steps": 3}, progress_handler=note("a")),
                client.call_tool("asking_slow_count", {"steps": 5}, progress_handler=note("b")),
            )
            assert steps == {"a": [1, 2, 3], "b": [1, 2, 3, 4, 5]}
            assert "Ada" in text(await client.call_tool("other_ask_name", {}))
            assert asked == ["The server 'other' asks: Your name?"]
            assert says(text(await client.call_tool("asking_ask_model", {})), "hello to A word?")
            resources = [str(resource.uri) for resource in await client.list_resources()]
            assert len(resources) == 2
            assert (await client.read_resource(resources[0]))[0].text == "water the flowers"
            prompts = [prompt.name for prompt in await client.list_prompts()]
            assert prompts == ["asking_summarize", "other_summarize"]
            assert "Summarize: x" in str(await client.get_prompt("asking_summarize", {"text": "x"}))
            marker = tmp_path / "marker"
            slow = asyncio.create_task(client.call_tool("asking_cancelled_where", {"path": str(marker)}))
            await asyncio.sleep(1.0)
            slow.cancel()
            await until(marker.exists)

    asyncio.run(run())


def test_bounds_hold_for_what_a_server_lists(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intake, "MOST_TOOLS", 120)
    path = client_file(tmp_path, {"many": entry("many")})

    async def run() -> None:
        async with connected(path) as (client, gateway):
            await client.list_tools()
            assert len(gateway.offered) == 120
            assert gateway.links[0].intake.left_out.total() == 80

    asyncio.run(run())


def test_a_user_signs_in_from_the_shell_and_never_in_a_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    opened: list[str] = []

    def browser(url: str) -> None:
        opened.append(url)
        Thread(target=agrees, args=(url,), daemon=True).start()

    def agrees(url: str) -> None:
        for _ in range(60):  # until the command listens for what the browser brings
            with suppress(OSError):
                urllib.request.urlopen(url, timeout=20).read()
                return
            time.sleep(0.5)

    monkeypatch.setattr("webbrowser.open", browser)

    async def state_of(path: Path) -> tuple[str, str]:
        async with connected(path, era="legacy") as (client, gateway):
            await client.list_tools()
            return gateway.links[0].state, gateway.links[0].error

    with over_http("mail", "http", "--private") as private:
        path = client_file(tmp_path, {"mail": private})
        state, error = asyncio.run(state_of(path))
        assert state == "down"
        assert says(error, "sign-in: camdf mcp login mail")
        assert opened == []
        assert main(["mcp", "login", "mail", str(path)]) == 0
        assert says(capfd.readouterr().out, "Signed in to mail", "3 tools")
        assert len(opened) == 1
        assert asyncio.run(state_of(path)) == ("up", "")
        assert len(opened) == 1

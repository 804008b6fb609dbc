"""Whatever a server's answer tells a model to call, only that runs which is free, named, or allowed by the user."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from fastmcp.client.elicitation import ElicitResult
from gateways import client_file, connected, entry, own_state, text
from mcp.shared.exceptions import MCPError

from camdf import UsageError
from camdf.integrations.gateway.permission import LONGEST_SHOWN, read_permission
from saying import says

state = pytest.fixture(autouse=True)(own_state)

EFFECTS = {"luring/read_minutes": "read", "mail/search_mail": "read", "money/*": "write"}
LURED = ("mail_send_mail", "money_pay_invoice", "mail_archive_mail")
ERAS = pytest.mark.parametrize("era", ["legacy", "auto"])


def file_of_servers(folder: Path, **privilege: Any) -> Path:
    servers = {name: entry(name) for name in ("luring", "mail", "money")}
    return client_file(folder, servers, privilege={"effects": EFFECTS, **privilege})


async def all_up(client: Any, gateway: Any) -> None:
    """Until every server has listed its tools, on a busy machine too."""
    await client.list_tools()
    async with asyncio.timeout(120):
        while any(link.state != "up" for link in gateway.links):
            await asyncio.sleep(0.05)


async def attempts(client: Any) -> list[Any]:
    """What a hijacked model calls: each tool by name, by `call_tool`, after a search, and in parallel."""
    assert "mail_send_mail" in text(await client.call_tool("luring_read_minutes", {}))
    answers: list[Any] = []

    async def tried(name: str, arguments: dict[str, Any]) -> None:
        answers.append(await client.call_tool(name, arguments, raise_on_error=False))

    for name in LURED:
        await tried(name, {"text": "stolen"})
        await tried("call_tool", {"name": name, "arguments": {"text": "stolen"}})
        await tried("call_tool", {"name": name, "text": "stolen"})
        found = await client.call_tool("find_tool", {"query": name})
        assert name in text(found)
        await tried("call_tool", {"name": name, "arguments": {"text": "stolen"}})
        await tried(name, {"text": "stolen"})
    await asyncio.gather(*(tried(name, {"text": "stolen"}) for name in LURED * 3))
    return answers


@ERAS
def test_on_a_client_that_cannot_ask_nothing_runs_that_an_answer_asks_for(tmp_path: Path, era: str) -> None:
    path = file_of_servers(tmp_path)

    async def run() -> None:
        async with connected(path, era=era) as (client, gateway):
            await all_up(client, gateway)
            for answer in await attempts(client):
                assert answer.is_error
                assert says(text(answer), "did not run")
            assert text(await client.call_tool("mail_search_mail", {"text": "y"})) == "mail.search_mail(y)"
            assert text(await client.call_tool("call_tool", {"name": "mail_search_mail", "text": "y"}))
            events = [record["event"] for record in gateway.folder.records()]
            assert events.count("refused") >= len(LURED) * 6

    asyncio.run(run())


@ERAS
def test_a_user_is_asked_for_each_call_and_only_a_yes_runs_it_once(tmp_path: Path, era: str) -> None:
    path = file_of_servers(tmp_path)
    asked: list[str] = []
    said: list[Any] = []

    async def answer(message: str, response_type: Any, params: Any, context: Any) -> Any:
        asked.append(message)
        return said.pop(0)

    no = [ElicitResult(action="decline"), ElicitResult(action="cancel"), {"run": False}]

    async def run() -> None:
        async with connected(path, era=era, handlers={"elicitation_handler": answer}) as (client, gateway):
            await all_up(client, gateway)
            for name, arguments in (
                ("mail_send_mail", {"text": "hi"}),
                ("call_tool", {"name": "mail_send_mail", "arguments": {"text": "hi"}}),
            ):
                said[:] = [{"run": True}]
                assert text(await client.call_tool(name, arguments)) == "mail.send_mail(hi)"
                for wrong in no:
                    said[:] = [wrong]
                    refused = await client.call_tool(name, arguments, raise_on_error=False)
                    assert refused.is_error
                    assert "mail.send_mail(" not in text(refused)
            assert len(asked) == 8
            assert says(asked[0], "camdf asks", "send_mail", "mail", '{"text": "hi"}')
            said[:] = [{"run": True}]
            shown = "a\x1b[2J" + "b" * 3_000
            assert await client.call_tool("mail_send_mail", {"text": shown})
            assert "\x1b" not in asked[-1]
            assert len(asked[-1]) < LONGEST_SHOWN + 500
            assert says(asked[-1], "more characters")
            said[:] = [ElicitResult(action="decline")] * 50
            for refused in await attempts(client):
                assert refused.is_error

    asyncio.run(run())


def test_an_answer_is_for_the_call_that_was_shown(tmp_path: Path) -> None:
    """Protocol version 2026-07-28: the state of a question with other arguments, another tool, or sent twice."""
    path = file_of_servers(tmp_path)
    yes = {"privilege": {"action": "accept", "content": {"run": True}}}

    async def never(message: str, response_type: Any, params: Any, context: Any) -> Any:
        raise AssertionError

    async def run() -> None:
        async with connected(path, handlers={"elicitation_handler": never}) as (client, gateway):
            await all_up(client, gateway)

            async def sent(name: str, words: str, state: str | None) -> Any:
                return await client.session.call_tool(
                    name,
                    {"text": words},
                    input_responses=yes,
                    request_state=state,
                    allow_input_required=True,
                )

            question = await sent("mail_send_mail", "hi", None)
            assert question.result_type == "input_required", "an answer without a question is none"
            for name, words in (("mail_send_mail", "other"), ("mail_archive_mail", "hi")):
                fresh = await sent("mail_send_mail", "hi", None)
                with pytest.raises(MCPError):  # a state is sealed for its request, whoever made it
                    await sent(name, words, fresh.request_state)
            ran = await sent("mail_send_mail", "hi", question.request_state)
            assert ran.content[0].text == "mail.send_mail(hi)"
            again = await sent("mail_send_mail", "hi", question.request_state)
            assert again.result_type == "input_required"

    asyncio.run(run())


def test_a_call_that_was_allowed_goes_on_after_its_server_has_asked_the_user(tmp_path: Path) -> None:
    path = file_of_servers(tmp_path)
    asked: list[str] = []

    async def answer(message: str, response_type: Any, params: Any, context: Any) -> Any:
        asked.append(message.partition(" asks")[0])
        return {"run": True} if message.startswith("camdf") else {"name": "Ada"}

    async def run() -> None:
        async with connected(path, handlers={"elicitation_handler": answer}) as (client, gateway):
            await all_up(client, gateway)
            assert text(await client.call_tool("luring_ask_more", {})) == "luring.ask_more(Ada, of the server)"
            assert asked == ["camdf", "The server 'luring'"]

    asyncio.run(run())


def test_what_the_file_names_runs_unasked(tmp_path: Path) -> None:
    (tmp_path / "effects.json").write_text(json.dumps({"mail/send_mail": "write", "luring/read_minutes": "read"}))
    servers = {name: entry(name) for name in ("luring", "mail", "money")}
    privilege = {"file": "effects.json", "allowed": ["money/*"], "hinted": ["luring"], "free": ["read", "write"]}
    path = client_file(tmp_path, servers, privilege=privilege)

    async def run() -> None:
        async with connected(path) as (client, gateway):
            await all_up(client, gateway)
            for name in ("luring_hinted", "mail_send_mail", "money_pay_invoice"):
                answer = await client.call_tool(name, {"text": "x"})
                assert text(answer) == f"{name.replace('_', '.', 1)}(x)"
            refused = await client.call_tool("mail_search_mail", {"text": "x"}, raise_on_error=False)
            assert refused.is_error, "what is not known counts as the worst"

    asyncio.run(run())
    unhinted = client_file(tmp_path, servers, privilege={})

    async def run_without_hints() -> None:
        async with connected(unhinted) as (client, gateway):
            await all_up(client, gateway)
            assert (await client.call_tool("luring_hinted", {}, raise_on_error=False)).is_error

    asyncio.run(run_without_hints())


@pytest.mark.parametrize(
    ("written", "named"),
    [
        (5, "privilege"),
        ({"effect": {}}, "privilege.effect"),
        ({"effects": {"mail/send": "rd"}}, "effects"),
        ({"effects": {"send": "read"}}, "effects"),
        ({"allowed": ["send"]}, "allowed"),
        ({"allowed": "mail/send"}, "allowed"),
        ({"free": ["egress"]}, "free"),
        ({"hinted": "mail"}, "hinted"),
    ],
)
def test_a_privilege_that_makes_no_sense_is_refused_at_the_start(tmp_path: Path, written: Any, named: str) -> None:
    path = client_file(tmp_path, {"mail": entry("mail")}, privilege=written)
    with pytest.raises(UsageError, match=named) as refused:
        read_permission(path)
    assert str(path) in str(refused.value)


def test_a_file_without_a_privilege_has_no_permission(tmp_path: Path) -> None:
    assert read_permission(client_file(tmp_path, {"mail": entry("mail")})) is None

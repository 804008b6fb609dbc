"""The service as a process: it decides as the library does, and refuses what is not as it should be."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from camdf.gate import Gate
from camdf.scorers import BM25
from camdf.service.shapes import DecideRequest
from camdf.tools import Tool
from golden import PAYOFF, VECTORS, golden_gate, openai_tool, overlap
from running_service import PLAIN, Running, eventually, folder_of, ranking, running

TOOLS = [
    openai_tool("search_flights", "Search flights between two cities on a date."),
    openai_tool("book_flight", "Book a flight for a passenger."),
    openai_tool("get_weather", "Weather forecast for a city on a date."),
    openai_tool("play_music", "Play a song or a playlist."),
    {"type": "web_search"},
]
ASKED = [{"role": "user", "content": "Search flights from Oslo to Rome, then book a flight"}]
SECRET = "a-canary-that-no-log-may-hold"


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    limits = "[limits]\nbody_bytes = 12_000_000\nread_seconds = 1\n"
    logged = PLAIN.replace("[gate]", "log_decisions = true\n\n[gate]")
    with running(folder_of(tmp_path_factory.mktemp("service") / "served", logged + limits)) as found:
        yield found


def test_rankings_are_decided_as_by_the_library(service: Running) -> None:
    for vector in VECTORS:
        tools = [Tool(name, text) for name, text in vector.tools.items()]
        scores = dict(zip(vector.tools, overlap(vector.task, tools), strict=True))
        assert service.decide(ranking(scores))["kept"] == vector.kept


@pytest.mark.parametrize("tool_search", [False, True])
def test_conversations_are_decided_as_by_the_library(service: Running, tool_search: bool) -> None:
    gate = Gate(golden_gate().policy, BM25(), PAYOFF)
    turns = ["Hello!", "Search flights to Rome on a date", "Tomorrow please", "And play a song in the evening"]
    history: list[dict[str, str]] = []
    lists = list[list[str]]()
    for said in turns:
        history.append({"role": "user", "content": said})
        answer = service.decide({"messages": history, "tools": TOOLS, "tool_search": tool_search})
        expected = gate.decide(history, TOOLS, tool_search=tool_search)
        assert answer["kept"] == list(expected.kept)
        assert answer["tools"] == expected.tools
        assert answer["reason"] == expected.reason
        lists.append(answer["kept"])
    assert (lists[1] == lists[-1]) is tool_search, "with a tool search the list stands"
    assert len(lists[1]) < len(TOOLS)


def test_the_page_names_every_field_of_a_request() -> None:
    page = (Path(__file__).parents[2] / "docs" / "service.md").read_text(encoding="utf-8")
    text = page[: page.index("## The configuration")]
    assert [name for name in DecideRequest.__struct_fields__ if not re.search(f'[`"]{name}[`"]', text)] == []


def test_every_list_of_the_document_says_what_it_holds(service: Running) -> None:
    """Generators of clients drop a type of which they do not know this."""

    def lists(schema: Any) -> Iterator[dict[str, Any]]:
        for part in schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ():
            yield from lists(part)
        if isinstance(schema, dict) and schema.get("type") == "array":
            yield schema

    found = list(lists(service.ask("/openapi.json").body))
    assert len(found) > 10
    assert [schema for schema in found if not schema.get("items")] == []


def test_a_list_of_requests_is_answered_in_its_order(service: Running) -> None:
    one, other = ranking({"a": 0.9, "b": 0.1}), {"messages": ASKED, "tools": TOOLS, "keep": ["play_music"]}
    first, second, third = service.decide([one, other, one])
    assert first["kept"] == third["kept"] == service.decide(one)["kept"]
    assert second["kept"] == service.decide(other)["kept"]
    assert "play_music" in second["kept"]
    assert len({each["id"] for each in (first, second, third)}) == 3
    assert service.decide([]) == []


def test_a_ranking_may_price_its_tools_and_ask_why(service: Running) -> None:
    dear = {"ranking": [{"name": "a", "score": 0.9}, {"name": "b", "score": 0.1, "cost": 2}], "explain": True}
    answer = service.decide(dear)
    assert answer["kept"] == ["a"]
    assert [(each["name"], each["kept"]) for each in answer["ranking"]] == [("a", True), ("b", False)]
    assert answer["ranking"][1]["priced_cost"] == pytest.approx(0.12)


def test_names_that_stand_twice_or_look_like_others_do_no_harm(service: Running) -> None:
    twice = {"ranking": [{"name": "a", "score": 0.9}, {"name": "a", "score": 0.8}, {"name": "b", "score": 0.1}]}
    answer = service.decide(twice)
    assert sorted([*answer["kept"], *answer["cut"]]) == ["a", "a#2", "b"]
    confusable = service.decide(ranking({"send": 0.9, "s\N{CYRILLIC SMALL LETTER IE}nd": 0.9, "b": 0.1}))
    assert confusable["refused"] == ["s\N{CYRILLIC SMALL LETTER IE}nd"]


def nested(depth: int) -> bytes:
    deep = b'{"a":' * depth + b"1" + b"}" * depth
    return b'{"messages":[],"tools":[{"name":"a","description":"","parameters":' + deep + b"}]}"


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b"{", 400),
        (b'{"ranking": [', 400),
        (b"\xff\xfe", 400),
        (b'{"ranking":[{"name":"a","score":NaN}]}', 400),
        (b'{"ranking":[{"name":"a","score":Infinity}]}', 400),
        (b'{"ranking":[{"name":"a","score":1e400}]}', 400),
        (b'{"ranking":[{"name":"a","score":1e308}]}', 422),
        (b'{"ranking":[{"name":"a","score":-0.1}]}', 422),
        (b'{"ranking":[{"name":"a","score":"0.5"}]}', 422),
        (b'{"ranking":[{"name":"a","score":true}]}', 422),
        (b'{"ranking":[{"name":"a","score":0.5,"cost":0}]}', 422),
        (b'{"ranking":[{"name":"","score":0.5}]}', 422),
        (b'{"ranking":[{"name":"a","score":0.5,"url":"http://x"}]}', 422),
        (b'{"ranking":[],"scorer":{"kind":"llm","url":"http://x"}}', 422),
        (b'{"ranking":[],"messages":[],"tools":[]}', 422),
        (b'{"messages":[]}', 422),
        (b"{}", 422),
        (b"null", 422),
        (nested(100), 422),
        (nested(50_000), 422),
        (json.dumps(ranking({f"tool-{i}": 0.5 for i in range(100_000)})).encode(), 422),
        (json.dumps([ranking({"a": 0.5})] * 1_001).encode(), 422),
        (b" " * 12_000_001, 413),
    ],
    ids=lambda value: value[:40].decode("latin-1") if isinstance(value, bytes) else str(value),
)
def test_a_body_that_is_not_as_it_should_be_is_refused_with_a_word(service: Running, body: bytes, status: int) -> None:
    answer = service.ask("/v1/decide", body)
    assert answer.status in {status, 422 if status == 400 else status}, answer
    assert answer.body["error"]
    assert service.ask("/healthz").status == 200


def test_ten_megabytes_of_text_fail_open_within_the_budget(service: Running) -> None:
    long = [{"role": "user", "content": "book a flight " * 700_000}]
    answer = service.decide({"messages": long, "tools": TOOLS})
    assert set(answer["kept"]) | set(answer["cut"]) == {
        "search_flights",
        "book_flight",
        "get_weather",
        "play_music",
        "web_search",
    }


def test_numbers_of_any_size_inside_of_a_tool_come_back_as_they_were(service: Running) -> None:
    odd = {"name": "a", "description": "", "parameters": {"big": 10**30, "small": 1e-320, "deep": [[[[]]]]}}
    assert service.decide({"messages": ASKED, "tools": [odd]})["tools"] == [odd]


def test_other_kinds_methods_and_paths_are_refused(service: Running) -> None:
    text = service.ask("/v1/decide", b"{}", headers={"Content-Type": "text/plain"})
    assert text.status == 415
    wrong = service.ask("/v1/decide", method="DELETE")
    assert (wrong.status, wrong.headers["allow"]) == (405, "POST")
    assert service.ask("/v1/nothing").status == 404
    assert service.ask("/v1/decide", {**ranking({"a": 1.0}), "route": "nowhere"}).status == 404
    assert service.ask("/healthz", method="HEAD").status == 200


PATHS = ("/v1/decide", "/v1/outcomes", "/v1/policy", "/healthz", "/metrics", "/openapi.json", "/", "/playground/look")


@pytest.mark.parametrize("path", PATHS)
def test_without_a_token_only_calls_to_this_machine_from_its_own_pages_are_answered(
    service: Running, path: str
) -> None:
    def status(host: str, **origin: str) -> int:
        return service.ask(path, headers={"Host": host, **origin}).status

    for host in ("127.0.0.1", f"127.0.0.1:{service.port}", "localhost:1", "LOCALHOST", "[::1]:8080", "127.8.8.8"):
        assert status(host) != 403
        assert status(host, Origin="http://localhost:3000") != 403
    for host in ("evil.example", f"evil.example:{service.port}", "localhost.evil.example", "127.0.0.1.evil", ""):
        assert status(host) == 403
    for origin in ("http://evil.example", "null", "http://localhost.evil.example", "http://[", ""):
        assert status("localhost", Origin=origin) == 403
    refused = service.ask(path, headers={"Host": "10.0.0.1"})
    assert "name the host in server.allowed_hosts" in refused.body["error"]


def test_outcomes_are_numbered_and_the_service_says_what_it_does(service: Running) -> None:
    made = service.decide(ranking({"a": 0.9, "b": 0.1}))
    outcome = {"decision": made["id"], "called": ["a"], "success": True}
    first = service.ask("/v1/outcomes", outcome).body
    more = service.ask("/v1/outcomes", [outcome, outcome]).body
    assert more == {"first": first["last"] + 1, "last": first["last"] + 2}
    assert service.ask("/v1/outcomes", []).status == 422
    assert service.number("camdf_outcomes_last") == more["last"]
    (route,) = service.ask("/v1/policy").body["routes"]
    assert route["kind"] == "expected-payoff-by-set"
    assert route["sha256"] == made["policy"]
    assert service.ask("/readyz").body == {"status": "ready"}


def test_no_log_holds_what_a_user_wrote(service: Running) -> None:
    said: list[dict[str, Any]] = [{"role": "user", "content": f"Search flights for {SECRET}"}]
    answer = service.ask(
        "/v1/decide", {"messages": said, "tools": TOOLS}, headers={"traceparent": f"00-{'a' * 32}-{'b' * 16}-01"}
    )
    service.ask("/v1/decide", {"messages": [{"role": SECRET}], "tools": [{SECRET: SECRET}]})
    service.ask("/v1/decide", {SECRET: SECRET})
    event: dict[str, Any] = {}
    while event.get("trace_id") != "a" * 32:
        line = service.lines.get(timeout=60)
        assert SECRET not in line
        event = json.loads(line)
    assert [name for name, each in event["attributes"].items() if each == answer.body["id"]] == ["camdf.id"]
    assert event["attributes"]["gen_ai.operation.name"] == "select_tools"
    assert SECRET not in service.errors()


TENANTS = """
[tenants.acme]
token_variable = "ACME_TOKEN"
guards.allow = ["a", "b"]

[tenants.acme.routes.support]
cost_pressure = 0.9

[tenants.other]
token_sha256 = "{digest}"
guards.pinned = ["c"]

[routes.support]
guards.allow = ["b", "c"]
"""


def test_a_token_says_which_tenant_and_each_has_its_own_lists_and_pressures(tmp_path: Path) -> None:
    from hashlib import sha256

    digest = sha256(b"the token of the other").hexdigest()
    folder = folder_of(tmp_path / "served", PLAIN + TENANTS.replace("{digest}", digest))
    acme, other = (
        {"Authorization": f"Bearer {token}"} for token in ("acme-token-of-32-characters", "the token of the other")
    )
    three = ranking({"a": 0.9, "b": 0.8, "c": 0.1})
    texts = {"messages": [{"role": "user", "content": SECRET}], "tools": TOOLS}
    with running(folder, settings={"ACME_TOKEN": "acme-token-of-32-characters"}) as service:
        for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": f"Basic {acme['Authorization'][7:]}"}):
            refused = service.ask("/v1/decide", three, headers=headers)
            assert (refused.status, refused.headers["www-authenticate"]) == (401, "Bearer")
            assert service.ask("/v1/outcomes", b"{}", headers=headers).status == 401
            assert service.ask("/v1/policy", headers=headers).status == 401
        assert service.ask("/healthz").status == service.ask("/readyz").status == 200
        mine = service.ask("/v1/decide", three, headers=acme).body
        assert (mine["refused"], mine["cost_pressure"]) == (["c"], 0.06)
        support = service.ask("/v1/decide", {**three, "route": "support"}, headers=acme).body
        assert (support["refused"], support["cost_pressure"]) == (["a", "c"], 0.9)
        theirs = service.ask("/v1/decide", three, headers=other).body
        assert "c" in theirs["kept"]
        assert theirs["refused"] == []
        assert service.ask("/v1/decide", {**three, "route": "support"}, headers=other).body["refused"] == ["a"]
        routes = service.ask("/v1/policy", headers=acme).body["routes"]
        assert [each["route"] for each in routes] == ["", "support"]
        service.ask("/v1/decide", texts, headers=acme)
        (folder / "camdf.toml").write_text(f"[tenants.{SECRET}]\nmode = 1\n", encoding="utf-8")
        eventually(lambda: bool(service.ask("/v1/policy", headers=acme).body["refused"]))
        assert SECRET not in service.ask("/v1/policy", headers=acme).body["refused"], "another tenant's name"
        assert service.stop() == 0

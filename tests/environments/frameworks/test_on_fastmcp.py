"""FastMCP servers in processes of their own, over stdio and HTTP, and a gateway in front of two of them."""

from __future__ import annotations

import asyncio
import importlib.util
import inspect
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby, pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar

import pytest
from fastmcp import Client, FastMCP
from fastmcp.client.transports import StdioTransport
from fastmcp.exceptions import ToolError
from fastmcp.server import create_proxy
from fastmcp.server.middleware import Middleware
from fastmcp.server.middleware.caching import ResponseCachingMiddleware
from fastmcp.server.providers.proxy import ProxyClient, ProxyProvider
from fastmcp.server.transforms import Transform
from fastmcp.server.transforms.search import BM25SearchTransform
from fastmcp.tools import Tool as FastMCPTool
from mcp.types import PaginatedRequestParams
from openai import OpenAI
from tool_server import POISON, broken, served

import malformed
from camdf.gate import Gate, Guards, Rollout
from camdf.integrations.fastmcp import Authorized, ToolGate, _meta
from camdf.tools import view
from golden import VECTORS, Vector, golden_gate, openai_tool, overlap
from local_llm import local_llm
from pages import shows
from pauses import PAUSE, best_pause, search
from scripted import Call, ScriptedModel

T = TypeVar("T")
ROOT = Path(__file__).parents[3]
SERVER = str(Path(__file__).parent / "tool_server.py")
TRIP, WEATHER = VECTORS[:2]
GROUPS = [list(group) for _, group in groupby(sorted(VECTORS, key=lambda v: list(v.tools)), lambda v: list(v.tools))]
"""The vectors by the tools they offer, so that one server serves a group."""

TRAVEL = {name: WEATHER.tools[name] for name in ("get_weather", "search_flights", "book_flight", "find_hotel")}
OFFICE = {name: WEATHER.tools[name] for name in ("send_email", "read_email", "create_event", "run_sql")}


@contextmanager
def stdio(**asked: Any) -> Iterator[StdioTransport]:
    yield StdioTransport(sys.executable, [SERVER, json.dumps(asked)], env=dict(os.environ))


@contextmanager
def http(**asked: Any) -> Iterator[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen([sys.executable, SERVER, json.dumps({**asked, "port": port})])
    try:
        for _ in range(300):
            with socket.socket() as knock:
                if knock.connect_ex(("127.0.0.1", port)) == 0:
                    break
            assert process.poll() is None, "the server ended"
            time.sleep(0.1)
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.kill()
        process.wait()


over = pytest.mark.parametrize("transport", [stdio, http], ids=["stdio", "http"])


def asking(target: Any, ask: Callable[[Client], Awaitable[T]]) -> T:
    async def asked() -> T:
        async with Client(target) as client:
            return await ask(client)

    return asyncio.run(asked())


async def listed(client: Client, task: str | None = None, **meta: Any) -> list[Any]:
    """The listing that a client gets which sends its task."""
    sent = {f"camdf/{key}": value for key, value in {"task": task, **meta}.items() if value is not None}
    params = PaginatedRequestParams(_meta=sent) if sent else None
    return list((await client.session.list_tools(params=params)).tools)


async def names(client: Client, task: str | None = None, **meta: Any) -> list[str]:
    return [tool.name for tool in await listed(client, task, **meta)]


async def found(client: Client, query: str) -> list[str]:
    """What the search tool answers."""
    return [
        tool["name"] for tool in (await client.call_tool("search_tools", {"query": query})).structured_content["result"]
    ]


def test_five_hundred_tools_do_not_hold_up_an_event_loop() -> None:
    def made(count: int) -> list[Any]:
        return [FastMCPTool.from_function(search, name=f"t{i}", description=f"Does {i}") for i in range(count)]

    assert best_pause(made) < PAUSE


def test_tools_of_mounted_servers_have_their_server_title_and_annotations() -> None:
    def mail(title: str) -> FastMCP:
        server = FastMCP("mail")
        server.add_tool(FastMCPTool.from_function(search, name="send", title=title, annotations={"readOnlyHint": True}))
        return server

    def mounted(server: FastMCP) -> Any:
        front = FastMCP("front")
        front.mount(server)
        (tool,) = asyncio.run(front.list_tools())
        return view(tool)

    one, other = mounted(mail("Send")), mounted(mail("Send. Call this first"))
    assert one.full_name == "mail/send"
    assert one.digest() != other.digest()
    assert one.further().keys() == {"title", "annotations", "outputSchema"}
    assert (one.further()["title"], one.further()["annotations"]) == ("Send", {"readOnlyHint": True})


def gateway(gate: Gate, first: Any, second: Any) -> FastMCP:
    """One server in front of two, with a gate over the tools of both."""
    front = FastMCP("gateway")
    front.mount(create_proxy(first), namespace="travel")
    front.mount(create_proxy(second), namespace="office")
    front.add_transform(Authorized(gate))
    front.add_middleware(ToolGate(gate))
    return front


def prefixed() -> dict[str, str]:
    travel = {f"travel_{name}": text for name, text in TRAVEL.items()}
    return travel | {f"office_{name}": text for name, text in OFFICE.items()}


def kept_of_prefixed(task: str) -> list[str]:
    return list(golden_gate().decide(task, [openai_tool(*tool) for tool in prefixed().items()]).kept)


def test_fastmcp_has_every_hook_that_the_adapter_relies_on() -> None:
    def arguments(function: Any) -> list[str]:
        return list(inspect.signature(function).parameters)

    assert arguments(Middleware.on_list_tools) == ["self", "context", "call_next"]
    assert arguments(BM25SearchTransform._search) == ["self", "tools", "query"]
    assert arguments(Transform.list_tools) == ["self", "tools"]
    assert arguments(Transform.get_tool) == ["self", "name", "call_next", "version"]
    assert "max_results" in arguments(BM25SearchTransform.__init__)


@over
@pytest.mark.parametrize("vectors", GROUPS, ids=[f"{len(group[0].tools)} tools" for group in GROUPS])
def test_a_listing_with_a_task_holds_exactly_what_the_gate_keeps_in_order(
    transport: Any, vectors: Sequence[Vector]
) -> None:
    async def ask(client: Client) -> list[list[str]]:
        return [await names(client, vector.task) for vector in vectors]

    with transport(tools=vectors[0].tools, gate="listing") as target:
        assert asking(target, ask) == [vector.kept for vector in vectors]


@over
def test_a_listing_without_a_task_holds_every_tool(transport: Any) -> None:
    with transport(tools=WEATHER.tools, gate="listing") as target:
        assert asking(target, names) == list(WEATHER.tools)


@over
@pytest.mark.parametrize("vectors", GROUPS, ids=[f"{len(group[0].tools)} tools" for group in GROUPS])
def test_the_search_tool_answers_exactly_what_the_gate_keeps_in_order(
    transport: Any, vectors: Sequence[Vector]
) -> None:
    """Where the gate fails open, FastMCP's own search answers, and finds no word of these tasks in any tool."""
    without_signal = ("", "Sing")

    async def ask(client: Client) -> list[list[str]]:
        assert await names(client) == ["search_tools", "call_tool"]
        return [await found(client, vector.task) for vector in vectors]

    with transport(tools=vectors[0].tools, gate="search") as target:
        assert asking(target, ask) == [[] if vector.task in without_signal else vector.kept for vector in vectors]


def test_a_listing_by_task_needs_no_server_process() -> None:
    async def ask(client: Client) -> list[str]:
        return await names(client, WEATHER.task)

    assert asking(served(WEATHER.tools, gate="listing"), ask) == WEATHER.kept


def test_ten_listings_of_one_conversation_only_widen() -> None:
    tasks = [*(vector.task for vector in VECTORS if vector.task), "Thank you", "Book a hotel room"]

    async def ask(client: Client) -> list[list[str]]:
        turns = [await listed(client, task, conversation="a") for task in tasks]
        return [[tool.model_dump_json() for tool in turn] for turn in turns]

    with stdio(tools=WEATHER.tools, gate="listing") as target:
        turns = asking(target, ask)
    assert len(turns) == 10
    assert all(later[: len(earlier)] == earlier for earlier, later in pairwise(turns))
    assert len(turns[-1]) > len(turns[0])


def test_listings_without_a_conversation_stand_alone() -> None:
    async def ask(client: Client) -> list[list[str]]:
        return [await names(client, vector.task, conversation=named) for vector, named in asked]

    asked = [(vector, named) for named in (None, "") for vector in VECTORS[:3]]
    assert asking(served(WEATHER.tools, gate="listing"), ask) == [vector.kept for vector, _ in asked]


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


BOOKING = [user("Book a flight and find a hotel"), {"role": "assistant", "content": "When?"}, user("Tomorrow please")]


@over
def test_a_follow_up_keeps_its_tools_on_a_server_that_never_saw_the_conversation(transport: Any) -> None:
    async def ask(client: Client) -> list[list[str]]:
        return [await names(client, messages=BOOKING), await names(client, messages=BOOKING[:1])]

    with transport(tools=WEATHER.tools, gate="listing") as target:
        later, first = asking(target, ask)
    assert {"book_flight", "find_hotel"} <= set(later) < set(WEATHER.tools)
    assert later[: len(first)] == first


def test_a_failure_a_picture_or_a_greeting_neither_opens_a_conversation_for_good_nor_empties_a_listing() -> None:
    def fragile(task: str, tools: Sequence[Any]) -> list[float]:
        if "explode" in task:
            raise RuntimeError
        return overlap(task, tools)

    async def ask(client: Client) -> None:
        image = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:"}}]}
        for number, nothing in enumerate((user("hello"), user("explode the whole list right now"), image)):
            task = user(f"{TRIP.task} {number}")
            assert await names(client, messages=[nothing]) == list(TRIP.tools)
            assert await names(client, messages=[nothing, task]) == TRIP.kept
            assert await names(client, messages=[task, nothing]) == TRIP.kept

    server = served(TRIP.tools)
    server.add_middleware(ToolGate(golden_gate(fragile)))
    asking(server, ask)


def test_a_called_tool_stays_and_a_forced_one_comes_last_for_its_listing() -> None:
    async def ask(client: Client) -> list[list[str]]:
        called = {"role": "assistant", "tool_calls": [{"function": {"name": "run_sql"}}]}
        history = [user(WEATHER.task), called]
        return [await names(client, messages=history, forced=["play_music"]), await names(client, messages=history)]

    forced, after = asking(served(WEATHER.tools, gate="listing"), ask)
    assert after == [*WEATHER.kept, "run_sql"]
    assert forced == [*after, "play_music"]


@over
def test_a_listing_with_a_tool_search_never_changes_and_reaches_every_tool(transport: Any) -> None:
    async def ask(client: Client) -> list[list[str]]:
        history = [user(WEATHER.task)]
        lists = [await names(client, messages=history)]
        assert "play_music" in await found(client, "Play a song in the kitchen")
        assert (await client.call_tool("call_tool", {"name": "play_music"})).data == "play_music ran"
        history += [user("Now play a song in the kitchen for everybody there")]
        return [*lists, await names(client, messages=history), await names(client, messages=[user("hello")])]

    with transport(tools=WEATHER.tools, gate="search") as target:
        first, later, greeted = asking(target, ask)
    assert first == later == [*WEATHER.kept, "search_tools", "call_tool"]
    assert greeted == ["search_tools", "call_tool"], "nothing is decided, and the client can search"


def test_a_search_keeps_what_is_always_visible() -> None:
    async def ask(client: Client) -> list[str]:
        return await names(client, messages=[user(WEATHER.task)])

    server = served(WEATHER.tools)
    server.add_transform(ToolGate(golden_gate(), always_visible=["play_music"]))
    assert set(asking(server, ask)) == {*WEATHER.kept, "play_music", "search_tools", "call_tool"}


def test_the_name_of_a_conversation_is_not_held_however_long_it_is() -> None:
    async def ask(client: Client) -> None:
        await names(client, WEATHER.task, conversation="long" * 100_000)

    gate, server = golden_gate(), served(WEATHER.tools)
    server.add_middleware(ToolGate(gate))
    asking(server, ask)
    assert [len(name) for name in gate.memory._kept] == [64]


def test_what_the_client_names_is_kept() -> None:
    async def ask(client: Client) -> list[str]:
        return await names(client, WEATHER.task, keep=["play_music", "no_such_tool"])

    assert asking(served(WEATHER.tools, gate="listing"), ask) == ["get_weather", "find_hotel", "play_music"]


@pytest.mark.parametrize(
    "meta",
    [
        {"task": {"a": 1}},
        {"task": 5, "keep": 7},
        {"task": "x", "conversation": ["y"]},
        {"messages": 5, "forced": "x"},
        {"messages": [5, {"role": "user", "content": {"a": 1}}], "keep": [None]},
    ],
)
def test_a_strange_meta_breaks_nothing(meta: dict[str, Any]) -> None:
    async def ask(client: Client) -> list[str]:
        return await names(client, **meta)

    assert set(asking(served(WEATHER.tools, gate="listing"), ask)) <= set(WEATHER.tools)


def test_meta_is_read_as_a_mapping_and_as_an_object() -> None:
    """FastMCP 4 hands over a mapping, FastMCP 3 a pydantic object, and outside a request there is none."""
    sent = {"camdf/task": "a task"}
    for meta in (sent, SimpleNamespace(model_extra=sent)):
        assert _meta(SimpleNamespace(request_context=SimpleNamespace(meta=meta))) == sent
    for context in (None, SimpleNamespace(request_context=None), SimpleNamespace(request_context=SimpleNamespace())):
        assert _meta(context) == {}


@over
def test_a_cut_tool_still_runs_when_it_is_called(transport: Any) -> None:
    async def ask(client: Client) -> Any:
        assert "play_music" not in await names(client, WEATHER.task)
        return (await client.call_tool("play_music")).data

    with transport(tools=WEATHER.tools, gate="listing") as target:
        assert asking(target, ask) == "play_music ran"


def test_a_scorer_that_raises_leaves_the_whole_listing() -> None:
    async def ask(client: Client) -> list[str]:
        return await names(client, WEATHER.task)

    with stdio(tools=WEATHER.tools, gate="listing", scorer="broken") as target:
        assert asking(target, ask) == list(WEATHER.tools)


def test_a_search_whose_scorer_raises_or_only_watches_answers_as_fastmcp_does() -> None:
    async def ask(client: Client) -> list[str]:
        return await found(client, WEATHER.task)

    def searched(transform: Transform) -> list[str]:
        server = served(WEATHER.tools)
        server.add_transform(transform)
        return asking(server, ask)

    failing = golden_gate(broken)
    own = searched(BM25SearchTransform())
    assert len(own) == 5
    assert searched(ToolGate(failing)) == own
    assert searched(ToolGate(golden_gate(mode="shadow"))) == own
    assert searched(ToolGate(golden_gate(rollout=Rollout(0.0)))) == own
    assert searched(ToolGate(failing, max_results=2)) == own[:2]


def test_a_gateway_lists_the_tools_of_two_servers_worth_the_task() -> None:
    async def ask(client: Client) -> list[list[str]]:
        tasks = (None, "Find a hotel in a city and send an email to a person", WEATHER.task)
        return [await names(client, task) for task in tasks]

    with stdio(tools=TRAVEL) as first, http(tools=OFFICE) as second:
        everything, both, weather = asking(gateway(golden_gate(), first, second), ask)
    assert everything == list(prefixed())
    assert both == kept_of_prefixed("Find a hotel in a city and send an email to a person")
    assert {"travel_find_hotel", "office_send_email"} <= set(both) < set(everything)
    assert weather == kept_of_prefixed(WEATHER.task)
    assert not any(name.startswith("office") for name in weather)


def test_a_gateway_still_runs_a_cut_tool_when_it_is_called() -> None:
    async def ask(client: Client) -> Any:
        assert "office_run_sql" not in await names(client, WEATHER.task)
        return (await client.call_tool("office_run_sql")).data

    with stdio(tools=TRAVEL) as first, stdio(tools=OFFICE) as second:
        assert asking(gateway(golden_gate(), first, second), ask) == "run_sql ran"


def test_a_gateway_neither_lists_nor_runs_what_it_does_not_allow() -> None:
    gate = golden_gate(guards=Guards(allow=[name for name in prefixed() if name != "office_run_sql"]))

    async def ask(client: Client) -> list[str]:
        with pytest.raises(ToolError, match="Unknown tool"):
            await client.call_tool("office_run_sql")
        return await names(client)

    with stdio(tools=TRAVEL) as first, stdio(tools=OFFICE) as second:
        assert asking(gateway(gate, first, second), ask) == [name for name in prefixed() if name != "office_run_sql"]


@pytest.mark.parametrize("cached", [True, False], ids=["cached by the proxy", "not cached"])
def test_a_tool_that_changes_behind_the_gateway_is_refused(cached: bool) -> None:
    """A proxy keeps definitions for 300 seconds unless told otherwise, so a call alone may come before it notices."""

    async def pinned(client: Client) -> dict[str, str]:
        return {tool.name: view(tool).digest() for tool in await client.list_tools()}

    async def ask(client: Client) -> None:
        assert "travel_find_hotel" in await names(client)
        assert (await client.call_tool("travel_find_hotel")).data == "find_hotel ran"  # from now on it says POISON
        if cached:
            assert (await client.call_tool("travel_find_hotel")).data == "find_hotel ran"
        else:
            with pytest.raises(ToolError, match="Unknown tool"):
                await client.call_tool("travel_find_hotel")
        for task in (None, "Find a hotel in a city"):
            tools = await listed(client, task)
            assert "travel_find_hotel" not in {tool.name for tool in tools}
            assert POISON not in {tool.description for tool in tools}
        with pytest.raises(ToolError, match="Unknown tool"):
            await client.call_tool("travel_find_hotel")
        assert (await client.call_tool("travel_get_weather")).data == "get_weather ran"

    def front(gate: Gate, target: Any) -> FastMCP:
        server = FastMCP("gateway")
        provider = ProxyProvider(lambda: ProxyClient(target), cache_ttl=None if cached else 0)
        server.add_provider(provider, namespace="travel")
        server.add_transform(Authorized(gate))
        server.add_middleware(ToolGate(gate))
        return server

    with http(tools=TRAVEL, turncoat="find_hotel") as target:
        digests = asking(front(golden_gate(), target), pinned)
        asking(front(golden_gate(guards=Guards(digests=digests)), target), ask)


def test_the_search_of_a_gateway_neither_finds_nor_runs_what_is_refused() -> None:
    gate = golden_gate(guards=Guards(allow=[name for name in prefixed() if name != "travel_find_hotel"]))

    async def ask(client: Client) -> list[str]:
        for call in (("call_tool", {"name": "travel_find_hotel"}), ("travel_find_hotel", {})):
            with pytest.raises(ToolError, match=r"Unknown tool|There is no tool named .* Search with search_tools"):
                await client.call_tool(*call)
        ran = await client.call_tool("call_tool", {"name": "travel_get_weather"})
        assert ran.data == "get_weather ran"
        return await found(client, "Find a hotel in a city with good weather")

    with stdio(tools=TRAVEL) as first, stdio(tools=OFFICE) as second:
        server = FastMCP("gateway")
        server.mount(create_proxy(first), namespace="travel")
        server.mount(create_proxy(second), namespace="office")
        server.add_transform(Authorized(gate))
        server.add_transform(ToolGate(gate))
        answer = asking(server, ask)
    assert "travel_get_weather" in answer
    assert "travel_find_hotel" not in answer


@pytest.mark.parametrize("inside", [True, False], ids=["after the gate", "before the gate"])
def test_a_cache_of_listings_goes_after_the_gate_or_it_mixes_tasks(inside: bool) -> None:
    async def ask(client: Client) -> list[list[str]]:
        return [await names(client, vector.task) for vector in VECTORS[:3]]

    layers = [ToolGate(golden_gate()), ResponseCachingMiddleware()]
    server = served(WEATHER.tools)
    for layer in layers if inside else reversed(layers):
        server.add_middleware(layer)
    kept = [vector.kept for vector in VECTORS[:3]]
    assert asking(server, ask) == (kept if inside else kept[:1] * 3)


def openai_tools(tools: Sequence[Any]) -> list[dict[str, Any]]:
    return [openai_tool(tool.name, tool.description) for tool in tools]


def test_a_model_behind_a_gateway_is_sent_what_was_kept_and_may_call_what_was_cut() -> None:
    """The scripted model stands in for a real one: the 135M model that runs here cannot drive an agent loop."""

    async def ask(client: Client) -> Any:
        tools = openai_tools(await listed(client, WEATHER.task))
        messages = [{"role": "user", "content": WEATHER.task}]
        chat = OpenAI(base_url=model.url, api_key="none").chat.completions
        call = chat.create(model="scripted", messages=messages, tools=tools).choices[0].message.tool_calls[0]
        return (await client.call_tool(call.function.name)).data

    with ScriptedModel([Call("office_run_sql")]) as model, stdio(tools=TRAVEL) as first, stdio(tools=OFFICE) as second:
        assert asking(gateway(golden_gate(), first, second), ask) == "run_sql ran"
        assert model.tool_names() == kept_of_prefixed(WEATHER.task)


def test_a_real_language_model_answers_with_the_tools_that_a_server_listed() -> None:
    async def ask(client: Client) -> list[Any]:
        return await listed(client, WEATHER.task)

    with stdio(tools=WEATHER.tools, gate="listing") as target:
        tools = openai_tools(asking(target, ask))
    assert [tool["function"]["name"] for tool in tools] == WEATHER.kept
    with local_llm() as url, OpenAI(base_url=url, api_key="none", timeout=120) as client:
        messages = [{"role": "user", "content": WEATHER.task}]
        answer = client.chat.completions.create(model="local", messages=messages, tools=tools, max_tokens=24)
    assert answer.choices[0].message.content.strip()


def test_the_page_shows_what_the_example_prints() -> None:
    assert shows(ROOT / "docs" / "integrations" / "fastmcp.md", ROOT / "examples" / "with_fastmcp.py")


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fastmcp.server.middleware", None)
    spec = importlib.util.find_spec("camdf.integrations.fastmcp")
    assert spec is not None
    assert spec.loader is not None
    with pytest.raises(ImportError, match=r"camdf\[fastmcp\]"):
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


def with_danger(deleted: list[str]) -> FastMCP:
    server = served(WEATHER.tools)
    server.tool(malformed.deleting(deleted), name=malformed.NAME, description=malformed.DESCRIPTION)
    server.add_transform(ToolGate(golden_gate()))
    return server


def test_a_broken_call_runs_a_tool_with_what_the_model_wrote_or_not_at_all() -> None:
    async def ask(client: Client) -> None:
        for slip in objects:
            answer = await client.call_tool("call_tool", json.loads(slip.text), raise_on_error=False)
            assert answer.content[0].text

    deleted: list[str] = []
    objects = [slip for slip in malformed.slips(3500) if malformed.kind(slip) == "an object"]  # MCP has no other
    assert len(objects) >= 2000
    asking(with_danger(deleted), ask)
    malformed.check(objects, deleted)


def test_no_slip_of_a_model_is_an_error_of_the_protocol() -> None:
    async def ask(client: Client) -> list[str]:
        names = {"find_tool": "search_tools", "call_tool": "call_tool"}
        calls = [(names[call.name], call.arguments) for call in malformed.MISUSED if isinstance(call.arguments, dict)]
        answers = [await client.call_tool(*call, raise_on_error=False) for call in calls]
        return [answer.content[0].text for answer in answers]

    deleted: list[str] = []
    assert all(asking(with_danger(deleted), ask))
    assert deleted == []


def test_a_name_that_two_servers_share_is_neither_listed_nor_run_unless_it_is_told_whose() -> None:
    def behind(*servers: str) -> FastMCP:
        gateway = FastMCP("gateway")
        for name in servers:
            server = FastMCP(name)
            server.tool(lambda name=name: f"{name} ran", name="send", description="Send an email")
            server.tool(lambda: "read", name="read", description=f"Read what {name} has")
            gateway.mount(server)
        return gateway

    async def ask(client: Client) -> tuple[list[str], str]:
        answer = await client.call_tool("send", {}, raise_on_error=False)
        return await names(client), answer.content[0].text

    orders: list[tuple[str, str]] = [("good", "evil"), ("evil", "good")]
    for order in orders:
        for allow, listing, says in (
            (["send"], [], "Unknown tool: 'send'"),
            (["good/send"], ["send"], "good ran"),
            (["good/send", "evil/send"], ["send"], f"{order[0]} ran"),
        ):
            gateway = behind(*order)
            gateway.add_transform(Authorized(golden_gate(guards=Guards(allow=allow))))
            found, answer = asking(gateway, ask)
            assert found == listing, (order, allow)
            hidden = allow == ["good/send"] and order == ("evil", "good")  # FastMCP finds the first of a name
            assert answer == ("Unknown tool: 'send'" if hidden else says)

"""The gateway itself: a FastMCP server whose list has the tools worth loading, `find_tool` and `call_tool`.

A list stands for its connection: what changes later can be found at once, and is loaded by the next connection.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import sys
from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NamedTuple

from camdf.datasets.examples import Example
from camdf.errors import needs
from camdf.gate import Gate
from camdf.gate.tool_search import CALL, FIND, ToolCall, listing, meant, query_of
from camdf.gate.working_set import PRICES, chances, worth_loading
from camdf.gateway.config import GATEWAY, Server
from camdf.gateway.definitions import Definitions, Standing
from camdf.gateway.folder import STATUS, Folder, state_home
from camdf.gateway.link import Link
from camdf.gateway.receipt import receipt
from camdf.tools import Tool, view

with needs("mcp"):
    from fastmcp import FastMCP
    from fastmcp.exceptions import ToolError
    from fastmcp.server.dependencies import get_context
    from fastmcp.server.middleware import Middleware
    from fastmcp.server.providers.base import Provider
    from fastmcp.server.providers.proxy import ProxyProvider, ProxyTool
    from fastmcp.tools import Tool as ServedTool
    from fastmcp.tools.base import InputRequiredToolResult, ToolResult
    from mcp_types.version import MODERN_PROTOCOL_VERSIONS

FIRST_LIST = 20.0
"""Seconds that a first list waits for servers to start; what comes later can be found."""

NAMES = 200
"""How many names of tools the description of `find_tool` has: about 1,000 tokens."""


class Offered(NamedTuple):
    """A tool of a server, under the name that clients know."""

    tool: Tool
    native: Any
    link: Link
    standing: Standing


class Front:
    """A client's connection: what it was given, and what it searched for last."""

    def __init__(self) -> None:
        self.id, self.client = secrets.token_hex(4), ""
        self.listed: list[Any] | None = None
        self.loaded: set[str] = set()
        self.searches: deque[tuple[str, list[str]]] = deque(maxlen=8)

    def query_that_found(self, name: str) -> str:
        """The last search that found a tool, once; "" where there was none."""
        for search in reversed(self.searches):
            if name in search[1]:
                self.searches.remove(search)
                return search[0]
        return ""


class Gateway(Provider):
    """The tools of all servers. `serve` runs it."""

    def __init__(
        self,
        servers: Sequence[Server],
        folder: Folder,
        *,
        at_most: int | None = None,
        first: int = 8,
        examples: Sequence[Example] = (),
        seconds: float = 300.0,
        mode: str | None = None,
    ) -> None:
        """A gateway to `servers` that keeps what it learns in `folder`.

        A list has `at_most` so many tools, those of the search included. Before anything is known, the `first` ones are
        loaded, or what `examples` need. A call may take `seconds`. `mode` is FastMCP's, of the connections to servers;
        by default that of the first client.
        """
        super().__init__()
        self.folder, self.at_most, self.first, self.examples = folder, at_most, first, tuple(examples)
        self.definitions = Definitions(folder)
        self.links = [Link(server, seconds, self._note_list, state_home() / "sign-ins") for server in servers]
        self.offered: dict[str, Offered] = {}
        self.held_back: list[str] = []
        self._read_at = 0
        self._mode, self._first_request = mode, asyncio.Event()
        self._modern, self._connections = Front(), deque[str](maxlen=10_000)
        self._search: Gate | None = None
        self._labels, self._learned = 0, 0
        self.server = FastMCP(
            GATEWAY,
            instructions="Tools of several servers. A tool that is not listed can be found with find_tool.",
            middleware=[_Watch(self)],
            cache_ttl=3_600,
        )
        self.server.add_provider(self)
        for link in self.links:
            self.server.add_provider(_Beside(link), namespace=link.name)

    @asynccontextmanager
    async def lifespan(self) -> AsyncIterator[None]:
        """Connections to the servers while the gateway serves, and the receipt at its end."""
        running = asyncio.create_task(self._run())
        try:
            yield
        finally:
            running.cancel()
            with suppress(asyncio.CancelledError):
                await running
            if self._connections:
                print(f"camdf: {receipt(self.folder.records(), only=self._connections)}", file=sys.stderr)

    async def _run(self) -> None:
        if self._mode is None:
            await self._first_request.wait()
        tasks = [asyncio.create_task(link.run(self._mode or "legacy")) for link in self.links]
        try:
            await self._wait_for_servers()
            await self._searcher()  # so that the first search is not late
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def hears_first(self, mode: str) -> None:
        """The first request of a client says which protocol it speaks; servers are spoken to in the same."""
        if self._mode is None:
            self._mode = mode
        self._first_request.set()

    async def _wait_for_servers(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(FIRST_LIST):
                while any(link.state == "starting" for link in self.links):
                    await asyncio.sleep(0.02)

    # The tools.

    def _note_list(self, link: Link) -> None:
        self._offer()
        with suppress(OSError):
            servers = {each.name: each.status() for each in self.links}
            self.folder.write(STATUS, {"pid": os.getpid(), "servers": servers, "held back": self.held_back})

    def _offer(self) -> None:
        """Every tool that may be run, by its name: that of its server, "_", and its own."""
        offered: dict[str, Offered] = {}
        held_back: list[str] = []
        prefixes = sorted((f"{link.name}_" for link in self.links), key=len, reverse=True)
        for link in self.links:
            viewed = {tool.name: view(tool) for tool in link.tools}
            standings = self.definitions.standings(link.name, viewed.values()) if viewed else {}
            for native in link.tools:
                name = f"{link.name}_{native.name}"
                own = next(prefix for prefix in prefixes if name.startswith(prefix)) == f"{link.name}_"
                if standings[native.name] == "changed":
                    held_back.append(f"{link.name}/{native.name}")
                elif own and name not in (FIND.name, CALL.name):  # else it would pass for a tool of another server
                    served = ProxyTool.from_mcp_tool(link.borrowed, native).model_copy(update={"name": name})
                    seen = viewed[native.name]
                    tool = Tool(name, seen.description, seen.parameters, link.name)
                    offered[name] = Offered(tool, served, link, standings[native.name])
        self.offered, self.held_back, self._read_at = offered, held_back, self.definitions.modified()

    async def _list_tools(self) -> Sequence[Any]:
        front = self.front()
        if front.listed is None:
            await self._wait_for_servers()
            self._look_again()
            front.listed = self._loaded_by(front)
        return front.listed

    async def get_tasks(self) -> Sequence[Any]:
        return []

    async def _get_tool(self, name: str, version: Any = None) -> Any:
        if name == FIND.name:
            return _Find.of(self, FIND, FIND.description)
        if name == CALL.name:
            return _Call.of(self, CALL, CALL.description)
        self._look_again()
        return self.offered[name].native if name in self.offered else None

    def _look_again(self) -> None:
        if self.definitions.modified() != self._read_at:
            self._offer()

    def _loaded_by(self, front: Front) -> list[Any]:
        """What a new connection is given."""
        tools = {name: offered.tool for name, offered in self.offered.items() if offered.standing == "accepted"}
        here, records = str(Path.cwd()), self.folder.records()
        chance = chances(tools, records, client=front.client, project=here, first=self.first, examples=self.examples)
        room = None if self.at_most is None else self.at_most - 2
        front.loaded = set(worth_loading(tools, chance, room))
        search = [
            _Find.of(self, FIND, f"{FIND.description} {names_of(self.offered, front.loaded)}".strip()),
            _Call.of(self, CALL, CALL.description),
        ]
        listed = [self.offered[name].native for name in tools if name in front.loaded] + search
        every = sum(PRICES.count(offered.tool) for offered in self.offered.values())
        self._connections.append(front.id)
        self.folder.note(
            "connect",
            connection=front.id,
            client=front.client,
            project=here,
            offered=len(self.offered),
            loaded=sorted(front.loaded),
            tokens_offered=every,
            tokens_loaded=sum(PRICES.count(view(tool)) for tool in listed),
        )
        return listed

    # Searching.

    async def find(self, query: str) -> str:
        """What `find_tool` answers: tools, and servers that do not answer now."""
        self._look_again()
        tools = {name: offered.tool for name, offered in self.offered.items()}
        front, searcher = self.front(), await self._searcher()
        names = [tool.name for tool in await searcher.afind(query, list(tools.values()))]
        front.searches.append((query, names))
        self.folder.note("search", connection=front.id, query=query, found=names)
        down = [f"{link.name} ({link.error or 'it starts'})" for link in self.links if link.state != "up"]
        told = f" These servers do not answer now: {', '.join(down)}." if down else ""
        return listing([tools[name] for name in names], tools.values()) + told

    async def _searcher(self) -> Gate:
        """The search, made again where calls have told what people ask a tool for."""
        if self._search is None or self._learned != self._labels:
            self._learned = self._labels
            self._search = await asyncio.to_thread(self._new_searcher)
        return self._search

    def _new_searcher(self) -> Gate:
        from camdf import Payoff
        from camdf.policies.rules import AcquireAll
        from camdf.scorers import Start

        scorer = Start(examples=[*self.examples, *self.folder.examples()])
        scorer("", [offered.tool for offered in self.offered.values()])
        return Gate(AcquireAll(), scorer, Payoff(0.0))

    # Calls.

    def front(self) -> Front:
        """The connection of the current request; from protocol version 2026-07-28 on there is one for all."""
        context = get_context()
        request = context.request_context
        connection = getattr(context.session, "_connection", None) if request is not None else None
        modern = request is not None and request.protocol_version in MODERN_PROTOCOL_VERSIONS
        front: Front = self._modern if modern or connection is None else connection.state.setdefault("camdf", Front())
        front.client = front.client or _client_name(connection)
        return front

    def nearest(self, name: str) -> str:
        """Words that name the tools which a wrong name may mean."""
        if any(name == f"{held.replace('/', '_', 1)}" for held in self.held_back):
            return " Its definition changed, so it is held back: the user can accept it with camdf mcp review."
        alike = get_close_matches(name, self.offered, n=3, cutoff=0.5)
        return f" Did you mean {' or '.join(alike)}?" if alike else ""

    async def call(self, name: str, run: Any) -> Any:
        """Run a tool of a server, and note what became of it."""
        offered = self.offered.get(name)
        if offered is None:
            raise ToolError(f"There is no tool named {name[:200]!r}.{self.nearest(name)}")
        front, ok = self.front(), False
        try:
            with offered.link.used_by(front):
                result = await run()
            ok = not result.is_error
        except ToolError as error:
            if error.__cause__ is None:  # the tool's own, or that its server does not answer
                raise
            offered.link.suspect()
            raise ToolError(f"{error}. Whether it ran is not known; {offered.link.name} is looked at.") from error
        if not isinstance(result, InputRequiredToolResult):
            query = front.query_that_found(name) if ok else ""
            fields = {"query": query} if query else {}
            self._labels += bool(query)
            self.folder.note(
                "call",
                connection=front.id,
                tool=name,
                server=offered.link.name,
                ok=ok,
                loaded=name in front.loaded,
                **fields,
            )
        return result


class _Watch(Middleware):
    """Sees every request: the first one, and all calls of tools."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def on_message(self, context: Any, call_next: Any) -> Any:
        self._gateway.hears_first("legacy" if context.method == "initialize" else "auto")
        return await call_next(context)

    async def on_call_tool(self, context: Any, call_next: Any) -> Any:
        name = context.message.name
        if name in (FIND.name, CALL.name):
            return await call_next(context)
        return await self._gateway.call(name, lambda: call_next(context))


class _Beside(ProxyProvider):
    """The resources and prompts of a server, as FastMCP proxies them; its tools go through the gateway."""

    def __init__(self, link: Link) -> None:
        super().__init__(link.borrowed)

    async def _list_tools(self) -> Sequence[Any]:
        return []

    async def _get_tool(self, name: str, version: Any = None) -> None:
        return None


class _Searching(ServedTool):
    """One of the two tools of the search."""

    _gateway: Any = None

    @classmethod
    def of(cls, gateway: Gateway, tool: Tool, description: str) -> Any:
        served = cls(name=tool.name, description=description, parameters=dict(tool.schema))
        served._gateway = gateway
        return served


class _Find(_Searching):
    async def run(self, arguments: dict[str, Any]) -> Any:
        return ToolResult(content=await self._gateway.find(query_of(arguments)))


class _Call(_Searching):
    async def run(self, arguments: dict[str, Any]) -> Any:
        gateway = self._gateway
        await gateway._get_tool("")  # what was accepted meanwhile is there
        read = meant(arguments, {name: offered.tool for name, offered in gateway.offered.items()})
        if not isinstance(read, ToolCall):
            written = arguments.get("name")
            unknown = isinstance(written, str) and written not in gateway.offered
            raise ToolError(read + (gateway.nearest(written) if unknown else ""))
        return await get_context().fastmcp.call_tool(read.name, read.arguments)


def _client_name(connection: Any) -> str:
    known = getattr(getattr(connection, "client_params", None), "client_info", None)
    return str(getattr(known, "name", ""))


def names_of(offered: Mapping[str, Offered], loaded: set[str]) -> str:
    """The names of the tools that can be found, by server; of many, as many of each server as there is room for."""
    by_server: dict[str, list[str]] = {}
    for name, each in offered.items():
        if name not in loaded:
            by_server.setdefault(each.link.name, []).append(name.removeprefix(f"{each.link.name}_"))
    room = max(1, NAMES // max(1, len(by_server)))
    told = [
        f"{server}: {', '.join(names[:room])}{f' and {len(names) - room} more' if len(names) > room else ''}"
        for server, names in by_server.items()
    ]
    return f"Tools that can be found, by server: {'; '.join(told)}." if told else ""


async def serve(gateway: Gateway, port: int | None = None, host: str = "127.0.0.1") -> None:
    """Serve over stdio, or over HTTP on a port of this machine."""
    if port is None:
        await gateway.server.run_stdio_async(show_banner=False, log_level="ERROR")
    else:
        await gateway.server.run_http_async(show_banner=False, host=host, port=port, log_level="ERROR")

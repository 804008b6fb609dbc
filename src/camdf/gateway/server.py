"""The gateway itself: a FastMCP server whose list, one for a connection, has the tools worth loading and the search."""

from __future__ import annotations

import asyncio
import os
import secrets
import sys
from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NamedTuple

from camdf import Payoff
from camdf.datasets.examples import Example
from camdf.errors import needs
from camdf.gate import Gate
from camdf.gate.tool_search import CALL, FIND, ToolCall, by_server, find_tool, listing, meant, names_by_server, query_of
from camdf.gate.working_set import PRICES, chances, worth_loading
from camdf.gateway.config import GATEWAY, ServerEntry
from camdf.gateway.definitions import Definitions, Standing
from camdf.gateway.folder import STATUS, Folder, state_home
from camdf.gateway.link import FIRST_LIST, Link
from camdf.gateway.receipt import receipt
from camdf.policies.rules import AcquireAll
from camdf.scorers import Start
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
        self.loaded, self.searches = set[str](), deque[tuple[str, list[str]]](maxlen=8)


class Gateway(Provider):
    """The tools of all servers; its `server` is what clients talk to."""

    def __init__(
        self,
        servers: Sequence[ServerEntry],
        folder: Folder,
        *,
        at_most: int | None = None,
        first: int = 8,
        examples: Sequence[Example] = (),
        seconds: float = 300.0,
        mode: str | None = None,
    ) -> None:
        """A gateway to `servers` that keeps what it learns in `folder`.

        A list has `at_most` so many tools, with those of the search. Before anything is known, the `first` ones are
        loaded, or what `examples` need. A call may take `seconds`. `mode` is FastMCP's; by default the first client's.
        """
        super().__init__()
        self.folder, self.at_most, self.first, self.examples = folder, at_most, first, tuple(examples)
        self.definitions, self._read_at = Definitions(folder), 0
        self.links = [Link(server, seconds, self._listed, state_home() / "sign-ins") for server in servers]
        self.offered, self.held_back = dict[str, Offered](), list[str]()
        self.mode, self.first_request = mode, asyncio.Event()
        self._modern, self._connections = Front(), deque[str](maxlen=10_000)
        self._learned: tuple[Example, ...] | None = None
        self._search = Gate(AcquireAll(), Start(), Payoff(0.0))
        self.server = FastMCP(GATEWAY, middleware=[_Watch(self)], cache_ttl=3_600)
        self.server.add_provider(self)
        for link in self.links:
            self.server.add_provider(_Beside(link.borrowed), namespace=link.name)

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
            if self._connections and self.folder.learn:
                print(f"camdf: {receipt(self.folder.records(), only=self._connections)}", file=sys.stderr)

    async def _run(self) -> None:
        if self.mode is None:
            await self.first_request.wait()
        async with asyncio.TaskGroup() as links:
            for link in self.links:
                links.create_task(link.run(self.mode or "legacy"))
            await self._ready()
            await self._learn()  # so that the first search is not late

    async def _ready(self) -> None:
        """Wait until servers have started, at most for a while, and offer what somebody has accepted meanwhile."""
        with suppress(TimeoutError):
            async with asyncio.timeout(FIRST_LIST):
                while any(link.state == "starting" for link in self.links):
                    await asyncio.sleep(0.02)
        if self.definitions.modified() != self._read_at:
            self._offer()

    def _listed(self) -> None:
        with suppress(OSError):  # what cannot be written is not accepted either: the tools stay as they were
            self._offer()
            servers = {link.name: link.status() for link in self.links}
            self.folder.write(STATUS, {"pid": os.getpid(), "servers": servers, "held back": self.held_back})

    def _offer(self) -> None:
        """Every tool that may be run, by its name: that of its server, "_", and its own."""
        offered, held_back = dict[str, Offered](), list[str]()
        prefixes = sorted((f"{link.name}_" for link in self.links), key=len, reverse=True)
        for link in self.links:
            viewed = {tool.name: view(tool.model_dump(by_alias=True, exclude_none=True)) for tool in link.tools}
            standings = self.definitions.standings(link.name, viewed.values()) if viewed else {}
            for native in link.tools:
                name, standing = f"{link.name}_{native.name}", standings[native.name]
                own = next(prefix for prefix in prefixes if name.startswith(prefix)) == f"{link.name}_"
                if standing == "changed":
                    held_back.append(f"{link.name}/{native.name}")
                elif own and name not in (FIND.name, CALL.name):  # else it would pass for a tool of another server
                    served = ProxyTool.from_mcp_tool(link.borrowed, native).model_copy(update={"name": name})
                    tool = replace(viewed[native.name], name=name, server=link.name)
                    offered[name] = Offered(tool, served, link, standing)
        self.offered, self.held_back, self._read_at = offered, held_back, self.definitions.modified()

    async def _list_tools(self) -> Sequence[Any]:
        front = self.front()
        if front.listed is None:
            await self._ready()
            front.listed = self._loaded_by(front)
        return front.listed

    async def _get_tool(self, name: str, version: Any = None) -> Any:
        if name in (FIND.name, CALL.name):
            return self._searching()[name == CALL.name]
        return self.offered[name].native if name in self.offered else None

    async def get_tasks(self) -> Sequence[Any]:
        return []

    def _searching(self, hidden: str = "") -> list[Any]:
        """The two tools of the search, with the names that it leads to."""
        answers = ((find_tool(hidden), self.find), (CALL, self.call_found))
        return [_Answering.by(answer, tool) for tool, answer in answers]

    def _loaded_by(self, front: Front) -> list[Any]:
        """What a new connection is given."""
        every = {name: offered.tool for name, offered in self.offered.items()}
        tools = {name: tool for name, tool in every.items() if self.offered[name].standing == "accepted"}
        whose = {"client": front.client, "project": str(Path.cwd())}
        chance = chances(tools, self.folder.records(), **whose, first=self.first, examples=self.examples)
        front.loaded = set(worth_loading(tools, chance, None if self.at_most is None else self.at_most - 2))
        hidden = names_by_server(by_server(tool for name, tool in every.items() if name not in front.loaded))
        listed = [self.offered[name].native for name in tools if name in front.loaded] + self._searching(hidden)
        counts = {
            "offered": len(every),
            "loaded": sorted(front.loaded),
            "tokens_offered": sum(map(PRICES.count, every.values())),
            "tokens_loaded": sum(PRICES.count(view(tool)) for tool in listed),
        }
        self.folder.note("connect", connection=front.id, **whose, **counts)
        self._connections.append(front.id)
        return listed

    async def find(self, arguments: dict[str, Any]) -> Any:
        """What `find_tool` answers: tools, and servers that do not answer now."""
        await self._ready()
        query, front, tools = query_of(arguments), self.front(), {key: kept.tool for key, kept in self.offered.items()}
        await self._learn()
        names = [tool.name for tool in await self._search.afind(query, list(tools.values()))]
        front.searches.append((query, names))
        self.folder.note("search", connection=front.id, query=query, found=names)
        down = [link.name for link in self.links if link.state != "up"]
        told = f" These servers do not answer now: {', '.join(down)}." if down else ""
        return ToolResult(content=listing([tools[name] for name in names], tools.values()) + told)

    async def _learn(self) -> None:
        """Make the search anew where calls have told more of what people ask a tool for."""
        if (learned := (*self.examples, *self.folder.examples())) != self._learned:
            scorer = Start(examples=learned)
            await asyncio.to_thread(scorer, "", [offered.tool for offered in self.offered.values()])
            self._learned, self._search = learned, Gate(AcquireAll(), scorer, Payoff(0.0))

    async def call_found(self, arguments: dict[str, Any]) -> Any:
        """What `call_tool` answers: that of the tool that it means, or what is wrong with the call."""
        await self._ready()
        read = meant(arguments, {name: offered.tool for name, offered in self.offered.items()})
        if isinstance(read, ToolCall):
            return await get_context().fastmcp.call_tool(read.name, read.arguments)
        raise ToolError(read + self._instead_of(arguments.get("name")))

    def _instead_of(self, name: Any) -> str:
        """Words that name the tools which a wrong name may mean."""
        if not isinstance(name, str) or name in self.offered:
            return ""
        if name in [full_name.replace("/", "_", 1) for full_name in self.held_back]:
            return " Its definition changed, so it is held back: the user can accept it with camdf mcp review."
        alike = get_close_matches(name, self.offered, n=3, cutoff=0.5)
        return f" Did you mean {' or '.join(alike)}?" if alike else ""

    async def call(self, name: str, run: Any) -> Any:
        """Run a tool of a server, and note what became of it."""
        await self._ready()
        if name not in self.offered:
            raise ToolError(f"There is no tool named {name[:200]!r}.{self._instead_of(name)}")
        front, link = self.front(), self.offered[name].link
        noted = {"connection": front.id, "tool": name, "server": link.name, "loaded": name in front.loaded}
        try:
            with link.used_by(front):
                result = await run()
        except Exception as error:
            self.folder.note("call", **noted, ok=False)
            if error.__cause__ is None:  # the tool's own, or that its server does not answer
                raise
            link.wanted.set()  # a server that is gone cannot list its tools, and is started again
            raise ToolError(f"{error}. Whether it ran is not known; {link.name} is looked at.") from error
        if isinstance(result, InputRequiredToolResult):  # the client asks its user, and calls again
            return result
        searches = [search for search in front.searches if name in search[1]]
        if searches and not result.is_error:  # a label, which the next search reads
            front.searches.remove(searches[-1])
            noted["query"] = searches[-1][0]
        self.folder.note("call", **noted, ok=not result.is_error)
        return result

    def front(self) -> Front:
        """The connection of the current request; from protocol version 2026-07-28 on there is one for all."""
        context = get_context()
        request, connection = context.request_context, getattr(context.session, "_connection", None)
        modern = request is None or request.protocol_version in MODERN_PROTOCOL_VERSIONS
        front: Front = self._modern if modern or connection is None else connection.state.setdefault("camdf", Front())
        known = getattr(getattr(connection, "client_params", None), "client_info", None)
        front.client = front.client or str(getattr(known, "name", ""))
        return front


class _Watch(Middleware):
    """Sees every request: the first one, which says what protocol is spoken, and all calls of tools."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def on_message(self, context: Any, call_next: Any) -> Any:
        if not self._gateway.first_request.is_set():
            self._gateway.mode = self._gateway.mode or ("legacy" if context.method == "initialize" else "auto")
            self._gateway.first_request.set()
        return await call_next(context)

    async def on_call_tool(self, context: Any, call_next: Any) -> Any:
        name = context.message.name
        if name in (FIND.name, CALL.name):
            return await call_next(context)
        return await self._gateway.call(name, lambda: call_next(context))


class _Beside(ProxyProvider):
    """The resources and prompts of a server, as FastMCP proxies them; its tools go through the gateway."""

    async def _list_tools(self) -> Sequence[Any]:
        return []

    async def _get_tool(self, name: str, version: Any = None) -> None:
        return None


class _Answering(ServedTool):
    """A tool of the gateway's own. It gets the arguments as the model wrote them."""

    _answer: Any = None

    @classmethod
    def by(cls, answer: Any, tool: Tool) -> Any:
        served = cls(name=tool.name, description=tool.description, parameters=dict(tool.schema))
        served._answer = answer
        return served

    async def run(self, arguments: dict[str, Any]) -> Any:
        return await self._answer(arguments)

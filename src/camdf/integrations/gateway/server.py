"""The gateway itself: a FastMCP server whose list, one for a connection, has the tools worth loading and the search."""

from __future__ import annotations

import asyncio
import os
import secrets
import sys
from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from time import monotonic
from typing import Any, NamedTuple

from camdf import Payoff
from camdf.datasets.examples import Example
from camdf.errors import needs
from camdf.gate import Gate
from camdf.gate.tool_search import (
    CALL,
    SEARCH_NAMES,
    ToolCall,
    by_server,
    find_tool,
    listing,
    meant,
    names_by_server,
    query_of,
)
from camdf.integrations.gateway.beside import Beside
from camdf.integrations.gateway.config import GATEWAY, ServerEntry
from camdf.integrations.gateway.definitions import Definitions, Standing
from camdf.integrations.gateway.folder import LONGEST_TEXT, STATUS, Folder, state_home
from camdf.integrations.gateway.intake import remembered
from camdf.integrations.gateway.link import BETWEEN, FIRST_LIST, Link
from camdf.integrations.gateway.permission import Permission, Permitted, sent_on
from camdf.integrations.gateway.prompt_notes import PromptNotes
from camdf.integrations.gateway.prompt_socket import PromptSocket
from camdf.integrations.gateway.receipt import WORKING, out_of_use, receipt
from camdf.integrations.gateway.working_set import PRICES, chances, worth_loading
from camdf.policies.rules import AcquireAll
from camdf.runtime.visible import visible
from camdf.scorers import Start
from camdf.tools import Tool, view

with needs("mcp"):
    from fastmcp import FastMCP
    from fastmcp.exceptions import ToolError
    from fastmcp.server.dependencies import get_context
    from fastmcp.server.middleware import Middleware
    from fastmcp.server.providers.base import Provider
    from fastmcp.server.providers.proxy import ProxyTool
    from fastmcp.tools import Tool as ServedTool
    from fastmcp.tools.base import InputRequiredToolResult, ToolResult
    from mcp_types.version import MODERN_PROTOCOL_VERSIONS


SHORTEST_WAIT = 10.0
"""Seconds that servers have to start at least before a search goes on without them."""

LISTED_WITHIN = 3.0
"""Seconds that they have before a list goes out without them: clients wait for it when they start."""


class Offered(NamedTuple):
    """A tool of a server, under the name that clients know."""

    tool: Tool
    native: Any
    link: Link
    standing: Standing


class Admitted(NamedTuple):
    """What of a server's list clients may use, by the names that they know, and what is held back."""

    offered: dict[str, Offered]
    held_back: list[str]


class Search(NamedTuple):
    """What a client searched for, what was found, and when."""

    query: str
    names: list[str]
    at: str


class Front:
    """A client's connection: what it was given, and what it searched for last."""

    def __init__(self) -> None:
        self.id = secrets.token_hex(4)
        self.client = ""
        self.listed: list[Any] | None = None
        self.loaded: set[str] = set()
        self.searches = deque[Search](maxlen=8)


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
        permission: Permission | None = None,
        seconds: float = 300.0,
        mode: str | None = None,
        note: int = 0,
        wait: float = LISTED_WITHIN,
    ) -> None:
        """A gateway to `servers` that keeps what it learns in `folder`.

        A list has `at_most` so many tools, with those of the search. Before anything is known, the `first` ones are
        loaded, or what `examples` need. A `permission` says which calls run; without one all do. A call may take
        `seconds`. `mode` is FastMCP's; by default the first client's. The `note` that joins a prompt, where the client
        has a hook that asks for it, has at most so many characters; with 0 nobody can ask. A list waits so many seconds
        for servers that start; those that come later can be found.
        """
        super().__init__()
        self.folder = folder
        self.at_most = at_most
        self.first = first
        self.examples = tuple(examples)
        self.permission = permission
        self.mode = mode
        self.wait = wait
        self.first_request = asyncio.Event()
        self.definitions = Definitions(folder)
        self.links = [Link(server, seconds, self.listed, self.changed, state_home() / "sign-ins") for server in servers]
        self._prefixes = sorted((f"{link.name}_" for link in self.links), key=len, reverse=True)
        self._admitted = {link.name: Admitted({}, []) for link in self.links}
        self.offered = dict[str, Offered]()
        self._judging = asyncio.Lock()
        self._writing = asyncio.Lock()
        self._judged_at = 0.0
        self._began: float | None = None  # when the servers were started
        self._running: asyncio.Task[None] | None = None
        self._closing: asyncio.Task[None] | None = None
        self._modern = Front()
        self._connections = deque[str](maxlen=10_000)
        self._learned: tuple[Example, ...] | None = None
        self._search = Gate(AcquireAll(), Start(), Payoff(0.0))
        self._loaded = frozenset[str]()  # by the connection that listed last
        self.notes = PromptNotes(folder, self.examples, note, self._accepted_tools, lambda: self._loaded)
        self._takes_prompts = note > 0
        self.server = FastMCP(GATEWAY, middleware=[_Watch(self)], cache_ttl=3_600)
        self.server.add_provider(self)
        for link in (link for link in self.links if not link.server.problem):
            self.server.add_provider(Beside(link, self.is_own), namespace=link.name)

    @asynccontextmanager
    async def lifespan(self) -> AsyncIterator[None]:
        """Connections to the servers while the gateway serves, and the receipt at its end."""
        self._closing = None
        self._running = asyncio.create_task(self._run_links())
        prompts = PromptSocket(self.folder.path, self.notes.answer)
        if self._takes_prompts:
            try:
                await prompts.open()
            except OSError as error:  # as on a disk that is full: the hook then prints nothing
                print(f"camdf: no prompts are heard of: {visible(error, 200)}", file=sys.stderr)
        try:
            yield
        finally:
            prompts.close()
            await self.close()

    async def close(self) -> None:
        """Tell the receipt, and end the servers; whoever asks for it again waits for the same end."""
        if self._closing is None:
            self._closing = asyncio.create_task(self._end_links())
        await asyncio.shield(self._closing)

    async def _end_links(self) -> None:
        if self._connections and self.folder.learn:
            print(f"camdf: {receipt(self.folder.records(), only=self._connections)}", file=sys.stderr)
        for link in self.links:
            for why in out_of_use(link.name, link.status()):
                print(f"camdf: {why}", file=sys.stderr)
        if self._running is not None:
            self._running.cancel()
            await asyncio.wait([self._running])

    async def _run_links(self) -> None:
        if self.mode is None:
            await self.first_request.wait()
        self._began = monotonic()
        for link in (link for link in self.links if link.server.lazy and not link.server.problem):
            intake = await asyncio.to_thread(lambda name: remembered(self.definitions.accepted(name)), link.name)
            if intake is not None:
                await link.sleep(intake)
        async with asyncio.TaskGroup() as links:
            for link in self.links:
                links.create_task(link.run(self.mode or "legacy"))
            await self._settle(self.links)
            await self._learn_from_log()  # so that the first search is not late
            if self._takes_prompts:
                await self.notes.learn()

    @property
    def held_back(self) -> list[str]:
        """The tools that are held back, as "mail/send"."""
        return [name for admitted in self._admitted.values() for name in admitted.held_back]

    async def _settle(self, links: Sequence[Link], most: float = FIRST_LIST) -> None:
        """Wait until servers have started, and offer what somebody has accepted meanwhile.

        The wait ends `most` seconds after they were started, and before that once it has lasted twice as long as
        those needed that are there: a server that hangs holds up nobody for longer.
        """
        while any(link.state == "starting" for link in links) and monotonic() < self._patience(links, most):
            await asyncio.sleep(0.02)
        if self._is_stale():
            async with self._judging:
                await self._admit_again()

    async def _admit_again(self) -> None:
        """Judge anew what servers listed, unless somebody else has done so while this waited."""
        if self._is_stale():
            for link in self.links:
                if link.came_up is not None:
                    problem = await self._admit(link)
                    if link.state == "up":
                        link.error = problem
            self._judged_at = monotonic()

    def _is_stale(self) -> bool:
        """Whether somebody else has written definitions; where they cannot be read, that is tried every second."""
        is_listed = any(link.came_up is not None for link in self.links)
        is_time = not self.definitions.problem or monotonic() > self._judged_at + BETWEEN
        return is_listed and is_time and self.definitions.is_changed()

    def _patience(self, links: Sequence[Link], most: float) -> float:
        """Until when a list or a call waits for these servers to start."""
        began = monotonic() if self._began is None else self._began
        needed = [link.came_up - began for link in links if link.came_up is not None]
        if not needed:
            return began + most
        return began + min(most, max(SHORTEST_WAIT, 2 * max(needed)))

    async def listed(self, link: Link) -> str:
        """Take in what a server lists now; what was wrong with that, which costs that server alone."""
        async with self._judging:
            return await self._admit(link)

    async def changed(self) -> None:
        """Write down how the servers are."""
        async with self._writing:
            servers = {link.name: link.status() for link in self.links}
            status = {"pid": os.getpid(), "servers": servers, "held back": self.held_back}
            with suppress(OSError):
                await asyncio.to_thread(self.folder.write, STATUS, {**status, "problem": self.definitions.problem})

    async def _admit(self, link: Link) -> str:
        """Judge the tools of a server, away from the event loop; where that fails, they stay as they were."""
        try:
            self._admitted[link.name] = await asyncio.to_thread(self._admitted_of, link)
        except Exception as error:  # a disk that is full: what cannot be written is not accepted either
            return f"its tools stay as they were: {visible(error, 200)}"
        self.offered = {
            name: offered for admitted in self._admitted.values() for name, offered in admitted.offered.items()
        }
        return ""

    def _admitted_of(self, link: Link) -> Admitted:
        """Every tool of a server that may be run, by the server's name, "_", and its own."""
        taken = link.intake.tools
        standings = self.definitions.standings(link.name, (entry.tool for entry in taken.values()))
        offered: dict[str, Offered] = {}
        for own, entry in taken.items():
            name = f"{link.name}_{own}"
            if standings[own] != "changed" and self.is_own(link, own):
                served = ProxyTool.from_mcp_tool(link.borrowed, entry.native).model_copy(update={"name": name})
                tool = replace(entry.tool, name=name, server=link.name)
                offered[name] = Offered(tool, served, link, standings[own])
        return Admitted(offered, [f"{link.name}/{own}" for own, standing in standings.items() if standing == "changed"])

    def is_own(self, link: Link, name: str) -> bool:
        """Whether what a server calls so may stand behind its own name: else it would pass for another server's."""
        whole = f"{link.name}_{name}"
        longest = next(prefix for prefix in self._prefixes if whole.startswith(prefix))
        return longest == f"{link.name}_" and whole not in SEARCH_NAMES

    async def _list_tools(self) -> Sequence[Any]:
        front = self.front()
        if front.listed is None:
            await self._settle(self.links, self.wait)
            front.listed = self._loaded_by(front)
        return front.listed

    async def _get_tool(self, name: str, version: Any = None) -> Any:
        if name in SEARCH_NAMES:
            return self._searching()[name == CALL.name]
        if name in self.offered:
            return self.offered[name].native
        return None

    async def get_tasks(self) -> Sequence[Any]:
        return []

    def _searching(self, hidden: str = "") -> list[Any]:
        """The two tools of the search, with the names that it leads to."""
        answers = ((find_tool(hidden), self.find), (CALL, self.call_found))
        return [_Answering.by(answer, tool) for tool, answer in answers]

    def _loaded_by(self, front: Front) -> list[Any]:
        """What a new connection is given."""
        every = {name: offered.tool for name, offered in self.offered.items()}
        tools = self._accepted_tools()
        whose = {"client": front.client, "project": str(Path.cwd())}
        chance = chances(tools, self.folder.records(), **whose, first=self.first, examples=self.examples)
        at_most = None if self.at_most is None else self.at_most - len(SEARCH_NAMES)
        front.loaded = set(worth_loading(tools, chance, at_most))
        self._loaded = frozenset(front.loaded)
        hidden = names_by_server(by_server(tool for name, tool in tools.items() if name not in front.loaded))
        new = len(every) - len(tools)
        if new:  # their names are text that nobody has looked at
            hidden = "; and ".join(filter(None, (hidden, f"{new} that nobody has accepted yet")))
        listed = [self.offered[name].native for name in tools if name in front.loaded] + self._searching(hidden)
        counts: dict[str, Any] = {
            "offered": len(every),
            "loaded": sorted(front.loaded),
            "tokens_offered": sum(map(PRICES.count, every.values())),
            "tokens_loaded": sum(PRICES.count(view(tool)) for tool in listed),
            "servers": sorted({tool.server for tool in every.values()}),
        }
        self.folder.note("connect", connection=front.id, **whose, **counts)
        self._connections.append(front.id)
        return listed

    def _accepted_tools(self) -> dict[str, Tool]:
        """The tools whose names may be told without being asked for."""
        return {name: offered.tool for name, offered in self.offered.items() if offered.standing == "accepted"}

    async def find(self, arguments: dict[str, Any]) -> Any:
        """What `find_tool` answers: tools, and servers that do not answer now."""
        await self._settle(self.links)
        query = query_of(arguments)[:LONGEST_TEXT]
        front = self.front()
        tools = {name: offered.tool for name, offered in self.offered.items()}
        await self._learn_from_log()
        names = [tool.name for tool in await self._search.afind(query, list(tools.values()))]
        at = self.folder.note("search", connection=front.id, query=query, found=names)
        front.searches.append(Search(query, names, at))
        down = [link.name for link in self.links if link.state not in WORKING]
        content = listing([tools[name] for name in names], self._accepted_tools().values())
        if down:
            content += f" These servers do not answer now: {', '.join(down)}."
        return ToolResult(content=content)

    async def _learn_from_log(self) -> None:
        """Make the search anew where calls have told more of what people ask a tool for."""
        learned = (*self.examples, *self.folder.examples())
        if learned != self._learned:
            scorer = Start(examples=learned)
            await asyncio.to_thread(scorer, "", [offered.tool for offered in self.offered.values()])
            self._learned = learned
            self._search = Gate(AcquireAll(), scorer, Payoff(0.0))

    async def call_found(self, arguments: dict[str, Any]) -> Any:
        """What `call_tool` answers: that of the tool that it means, or what is wrong with the call."""
        await self._settle(self._behind(arguments.get("name")))
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
        alike = get_close_matches(name[:LONGEST_TEXT], self._accepted_tools(), n=3, cutoff=0.5)
        if not alike:
            return ""
        return f" Did you mean {' or '.join(alike)}?"

    def _behind(self, name: Any) -> list[Link]:
        """The servers that a call waits for: that of the tool's name, unless it is there already."""
        if not isinstance(name, str) or name in self.offered:
            return []
        return [link for link in self.links if name.startswith(f"{link.name}_")]

    async def call(self, name: str, arguments: Mapping[str, Any], run: Any) -> Any:
        """Run a tool of a server where it may run, and note what became of it."""
        await self._settle(self._behind(name))
        if name not in self.offered:
            raise ToolError(f"There is no tool named {name[:200]!r}.{self._instead_of(name)}")
        front = self.front()
        offered = self.offered[name]
        link = offered.link
        await link.woken()
        if self.offered.get(name) is None or self.offered[name].tool != offered.tool:
            raise ToolError(f"{name} did not run: its definition is another one than was listed.")
        noted: dict[str, Any] = {
            "connection": front.id,
            "tool": name,
            "server": link.name,
            "loaded": name in front.loaded,
        }
        if self.notes.current:
            noted["prompt"] = self.notes.current
        own = replace(offered.tool, name=name.removeprefix(f"{link.name}_"))
        permitted = Permitted()
        if self.permission is not None:
            permitted = await self.permission.outcome(own, arguments)
            if permitted.question is not None:
                return InputRequiredToolResult(permitted.question)
            if permitted.words:
                self.folder.note("refused", **noted)
                raise ToolError(permitted.words)
            if self.offered.get(name) is None or self.offered[name].tool != offered.tool:
                raise ToolError(f"{name} did not run: its definition has changed since the user was asked.")
        try:
            with link.used_by(front), sent_on(permitted.request):
                result = await run()
        except Exception as error:
            self.folder.note("call", **noted, ok=False)
            if error.__cause__ is None:  # the tool's own, or that its server does not answer
                raise
            link.wanted.set()  # a server that is gone cannot list its tools, and is started again
            raise ToolError(f"{error}. Whether it ran is not known; {link.name} is looked at.") from error
        if isinstance(result, InputRequiredToolResult):  # the client asks its user, and calls again
            asked = link.sign(result.input_required)
            if self.permission is not None:
                asked = self.permission.carried(own, arguments, asked)
            return InputRequiredToolResult(asked)
        searched = ""
        searches = [search for search in front.searches if name in search.names]
        if searches and not result.is_error:  # a label, which the next search reads
            front.searches.remove(searches[-1])
            noted["query"] = searches[-1].query
            searched = searches[-1].at
        self.folder.note("call", **noted, ok=not result.is_error, searched=searched)
        return result

    def front(self) -> Front:
        """The connection of the current request; from protocol version 2026-07-28 on there is one for all."""
        context = get_context()
        request = context.request_context
        connection = getattr(context.session, "_connection", None)
        is_modern = request is None or request.protocol_version in MODERN_PROTOCOL_VERSIONS
        front = self._modern
        if not is_modern and connection is not None:
            front = connection.state.setdefault("camdf", Front())
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
        if name in SEARCH_NAMES:
            return await call_next(context)
        return await self._gateway.call(name, context.message.arguments or {}, lambda: call_next(context))


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

"""One server behind the gateway, by FastMCP's proxy client: connected, listed, and connected again when it fails."""

from __future__ import annotations

import asyncio
import copy
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic
from typing import Any

from camdf.errors import needs
from camdf.gateway.config import ServerEntry
from camdf.gateway.sign_in import NeedsSignInError, stored_sign_in

with needs("mcp"):
    from fastmcp.exceptions import ToolError
    from fastmcp.mcp_config import MCPConfig
    from fastmcp.server.dependencies import get_context
    from fastmcp.server.providers import proxy
    from mcp.client.subscriptions import listen
    from mcp_types import ToolListChangedNotification

CONNECT, LIST, FIRST_LIST, RESTART = 60.0, 20.0, 20.0, 5.0
"""Seconds for a server: to answer first, to list tools, to be in a first list, to start again while a call waits."""

LONGEST_REST, STEADY, RELISTED, BETWEEN = 60.0, 10.0, 300.0, 1.0
"""Seconds: the longest rest before another try, after which a connection was a good one, after which a list is asked
for again, and between two such requests at least."""

MOST_TOOLS, LONGEST_TOOL, LOG_LINES = 2_000, 100_000, 50
"""How many tools a server may list, how many characters one may have, and lines a second that it may log."""


class Link:
    """A server's connection: a call may take `seconds`, and `listed` is called whenever its tools or state changed."""

    def __init__(self, server: ServerEntry, seconds: float, listed: Callable[[], None], sign_ins: Path) -> None:
        self.server, self.name, self.seconds = server, server.name, seconds
        self.listed, self.sign_ins = listed, sign_ins
        self.state, self.error, self.restarts = "starting", server.problem, -1
        self.client: Any = None
        self.tools, self.left_out = list[Any](), 0
        self.wanted = asyncio.Event()  # set to have the tools listed again
        self._up, self._fronts, self._logged = asyncio.Event(), Counter[int](), (0.0, 0)

    async def run(self, mode: str) -> None:
        """Connect, and again after every failure: at once if it was steady, else after 1, 2, 4, at most 60 seconds."""
        rest = 0.0
        while not self.server.problem:
            began = monotonic()
            try:
                await self._connected(mode)
            except Exception as error:
                self._say("down", _told(error, self.name))
            finally:
                self._up.clear()
                client, self.client = self.client, None
                if client is not None:
                    with suppress(Exception):
                        await asyncio.wait_for(client.close(), CONNECT)
            rest = 0.0 if monotonic() - began > STEADY else min(LONGEST_REST, max(1.0, 2 * rest))
            await asyncio.sleep(rest)
        self._say("down", self.server.problem)

    async def _connected(self, mode: str) -> None:
        self.restarts += 1
        self.client = client = self._new_client(mode)
        async with asyncio.timeout(CONNECT):
            await client.__aenter__()
        watch = asyncio.create_task(self._watch_changes(client))
        try:
            while True:
                self.wanted.clear()
                async with asyncio.timeout(LIST):
                    again = await self._list(client)
                self._up.set()
                self._say("up")
                await asyncio.sleep(BETWEEN)
                with suppress(TimeoutError):
                    await asyncio.wait_for(self.wanted.wait(), again)
        finally:
            watch.cancel()

    def _new_client(self, mode: str) -> Any:
        entry = dict(self.server.entry)
        if "url" in entry and not {"auth", "headers"} & entry.keys():
            entry["auth"] = stored_sign_in(entry["url"], self.sign_ins)
        transport = MCPConfig.from_dict({"mcpServers": {self.name: entry}}).mcpServers[self.name].to_transport()
        return proxy.StatefulProxyClient(
            transport,
            mode=mode,
            timeout=entry["timeout"] / 1000 if entry.get("timeout") else self.seconds,
            init_timeout=CONNECT,
            forward_incoming_headers=False,  # what a client tells the gateway is no server's business
            message_handler=self._hear,
            log_handler=self._log,
        )

    async def _list(self, client: Any) -> float:
        """Ask for all pages of the server's tools; the seconds for which they stand."""
        tools: list[Any] = []
        cursor, page = None, None
        while page is None or (page.next_cursor not in (None, "", cursor) and len(tools) < MOST_TOOLS):
            cursor = page.next_cursor if page is not None else None
            page = await client.list_tools_mcp(cursor=cursor)
            tools += page.tools
        self.tools = [tool for tool in tools if len(tool.model_dump_json()) <= LONGEST_TOOL][:MOST_TOOLS]
        self.left_out = len(tools) - len(self.tools)
        return min(RELISTED, max(BETWEEN, (getattr(page, "ttl_ms", None) or 1000 * RELISTED) / 1000))

    async def _hear(self, message: Any) -> None:
        if isinstance(message, ToolListChangedNotification):
            self.wanted.set()

    async def _watch_changes(self, client: Any) -> None:
        """From protocol version 2026-07-28 on a client subscribes to changes; before, they come unasked."""
        with suppress(Exception):  # before that version, of a server that has none, and when the connection ends
            async with listen(client.session, tools_list_changed=True) as events:
                async for _ in events:
                    self.wanted.set()

    async def borrowed(self) -> Any:
        """The client for one request: it shares the connection, and its progress goes to whoever sent the request."""
        with suppress(TimeoutError):
            async with asyncio.timeout(RESTART if self.state != "starting" else CONNECT):
                await self._up.wait()
        client = self.client
        if client is None or not self._up.is_set():
            raise ToolError(f"Nothing ran: the server {self.name!r} does not answer ({self.error or 'it starts'}).")
        call = copy.copy(client)
        call._proxy_rc_ref = [None]
        progress = proxy.default_proxy_progress_handler
        call._progress_handler = proxy._make_restoring_handler(progress, call._proxy_rc_ref)
        return call

    @contextmanager
    def used_by(self, connection: Any) -> Iterator[None]:
        """While a client waits: what the server asks a user goes to that client, or to nobody where several wait."""
        self._fronts[id(connection)] += 1
        context, client = get_context(), self.client
        try:
            if client is not None:
                alone = len(self._fronts) == 1
                client._proxy_rc_ref[0] = (context.request_context, context._fastmcp) if alone else None
            yield
        finally:
            self._fronts[id(connection)] -= 1
            self._fronts += Counter()  # drops those at 0
            if client is not None and not self._fronts:
                client._proxy_rc_ref[0] = None

    def status(self) -> dict[str, Any]:
        """What `camdf mcp status` shows."""
        told = {"state": self.state, "error": self.error, "tools": len(self.tools)}
        return {**told, "left out": self.left_out, "restarts": max(0, self.restarts)}

    def _say(self, state: str, error: str = "") -> None:
        self.state, self.error = state, error
        self.listed()

    async def _log(self, message: Any) -> None:
        second, lines = self._logged
        self._logged = (monotonic(), 1) if monotonic() - second > 1.0 else (second, lines + 1)
        if self._logged[1] <= LOG_LINES and self.client is not None and (context := self.client._proxy_rc_ref[0]):
            await proxy._make_restoring_handler(proxy.default_proxy_log_handler, [context])(message)


def _told(error: BaseException, name: str) -> str:
    """Why a server is down, in one line."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, NeedsSignInError) or isinstance(error.__cause__, NeedsSignInError):
        return f"it wants a sign-in: camdf mcp login {name}"
    return (str(error) or type(error).__name__).splitlines()[0][:200]

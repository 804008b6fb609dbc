"""One server behind the gateway: connected, listed, and connected again when it fails. What it does costs itself.

The connection is FastMCP's proxy client, one for all calls. `private` names of FastMCP are used in this file alone.
"""

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
from camdf.gateway.config import Server
from camdf.gateway.sign_in import NeedsSignInError, stored_sign_in

with needs("mcp"):
    from fastmcp.client.messages import MessageHandler
    from fastmcp.exceptions import ToolError
    from fastmcp.mcp_config import MCPConfig
    from fastmcp.server.dependencies import get_context
    from fastmcp.server.providers.proxy import (
        StatefulProxyClient,
        _make_restoring_handler,
        default_proxy_log_handler,
        default_proxy_progress_handler,
    )
    from mcp.client.subscriptions import listen

CONNECT, LIST, RESTART = 60.0, 20.0, 5.0
"""Seconds: to answer first, to list tools, and that a call waits for a server that starts again."""

LONGEST_REST, STEADY = 60.0, 10.0
"""Seconds: the longest rest before another try, and after how many a connection has been a good one."""

RELISTED, BETWEEN = 300.0, 1.0
"""Seconds after which a list is asked for again, and between two such requests at least."""

MOST_TOOLS, LONGEST_TOOL, LOG_LINES = 2_000, 100_000, 50
"""How many tools a server may list, how many characters one may have, and lines a second that it may log."""


class Link:
    """A server's connection. `listed` is called whenever its tools, or what can be said of it, changed."""

    def __init__(self, server: Server, seconds: float, listed: Callable[[Link], None], sign_ins: Path) -> None:
        self.server, self.seconds, self.listed, self.sign_ins = server, seconds, listed, sign_ins
        self.state, self.error, self.restarts = "starting", server.problem, -1
        self.tools: list[Any] = []
        self.left_out = 0
        self.client: Any = None
        self._wanted, self._up, self._fronts = asyncio.Event(), asyncio.Event(), Counter[int]()
        self._logged = (0.0, 0)

    @property
    def name(self) -> str:
        """As the configuration has it."""
        return self.server.name

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
                self._wanted.clear()
                async with asyncio.timeout(LIST):
                    again = await self._list(client)
                self._up.set()
                self._say("up", "")
                await asyncio.sleep(BETWEEN)
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._wanted.wait(), again)
        finally:
            watch.cancel()

    def _new_client(self, mode: str) -> Any:
        entry = dict(self.server.entry)
        if "url" in entry and "auth" not in entry and (auth := stored_sign_in(entry["url"], self.sign_ins)):
            entry["auth"] = auth
        transport = MCPConfig.from_dict({"mcpServers": {self.name: entry}}).mcpServers[self.name].to_transport()
        limit = entry.get("timeout")
        return StatefulProxyClient(
            transport,
            mode=mode,
            timeout=limit / 1000 if isinstance(limit, int | float) and limit > 0 else self.seconds,
            init_timeout=CONNECT,
            forward_incoming_headers=False,  # what a client tells the gateway is no server's business
            message_handler=_Changes(self._wanted),
            log_handler=self._log,
        )

    async def _list(self, client: Any) -> float:
        """Ask for all pages of the server's tools; the seconds for which they stand."""
        tools: list[Any] = []
        cursor, left_out, stands = None, 0, RELISTED
        while True:
            page = await client.list_tools_mcp(cursor=cursor)
            short = [tool for tool in page.tools if len(tool.model_dump_json()) <= LONGEST_TOOL]
            left_out += len(page.tools) - len(short)
            tools += short
            if ttl := getattr(page, "ttl_ms", None):
                stands = min(RELISTED, max(BETWEEN, ttl / 1000))
            if not page.next_cursor or page.next_cursor == cursor or len(tools) >= MOST_TOOLS:
                break
            cursor = page.next_cursor
        self.left_out = left_out + max(0, len(tools) - MOST_TOOLS)
        self.tools = tools[:MOST_TOOLS]
        return stands

    async def _watch_changes(self, client: Any) -> None:
        """From protocol version 2026-07-28 on a client subscribes to changes; before, they come unasked."""
        with suppress(Exception):  # before that version, of a server that has none, and when the connection ends
            async with listen(client.session, tools_list_changed=True) as events:
                async for _ in events:
                    self._wanted.set()

    async def borrowed(self) -> Any:
        """The client for one request: it shares the connection, and its progress goes to whoever sent the request."""
        if not self._up.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(self._up.wait(), RESTART if self.state != "starting" else CONNECT)
        client = self.client
        if client is None or not self._up.is_set():
            raise ToolError(f"Nothing ran: the server {self.name!r} does not answer ({self.error or 'it starts'}).")
        call = copy.copy(client)
        call._proxy_rc_ref = [None]
        call._progress_handler = _make_restoring_handler(default_proxy_progress_handler, call._proxy_rc_ref)
        return call

    @contextmanager
    def used_by(self, connection: Any) -> Iterator[None]:
        """While a client waits for this server: what the server asks a user then goes to that client, or to nobody.

        Where two clients wait at once, nobody can tell whom the server means.
        """
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

    def suspect(self) -> None:
        """A call failed: list the tools now, which a server that is gone cannot."""
        self._wanted.set()

    def status(self) -> dict[str, Any]:
        """What `camdf mcp status` shows."""
        told = {"state": self.state, "tools": len(self.tools), "restarts": max(0, self.restarts)}
        return {**told, **({"error": self.error} if self.error else {}), "left out": self.left_out}

    def _say(self, state: str, error: str) -> None:
        self.state, self.error = state, error
        self.listed(self)

    async def _log(self, message: Any) -> None:
        second, lines = self._logged
        now = monotonic()
        self._logged = (now, 1) if now - second > 1.0 else (second, lines + 1)
        if self._logged[1] <= LOG_LINES and self.client is not None and (context := self.client._proxy_rc_ref[0]):
            await _make_restoring_handler(default_proxy_log_handler, [context])(message)


class _Changes(MessageHandler):
    """Hears that a server's list changed."""

    def __init__(self, wanted: asyncio.Event) -> None:
        self._wanted = wanted

    async def on_tool_list_changed(self, message: Any) -> None:
        self._wanted.set()


def _told(error: BaseException, name: str) -> str:
    """Why a server is down, in one line."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    status = getattr(getattr(error, "response", None), "status_code", None)
    if status == 401 or isinstance(error, NeedsSignInError):
        return f"it wants a sign-in: camdf mcp login {name}"
    if isinstance(error, TimeoutError):
        return "it had no answer in time"
    return (str(error) or type(error).__name__).splitlines()[0][:200]

"""One server behind the gateway, by FastMCP's proxy client: connected, listed, and connected again when it fails."""

from __future__ import annotations

import asyncio
import copy
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic
from typing import Any

from camdf.errors import needs
from camdf.integrations.gateway import intake
from camdf.integrations.gateway.config import ServerEntry
from camdf.integrations.gateway.intake import Intake, characters, taken_in
from camdf.integrations.gateway.process import ServerProcess, done_to_the_end
from camdf.integrations.gateway.sign_in import NeedsSignInError, stored_sign_in
from camdf.runtime.visible import visible, visible_lines

with needs("mcp"):
    from fastmcp.client.transports import StdioTransport
    from fastmcp.exceptions import ToolError
    from fastmcp.mcp_config import MCPConfig
    from fastmcp.server.dependencies import get_context
    from fastmcp.server.providers import proxy
    from mcp.client.subscriptions import listen
    from mcp_types import ElicitRequest, InputRequiredResult, ToolListChangedNotification

CONNECT = 60.0
"""Seconds that a server has to answer first."""

LIST = 20.0
"""Seconds that it has to list its tools."""

FIRST_LIST = 20.0
"""Seconds that it has to be in a first list."""

RESTART = 5.0
"""Seconds that it has to start again while a call waits."""

LONGEST_REST = 60.0
"""Seconds of the longest rest before another try."""

STEADY = 10.0
"""Seconds after which a connection was a good one."""

RELISTED = 300.0
"""Seconds after which a list is asked for again."""

BETWEEN = 1.0
"""Seconds between two such requests at least."""

MOST_SHARE = 0.1
"""The share of the time that a server's lists may take: after a long one the next is asked for later."""

MOST_PAGES = 100
"""How many pages a list may have."""

LOG_LINES = 50
"""How many lines a second a server may log to the client."""


class Link:
    """A server's connection. A call may take `seconds`.

    `listed` takes in its tools whenever it has listed them, and says what was wrong with that. `changed` is called
    whenever its state may be another one.
    """

    def __init__(
        self,
        server: ServerEntry,
        seconds: float,
        listed: Callable[[Link], Awaitable[str]],
        changed: Callable[[], Awaitable[None]],
        sign_ins: Path,
    ) -> None:
        self.server = server
        self.name = server.name
        self.seconds = seconds
        self.listed = listed
        self.changed = changed
        self.sign_ins = sign_ins
        self.state = "down" if server.problem else "starting"
        self.error = server.problem
        self.since = _now()
        self.restarts = -1
        self.came_up: float | None = None  # when it first did
        self.client: Any = None
        self.intake = Intake({}, Counter())
        self.wanted = asyncio.Event()  # set to have the tools listed again
        self._why_ended = ""
        self._woken = asyncio.Event()
        self._up = asyncio.Event()
        self._fronts = Counter[int]()
        self._logged = (0.0, 0)

    async def run(self, mode: str) -> None:
        """Connect, and again after every failure: at once if it was steady, else after 1, 2, 4, at most 60 seconds.

        Whatever goes wrong here is this server's own failure, so this ends only where it is canceled.
        """
        if self.state == "asleep":
            await self._woken.wait()
        rest = 0.0
        while not self.server.problem:
            began = monotonic()
            try:
                await self._connected(mode)
            except (Exception, asyncio.CancelledError) as error:
                task = asyncio.current_task()
                if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling():
                    raise
                await self._say("down", self._why_ended or _why_down(error, self.name))
            finally:
                self._up.clear()
                client = self.client
                self.client = None
                if client is not None:
                    with suppress(Exception):
                        await done_to_the_end(asyncio.wait_for(client.close(), CONNECT))
            was_steady = monotonic() - began > STEADY
            rest = 0.0 if was_steady else min(LONGEST_REST, max(1.0, 2 * rest))
            await asyncio.sleep(rest)
        await self._say("down", self.server.problem)

    async def sleep(self, intake: Intake) -> None:
        """Start with the first call only: the tools are those that it listed before."""
        self.intake = intake
        problem = await self.listed(self)
        await self._say("asleep", problem)

    async def woken(self) -> None:
        """Start a server that is asleep, and wait until it has listed its tools; a ToolError where it does not."""
        if self.state == "asleep":
            self._woken.set()
            await self._say("starting")
        if self._woken.is_set() and not self._up.is_set():
            await self.borrowed()

    async def _connected(self, mode: str) -> None:
        self.restarts += 1
        self._why_ended = ""
        client = self._new_client(mode)
        self.client = client
        async with asyncio.timeout(CONNECT):
            await client.__aenter__()
        watch = asyncio.create_task(self._watch_changes(client))
        try:
            while True:
                self.wanted.clear()
                began = monotonic()
                async with asyncio.timeout(LIST):
                    again = await self._list(client)
                problem = await self.listed(self)
                self._up.set()
                await self._say("up", problem)
                await asyncio.sleep(max(BETWEEN, (monotonic() - began) / MOST_SHARE))
                with suppress(TimeoutError):
                    await asyncio.wait_for(self.wanted.wait(), again)
        finally:
            watch.cancel()

    def _transport(self) -> Any:
        """How the server is reached. What starts a process is bounded by ours."""
        entry = dict(self.server.entry)
        if "url" in entry and not {"auth", "headers"} & entry.keys():
            entry["auth"] = stored_sign_in(entry["url"], self.sign_ins)
        known = MCPConfig.from_dict({"mcpServers": {self.name: entry}}).mcpServers[self.name].to_transport()
        if isinstance(known, StdioTransport):
            return ServerProcess(self.name, known, self._note_end)
        return known

    def _note_end(self, why: str) -> None:
        self._why_ended = why
        self.wanted.set()  # a server that is gone cannot list its tools, and is started again

    def _new_client(self, mode: str) -> Any:
        own = self.server.entry.get("timeout")
        return proxy.StatefulProxyClient(
            self._transport(),
            mode=mode,
            timeout=own / 1000 if own else self.seconds,
            init_timeout=CONNECT,
            forward_incoming_headers=False,  # what a client tells the gateway is no server's business
            message_handler=self._hear,
            log_handler=self._forward_log,
            elicitation_handler=self._ask_user,
        )

    async def _list(self, client: Any) -> float:
        """Ask for the pages of the server's tools, and take in what may be; the seconds for which they stand."""
        tools: list[Any] = []
        size = 0
        cursor = None
        for _ in range(MOST_PAGES):
            page = await client.list_tools_mcp(cursor=cursor)
            tools += [tool for tool in page.tools if self.server.lets_through(tool.name)]
            size += await asyncio.to_thread(sum, map(characters, page.tools))
            is_last = page.next_cursor in (None, "", cursor)
            if is_last or len(tools) > intake.MOST_TOOLS or size > intake.MOST_CHARACTERS:
                break
            cursor = page.next_cursor
        self.intake = await asyncio.to_thread(taken_in, tools)
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
            async with asyncio.timeout(CONNECT if self.state == "starting" else RESTART):
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
        context = get_context()
        client = self.client
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
        return {
            "state": self.state,
            "error": self.error,
            "since": self.since,
            "tools": len(self.intake.tools),
            "left out": dict(self.intake.left_out),
            "restarts": max(0, self.restarts),
        }

    async def _say(self, state: str, error: str = "") -> None:
        if state != self.state:
            self.since = _now()
        self.state = state
        self.error = error
        if state == "up" and self.came_up is None:
            self.came_up = monotonic()
        await self.changed()

    async def _ask_user(self, message: str, response_type: Any, params: Any, context: Any) -> Any:
        """Ask the client's user what the server asks, and say who asks."""
        request = self.client and self.client._proxy_rc_ref[0]
        if request is None:
            raise ToolError("Nobody waits for this server, so nobody is asked.")
        handler = proxy._make_restoring_handler(proxy.default_proxy_elicitation_handler, [request])
        return await handler(self.signed(message), response_type, params, context)

    def signed(self, message: str) -> str:
        """A question of the server to a user, with its name before it: it may say that it is another."""
        return f"The server {self.name!r} asks: {visible_lines(message)}"

    def sign(self, asked: InputRequiredResult) -> InputRequiredResult:
        """The same for what a server of 2026-07-28 asks in the place of an answer."""
        if not asked.input_requests:
            return asked
        requests = {key: self._signed_request(request) for key, request in asked.input_requests.items()}
        return asked.model_copy(update={"input_requests": requests})

    def _signed_request(self, request: Any) -> Any:
        if not isinstance(request, ElicitRequest):
            return request
        params = request.params.model_copy(update={"message": self.signed(request.params.message)})
        return request.model_copy(update={"params": params})

    async def _forward_log(self, message: Any) -> None:
        second, lines = self._logged
        if monotonic() - second > 1.0:
            second = monotonic()
            lines = 0
        self._logged = (second, lines + 1)
        context = self.client and self.client._proxy_rc_ref[0]
        if lines < LOG_LINES and context:
            await proxy._make_restoring_handler(proxy.default_proxy_log_handler, [context])(message)


def _now() -> str:
    return datetime.now(UTC).isoformat(sep=" ", timespec="minutes")


def _why_down(error: BaseException, name: str) -> str:
    """Why a server is down, in one line."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, NeedsSignInError) or isinstance(error.__cause__, NeedsSignInError):
        return f"it wants a sign-in: camdf mcp login {name}"
    return visible((str(error) or type(error).__name__).splitlines()[0], 200)

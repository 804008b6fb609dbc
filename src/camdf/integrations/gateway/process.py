"""A server in a process of its own, over standard input and output: what it writes is bounded, and it ends with us."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager, suppress
from time import monotonic
from typing import Any

from camdf.errors import needs
from camdf.runtime.visible import visible

with needs("mcp"):
    import anyio
    from fastmcp.client.transports.base import ClientTransport, TransportOptions
    from mcp.client.stdio import get_default_environment
    from mcp.shared.message import SessionMessage
    from mcp_types import jsonrpc_message_adapter

LONGEST_MESSAGE = 8_000_000
"""How many bytes one message may have. A picture that models take has at most five million."""

BYTES_A_SECOND = 4_000_000
LINES_A_SECOND = 500
"""How much of a server is read."""

AT_ONCE = 2.0
"""After so many seconds' worth at once it is read at this pace, and waits."""

LONGEST_LOG = 1_000
LOG_LINES = 50
"""Of what a server writes for people to read: characters of a line, and lines a second. The rest is not shown."""

GRACE = 0.4
"""Seconds that a server has to end once its input is closed, and again once it was told to. A client that ends the
gateway allows it two seconds in all."""

_KILL = getattr(signal, "SIGKILL", signal.SIGTERM)
"""Windows has no other signal."""


class ServerProcess(ClientTransport):
    """Starts a server for every session. `ended` is told why the session is over, where that is the server's doing."""

    def __init__(self, name: str, stdio: Any, ended: Callable[[str], None]) -> None:
        """`stdio` is FastMCP's transport of the same server: its command, arguments, variables and folder."""
        self._name = name
        self._stdio = stdio
        self._ended = ended

    @asynccontextmanager
    async def connect_session(
        self, *, transport_options: TransportOptions | None = None, **session_kwargs: Any
    ) -> AsyncIterator[Any]:
        options = transport_options or TransportOptions()
        process = await _started(self._stdio.command, self._stdio.args, self._stdio.env or {}, self._stdio.cwd)
        arriving, arrived = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        leaving, left = anyio.create_memory_object_stream[SessionMessage](0)
        pipes = [
            asyncio.create_task(self._read_messages(process, arriving)),
            asyncio.create_task(_write_messages(process, left)),
            asyncio.create_task(self._show_log(process)),
        ]
        try:
            async with options.session_class(arrived, leaving, **session_kwargs) as session:
                yield session
        finally:
            await done_to_the_end(_end_process(process, pipes))
            for stream in (arriving, arrived, leaving, left):
                stream.close()

    async def _read_messages(self, process: Any, arriving: Any) -> None:
        """Hand on what the server writes, a message a line, no faster than it may; text that is no message is shown."""
        pace = _Pace()
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            async with arriving:
                while line := await self._next_line(process.stdout):
                    await pace.rest(len(line))
                    try:
                        message = jsonrpc_message_adapter.validate_json(line, by_name=False)
                    except ValueError:
                        pace.show(self._name, line)
                        continue
                    await arriving.send(SessionMessage(message))

    async def _next_line(self, written: asyncio.StreamReader) -> bytes:
        """The next line; b"" at the end, which a line without end is."""
        try:
            line = await written.readline()
        except ValueError:
            self._ended(f"it wrote a message of more than {LONGEST_MESSAGE:,} bytes")
            return b""
        if not line:
            self._ended("it has ended")
        return line

    async def _show_log(self, process: Any) -> None:
        """Show what the server writes for people, under its name; what is more than they could read is not shown."""
        pace = _Pace()
        rest = b""
        while chunk := await process.stderr.read(65_536):
            await pace.rest(len(chunk))
            *lines, rest = (rest + chunk).split(b"\n")
            rest = rest[:LONGEST_LOG]
            for line in lines[:LOG_LINES]:
                pace.show(self._name, line)
        if rest:
            pace.show(self._name, rest)


class _Pace:
    """How fast a server may write."""

    def __init__(self) -> None:
        self._paid_until = 0.0
        self._second = 0.0
        self._shown = 0

    async def rest(self, count: int) -> None:
        """Wait where a line of so many bytes comes too soon after those before."""
        now = monotonic()
        cost = max(count / BYTES_A_SECOND, 1 / LINES_A_SECOND)
        self._paid_until = max(self._paid_until, now) + cost
        if self._paid_until > now + AT_ONCE:
            await asyncio.sleep(self._paid_until - now - AT_ONCE)

    def show(self, name: str, line: bytes) -> None:
        """Print a line of a server, if somebody can read so many."""
        if monotonic() - self._second > 1.0:
            self._second = monotonic()
            self._shown = 0
        self._shown += 1
        if self._shown <= LOG_LINES and line.strip():
            text = line[: 4 * LONGEST_LOG].decode(errors="replace").rstrip()
            with suppress(OSError, ValueError):  # nobody reads any more
                print(f"{name}: {visible(text, LONGEST_LOG)}", file=sys.stderr)


async def _started(command: str, arguments: list[str], variables: Mapping[str, Any], folder: str | None) -> Any:
    """The process, in a group of its own. It gets the few variables that `mcp` passes on, and those of its entry."""
    program = command
    if os.name == "nt":  # npx is npx.cmd there
        program = shutil.which(command) or command
    pipe = asyncio.subprocess.PIPE
    return await asyncio.create_subprocess_exec(
        program,
        *arguments,
        stdin=pipe,
        stdout=pipe,
        stderr=pipe,
        limit=LONGEST_MESSAGE,
        env={**get_default_environment(), **variables},
        cwd=folder,
        start_new_session=True,
    )


async def _write_messages(process: Any, left: Any) -> None:
    """Write what is sent to the server, a message a line."""
    with suppress(OSError, RuntimeError):  # it has ended
        async with left:
            async for sent in left:
                line = sent.message.model_dump_json(by_alias=True, exclude_unset=True)
                process.stdin.write(line.encode() + b"\n")
                await process.stdin.drain()


async def done_to_the_end(work: Coroutine[Any, Any, None]) -> None:
    """Wait until some work is done, however often whoever waits is canceled: that takes effect after it."""
    task = asyncio.create_task(work)
    canceled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError as error:
            canceled = error
    if canceled is not None:
        raise canceled


async def _end_process(process: Any, pipes: list[asyncio.Task[None]]) -> None:
    """End a server: its input closes, then it is told to end, then it is killed, with all that it started."""
    try:
        for pipe in pipes[:2]:
            pipe.cancel()
        with suppress(OSError, RuntimeError):
            process.stdin.close()
        is_over = await _exited(process)
        if not is_over:
            _signal_group(process, signal.SIGTERM)
            is_over = await _exited(process)
            _signal_group(process, _KILL)  # what it started may be there still
        if not is_over:
            await _exited(process)
        with suppress(TimeoutError):
            await asyncio.wait_for(asyncio.gather(*pipes, return_exceptions=True), GRACE)
    except asyncio.CancelledError:  # the event loop itself ends
        _signal_group(process, _KILL)
        raise
    finally:
        process._transport.close()  # else a child that has the pipes keeps them open


async def _exited(process: Any) -> bool:
    """Whether a process is over within a while; its own `wait` would also wait for pipes that a child may have."""
    until = monotonic() + GRACE
    while process.returncode is None and monotonic() < until:
        await asyncio.sleep(0.01)
    return process.returncode is not None


def _signal_group(process: Any, told: int) -> None:
    with suppress(OSError):  # it has ended
        if os.name == "nt":
            process.kill()
        else:
            os.killpg(process.pid, told)

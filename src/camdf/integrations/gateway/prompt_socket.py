"""Where a gateway hears of prompts: a local socket of this user alone, in the gateway's folder.

A client writes what its hook was given and gets one line back (`camdf.integrations.gateway.prompt_hook`). Reading and
answering are bounded in size and time, and only so many are answered at once.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import tempfile
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

from camdf.integrations.gateway.folder import is_running
from camdf.integrations.gateway.prompt_hook import MOST_READ, NOTHING, SUFFIX, socket_name
from camdf.runtime.files import PRIVATE

SECONDS = 1.0
"""How long a client may take to write and to read."""

AT_ONCE = 8
"""How many prompts are answered at once: beyond that, there is no answer."""


class PromptSocket:
    """A socket in `folder`, on which `answer` is asked for the text that joins a prompt, "" for none."""

    def __init__(self, folder: Path, answer: Callable[[bytes], Awaitable[str]]) -> None:
        self.path = folder / socket_name(str(Path.cwd()), os.getppid(), os.getpid())
        self._answer = answer
        self._server: asyncio.Server | None = None
        self._answering = 0

    async def open(self) -> None:
        """Listen, once the sockets that killed gateways left are gone."""
        for other in self.path.parent.glob(f"*{SUFFIX}"):
            process = other.stem.rpartition("-")[2]
            if other == self.path or not (process.isdecimal() and is_running(int(process))):
                other.unlink(missing_ok=True)
        self._server = await asyncio.start_unix_server(self._served, sock=_bound_socket(self.path))

    def close(self) -> None:
        """Listen no more."""
        if self._server is not None:
            self._server.close()
            self._server = None
            self.path.unlink(missing_ok=True)

    async def _served(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._answering >= AT_ONCE:
            writer.close()
            return
        self._answering += 1
        try:
            with suppress(OSError, TimeoutError):
                async with asyncio.timeout(SECONDS):
                    asked = await _read_to_end(reader)
                    writer.write(hook_output(await self._answer(asked)))
                    await writer.drain()
        finally:
            self._answering -= 1
            writer.close()


def hook_output(text: str) -> bytes:
    """What a hook prints to have a text join the prompt: one line of ASCII."""
    if not text:
        return NOTHING
    output = {"hookSpecificOutput": {"hookEventName": "UserPromptSubmit", "additionalContext": text}}
    return json.dumps(output).replace("\x7f", "\\u007f").encode() + b"\n"


async def _read_to_end(reader: asyncio.StreamReader) -> bytes:
    """All that a client writes; nothing where that is too much."""
    asked = b""
    while part := await reader.read(1 << 16):
        asked += part
        if len(asked) > MOST_READ:
            return b""
    return asked


def _bound_socket(path: Path) -> socket.socket:
    """A socket at a path, of this user alone before anybody can connect.

    The name of a socket may have about a hundred characters, so it is reached by a short link to its folder.
    """
    bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with tempfile.TemporaryDirectory(prefix="camdf") as short:
            link = Path(short, "f")
            link.symlink_to(path.parent, target_is_directory=True)
            bound.bind(str(link / path.name))
        path.chmod(PRIVATE)
        bound.setblocking(False)
    except BaseException:
        bound.close()
        raise
    return bound

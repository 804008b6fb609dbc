"""What one request may be and who may send it: bytes, nesting, seconds, how many at a time, and a token."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping
from hashlib import sha256
from hmac import compare_digest
from typing import Any, TypeAlias

from camdf.service.config import LimitSettings

Receive: TypeAlias = Callable[[], Awaitable[dict[str, Any]]]
Headers: TypeAlias = Mapping[bytes, bytes]


class RefusedError(Exception):
    """A request that gets no answer but this status and these words."""

    def __init__(self, status: int, words: str, headers: Iterable[tuple[bytes, bytes]] = ()) -> None:
        super().__init__(words)
        self.status, self.words, self.headers = status, words, list(headers)


class GoneError(Exception):
    """The client went away before it had sent its request."""


async def body_of(receive: Receive, headers: Headers, limits: LimitSettings) -> bytes:
    """The body of a request, which is read to its end even where it is too long: most clients only listen then."""
    most, loop = limits.body_bytes, asyncio.get_running_loop()
    ends, size = loop.time() + limits.read_seconds, 0
    parts: list[bytes] = []
    more = True
    while more:
        message = await _within(max(ends - loop.time(), 0.0), receive)
        if message["type"] == "http.disconnect":
            raise GoneError
        part, more = message.get("body", b""), message.get("more_body", False)
        size += len(part)
        if size <= most:
            parts.append(part)
        else:
            parts.clear()
    if size > most:
        raise RefusedError(
            413, f"A body may have {most} bytes. Send fewer requests at a time, or raise limits.body_bytes."
        )
    return parts[0] if len(parts) == 1 else b"".join(parts)


async def _within(seconds: float, receive: Receive) -> dict[str, Any]:
    try:
        async with asyncio.timeout(seconds):
            return await receive()
    except TimeoutError:
        raise RefusedError(
            408, "The body did not arrive in time. Send it at once.", [(b"connection", b"close")]
        ) from None


def check_depth(value: Any, most: int) -> None:
    """Refuse lists and objects that are nested more deeply than `most`, level by level and without recursion."""
    level, depth = [value], 1
    while level:
        if depth > most:
            raise RefusedError(422, f"Lists and objects may be nested {most} deep. Send plainer tools or messages.")
        level = [
            child
            for each in level
            for child in (each.values() if type(each) is dict else each)
            if type(child) is dict or type(child) is list
        ]
        depth += 1


def tenant_of(headers: Headers, tokens: Mapping[str, str]) -> str:
    """Whose token a request has. Every known one is compared, in the same time whatever is sent."""
    if not tokens:
        return ""
    scheme, _, token = headers.get(b"authorization", b"").partition(b" ")
    sent, found = sha256(token.strip()).hexdigest(), None
    for digest, tenant in tokens.items():
        if compare_digest(sent, digest):
            found = tenant
    if found is None or scheme.lower() != b"bearer":
        raise RefusedError(
            401, "Send 'Authorization: Bearer TOKEN' with a token of this service.", [(b"www-authenticate", b"Bearer")]
        )
    return found


class Admission:
    """Lets in at most `limits.waiting` requests at a time, and has them decide one after the other.

    A request beyond that is told at once to come back, instead of waiting in a line that nobody sees. It hears so soon,
    because the event loop looks at the network after every decision. A request that finds nobody in line decides at
    once.
    """

    def __init__(self) -> None:
        self.inside = 0
        self._line: deque[asyncio.Future[None]] = deque()
        self._free = True

    def enter(self, limits: LimitSettings) -> None:
        """Come in, or be told to come back."""
        if self.inside >= limits.waiting:
            wait = str(limits.retry_seconds).encode()
            raise RefusedError(503, "The service is at its capacity. Try again shortly.", [(b"retry-after", wait)])
        self.inside += 1

    def leave(self) -> None:
        """Make room."""
        self.inside -= 1

    async def turn(self) -> None:
        """Wait until it is this request's turn to decide on the event loop."""
        loop = asyncio.get_running_loop()
        if self._free:
            self._free = False
            loop.call_soon(self._next)
            return
        mine: asyncio.Future[None] = loop.create_future()
        self._line.append(mine)
        await mine

    def _next(self) -> None:
        while self._line:
            first = self._line.popleft()
            if not first.done():  # it may have been cancelled
                first.set_result(None)
                asyncio.get_running_loop().call_soon(self._next)
                return
        self._free = True

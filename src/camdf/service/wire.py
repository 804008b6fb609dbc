"""The wire: what a connection may send, how slowly it may send and read, and how many there are.

Heads are bounded before anything in them is believed, and a request has `limits.read_seconds` to be there whole. A
connection that breaks a bound is told so, and closed. Where there are too many, the one that has waited for longest for
its client makes room. Fields that follow a body (trailers) are counted and dropped.

uvicorn itself bounds neither how slowly a head arrives nor how many heads may be half there, since an ASGI application
is first called when a head is whole, and it closes no connection whose answer stays unread. Its parser `httptools` has
no bound on the size of a head, and `h11`, which has one, answers 400 without a word.

So this is a subclass of a class that uvicorn does not call public. What is public was tried in its place: uvicorn 0.54
with `limit_concurrency`, `h11_max_incomplete_event_size` and a middleware that gives a body its seconds and bytes.
14 of the 30 tests of heads and of the wire fail with `h11`, and 16 with `httptools`. Half a head is waited for beyond
the 60 seconds of the test, 1,010 slow connections have all others answered 503, and `httptools` takes 100 MB of a head.
"""

from __future__ import annotations

import json
from asyncio import TimerHandle, Transport
from collections.abc import Callable
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

from camdf.errors import needs
from camdf.service.config import LimitSettings

with needs("serve"):
    from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEAD_BYTES = 32_768
"""Of a request's path and fields."""

FIELDS = 100
"""How many a head has at most, those after a body included."""

TOO_LONG = f"A head may have {HEAD_BYTES} bytes, its path included, and {FIELDS} fields. Send fewer, or shorter ones."

WRITE_SECONDS = 30.0
"""How long a client may leave an answer unread."""


@dataclass(frozen=True)
class Connections:
    """What the connections of a server share."""

    limits: Callable[[], LimitSettings]
    """Those of the moment."""

    refused: Callable[[int], None]
    """Told the status of every request that ends here."""

    waiting: dict[Wire, None] = field(default_factory=dict)
    """Connections on which a request has not arrived whole, those that wait for longest first."""


class Wire(HttpToolsProtocol):
    """One connection: uvicorn's, within bounds."""

    def __init__(self, shared: Connections, **uvicorn: Any) -> None:
        super().__init__(**uvicorn)
        self._shared = shared
        self._waits: TimerHandle | None = None
        self._writes: TimerHandle | None = None
        self._chunk = self._size = 0
        """Bytes that came last, and since the request began."""

        self._headed = False
        """Whether the head of the request is there."""

        self._whole = True
        """Whether all of it is."""

        self._too_long = False
        self._trailers = 0
        """Fields that came after the body."""

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
        """Make room for one more, or have it come back."""
        super().connection_made(transport)
        waiting = self._shared.waiting
        limits = self._shared.limits()
        if len(self.connections) > limits.connections:
            if not waiting:
                self._refuse_and_close(503, "There are too many connections. Try again shortly.", limits.retry_seconds)
                return
            longest = next(iter(waiting))
            longest._arrived()
            longest.transport.abort()
        self._wait_for_request()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nobody is waited for any more."""
        self._arrived()
        if self._writes is not None:
            self._writes.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse, and look at what is there then."""
        self._chunk = len(data)
        self._size += self._chunk
        super().data_received(data)
        if self._whole or self.transport.is_closing():
            self._arrived()
        elif (self._size > HEAD_BYTES and not self._headed) or self._field_count() > FIELDS:
            self._refuse_and_close(431, TOO_LONG)
        elif self._size > HEAD_BYTES + 2 * (most := self._shared.limits().body_bytes):  # chunks say their sizes too
            self._refuse_and_close(413, f"A body may have {most} bytes.")
        elif self._waits is None:
            self._wait_for_request()

    def on_message_begin(self) -> None:
        """A request begins."""
        self._headed = self._whole = False
        self._trailers = 0
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        """A field; once the head is whole it says nothing any more."""
        if self._headed:
            self._trailers += 1
        else:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Its head is there; one that is too long ends the parsing, and `send_400_response` is called."""
        if len(self.headers) > FIELDS or (max(self._size, self._chunk) > HEAD_BYTES and self._head_size() > HEAD_BYTES):
            self._too_long = True
            raise OverflowError
        self._headed = True
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """All of it is there."""
        self._whole = True
        self._size = 0
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """It is answered; what it still sends is not waited for without end."""
        super().on_response_complete()
        if self.transport.is_closing():
            self._wait_for_reader()
        elif not self._whole and self._waits is None:
            self._wait_for_request()

    def timeout_keep_alive_handler(self) -> None:
        """There was no other request for a while."""
        super().timeout_keep_alive_handler()
        self._wait_for_reader()

    def pause_writing(self) -> None:
        """The client reads more slowly than it is answered."""
        super().pause_writing()
        self._wait_for_reader()

    def resume_writing(self) -> None:
        """It has caught up."""
        super().resume_writing()
        if self._writes is not None and not self.transport.is_closing():
            self._writes.cancel()
            self._writes = None

    def send_400_response(self, msg: str) -> None:
        """What cannot be parsed, or is too long to be."""
        if self._too_long:
            self._refuse_and_close(431, TOO_LONG)
        else:
            self._refuse_and_close(400, msg)

    def _field_count(self) -> int:
        return len(self.headers) + self._trailers

    def _head_size(self) -> int:
        return len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)

    def _wait_for_request(self) -> None:
        self._waits = self.loop.call_later(self._shared.limits().read_seconds, self._did_not_arrive)
        self._shared.waiting[self] = None

    def _arrived(self) -> None:
        if self._waits is not None:
            self._waits.cancel()
            self._waits = None
            del self._shared.waiting[self]

    def _did_not_arrive(self) -> None:
        """The request did not arrive in time. One that came behind another, which is not answered yet, may wait."""
        self._arrived()
        answered = self.cycle is None or self.cycle.response_complete
        if self.pipeline or not (self._headed or answered):
            return
        if self._size and not (self._headed and answered):
            self._refuse_and_close(408, "The request did not arrive in time. Send it at once.")
        else:
            self.transport.close()

    def _wait_for_reader(self) -> None:
        if self._writes is None:
            self._writes = self.loop.call_later(WRITE_SECONDS, self.transport.abort)

    def _refuse_and_close(self, status: int, words: str, retry: int | None = None) -> None:
        """Say why, where no answer is under way, and close."""
        self._arrived()
        if self.cycle is None or self.cycle.response_complete or not self.cycle.response_started:
            body = json.dumps({"error": words}).encode()
            lines = [
                f"HTTP/1.1 {status} {HTTPStatus(status).phrase}",
                "content-type: application/json",
                f"content-length: {len(body)}",
            ]
            if retry is not None:
                lines.append(f"retry-after: {retry}")
            self.transport.write("\r\n".join([*lines, "connection: close", "", ""]).encode() + body)
            self._shared.refused(status)
        self.transport.close()
        self._wait_for_reader()

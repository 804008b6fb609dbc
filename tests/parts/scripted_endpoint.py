"""A loopback HTTP server that plays a script: one act a request, the last one for ever."""

from __future__ import annotations

import json
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

Act = Callable[[socket.socket], None]


@dataclass
class Endpoint:
    url: str
    requests: list[dict[str, Any]] = field(default_factory=list)
    """The JSON bodies that came in."""

    headers: list[str] = field(default_factory=list)


def answers(content: Any, status: int = 200, headers: str = "") -> Act:
    """A chat completion whose message has this content, as JSON unless it is text."""
    said = content if isinstance(content, str) else json.dumps(content)
    return body(json.dumps({"choices": [{"message": {"role": "assistant", "content": said}}]}), status, headers)


def body(text: str, status: int = 200, headers: str = "") -> Act:
    """These bytes as the whole body."""

    def act(connection: socket.socket) -> None:
        content = text.encode()
        head = f"HTTP/1.1 {status} X\r\nContent-Length: {len(content)}\r\nConnection: close\r\n{headers}\r\n"
        connection.sendall(head.encode() + content)

    return act


def hang(connection: socket.socket) -> None:
    """Nothing, for as long as the other side waits."""
    connection.settimeout(30)
    connection.recv(1)


def drip(connection: socket.socket) -> None:
    """Headers at once, then one byte every 0.05 s: each one resets a socket's own timeout."""
    connection.sendall(b"HTTP/1.1 200 X\r\nContent-Length: 100000\r\nConnection: close\r\n\r\n")
    for _ in range(600):
        connection.sendall(b" ")
        time.sleep(0.05)


def drip_headers(connection: socket.socket) -> None:
    """Not even a whole header, byte by byte."""
    connection.sendall(b"HTTP/1.1 200 X\r\nX-Slow: ")
    for _ in range(600):
        connection.sendall(b"x")
        time.sleep(0.05)


def flood(connection: socket.socket) -> None:
    """A body without an end, as fast as it is read."""
    connection.sendall(b"HTTP/1.1 200 X\r\nConnection: close\r\n\r\n")
    while True:
        connection.sendall(b" " * 65536)


def reset(connection: socket.socket) -> None:
    """The connection torn down."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


@contextmanager
def endpoint(*script: Act, tls: ssl.SSLContext | None = None) -> Iterator[Endpoint]:
    """Serve the script on a free port while the block runs."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        found = Endpoint(f"http{'s' if tls else ''}://127.0.0.1:{server.getsockname()[1]}/v1")

        def serve() -> None:
            with suppress(OSError):
                while True:
                    connection, _ = server.accept()
                    if tls is not None:
                        try:
                            connection = tls.wrap_socket(connection, server_side=True)
                        except OSError:  # the other side does not trust it
                            continue
                    act = script[min(len(found.requests), len(script) - 1)]
                    _receive(connection, found)
                    threading.Thread(target=play, args=(act, connection), daemon=True).start()

        def play(act: Act, connection: socket.socket) -> None:
            with connection, suppress(OSError):
                act(connection)

        threading.Thread(target=serve, daemon=True).start()
        yield found
        with suppress(OSError):
            server.shutdown(socket.SHUT_RDWR)  # wakes the thread that waits in accept


def _receive(connection: socket.socket, found: Endpoint) -> None:
    received = b""
    while b"\r\n\r\n" not in received:
        received += connection.recv(65536)
    head, content = received.split(b"\r\n\r\n", 1)
    length = next(
        int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length")
    )
    while len(content) < length:
        content += connection.recv(65536)
    found.headers.append(head.decode())
    found.requests.append(json.loads(content))

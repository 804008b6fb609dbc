"""Two tenants of one service: what one sends, from a process of its own, and how long the other waits meanwhile."""

from __future__ import annotations

import http.client
import json
import socket
import statistics
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from multiprocessing import get_context
from multiprocessing.synchronize import Event
from typing import Any, NamedTuple

from running_service import SECONDS, Running

NORTH, SOUTH = "the token of the north", "the token of the south"
ALONE = """
[server]
port = 0

[gate]
policy = "policy.json"
cost_pressure = 0.06
"""
CONFIGURATION = f"""{ALONE}
[tenants.north]
token_sha256 = "{sha256(NORTH.encode()).hexdigest()}"

[tenants.south]
token_sha256 = "{sha256(SOUTH.encode()).hexdigest()}"
"""

FEW = {"ranking": [{"name": f"tool_{i}", "score": (i * 7 % 20) / 20} for i in range(20)]}
SMALL = json.dumps(FEW).encode()
TOOLS = [
    {"name": f"tool_{i}", "description": f"Search flights, book hotel {i}", "input_schema": {"type": "object"}}
    for i in range(5000)
]


def _turns(count: int) -> dict[str, Any]:
    said = [{"role": "user", "content": f"please book flight number {i} to Rome and a hotel"} for i in range(count)]
    return {"messages": said, "tools": TOOLS[:40]}


class Crowd(NamedTuple):
    """So many clients that each send one body again and again; no body stands for one that never ends."""

    clients: int
    body: Callable[[], Any] | None
    comes_back: float = 0.05
    """Seconds after a refusal, which says 1."""


CROWDS = {
    "64 bodies of which a byte came": Crowd(64, None),
    "2 lists of 1,000 rankings at a time": Crowd(2, lambda: [FEW] * 1000),
    "10 lists of 1,000 rankings at a time": Crowd(10, lambda: [FEW] * 1000),
    "rankings of 10,000": Crowd(
        2, lambda: {"ranking": [{"name": f"tool_{i}", "score": i % 997 / 997} for i in range(10_000)], "explain": True}
    ),
}
BEYOND = {
    "5,000 tools with texts": Crowd(2, lambda: {"messages": _turns(1)["messages"], "tools": TOOLS}),
    "30 conversations of 3,000 turns at a time": Crowd(30, lambda: _turns(3000), 1.0),
    "the same, by clients that come back 20 times as soon as they are told": Crowd(30, lambda: _turns(3000)),
}
"""Here the other one is answered too, but waits for more than three times as long: Python computes for one thread at a
time, and to read and refuse many long bodies is work."""


def _crowd(name: str, port: int, over: Event, told: Any) -> None:
    """What the north does until it is over; then it tells the answers that it got."""
    crowd, seen = (CROWDS | BEYOND)[name], Counter[str]()
    content = b"[" if crowd.body is None else json.dumps(crowd.body()).encode()
    length = 2000 if crowd.body is None else len(content)
    head = f"POST /v1/decide HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {NORTH}\r\n"
    head += f"Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n"

    def client() -> None:
        while not over.is_set():
            with suppress(OSError), socket.create_connection(("127.0.0.1", port), SECONDS) as connection:
                connection.sendall(head.encode() + content)
                connection.settimeout(2 if crowd.body is None else SECONDS)
                answer = connection.recv(1 << 20)
                waits = b"\r\nretry-after: " in answer
                seen[answer.split(b" ", 2)[1].decode() + (", and when to come back" if waits else "")] += 1
                if waits:
                    over.wait(crowd.comes_back)

    threads = [threading.Thread(target=client, daemon=True) for _ in range(crowd.clients)]
    for thread in threads:
        thread.start()
    over.wait()
    for thread in threads:
        thread.join(SECONDS)
    told.put(dict(seen))


@contextmanager
def crowded(name: str, port: int, seen: Counter[str]) -> Iterator[None]:
    """The north sends while the block runs; its answers are counted."""
    context = get_context("spawn")
    over, told = context.Event(), context.SimpleQueue()
    process = context.Process(target=_crowd, args=(name, port, over, told), daemon=True)
    process.start()
    try:
        time.sleep(1.5)  # it has to begin
        yield
    finally:
        over.set()
        seen.update(told.get())
        process.join(SECONDS)


def waits(port: int, seconds: float) -> tuple[list[float], Counter[int]]:
    """How long small decisions of the south take, each on a connection of its own, and what comes of them."""
    times, seen, ends = list[float](), Counter[int](), time.monotonic() + seconds
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {SOUTH}"}
    while time.monotonic() < ends:
        began = time.perf_counter()
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=SECONDS)
        connection.request("POST", "/v1/decide", SMALL, headers)
        seen[connection.getresponse().status] += 1
        connection.close()
        times.append(time.perf_counter() - began)
        time.sleep(0.005)
    return times, seen


class Compared(NamedTuple):
    """Seconds below which 99 of 100 decisions of the south stay, alone and crowded, and all answers."""

    alone: float
    crowded: float
    south: Counter[int]
    north: Counter[str]

    @property
    def times(self) -> float:
        """How many times as long the south waits."""
        return self.crowded / self.alone


def compared(service: Running, name: str, seconds: float) -> Iterator[Compared]:
    """The south alone and crowded in turns, without end: after each turn, the shortest waits so far and all answers.

    Other programs of the machine lengthen some turns, and the shortest are those in which they did not.
    """
    alone, meanwhile, south, north = list[float](), list[float](), Counter[int](), Counter[str]()
    while True:
        times, seen = waits(service.port, seconds)
        alone.append(statistics.quantiles(times, n=100)[98])
        with crowded(name, service.port, north):
            times, more = waits(service.port, seconds)
        meanwhile.append(statistics.quantiles(times, n=100)[98])
        south += seen + more
        yield Compared(min(alone), min(meanwhile), south, north)

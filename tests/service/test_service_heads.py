"""Who asks is said in the head of a request, once: nothing that follows the body says it, and nothing says it twice."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator, Sequence
from hashlib import sha256
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings, strategies

from running_service import SECONDS, Running, folder_of, ranking, running

PRESSURES = {"acme": 0.06, "mallory": 0.3}
"""Each tenant's own, by which an answer says whose it is."""


def token(tenant: str) -> str:
    return f"the token of {tenant}"


TENANTS = "[server]\nport = 0\n\n[gate]\nmean_tools = 2\n" + "".join(
    f'\n[tenants.{name}]\ncost_pressure = {pressure}\ntoken_sha256 = "{sha256(token(name).encode()).hexdigest()}"\n'
    for name, pressure in PRESSURES.items()
)
NO_TOKEN = "[server]\nport = 0\n\n[gate]\nmean_tools = 2\n"
BODY = json.dumps(ranking({"a": 0.9, "b": 0.1})).encode()
Field = tuple[bytes, bytes]


@pytest.fixture(scope="module")
def tenants(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(folder_of(tmp_path_factory.mktemp("heads") / "served", TENANTS)) as found:
        yield found


@pytest.fixture(scope="module")
def open_service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(folder_of(tmp_path_factory.mktemp("heads") / "served", NO_TOKEN)) as found:
        yield found


def lines(fields: Sequence[Field]) -> bytes:
    return b"".join(b"%b: %b\r\n" % field for field in fields)


def request(fields: Sequence[Field], trailers: Sequence[Field] = ()) -> bytes:
    """A request whose body is one chunk, with fields after it."""
    head = [*fields, (b"Content-Type", b"application/json"), (b"Transfer-Encoding", b"chunked")]
    start = b"POST /v1/decide HTTP/1.1\r\n" + lines(head) + b"\r\n"
    return start + b"%x\r\n%b\r\n0\r\n%b\r\n" % (len(BODY), BODY, lines(trailers))


def answer(service: Running, *parts: bytes) -> tuple[int, Any]:
    """The status and the body of what comes back to these parts of one request."""
    with socket.create_connection(("127.0.0.1", service.port), timeout=SECONDS) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for part in parts:
            connection.sendall(part)
        found = b""
        while b"\r\n\r\n" not in found:
            found += connection.recv(65536)
        head, _, body = found.partition(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        while len(body) < length:
            body += connection.recv(65536)
    return int(head.split()[1]), json.loads(body)


def whose(service: Running, *parts: bytes) -> tuple[int, str]:
    """The status, and the tenant for whom it was decided."""
    status, body = answer(service, *parts)
    by_pressure = {pressure: name for name, pressure in PRESSURES.items()}
    return status, by_pressure.get(body.get("cost_pressure"), "")


LOCAL = (b"Host", b"localhost")
FOREIGN = (b"Host", b"rebound.example")


def bearer(tenant: str) -> Field:
    return b"Authorization", b"Bearer " + token(tenant).encode()


def test_a_token_after_the_body_neither_lets_in_nor_changes_the_tenant(tenants: Running) -> None:
    assert whose(tenants, request([LOCAL], [bearer("acme")])) == (401, "")
    assert whose(tenants, request([LOCAL, bearer("acme")], [bearer("mallory")])) == (200, "acme")


def test_a_host_after_the_body_does_not_replace_the_one_in_the_head(open_service: Running) -> None:
    ours = [LOCAL, (b"Origin", b"http://localhost")]
    foreign = [FOREIGN, (b"Origin", b"http://rebound.example")]
    assert answer(open_service, request(foreign, ours))[0] == 403
    assert answer(open_service, request(ours, foreign))[0] == 200


@pytest.mark.parametrize("twice", [bearer("mallory"), LOCAL, (b"Content-Type", b"text/plain"), (b"oRiGiN", b"null")])
def test_a_field_that_says_who_asks_stands_once_in_a_head(tenants: Running, twice: Field) -> None:
    fields = [LOCAL, bearer("acme"), (b"Origin", b"http://localhost")]
    for head in ([*fields, twice], [twice, *fields]):
        status, body = answer(tenants, request(head))
        assert status == 400
        assert f"{twice[0].decode().lower()!r} stands twice" in body["error"]
    same = next(field for field in [*fields, LOCAL, twice] if field[0].lower() == twice[0].lower())
    assert answer(tenants, request([*fields, same]))[0] == 400, "also where both say the same"


MEANT = [LOCAL, FOREIGN, bearer("acme"), bearer("mallory"), (b"Origin", b"http://rebound.example")]
fields = strategies.lists(
    strategies.sampled_from([*MEANT, (b"authorization", b"Basic x"), (b"Expect", b"100-continue"), (b"X", b"y")]),
    max_size=4,
)


@settings(deadline=None)
@given(
    head=fields,
    trailers=fields,
    cuts=strategies.lists(strategies.floats(0, 1), max_size=4),
    is_open=strategies.booleans(),
)
def test_whatever_follows_a_body_changes_neither_status_nor_tenant(
    tenants: Running,
    open_service: Running,
    head: list[Field],
    trailers: list[Field],
    cuts: list[float],
    is_open: bool,
) -> None:
    head = [field for field in head if field[0] != b"Expect"]  # which has an answer of its own
    whole = request(head, trailers)
    places = [0, *sorted(int(cut * len(whole)) for cut in cuts), len(whole)]
    parts = [whole[begins:ends] for begins, ends in pairwise(places) if begins < ends]
    names = [name.lower() for name, _ in head]
    is_local = LOCAL in head and b"origin" not in names
    senders = [name for name in PRESSURES if bearer(name) in head]
    if any(names.count(name) > 1 for name in (b"host", b"authorization", b"origin")):
        expected = 400, ""
    elif is_open:
        expected = (200 if is_local else 403), ""
    else:
        expected = (200, senders[0]) if senders else (401, "")
    assert whose(open_service if is_open else tenants, *parts) == expected

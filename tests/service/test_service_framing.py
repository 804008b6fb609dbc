"""Where a request ends: what could be read in two ways is refused, and no mutation of the wire breaks the service."""

from __future__ import annotations

import os
import random
import re
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import pairwise

import pytest

from running_service import SECONDS, Running, folder_of, running

BODY = b'{"ranking":[{"name":"a","score":0.9}]}'
HOST = b"Host: localhost\r\nContent-Type: application/json\r\n"
START = b"POST /v1/decide HTTP/1.1\r\n" + HOST
LENGTH = b"Content-Length: %d\r\n" % len(BODY)
CHUNKED = b"Transfer-Encoding: chunked\r\n"
CHUNK = b"%x\r\n%b\r\n" % (len(BODY), BODY)
LAST = b"0\r\n\r\n"
HIDDEN = b"GET /healthz HTTP/1.1\r\n" + HOST + b"Connection: close\r\n\r\n"
"""What somebody hides behind a request, so that one program on the way takes it for a body, and the next for a request
of whoever comes after."""

MUTATIONS = int(os.environ.get("CASES", "100"))
"""CASES=2000 is the long form."""

NOT_LENGTHS = (b"+38", b"-1", b"0x26", b"38, 38", b"38,0", b"3 8", b"", b"38a", b"18446744073709551654", b"38\x00")
NOT_CODINGS = (
    *(b"chunked, identity", b"xchunked", b"chunked, chunked", b"chunked\x0b", b"chunked;q=1", b"identity", b"gzip"),
    *(b'"chunked"', b"chunked\x00", b"cow", b"chunked,", b"chun ked"),
)
NOT_SIZES = (b"0x26", b"+26", b"-26", b"26 26", b"g", b"", b"26\n", b"FFFFFFFFFFFFFFFFF", b"1" * 40, b"2\x006")

TWO_READINGS = {
    "a length and chunks": START + LENGTH + CHUNKED + b"\r\n" + CHUNK + LAST + HIDDEN,
    "chunks and a length": START + CHUNKED + LENGTH + b"\r\n" + CHUNK + LAST + HIDDEN,
    "a length of 0 and chunks": START + b"Content-Length: 0\r\n" + CHUNKED + b"\r\n" + LAST + HIDDEN,
    "two lengths": START + LENGTH + b"Content-Length: 0\r\n\r\n" + HIDDEN + BODY,
    "two equal lengths": START + LENGTH + LENGTH + b"\r\n" + BODY + HIDDEN,
    "chunks twice": START + CHUNKED + CHUNKED + b"\r\n" + CHUNK + LAST + HIDDEN,
    "a space before the colon": START + b"Transfer-Encoding : chunked\r\n" + LENGTH + b"\r\n" + LAST + HIDDEN,
    "a folded line": START + b"X: y\r\n Transfer-Encoding: chunked\r\n" + LENGTH + b"\r\n" + LAST + HIDDEN,
    "a line that ends early": START + b"X: y\nTransfer-Encoding: chunked\r\n" + LENGTH + b"\r\n" + LAST + HIDDEN,
    "a carriage return in a line": START + b"X: y\rTransfer-Encoding: chunked\r\n" + LENGTH + b"\r\n" + LAST + HIDDEN,
    "a zero in a line": START + b"X: y\x00\r\n" + LENGTH + b"\r\n" + BODY + HIDDEN,
    "a name of two words": START + b"Content Length: 0\r\n" + LENGTH + b"\r\n" + BODY + HIDDEN,
    "a space before the first field": START.replace(b"\r\nHost", b"\r\n Host") + LENGTH + b"\r\n" + BODY + HIDDEN,
    "a size that ends early": START + CHUNKED + b"\r\n" + CHUNK.replace(b"\r\n", b"\n", 1) + LAST + HIDDEN,
    "a chunk that is too long": START + CHUNKED + b"\r\n26\r\n" + BODY + b"xx\r\n" + LAST + HIDDEN,
    "a chunk that is too short": START + CHUNKED + b"\r\n30\r\n" + BODY + b"\r\n" + LAST + HIDDEN,
    "chunks of HTTP/1.0": START.replace(b"1.1", b"1.0") + CHUNKED + LENGTH + b"\r\n" + CHUNK + LAST + HIDDEN,
    "a connection that is another's": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + HIDDEN,
    **{f"a length of {told!r}": START + b"Content-Length: %b\r\n\r\n" % told + BODY + HIDDEN for told in NOT_LENGTHS},
    **{
        f"a coding of {told!r}": START + b"Transfer-Encoding: %b\r\n" % told + LENGTH + b"\r\n" + CHUNK + LAST + HIDDEN
        for told in NOT_CODINGS
    },
    **{
        f"a size of {told!r}": START + CHUNKED + b"\r\n%b\r\n" % told + BODY + b"\r\n" + LAST + HIDDEN
        for told in NOT_SIZES
    },
}


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    configuration = "[server]\nport = 0\n\n[gate]\nmean_tools = 2\n\n[limits]\nread_seconds = 1\n"
    with running(folder_of(tmp_path_factory.mktemp("framing") / "served", configuration)) as found:
        yield found


def answers(service: Running, *parts: bytes) -> list[int]:
    """The statuses of all that comes back until the connection is closed."""
    found = b""
    where = ("127.0.0.1", service.port)
    with socket.create_connection(where, timeout=SECONDS) as connection, suppress(ConnectionError):
        for part in parts:
            connection.sendall(part)
        while more := connection.recv(65536):
            found += more
    return [int(status) for status in re.findall(rb"(?:\A|\n|\})HTTP/1\.[01] (\d{3}) ", found)]


def test_what_is_hidden_behind_a_request_that_ends_where_it_says_is_another_request(service: Running) -> None:
    """So that the cases below hold because of what is wrong in them."""
    for request in (START + LENGTH + b"\r\n" + BODY, START + CHUNKED + b"\r\n" + CHUNK + LAST):
        assert answers(service, request + HIDDEN) == [200, 200]


@pytest.mark.parametrize("case", TWO_READINGS)
def test_a_request_whose_end_can_be_read_in_two_ways_is_refused_with_all_that_follows_it(
    service: Running, case: str, record_property: Callable[[str, object], None]
) -> None:
    whole = TWO_READINGS[case]
    cuts = (0, len(START), whole.index(b"\r\n\r\n") + 4, whole.index(HIDDEN))
    record_property("cases", len(cuts))
    for cut in cuts:
        parts = [part for part in (whole[:cut], whole[cut:]) if part]
        assert answers(service, *parts) in ([400], [])


@pytest.mark.parametrize("version", [b" HTTP/2.0", b" HTTP/1.0", b" HTTP/0.9", b""])
def test_nothing_follows_a_request_of_a_version_whose_connections_end_with_it(service: Running, version: bytes) -> None:
    request = START.replace(b" HTTP/1.1", version) + LENGTH + b"\r\n" + BODY
    assert answers(service, request + HIDDEN) in ([200], [400])


SIGNS = (
    b"\r\n",
    b"\n",
    b"\r",
    b"\x00",
    b":",
    b" ",
    b"\t",
    b";",
    b",",
    b"\xff",
    b"0",
    b"HTTP/1.1",
    b"chunked",
    b"{",
    b"\\u",
)
REQUESTS = (
    START + LENGTH + b"\r\n" + BODY,
    START + CHUNKED + b"\r\n" + CHUNK + LAST,
    START + CHUNKED + b"\r\n" + CHUNK + b"0\r\nX: y\r\n\r\n",
    START.replace(b"decide", b"outcomes") + b"Content-Length: 2\r\n\r\n[]" + HIDDEN,
    HIDDEN + START + LENGTH + b"Expect: 100-continue\r\nConnection: close\r\n\r\n" + BODY,
)


def mutated(rng: random.Random) -> list[bytes]:
    """A request in which something is another, in parts."""
    content = bytearray(rng.choice(REQUESTS))
    for _ in range(rng.choice((1, 1, 2, 4))):
        place = rng.randrange(len(content) + 1)
        until = min(len(content), place + rng.choice((0, 1, 1, 2, 8, 40)))
        put = rng.choice(
            (b"", rng.choice(SIGNS), rng.choice(SIGNS) * 50, bytes(content[place:until]) * 2, rng.randbytes(2))
        )
        content[place:until] = put
    cuts = sorted(rng.randrange(len(content) + 1) for _ in range(rng.choice((0, 0, 1, 3))))
    places = [0, *cuts, len(content)]
    return [bytes(content[begins:ends]) for begins, ends in pairwise(places) if begins < ends]


def test_no_mutation_of_the_wire_is_a_fault_of_the_service_or_holds_it_up(
    service: Running, record_property: Callable[[str, object], None]
) -> None:
    record_property("cases", MUTATIONS)
    rng = random.Random(20260711)
    cases = [mutated(rng) for _ in range(MUTATIONS)]
    with ThreadPoolExecutor(32) as threads:
        found = list(threads.map(lambda parts: answers(service, *parts), cases))
    statuses = {status for several in found for status in several}
    assert statuses <= {100, 200, 400, 403, 404, 405, 408, 411, 413, 415, 422, 431, 503}
    assert statuses >= {200, 400, 408, 422}
    assert service.ask("/healthz").status == 200
    assert service.number("camdf_requests_under_way") == 0
    assert "Traceback" not in service.errors()
    assert "Error" not in service.errors()

"""What a connection may send, and how slowly: heads and bodies are bounded before anything of them is believed."""

from __future__ import annotations

import re
import resource
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from hashlib import sha256
from pathlib import Path

import pytest

from running_service import PLAIN, SECONDS, Running, eventually, folder_of, ranking, running

TOKEN = "a-token-of-more-than-sixteen-characters"
GET = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n"
POST = b"POST /v1/decide HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
MEBIBYTES = int(
    re.findall(
        r"limits: { memory: (\d+)Mi }", (Path(__file__).parents[2] / "deploy" / "kubernetes.yaml").read_text("utf-8")
    )[0]
)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    configuration = PLAIN + "[limits]\nread_seconds = 2\nbody_bytes = 200_000\n"
    with running(folder_of(tmp_path_factory.mktemp("wire") / "served", configuration)) as found:
        yield found


@contextmanager
def connected(service: Running) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", service.port), timeout=SECONDS) as found:
        yield found


def said(service: Running, *parts: bytes) -> bytes:
    """What comes back until the connection is closed."""
    found = b""
    with connected(service) as connection, suppress(ConnectionError):
        for part in parts:
            connection.sendall(part)
        while more := connection.recv(65536):
            found += more
    return found


def megabytes(service: Running, line: str = "VmRSS") -> float:
    status = Path(f"/proc/{service.process.pid}/status").read_text(encoding="utf-8")
    (kilobytes,) = re.findall(rf"^{line}:\s+(\d+) kB$", status, flags=re.M)
    return int(kilobytes) / 1024


@pytest.mark.parametrize(
    "head",
    [
        GET + b"X: " + b"a" * 33_000 + b"\r\n\r\n",
        GET + b"X: " + b"a" * 33_000,
        GET + b"".join(b"X-%d: %s\r\n" % (i, b"a" * 1000) for i in range(40)) + b"\r\n",
        GET + b"".join(b"X-%d: a\r\n" % i for i in range(100)) + b"\r\n",
        GET + b"".join(b"X-%d: a\r\n" % i for i in range(200)),
        b"GET /" + b"a" * 33_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /" + b"a" * 33_000,
        POST + b"Transfer-Encoding: chunked\r\n\r\n0\r\n" + b"".join(b"X-%d: a\r\n" % i for i in range(200)),
    ],
    ids=["a field", "a field without end", "forty", "a hundred", "more", "a path", "a path without end", "trailers"],
)
def test_a_head_that_is_too_long_is_told_so_and_the_connection_closed(service: Running, head: bytes) -> None:
    answer = said(service, head)
    assert answer.startswith(b"HTTP/1.1 431 "), answer[:200]
    assert b"\r\nconnection: close\r\n" in answer
    assert b"A head may have 32768 bytes" in answer
    assert service.ask("/healthz").status == 200


def test_a_head_of_common_length_is_taken(service: Running) -> None:
    fields = {f"X-{i}": "a" * 300 for i in range(90)}
    assert service.ask("/healthz", headers=fields).status == 200
    assert service.ask(f"/healthz?{'a' * 20_000}").status == 200


@pytest.mark.parametrize("what", [b"X-%06d: %s\r\n", b"a" * 20_000], ids=["fields", "a path"])
def test_a_head_without_end_is_not_kept_whatever_token_it_has(tmp_path: Path, what: bytes) -> None:
    digest = sha256(TOKEN.encode()).hexdigest()
    configuration = PLAIN.replace("[gate]", f'token_sha256 = "{digest}"\n\n[gate]')
    with running(folder_of(tmp_path / "served", configuration)) as service:
        service.ask("/healthz")
        before = megabytes(service)
        for _ in range(3):
            with connected(service) as connection, suppress(ConnectionError):
                connection.sendall(GET if b"%" in what else b"GET /")
                for number in range(5000):
                    connection.sendall(what % (number, b"a" * 20_000) if b"%" in what else what)
                raise AssertionError("100 MB were taken")
        assert megabytes(service, "VmHWM") < before + 16


def test_a_body_without_end_is_ended(service: Running) -> None:
    chunk = b"10000\r\n" + b" " * 65536 + b"\r\n"
    for head in (POST, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n", POST.replace(b"/v1/decide", b"/nowhere")):
        with connected(service) as connection, suppress(ConnectionError):
            connection.sendall(head + b"Transfer-Encoding: chunked\r\n\r\n")
            for _ in range(1000):
                connection.sendall(chunk)
            raise AssertionError("65 MB were taken")


@pytest.mark.parametrize(
    ("part", "status"),
    [(b"", b""), (b"POST /v1/dec", b"HTTP/1.1 408 "), (POST + b"Content-Length: 100\r\n\r\n{", b"HTTP/1.1 408 ")],
    ids=["nothing", "half a head", "half a body"],
)
def test_a_request_that_comes_too_slowly_is_given_up(service: Running, part: bytes, status: bytes) -> None:
    began = time.monotonic()
    answer = said(service, part)
    assert answer.startswith(status)
    assert bool(answer) == bool(status)
    assert 1 < time.monotonic() - began < 30


def test_what_follows_an_answer_is_not_waited_for_without_end(service: Running) -> None:
    began = time.monotonic()
    answer = said(service, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{")
    assert answer.startswith(b"HTTP/1.1 200 ")
    assert time.monotonic() - began < 30


def test_requests_that_come_at_once_on_one_connection_are_answered_in_their_order(service: Running) -> None:
    body = b'{"ranking":[{"name":"a","score":0.9}]}'
    one = POST + b"Content-Length: %d\r\n\r\n%s" % (len(body), body)
    answer = said(service, one + GET + b"\r\n" + one + GET + b"Connection: close\r\n\r\n")
    kinds = re.findall(rb'HTTP/1.1 200 OK|"kept":|"alive"', answer)
    assert kinds == [b"HTTP/1.1 200 OK", b'"kept":', b"HTTP/1.1 200 OK", b'"alive"'] * 2


def test_an_answer_that_nobody_reads_is_not_kept_and_holds_up_nobody(service: Running) -> None:
    with connected(service) as connection:
        for _ in range(200):
            connection.sendall(b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert service.ask("/healthz").status == 200
        assert service.number("camdf_requests_under_way") == 0


@contextmanager
def many(service: Running, count: int, *parts: bytes) -> Iterator[list[socket.socket]]:
    """So many connections that each send something and then wait."""
    with ExitStack() as open_:
        found = []
        for _ in range(count):
            connection = open_.enter_context(socket.create_connection(("127.0.0.1", service.port), timeout=SECONDS))
            with suppress(OSError):
                for part in parts:
                    connection.sendall(part)
            found.append(connection)
        yield found


HEAD_OF_30_KB = b"".join(b"X-%d: %s\r\n" % (i, b"a" * 990) for i in range(30))
BODY = POST + b"Content-Length: 1999999\r\n\r\n"


@pytest.mark.parametrize(
    "parts",
    [(b"POST /v1/decide HTTP/1.1\r\nHo",), (GET, HEAD_OF_30_KB), (BODY, b"["), (BODY, b"[" + b" " * 1_900_000)],
    ids=["short heads", "long heads", "bodies of a byte", "long bodies"],
)
def test_a_thousand_slow_connections_leave_memory_below_the_examples_limit_and_others_get_in(
    tmp_path: Path, parts: tuple[bytes, ...]
) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, hard), hard))
    configuration = PLAIN + "[limits]\nread_seconds = 60\n"
    try:
        with running(folder_of(tmp_path / "served", configuration)) as service, many(service, 1010, *parts):
            for _ in range(20):
                assert service.decide(ranking({"a": 0.9, "b": 0.1}))["reason"] == "decided"
            assert megabytes(service, "VmHWM") < MEBIBYTES
            descriptors = Path(f"/proc/{service.process.pid}/fd")
            eventually(lambda: len(list(descriptors.iterdir())) < 1100)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def alive(connection: socket.socket) -> bool:
    """Whether the service says so on a connection."""
    found = b""
    while not found.endswith(b'{"status":"alive"}') and (more := connection.recv(1000)):
        found += more
    return found.startswith(b"HTTP/1.1 200 ")


def test_where_there_are_too_many_connections_the_slowest_makes_room_and_the_busy_ones_stay(tmp_path: Path) -> None:
    configuration = PLAIN + "[limits]\nconnections = 4\nread_seconds = 60\nretry_seconds = 7\n"
    idle = GET + b"\r\n"
    with running(folder_of(tmp_path / "served", configuration)) as service:
        with many(service, 4, b"GET /hea") as slow:
            assert service.ask("/healthz").status == 200
            assert slow[0].recv(100) == b"", "it was there for longest"
            slow[3].sendall(b"lthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert alive(slow[3])
        eventually(lambda: service.ask("/healthz").status == 200)
        with many(service, 4, idle) as busy:
            assert all(map(alive, busy))
            refused = said(service)
            assert refused.startswith(b"HTTP/1.1 503 ")
            assert b"\r\nretry-after: 7\r\n" in refused
            busy[0].sendall(idle)
            assert alive(busy[0])

"""One JSON request to an HTTP endpoint, within a deadline, by the standard library alone.

http.client follows no redirect and reads no proxy from the environment. Addresses where clouds keep credentials are
refused before a connection is made, however they are written. What an error says: the host, the status, the kind of
failure; never the body or a header.
"""

from __future__ import annotations

import ipaddress
import json
import os
import socket
import ssl
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import Any
from urllib.parse import urlsplit

from camdf.errors import ScorerError

MAX_BYTES = 4_000_000
LATE = "no whole answer in time"
WORTH_ANOTHER_TRY = frozenset({408, 429, 500, 502, 503, 504, 529})
FIRST_PAUSE = 0.5
"""Seconds before the second attempt; each later pause is twice as long, or what Retry-After asks for."""


CREDENTIALS = (*map(ipaddress.ip_network, ("169.254.0.0/16", "fe80::/10", "fd00:ec2::/32")),)
"""Link-local networks, and the one that Amazon keeps for the same purpose."""


ENDPOINT = "http://HOST/... or https://HOST/..., without a user name in it"


def may_be_asked(url: Any) -> bool:
    """Whether a URL is an `ENDPOINT`.

    >>> [may_be_asked(each) for each in ("https://models/v1", "ftp://models", "models/v1", "http://me:secret@models")]
    [True, False, False, False]
    """
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018 - ValueError where it is none
    except (ValueError, TypeError, AttributeError):
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.username is None


class _TryAgainError(Exception):
    """A failure that may pass; `pause` is what the endpoint asks for, if it does."""

    def __init__(self, what: str, pause: float | None = None) -> None:
        super().__init__(what)
        self.pause = pause


def completion(
    url: str,
    model: str,
    messages: Sequence[Mapping[str, str]],
    *,
    schema: tuple[str, Mapping[str, Any]] | None,
    key_variable: str | None,
    options: Mapping[str, Any],
    timeout: float,
    deadline: float,
    retries: int,
) -> str:
    """What a language model answers to some messages, at an endpoint compatible with OpenAI's chat completions.

    `url` ends in /v1. `schema` is the JSON schema of the answer with a name for it, or None. `key_variable` names the
    environment variable that holds the API key. `options` are further fields of the request, where None removes one.
    """
    body: dict[str, Any] = {"model": model, "messages": messages, "temperature": 0}
    if schema is not None:
        name, shape = schema
        body["response_format"] = {
            "type": "json_schema",
            "json_schema": {"name": name, "strict": True, "schema": shape},
        }
    body = {name: value for name, value in {**body, **options}.items() if value is not None}
    place = f"{url.rstrip('/')}/chat/completions"
    answer = post(place, body, _key_header(key_variable), timeout=timeout, deadline=deadline, retries=retries)
    try:
        content = answer["choices"][0]["message"]["content"]
    except (KeyError, IndexError, TypeError):
        raise ScorerError("The endpoint's answer must have choices[0].message.content, and has not.") from None
    if not isinstance(content, str):
        return ""
    return content


def _key_header(variable: str | None) -> dict[str, str]:
    if variable is None:
        return {}
    key = os.environ.get(variable, "").strip()
    if not key or not (key.isascii() and key.isprintable()):
        raise ScorerError(f"The environment variable {variable} must hold an API key, and does not.")
    return {"Authorization": f"Bearer {key}"}


def post(url: str, body: Any, headers: Mapping[str, str], *, timeout: float, deadline: float, retries: int) -> Any:
    """The JSON that the endpoint answers with.

    `timeout` bounds one attempt in seconds: finding the address, the connection, the exchange, however slowly it comes.
    `deadline` is a moment of `time.monotonic()` that bounds all attempts and the pauses between them.
    """
    if not may_be_asked(url):
        raise ScorerError(f"The 'url' must be {ENDPOINT}.")
    where = urlsplit(url).netloc
    content = json.dumps(body).encode()
    pause = FIRST_PAUSE
    failure = ScorerError(f"{where} gave no answer before the deadline.")
    for attempt in range(retries + 1):
        left = deadline - time.monotonic()
        if left <= 0:
            break
        try:
            return _attempt(url, content, headers, min(timeout, left))
        except _TryAgainError as error:
            wait = pause if error.pause is None else error.pause
            attempts = "1 attempt" if attempt == 0 else f"{attempt + 1} attempts"
            failure = ScorerError(f"{where} failed after {attempts}: {error}.")
        if attempt == retries or time.monotonic() + wait >= deadline:
            break
        time.sleep(wait)
        pause *= 2
    raise failure


def _attempt(url: str, content: bytes, headers: Mapping[str, str], seconds: float) -> Any:
    parts = urlsplit(url)
    kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
    assert parts.hostname is not None
    connection = kind(parts.hostname, parts.port, timeout=seconds)
    late = threading.Event()
    timer: threading.Timer | None = None
    ends = time.monotonic() + seconds
    try:
        connection.sock = _connected_socket(parts.netloc, parts.hostname, connection.port, ends)
        if parts.scheme == "https":
            connection.sock = ssl.create_default_context().wrap_socket(
                connection.sock, server_hostname=parts.hostname, do_handshake_on_connect=False
            )
        # A socket's own timeout starts anew with every byte; this one does not.
        timer = threading.Timer(ends - time.monotonic(), _hang_up, (connection.sock, late))
        timer.daemon = True
        timer.start()
        if isinstance(connection.sock, ssl.SSLSocket):
            connection.sock.do_handshake()
        target = parts.path
        if parts.query:
            target += f"?{parts.query}"
        connection.request("POST", target, content, {"Content-Type": "application/json", **headers})
        with connection.getresponse() as response:
            _refuse_status(parts.netloc, response)
            answer = response.read(MAX_BYTES + 1)
    except (OSError, HTTPException) as error:
        if late.is_set() or isinstance(error, TimeoutError):
            raise _TryAgainError(LATE) from None
        raise _TryAgainError(type(error).__name__) from None
    finally:
        if timer is not None:
            timer.cancel()
        connection.close()
    if len(answer) > MAX_BYTES:
        raise ScorerError(f"{parts.netloc} answered with more than {MAX_BYTES} bytes. Check the URL.")
    if late.is_set():
        raise _TryAgainError(LATE)
    try:
        return json.loads(answer)
    except (ValueError, RecursionError):
        raise _TryAgainError("the answer is not JSON") from None


def _connected_socket(where: str, host: str, port: int, ends: float) -> socket.socket:
    """A connection to the first address of a host that takes one, within the time."""
    addresses = _addresses_of(host, port, ends)
    if any(holds_credentials(address[0]) for *_, address in addresses):
        raise ScorerError(f"{where} is an address where clouds keep credentials (link-local), which is never asked.")
    refused: OSError = TimeoutError()
    for family, kind, protocol, _, address in addresses:
        candidate = socket.socket(family, kind, protocol)
        try:
            candidate.settimeout(max(ends - time.monotonic(), 0.001))
            candidate.connect(address)
            return candidate
        except OSError as error:
            refused = error
            candidate.close()
    raise refused


def _addresses_of(host: str, port: int, ends: float) -> list[Any]:
    """The addresses of a host; a name server that hangs costs the time and no more, on a thread of its own."""
    addresses: list[Any] = []
    problems: list[OSError] = []

    def ask() -> None:
        try:
            addresses.extend(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
        except OSError as error:
            problems.append(error)
        except UnicodeError:
            problems.append(OSError("no such name"))

    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    asking.join(max(ends - time.monotonic(), 0.0))
    if problems:
        raise problems[0]
    if not addresses:
        raise TimeoutError
    return addresses


def holds_credentials(address: str) -> bool:
    """Whether clouds keep credentials at an address, however it is written.

    >>> [holds_credentials(each) for each in ("169.254.169.254", "::ffff:169.254.169.254", "127.0.0.1")]
    [True, True, False]
    """
    parsed = ipaddress.ip_address(address.partition("%")[0])
    inside = [parsed]
    if isinstance(parsed, ipaddress.IPv6Address):
        v4 = [parsed.ipv4_mapped, parsed.sixtofour, *(parsed.teredo or ())]
        if parsed in _TRANSLATED:
            v4.append(ipaddress.IPv4Address(int(parsed) & 0xFFFFFFFF))
        inside += [inner for inner in v4 if inner is not None]
    return any(inner in network for inner in inside for network in CREDENTIALS)


_TRANSLATED = ipaddress.ip_network("64:ff9b::/96")
"""IPv4 addresses as a network of IPv6 alone reaches them."""


def _hang_up(connected: socket.socket, late: threading.Event) -> None:
    """End a connection under the thread that waits on it.

    By the plain socket's own method: an SSL socket's would also take away the object that a handshake is using.
    """
    late.set()
    with suppress(OSError):  # gone already
        socket.socket.shutdown(connected, socket.SHUT_RDWR)


def _refuse_status(where: str, response: HTTPResponse) -> None:
    status = response.status
    if status in WORTH_ANOTHER_TRY:
        asked = response.getheader("Retry-After", "")
        pause = float(asked) if asked.isdecimal() else None
        raise _TryAgainError(f"status {status}", pause)
    if 300 <= status < 400:
        raise ScorerError(f"{where} redirects (status {status}), and redirects are not followed. Name the final URL.")
    if status in (401, 403):
        raise ScorerError(f"{where} refuses the key (status {status}). Check the variable that holds it.")
    if status != 200:
        raise ScorerError(
            f"{where} refuses the request (status {status}). Check the URL and the model's name; "
            "structured=False, or --no-schema, leaves the JSON schema out, for endpoints that know none."
        )

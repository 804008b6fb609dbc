"""What one request may be and who may send it: its nesting, the host that it names, and a token."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from hashlib import sha256
from hmac import compare_digest
from ipaddress import ip_address
from itertools import chain
from typing import Any, TypeAlias
from urllib.parse import urlsplit

Headers: TypeAlias = Mapping[bytes, bytes]

ONCE = frozenset((b"authorization", b"content-type", b"host", b"origin", b"x-api-key"))
"""Fields by which a request is let in. Of two, a balancer might read one and the service the other."""


class RefusedError(Exception):
    """A request that gets no answer but this status and these words."""

    def __init__(self, status: int, words: str, headers: Iterable[tuple[bytes, bytes]] = ()) -> None:
        super().__init__(words)
        self.status = status
        self.words = words
        self.headers = list(headers)


class GoneError(Exception):
    """The client went away before it had sent its request."""


def check_depth(value: Any, most: int) -> None:
    """Refuse lists and objects that are nested more deeply than `most`, level by level and without recursion."""
    level = [value]
    depth = 1
    while level:
        if depth > most:
            raise RefusedError(422, f"Lists and objects may be nested {most} deep. Send plainer tools or messages.")
        children = chain.from_iterable(parent.values() if type(parent) is dict else parent for parent in level)
        level = [child for child in children if type(child) is dict or type(child) is list]
        depth += 1


def check_fields(fields: Iterable[tuple[bytes, bytes]]) -> None:
    """Refuse a head in which a field that says who asks, or for what, stands twice."""
    seen = set[bytes]()
    for name, _ in fields:
        if name in seen:
            words = f"The field {name.decode()!r} stands twice in the head, and only one can be meant. Send it once."
            raise RefusedError(400, words)
        if name in ONCE:
            seen.add(name)


def tenant_of(headers: Headers, tokens: Mapping[str, str]) -> str:
    """Whose token a request has. Every known one is compared, in the same time whatever is sent."""
    if not tokens:
        return ""
    given = headers.get(b"authorization") or b"Bearer " + headers.get(b"x-api-key", b"")  # which some gateways send
    scheme, _, token = given.partition(b" ")
    sent = sha256(token.strip()).hexdigest()
    owner = None
    for digest, tenant in tokens.items():
        if compare_digest(sent, digest):
            owner = tenant
    if owner is None or scheme.lower() != b"bearer":
        raise RefusedError(
            401, "Send 'Authorization: Bearer TOKEN' with a token of this service.", [(b"www-authenticate", b"Bearer")]
        )
    return owner


def check_host(headers: Headers, allowed: tuple[str, ...]) -> None:
    """Refuse a request to another host than this machine or an allowed one, and one from a page of another.

    A name that somebody else owns may point here: a browser then takes this service for a part of their site.
    """
    if not may_call(headers.get(b"host", b""), headers.get(b"origin"), allowed):
        raise RefusedError(
            403,
            "Without a token this service answers calls to this machine alone, from its own pages. Call it as "
            "localhost, or name the host in server.allowed_hosts.",
        )


@lru_cache(maxsize=256)
def may_call(host: bytes, origin: bytes | None, allowed: tuple[str, ...]) -> bool:
    """Whether a host, and the origin where there is one, are of this machine or allowed.

    >>> [may_call(host, None, ("here.example",)) for host in (b"localhost:80", b"[::1]", b"here.example", b"x.example")]
    [True, True, True, False]
    """
    urls = [b"//" + host]
    if origin is not None:
        urls.append(origin)
    for url in urls:
        try:
            name = urlsplit(url.decode("ascii")).hostname or ""
        except ValueError:
            return False
        if not is_loopback(name) and name not in {one.lower() for one in allowed}:
            return False
    return True


def is_loopback(host: str) -> bool:
    """Whether a name or an address always means this machine."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False

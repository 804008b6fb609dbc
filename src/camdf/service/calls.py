"""A request whose body is still to be read, and what goes back."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, NamedTuple, TypeAlias, TypeVar

from camdf.errors import needs
from camdf.service.admission import Admission, come_back
from camdf.service.config import LimitSettings
from camdf.service.limits import GoneError, Headers, RefusedError, check_depth, tenant_of
from camdf.service.store import RouteGate, ServedVersion

with needs("serve"):
    import msgspec

T = TypeVar("T")
Receive: TypeAlias = Callable[[], Awaitable[dict[str, Any]]]

JSON = b"application/json"
SHORT = 65_536
"""Bytes of a body that is parsed on the event loop: in less than a millisecond."""

CANDIDATE_BYTES = 32
"""A body counts for a candidate for so many bytes, as long as it is not parsed."""


class HttpAnswer(NamedTuple):
    """What goes back."""

    body: bytes
    status: int = 200
    kind: bytes = JSON
    headers: tuple[tuple[bytes, bytes], ...] = ()

    @classmethod
    def as_json(cls, answer: Any, status: int = 200) -> HttpAnswer:
        """A value as JSON."""
        return cls(msgspec.json.encode(answer), status)


@dataclass(slots=True, eq=False)
class HttpCall:
    """A request, the version that answers it to the end, and what it holds meanwhile."""

    headers: Headers
    receive: Receive
    serving: ServedVersion
    admission: Admission
    tenant: str = ""
    _bytes: int = 0
    _counted: int | None = None

    @property
    def limits(self) -> LimitSettings:
        """What it may be."""
        return self.serving.configuration.limits

    def identify(self) -> None:
        """Know whose token it has, or refuse it."""
        self.tenant = tenant_of(self.headers, self.serving.tokens)

    async def read(self, parse: Callable[[bytes], T]) -> T:
        """What its body says; one that is long is parsed on a thread."""
        body = await self._body()
        if len(body) <= SHORT:
            return parse(body)
        self.enter(len(body) // CANDIDATE_BYTES)
        return await self.run(partial(parse, body))

    async def read_as(self, kind: type[T]) -> T:
        """Its body as a type."""
        return await self.read(partial(parsed_body, kind=kind))

    def check(self, **sent: Sequence[Any]) -> None:
        """Refuse lists of its body that are too long, or nested too deeply."""
        for name, entries in sent.items():
            if len(entries) > self.limits.tools:
                raise RefusedError(422, f"{name!r} may have {self.limits.tools} entries. Got {len(entries)}.")
        check_depth(list(sent.values()), self.limits.depth + 1)

    async def run(self, work: Callable[[], T], seconds: float | None = None) -> T:
        """What some work returns, which is done on a thread."""
        return await self.admission.seats.run(self.tenant, work, self.limits, seconds)

    async def _body(self) -> bytes:
        """All of it, which has to be JSON. One that is too long is read on: most clients only listen then."""
        self.identify()
        kind = self.headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
        if kind != JSON:
            raise RefusedError(415, "The body must be JSON. Send 'Content-Type: application/json'.")
        length = self.headers.get(b"content-length", b"")
        announced = int(length) if length.isdigit() else 0
        self.admission.check(self.tenant, announced // CANDIDATE_BYTES, self.limits)
        most = self.limits.body_bytes
        parts: list[bytes] = []
        size = 0
        more = True
        while more:
            message = await self.receive()
            if message["type"] == "http.disconnect":
                raise GoneError
            part = message["body"]
            more = message["more_body"]
            size += len(part)
            if size <= most:
                self.admission.hold(self.tenant, len(part), self.limits)
                self._bytes += len(part)
                parts.append(part)
            else:
                parts.clear()
        if size > most:
            raise RefusedError(
                413, f"A body may have {most} bytes. Send fewer requests at a time, or raise limits.body_bytes."
            )
        return b"".join(parts)  # of one part, that part itself

    def enter(self, candidates: int) -> None:
        """Be under way, with so many candidates, or be told to come back; the last count holds."""
        self._stop_counting()
        self._counted = self.admission.enter(self.tenant, candidates, self.limits)

    def leave(self) -> None:
        """Hold nothing any more."""
        self._stop_counting()
        self.admission.bytes.give_back(self.tenant, self._bytes)

    def _stop_counting(self) -> None:
        if self._counted is not None:
            self.admission.leave(self.tenant, self._counted)
            self._counted = None


def served_on(call: HttpCall, route: str) -> RouteGate:
    """What decides on a route, for whoever calls."""
    served = call.serving.places.get((call.tenant, route))
    if call.tenant not in call.serving.tenants:
        raise come_back("Your policy or another file of yours cannot be used. GET /v1/policy says why.", call.limits)
    if served is None:
        raise RefusedError(404, "There is no such route in the configuration. GET /v1/policy names them.")
    return served


Handler: TypeAlias = Callable[[HttpCall], Awaitable[HttpAnswer]]
Routes: TypeAlias = dict[str, tuple[str, Handler]]
"""By path: the method that it takes, and what answers."""

_decoder = lru_cache(maxsize=64)(msgspec.json.Decoder)


def parsed_body(body: bytes | msgspec.Raw, kind: type[T], place: str = "$") -> T:
    """A body, or what stands in one at some place, as a type; refused with a word where it is none."""
    try:
        value: T = _decoder(kind).decode(body)  # type: ignore[arg-type]
        return value
    except msgspec.ValidationError as error:
        words = str(error)
        if " - at `$" not in words and place != "$":
            words += " - at `$`"
        raise RefusedError(422, f"{words.replace('`$', f'`{place}', 1)}.") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise RefusedError(400, f"The body is not JSON: {error}.") from None
    except RecursionError:
        raise RefusedError(422, "Lists and objects are nested too deeply.") from None


def check_batch(found: list[T], limits: LimitSettings) -> list[T]:
    """A list of requests that is not too long."""
    if len(found) > limits.batch:
        raise RefusedError(422, f"A list may have {limits.batch} requests. Got {len(found)}.")
    return found

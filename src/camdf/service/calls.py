"""A request whose body is still to be read, and what goes back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, TypeVar

from camdf.errors import needs
from camdf.service.config import LimitSettings
from camdf.service.limits import Receive, RefusedError, body_of, tenant_of
from camdf.service.store import Serving

with needs("serve"):
    import msgspec

T = TypeVar("T")

JSON = b"application/json"


class HttpAnswer(NamedTuple):
    """What goes back."""

    body: bytes
    status: int = 200
    kind: bytes = JSON
    headers: tuple[tuple[bytes, bytes], ...] = ()


class HttpCall(NamedTuple):
    """A request, and the version that answers it to the end."""

    headers: Mapping[bytes, bytes]
    receive: Receive
    serving: Serving

    @property
    def limits(self) -> LimitSettings:
        """What it may be."""
        return self.serving.configuration.limits

    def tenant(self) -> str:
        """Whose token it has."""
        return tenant_of(self.headers, self.serving.tokens)

    async def read(self, decoder: msgspec.json.Decoder[T]) -> T:
        """Its body as a type; refused with a word where it is none."""
        kind = self.headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
        if kind != JSON:
            raise RefusedError(415, "The body must be JSON. Send 'Content-Type: application/json'.")
        body = await body_of(self.receive, self.headers, self.limits)
        try:
            found = decoder.decode(body)
        except msgspec.ValidationError as error:
            raise RefusedError(422, f"{error}.") from None
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise RefusedError(400, f"The body is not JSON: {error}.") from None
        except RecursionError:
            raise RefusedError(422, "Lists and objects are nested too deeply.") from None
        return found

    async def read_several(self, decoder: msgspec.json.Decoder[T | list[T]]) -> tuple[list[T], bool]:
        """Its body as a list of things, and whether it is one: a body may also be a single thing."""
        found: Any = await self.read(decoder)
        if not isinstance(found, list):
            return [found], False
        if len(found) > self.limits.batch:
            raise RefusedError(422, f"A list may have {self.limits.batch} requests. Got {len(found)}.")
        return found, True

"""Who may call a gateway over HTTP: whoever has the token, and of the pages in a browser those of a list."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from hmac import compare_digest
from typing import Any

from camdf.errors import needs

with needs("mcp"):
    from starlette.datastructures import Headers
    from starlette.middleware import Middleware
    from starlette.responses import PlainTextResponse


def guarded(token: str, origins: Sequence[str]) -> dict[str, Any]:
    """For FastMCP: calls by this machine's own names alone, with this token, if any, and from pages of these origins.

    FastMCP itself would take any page of this machine, of whatever port.
    """
    middleware = [Middleware(_Guard, digest=sha256(token.encode()).digest() if token else b"", origins=origins)]
    return {"host_origin_protection": True, "allowed_origins": list(origins), "middleware": middleware}


class _Guard:
    def __init__(self, app: Any, digest: bytes, origins: Sequence[str]) -> None:
        self._app = app
        self._digest = digest
        self._origins = frozenset(origins)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        answer = self._app
        if scope["type"] == "http":
            answer = self._refusal(Headers(scope=scope)) or self._app
        await answer(scope, receive, send)

    def _refusal(self, headers: Headers) -> Any:
        """What a call gets that may not be made; None where it may."""
        if not self._origins.issuperset(headers.getlist("origin")):
            return PlainTextResponse("Start the gateway with --allow-origin for pages that may call it.", 403)
        sent = headers.getlist("authorization")
        only = sent[0] if len(sent) == 1 else ""
        scheme, _, token = only.partition(" ")
        is_known = compare_digest(sha256(token.strip().encode("latin-1")).digest(), self._digest)
        if self._digest and not (is_known and scheme.lower() == "bearer"):
            words = "Send 'Authorization: Bearer TOKEN' with the token of this gateway."
            return PlainTextResponse(words, 401, {"www-authenticate": "Bearer"})
        return None

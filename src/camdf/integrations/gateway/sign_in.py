"""Signing in to servers from the shell, by FastMCP's OAuth client: never in the middle of a call."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from camdf.errors import needs

with needs("mcp"):
    import httpx2
    from fastmcp import Client
    from fastmcp.client.auth.oauth import OAuth
    from key_value.aio.stores import filetree


class NeedsSignInError(Exception):
    """A server wants its user to sign in."""


class _Unsigned(httpx2.Auth):
    """Says that a server wants a sign-in."""

    def auth_flow(self, request: Any) -> Any:
        response = yield request
        if response.status_code == 401:
            raise NeedsSignInError


class _Stored(OAuth):
    """Uses and renews the tokens of a sign-in, and begins no other."""

    async def _perform_authorization(self) -> Any:
        raise NeedsSignInError


def stored_sign_in(url: str, folder: Path) -> Any:
    """The sign-in of a server's URL that a user has done before, or what says that one is needed."""
    own = _folder_of_url(url, folder)
    if not own.is_dir():
        return _Unsigned()
    return _Stored(mcp_url=url, token_storage=_token_store(own))


async def sign_in(url: str, folder: Path) -> int:
    """Let the user sign in with a browser, keep the tokens, and say how many tools the server then lists."""
    own = _folder_of_url(url, folder)
    own.mkdir(mode=0o700, parents=True, exist_ok=True)
    async with Client(url, auth=OAuth(token_storage=_token_store(own), client_name="camdf")) as client:
        return len(await client.list_tools())


def _folder_of_url(url: str, folder: Path) -> Path:
    return folder / hashlib.sha256(url.encode()).hexdigest()[:16]


def _token_store(folder: Path) -> Any:
    return filetree.FileTreeStore(
        data_directory=folder,
        key_sanitization_strategy=filetree.FileTreeV1KeySanitizationStrategy(folder),
        collection_sanitization_strategy=filetree.FileTreeV1CollectionSanitizationStrategy(folder),
    )

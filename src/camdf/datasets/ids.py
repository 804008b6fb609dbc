"""Ids of sessions and users, hashed where they come in.

An id is hashed with a key that the operator holds, so that a file without the key names nobody, and equal ids stay
equal.
"""

from __future__ import annotations

import os
import secrets
import sys
from hashlib import blake2b
from pathlib import Path

from camdf.errors import UsageError
from camdf.runtime.files import locked, write_whole


def id_key(path: Path | None = None) -> bytes:
    """The key in a file, which is made where there is none; by default one of the user's own."""
    place = path or _own_key_file()
    if not place.exists():
        _make_key(place)
    key = place.read_bytes().strip()
    if not 16 <= len(key) <= 64:
        raise UsageError(f"The key in {place} must have 16 to 64 bytes. Got {len(key)}. Name another file: --id-key.")
    return key


def _own_key_file() -> Path:
    settings = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(settings) / "camdf" / "id.key"


def _make_key(place: Path) -> None:
    """Write a key, unless another process has written one meanwhile."""
    place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with locked(place.parent, wait=True):
        if place.exists():
            return
        write_whole(place, f"{secrets.token_hex(32)}\n".encode(), private=True)
    told = f"Made a key for the ids of sessions and users, {place}: keep it, or later days name them otherwise."
    print(told, file=sys.stderr)


def spellings(name: str, key: bytes | None = None) -> tuple[str, ...]:
    """An id as files may have it: as it is, hashed without a key, hashed with one; none of "", which is nobody's."""
    if not name:
        return ()
    keys = [known for known in (b"", key) if known is not None]
    return tuple(dict.fromkeys([name, *(hashed(name, known) for known in keys)]))


def hashed(text: str, key: bytes) -> str:
    """An id as 32 hexadecimal digits that only the key connects with it; "" stays "".

    >>> hashed("ada@example.com", b"a key of 16 bytes")
    '91d91f48066ba058d7a3a12757266a5e'
    """
    if not text:
        return ""
    return blake2b(text.encode(errors="surrogatepass"), key=key, digest_size=16).hexdigest()

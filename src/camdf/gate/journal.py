"""A journal of what was allowed to run: lines that cannot be changed, dropped or put in between without a trace.

Each line has the keyed hash (HMAC-SHA256) of itself and of the line before it. Who has the key can verify a file, and
who has not can neither write a line nor change one. It has names, digests and reasons, and no text that anybody said.
Cut-off lines at the end are found by the number of lines that somebody else has noted, as with any chain.
"""

from __future__ import annotations

import hmac
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from camdf.errors import DataError, UsageError
from camdf.runtime.files import locked

FIRST = "0" * 64
"""What the first line follows."""

TAIL = 65_536
"""In how many bytes of a file's end its last line is looked for."""


class Verified(NamedTuple):
    """What a whole journal shows."""

    lines: int
    last: str
    """The hash of the last line: note it elsewhere, and a shorter file is found out."""


class Journal:
    """Appends to the file `path`, which nobody else may read, under the secret `key` of at least 16 bytes.

    Workers of one machine may share the file.
    """

    def __init__(self, path: str | os.PathLike[str], key: bytes) -> None:
        if not isinstance(key, bytes) or len(key) < 16:
            raise UsageError("The 'key' of Journal must be at least 16 bytes that nobody can guess, as os.urandom(32).")
        self.path = Path(path)
        self._key = key

    def __repr__(self) -> str:
        return f"Journal({str(self.path)!r}, key=...)"

    def write(self, entry: Mapping[str, Any]) -> None:
        """Append an entry; it is on the disk when this returns."""
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        with os.fdopen(descriptor, "r+b", buffering=0) as file, locked(self.path, wait=True):
            body = {**entry, "after": _last_hash(file)}
            file.write(f"{json.dumps({**body, 'hash': self._hash(body)}, sort_keys=True)}\n".encode())
            os.fsync(file.fileno())

    def verify(self) -> Verified:
        """Read the whole file; a DataError names the first line that is not as it was written."""
        last = FIRST
        number = 0
        for number, line in enumerate(self._lines(), 1):
            try:
                entry = json.loads(line)
                claimed = entry.pop("hash")
                whole = entry["after"] == last and hmac.compare_digest(claimed, self._hash(entry))
            except (ValueError, KeyError, TypeError, AttributeError):
                whole = False
            if not whole:
                raise DataError(f"{self.path}: line {number} was changed, or a line before it is missing.")
            last = claimed
        return Verified(number, last)

    def _lines(self) -> Iterator[bytes]:
        with self.path.open("rb") as file:
            yield from file

    def _hash(self, body: Mapping[str, Any]) -> str:
        return hmac.new(self._key, json.dumps(body, sort_keys=True).encode(), "sha256").hexdigest()


def _last_hash(file: Any) -> str:
    """The hash of a file's last line, as it stands there: `verify` says whether it is right."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(size - TAIL, 0))
    lines = file.read().splitlines()
    if not lines:
        return FIRST
    try:
        return str(json.loads(lines[-1])["hash"])
    except (ValueError, KeyError, TypeError):
        return "torn"

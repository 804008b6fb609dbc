"""What the gateway keeps of one client's file: a log of searches and calls, definitions that were seen, its status."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from camdf._files import locked, write_whole
from camdf.datasets.examples import Example

DEFINITIONS, STATUS = "definitions.json", "status.json"

MOST_BYTES, MOST_EXAMPLES = 4_000_000, 1_000
"""A longer log loses its older half, since 20,000 calls say what is used; the search reads so many of its examples."""


def state_home() -> Path:
    """Where gateways keep their folders: `$XDG_STATE_HOME/camdf/mcp`, by default `~/.local/state/camdf/mcp`."""
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "camdf" / "mcp"


class Folder:
    """The folder of one client's file. `learn=False` keeps no log."""

    def __init__(self, path: Path, *, learn: bool = True) -> None:
        self.path, self.learn, self.log = path, learn, path / "log.jsonl"
        self._file, self._size, self._examples = 0, 0, dict[tuple[str, str], Example]()

    @classmethod
    def of(cls, configuration: Path, *, learn: bool = True) -> Folder:
        """The folder of a file, by the file's full path."""
        whole = str(configuration.resolve())
        name = f"{configuration.parent.resolve().name or 'root'}-{hashlib.sha256(whole.encode()).hexdigest()[:8]}"
        return cls(state_home() / name, learn=learn)

    def note(self, event: str, **fields: Any) -> None:
        """Add a line to the log. A disk that is full or read-only costs the line, and never a call."""
        if not self.learn:
            return
        line = json.dumps({"at": datetime.now(UTC).isoformat(timespec="seconds"), "event": event, **fields})
        with suppress(OSError):
            self.make()
            with locked(self.path, wait=True):  # else another gateway's lines go, or it shortens the log again
                with open(self.log, "a", encoding="utf-8") as file:
                    file.write(line + "\n")
                    size = file.tell()
                if size > MOST_BYTES:
                    lines = self.log.read_bytes().splitlines(keepends=True)
                    write_whole(self.log, b"".join(lines[len(lines) // 2 :]))

    def records(self, after: int = 0) -> Iterator[dict[str, Any]]:
        """The lines of the log `after` so many bytes, none where nothing is learned; a broken line is left out."""
        if not self.learn:
            return
        with suppress(FileNotFoundError), open(self.log, "rb") as file:
            file.seek(after)
            for line in file:
                with suppress(ValueError):
                    record = json.loads(line)
                    if isinstance(record, dict) and isinstance(record.get("at"), str):
                        yield record

    def examples(self) -> list[Example]:
        """The last searches that were followed by a call without an error, as examples of the tool that was called.

        Lines that were read before are not read again, unless the log was made shorter since.
        """
        file = size = 0
        with suppress(OSError):
            file, size = (known := self.log.stat()).st_ino, known.st_size
        if self._file != file or self._size > size:
            self._file, self._size, self._examples = file, 0, {}
        for call in self.records(self._size) if size > self._size else ():
            if call.get("event") == "call" and call.get("ok") and call.get("query"):
                query, tool = str(call["query"]), str(call.get("tool"))
                self._examples.setdefault((query, tool), Example(query, (tool,), origin="logged"))
        self._size = size
        self._examples = dict(list(self._examples.items())[-MOST_EXAMPLES:])
        return list(self._examples.values())

    def forget(self, before: date | None = None) -> int:
        """Delete the lines before a day, by default all, and say how many. Definitions and status hold no requests."""
        with suppress(FileNotFoundError), locked(self.path, wait=True):
            records = list(self.records())
            kept = [record for record in records if before is not None and record["at"][:10] >= str(before)]
            if records:
                write_whole(self.log, b"".join(json.dumps(record).encode() + b"\n" for record in kept))
            return len(records) - len(kept)
        return 0

    def read(self, name: str) -> dict[str, Any]:
        """A JSON document of the folder; empty where it is not there or is broken."""
        with suppress(OSError, ValueError):
            return dict(json.loads((self.path / name).read_bytes()))
        return {}

    def write(self, name: str, document: Mapping[str, Any]) -> None:
        """Put a JSON document into the folder, whole."""
        self.make()
        write_whole(self.path / name, json.dumps(document, indent=1, ensure_ascii=False).encode())

    def make(self) -> None:
        """Make the folder, for this user alone, where it is missing."""
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)

"""What the gateway keeps of one client's file: a log of searches and calls, definitions that were seen, its status.

All of it is in one folder of the user's, in files that can be read and deleted. The log holds what was searched for and
which tools were called, and neither arguments nor results.
"""

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

MOST_BYTES = 4_000_000
"""A longer log loses its older half: about 20,000 calls are enough to know what is used."""


def state_home() -> Path:
    """Where gateways keep their folders: `$XDG_STATE_HOME/camdf/mcp`, by default `~/.local/state/camdf/mcp`."""
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "camdf" / "mcp"


class Folder:
    """The folder of one client's file. `learn=False` keeps no log."""

    def __init__(self, path: Path, *, learn: bool = True) -> None:
        self.path, self.learn, self.log = path, learn, path / "log.jsonl"

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
            with open(self.log, "a", encoding="utf-8") as file:
                file.write(line + "\n")
                size = file.tell()
            if size > MOST_BYTES:
                records = list(self.records())
                self._keep(records[len(records) // 2 :])

    def records(self) -> Iterator[dict[str, Any]]:
        """The lines of the log, none where nothing is learned; what somebody broke by hand is left out."""
        if not self.learn:
            return
        with suppress(FileNotFoundError), open(self.log, encoding="utf-8", errors="replace") as file:
            for line in file:
                with suppress(ValueError):
                    record = json.loads(line)
                    if isinstance(record, dict) and isinstance(record.get("at"), str):
                        yield record

    def examples(self) -> list[Example]:
        """Every search that was followed by a call without an error, as an example of the tool that was called."""
        calls = (record for record in self.records() if record.get("event") == "call" and record.get("ok"))
        pairs = dict.fromkeys((str(call["query"]), str(call["tool"])) for call in calls if call.get("query"))
        return [Example(query, (tool,), origin="logged") for query, tool in pairs]

    def forget(self, before: date | None = None) -> int:
        """Delete the lines before a day, by default all, and say how many. Definitions and status hold no requests."""
        records = list(self.records())
        kept = [record for record in records if before is not None and record["at"][:10] >= str(before)]
        if records:
            self._keep(kept)
        return len(records) - len(kept)

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

    def _keep(self, records: list[dict[str, Any]]) -> None:
        with locked(self.path, wait=True):
            write_whole(self.log, "".join(json.dumps(record) + "\n" for record in records).encode())

"""What the gateway keeps of one client's file: a log of searches and calls, definitions that were seen, its status."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from camdf.datasets.examples import Example
from camdf.runtime.files import clear_unfinished, locked, private_opener, write_whole

DEFINITIONS = "definitions.json"
STATUS = "status.json"
FORGOTTEN = "forgotten"

MOST_BYTES = 4_000_000
"""A longer log loses its older half, since 20,000 calls say what is used."""

MOST_EXAMPLES = 1_000
"""The search reads so many of its examples."""

LONGEST_TEXT = 2_000
"""How many characters of a text a line of the log has."""

LONGEST_LINE = 400_000
"""How many bytes a line has at most: a longer one is left out."""


def is_running(process: int) -> bool:
    """Whether there is a process of this number."""
    try:
        os.kill(process, 0)
    except OSError:
        return False
    return True


def state_home() -> Path:
    """Where gateways keep their folders: `$XDG_STATE_HOME/camdf/mcp`, by default `~/.local/state/camdf/mcp`."""
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "camdf" / "mcp"


class Folder:
    """The folder of one client's file. `learn=False` keeps no log."""

    def __init__(self, path: Path, *, learn: bool = True) -> None:
        self.path = path
        self.learn = learn
        self.log = path / "log.jsonl"
        self._file = 0
        self._size = 0
        self._examples: dict[tuple[str, str], Example] = {}

    @classmethod
    def of_client_file(cls, configuration: Path, *, learn: bool = True) -> Folder:
        """The folder of a file, by the file's full path."""
        whole = str(configuration.resolve())
        name = f"{configuration.parent.resolve().name or 'root'}-{hashlib.sha256(whole.encode()).hexdigest()[:8]}"
        return cls(state_home() / name, learn=learn)

    def note(self, event: str, *, searched: str = "", **fields: Any) -> str:
        """Add a line to the log, and say when that was. A disk that is full or read-only costs the line, never a call.

        `searched` is when somebody asked the "query" of this line. A query that was forgotten since is not written.
        """
        now = datetime.now(UTC).isoformat(timespec="seconds")
        if not self.learn:
            return now
        cut = {key: value[:LONGEST_TEXT] if isinstance(value, str) else value for key, value in fields.items()}
        with suppress(OSError):
            self.make()
            with locked(self.path, wait=True):  # else another gateway's lines go, or it shortens the log again
                if searched and searched <= self.forgotten_until():
                    cut.pop("query", None)
                line = json.dumps({"at": now, "event": event, **cut}).encode() + b"\n"
                if len(line) <= LONGEST_LINE:
                    self._append(line)
        return now

    def _append(self, line: bytes) -> None:
        with open(self.log, "ab", opener=private_opener) as file:
            file.write(line)
            size = file.tell()
        if size > MOST_BYTES:
            content = self.log.read_bytes()
            begins = content.index(b"\n", len(content) - MOST_BYTES // 2 - 1) + 1
            write_whole(self.log, content[begins:], private=True)

    def forgotten_until(self) -> str:
        """Until when everything was forgotten; "" where nothing was."""
        with suppress(OSError):
            return (self.path / FORGOTTEN).read_text(encoding="ascii")
        return ""

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
            log = self.log.stat()
            file = log.st_ino
            size = log.st_size
        if self._file != file or self._size > size:
            self._file = file
            self._size = 0
            self._examples = {}
        if size > self._size:
            self._add_examples(self.records(self._size))
        self._size = size
        self._examples = dict(list(self._examples.items())[-MOST_EXAMPLES:])
        return list(self._examples.values())

    def _add_examples(self, records: Iterable[Mapping[str, Any]]) -> None:
        for call in records:
            if call.get("event") == "call" and call.get("ok") and call.get("query"):
                query = str(call["query"])
                tool = str(call.get("tool"))
                self._examples.setdefault((query, tool), Example(query, (tool,), origin="logged"))

    def forget(self, before: date | None = None) -> int:
        """Delete the lines before a day, by default all, and say how many. Definitions and status hold no requests.

        A gateway that runs does not write back what it has in memory of them.
        """
        with suppress(FileNotFoundError), locked(self.path, wait=True):
            now = datetime.now(UTC).isoformat(timespec="seconds")
            until = now if before is None else min(str(before), now)
            write_whole(self.path / FORGOTTEN, max(until, self.forgotten_until()).encode(), private=True)
            records = list(self.records())
            kept = [record for record in records if before is not None and record["at"][:10] >= str(before)]
            if self.log.exists():  # a line that was cut short among others, which is no record
                write_whole(self.log, b"".join(json.dumps(record).encode() + b"\n" for record in kept), private=True)
            clear_unfinished(self.path)  # what killed writers left, also of a log that is gone
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
        written = json.dumps(document, ensure_ascii=False)  # in C, which an indent is not
        write_whole(self.path / name, written.encode(errors="surrogatepass"), private=True)

    def make(self) -> None:
        """Make the folder, for this user alone, where it is missing."""
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)

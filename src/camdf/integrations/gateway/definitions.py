"""Definitions that were accepted: a tool that says something else than before is held back until somebody looks.

The first list of a server is accepted, be it empty. A tool that comes later is new: it can be
found, and is not loaded until it is accepted. One whose definition changed is neither listed, found nor run until it
is. What waits is what the server lists now.

A file that is not there is a beginning. One that cannot be read opens nothing: nothing of any server is accepted until
somebody has reviewed it, and what the file held is kept in a copy.
"""

from __future__ import annotations

import difflib
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple, TypeAlias

from camdf.errors import UsageError
from camdf.integrations.gateway.folder import DEFINITIONS, Folder
from camdf.runtime.files import locked, private_opener, write_whole
from camdf.tools import Tool

Standing: TypeAlias = Literal["accepted", "new", "changed"]

Record: TypeAlias = dict[str, Any]
"""The "digest" and the "definition" of a tool; where it waits, also whether it is "held" back."""

Records: TypeAlias = dict[str, dict[str, Record]]
"""By server and name."""

SEAL = 32
"""Hexadecimal digits of a digest that a review prints. A server writes both definitions, the one that is shown and the
one that it would like to be accepted, so that half as many digits must be too many to try."""

ALL = "all"


class Waiting(NamedTuple):
    """A tool that waits for a review: what is new or different in it, and what accepts it as it is shown."""

    name: str
    diff: str
    seal: str


@dataclass(frozen=True)
class _Document:
    """What the file holds."""

    accepted: Records = field(default_factory=dict)
    pending: Records = field(default_factory=dict)
    copy: str = ""
    """The file that holds what could not be read; then a server's first list is not accepted, but waits."""

    unread: tuple[str, ...] = ()
    """The servers of which nothing was known any more. Nothing of them is found or run before it is accepted."""


class Definitions:
    """The definitions of one folder."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._path = folder.path / DEFINITIONS
        self._known: tuple[tuple[int, ...], _Document] | None = None
        self.problem = ""
        """Why the file cannot be read now, and what to do."""

    def standings(self, server: str, tools: Iterable[Tool]) -> dict[str, Standing]:
        """How each tool of a server stands, by name; what was not accepted is kept for a review.

        An OSError where that cannot be kept.
        """
        shown = {tool.name: _record_of(tool) for tool in tools}
        with self._locked_alone():
            try:
                document = self._read_document()
            except OSError as error:
                self.problem = f"{self._path} cannot be read ({error.strerror}), so all tools are held back. Mend it."
                return dict.fromkeys(shown, "changed")
            judged, standings = _judged_document(document, server, shown)
            self._write_document(judged, document)
            return standings

    def accepted(self, server: str) -> dict[str, Record]:
        """The tools of a server that are accepted, by name; none where something of it waits."""
        with self._locked_alone():
            try:
                document = self._read_document()
            except OSError:
                return {}
        if document.pending.get(server) or server in document.unread or server not in document.accepted:
            return {}
        return document.accepted[server]

    def pending(self) -> list[Waiting]:
        """All tools that wait."""
        with self._locked_alone():
            document = self._read_document()
        return [
            Waiting(f"{server}/{name}", _diff(document.accepted[server].get(name), record), _seal(server, name, record))
            for server, tools in document.pending.items()
            for name, record in tools.items()
        ]

    def accept(self, seals: Iterable[str]) -> int:
        """Accept what waits, each as it was shown, by its seal or by that of all (`seal_of_all`); how many these are.

        A UsageError, and nothing is accepted, where one of them is not what waits now.
        """
        with self._locked_alone():
            document = self._read_document()
            waiting = {
                _seal(server, name, record): (server, name)
                for server, tools in document.pending.items()
                for name, record in tools.items()
            }
            wanted = dict.fromkeys(seals)
            if seal_of_all(waiting) in wanted:
                wanted = dict.fromkeys(waiting)
            if unknown := [seal for seal in wanted if seal not in waiting]:
                raise UsageError(_why_not_accepted(unknown[0], waiting))
            self._write_document(_after_acceptance(document, [waiting[seal] for seal in wanted]), document)
            return len(wanted)

    @property
    def copy(self) -> str:
        """Where a file was put that could not be read; "" where there was none."""
        with self._locked_alone():
            return self._read_document().copy

    def is_changed(self) -> bool:
        """Whether somebody else has written the file: a gateway looks again at its tools where some were accepted."""
        return self._known is None or self._known[0] != self._signature()

    def _signature(self) -> tuple[int, ...]:
        try:
            file = self._path.stat()
        except OSError:
            return ()
        return file.st_ino, file.st_mtime_ns, file.st_size

    @contextmanager
    def _locked_alone(self) -> Iterator[None]:
        """One process and thread at a time. The log has a lock of its own, since calls wait for that one."""
        self._folder.make()
        lock = self._folder.path / f"{DEFINITIONS}.lock"
        with open(lock, "a", opener=private_opener):
            pass
        with locked(lock, wait=True):
            yield

    def _read_document(self) -> _Document:
        """The file, or what was read of it if it is the same still; an OSError where that cannot be said."""
        signature = self._signature()
        if self._known is None or self._known[0] != signature:
            self._known = None
            try:
                content = self._path.read_bytes()
            except FileNotFoundError:
                document = _Document()
            else:
                document = _document_in(content) or self._without(content)
            self._known = signature, document
        self.problem = ""
        return self._known[1]

    def _without(self, content: bytes) -> _Document:
        """A new beginning in the place of a file that is broken, of which a copy is kept."""
        copy = self._path.with_name(f"definitions.broken-{hashlib.sha256(content).hexdigest()[:8]}.json")
        write_whole(copy, content, private=True)
        return _Document(copy=str(copy))

    def _write_document(self, document: _Document, before: _Document) -> None:
        if document != before:
            self._folder.write(DEFINITIONS, vars(document))
            self._known = self._signature(), document


def seal_of_all(seals: Iterable[str]) -> str:
    """What accepts all tools at once, as they were shown."""
    return f"{ALL}@{hashlib.sha256(json.dumps(sorted(seals)).encode()).hexdigest()[:SEAL]}"


def _judged_document(
    document: _Document, server: str, shown: Mapping[str, Record]
) -> tuple[_Document, dict[str, Standing]]:
    """The document after a server's list, and how each of its tools stands."""
    is_first = server not in document.accepted
    if is_first and not document.copy:
        accepted = {**document.accepted, server: dict(shown)}
        return replace(document, accepted=accepted), dict.fromkeys(shown, "accepted")
    is_unread = is_first or server in document.unread
    trusted = document.accepted.get(server, {})
    before = document.pending.get(server, {})
    waiting: dict[str, Record] = {}
    standings: dict[str, Standing] = {}
    for name, record in shown.items():
        if name in trusted and trusted[name]["digest"] == record["digest"]:
            standings[name] = "accepted"
            continue
        first = before.get(name, {**record, "held": False})
        is_held = is_unread or name in trusted or first["held"] or first["digest"] != record["digest"]
        waiting[name] = {**record, "held": is_held}
        standings[name] = "changed" if is_held else "new"
    judged = replace(
        document,
        accepted={**document.accepted, server: trusted},
        pending={**document.pending, server: waiting},
        unread=(*document.unread, server) if is_first else document.unread,
    )
    return judged, standings


def _after_acceptance(document: _Document, tools: Sequence[tuple[str, str]]) -> _Document:
    """The document once these pending tools, by server and name, are accepted."""
    accepted = {server: dict(records) for server, records in document.accepted.items()}
    pending = {server: dict(records) for server, records in document.pending.items()}
    for server, name in tools:
        record = pending[server].pop(name)
        accepted[server][name] = {key: record[key] for key in ("digest", "definition")}
    reviewed = {server for server, _ in tools if not pending[server]}
    unread = tuple(server for server in document.unread if server not in reviewed)
    return replace(document, accepted=accepted, pending=pending, unread=unread)


def _document_in(content: bytes) -> _Document | None:
    """What a file holds; None where it is not what was written here."""
    try:
        read = json.loads(content)
        document = _Document(read["accepted"], read["pending"], read.get("copy", ""), tuple(read.get("unread", ())))
        for records in (document.accepted, document.pending):
            for tools in records.values():
                for record in tools.values():
                    _check_record(record, waits=records is document.pending)
        _ = [document.accepted[server] for server in document.pending]
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None
    return document if isinstance(document.copy, str) else None


def _check_record(record: Record, *, waits: bool) -> None:
    if not isinstance(record["digest"], str) or not isinstance(record["definition"], dict):
        raise TypeError("A record has a text and an object.")
    if waits and not isinstance(record["held"], bool):
        raise TypeError("A record that waits says whether it is held.")


def _record_of(tool: Tool) -> Record:
    definition = {**json.loads(tool.definition()), **json.loads(json.dumps(tool.further(), default=str))}
    return {"digest": tool.digest(), "definition": definition}


def _seal(server: str, name: str, record: Record) -> str:
    return f"{server}/{name}@{record['digest'][:SEAL]}"


def _diff(accepted: Record | None, record: Record) -> str:
    return "\n".join(
        difflib.unified_diff(_definition_lines(accepted), _definition_lines(record), "accepted", "now", lineterm="")
    )


def _definition_lines(record: Record | None) -> list[str]:
    if record is None:
        return []
    return json.dumps(record["definition"], indent=1, ensure_ascii=False).splitlines()


def _why_not_accepted(seal: str, waiting: Iterable[str]) -> str:
    """Why a word of the user accepts nothing."""
    name = seal.partition("@")[0]
    is_known = name == ALL or name in {other.partition("@")[0] for other in waiting}
    if "@" in seal and is_known:
        return f"{name} is not what was shown: it has changed since. See it again: camdf mcp review."
    if is_known:
        return f"--accept takes {name} with the digest that camdf mcp review prints, as {name}@1a2b…. Got {name!r}."
    return f"No tool waits by the name of {name!r}. See those that do: camdf mcp review."

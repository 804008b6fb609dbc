"""Definitions that were accepted: a tool that says something else than before is held back until somebody looks.

What a server lists when it is first connected is accepted. A tool that comes later is new: it can be found, and is not
loaded until it is accepted. One whose definition changed is neither listed, found nor run until it is.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Literal, TypeAlias

from camdf._files import locked
from camdf.gateway.folder import DEFINITIONS, Folder
from camdf.tools import Tool

Standing: TypeAlias = Literal["accepted", "new", "changed"]


class Definitions:
    """The definitions of one folder."""

    def __init__(self, folder: Folder) -> None:
        self._folder, self._path = folder, folder.path / DEFINITIONS

    def standings(self, server: str, tools: Iterable[Tool]) -> dict[str, Standing]:
        """How each tool of a server stands, by name; what was not accepted is kept for a review."""
        shown = {tool.name: _record(tool) for tool in tools}
        with self._document() as (accepted, pending):
            if server not in accepted:
                accepted[server] = shown
                return dict.fromkeys(shown, "accepted")
            trusted, waiting = accepted[server], pending.setdefault(server, {})
            standings: dict[str, Standing] = {}
            for name, record in shown.items():
                before, first = trusted.get(name), waiting.get(name)
                if before and before["digest"] == record["digest"]:
                    standings[name] = "accepted"
                    waiting.pop(name, None)
                    continue
                held = bool(before or (first and (first["held"] or first["digest"] != record["digest"])))
                waiting[name] = {**record, "held": held}
                standings[name] = "changed" if held else "new"
            return standings

    def pending(self) -> dict[str, str]:
        """What is new or different in every tool that waits, by server and name as "mail/send"."""
        told: dict[str, str] = {}
        with self._document() as (accepted, pending):
            for server, name, record in ((s, n, record) for s, tools in pending.items() for n, record in tools.items()):
                old, new = _lines(accepted[server].get(name)), _lines(record)
                told[f"{server}/{name}"] = "\n".join(difflib.unified_diff(old, new, "accepted", "now", lineterm=""))
        return told

    def accept(self, full_names: Iterable[str]) -> None:
        """Accept pending tools as they are now."""
        with self._document() as (accepted, pending):
            for full_name in full_names:
                server, _, name = full_name.partition("/")
                record = pending[server].pop(name)
                accepted[server][name] = {key: record[key] for key in ("digest", "definition")}

    def modified(self) -> int:
        """When the file was last written: a gateway looks again at its tools where somebody accepted some."""
        return self._path.stat().st_mtime_ns if self._path.exists() else 0

    @contextmanager
    def _document(self) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
        """What was accepted and what waits, by server and name; changes are written, by one process at a time."""
        self._folder.make()
        with locked(self._folder.path, wait=True):
            read = self._folder.read(DEFINITIONS)
            parts = read.get("accepted", {}), read.get("pending", {})
            before = json.dumps(parts)
            yield parts
            if json.dumps(parts) != before:
                self._folder.write(DEFINITIONS, dict(zip(("accepted", "pending"), parts, strict=True)))


def _record(tool: Tool) -> dict[str, Any]:
    definition = {**json.loads(tool.definition()), **json.loads(json.dumps(tool.further(), default=str))}
    return {"digest": tool.digest(), "definition": definition}


def _lines(record: dict[str, Any] | None) -> list[str]:
    return [] if record is None else json.dumps(record["definition"], indent=1, ensure_ascii=False).splitlines()

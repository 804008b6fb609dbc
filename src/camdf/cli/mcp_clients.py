"""The gateway in a client's own file, in the place of its servers; and the file back again, byte by byte.

The client's file says whether the gateway is in it. The copy of the file is written before the gateway is put in, and
deleted after it was taken out: whoever is killed in between leaves a copy too many, and never a server that is nowhere.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import os
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from camdf.errors import UsageError
from camdf.integrations.gateway.config import GATEWAY, TABLES, client_json, read_servers
from camdf.integrations.gateway.folder import state_home
from camdf.runtime.files import clear_unfinished, held_bytes, locked, replace_whole, write_whole
from camdf.runtime.visible import visible

CLIENTS = {
    "claude-code": (".mcp.json", "~/.claude.json"),
    "cursor": (".cursor/mcp.json", "~/.cursor/mcp.json"),
    "vscode": (
        ".vscode/mcp.json",
        "~/.config/Code/User/mcp.json",
        "~/Library/Application Support/Code/User/mcp.json",
    ),
}
"""Where clients have their servers: those of this folder, then the user's. The first file that names any is taken."""

Document: TypeAlias = dict[str, Any]

_INPUT = re.compile(r"\$\{(input:[^}]+)\}")


class FileChange(NamedTuple):
    """A client's file as it is shown to its user, as it is to be, and what is true once it is written."""

    path: Path
    before: bytes
    after: bytes
    told: str

    def diff(self) -> str:
        """The lines that change, as a terminal may print them."""
        lines = difflib.unified_diff(
            _editor_lines(self.before), _editor_lines(self.after), str(self.path), str(self.path), lineterm=""
        )
        return "\n".join(map(visible, lines))


class Installation(NamedTuple):
    """The file of a client, and the folder in which the servers that it had are kept."""

    client: str
    path: Path
    kept: Path

    @classmethod
    def found(cls, client: str, folder: Path) -> Installation:
        """The first file of a client that names servers, or whose servers are kept; what a killed run left goes."""
        places = [folder / Path(place).expanduser() for place in CLIENTS[client]]
        for path in places:
            kept = state_home() / "clients" / f"{client}-{hashlib.sha256(str(path).encode()).hexdigest()[:8]}"
            installation = cls(client, path, kept)
            if path.is_file() or kept.is_dir():
                installation._clear_leftovers()
                if installation._has_servers():
                    return installation
        raise UsageError(f"{client} has no servers in {' or '.join(map(str, places))}. Add some there first.")

    @property
    def backup(self) -> Path:
        """The file as it was. The gateway reads its servers from it."""
        return self.kept / "servers.json"

    def to_install(self) -> FileChange:
        """The gateway in the place of the servers that the file has now."""
        before = held_bytes(self.path)
        document = client_json(before, self.path)
        if self._gateway_in(document) is not None:
            raise UsageError(f"The gateway is in {self.path} already. To take it out: camdf mcp uninstall.")
        if missing := self._missing_in(document):
            raise UsageError(
                f"{self.path} lacks servers that the gateway had from it: {visible(', '.join(missing))}. Put them back "
                f"first, with camdf mcp uninstall {self.client}, or delete the copy of them, {self.backup}."
            )
        names = ", ".join(server.name for server in read_servers(self.path))
        told = f"{self.path} now starts the gateway, and the gateway {names}. A copy is in {self.backup}."
        return FileChange(self.path, before, self._with_gateway(before), told)

    def install(self, change: FileChange) -> bool:
        """Keep the file, and write the change; False, and nothing changes, where the file is not the one shown."""
        with self._locked():
            if held_bytes(self.path) != change.before:
                return False
            self.kept.mkdir(mode=0o700, exist_ok=True)
            write_whole(self.backup, change.before, private=True)
            is_written = replace_whole(self.path, change.before, change.after)
            if not is_written:
                self._delete_copy()
            return is_written

    def to_uninstall(self) -> FileChange:
        """The file as it was byte by byte, or where something else in it changed since, with its servers back in it."""
        before = held_bytes(self.path)
        document = client_json(before, self.path)
        entry = self._gateway_in(document)
        if not self.backup.is_file():
            if entry is None:
                raise UsageError(f"The gateway was not put into {self.path} by camdf mcp install. Nothing to take out.")
            raise UsageError(
                f"{self.path} starts the gateway, and the copy of its servers, {self.backup}, is gone. Take the entry "
                f"{GATEWAY!r} out of the file, and add your servers again."
            )
        copy = self.backup.read_bytes()
        is_untouched = entry is not None and document == client_json(self._with_gateway(copy, entry), self.path)
        if is_untouched or before == b"":
            return FileChange(self.path, before, copy, f"{self.path} is as it was.")
        after = _document_bytes(self._with_servers_of(copy, document))
        return FileChange(self.path, before, after, f"{self.path} has its servers back, and what changed in it since.")

    def uninstall(self, change: FileChange) -> bool:
        """Write the change, and delete the copy; False, and nothing changes, where the file is not the one shown."""
        with self._locked():
            is_written = replace_whole(self.path, change.before, change.after)
            if is_written:
                self._delete_copy()
            return is_written

    def _clear_leftovers(self) -> None:
        """Delete what killed runs left: unfinished files, and a copy of servers that the file has anyway."""
        with self._locked():
            clear_unfinished(*os.path.split(os.path.realpath(self.path)))
            clear_unfinished(self.kept)
            document = client_json(held_bytes(self.path), self.path)
            if self._gateway_in(document) is None and not self._missing_in(document):
                self._delete_copy()

    def _has_servers(self) -> bool:
        levels = _places_of_servers(client_json(held_bytes(self.path), self.path))
        return self.backup.is_file() or any(any(_server_tables(level).values()) for level in levels.values())

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """One process at a time changes clients' files."""
        self.kept.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with locked(self.kept.parent, wait=True):
            yield

    def _delete_copy(self) -> None:
        self.backup.unlink(missing_ok=True)
        with suppress(OSError):  # there is something else in it
            self.kept.rmdir()

    def _gateway_in(self, document: Document) -> Document | None:
        """The entry by which a file starts the gateway in the place of the servers that are kept; None without one."""
        entries = (entry for table in _server_tables(document).values() for entry in table.values())
        return next((entry for entry in entries if self._starts_gateway(entry)), None)

    def _starts_gateway(self, entry: object) -> bool:
        if not isinstance(entry, dict) or not isinstance(entry.get("args"), list):
            return False
        return str(self.backup) in entry["args"]

    def _missing_in(self, document: Document) -> list[str]:
        """The servers of the copy that a file does not have."""
        if not self.backup.is_file():
            return []
        levels = _places_of_servers(document)
        return [
            server
            for place, old_level in _places_of_servers(client_json(self.backup.read_bytes(), self.backup)).items()
            for name, table in _server_tables(old_level).items()
            for server in table
            if server not in _server_tables(levels.get(place, {})).get(name, {})
        ]

    def _with_gateway(self, content: bytes, entry: Document | None = None) -> bytes:
        """The gateway in the place of all servers, those that Claude Code has for single projects among them."""
        document = client_json(content, self.path)
        tables = [table for level in _places_of_servers(document).values() for table in _server_tables(level).values()]
        inputs = dict.fromkeys(_INPUT.findall(json.dumps(tables)))
        for table in tables:
            table.clear()
        name = next((name for name in TABLES if name in document), TABLES[0])
        gateway = _table_at(document, name)
        gateway[GATEWAY] = entry or _gateway_entry(self.backup, inputs, typed=name == "servers")
        return _document_bytes(document)

    def _with_servers_of(self, copy: bytes, document: Document) -> Document:
        """A file that changed since, without the gateway, and with every server that it had and does not have now."""
        for place, old_level in _places_of_servers(client_json(copy, self.backup)).items():
            if place is None:
                level = document
            elif any(_server_tables(old_level).values()):
                level = _table_at(_table_at(document, "projects"), place)
            else:
                continue
            for name in TABLES:
                now = _server_tables(level).get(name, {})
                since = {key: entry for key, entry in now.items() if not self._starts_gateway(entry)}
                old = _server_tables(old_level).get(name, {})
                if since or name in old_level:
                    level[name] = {**old, **since}
                elif name in level:
                    del level[name]
        return document


def _editor_lines(content: bytes) -> list[str]:
    """What an editor shows as lines; no raw tab stands in a text of JSON."""
    return content.decode(errors="replace").replace("\r\n", "\n").expandtabs(4).split("\n")


def _document_bytes(document: Document) -> bytes:
    return (json.dumps(document, indent=2, ensure_ascii=False) + "\n").encode()


def _places_of_servers(document: Document) -> dict[str | None, Document]:
    """Where a file may have servers: its top (None), and what Claude Code keeps of single projects, by folder."""
    places: dict[str | None, Document] = {None: document}
    projects = document.get("projects")
    if isinstance(projects, dict):
        places.update((place, project) for place, project in projects.items() if isinstance(project, dict))
    return places


def _server_tables(level: Document) -> dict[str, Document]:
    """The tables of servers that stand there, by what clients call them."""
    return {name: level[name] for name in TABLES if isinstance(level.get(name), dict)}


def _table_at(document: Document, name: str) -> Document:
    """The table of this name, which is made where there is none."""
    if not isinstance(document.get(name), dict):
        document[name] = {}
    table: Document = document[name]
    return table


def _gateway_entry(servers: Path, inputs: Iterable[str], *, typed: bool) -> dict[str, Any]:
    """How a client starts the gateway: by uv where uv started this, else by this Python.

    What VS Code asks its user for (`inputs`) reaches the gateway's servers by the gateway's environment.
    """
    started = [sys.executable, "-m", "camdf", "mcp"]
    if "uv" in Path(sys.prefix).parts:
        started = ["uvx", "--from", "camdf[mcp]", "camdf", "mcp"]
    command, *arguments = started
    entry: dict[str, Any] = {"type": "stdio"} if typed else {}
    entry |= {"command": command, "args": [*arguments, str(servers)]}
    if inputs:
        entry["env"] = {name: f"${{{name}}}" for name in inputs}
    return entry

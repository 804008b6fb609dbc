"""The gateway in a client's own file, in the place of its servers."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from camdf.cli.client_file import Document, document_bytes, kept_folder
from camdf.cli.mcp_codex import TomlServers
from camdf.cli.servers_file import ServersFile, own_place
from camdf.errors import UsageError
from camdf.integrations.gateway.config import GATEWAY, TABLES, client_json
from camdf.runtime.files import held_bytes

CLIENTS = {
    "claude-code": (".mcp.json", "~/.claude.json"),
    "claude-desktop": (
        "~/Library/Application Support/Claude/claude_desktop_config.json",
        "~/AppData/Roaming/Claude/claude_desktop_config.json",
        "~/.config/Claude/claude_desktop_config.json",
    ),
    "codex": ("~/.codex/config.toml",),
    "cursor": (".cursor/mcp.json", "~/.cursor/mcp.json"),
    "vscode": (
        ".vscode/mcp.json",
        "~/.config/Code/User/mcp.json",
        "~/Library/Application Support/Code/User/mcp.json",
    ),
}
"""Where clients have their servers: those of this folder, then the user's. The first file that names any is taken."""

CODEX_HOME = "CODEX_HOME"
"""The environment variable with another place than ~/.codex."""

_INPUT = re.compile(r"\$\{(input:[^}]+)\}")


def places_of(client: str) -> list[Path]:
    """Where a client has its servers."""
    if client == "codex" and os.environ.get(CODEX_HOME):
        return [Path(os.environ[CODEX_HOME], "config.toml")]
    return [Path(place).expanduser() for place in CLIENTS[client]]


class JsonServers(ServersFile):
    """Servers in JSON, as most clients have them."""

    def has_servers(self) -> bool:
        levels = _places_of_servers(client_json(held_bytes(self.path), self.path))
        return self.backup.is_file() or any(any(_server_tables(level).values()) for level in levels.values())

    def entry_in(self, content: bytes) -> Document | None:
        document = client_json(content, self.path)
        entries = (entry for table in _server_tables(document).values() for entry in table.values())
        return next((entry for entry in entries if self.starts_gateway(entry)), None)

    def missing_in(self, content: bytes) -> list[str]:
        """The servers of the copy that a file does not have."""
        if not self.backup.is_file():
            return []
        levels = _places_of_servers(client_json(content, self.path))
        return [
            server
            for place, old_level in _places_of_servers(client_json(self.backup.read_bytes(), self.backup)).items()
            for name, table in _server_tables(old_level).items()
            for server in table
            if server not in _server_tables(levels.get(place, {})).get(name, {})
        ]

    def is_untouched(self, copy: bytes, content: bytes) -> bool:
        written = self._with_entry(copy, self.entry_in(content))
        return client_json(content, self.path) == client_json(written, self.path)

    def with_ours(self, content: bytes) -> bytes:
        return self._with_entry(content, None)

    def _with_entry(self, content: bytes, entry: Document | None) -> bytes:
        """The gateway in the place of all servers, those that Claude Code has for single projects among them."""
        document = client_json(content, self.path)
        tables = [table for level in _places_of_servers(document).values() for table in _server_tables(level).values()]
        inputs = dict.fromkeys(_INPUT.findall(json.dumps(tables)))
        for table in tables:
            table.clear()
        name = next((name for name in TABLES if name in document), TABLES[0])
        gateway = _table_at(document, name)
        gateway[GATEWAY] = entry or self._gateway_entry(inputs, typed=name == "servers")
        return document_bytes(document)

    def _gateway_entry(self, inputs: Iterable[str], *, typed: bool) -> dict[str, Any]:
        """How a client starts the gateway.

        What VS Code asks its user for (`inputs`) reaches the gateway's servers by the gateway's environment. Some
        clients pass few variables on, so the place of what the gateway keeps is named where it is not the usual one.
        """
        command, *arguments = self.command()
        entry: dict[str, Any] = {"type": "stdio"} if typed else {}
        entry |= {"command": command, "args": arguments}
        variables = {name: f"${{{name}}}" for name in inputs} | own_place()
        if variables:
            entry["env"] = variables
        return entry

    def without_ours(self, copy: bytes, content: bytes) -> bytes:
        document = client_json(content, self.path)
        for place, old_level in _places_of_servers(client_json(copy, self.backup)).items():
            if place is None:
                level = document
            elif any(_server_tables(old_level).values()):
                level = _table_at(_table_at(document, "projects"), place)
            else:
                continue
            for name in TABLES:
                now = _server_tables(level).get(name, {})
                since = {key: entry for key, entry in now.items() if not self.starts_gateway(entry)}
                old = _server_tables(old_level).get(name, {})
                if since or name in old_level:
                    level[name] = {**old, **since}
                elif name in level:
                    del level[name]
        return document_bytes(document)


def found_installation(client: str, folder: Path, note: int = 0) -> ServersFile:
    """The first file of a client that names servers, or whose servers are kept; what a killed run left goes."""
    places = [folder / place for place in places_of(client)]
    for path in places:
        kind = TomlServers if path.suffix == ".toml" else JsonServers
        installation: ServersFile = kind(client, path, kept_folder(client, path), note)
        if path.is_file() or installation.kept.is_dir():
            installation.clear_leftovers()
            if installation.has_servers():
                return installation
    raise UsageError(f"{client} has no servers in {' or '.join(map(str, places))}. Add some there first.")


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

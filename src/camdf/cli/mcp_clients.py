"""The gateway in a client's own file, in the place of its servers; and the file back again, byte by byte."""

from __future__ import annotations

import difflib
import hashlib
import json
import os
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from camdf._files import write_whole
from camdf.errors import UsageError
from camdf.gateway.config import GATEWAY, TABLES, read_json, read_servers
from camdf.gateway.folder import state_home

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

_INPUT = re.compile(r"\$\{(input:[^}]+)\}")


class Installation(NamedTuple):
    """The file of a client, and where the servers that it had are kept."""

    path: Path
    kept: Path

    @classmethod
    def of(cls, client: str, folder: Path) -> Installation:
        """The first file of a client that is there."""
        places = [folder / Path(place).expanduser() for place in CLIENTS[client]]
        for path in places:
            kept = state_home() / "clients" / f"{client}-{hashlib.sha256(str(path).encode()).hexdigest()[:8]}"
            if path.is_file() and (kept.is_dir() or any(_tables(read_json(path)))):
                return cls(path, kept)
        raise UsageError(f"{client} has no servers in {' or '.join(map(str, places))}. Add some there first.")

    @property
    def backup(self) -> Path:
        """The file as it was. The gateway reads its servers from it."""
        return self.kept / "servers.json"

    def diff(self) -> str:
        """What `install` would change."""
        if self.backup.is_file():
            raise UsageError(f"The gateway is in {self.path} already. To take it out: camdf mcp uninstall.")
        return self._compared(self.path.read_bytes(), self._with_gateway())

    def install(self) -> str:
        """Keep the file, and put the gateway in the place of its servers."""
        names = [server.name for server in read_servers(self.path)]
        new = self._with_gateway()
        self.kept.mkdir(mode=0o700, parents=True)
        write_whole(self.backup, self.path.read_bytes())
        write_whole(self.kept / "written.json", new)
        os.chmod(self.backup, 0o600)  # it may hold keys
        write_whole(self.path, new)
        return f"{self.path} now starts the gateway, and the gateway {', '.join(names)}. A copy is in {self.backup}."

    def diff_back(self) -> str:
        """What `uninstall` would change."""
        if not self.backup.is_file():
            raise UsageError(f"The gateway was not put into {self.path} by camdf mcp install. Nothing to take out.")
        return self._compared(self.path.read_bytes(), self._without_gateway())

    def uninstall(self) -> str:
        """Put the file back: byte by byte, or where something else in it changed since, its servers alone."""
        write_whole(self.path, self._without_gateway())
        for file in (self.backup, self.kept / "written.json"):
            file.unlink()
        self.kept.rmdir()
        return f"{self.path} is as it was."

    def _with_gateway(self) -> bytes:
        """The gateway in the place of all servers, those that Claude Code has for single projects among them."""
        document = read_json(self.path)
        inputs = dict.fromkeys(_INPUT.findall(json.dumps(_tables(document))))
        for table in _tables(document):
            table.clear()
        name = next((name for name in TABLES if name in document), TABLES[0])
        document.setdefault(name, {})[GATEWAY] = _entry(self.backup, inputs, typed=name == "servers")
        return _written(document)

    def _without_gateway(self) -> bytes:
        now, before = self.path.read_bytes(), self.backup.read_bytes()
        if now == (self.kept / "written.json").read_bytes():
            return before
        document, old = read_json(self.path), read_json(self.backup)
        for level, old_level in [(document, old), *_projects(document, old)]:
            for name in TABLES:
                since = {key: entry for key, entry in level.get(name, {}).items() if key != GATEWAY}
                if since or name in old_level:
                    level[name] = {**old_level.get(name, {}), **since}
                else:
                    level.pop(name, None)
        return _written(document)

    def _compared(self, before: bytes, after: bytes) -> str:
        old, new = (text.decode(errors="replace").splitlines() for text in (before, after))
        return "\n".join(difflib.unified_diff(old, new, str(self.path), str(self.path), lineterm=""))


def _written(document: dict[str, Any]) -> bytes:
    return (json.dumps(document, indent=2, ensure_ascii=False) + "\n").encode()


def _tables(document: dict[str, Any]) -> list[dict[str, Any]]:
    """The tables of servers in a file that hold any: of the user or folder, and of single projects."""
    levels = [document, *(project for project, _ in _projects(document, document))]
    return [level[name] for level in levels for name in TABLES if isinstance(level.get(name), dict) and level[name]]


def _projects(document: dict[str, Any], old: dict[str, Any]) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """What Claude Code keeps of single projects, beside what it kept of them before."""
    now, before = (kept if isinstance(kept := file.get("projects"), dict) else {} for file in (document, old))
    return [(now[path], before[path]) for path in before if isinstance(now.get(path), dict)]


def _entry(servers: Path, inputs: Iterable[str], *, typed: bool) -> dict[str, Any]:
    """How a client starts the gateway: by uv where uv started this, else by this Python.

    What VS Code asks its user for (`inputs`) reaches the gateway's servers by the gateway's environment.
    """
    by_uv = ["uvx", "--from", "camdf[mcp]", "camdf", "mcp"]
    command, *arguments = by_uv if "uv" in Path(sys.prefix).parts else [sys.executable, "-m", "camdf", "mcp"]
    entry: dict[str, Any] = {"type": "stdio"} if typed else {}
    entry |= {"command": command, "args": [*arguments, str(servers)]}
    return {**entry, "env": {name: f"${{{name}}}" for name in inputs}} if inputs else entry

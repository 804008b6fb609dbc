"""The gateway in a client's own file, in the place of its servers; and the file back again, byte by byte."""

from __future__ import annotations

import difflib
import hashlib
import json
import os
import sys
from pathlib import Path
from typing import Any, NamedTuple

from camdf._files import write_whole
from camdf.errors import UsageError
from camdf.gateway.config import GATEWAY, TABLES, read_json, read_servers
from camdf.gateway.folder import state_home

CLIENTS = {
    "claude-code": (".mcp.json", "~/.claude.json"),
    "cursor": (".cursor/mcp.json", "~/.cursor/mcp.json"),
    "vscode": (".vscode/mcp.json",),
}
"""Where clients have their servers: those of this folder, then the user's. The first file that names any is taken."""


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
            if path.is_file() and (kept.is_dir() or any(read_json(path).get(table) for table in TABLES)):
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
        document = read_json(self.path)
        table = next(name for name in TABLES if document.get(name))
        return _written({**document, table: {GATEWAY: self._entry(table)}})

    def _without_gateway(self) -> bytes:
        now, before = self.path.read_bytes(), self.backup.read_bytes()
        if now == (self.kept / "written.json").read_bytes():
            return before
        document, old = read_json(self.path), read_json(self.backup)
        table = next(name for name in TABLES if old.get(name))
        since = {name: entry for name, entry in document.get(table, {}).items() if name != GATEWAY}
        return _written({**document, table: {**old[table], **since}})

    def _entry(self, table: str) -> dict[str, Any]:
        """How a client starts the gateway: by uv where uv started this, else by this Python."""
        by_uv = ["uvx", "--from", "camdf[mcp]", "camdf", "mcp"]
        command, *arguments = by_uv if "uv" in Path(sys.prefix).parts else [sys.executable, "-m", "camdf", "mcp"]
        entry = {"command": command, "args": [*arguments, str(self.backup)]}
        return {"type": "stdio", **entry} if table == "servers" else entry

    def _compared(self, before: bytes, after: bytes) -> str:
        old, new = (text.decode(errors="replace").splitlines() for text in (before, after))
        return "\n".join(difflib.unified_diff(old, new, str(self.path), str(self.path), lineterm=""))


def _written(document: dict[str, Any]) -> bytes:
    return (json.dumps(document, indent=2, ensure_ascii=False) + "\n").encode()

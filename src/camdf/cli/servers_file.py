"""A file with a client's servers, and the gateway in their place: what is common to JSON and TOML."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from camdf.cli.client_file import ClientFile, Document
from camdf.integrations.gateway.config import read_servers
from camdf.runtime.files import held_bytes

HOOK = "--hook"
"""The option with which a gateway hears of prompts."""

STATE_HOME = "XDG_STATE_HOME"


class ServersFile(ClientFile):
    """A file with a client's servers, and the gateway in their place. The gateway reads them from the copy.

    A `note` of so many characters joins prompts, for a client that has the hook; 0 without one.
    """

    def __init__(self, client: str, path: Path, kept: Path, note: int = 0) -> None:
        super().__init__(client, path, kept)
        self.note = note

    def told_of(self, change: str) -> str:
        if change == "installed":
            names = ", ".join(server.name for server in read_servers(self.path))
            return f"{self.path} now starts the gateway, and the gateway {names}. A copy is in {self.backup}."
        if change == "restored":
            return f"{self.path} is as it was."
        return f"{self.path} has its servers back, and what changed in it since."

    def has_servers(self) -> bool:
        """Whether the file names servers, or those that it named are kept."""
        raise NotImplementedError

    def entry_in(self, content: bytes) -> Document | None:
        """The entry by which a file starts the gateway in the place of the servers that are kept; None without one."""
        raise NotImplementedError

    def is_in(self, content: bytes) -> bool:
        return self.entry_in(content) is not None

    def takes_prompts(self) -> bool:
        """Whether the gateway that the file starts hears of prompts."""
        return HOOK in (self.entry_in(held_bytes(self.path)) or {}).get("args", ())

    def starts_gateway(self, entry: object) -> bool:
        """Whether an entry starts the gateway to the servers that are kept."""
        if not isinstance(entry, dict) or not isinstance(entry.get("args"), list):
            return False
        return str(self.backup) in entry["args"]

    def command(self) -> list[str]:
        """What starts the gateway: uv where uv started this, else this Python."""
        started = [sys.executable, "-m", "camdf", "mcp"]
        if "uv" in Path(sys.prefix).parts:
            started = ["uvx", "--from", "camdf[mcp]", "camdf", "mcp"]
        hook = [HOOK, str(self.note)] if self.note else []
        return [*started, *hook, str(self.backup)]


def own_place() -> dict[str, str]:
    """The variable that says where gateways keep their folders, where it is set."""
    place = os.environ.get(STATE_HOME)
    return {STATE_HOME: place} if place else {}

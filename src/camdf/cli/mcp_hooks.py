"""The hook on a prompt in the settings of Claude Code or Codex, which write it alike, and the program that it runs."""

from __future__ import annotations

import shlex
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from camdf.cli.client_file import ClientFile, Document, FileChange, document_bytes
from camdf.cli.servers_file import ServersFile
from camdf.errors import UsageError
from camdf.integrations.gateway import prompt_hook
from camdf.integrations.gateway.config import client_json
from camdf.integrations.gateway.folder import Folder
from camdf.runtime.files import held_bytes, write_whole

EVENT = "UserPromptSubmit"

SECONDS = 5
"""When a client ends the hook, which ends by itself much sooner."""

SETTINGS = {
    ("claude-code", ".mcp.json"): ".claude/settings.local.json",
    ("claude-code", ".claude.json"): ".claude/settings.json",
    ("codex", "config.toml"): "hooks.json",
}
"""Where the hook goes, by the client and its file of servers: into a file of its folder that is not shared."""

PROGRAM = "prompt_hook.py"

TRUST = (
    "Codex runs a hook once you have trusted it, and leaves it out without a word until then: start codex, and it asks "
    "to review the hook, or type /hooks. Where the hook changes, Codex asks again. For codex exec in automation there "
    "is --dangerously-bypass-hook-trust."
)


class HookFile(ClientFile):
    """A file with a client's hooks, and ours among them."""

    what = "The hook"
    copy_name = "hooks.json"

    def __init__(self, servers: ServersFile) -> None:
        settings = SETTINGS.get((servers.client, servers.path.name))
        if settings is None:
            clients = " and ".join(dict.fromkeys(client for client, _ in SETTINGS))
            raise UsageError(f"--hook must be for a client with hooks on prompts: {clients}. Got {servers.client}.")
        if sys.platform == "win32":
            raise UsageError("--hook needs local sockets, which Python does not have on Windows. Leave it out there.")
        super().__init__(servers.client, servers.path.parent / settings, servers.kept)
        self.folder = Folder.of_client_file(servers.backup).path

    @property
    def program(self) -> Path:
        """The program that the hook runs, beside the copies: an environment of uv's may be gone tomorrow."""
        return self.kept / PROGRAM

    @property
    def is_installed(self) -> bool:
        """Whether it is, or was begun."""
        return self.backup.is_file() or self.program.is_file() or self.is_in(held_bytes(self.path))

    def told_of(self, change: str) -> str:
        if change == "installed":
            told = f"{self.path} now has the hook, which runs {self.program} on every prompt."
            if self.client == "codex":
                return f"{told} {TRUST}"
            return told
        if change == "restored":
            return f"{self.path} is as it was."
        return f"{self.path} has no hook of camdf, and what changed in it since."

    def command(self) -> str:
        """What a client runs: the plain Python below this environment, without any package."""
        python = str(Path(sys.executable).resolve())
        return shlex.join([python, "-I", "-S", str(self.program), str(self.folder)])

    def is_in(self, content: bytes) -> bool:
        return any(map(self._is_own, _groups(client_json(content, self.path))))

    def with_ours(self, content: bytes) -> bytes:
        document = client_json(content, self.path)
        hooks = document.setdefault("hooks", {})
        groups = hooks.setdefault(EVENT, []) if isinstance(hooks, dict) else None
        if not isinstance(groups, list):
            raise UsageError(f"{self.path} must have its hooks in lists by event, as {EVENT}. Mend it.")
        groups.append({"hooks": [{"type": "command", "command": self.command(), "timeout": SECONDS}]})
        return document_bytes(document)

    def is_untouched(self, copy: bytes, content: bytes) -> bool:
        return client_json(content, self.path) == client_json(self.with_ours(copy), self.path)

    def without_ours(self, copy: bytes, content: bytes) -> bytes:
        document = client_json(content, self.path)
        before = client_json(copy, self.backup)
        others = [group for group in _groups(document) if not self._is_own(group)]
        hooks = document.get("hooks")
        if isinstance(hooks, dict) and EVENT in hooks:
            hooks[EVENT] = others
            if not others and EVENT not in (before.get("hooks") or {}):
                del hooks[EVENT]
            if not hooks and "hooks" not in before:
                del document["hooks"]
        return document_bytes(document)

    def install(self, change: FileChange) -> bool:
        """The program first, so that no client ever runs one that is not there."""
        self.kept.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(self.program, Path(prompt_hook.__file__).read_bytes(), private=True)
        return super().install(change)

    def delete_copy(self) -> None:
        """A file that holds nothing now, and was not there before, goes with its copy."""
        if self.backup.is_file() and self.backup.read_bytes() == held_bytes(self.path) == b"":
            self.path.unlink(missing_ok=True)
            with suppress(OSError):  # there is something else in it
                self.path.parent.rmdir()
        self.program.unlink(missing_ok=True)
        super().delete_copy()

    def _is_own(self, group: Any) -> bool:
        handlers = group.get("hooks") if isinstance(group, dict) else None
        if not isinstance(handlers, list):
            return False
        return any(
            isinstance(handler, dict) and str(self.program) in str(handler.get("command")) for handler in handlers
        )


def _groups(document: Document) -> list[Any]:
    """What a file has for prompts."""
    hooks = document.get("hooks")
    groups = hooks.get(EVENT) if isinstance(hooks, dict) else None
    return groups if isinstance(groups, list) else []

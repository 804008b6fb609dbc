"""A file of a client into which something of ours is put; and the file back again, byte by byte.

The client's file says whether ours is in it. The copy of the file is written before ours is put in, and deleted after
it was taken out: whoever is killed in between leaves a copy too many, and never a server that is nowhere.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import os
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from camdf.errors import UsageError
from camdf.integrations.gateway.folder import state_home
from camdf.runtime.files import clear_unfinished, held_bytes, locked, replace_whole, write_whole
from camdf.runtime.visible import visible

Document: TypeAlias = dict[str, Any]


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


def _editor_lines(content: bytes) -> list[str]:
    """What an editor shows as lines; no raw tab stands in a text of JSON."""
    return content.decode(errors="replace").replace("\r\n", "\n").expandtabs(4).split("\n")


def document_bytes(document: Document) -> bytes:
    """A document as it is written into a file."""
    return (json.dumps(document, indent=2, ensure_ascii=False) + "\n").encode()


def kept_folder(client: str, path: Path) -> Path:
    """Where is kept what a client's file was."""
    return state_home() / "clients" / f"{client}-{hashlib.sha256(str(path).encode()).hexdigest()[:8]}"


class ClientFile(ABC):
    """A file of a client, and the folder in which its copy is kept."""

    what = "The gateway"
    """What is put into the file, in words."""

    copy_name = "servers.json"

    def __init__(self, client: str, path: Path, kept: Path) -> None:
        self.client = client
        self.path = path
        self.kept = kept

    @property
    def backup(self) -> Path:
        """The file as it was."""
        return self.kept / self.copy_name

    @abstractmethod
    def is_in(self, content: bytes) -> bool:
        """Whether ours is in a file that holds this."""

    @abstractmethod
    def with_ours(self, content: bytes) -> bytes:
        """The content with ours in it."""

    @abstractmethod
    def without_ours(self, copy: bytes, content: bytes) -> bytes:
        """The content of a file that changed since, without ours, and with all that it had and does not have now."""

    @abstractmethod
    def is_untouched(self, copy: bytes, content: bytes) -> bool:
        """Whether a file holds what was written there when it was the copy."""

    def missing_in(self, content: bytes) -> list[str]:
        """What of the copy is lost if the copy is."""
        return []

    @abstractmethod
    def told_of(self, change: str) -> str:
        """What is true once the file has been changed: "installed", "restored" or "taken out"."""

    def to_install(self) -> FileChange:
        """Ours in the file that is there now."""
        before = held_bytes(self.path)
        if self.is_in(before):
            raise UsageError(f"{self.what} is in {self.path} already. To take it out: camdf mcp uninstall.")
        if missing := self.missing_in(before):
            raise UsageError(
                f"{self.path} lacks servers that the gateway had from it: {visible(', '.join(missing))}. Put them back "
                f"first, with camdf mcp uninstall {self.client}, or delete the copy of them, {self.backup}."
            )
        return FileChange(self.path, before, self.with_ours(before), self.told_of("installed"))

    def install(self, change: FileChange) -> bool:
        """Keep the file, and write the change; False, and nothing changes, where the file is not the one shown."""
        with self._locked():
            if held_bytes(self.path) != change.before:
                return False
            self.kept.mkdir(mode=0o700, exist_ok=True)
            write_whole(self.backup, change.before, private=True)
            is_written = replace_whole(self.path, change.before, change.after)
            if not is_written:
                self.delete_copy()
            return is_written

    def to_uninstall(self) -> FileChange:
        """The file as it was byte by byte, or where something else in it changed since, with its own back in it."""
        before = held_bytes(self.path)
        if not self.backup.is_file():
            if not self.is_in(before):
                raise UsageError(f"{self.what} was not put into {self.path} by camdf mcp install. Nothing to take out.")
            raise UsageError(
                f"{self.what} is in {self.path}, and the copy of the file, {self.backup}, is gone. Take the entry "
                "out of the file, and add what it had again."
            )
        copy = self.backup.read_bytes()
        if before == b"" or (self.is_in(before) and self.is_untouched(copy, before)):
            return FileChange(self.path, before, copy, self.told_of("restored"))
        return FileChange(self.path, before, self.without_ours(copy, before), self.told_of("taken out"))

    def uninstall(self, change: FileChange) -> bool:
        """Write the change, and delete the copy; False, and nothing changes, where the file is not the one shown."""
        with self._locked():
            is_written = replace_whole(self.path, change.before, change.after)
            if is_written:
                self.delete_copy()
            return is_written

    def clear_leftovers(self) -> None:
        """Delete what killed runs left: unfinished files, and a copy of what the file has anyway."""
        with self._locked():
            clear_unfinished(*os.path.split(os.path.realpath(self.path)))
            clear_unfinished(self.kept)
            content = held_bytes(self.path)
            if not self.is_in(content) and not self.missing_in(content):
                self.delete_copy()

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """One process at a time changes clients' files."""
        self.kept.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with locked(self.kept.parent, wait=True):
            yield

    def delete_copy(self) -> None:
        """Delete what is kept of the file, and the folder where nothing else is in it."""
        self.backup.unlink(missing_ok=True)
        with suppress(OSError):  # there is something else in it
            self.kept.rmdir()

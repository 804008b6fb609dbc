"""Whose requests are forgotten, and how they go from a file of examples."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from os import PathLike, fspath
from pathlib import Path

from camdf.datasets.examples import Example, examples_in
from camdf.datasets.ids import spellings
from camdf.runtime.files import clear_unfinished, locked, write_whole


@dataclass(frozen=True)
class Whose:
    """Whose requests are deleted: those of a conversation, of a user, or of both."""

    conversation: str = ""
    user: str = ""
    id_key: bytes | None = None

    def asked(self, group: str, user: str = "") -> bool:
        """Whether a request is theirs.

        The requests of a conversation have its id as their `group`, hashed where they were mined with a key, as is
        `user`, and hashed without one where the service learned them.

        >>> Whose("chat 7").asked(spellings("chat 7", None)[0])
        True
        """
        return group in self._groups or user in self._users

    @cached_property
    def _groups(self) -> set[str]:
        return set(spellings(self.conversation, self.id_key))

    @cached_property
    def _users(self) -> set[str]:
        return set(spellings(self.user, self.id_key))


def forget_examples(path: str | PathLike[str], is_gone: Callable[[Example], bool]) -> int:
    """Delete examples from a file, and say how many; who reads it again recalls none, and who adds to it waits.

    What killed writers left next to the file goes too.
    """
    clear_unfinished(*os.path.split(os.path.realpath(path)))
    with locked(path, wait=True):
        content, count = without_examples(Path(path).read_text(encoding="utf-8"), fspath(path), is_gone)
        if count:
            write_whole(path, content.encode())
    return count


def without_examples(content: str, name: str, is_gone: Callable[[Example], bool]) -> tuple[str, int]:
    """The text of a file of examples without some of them, and how many; without any, the empty line that says so."""
    lines = [line for line in content.encode().splitlines(keepends=True) if line.strip()]
    kept = [line for line, example in zip(lines, examples_in(content, name), strict=True) if not is_gone(example)]
    return b"".join(kept).decode() or "\n", len(lines) - len(kept)

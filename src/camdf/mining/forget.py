"""Delete from a table of days what belongs to a session or a user, or began before a day, down to the last byte."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from os import PathLike, fspath
from pathlib import Path

from camdf._counts import in_one_line
from camdf._files import clear_unfinished, locked, write_whole
from camdf.datasets.examples import Example, examples_in
from camdf.datasets.files import File
from camdf.errors import DataError, UsageError
from camdf.mining.days import Days, is_days
from camdf.mining.delta import LEFTOVER_HOURS
from camdf.mining.ids import hashed
from camdf.mining.span_files import clear_scratch


@dataclass(frozen=True)
class Forgot:
    """What was deleted."""

    tasks: int
    spans: int
    tasks_kept: int
    spans_kept: int
    hours: int
    alone: bool

    @property
    def sums(self) -> dict[str, dict[str, int]]:
        """What adds up: the tasks and the spans that were there are those forgotten and those kept."""
        counts = {"tasks": (self.tasks, self.tasks_kept), "spans": (self.spans, self.spans_kept)}
        return {what: {"read": gone + kept, "forgotten": gone, "kept": kept} for what, (gone, kept) in counts.items()}

    def __str__(self) -> str:
        gone = (
            "Their files are gone" if not self.hours else f"Their files go with the first run after {self.hours} hours"
        )
        counts = " ".join(in_one_line(what, counts) for what, counts in self.sums.items())
        if self.alone:
            return f"{counts} {gone}."
        return (
            f"{counts} {gone}; what a writer that was killed left behind goes after {LEFTOVER_HOURS} hours, or at once "
            "with --alone."
        )


def forget(
    table: File,
    *,
    conversation: str = "",
    user: str = "",
    before: date | None = None,
    id_key: bytes | None = None,
    hours: int = 0,
    alone: bool = False,
) -> Forgot:
    """Delete the traces of a session, of a user, or that began before a day, and remember not to let them in again.

    Rows, spans, spans held back and text go from the table, and the files that hold them from the disk once they have
    been out of the table for so many `hours`. Whoever reads them at that moment reads the new version instead. Files
    that no version names may be those of a writer at work: they stay for a day unless nobody else writes (`alone`).
    What killed writers left unfinished on this machine, in the table and in temporary folders, goes at once. Ids are
    hashed as the table's are, so `id_key` must be its key.
    """
    if not is_days(table):
        raise DataError(f"{fspath(table)}: must be a table that camdf mine --into wrote. Name another.")
    if not (conversation or user or before):
        raise UsageError("Nothing to forget was named. Name a --conversation, a --user or a day: --before 2026-01-31.")
    days = Days.as_it_is(table, id_key)
    ids = [
        (column, text if id_key is None else hashed(text, id_key))
        for column, text in (("conversation", conversation), ("user", user))
        if text
    ]
    days.forgotten.remember(days.root, ids, str(before or ""))
    counts = days.erase()
    days.vacuum(hours)
    days.vacuum(hours if alone else max(hours, LEFTOVER_HOURS), leftovers=True)
    if not hours:
        days.without_history()
    _clear_unfinished(days.root)
    clear_scratch()
    kept = {"tasks_kept": counts["tasks kept"], "spans_kept": counts["spans kept"]}
    return Forgot(counts["tasks"], counts["spans"], **kept, hours=hours, alone=alone)


def _clear_unfinished(table: str) -> None:
    """Delete what killed writers left in any folder of a table; in an object store they leave nothing."""
    if "://" not in table:
        for folder, _, _ in os.walk(table):
            clear_unfinished(folder)


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

        >>> Whose("chat 7").asked(hashed("chat 7", b""))
        True
        """
        groups, users = self._spellings
        return group in groups or user in users

    @cached_property
    def _spellings(self) -> tuple[set[str], set[str]]:
        keys = [key for key in (b"", self.id_key) if key is not None]
        groups, users = ({text, *(hashed(text, key) for key in keys)} - {""} for text in (self.conversation, self.user))
        return groups, users


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

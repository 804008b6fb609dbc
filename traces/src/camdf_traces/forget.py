"""Delete from a table of days what belongs to a session or a user, or began before a day, down to the last byte."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass
from datetime import date
from os import fspath
from typing import Any

from camdf.datasets.counts import in_one_line
from camdf.datasets.files import File
from camdf.datasets.ids import hashed
from camdf.errors import DataError, UsageError
from camdf.runtime.files import clear_unfinished
from camdf_traces.days import Days, is_days
from camdf_traces.delta import LEFTOVER_HOURS
from camdf_traces.span_files import clear_scratch


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

    def record(self) -> dict[str, Any]:
        """Its fields, what adds up, and the sentences."""
        return {**asdict(self), "sums": self.sums, "sentences": str(self).splitlines()}

    def __str__(self) -> str:
        gone = "Their files are gone"
        if self.hours:
            gone = f"Their files go with the first run after {self.hours} hours"
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
    ids = {name: text for name, text in (("conversation", conversation), ("user", user)) if text}
    if id_key is not None:
        ids = {name: hashed(text, id_key) for name, text in ids.items()}
    days.forgotten.remember(days.root, ids.items(), str(before or ""))
    counts = days.erase()
    days.vacuum(hours)
    days.vacuum(hours if alone else max(hours, LEFTOVER_HOURS), leftovers=True)
    if not hours:
        days.without_history()
    _clear_unfinished(days.root)
    clear_scratch()
    return Forgot(
        tasks=counts["tasks"],
        spans=counts["spans"],
        tasks_kept=counts["tasks kept"],
        spans_kept=counts["spans kept"],
        hours=hours,
        alone=alone,
    )


def _clear_unfinished(table: str) -> None:
    """Delete what killed writers left in any folder of a table; in an object store they leave nothing."""
    if "://" not in table:
        for folder, _, _ in os.walk(table):
            clear_unfinished(folder)

"""Outcomes, one line of JSON each, numbered without gaps: what was accepted is on disk before the answer leaves.

One thread writes. It takes all that waits, writes it, has the disk confirm it (`fsync`) once for all of them, and only
then tells the callers. A process that is killed leaves at most one torn line, which nobody was told was accepted; the
next start cuts it off. Where the disk is full, the file ends where it ended before, and the callers are told.

The id of a decision says whose it is, so that any copy of the service knows an outcome of another tenant's decision, or
of none, without having made or kept the decision. The mark is no secret: a tenant that makes up marked ids says
something about decisions of its own that were never kept, and nobody learns from those.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import ExitStack, suppress
from hashlib import sha256
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import Any, NamedTuple

from camdf.errors import UsageError, needs
from camdf.runtime.files import locked

with needs("serve"):
    import msgspec

FILE = "outcomes.jsonl"
BLOCK = 1 << 20
"""How many bytes are read at a time, from the end on, to find where the last line begins."""

MOST_AT_ONCE = 256
"""How many calls are written and confirmed together."""

MARK = 16
"""Hexadecimal digits at the end of a decision's id that say whose it is."""


def marked(decision: str, tenant: str) -> str:
    """The id of a decision as the service tells it to a tenant.

    >>> marked("1f", "acme")
    '1fcd3fdcbedef9ecf5'
    """
    return decision + sha256(f"{tenant}/{decision}".encode()).hexdigest()[:MARK]


def is_marked(told: str, tenant: str) -> bool:
    """Whether an id is one that the service tells a tenant."""
    return marked(told[:-MARK], tenant) == told


class Numbers(NamedTuple):
    """The first and the last sequence number of what one call appended."""

    first: int
    last: int


class OutcomeLog:
    """The log of a state folder; one process at a time has it."""

    def __init__(self, folder: Path) -> None:
        self._file = os.open(folder / FILE, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o600)
        self._lock = ExitStack()
        try:
            self._lock.enter_context(locked(folder / FILE, wait=False))
        except BlockingIOError:
            os.close(self._file)
            raise UsageError(
                f"Another process writes {folder / FILE}. Give each copy of the service a state folder of its own."
            ) from None
        self.last = self._recovered()
        _confirm(folder)
        self._waiting: SimpleQueue[tuple[Sequence[dict[str, Any]], Future[Numbers]] | None] = SimpleQueue()
        self._thread = Thread(target=self._write_until_closed, name="camdf-outcomes", daemon=True)
        self._thread.start()

    def append(self, outcomes: Sequence[dict[str, Any]]) -> Future[Numbers]:
        """Have outcomes written; the future has their numbers once they are on disk, or the OSError.

        Cancelled before the writing begins, nothing of this call is written; after that it cannot be cancelled.
        """
        future: Future[Numbers] = Future()
        self._waiting.put((outcomes, future))
        return future

    def close(self) -> None:
        """Write what waits, and let go of the file."""
        self._waiting.put(None)
        self._thread.join()
        os.close(self._file)
        self._lock.close()

    def _recovered(self) -> int:
        """Cut off what a killed process left unfinished; the last sequence number, 0 where there is none."""
        number = 0
        self._end = self._after_newline(os.lseek(self._file, 0, os.SEEK_END))
        while self._end:
            begins = self._after_newline(self._end - 1)
            try:
                number = msgspec.json.decode(self._bytes_between(begins, self._end))["seq"]
                break
            except (msgspec.DecodeError, UnicodeDecodeError, KeyError, TypeError):
                self._end = begins
        os.ftruncate(self._file, self._end)
        return number

    def _after_newline(self, before: int) -> int:
        """Where the last line begins of what stands before this place, however long that line is."""
        while before:
            start = max(before - BLOCK, 0)
            newline = self._bytes_between(start, before).rfind(b"\n") + 1
            if newline:
                return start + newline
            before = start
        return 0

    def _bytes_between(self, begins: int, ends: int) -> bytes:
        os.lseek(self._file, begins, os.SEEK_SET)
        return os.read(self._file, ends - begins)

    def _write_until_closed(self) -> None:
        while (waiting := self._waiting.get()) is not None:
            calls = [waiting]
            while len(calls) < MOST_AT_ONCE and not self._waiting.empty():
                more = self._waiting.get()
                if more is None:
                    self._waiting.put(None)
                    break
                calls.append(more)
            self._write_together(calls)

    def _write_together(self, waiting: Sequence[tuple[Sequence[dict[str, Any]], Future[Numbers]]]) -> None:
        """Write the outcomes of all that still wait; from here on none of them can be cancelled."""
        calls = [(outcomes, future) for outcomes, future in waiting if future.set_running_or_notify_cancel()]
        number = self.last
        at = round(time.time(), 3)
        lines = bytearray()
        numbers: list[Numbers] = []
        for outcomes, _ in calls:
            first = number + 1
            for outcome in outcomes:
                number += 1
                lines += msgspec.json.encode({"seq": number, "at": at, **outcome}) + b"\n"
            numbers.append(Numbers(first, number))
        try:
            os.lseek(self._file, self._end, os.SEEK_SET)
            written = 0
            while written < len(lines):
                written += os.write(self._file, lines[written:])
            os.fsync(self._file)
        except OSError as error:
            with suppress(OSError):
                os.ftruncate(self._file, self._end)
            for _, future in calls:
                future.set_exception(error)
            return
        self.last = number
        self._end += len(lines)
        for (_, future), pair in zip(calls, numbers, strict=True):
            future.set_result(pair)


def _confirm(folder: Path) -> None:
    """Have the disk confirm that the folder names the file, which may be new; Windows opens no folder."""
    try:
        place = os.open(folder, os.O_RDONLY)
    except PermissionError:
        return
    try:
        os.fsync(place)
    finally:
        os.close(place)

"""How far a long piece of work has come: a bar where rich is installed, plain lines on any other terminal or file."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from math import isfinite
from typing import TypeAlias, TypeVar

Progress: TypeAlias = Callable[[int, int, float], None]
"""Called with how many pieces are done, how many there are, and about how many seconds are left; infinitely many where
nobody knows, as when nothing is done yet."""

Item = TypeVar("Item")

MEGABYTE = 1_000_000

SECONDS_BETWEEN_LINES = {True: 2.0, False: 20.0}
"""By whether somebody is watching: a line on a terminal now and then, fewer in a log."""


def silent(done: int, total: int, left: float) -> None:
    """Show nothing."""


@contextmanager
def shown(what: str, after: float = 0.0) -> Iterator[Progress]:
    """Show on standard error how many of `what` are done; nothing where all is done `after` so many seconds."""
    watched = sys.stderr.isatty()
    if watched and find_spec("rich") is not None:
        with _progress_bar(what, after) as progress:
            yield progress
    else:
        yield _progress_lines(what, SECONDS_BETWEEN_LINES[watched], after)


def counted(items: Iterable[Item], total: int, progress: Progress, before: int = 0) -> Iterator[Item]:
    """The items, each reported once it has been worked off; `before` counts those that were finished earlier."""
    start = time.monotonic()
    for number, item in enumerate(items, 1):
        yield item
        left = (time.monotonic() - start) / number * (total - before - number)
        progress(before + number, total, left)


def in_time(items: Iterable[Item], seconds: float) -> Iterator[Item]:
    """The items that are begun before so many seconds are over, and one at least."""
    start = time.monotonic()
    for item in items:
        yield item
        if time.monotonic() - start >= seconds:
            return


def in_megabytes(total: int, progress: Progress) -> Callable[[int], None]:
    """Reports how far a file of `total` bytes has been read, once for each megabyte; call it with the bytes so far."""
    start = time.monotonic()
    megabytes = -(-total // MEGABYTE)
    last = 0

    def read(done: int) -> None:
        nonlocal last
        if done - last >= MEGABYTE or last != done == total:
            last = done
            left = (time.monotonic() - start) / done * (total - done)
            progress(megabytes if done == total else done // MEGABYTE, megabytes, left)

    return read


def _time_left(left: float, before: str = "") -> str:
    if not isfinite(left):
        return ""
    return f"{before}about {left:.0f} s left"


def _progress_lines(what: str, seconds: float, after: float) -> Progress:
    start = last = time.monotonic()
    wait = after or seconds  # from the last line to the next

    def progress(done: int, total: int, left: float) -> None:
        nonlocal last, wait
        now = time.monotonic()
        if now - start < after:
            return
        if done in (0, total) or now - last >= wait:
            last = now
            wait = seconds
            print(f"{done} of {total} {what}{_time_left(left, ', ')}", file=sys.stderr, flush=True)

    return progress


@contextmanager
def _progress_bar(what: str, after: float) -> Iterator[Progress]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[left]}"),
    )
    bar = Bar(*columns, console=Console(stderr=True))
    start = time.monotonic()
    task = bar.add_task(what, total=None, left="")

    def progress(done: int, total: int, left: float) -> None:
        if time.monotonic() - start >= after:
            bar.start()
        bar.update(task, completed=done, total=total, left=_time_left(left))

    if not after:
        bar.start()
    try:
        yield progress
    finally:
        bar.stop()

"""A progress bar with an estimate on a terminal; a line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from camdf.lab.running import Report
from camdf.policies.linear import MissingExtraError

SECONDS_BETWEEN_LINES = 20.0


@contextmanager
def progress(what: str) -> Iterator[Report]:
    """What `run_cells` and `assess` report to."""
    if sys.stderr.isatty():
        with _bar(what) as report:
            yield report
    else:
        yield _lines(what)


def _lines(what: str) -> Report:
    last = time.monotonic()

    def report(done: int, total: int, left: float) -> None:
        nonlocal last
        if done == total or time.monotonic() - last >= SECONDS_BETWEEN_LINES:
            last = time.monotonic()
            print(f"{done} of {total} {what}, about {left:.0f} s left", file=sys.stderr, flush=True)

    return report


@contextmanager
def _bar(what: str) -> Iterator[Report]:
    try:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
    except ImportError as error:
        raise MissingExtraError("The lab needs rich. Install: pip install 'camdf[lab]'") from error
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[left]}"),
    )
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(what, total=None, left="")

        def report(done: int, total: int, left: float) -> None:
            bar.update(task, completed=done, total=total, left=f"about {left:.0f} s left")

        yield report

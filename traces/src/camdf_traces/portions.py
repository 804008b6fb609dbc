"""Trace files in portions, each read by itself into span tables: one after another, or in several processes.

Portions come in the order of the files and of their lines, and so do the tables and the report, however many processes
read them.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing import get_context, parent_process
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

from camdf.errors import DataError, require
from camdf_traces.readers import Reading, ReadingReport
from camdf_traces.readers.files import TraceFile
from camdf_traces.spans import Span, arrow_table

if TYPE_CHECKING:
    import pyarrow as pa

BYTES_A_PORTION = 32_000_000
"""About how much of the files, as they are stored, is read between two steps of progress."""

PORTIONS_FOR_PROCESSES = 4
"""With fewer portions, one process is done before others have started."""

BYTES_A_SPAN = 1_000
"""What a span takes in memory without its text and the tools that it names."""

BYTES_A_NAME = 60
"""What the name of each of those tools takes."""


@dataclass(frozen=True)
class Portion:
    """Some whole files, or some lines of one."""

    files: tuple[TraceFile, ...]
    size: int


@dataclass(frozen=True)
class Read:
    """What became of a portion."""

    tables: list[Path]
    report: ReadingReport


def in_portions(files: Iterable[TraceFile], size: int) -> Iterator[Portion]:
    """The files in portions of about so many bytes: small ones together, the lines of a large one apart."""
    some: list[TraceFile] = []
    held = 0
    for file in files:
        large = file.size()
        if some and held + large > size:
            yield Portion(tuple(some), held)
            some = []
            held = 0
        if large > size and file.has_lines:
            for start in range(0, large, size):
                end = min(start + size, large)
                yield Portion((replace(file, start=start, end=end),), end - start)
        else:
            some.append(file)
            held += large
    if some:
        yield Portion(tuple(some), held)


def read_portions(
    portions: Sequence[Portion], folder: Path, *, with_text: bool, bytes_a_table: int, workers: int
) -> Generator[Read, None, None]:
    """Every portion as Parquet files in a folder, in order; spans take `bytes_a_table` of memory at most, in all.

    `workers` is the number of processes, fewer where that is enough. With more than one they are started afresh, so a
    program that asks for them needs the `if __name__ == "__main__"` that multiprocessing asks for.
    """
    workers = max(1, min(workers, len(portions)))
    if len(portions) < PORTIONS_FOR_PROCESSES:
        workers = 1
    read = partial(_read_portion, folder=folder, with_text=with_text, bytes_a_table=bytes_a_table // workers)
    if workers == 1:
        yield from map(read, range(len(portions)), portions)
        return
    pool = ProcessPoolExecutor(workers, mp_context=get_context("spawn"), initializer=_follow_the_parent)
    try:
        yield from pool.map(read, range(len(portions)), portions)
    except BrokenProcessPool:
        raise DataError(
            "A process that read traces was killed, perhaps for want of memory. Read them with fewer: --workers 1."
        ) from None
    finally:
        pool.shutdown(cancel_futures=True)


def _read_portion(number: int, portion: Portion, *, folder: Path, with_text: bool, bytes_a_table: int) -> Read:
    parquet = require("pyarrow.parquet", "mining")
    reading = Reading(portion.files, (), None, with_text)
    tables: list[Path] = []
    for table in _in_tables(reading, bytes_a_table):
        tables.append(folder / f"{number}-{len(tables)}.parquet")
        parquet.write_table(table, tables[-1])
    return Read(tables, reading.report)


def _in_tables(spans: Iterator[Span], bytes_a_table: int) -> Iterator[pa.Table]:
    """Spans as tables, each of about so many bytes in memory, however many files they come from."""
    some: list[Span] = []
    held = 0
    for span in spans:
        some.append(span)
        held += BYTES_A_SPAN + len(span.text) + BYTES_A_NAME * (len(span.offered) + 2 * len(span.ranked))
        if held >= bytes_a_table:
            yield arrow_table(some)
            some = []
            held = 0
    if some:
        yield arrow_table(some)


def _follow_the_parent() -> None:
    """A worker leaves Ctrl-C to its parent, and ends when the parent is gone, however that came about."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = parent_process()
    if parent is not None:
        Thread(target=_end_after, args=(parent.join,), daemon=True).start()


def _end_after(wait: Callable[[], object]) -> None:
    wait()
    os._exit(1)

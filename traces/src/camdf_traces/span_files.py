"""Span tables read in parts that fit in memory: whole traces, picked by a hash of their name."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from os import PathLike, fspath
from pathlib import Path
from shutil import rmtree
from tempfile import TemporaryDirectory, gettempdir
from typing import TYPE_CHECKING, Any, TypeAlias

from camdf.datasets.files import File
from camdf.errors import DataError, needs, require
from camdf.runtime.files import CAN_LOCK_FOLDERS, locked
from camdf.runtime.progress import Progress, counted, in_megabytes, silent
from camdf_traces.portions import BYTES_A_PORTION, in_portions, read_portions
from camdf_traces.readers import ReadingReport
from camdf_traces.readers.clickhouse import without_password
from camdf_traces.readers.files import Place, TraceFile, rows_at_a_time, trace_files
from camdf_traces.spans import SPAN_COLUMNS, polars_types

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa

Source: TypeAlias = "File | Sequence[File] | pa.Table | pl.DataFrame"
"""Parquet files of the span table (one, a folder, a list), or the table itself."""

SPANS_AT_A_TIME = 2_500_000
"""About how many spans are in memory together while tasks are mined from them."""

BYTES_A_FILE = 256_000_000
"""About how much memory spans take, while they are read, before they are written to a file."""

PARTS = "camdf-parts-"
SPAN_TABLES = "camdf-spans-"
"""How the names of temporary folders begin."""

NEEDED_SPAN_COLUMNS = ("trace_id", "span_id", "parent_id", "kind")
"""The columns without which a table is no span table."""


def in_parts(
    source: Source, columns: Sequence[str], at_a_time: int = SPANS_AT_A_TIME, progress: Progress = silent
) -> Iterator[pl.DataFrame]:
    """The spans of a source with the types of the schema, in parts of about `at_a_time`, no trace in two of them.

    A column that a file lacks is empty, and nulls become "" and empty lists. A source that does not fit in one part is
    first written by part into a temporary folder, about as large as the source. So everything is read twice, and not
    once a part.
    """
    polars = require("polars", "mining")
    table = polars.concat([_with_span_types(table, columns) for table in _source_tables(source)])
    rows = table.select(polars.len()).collect(engine="streaming").item()
    total = -(-rows // at_a_time)
    if total < 2:
        yield table.collect(engine="streaming")
        return
    part = polars.col("trace_id").hash(seed=0) % total
    with scratch_folder(PARTS) as scratch:
        for number in counted(range(total), 2 * total, progress):
            some = table.slice(number * at_a_time, at_a_time).collect(engine="streaming")
            for (key,), rest in some.with_columns(part=part).partition_by("part", as_dict=True).items():
                folder = scratch / str(key)
                folder.mkdir(exist_ok=True)
                rest.drop("part").write_parquet(folder / f"{number}.parquet", compression="lz4", statistics=False)
        for number in counted(range(total), 2 * total, progress, before=total):
            folder = scratch / str(number)
            if folder.exists():
                yield polars.read_parquet(folder / "*.parquet")
                rmtree(folder)


def rows_in(source: Source) -> int:
    """How many spans a source has."""
    polars = require("polars", "mining")
    counts = [table.select(polars.len()).collect(engine="streaming").item() for table in _source_tables(source)]
    return int(sum(counts))


@contextmanager
def span_tables(
    path: Place,
    *,
    with_text: bool = False,
    bytes_a_file: int = BYTES_A_FILE,
    bytes_a_portion: int = BYTES_A_PORTION,
    workers: int = 1,
    tell: Callable[[str], object] = print,
    progress: Progress = silent,
) -> Iterator[list[Path]]:
    """The trace files of a folder or behind a URL, or the one file named, as Parquet files of the span table.

    Traces in any other format are read as `read_spans` does, into span tables in a temporary folder, which last as long
    as this context, however many files they come in; what users asked is in them only `with_text`. `tell` gets a report
    if there are files or records that could not be read.

    `workers` is the number of processes that read them, where there is enough to read; the spans, their order and the
    report do not depend on it. With more than one, a program needs the `if __name__ == "__main__"` of multiprocessing.
    """
    files, passed_over = trace_files(path, with_text)
    ready = [file for file in files if file.is_parquet and set(NEEDED_SPAN_COLUMNS) <= set(_schema(file).names)]
    others = sorted(set(files) - set(ready), key=lambda file: file.path)
    tables = [Path(file.path) for file in ready if file.filesystem is None]
    portions = list(in_portions(others, bytes_a_portion))
    report = ReadingReport(passed_over=passed_over)
    with scratch_folder(SPAN_TABLES) as scratch:
        for file in (file for file in ready if file.filesystem is not None):
            tables.append(scratch / f"{len(tables)}.parquet")
            _fetch(file, tables[-1], with_text)
        so_far = in_megabytes(sum(portion.size for portion in portions), progress)
        done = 0
        reads = read_portions(portions, scratch, with_text=with_text, bytes_a_table=bytes_a_file, workers=workers)
        with closing(reads):
            for portion, read in zip(portions, reads, strict=True):
                tables += read.tables
                report.add(read.report)
                done += portion.size
                so_far(done)
        if report.skipped or passed_over:
            tell(str(report))
        if not tables:
            raise DataError(
                f"{without_password(fspath(path))}: must hold spans, and holds none. Name what a tracer wrote "
                "(traces/docs/traces.md); of a log of chats, write the tasks yourself (docs/fitting.md)."
            )
        yield tables


@contextmanager
def scratch_folder(prefix: str) -> Iterator[Path]:
    """A temporary folder that its owner alone can open, gone at the end; what killed processes left goes first."""
    clear_scratch()
    while True:
        with ExitStack() as until_the_end:
            folder = until_the_end.enter_context(TemporaryDirectory(prefix=prefix))
            if CAN_LOCK_FOLDERS:
                try:
                    until_the_end.enter_context(locked(folder, wait=True))
                except FileNotFoundError:  # it was taken for a leftover, and deleted
                    continue
            yield Path(folder)
            return


def clear_scratch() -> None:
    """Delete the temporary folders of processes that were killed: they may hold what users asked."""
    if not CAN_LOCK_FOLDERS:  # nobody knows whose are still in use
        return
    with os.scandir(gettempdir()) as entries:
        for entry in entries:
            is_ours = entry.name.startswith((PARTS, SPAN_TABLES)) and entry.is_dir(follow_symlinks=False)
            with suppress(OSError):  # it is in use, or gone by now
                if is_ours and entry.stat(follow_symlinks=False).st_uid == os.getuid():
                    with locked(entry.path, wait=False):
                        rmtree(entry.path, ignore_errors=True)


def _fetch(file: TraceFile, path: Path, with_text: bool) -> None:
    """Copy a span table that is not on this machine, with or without rows; what users asked only `with_text`."""
    parquet = require("pyarrow.parquet", "mining")
    with file.stored() as stream, parquet.ParquetFile(stream) as table:
        columns = [name for name in table.schema_arrow.names if with_text or name != "text"]
        schema = require("pyarrow", "mining").schema([table.schema_arrow.field(name) for name in columns])
        with parquet.ParquetWriter(path, schema) as writer:
            for batch in table.iter_batches(batch_size=rows_at_a_time(table.metadata), columns=columns):
                writer.write(batch)


def by_schema(files: Sequence[Path]) -> list[list[Path]]:
    """Parquet files, those of one schema together."""
    files_of: dict[str, list[Path]] = defaultdict(list)
    for file in files:
        files_of[str(_schema(TraceFile(str(file))))].append(file)
    return list(files_of.values())


def require_span_columns(present: Sequence[str]) -> None:
    """Raise where a table with these columns is no span table."""
    missing = [name for name in NEEDED_SPAN_COLUMNS if name not in present]
    if missing:
        raise DataError(f"The column {missing[0]!r} of a span table must be there, and is missing. Add it.")


def _source_tables(source: Source) -> list[pl.LazyFrame]:
    polars = require("polars", "mining")
    if isinstance(source, polars.DataFrame):
        return [source.lazy()]
    if not isinstance(source, str | PathLike | Sequence):
        return [polars.from_arrow(source).lazy()]
    paths = [source] if isinstance(source, str | PathLike) else source
    files = [Path(file.path) for path in paths for file in trace_files(path)[0] if file.is_parquet]
    if not files:
        raise DataError(f"{source}: must hold Parquet files of the span table, and holds none. See `span_tables`.")
    return [polars.scan_parquet(some) for some in by_schema(files)]


def _with_span_types(table: pl.LazyFrame, columns: Sequence[str]) -> pl.LazyFrame:
    polars = require("polars", "mining")
    types = polars_types()
    present = table.collect_schema().names()
    require_span_columns(present)

    def typed(name: str) -> Any:
        kind = SPAN_COLUMNS[name]
        value = polars.col(name) if name in present else polars.lit(None)
        value = value.cast(types[kind], strict=False)
        if kind == "text":
            value = value.fill_null("")
        elif kind in ("texts", "numbers"):
            value = value.fill_null([])
        return value.alias(name)

    return table.select([typed(name) for name in columns])


def _schema(file: TraceFile) -> pa.Schema:
    with needs("mining"):
        import pyarrow as pa
        import pyarrow.parquet as pq
    try:
        with file.stored() as stream:
            return pq.read_schema(stream).remove_metadata()
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{file.path}: must be a whole Parquet file. {error}. Write it again, or remove it.") from None

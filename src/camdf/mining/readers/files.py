"""The trace files of a folder, and the records of a file, one at a time."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from camdf.errors import DataError, needs
from camdf.mining.readers.values import Unreadable

SUFFIXES = (".json", ".jsonl", ".ndjson", ".parquet", ".json.gz", ".jsonl.gz", ".ndjson.gz")


def trace_files(path: Path) -> list[Path]:
    """A file by itself, or the trace files below a folder."""
    if path.is_dir():
        found = sorted(each for each in path.rglob("*") if each.is_file() and each.name.endswith(SUFFIXES))
        if not found:
            raise DataError(f"There are no traces below {path}: no file ends in {', '.join(SUFFIXES)}.")
        return found
    if not path.is_file():
        raise DataError(f"There is no file or folder {path}.")
    return [path]


def records(file: Path) -> Iterator[tuple[int, Any]]:
    """The records of a file with their line or row; an `Unreadable` stands for a broken one."""
    if file.suffix == ".parquet":
        yield from enumerate(_rows(file), start=1)
        return
    if "json" in file.name.split(".")[-2:] and not _is_lines(file):
        with _opened(file) as stream:
            try:
                yield 1, json.load(stream)
            except (ValueError, RecursionError):
                pass
            else:
                return
    with _opened(file) as stream:
        for number, line in enumerate(stream, start=1):
            if line.strip():
                yield number, _parsed(line)


def _is_lines(file: Path) -> bool:
    """Whether a .json file has a document a line, which is what the OpenTelemetry collector writes."""
    with _opened(file) as stream:
        return not isinstance(_parsed(stream.readline()), Unreadable)


def _opened(file: Path) -> Any:
    return gzip.open(file, "rb") if file.suffix == ".gz" else file.open("rb")


def _parsed(line: bytes) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return Unreadable("not JSON")


def _rows(file: Path) -> Iterator[dict[str, Any]]:
    """The rows of a Parquet file, a batch in memory at a time; every time, however deep, is nanoseconds since 1970."""
    with needs("mining"):
        import pyarrow as pa
        import pyarrow.parquet as pq

    def retimed(kind: Any, time: Any) -> Any:
        if pa.types.is_timestamp(kind):
            return time
        if pa.types.is_list(kind) or pa.types.is_large_list(kind):
            return pa.list_(retimed(kind.value_type, time))
        if pa.types.is_struct(kind):
            return pa.struct([(field.name, retimed(field.type, time)) for field in kind])
        return kind

    with pq.ParquetFile(file) as table:
        for batch in table.iter_batches(batch_size=4096):
            columns = [
                column.cast(retimed(column.type, pa.timestamp("ns"))).cast(retimed(column.type, pa.int64()))
                for column in batch.columns
            ]
            yield from pa.RecordBatch.from_arrays(columns, names=batch.schema.names).to_pylist()

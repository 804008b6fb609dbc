"""The trace files of a folder or behind a URL, and the records of a file, one at a time.

A table in ClickHouse is a folder too: it has a file of Arrow for each day.
"""

from __future__ import annotations

import bz2
import gzip
import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from os import PathLike, fspath
from pathlib import Path
from typing import IO, Any, TypeAlias

from camdf.errors import DataError, MissingExtraError, needs, require
from camdf_traces.readers.clickhouse import SCHEME, DaysOfSpans, without_password
from camdf_traces.readers.values import Unreadable, decoded

Place: TypeAlias = str | PathLike[str]
"""A file or a folder of this machine, any URL that fsspec opens (`s3://bucket/traces`), or a table in ClickHouse."""

DOCUMENT = (".json",)
LINES = (".jsonl", ".ndjson")
PROTOBUF = (".binpb", ".pb")
TABLES = (".parquet", ".arrows")
PACKED = (".gz", ".bz2", ".zst")
ENDINGS = (
    f"{', '.join((*DOCUMENT, *LINES, *PROTOBUF))}, these with {', '.join(PACKED)} behind them, and {', '.join(TABLES)}"
)

ZSTANDARD = b"\x28\xb5\x2f\xfd"
"""How what Zstandard packed begins."""

BYTES_AT_A_TIME = 1_000_000
"""How much is asked of a disk at once: a line of a collector holds hundreds of kilobytes."""

BYTES_A_BATCH = 64_000_000
"""About how much of a Parquet file is in memory together, beside one row group as it is stored."""


def _has_ending(name: str, endings: tuple[str, ...]) -> bool:
    """Whether a name has one of some endings, with that of a packed file behind it or without."""
    return name.endswith(tuple(ending + packed for ending in endings for packed in ("", *PACKED)))


def _is_readable(name: str) -> bool:
    """Whether a file has the name of one with traces in it."""
    return name.endswith(TABLES) or _has_ending(name, (*DOCUMENT, *LINES, *PROTOBUF))


@dataclass(frozen=True)
class TraceFile:
    """One file, on this machine or elsewhere, or those of its lines that begin between two of its bytes."""

    path: str
    filesystem: Any = None
    """The one of fsspec that has it, or the days of a table; None for this machine's own."""

    start: int = 0
    end: int | None = None

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rsplit("/", 1)[-1] if self.filesystem else Path(self.path).name

    @property
    def is_parquet(self) -> bool:
        """Whether it is a table."""
        return self.name.endswith(".parquet")

    @property
    def has_lines(self) -> bool:
        """Whether it is JSON Lines that need no unpacking, so that reading may begin at any line."""
        return self.name.endswith(LINES) and not self.has_messages()

    def has_messages(self) -> bool:
        """Whether it holds messages with the size of each before it, as collectors write protobuf and what they pack.

        A size has four bytes, the first of them smaller than any that JSON can begin with. At the end of the first
        message the file ends, or the next size begins.
        """
        with self.unpacked() as stream:
            size = stream.read(4)
            start = stream.read(4)
            if not (size < b"\t" and start.startswith((b"\n", ZSTANDARD))):
                return False
            left = int.from_bytes(size) - len(start)
            return len(stream.read(max(left, 0))) == left and stream.read(1) < b"\t"

    def size(self) -> int:
        """How many bytes are stored; 0 where it may not be read, which is said when it is."""
        try:
            if self.filesystem is not None:
                return self.filesystem.size(self.path) or 0
            if not os.access(self.path, os.R_OK):
                return 0
            return Path(self.path).stat().st_size
        except OSError:
            return 0

    def stored(self) -> IO[bytes]:
        """Its bytes as they are stored."""
        if self.filesystem is None:
            return open(self.path, "rb", buffering=BYTES_AT_A_TIME)
        stream: IO[bytes] = self.filesystem.open(self.path, "rb")
        return stream

    @contextmanager
    def unpacked(self) -> Iterator[io.BufferedIOBase | IO[bytes]]:
        """Its bytes, unpacked."""
        with self.stored() as stored:
            if self.name.endswith(".gz"):
                yield gzip.GzipFile(fileobj=stored)
            elif self.name.endswith(".bz2"):
                yield bz2.BZ2File(stored)
            elif self.name.endswith(".zst"):
                yield io.BufferedReader(require("pyarrow", "mining").CompressedInputStream(stored, "zstd"))
            else:
                yield stored

    def lines(self) -> Iterator[bytes]:
        """Its lines, or those of its part."""
        with self.unpacked() as stream:
            at = self.start
            if at:
                stream.seek(at - 1)
                at += len(stream.readline()) - 1
            for line in stream:
                if self.end is not None and at >= self.end:
                    return
                yield line
                at += len(line)

    def lines_before(self) -> int:
        """How many lines begin before its part."""
        if not self.start:
            return 0
        left = self.start - 1
        lines = 1
        with self.unpacked() as stream:
            while some := stream.read(min(left, BYTES_AT_A_TIME)):
                left -= len(some)
                lines += some.count(b"\n")
        return lines


def trace_files(place: Place, with_text: bool = True) -> tuple[list[TraceFile], list[str]]:
    """A file by itself, or the trace files below a folder in the order of their names; and the names of all others.

    A database is not even asked for what users asked unless it is `with_text`; files are read as they are.
    """
    named = fspath(place)
    filesystem, root = file_system_of(named, with_text)
    is_file = Path(root).is_file() if filesystem is None else filesystem.isfile(root)
    if is_file:
        return [TraceFile(root, filesystem)], []
    if filesystem is not None:
        below = filesystem.find(root)
    elif Path(root).is_dir():
        below = [str(path) for path in Path(root).rglob("*") if path.is_file()]
    else:
        raise DataError(f"There is no file or folder {named}. Check its name, or run the command where it is.")
    files = [TraceFile(path, filesystem) for path in sorted(below)]
    readable = [file for file in files if _is_readable(file.name)]
    if not readable:
        raise DataError(f"There are no traces below {without_password(named)}: no file ends in one of {ENDINGS}.")
    return readable, [file.name for file in files if not _is_readable(file.name)]


def file_system_of(place: str, with_text: bool = True) -> tuple[Any, str]:
    """The file system of fsspec that a URL names, None for this machine's own; and the place in it."""
    if "://" not in place:
        return None, place
    if place.startswith(SCHEME):
        return DaysOfSpans(place, with_text), ""
    core = require("fsspec.core", "mining")
    try:
        filesystem, root = core.url_to_fs(place)
    except ImportError as error:  # fsspec says which package: s3fs, gcsfs, adlfs
        why = f"{without_password(place)} cannot be opened yet. {error}: pip install it beside camdf[mining]."
        raise MissingExtraError(why) from error
    except ValueError as error:
        raise DataError(f"{without_password(place)} must be a URL that fsspec knows. {error}.") from None
    return filesystem, root


def records_of(file: TraceFile) -> Iterator[tuple[int, Any]]:
    """The records of a file with their line, row or message; an `Unreadable` stands for a broken one.

    A line or a message is in memory as a whole, and so is a .json or .binpb file that is one document. Lines of a part
    are counted from its first one.
    """
    if file.name.endswith(TABLES):
        yield from enumerate(_rows_of_table(file), start=1)
        return
    if not file.start and file.has_messages():
        yield from enumerate(_sized_messages(file), start=1)
        return
    if _has_ending(file.name, PROTOBUF):
        with file.unpacked() as stream:
            yield 1, _parsed_message(stream.read())
        return
    if _has_ending(file.name, DOCUMENT):
        with file.unpacked() as stream:
            first = stream.readline()
            if isinstance(_parsed_record(first), Unreadable):
                whole = _parsed_record(first + stream.read())
                if not isinstance(whole, Unreadable):
                    yield 1, whole
                    return
    for number, line in enumerate(file.lines(), start=1):
        if not line.isspace():
            yield number, _parsed_record(line)


def _parsed_record(text: bytes) -> Any:
    with needs("mining"):
        from camdf_traces.readers.otlp_json import typed_document
    try:
        typed = typed_document(text)
        if typed is not None:
            return typed
        return decoded(text)
    except (ValueError, RecursionError):
        return Unreadable("not JSON")


def _sized_messages(file: TraceFile) -> Iterator[Any]:
    """The messages of a file, each after its size in four bytes."""
    with file.unpacked() as stream:
        while size := stream.read(4):
            message = stream.read(int.from_bytes(size))
            if len(size) == 4 and len(message) == int.from_bytes(size):
                yield _parsed_message(message)
            else:
                yield Unreadable("cut short")


def _parsed_message(message: bytes) -> Any:
    """OTLP in protobuf or in JSON, packed or not."""
    try:
        if message.startswith(ZSTANDARD):
            pyarrow = require("pyarrow", "mining")
            message = pyarrow.input_stream(pyarrow.py_buffer(message), compression="zstd").read()
        if message.startswith(b"{"):
            return _parsed_record(message)
        with needs("otlp"):
            from camdf_traces.readers.otlp_proto import typed_message
        return typed_message(message)
    except Unreadable as why:
        return why
    except OSError:
        return Unreadable("not packed as it should be")


def _rows_of_table(file: TraceFile) -> Iterator[dict[str, Any]]:
    """The rows of Parquet or Arrow, a batch in memory at a time; every time is nanoseconds since 1970, however deep."""
    with needs("mining"):
        import pyarrow as pa

    def retimed(kind: Any, time: Any) -> Any:
        if pa.types.is_timestamp(kind):
            return time
        if pa.types.is_list(kind) or pa.types.is_large_list(kind):
            return pa.list_(retimed(kind.value_type, time))
        if pa.types.is_struct(kind):
            return pa.struct([(field.name, retimed(field.type, time)) for field in kind])
        return kind

    for batch in _batches(file):
        columns = [
            column.cast(retimed(column.type, pa.timestamp("ns"))).cast(retimed(column.type, pa.int64()))
            for column in batch.columns
        ]
        yield from pa.RecordBatch.from_arrays(columns, names=batch.schema.names).to_pylist()


def _batches(file: TraceFile) -> Iterator[Any]:
    with file.stored() as stream:
        if file.is_parquet:
            with require("pyarrow.parquet", "mining").ParquetFile(stream) as table:
                yield from table.iter_batches(batch_size=rows_at_a_time(table.metadata))
        else:
            yield from require("pyarrow.ipc", "mining").open_stream(stream)


def rows_at_a_time(metadata: Any) -> int:
    """How many rows of a Parquet file make a batch, by their mean size in it."""
    size: int = sum(metadata.row_group(number).total_byte_size for number in range(metadata.num_row_groups))
    rows: int = metadata.num_rows
    return max(1, min(4096, BYTES_A_BATCH * rows // max(size, 1)))

"""Parquet, one file or a folder of them as Spark writes one table: columns, tables, and records of logged tasks.

In the records of `camdf.datasets.files`, `scores` and `costs` are lists of structs, (tool, score) and (tool, cost).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from itertools import pairwise
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from camdf.datasets.records import Pairs, dict_or_pairs, refuse
from camdf.errors import DataError, require
from camdf.runtime.progress import Progress, in_megabytes

if TYPE_CHECKING:
    import pyarrow as pa

BATCH_ROWS = 4096
"""Rows that are worked off at once."""


def columns_of(path: str | PathLike[str]) -> list[str]:
    """The names of the columns of a Parquet file, or of the first file of a folder."""
    with _opened(path) as parquet:
        return list(parquet.read_schema(_files_of_table(path)[0]).names)


def note_of(path: str | PathLike[str], name: str) -> str:
    """What a Parquet file says under a name about itself, "" where it says nothing."""
    with _opened(path) as parquet:
        notes = parquet.read_metadata(path).metadata or {}
    return str(notes.get(name.encode(), b"").decode(errors="replace"))


def tables_of(path: str | PathLike[str]) -> list[pa.Table]:
    """A Parquet file, or each file of a folder in the order of their names, which is how Spark writes one table."""
    tables = []
    with _opened(path) as parquet:
        for part in _files_of_table(path):
            with parquet.ParquetFile(part) as file:
                tables.append(file.read())
    return tables


def batches(path: Path, columns: list[str], progress: Progress) -> Iterator[pa.RecordBatch]:
    """These columns of a Parquet file, or of each file of a folder, a few thousand rows at a time."""
    files = _files_of_table(path)
    sizes = [part.stat().st_size for part in files]
    report = in_megabytes(sum(sizes), progress)
    before = 0
    with _opened(path) as parquet:
        for part, size in zip(files, sizes, strict=True):
            with parquet.ParquetFile(part) as file:
                rows = max(file.metadata.num_rows, 1)
                done = 0
                for batch in file.iter_batches(BATCH_ROWS, columns=columns):
                    yield batch
                    done += batch.num_rows
                    report(before + size * done // rows)
            before += size


def records(path: Path, batch: pa.RecordBatch, first: int, optional: Collection[str]) -> Iterator[dict[str, Any]]:
    """The records of a batch whose first row has this number; an optional field that is null is not there."""
    names = batch.schema.names
    columns = [_per_task(path, name, batch.column(name), first, name in optional) for name in names]
    for values in zip(*columns, strict=True):
        yield {n: v for n, v in zip(names, values, strict=True) if v is not None or n not in optional}


def _per_task(path: Path, name: str, column: pa.Array, first: int, optional: bool) -> Iterator[Any]:
    """One value a task; lists of structs (tool, score) become dicts, or `Pairs`."""
    part = {"scores": "score", "costs": "cost"}.get(name)
    if part is None:
        yield from column.to_pylist()
        return
    types = require("pyarrow", "mining").types
    are_structs = types.is_list(column.type) and types.is_struct(column.type.value_type)
    if not are_structs or column.null_count or column.flatten().null_count:
        for number, value in enumerate(column.to_pylist(), start=first):
            if value is None and optional:
                yield None
            else:
                yield _numbers_of_structs(f"{path}, row {number}", name, part, value)
        return
    layout = column.type.value_type
    if {layout.field(i).name for i in range(layout.num_fields)} != {"tool", part}:
        _numbers_of_structs(f"{path}, row {first}", name, part, column[0].as_py())
    structs = column.flatten()
    tools = structs.field("tool").to_pylist()
    values = structs.field(part).to_pylist()
    ends = column.offsets.to_numpy() - column.offsets[0].as_py()
    for start, end in pairwise(ends.tolist()):
        yield dict_or_pairs(list(zip(tools[start:end], values[start:end], strict=True)))


def _numbers_of_structs(where: str, field: str, part: str, value: object) -> dict[str, Any] | Pairs:
    if not isinstance(value, list) or not all(isinstance(i, dict) and i.keys() == {"tool", part} for i in value):
        refuse(where, field, f"be a list of structs (tool, {part})", value, "write_parquet shows the layout.")
    return dict_or_pairs([(item["tool"], item[part]) for item in value])


def _files_of_table(path: str | PathLike[str]) -> list[Path]:
    if not Path(path).is_dir():
        return [Path(path)]
    files = sorted(Path(path).glob("*.parquet"))
    if not files:
        raise DataError(f"{path}: must be a Parquet file or a folder of them, and is a folder without. Name another.")
    return files


@contextmanager
def _opened(path: str | PathLike[str]) -> Iterator[Any]:
    """The module that reads Parquet; a path to a file of another kind raises an error that says so."""
    arrow = require("pyarrow", "mining")
    parquet = require("pyarrow.parquet", "mining")
    try:
        yield parquet
    except arrow.ArrowInvalid as error:
        raise DataError(f"{path}: must be a Parquet file. {error}. Write it with write_parquet.") from None

"""A Delta table whose files any worker writes, and which one commit names.

A worker, on this machine or on a cluster, writes Parquet files under names that nobody else has, and nobody reads them
before a commit names them. A commit says which files join the table and which leave it. It is a conditional write on
the version that was read: where another writer was first, it raises `LostRaceError`, and one reads the table again and
repeats the work. `deltalake` writes the log, on a disk as in an object store, so that a cluster needs none of Delta's
jars.

Files that leave the table stay where they are for whoever still reads them, until `vacuum`.
"""

from __future__ import annotations

import json
import os
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from camdf.errors import require
from camdf.runtime.files import write_whole
from camdf_traces.readers.files import file_system_of
from camdf_traces.spans import arrow_schema

if TYPE_CHECKING:
    import polars as pl

NULL = "__HIVE_DEFAULT_PARTITION__"
"""How the name of a folder spells a value that is missing."""

LEFTOVER_HOURS = 24
"""How old a file must be that no version of a table names before it counts as left behind by a writer that died."""


class LostRaceError(Exception):
    """Another writer has changed the table since it was read."""


@dataclass(frozen=True)
class DataFile:
    """One Parquet file of a table, with the values of the columns by which the table is partitioned."""

    path: str
    values: Mapping[str, str | None]
    size: int
    rows: int

    def value(self, name: str) -> str:
        """The value of a column; "" where it is missing."""
        return self.values[name] or ""


class DeltaFolder:
    """A Delta table at one version: its files, and the numbers that its commits carry."""

    def __init__(self, root: str, version: int | None = None) -> None:
        self.root = root
        self._table = require("deltalake", "delta").DeltaTable(root, version=version)
        self._files: dict[int, list[DataFile]] = {}

    @classmethod
    def made(
        cls, root: str, name: str, columns: Mapping[str, str], partitions: Sequence[str], settings: object
    ) -> DeltaFolder:
        """The table at this place; a new one where there is none."""
        delta = require("deltalake", "delta")
        if "://" not in root:
            os.makedirs(root, mode=0o700, exist_ok=True)  # what it holds is its owner's alone, unless it was there
        if not delta.DeltaTable.is_deltatable(root):
            with suppress(delta.exceptions.DeltaError):  # another writer has made it meanwhile
                delta.DeltaTable.create(
                    root,
                    schema=arrow_schema(columns),
                    partition_by=list(partitions),
                    name=name,
                    description=json.dumps(settings),
                    configuration={
                        "delta.checkpointInterval": "20",  # one opens a table by reading what came after a checkpoint
                        "delta.dataSkippingNumIndexedCols": "0",  # the log repeats nothing of a row
                    },
                )
        return cls(root)

    def widen(self, columns: Mapping[str, str]) -> None:
        """Add the columns that the version which made the table did not have; they are null in its files."""
        delta = require("deltalake", "delta")
        present = {field.name for field in self._table.schema().fields}
        if absent := {name: kind for name, kind in columns.items() if name not in present}:
            with suppress(delta.exceptions.DeltaError):  # another writer has added them meanwhile
                self._table.alter.add_columns(delta.Schema.from_arrow(arrow_schema(absent)).fields)
            self.refresh()

    @property
    def version(self) -> int:
        """How often the table has changed."""
        return int(self._table.version())

    @property
    def settings(self) -> Any:
        """What the table was made with; None where that is not ours."""
        try:
            return json.loads(self._table.metadata().description or "")
        except ValueError:
            return None

    def files_at(self, version: int) -> list[DataFile]:
        """The files of an earlier version; `LookupError` where the log does not reach back to it any more."""
        if version not in self._files:
            try:
                self._files[version] = DeltaFolder(self.root, version).files
            except require("deltalake.exceptions", "delta").DeltaError as error:
                raise LookupError(version) from error
        return self._files[version]

    @property
    def files(self) -> list[DataFile]:
        """The files of this version."""
        if self.version not in self._files:
            self._files[self.version] = self._files_of_this_version()
        return self._files[self.version]

    def refresh(self) -> None:
        """Go on to the newest version."""
        self._table.update_incremental()

    def _files_of_this_version(self) -> list[DataFile]:
        actions = require("pyarrow", "mining").table(self._table.get_add_actions(flatten=True)).to_pylist()
        columns = self._table.metadata().partition_columns
        return [_data_file(action, columns) for action in actions]

    def number(self, name: str) -> int | None:
        """The number that the last commit with one of this name carries."""
        version: int | None = self._table.transaction_version(name)
        return version

    def commit(self, add: Iterable[DataFile], remove: Iterable[DataFile] = (), **numbers: int) -> None:
        """Make the next version; `LostRaceError` where a file to remove is gone, or a number has changed, meanwhile."""
        delta = require("deltalake", "delta")
        actions = require("deltalake.transaction", "delta")
        now = int(time.time() * 1000)
        added = [
            actions.AddAction(file.path, file.size, dict(file.values), now, True, json.dumps({"numRecords": file.rows}))
            for file in add
        ]
        removed = [actions.RemoveAction(file.path, True, now, file.size, dict(file.values)) for file in remove]
        carried = [delta.Transaction(name, number) for name, number in numbers.items()]
        try:
            self._table.create_write_transaction(
                [*added, *removed],
                "append",
                self._table.schema(),
                self._table.metadata().partition_columns,
                commit_properties=delta.CommitProperties(app_transactions=carried),
            )
        except delta.exceptions.CommitFailedError as error:
            raise LostRaceError(str(error)) from error
        self.refresh()

    def vacuum(self, hours: int, *, leftovers: bool) -> None:
        """Delete the files that left the table so many hours ago, and with `leftovers` those that no version names."""
        self._table.vacuum(retention_hours=hours, dry_run=False, enforce_retention_duration=False, full=leftovers)
        self.refresh()

    def without_history(self) -> None:
        """Delete the log of all earlier versions."""
        self._table.alter.set_table_properties({"delta.logRetentionDuration": "interval 0 seconds"})
        self.refresh()
        self._table.create_checkpoint()
        self._table.cleanup_metadata()

    def arrow(self, columns: Iterable[str]) -> Any:
        """Some columns of this version as an Arrow table, as far as the version that made the table had them."""
        present = {field.name for field in self._table.schema().fields}
        return self._table.to_pyarrow_table(columns=[name for name in columns if name in present])


def is_delta(root: str) -> bool:
    """Whether there is a Delta table."""
    if "://" not in root:
        return (Path(root) / "_delta_log").is_dir()
    return bool(require("deltalake", "delta").DeltaTable.is_deltatable(root))


def write_data(root: str, rows: pl.DataFrame, values: Mapping[str, str | None]) -> DataFile:
    """Rows as a file of a name of its own, which a commit may name."""
    folders = "/".join(f"{name}={NULL if value is None else value}" for name, value in values.items())
    path = f"{folders}/{uuid.uuid4().hex}.parquet"
    content = BytesIO()
    rows.drop(*values, strict=False).write_parquet(content)
    put(f"{root}/{path}", content.getvalue())
    return DataFile(path, values, content.tell(), len(rows))


def read_data(root: str, files: Iterable[DataFile], columns: Sequence[str] | None = None) -> list[pl.DataFrame]:
    """The rows of each file, with the values of its partition; some columns of it, or all."""
    polars = require("polars", "mining")
    parquet = require("pyarrow.parquet", "mining")
    filesystem, place = file_system_of(root)
    tables = []
    for file in files:
        stored = None if columns is None else [name for name in columns if name not in file.values]
        table = parquet.read_table(f"{place}/{file.path}", columns=stored, filesystem=filesystem, partitioning=None)
        values = [polars.lit(value, polars.String).alias(name) for name, value in file.values.items()]
        tables.append(polars.from_arrow(table).with_columns(values))
    return tables


def put(path: str, content: bytes) -> None:
    """A file, whole or not at all."""
    filesystem, place = file_system_of(path)
    if filesystem is not None:
        filesystem.pipe(place, content)
    else:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        write_whole(path, content)


def contents_of(folder: str) -> list[bytes]:
    """The content of every file in a folder; nothing where there is no folder."""
    filesystem, place = file_system_of(folder)
    if filesystem is None:
        return [path.read_bytes() for path in sorted(Path(place).glob("*.json"))]
    if not filesystem.exists(place):
        return []
    return [filesystem.cat_file(path) for path in filesystem.find(place)]


def discard(root: str, files: Iterable[DataFile]) -> None:
    """Delete files that no commit names, and none ever will."""
    filesystem, place = file_system_of(root)
    remove = os.remove if filesystem is None else filesystem.rm
    for file in files:
        with suppress(OSError):
            remove(f"{place}/{file.path}")


def _data_file(action: Mapping[str, Any], partitions: Iterable[str]) -> DataFile:
    """A file as the log tells of it."""
    values = {name: action[f"partition.{name}"] for name in partitions}
    texts = {name: None if value is None else str(value) for name, value in values.items()}
    return DataFile(action["path"], texts, action["size_bytes"], action["num_records"])

"""A table of tasks in buckets of traces, each a few Parquet files, all of which change in one step.

    TABLE/camdf.json            the settings, the last day, and which version of every bucket counts
    TABLE/bucket=K/V.json       the files of version V of bucket K
    TABLE/bucket=K/V.D.parquet  its tasks that began on day D
    TABLE/bucket=K/V.spans.parquet  the spans that may still change a task

All spans of a trace are in one bucket, so that a bucket is a table of days by itself (`camdf.mining.days.bring`), and
workers need not know of one another. They write files that nobody reads yet. Then a new `camdf.json` takes the place of
the old one in one step, and the files of earlier versions are deleted. Whoever reads, and a process that is killed,
finds the table as it was or as it was to become.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import date
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from camdf._files import write_whole
from camdf.datasets.files import File
from camdf.errors import DataError, UsageError, require
from camdf.mining.days import ROW, Rules, bring, day_of, no_spans
from camdf.mining.runs import TASK_COLUMNS
from camdf.mining.spans import arrow_of, polars_types

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa

SCHEMA = 1
"""The version of the layout. A table of another version is refused."""

STATE = "camdf.json"
SPANS, UNDATED = "spans", "none"
"""The file of spans, and that of tasks that have no time."""


@dataclass(frozen=True)
class TableState:
    """What the table is. `batch` is the last micro-batch that is in it, -1 for none."""

    settings: Mapping[str, Any]
    versions: tuple[int, ...]
    last: str
    batch: int = -1

    @property
    def next(self) -> int:
        """The number of the next version."""
        return max(self.versions, default=0) + 1

    def last_day(self, day: date) -> date:
        """The last day on which something arrived, this one included."""
        return max(day, date.fromisoformat(self.last))


@dataclass(frozen=True)
class Bucket:
    """One bucket at one version: the names of its files, by day, and of its spans. Version 0 is empty."""

    folder: Path
    version: int
    files: Mapping[str, str]

    @classmethod
    def at(cls, table: Path, number: int, version: int) -> Bucket:
        """A bucket of a table."""
        folder = table / f"bucket={number}"
        return cls(folder, version, json.loads((folder / f"{version}.json").read_bytes()) if version else {})

    def spans(self, columns: Sequence[str]) -> pl.DataFrame:
        """The spans that are kept, with the day of their arrival."""
        if SPANS not in self.files:
            return no_spans(columns)
        found: pl.DataFrame = require("polars", "mining").read_parquet(self.folder / self.files[SPANS])
        return found

    def tasks(self, days: Collection[str] | None = None) -> pl.DataFrame:
        """The tasks that began on some days, by default on any."""
        polars, types = require("polars", "mining"), polars_types()
        none = polars.DataFrame(schema={name: types[kind] for name, kind in ROW.items()})
        chosen = [file for day, file in self.files.items() if day != SPANS and (days is None or day in days)]
        found: pl.DataFrame = polars.concat([none, *(polars.read_parquet(self.folder / each) for each in chosen)])
        return found

    def brought(
        self, read: pl.DataFrame, version: int, day: date, last: date, rules: Rules, *, more: bool
    ) -> tuple[Bucket, dict[str, int]]:
        """The bucket once these spans have arrived, in files of a new version, and the counts of what they changed.

        Run again for the same version, it writes the same files: an executor may die, and another take its place.
        """
        polars = require("polars", "mining")
        began: set[str] = {UNDATED}

        def tasks_of(spans: pl.DataFrame) -> pl.DataFrame:
            began.update(spans.select(day=day_of("start"))["day"].drop_nulls())
            return self.tasks(began).join(spans, on="trace_id", how="semi")

        found = bring(read, self.spans(rules.columns()), tasks_of, day, last, rules, more=more)
        oldest = rules.oldest(last)
        self.folder.mkdir(parents=True, exist_ok=True)
        files = {each: file for each, file in self.files.items() if each in (SPANS, UNDATED) or each >= oldest}
        if found.spans is not None:
            files[SPANS] = self._write(found.spans, f"{version}.{SPANS}.parquet")
        out = polars.concat([found.new.select("task_id"), found.gone.select("task_id")])
        before = self.tasks(began)
        left = polars.concat([before.join(out, on="task_id", how="semi"), found.new])["day"].fill_null(UNDATED)
        after = polars.concat([before.join(out, on="task_id", how="anti"), found.new])
        for each in sorted({*left}):
            rows = after.filter(polars.col("day").fill_null(UNDATED) == each)
            files.pop(each, None)
            if len(rows):
                files[each] = self._write(rows.sort("task_id"), f"{version}.{each}.parquet")
        if files == self.files:
            return self, found.counts
        write_whole(self.folder / f"{version}.json", json.dumps(files, indent=1).encode())
        return Bucket(self.folder, version, files), found.counts

    def _write(self, rows: pl.DataFrame, name: str) -> str:
        content = BytesIO()
        rows.write_parquet(content)
        write_whole(self.folder / name, content.getvalue())
        return name


def is_buckets(table: File) -> bool:
    """Whether a folder is such a table."""
    return (Path(table) / STATE).is_file()


def read_buckets(table: File) -> pa.Table:
    """The tasks as an Arrow table, in the order and with the columns that `mine` gives them."""
    polars, path = require("polars", "mining"), Path(table)
    versions = _state(path).versions
    tasks = polars.concat([Bucket.at(path, *each).tasks() for each in enumerate(versions)])
    return arrow_of(tasks.sort("time", "task_id", nulls_last=True).select(*TASK_COLUMNS), TASK_COLUMNS)


def opened(table: Path, rules: Rules, buckets: int) -> TableState:
    """The table with these rules; an empty one where there is none yet."""
    settings = {**rules.settings(), "buckets": buckets}
    if not is_buckets(table):
        # Buckets may be what a first run left that was killed.
        if table.exists() and any(not each.name.startswith("bucket=") for each in table.iterdir()):
            raise DataError(f"{table}: must be a table of camdf's, or not be there yet. Name another folder.")
        return TableState(settings, (0,) * buckets, "1970-01-01")
    found = _state(table)
    for name, value in settings.items():
        if found.settings.get(name) != value:
            raise UsageError(
                f"{table} was made with {name}={found.settings.get(name)}, and every day of it must be. Got {value}."
            )
    return found


def commit(table: Path, state: TableState) -> None:
    """Let this be the table, and delete the files that are not of it."""
    table.mkdir(parents=True, exist_ok=True)
    write_whole(table / STATE, json.dumps({"camdf": SCHEMA, **asdict(state)}).encode())
    for number, version in enumerate(state.versions):
        bucket = Bucket.at(table, number, version)
        named = {f"{version}.json", *bucket.files.values()}
        for file in bucket.folder.glob("*"):
            if file.name not in named:
                file.unlink(missing_ok=True)


def _state(table: Path) -> TableState:
    try:
        found = json.loads((table / STATE).read_bytes())
        if found.pop("camdf") != SCHEMA:
            raise KeyError
        return TableState(**{**found, "versions": tuple(found["versions"])})
    except (OSError, ValueError, KeyError, TypeError):
        raise DataError(
            f"{table}: must be a table of tasks with schema {SCHEMA}. Mine the days into another."
        ) from None

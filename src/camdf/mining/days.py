"""A table of tasks that grows day by day, and is at any time what mining everything at once would give.

A task may change as long as spans of its trace arrive: late ones, second versions, the end of a run that began before
midnight. So the spans of the last few days stay beside the table, and each day mines again only the traces that its
spans are part of.

    TABLE/                      a Delta table of tasks, partitioned by the day on which each began
    TABLE/_spans/N.parquet      the spans that may still change a task, by the day of their arrival

Both change together in one transaction. The file of spans is written first, and the commit of the tasks says which file
goes with them. A process that is killed leaves the table as it was, or as it was to become.

What stands in `_spans` is what the span table has. What users asked is in it only `with_text`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from camdf.datasets.files import File
from camdf.errors import DataError, UsageError, require
from camdf.mining.runs import TASK_COLUMNS, has_ids
from camdf.mining.span_files import Source, in_parts
from camdf.mining.spans import SPAN_COLUMNS, arrow_of, arrow_schema, polars_types
from camdf.mining.tasks import mine

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa

SCHEMA = 1
"""The version of the table's columns. A table of another version is refused."""

APP = "camdf"
"""The name under which the transactions of the table count its files of spans."""

WATERMARK = 2
"""For how many days after a span began it may still arrive."""

MOST_DAYS = 36_500
"""A century: more days than that are a slip of the pen."""

ROW = {**TASK_COLUMNS, "trace_id": "text", "day": "text"}
"""A task as the table has it: `day` is that of its `time` in UTC, and null where it has none."""

NANOSECONDS_A_DAY = 86_400_000_000_000


@dataclass(frozen=True)
class MinedDay:
    """What a day brought."""

    day: date
    spans: int
    """Distinct spans that arrived on the day, and are not too late."""

    late: int
    """Spans that were left out because they began too long before the day."""

    settled: int
    """Traces that were left as they are: their tasks are in the table, and their spans are not kept any more."""

    traces: int
    """Traces that were mined, because spans of theirs came, changed or went."""

    added: int
    changed: int
    removed: int
    version: int
    """The version of the table."""

    def __str__(self) -> str:
        lines = [
            f"{self.day}: {self.spans:,} spans; {self.traces:,} traces were mined: {self.added:,} tasks added, "
            f"{self.changed:,} changed, {self.removed:,} removed."
        ]
        if self.late:
            lines.append(f"{self.late:,} spans came too late, and were left out.")
        if self.settled:
            lines.append(f"{self.settled:,} traces came back after their spans were forgotten, and stay as they are.")
        return "\n".join(lines)


def mine_day(
    source: Source,
    table: File,
    day: date,
    *,
    watermark: int = WATERMARK,
    keep_days: int | None = None,
    require_outcome: bool = False,
    with_text: bool = False,
) -> MinedDay:
    """Bring the spans that arrived on a day into a table of tasks, which is made where there is none.

    `source` holds all spans of the day: running a day again puts the new ones in place of the old, and changes nothing
    where they are the same. Days may come in any order, as long as none is more than `watermark` days before the last.
    A span counts if it began at most `watermark` days before the day of its arrival. Tasks that began more than
    `keep_days` days before the last day are deleted.

    The tasks are those of mining all days at once if the spans of each trace arrive within `watermark` days of one
    another. The spans of twice as many days are kept for that, and must fit into memory. One process may do this at a
    time.
    """
    polars = require("polars", "mining")
    rules = Rules(watermark, keep_days, require_outcome, with_text)
    days = _Days(Path(table), rules.settings())
    known = days.spans(rules.columns())
    last = max([day, *map(date.fromisoformat, known["day"].unique())])
    rules.refuse_early(table, day, last)
    read = polars.concat(list(in_parts(source, rules.columns())))
    found = bring(read, known, days.tasks, day, last, rules)
    days.commit(found.new, found.gone, found.spans)
    if keep_days is not None:
        days.forget(rules.oldest(last))
    return MinedDay(day, **found.counts, version=days.version)


@dataclass(frozen=True)
class Rules:
    """What every day of a table is mined by; see `mine_day`."""

    watermark: int = WATERMARK
    keep_days: int | None = None
    require_outcome: bool = False
    with_text: bool = False

    def __post_init__(self) -> None:
        for name in ("watermark", "keep_days"):
            days = getattr(self, name)
            if name == "keep_days" and days is None:
                continue
            if isinstance(days, bool) or not isinstance(days, int) or not 0 <= days <= MOST_DAYS:
                raise UsageError(
                    f"The {name!r} of a table of days must be a whole number of days from 0 to {MOST_DAYS}. "
                    f"Got {days!r} instead."
                )

    def settings(self) -> dict[str, Any]:
        """What may not change from day to day."""
        fixed = ("require_outcome", "with_text", "watermark")
        return {name: getattr(self, name) for name in fixed}

    def columns(self) -> list[str]:
        """The columns of spans that are kept."""
        return [name for name in SPAN_COLUMNS if self.with_text or name != "text"]

    def oldest(self, last: date) -> str:
        """The first day whose tasks are kept."""
        return "" if self.keep_days is None else str(last - timedelta(self.keep_days))

    def refuse_early(self, table: File, day: date, last: date) -> None:
        """Raise if a day comes after one so much later that its spans may be gone."""
        if day < last - timedelta(self.watermark):
            raise UsageError(
                f"The day must be at most {self.watermark} days before the last one of {table}, {last}, as the spans "
                f"of earlier days are not kept. Got {day}. Mine the days from then on into another table."
            )


class Brought(NamedTuple):
    """What an arrival of spans changes: tasks to put in and to take out, and the spans to keep, None for the same."""

    new: pl.DataFrame
    gone: pl.DataFrame
    spans: pl.DataFrame | None
    counts: dict[str, int]
    """Those of `MinedDay`."""


def bring(
    read: pl.DataFrame,
    known: pl.DataFrame,
    tasks_of: Callable[[pl.DataFrame], pl.DataFrame],
    day: date,
    last: date,
    rules: Rules,
    *,
    more: bool = False,
) -> Brought:
    """What the spans that were read for a day change, given those that are known; whole traces, all of them or some.

    `tasks_of` gives the tasks that are there of the traces of some spans. `last` is the last day so far. What was read
    takes the place of what is known of the day, or comes on top of it if there is `more` of the day than this.
    """
    polars = require("polars", "mining")
    named = read.filter(has_ids())
    in_time = named.filter((day_of("start") >= str(day - timedelta(rules.watermark))).fill_null(True))
    arrived = in_time.unique().with_columns(day=polars.lit(str(day)))
    before = known.filter(polars.col("day") == str(day))
    if more:
        arrived = polars.concat([before, arrived]).unique()
    differ = [_without(arrived, before), _without(before, arrived)]
    touched = polars.concat([rows.select("trace_id") for rows in differ]).unique()
    there = tasks_of(polars.concat([known, arrived]).join(touched, on="trace_id", how="semi"))
    strangers = touched.join(known, on="trace_id", how="anti")
    settled = strangers.join(there, on="trace_id", how="semi")
    touched = touched.join(settled, on="trace_id", how="anti")
    spans = polars.concat([known.filter(polars.col("day") != str(day)), arrived]).join(
        settled, on="trace_id", how="anti"
    )
    tasks = _tasks(spans.join(touched, on="trace_id", how="semi").drop("day"), rules)
    tasks = tasks.filter((polars.col("day") >= rules.oldest(last)).fill_null(True))
    there = there.join(touched, on="trace_id", how="semi")
    gone = there.join(tasks, on="task_id", how="anti")
    new = _without(tasks, there)
    added = len(new.join(there, on="task_id", how="anti"))
    kept = _still_open(spans, last - timedelta(2 * rules.watermark))
    same = not len(_without(kept, known)) and not len(_without(known, kept))
    counts = {
        "spans": len(arrived),
        "late": len(named) - len(in_time),
        "settled": len(settled),
        "traces": len(touched),
        "added": added,
        "changed": len(new) - added,
        "removed": len(gone),
    }
    return Brought(new, gone, None if same else kept, counts)


def read_days(table: File) -> pa.Table:
    """The tasks of a table as an Arrow table, in the order and with the columns that `mine` gives them."""
    polars = require("polars", "mining")
    tasks = polars.from_arrow(_delta(Path(table)).to_pyarrow_table(columns=list(TASK_COLUMNS)))
    return arrow_of(tasks.sort("time", "task_id", nulls_last=True), TASK_COLUMNS)


def is_days(table: File) -> bool:
    """Whether a folder is such a table."""
    return (Path(table) / "_delta_log").is_dir()


class _Days:
    """The table and the spans beside it, as one thing that changes in one step."""

    def __init__(self, folder: Path, settings: dict[str, Any]) -> None:
        self._folder = folder
        expected = {"camdf": SCHEMA, **settings}
        if not is_days(folder):
            if folder.exists() and any(folder.iterdir()):
                raise DataError(f"{folder}: must be a table of camdf's, or not be there yet. Name another folder.")
            require("deltalake", "delta").DeltaTable.create(
                folder,
                schema=arrow_schema(ROW),
                partition_by=["day"],
                name="tasks",
                description=json.dumps(expected),
            )
        self._table = _delta(folder)
        self._refuse_other(expected)

    def _refuse_other(self, expected: dict[str, Any]) -> None:
        try:
            found = json.loads(self._table.metadata().description or "")
        except ValueError:
            found = None
        if not isinstance(found, dict) or found.get("camdf") != SCHEMA:
            raise DataError(
                f"{self._folder}: must be a table of tasks with schema {SCHEMA}. Mine the days again into another."
            )
        for name, value in expected.items():
            if found.get(name) != value:
                raise UsageError(
                    f"{self._folder} was made with {name}={found.get(name)}, and every day of it must be. Got {value}."
                )

    @property
    def version(self) -> int:
        """How often the table has changed."""
        return int(self._table.version())

    @property
    def _number(self) -> int:
        """Which file of spans goes with the tasks."""
        return int(self._table.transaction_version(APP) or 0)

    def _file(self, number: int) -> Path:
        return self._folder / "_spans" / f"{number}.parquet"

    def spans(self, columns: Sequence[str]) -> pl.DataFrame:
        """The spans that are kept."""
        if not self._number:
            return no_spans(columns)
        spans: pl.DataFrame = require("polars", "mining").read_parquet(self._file(self._number))
        return spans

    def tasks(self, spans: pl.DataFrame) -> pl.DataFrame:
        """The tasks in the table of the traces of some spans; only days are read on which one of these began."""
        polars = require("polars", "mining")
        began = spans.select(day=day_of("start"))["day"].unique().drop_nulls()
        days = require("pyarrow", "mining").array(began.to_list(), "string")
        day = require("pyarrow.compute", "mining").field("day")
        found = self._table.to_pyarrow_dataset().to_table(columns=list(ROW), filter=day.isin(days) | day.is_null())
        tasks: pl.DataFrame = polars.from_arrow(found.cast(arrow_schema(ROW)))
        return tasks.join(spans, on="trace_id", how="semi")

    def commit(self, new: pl.DataFrame, gone: pl.DataFrame, spans: pl.DataFrame | None) -> None:
        """Put tasks in, take others out and let these spans stand beside them, all at once; None for the same spans."""
        delta, polars = require("deltalake", "delta"), require("polars", "mining")
        if not len(new) and not len(gone) and spans is None:
            return
        number = self._number
        if spans is not None:
            number += 1
            self._file(number).parent.mkdir(exist_ok=True)
            spans.write_parquet(self._file(number))
        named = delta.CommitProperties(app_transactions=[delta.Transaction(APP, number)])
        if not len(new) and not len(gone):  # a merge of nothing is no transaction
            delta.write_deltalake(self._table, arrow_of(new, ROW), mode="append", commit_properties=named)
        else:
            out = polars.lit(True).alias("gone"), polars.lit(False).alias("gone")
            rows = polars.concat([gone.with_columns(out[0]), new.with_columns(out[1])])
            columns = {name: f"new.{name}" for name in ROW}
            (
                self._table.merge(
                    arrow_of(rows, {**ROW, "gone": "truth"}),
                    "task.task_id = new.task_id",
                    source_alias="new",
                    target_alias="task",
                    commit_properties=named,
                )
                .when_matched_delete("new.gone")
                .when_matched_update(columns)
                .when_not_matched_insert(columns, predicate="NOT new.gone")
                .execute()
            )
        self._table = _delta(self._folder)
        for file in self._file(0).parent.glob("*.parquet"):
            if file != self._file(number):
                file.unlink()

    def forget(self, oldest: str) -> None:
        """Delete the tasks of the days before."""
        if any(day and day < oldest for day in self._partitions()):
            self._table.delete(f"day < '{oldest}'")
            self._table.vacuum(dry_run=False)

    def _partitions(self) -> list[str | None]:
        return [each.get("day") for each in self._table.partitions()]


def no_spans(columns: Sequence[str]) -> pl.DataFrame:
    """No spans, as they are kept: with the day of their arrival."""
    polars, types = require("polars", "mining"), polars_types()
    kinds = {name: types[SPAN_COLUMNS[name]] for name in columns}
    none: pl.DataFrame = polars.DataFrame(schema={**kinds, "day": polars.String})
    return none


def _delta(folder: Path) -> Any:
    return require("deltalake", "delta").DeltaTable(folder)


def day_of(column: str) -> pl.Expr:
    """The day in UTC of nanoseconds since 1970, as 2026-11-14."""
    polars = require("polars", "mining")
    days = polars.col(column).floordiv(NANOSECONDS_A_DAY).cast(polars.Int32).cast(polars.Date)
    found: pl.Expr = days.dt.to_string("%Y-%m-%d")
    return found


def _tasks(spans: pl.DataFrame, rules: Rules) -> pl.DataFrame:
    """The tasks of whole traces, as rows of the table."""
    polars = require("polars", "mining")
    mined = mine(spans, require_outcome=rules.require_outcome, with_text=rules.with_text).tasks
    ids = spans.select("trace_id", task_id=polars.concat_str("trace_id", polars.lit("/"), "span_id"))
    alone = spans.select("trace_id", task_id=polars.concat_str("trace_id", polars.lit("/")))
    traces = polars.concat([ids, alone]).unique("task_id")
    rows: pl.DataFrame = mined.join(traces, on="task_id", how="left").with_columns(day=day_of("time")).select(*ROW)
    return rows


def _still_open(spans: pl.DataFrame, since: date) -> pl.DataFrame:
    """The spans of traces of which some arrived on this day or later."""
    polars = require("polars", "mining")
    recent = spans.filter(polars.col("day") >= str(since)).select("trace_id").unique()
    return spans.join(recent, on="trace_id", how="semi")


def _without(rows: pl.DataFrame, others: pl.DataFrame) -> pl.DataFrame:
    """The rows that are not among the others, all columns taken together."""
    return rows.join(others.select(rows.columns), on=rows.columns, how="anti", nulls_equal=True)

"""A table of days on Spark: by the day, or by micro-batch of a stream.

The spans of an arrival are brought together by bucket of traces, and workers do with every bucket what one machine does
with it (`camdf_traces.buckets`). The driver commits, as on one machine (`camdf_traces.days`). Executors and driver read
and write the place of the table alike.
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Iterable, Iterator
from datetime import date, timedelta
from typing import TYPE_CHECKING, Any

from camdf.datasets.files import File
from camdf.errors import require
from camdf_traces.buckets import NANOSECONDS_AN_HOUR, Bucket, Changes, Rules, arrive
from camdf_traces.days import GRACE_HOURS, Days, MinedDay, end_of
from camdf_traces.span_files import require_span_columns
from camdf_traces.spans import NANOSECONDS_A_DAY, SPAN_COLUMNS, arrow_schema
from camdf_traces.spark.mining import SPARK_TYPES, one_thread

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

BATCH = "batch"
"""The number that commits of spans carry: the last micro-batch that is in the table."""


def mine_day(
    spans: DataFrame,
    table: File,
    day: date,
    rules: Rules | None = None,
    *,
    replace: bool = False,
    spans_a_day: int | None = None,
    grace_hours: int = GRACE_HOURS,
) -> MinedDay:
    """Bring spans that arrived on a day into a table of tasks, as `camdf_traces.days.mine_day` does."""
    days = Days.opened(table, rules or Rules(), spans.count if spans_a_day is None else lambda: spans_a_day)
    days.refuse_early(day)
    arrived = _put_down_by_workers(spans, days, day, end_of(day), replace=replace)
    return days.brought(
        arrived, day, replace=replace, grace_hours=grace_hours, map_buckets=_map_buckets(spans.sparkSession)
    )


def mine_stream(
    spans: DataFrame,
    table: File,
    checkpoint: File,
    rules: Rules | None = None,
    *,
    spans_a_day: int,
    once: bool = False,
    tell: Callable[[MinedDay], object] = print,
    clock: Callable[[], int] = time.time_ns,
) -> StreamingQuery:
    """The same for a streaming DataFrame of spans, one micro-batch after the other; `once` ends with what is there.

    The day of a micro-batch is that of its latest span that can have arrived by now, or the last one before if that is
    later. The table says which batch came last, so that one that Spark runs again after a kill counts once. One stream
    fills one table; `tell` is told what every batch brought.
    """
    ruled = rules or Rules()

    def brought(batch: DataFrame, number: int) -> None:
        days = Days.opened(table, ruled, lambda: spans_a_day)
        until = clock()
        before = days.number(BATCH)
        possible = batch.filter(batch["start"] <= until + int(ruled.ahead_hours * NANOSECONDS_AN_HOUR))
        latest = possible.agg({"start": "max"}).first()[0] or 0
        day = days.last(date(1970, 1, 1) + timedelta(latest // NANOSECONDS_A_DAY))
        known = before is not None and number <= before
        arrived = Changes() if known else _put_down_by_workers(batch, days, day, until)
        numbers = {} if known else {BATCH: number}
        tell(days.brought(arrived, day, map_buckets=_map_buckets(batch.sparkSession), numbers=numbers))

    writer = spans.writeStream.foreachBatch(brought).option("checkpointLocation", str(checkpoint))
    if once:
        writer = writer.trigger(availableNow=True)
    return writer.start()


def _put_down_by_workers(spans: DataFrame, days: Days, day: date, until: int, *, replace: bool = False) -> Changes:
    """The spans put down by workers, a bucket each."""
    require_span_columns(spans.columns)
    sql = require("pyspark.sql.functions", "spark")
    rules = days.rules
    buckets = days.all_buckets()
    columns = {name: SPAN_COLUMNS[name] for name in rules.columns()}

    def of_bucket(key: tuple[Any, ...], rows: pa.Table) -> pa.Table:
        one_thread()
        read = require("polars", "spark").from_arrow(rows.select(list(columns)).cast(arrow_schema(columns)))
        return _packed_changes([arrive(buckets[int(key[0].as_py())], read, day, until, rules, replace=replace)])

    absent = {
        name: sql.lit(None).cast(SPARK_TYPES[kind]) for name, kind in columns.items() if name not in spans.columns
    }
    named = sql.coalesce(sql.col("trace_id"), sql.lit(""))
    rows = spans.select([name for name in columns if name in spans.columns]).withColumns(absent)
    texts = {name: sql.coalesce(sql.col(name), sql.lit("")) for name, kind in columns.items() if kind == "text"}
    grouped = rows.withColumns(texts).groupBy(sql.pmod(sql.crc32(named), sql.lit(days.buckets)).alias("bucket"))
    return Changes().include(_unpacked_changes(grouped.applyInArrow(of_bucket, "changes binary")))


def _map_buckets(spark: SparkSession) -> Callable[[Callable[[Bucket], Changes], Iterable[Bucket]], Iterable[Changes]]:
    """What applies a worker's function to every bucket."""

    def map_buckets(function: Callable[[Bucket], Changes], buckets: Iterable[Bucket]) -> Iterable[Changes]:
        def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            one_thread()
            for batch in batches:
                yield from _packed_changes(
                    function(pickle.loads(bucket)) for bucket in batch["bucket"].to_pylist()
                ).to_batches()

        packed = [(pickle.dumps(bucket),) for bucket in buckets]
        return _unpacked_changes(spark.createDataFrame(packed, "bucket binary").mapInArrow(work, "changes binary"))

    return map_buckets


def _packed_changes(changes: Iterable[Changes]) -> pa.Table:
    import pyarrow

    return pyarrow.table({"changes": pyarrow.array([pickle.dumps(change) for change in changes], pyarrow.binary())})


def _unpacked_changes(rows: DataFrame) -> Iterable[Changes]:
    return [pickle.loads(row.changes) for row in rows.collect()]

"""Days that add up, on Spark: by the day, or by micro-batch of a stream.

The spans of an arrival are brought together by bucket of traces, and every bucket is worked off as a table of days on
one machine is, by the same function (`camdf.mining.days.bring`). The driver names the new versions of all buckets in
one step (`camdf.mining.buckets`). Executors and driver read and write the folder of the table alike.
"""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from camdf.datasets.files import File
from camdf.errors import require
from camdf.mining.buckets import Bucket, TableState, commit, opened
from camdf.mining.days import NANOSECONDS_A_DAY, MinedDay, Rules
from camdf.mining.span_files import require_span_columns
from camdf.mining.spans import SPAN_COLUMNS, arrow_schema
from camdf.mining.spark.mining import SPARK_TYPES

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

BUCKETS = 64
"""Into how many parts a new table is divided: each must fit into the memory of a worker."""

COUNTS = ("spans", "late", "settled", "traces", "added", "changed", "removed")


def mine_day(
    spans: DataFrame, table: File, day: date, rules: Rules | None = None, *, buckets: int = BUCKETS
) -> MinedDay:
    """Bring the spans that arrived on a day into a table of tasks, as `camdf.mining.days.mine_day` does."""
    rules = rules or Rules()
    state = opened(Path(table), rules, buckets)
    rules.refuse_early(table, day, state.last_day(day))
    return _brought(spans, Path(table), state, day, rules)


def mine_stream(
    spans: DataFrame,
    table: File,
    checkpoint: File,
    rules: Rules | None = None,
    *,
    buckets: int = BUCKETS,
    once: bool = False,
) -> StreamingQuery:
    """The same for a streaming DataFrame of spans, one micro-batch after the other; `once` ends with what is there.

    The day of a micro-batch is that of its latest span, or the last one before if that is later. The table says which
    batch came last, so that one that Spark runs again after a kill counts once. One stream fills one table.
    """
    ruled = rules or Rules()

    def brought(batch: DataFrame, number: int) -> None:
        state = opened(Path(table), ruled, buckets)
        if number <= state.batch:
            return
        latest = batch.agg({"start": "max"}).first()[0] or 0
        day = state.last_day(date(1970, 1, 1) + timedelta(latest // NANOSECONDS_A_DAY))
        _brought(batch, Path(table), state, day, ruled, number)

    writer = spans.writeStream.foreachBatch(brought).option("checkpointLocation", str(checkpoint))
    return (writer.trigger(availableNow=True) if once else writer).start()


def _brought(
    spans: DataFrame, table: Path, state: TableState, day: date, rules: Rules, batch: int | None = None
) -> MinedDay:
    require_span_columns(spans.columns)
    sql = require("pyspark.sql.functions", "spark")
    last, version, versions = state.last_day(day), state.next, state.versions
    columns = {name: SPAN_COLUMNS[name] for name in rules.columns()}

    def of_bucket(key: tuple[Any, ...], rows: pa.Table) -> pa.Table:
        os.environ.setdefault("POLARS_MAX_THREADS", "1")  # before Polars loads: Spark gives a worker one core
        import pyarrow

        number = int(key[0].as_py())
        read = require("polars", "spark").from_arrow(rows.select(list(columns)).cast(arrow_schema(columns)))
        now = Bucket.at(table, number, versions[number])
        after, counts = now.brought(read, version, day, last, rules, more=batch is not None)
        told = {name: [counts[name]] for name in COUNTS}
        return pyarrow.table({"bucket": [number], "version": [after.version], **told})

    types = "bucket bigint, version bigint, " + ", ".join(f"{name} bigint" for name in COUNTS)
    bucket = sql.pmod(sql.xxhash64("trace_id"), sql.lit(len(versions)))
    kept = spans.select([name for name in columns if name in spans.columns]).withColumn("bucket", bucket)
    absent = {n: sql.lit(None).cast(SPARK_TYPES[kind]) for n, kind in columns.items() if n not in spans.columns}
    every = spans.sparkSession.range(len(versions)).withColumnRenamed("id", "bucket")  # a bucket without spans ages too
    rows = kept.withColumns(absent).unionByName(every, allowMissingColumns=True)
    found = rows.groupBy("bucket").applyInArrow(of_bucket, types).collect()
    new = {row.bucket: row.version for row in found}
    total = sum((Counter({name: row[name] for name in COUNTS}) for row in found), Counter[str]())
    after = replace(state, versions=tuple(new[number] for number in range(len(versions))), last=str(last))
    after = after if batch is None else replace(after, batch=batch)
    if after != state:
        commit(table, after)
    return MinedDay(day, **{name: total[name] for name in COUNTS}, version=max(after.versions))

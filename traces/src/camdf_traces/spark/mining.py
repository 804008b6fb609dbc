"""Mining on Spark: the spans of a DataFrame brought together by trace, and every partition mined as on one machine.

A run never needs a span of another trace. So the spans are shuffled once, by trace, and each partition goes as Arrow
batches through the functions of `camdf_traces.tasks.mine`: there is no second version of its rules, and the tasks are
the same to the bit, whatever the partitions. Runs that may be pieces of a task (`camdf_traces.pieces`) are shuffled
once more, by conversation, and joined. Spark moves rows, retries what fails and sorts the tasks.

The counts of a partition come back as a row beside its tasks, so a partition that is run again counts once.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from camdf.errors import DataError, require
from camdf.examples.labels import NO_TOOL
from camdf.prices import ToolStatistics
from camdf_traces.delta import LEFTOVER_HOURS
from camdf_traces.pieces import joined_pieces, may_be_piece
from camdf_traces.runs import RUN_COLUMNS, TASK_COLUMNS
from camdf_traces.span_files import by_schema, require_span_columns
from camdf_traces.spans import SPAN_COLUMNS, arrow_of, no_rows
from camdf_traces.spark.session import session
from camdf_traces.tasks import COUNTED, Mined, mined_from, runs_in
from camdf_traces.usage import Usage, statistics_of, tool_counts, usage_counts, usage_of

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa
    from pyspark.sql import DataFrame

SPANS_A_PARTITION = 500_000
"""About how many spans a Python worker holds: some 300 MB."""

SPARK_TYPES = {
    "text": "string",
    "texts": "array<string>",
    "whole": "bigint",
    "numbers": "array<double>",
    "truth": "boolean",
}
MINED_COLUMNS = {**RUN_COLUMNS, "counts": "text"}
"""A row that a worker returns is a task, a run that may be a piece of one, or the counts of its partition as JSON."""


@dataclass(frozen=True)
class MinedOnSpark(Mined):
    """What `Mined` is on one machine, with the tasks as a DataFrame, sorted alike."""

    tasks: Any
    unreadable: int = field(kw_only=True)
    """Rows left out because some text in them is no UTF-8."""

    tool_statistics: dict[str, ToolStatistics] = field(kw_only=True)
    """Those of `camdf_traces.usage`, with `usage`; empty unless mined `with_statistics`."""

    usage: Usage = field(kw_only=True)
    rows: Any = field(kw_only=True, repr=False)
    """The mined rows that the executors keep on their disks."""

    def release(self) -> None:
        """Delete the rows that the executors keep; the tasks are mined again when they are next needed."""
        for rows in self.rows:
            rows.unpersist()

    def write(self, output: str | os.PathLike[str]) -> None:
        """Write the tasks as a folder of Parquet files, which is there whole or not at all, and is its owner's if new.

        They are written in a folder next to it, which only its owner can open, and take its place once all of them are
        there. What a program that was killed left goes with the first one that comes after `LEFTOVER_HOURS`.
        """
        spark = self.tasks.sparkSession
        place = os.fspath(output)
        hadoop = spark._jvm.org.apache.hadoop.fs
        final = hadoop.Path(place)
        unfinished = hadoop.Path(f"{place}.{os.urandom(6).hex()}.part")
        files = final.getFileSystem(spark._jsc.hadoopConfiguration())
        owners = hadoop.permission.FsPermission("700")
        mode = files.getFileStatus(final).getPermission() if files.exists(final) else owners
        _delete_leftovers(files, final)
        new = hadoop.Path(unfinished, "new")
        old = hadoop.Path(unfinished, "old")
        try:
            files.mkdirs(unfinished)
            files.setPermission(unfinished, owners)
            self.tasks.write.parquet(new.toString())
            files.setPermission(new, mode)
            is_moved = (not files.exists(final) or files.rename(final, old)) and files.rename(new, final)
            if not is_moved:  # Hadoop raises nothing
                files.rename(old, final)
                raise DataError(f"{place}: must be a place to which folders can be moved, and is not. Name another.")
        finally:
            files.delete(unfinished, True)

    @cached_property
    def _figures(self) -> dict[str, int]:
        sql = require("pyspark.sql.functions", "spark")
        tools = self.tasks.select(sql.explode(sql.concat("offered", "called")).alias("tool")).distinct().count()
        counts = self.tasks.agg(
            sql.count("*").alias("kept"),
            sql.count_if(sql.size("ranked") > 0).alias("ranked"),
            sql.count_if("explored").alias("explored"),
        )
        return {"tools": tools, **counts.first().asDict()}

    @property
    def kept(self) -> int:
        return self._figures["kept"]

    @property
    def ranked(self) -> int:
        return self._figures["ranked"]

    @property
    def explored(self) -> int:
        return self._figures["explored"]

    @property
    def tools(self) -> int:
        return self._figures["tools"]

    @property
    def spans_left_out(self) -> dict[str, int]:
        return {**super().spans_left_out, "with text that is no UTF-8": self.unreadable}


def mine(
    spans: DataFrame,
    *,
    require_outcome: bool = False,
    with_text: bool = False,
    with_statistics: bool = False,
    no_tool: str = NO_TOOL,
    id_key: bytes | None = None,
    spans_a_partition: int = SPANS_A_PARTITION,
) -> MinedOnSpark:
    """Tasks from a DataFrame with the columns of the span table, by the rules of `camdf_traces.tasks.mine`.

    The mined rows are kept on the executors' disks until `release` or the end of the session, so that counting, sorting
    and writing them does not mine them again.
    """
    require_span_columns(spans.columns)
    sql = require("pyspark.sql.functions", "spark")
    options = {"with_text": with_text, "no_tool": no_tool, "id_key": id_key}
    columns = [name for name in SPAN_COLUMNS if name in spans.columns and (with_text or name != "text")]
    chosen = spans.select(columns)
    together = chosen.repartition(_partitions(chosen, spans_a_partition), "trace_id")
    types = ", ".join(f"`{name}` {SPARK_TYPES[kind]}" for name, kind in MINED_COLUMNS.items())
    on_disk = require("pyspark", "spark").StorageLevel.DISK_ONLY
    rows = [together.mapInArrow(_miner(options, require_outcome, with_statistics), types).persist(on_disk)]
    counts = _counts_of_partitions(rows[0])
    if any(counted["pieces"] for counted in counts):
        pieces = rows[0].filter("waits IS NOT NULL").repartition("conversation")
        rows.append(pieces.mapInArrow(_joiner(require_outcome), types).persist(on_disk))
        counts += _counts_of_partitions(rows[1])
    seen = sum((Counter(counted["seen"]) for counted in counts), Counter[str]())
    used = sum((Counter(counted["usage"]) for counted in counts), Counter[str]())
    tools = statistics_of([_tool_counts_table({}), *(_tool_counts_table(counted["tools"]) for counted in counts)])
    mined = reduce(lambda one, other: one.union(other), rows).filter("counts IS NULL AND waits IS NULL")
    tasks = mined.select(*TASK_COLUMNS).orderBy(sql.col("time").asc_nulls_last(), "task_id")
    return MinedOnSpark(
        tasks,
        **{name: seen[name] for name in (*COUNTED, "unreadable")},
        require_outcome=require_outcome,
        tool_statistics=tools,
        usage=usage_of(used),
        rows=rows,
    )


def span_frame(tables: Sequence[Path]) -> DataFrame:
    """Parquet files of the span table as one DataFrame; columns that some of them lack are null there."""
    frames = [session().read.parquet(*map(str, files)) for files in by_schema(tables)]
    return reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), frames)


def _partitions(spans: DataFrame, at_most: int) -> int:
    """A number of partitions that a worker can hold one by one, and at least one a core."""
    count: int = spans.count()
    return max(-(-count // at_most), int(spans.sparkSession.sparkContext.defaultParallelism))


def _counts_of_partitions(mined: DataFrame) -> list[dict[str, Any]]:
    return [json.loads(row.counts) for row in mined.filter("counts IS NOT NULL").select("counts").collect()]


def _delete_leftovers(files: Any, final: Any) -> None:
    """Delete the folders that killed programs left next to a place."""
    parent = final.getParent()
    if not files.exists(parent):
        return
    name = re.compile(rf"{re.escape(final.getName())}\.[0-9a-f]{{12}}\.part")
    oldest = (time.time() - LEFTOVER_HOURS * 3600) * 1000
    for status in files.listStatus(parent):
        if name.fullmatch(status.getPath().getName()) and status.getModificationTime() < oldest:
            files.delete(status.getPath(), True)


def _miner(
    options: dict[str, Any], require_outcome: bool, with_statistics: bool
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function that a worker applies to the batches of one partition of spans."""

    def mined_partition(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        one_thread()
        unreadable = Counter[str]()
        spans = _whole_table(_readable(batch, unreadable) for batch in batches)
        if spans is None:
            return
        runs, seen = runs_in(spans, **options)
        mined = mined_from(runs.filter(~may_be_piece()), seen + unreadable, require_outcome)
        counts: dict[str, Any] = {"unreadable": unreadable["unreadable"]}
        if with_statistics:
            counts |= {"usage": usage_counts(spans), "tools": tool_counts(spans).to_dict(as_series=False)}
        yield from _mined_batches(mined, runs.filter(may_be_piece()), **counts)

    return mined_partition


def _joiner(require_outcome: bool) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function that a worker applies to the batches of one partition of runs that may be pieces."""

    def joined_partition(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        one_thread()
        rows = _whole_table(batches)
        if rows is not None:
            runs = require("polars", "spark").from_arrow(rows.select([*RUN_COLUMNS]))
            yield from _mined_batches(mined_from(joined_pieces(runs), {}, require_outcome), runs.clear())

    return joined_partition


def _whole_table(batches: Iterable[pa.RecordBatch]) -> pa.Table | None:
    some = list(batches)
    if not some:
        return None
    table: pa.Table = require("pyarrow", "spark").Table.from_batches(some)
    return table.combine_chunks()  # a hundred small ones are slow to read


def _mined_batches(mined: Mined, pieces: pl.DataFrame, unreadable: int = 0, **counts: Any) -> Iterator[pa.RecordBatch]:
    """What a worker returns: tasks, runs that may be pieces, and the counts."""
    polars = require("polars", "spark")
    seen = {name: getattr(mined, name) for name in COUNTED} | {"unreadable": unreadable}
    counted = json.dumps({"usage": {}, "tools": {}, "seen": seen, "pieces": len(pieces), **counts})
    parts = [no_rows(MINED_COLUMNS), mined.tasks, pieces, polars.DataFrame({"counts": [counted]})]
    yield from arrow_of(polars.concat(parts, how="diagonal"), MINED_COLUMNS).to_batches(max_chunksize=10_000)


def one_thread() -> None:
    """Before Polars loads: Spark gives a worker one core."""
    os.environ.setdefault("POLARS_MAX_THREADS", "1")


def _readable(batch: pa.RecordBatch, seen: Counter[str]) -> pa.RecordBatch:
    """The rows whose text is UTF-8. Spark does not check it, and everything after this relies on it."""
    if _is_text(batch):
        return batch
    good = [_is_text(batch.slice(row, 1)) for row in range(len(batch))]
    seen["unreadable"] += good.count(False)
    seen["spans"] += good.count(False)
    return batch.filter(require("pyarrow", "spark").array(good))


def _is_text(batch: pa.RecordBatch) -> bool:
    import pyarrow as pa

    columns = (column.flatten() if pa.types.is_list(column.type) else column for column in batch.columns)
    return all(_is_utf8(column) for column in columns if pa.types.is_string(column.type))


def _is_utf8(texts: pa.StringArray) -> bool:
    """Whether the whole buffer decodes and no text begins within a character, which is quicker than text by text."""
    _, offsets, data = texts.buffers()
    if data is None or not len(texts):
        return True
    starts = np.frombuffer(offsets, dtype=np.int32)[texts.offset : texts.offset + len(texts) + 1]
    characters = np.frombuffer(data, dtype=np.uint8)
    try:
        characters[starts[0] : starts[-1]].tobytes().decode()
    except UnicodeDecodeError:
        return False
    first = characters[starts[:-1][np.diff(starts) > 0]]
    return not bool(((first & 0b1100_0000) == 0b1000_0000).any())


def _tool_counts_table(columns: dict[str, list[Any]]) -> pl.DataFrame:
    polars = require("polars", "spark")
    numbers = ("calls", "failures", "timed", "microseconds")
    table: pl.DataFrame = polars.DataFrame(
        columns, schema={"name": polars.String} | dict.fromkeys(numbers, polars.Int64)
    )
    return table

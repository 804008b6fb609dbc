"""Mining on Spark: the spans of a DataFrame brought together by trace, and every partition mined as on one machine.

A task never needs a span of another trace. So the spans are shuffled once, by trace, and each partition goes as Arrow
batches through `camdf.mining.tasks.mine` itself: there is no second version of its rules, and the tasks are the same to
the bit, whatever the partitions. Spark moves rows, retries what fails and sorts the tasks.

What a partition counted comes back as a row beside its tasks, so a partition that is run again counts once.
"""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property, reduce
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from camdf.mining.parts import NEEDED, alike, in_parts, load_polars
from camdf.mining.spans import COLUMNS
from camdf.mining.statistics import Usage, statistics_of, tool_counts, usage_counts, usage_of
from camdf.mining.tasks import DISCOVERY, TASK, Mined
from camdf.mining.tasks import mine as mine_table
from camdf.policies.linear import MissingExtraError
from camdf.prices import ToolStatistics

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

SPANS_A_PARTITION = 500_000
"""How many spans a Python worker holds, about: some 300 MB."""

TYPES = {
    "task_id": "string",
    "conversation": "string",
    "group": "string",
    "time": "bigint",
    "offered": "array<string>",
    "ranked": "array<string>",
    "scores": "array<double>",
    "called": "array<string>",
    "success": "boolean",
    "explored": "boolean",
    "text": "string",
}
"""The columns of a task as Spark names their types."""

COUNTED = tuple(each.name for each in fields(Mined) if each.name not in ("tasks", "require_outcome"))


@dataclass(frozen=True)
class MinedOnSpark(Mined):
    """What `Mined` is on one machine, with the tasks as a DataFrame, sorted alike."""

    tasks: Any
    unreadable: int = field(kw_only=True)
    """Rows left out because some text in them is no UTF-8."""

    tool_statistics: dict[str, ToolStatistics] = field(kw_only=True)
    """As those of `camdf.mining.statistics`, with `usage`; empty unless they were asked for."""

    usage: Usage = field(kw_only=True)
    rows: Any = field(kw_only=True, repr=False)
    """What the executors keep of it on their disks."""

    def release(self) -> None:
        """Let the executors forget what they keep; the tasks are mined again where they are asked for again."""
        self.rows.unpersist()

    @cached_property
    def _figures(self) -> dict[str, int]:
        sql = pyspark("sql.functions")
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

    def __str__(self) -> str:
        unreadable = f"\n{self.unreadable:,} rows hold text that is no UTF-8, and were left out."
        return super().__str__() + (unreadable if self.unreadable else "")


def mine(
    spans: DataFrame,
    *,
    require_outcome: bool = False,
    with_text: bool = False,
    with_statistics: bool = False,
    discovery: str = DISCOVERY,
    spans_a_partition: int = SPANS_A_PARTITION,
) -> MinedOnSpark:
    """Tasks from a DataFrame with the columns of the span table, as `camdf.mining.tasks.mine` on one machine.

    The mined rows are kept on the executors' disks until `release` or the end of the session, so that counting, sorting
    and writing them does not mine them again.
    """
    sql = pyspark("sql.functions")
    options = {"require_outcome": require_outcome, "with_text": with_text, "discovery": discovery}
    next(in_parts(load_polars().DataFrame({name: [] for name in spans.columns}), NEEDED))  # says what is missing
    columns = [name for name in COLUMNS if name in spans.columns and (with_text or name != "text")]
    chosen = spans.select(columns)
    together = chosen.repartition(_partitions(chosen, spans_a_partition), "trace_id")
    mined = together.mapInArrow(_mining(options, with_statistics), _ddl({**TYPES, "counts": "string"}))
    mined = mined.persist(pyspark().StorageLevel.DISK_ONLY)
    reports = [json.loads(row.counts) for row in mined.filter("counts IS NOT NULL").select("counts").collect()]
    seen, used = (sum((Counter(each[part]) for each in reports), Counter[str]()) for part in ("seen", "usage"))
    tools = statistics_of([_tool_counts({}), *(_tool_counts(each["tools"]) for each in reports)])
    tasks = mined.filter("counts IS NULL").select(*TASK).orderBy(sql.col("time").asc_nulls_last(), "task_id")
    counts = {name: seen[name] for name in (*COUNTED, "unreadable")}
    return MinedOnSpark(
        tasks, **counts, require_outcome=require_outcome, tool_statistics=tools, usage=usage_of(used), rows=mined
    )


def read(tables: Sequence[Path]) -> DataFrame:
    """Parquet files of the span table as one DataFrame; columns that some of them lack are null there."""
    frames = [session().read.parquet(*map(str, files)) for files in alike(tables)]
    return reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), frames)


def session() -> SparkSession:
    """The session that spark-submit or the notebook made, else a local one on all cores, in this very Python."""
    if "PYSPARK_GATEWAY_PORT" not in os.environ:  # which spark-submit sets; its executors have a Python of their own
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    return pyspark("sql").SparkSession.builder.appName("camdf").getOrCreate()


def pyspark(module: str = "") -> Any:
    """PySpark, or one of its modules, or the words that say how to get it."""
    try:
        return import_module(f"pyspark.{module}" if module else "pyspark")
    except ImportError as error:
        raise MissingExtraError("Spark needs PySpark 4. Install: pip install 'camdf[spark]'") from error


def _partitions(spans: DataFrame, at_most: int) -> int:
    """Enough that a worker can hold each, and one a core at least."""
    count: int = spans.count()
    return max(-(-count // at_most), int(spans.sparkSession.sparkContext.defaultParallelism))


def _ddl(types: dict[str, str]) -> str:
    return ", ".join(f"`{name}` {kind}" for name, kind in types.items())


def _mining(
    options: dict[str, Any], with_statistics: bool
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """What a worker does with the batches of one partition."""

    def mined_partition(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        os.environ.setdefault("POLARS_MAX_THREADS", "1")  # Spark gives a worker one core
        import pyarrow as pa

        seen = Counter[str]()
        readable = [_readable(batch, seen) for batch in batches]
        if not readable:
            return
        spans = pa.Table.from_batches(readable).combine_chunks()  # a hundred small batches are slow to read
        mined = mine_table(spans, **options)
        seen.update({name: getattr(mined, name) for name in COUNTED})
        schema = _arrow_schema()
        tasks = mined.tasks.to_arrow().append_column("counts", pa.nulls(len(mined.tasks), pa.string()))
        yield from tasks.cast(schema).to_batches(max_chunksize=10_000)
        counts: dict[str, Any] = {"seen": seen, "usage": {}, "tools": {}}
        if with_statistics:
            counts |= {"usage": usage_counts(spans), "tools": tool_counts(spans).to_dict(as_series=False)}
        yield pa.RecordBatch.from_pylist([{"counts": json.dumps(counts)}], schema=schema)

    return mined_partition


def _readable(batch: pa.RecordBatch, seen: Counter[str]) -> pa.RecordBatch:
    """The rows whose text is UTF-8. Spark does not look at it, and everything after this relies on it."""
    if _is_text(batch):
        return batch
    good = [_is_text(batch.slice(row, 1)) for row in range(len(batch))]
    seen["unreadable"] += good.count(False)
    seen["spans"] += good.count(False)
    return batch.filter(import_module("pyarrow").array(good))


def _is_text(batch: pa.RecordBatch) -> bool:
    import pyarrow as pa

    columns = (column.flatten() if pa.types.is_list(column.type) else column for column in batch.columns)
    return all(_is_utf8(column) for column in columns if pa.types.is_string(column.type))


def _is_utf8(texts: pa.StringArray) -> bool:
    """Whether all of it decodes and no text begins within a character, which is quicker than one by one."""
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


def _tool_counts(columns: dict[str, list[Any]]) -> pl.DataFrame:
    polars = load_polars()
    numbers = ("calls", "failures", "timed", "microseconds")
    found: pl.DataFrame = polars.DataFrame(
        columns, schema={"name": polars.String} | dict.fromkeys(numbers, polars.Int64)
    )
    return found


def _arrow_schema() -> pa.Schema:
    import pyarrow as pa

    types = {"string": pa.string(), "bigint": pa.int64(), "double": pa.float64(), "boolean": pa.bool_()}
    types |= {f"array<{name}>": pa.list_(kind) for name, kind in types.items()}
    return pa.schema([(name, types[kind]) for name, kind in {**TYPES, "counts": "string"}.items()])

"""The fit on Spark: mined tasks packed once into blocks, and each pass of the fit as one sum over the blocks.

A block is some thousand logged tasks in the core's own arrays, whole groups of them. Their rows exist only inside a
worker, while `camdf.models.newton` or `camdf.models.warm_passes` takes the sums of a block. The sums of blocks are
added where they are, those of partitions by other workers, and the driver gets at most `SUMS_AT_ONCE` of them.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, reduce
from operator import add
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from camdf.core.groups import numbered
from camdf.core.payoff import Payoff
from camdf.core.rankings import LoggedTasks
from camdf.errors import DataError, require
from camdf.mining.logged import LEARNED_COLUMNS, learnable, logged_tasks
from camdf.models.linear import LinearModel
from camdf.models.newton import T, over
from camdf.policies.by_set import ExpectedPayoffBySet
from camdf.policies.camdf import CAMDF

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

TASKS_A_BLOCK = 4096
"""The number of tasks at which a block ends with its group."""

TASKS_A_PARTITION = 100_000
"""About how many tasks a worker packs one after the other."""

SUMS_AT_ONCE = 16
"""The most sums that a worker, or the driver, adds up: where there are more partitions, workers add theirs first."""

BLOCK_TYPES = "tasks bigint, unranked bigint, refused bigint, shared array<string>, block binary"
"""A row of blocks: the tasks as bytes, their number, the numbers left out, and the catalogue if they share one."""

SAMPLED = 100_000
"""The number of tasks in the sample for policies that need all of their tasks in one place."""


Learner = TypeVar("Learner", CAMDF, ExpectedPayoffBySet)


@dataclass(frozen=True, eq=False)
class Blocks:
    """Logged tasks on a cluster: a DataFrame of blocks, with the counts of tasks packed and left out."""

    rows: DataFrame
    """Their types are `BLOCK_TYPES`."""

    @cached_property
    def _counts(self) -> dict[str, int]:
        counted = self.rows.groupBy().sum("tasks", "unranked", "refused").toDF("tasks", "unranked", "refused")
        return {name: count or 0 for name, count in counted.first().asDict().items()}

    def __len__(self) -> int:
        return self._counts["tasks"]

    @property
    def unranked(self) -> int:
        """Mined tasks left out because no gate ranked them."""
        return self._counts["unranked"]

    @property
    def refused(self) -> int:
        """Rows left out because they are broken: without an id, or with names and scores that do not fit."""
        return self._counts["refused"]

    @cached_property
    def tools(self) -> tuple[str, ...]:
        """The catalogue that every task lists, by name; () where there is none."""
        catalogues = self.rows.filter("tasks > 0").select("shared").distinct().take(2)
        return tuple(catalogues[0].shared or ()) if len(catalogues) == 1 else ()

    @cached_property
    def _partitions(self) -> int:
        return int(self.rows.rdd.getNumPartitions())

    def total(self, of: Callable[[LoggedTasks], T], /) -> T:
        """The sum over all blocks of a function's value for each: the `Total` of `camdf.models.newton`."""

        def summed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            values = (of(pickle.loads(block.as_buffer())) for batch in batches for block in batch.column("block"))
            yield from _summed(values)

        partitions, found = self._partitions, self._filled().mapInArrow(summed, "sum binary")
        while partitions > SUMS_AT_ONCE:
            partitions = -(-partitions // SUMS_AT_ONCE)
            found = found.repartition(partitions).mapInArrow(_added, "sum binary")
        values: list[T] = [pickle.loads(row.sum) for row in found.collect()]
        return reduce(add, values)

    def one(self) -> LoggedTasks:
        """The tasks of one block."""
        logged: LoggedTasks = pickle.loads(self._filled().first().block)
        return logged

    def require_some(self) -> None:
        """Raise where there is nothing to learn from, and say what was left out."""
        if not len(self):
            raise DataError(f"There is nothing to learn from: {self}")

    def _filled(self) -> DataFrame:
        self.require_some()
        return self.rows.filter("tasks > 0").select("block")

    def __str__(self) -> str:
        return (
            f"{len(self):,} tasks to learn from; {self.unranked:,} have no ranking and {self.refused:,} rows are "
            "broken, and were left out."
        )


def pack(tasks: DataFrame, prices: Mapping[str, float] | None = None) -> Blocks:
    """Mined tasks as blocks, at the prices of `logged_tasks`. They stay with the executors until the session ends."""
    missing = [name for name in LEARNED_COLUMNS if name not in tasks.columns]
    if missing:
        raise DataError(f"The column {missing[0]!r} of mined tasks must be there, and is missing. Use camdf mine.")

    def packed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for some in _whole_groups(batches):
            yield _row(_block(some, prices))

    learned = tasks.select(*LEARNED_COLUMNS)
    cores = int(tasks.sparkSession.sparkContext.defaultParallelism)
    together = learned.repartition(max(-(-learned.count() // TASKS_A_PARTITION), cores), "group")
    return Blocks(together.sortWithinPartitions("group").mapInArrow(packed, BLOCK_TYPES).persist())


def blocks_of(spark: SparkSession, logged: LoggedTasks, partitions: int = 2) -> Blocks:
    """Logged tasks of this process as blocks on a cluster."""
    group, groups = numbered(logged.groups)
    number = group * partitions // max(groups, 1)
    pieces = [logged.take(number == each) for each in np.unique(number)]
    rows = [(len(piece), 0, 0, _shared(piece), pickle.dumps(piece)) for piece in pieces]
    return Blocks(spark.createDataFrame(rows, BLOCK_TYPES).repartition(partitions).persist())


def fit_on_blocks(policy: Learner, blocks: Blocks, payoff: Payoff, start: LinearModel | None = None) -> Learner:
    """The policy, fitted by Newton's method on every task of the blocks (`fit_in_passes` of either policy).

    CAM-DF begins from `start`, or from the fit on one block, which spares about half of the passes.
    """
    if isinstance(policy, ExpectedPayoffBySet):
        return policy.fit_in_passes(blocks.total, payoff, blocks.tools)
    if start is None:
        start = policy.fit_in_passes(over([blocks.one()]), payoff, blocks.tools).model_
    return policy.fit_in_passes(blocks.total, payoff, blocks.tools, start)


def sampled_tasks(tasks: DataFrame, at_most: int = SAMPLED, seed: int = 0) -> pl.DataFrame:
    """About `at_most` tasks to learn from, whole groups chosen by a hash of their name; all where there are fewer."""
    sql = require("pyspark.sql.functions", "spark")
    ranked = tasks.filter(sql.size("ranked") > 0)
    share = at_most / max(ranked.count(), 1)
    if share < 1:
        ranked = ranked.filter(sql.pmod(sql.xxhash64("group", sql.lit(seed)), sql.lit(1_000_000)) < share * 1_000_000)
    found: pl.DataFrame = require("polars", "spark").from_arrow(ranked.toArrow())
    if found.is_empty():
        raise DataError(
            f"No whole group fits into a sample of {at_most:,} tasks. Look at the column 'group': nearly all tasks "
            "share one, such as a conversation that never ends."
        )
    return found.filter(learnable()).sort("time", "task_id", nulls_last=True)


def _whole_groups(batches: Iterator[pa.RecordBatch]) -> Iterator[pl.DataFrame]:
    """Tables of at least `TASKS_A_BLOCK` tasks, the last one aside, from batches in the order of their groups."""
    polars = require("polars", "spark")
    held = None
    for batch in batches:
        some = polars.from_arrow(batch)
        held = some if held is None else polars.concat([held, some])
        ended = len(held) - held["group"].eq_missing(held["group"][-1:]).sum() if len(held) else 0
        if ended >= TASKS_A_BLOCK:
            yield held[:ended]
            held = held[ended:]
    if held is not None:
        yield held


def _block(tasks: pl.DataFrame, prices: Mapping[str, float] | None) -> dict[str, Any]:
    unranked = tasks.filter(require("polars", "spark").col("ranked").list.len() == 0)
    good = tasks.filter(learnable())
    logged = logged_tasks(good, prices) if len(good) else None
    return {
        "tasks": len(good),
        "unranked": len(unranked),
        "refused": len(tasks) - len(unranked) - len(good),
        "shared": None if logged is None else _shared(logged),
        "block": b"" if logged is None else pickle.dumps(logged),
    }


def _shared(logged: LoggedTasks) -> list[str] | None:
    return sorted(logged.rankings.catalogue) if logged.rankings.shares_catalogue else None


def _added(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The sum of sums."""
    yield from _summed(pickle.loads(value.as_buffer()) for batch in batches for value in batch.column("sum"))


def _summed(values: Iterator[Any]) -> Iterator[pa.RecordBatch]:
    """One row with the sum; none where there is no value. No more than two are in memory at a time."""
    for first in values:
        yield _row({"sum": pickle.dumps(reduce(add, values, first))})


def _row(values: dict[str, Any]) -> pa.RecordBatch:
    import pyarrow as pa

    types = {"shared": pa.list_(pa.string()), "block": pa.binary(), "sum": pa.binary()}
    schema = pa.schema([(name, types.get(name, pa.int64())) for name in values])
    return pa.RecordBatch.from_pylist([values], schema=schema)

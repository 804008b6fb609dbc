"""The fit on Spark: mined tasks packed once into blocks, and each pass of the fit as one sum over the blocks.

A block is some thousand logged tasks in the core's own arrays. Their prefix states exist only inside a worker, while
`camdf.models.newton` takes the sums of a block; a partition sends back one gradient and one Hessian.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, reduce
from operator import add
from typing import TYPE_CHECKING, Any

from camdf.core.payoff import Payoff
from camdf.core.rankings import LoggedTasks
from camdf.errors import DataError, require
from camdf.mining.logged import LEARNED_COLUMNS, learnable, logged_tasks
from camdf.models.linear import LinearModel
from camdf.models.newton import T, over
from camdf.policies.camdf import CAMDF

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

TASKS_A_BLOCK = 4096

BLOCK_TYPES = "tasks bigint, unranked bigint, refused bigint, shared array<string>, block binary"
"""A row of blocks: the tasks as bytes, their number, the numbers left out, and the catalogue if they share one."""

SAMPLED = 100_000
"""The number of tasks in the sample for policies that need all of their tasks in one place."""


@dataclass(frozen=True, eq=False)
class Blocks:
    """Logged tasks on a cluster: a DataFrame of blocks, with the counts of tasks packed and left out."""

    rows: DataFrame
    """Their types are `BLOCK_TYPES`."""

    @cached_property
    def _packed(self) -> list[Any]:
        return list(self.rows.select("tasks", "unranked", "refused", "shared").collect())

    def __len__(self) -> int:
        return sum(row.tasks for row in self._packed)

    @property
    def unranked(self) -> int:
        """Mined tasks left out because no gate ranked them."""
        return sum(row.unranked for row in self._packed)

    @property
    def refused(self) -> int:
        """Rows left out because they are broken: without an id, or with names and scores that do not fit."""
        return sum(row.refused for row in self._packed)

    @property
    def tools(self) -> tuple[str, ...]:
        """The catalogue that every task lists, by name; () where there is none."""
        catalogues = {None if row.shared is None else tuple(row.shared) for row in self._packed if row.tasks}
        (shared,) = catalogues if len(catalogues) == 1 else (None,)
        return shared or ()

    def total(self, of: Callable[[LoggedTasks], T], /) -> T:
        """The sum over all blocks of a function's value for each: the `Total` of `camdf.models.newton`."""

        def summed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            values = [of(pickle.loads(block.as_buffer())) for batch in batches for block in batch.column("block")]
            if values:
                yield _row({"sum": pickle.dumps(reduce(add, values))})

        found = self._filled().mapInArrow(summed, "sum binary").collect()
        values: list[T] = [pickle.loads(row.sum) for row in found]
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
        for batch in batches:
            for start in range(0, len(batch), TASKS_A_BLOCK):
                some = require("polars", "spark").from_arrow(batch.slice(start, TASKS_A_BLOCK))
                yield _row(_block(some, prices))

    return Blocks(tasks.select(*LEARNED_COLUMNS).mapInArrow(packed, BLOCK_TYPES).persist())


def blocks_of(spark: SparkSession, logged: LoggedTasks, partitions: int = 2) -> Blocks:
    """Logged tasks of this process as blocks on a cluster."""
    size = max(1, -(-len(logged) // partitions))
    pieces = [logged.take(slice(start, start + size)) for start in range(0, len(logged), size)]
    rows = [(len(piece), 0, 0, _shared(piece), pickle.dumps(piece)) for piece in pieces]
    return Blocks(spark.createDataFrame(rows, BLOCK_TYPES).repartition(partitions).persist())


def fit_on_blocks(policy: CAMDF, blocks: Blocks, payoff: Payoff, start: LinearModel | None = None) -> CAMDF:
    """The policy, fitted by Newton's method on every task of the blocks (`CAMDF.fit_in_passes`).

    Without a `start` it begins from the fit on one block, which spares about half of the passes.
    """
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


def _row(values: dict[str, Any]) -> pa.RecordBatch:
    import pyarrow as pa

    types = {"shared": pa.list_(pa.string()), "block": pa.binary(), "sum": pa.binary()}
    schema = pa.schema([(name, types.get(name, pa.int64())) for name in values])
    return pa.RecordBatch.from_pylist([values], schema=schema)

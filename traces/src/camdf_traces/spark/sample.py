"""A sample of mined tasks that fits in one place, drawn on Spark, in which rare tools keep their tasks.

A fit gains nothing from millions of tasks (traces/docs/spark.md), but it knows a tool only by the tasks that list it.
So a tool's share is the overall share, or larger where that would leave fewer than `a_tool` of its tasks:

    share of a tool = max(at_most / tasks, a_tool / tasks that list it)

Every task has one number between 0 and 1, a hash of its id, and is kept where the share of any tool in its list exceeds
that number. What a task required plays no part, so that labels are as frequent in the sample as they were.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from camdf.errors import DataError, require
from camdf_traces.logged import LEARNED_COLUMNS, learnable

if TYPE_CHECKING:
    import polars as pl
    from pyspark.sql import DataFrame

SAMPLED = 20_000
"""About how many tasks a sample holds, besides those that it has for rare tools."""

A_TOOL = 100
"""About how many tasks list each tool at least; all that do, where there are fewer."""

PLACES = 1 << 30
"""How many different numbers a task may get."""


@dataclass(frozen=True, eq=False)
class Sample:
    """Mined tasks on the driver, in the order of `camdf mine`, and what was left out of them."""

    tasks: pl.DataFrame
    ranked: int
    """Tasks with a ranking, sampled or not."""

    unranked: int
    """Tasks left out because no gate ranked them."""

    broken: int
    """Rows of the sample left out: without an id, or with names and scores that do not fit."""

    for_rare_tools: int
    """Tasks in the sample only because a tool in their list is rare."""

    a_tool: int
    """About how many tasks list each tool at least."""

    def __str__(self) -> str:
        left_out = f"{self.unranked:,} more have no ranking, and {self.broken:,} rows are broken; they were left out."
        kept = len(self.tasks)
        if kept + self.broken == self.ranked:
            return f"All {kept:,} tasks with a ranking; {left_out}"
        return (
            f"A sample of {kept:,} of {self.ranked:,} tasks with a ranking, {self.for_rare_tools:,} of them for tools "
            f"that few tasks list: each tool keeps about {self.a_tool:,} tasks, or all that it has. {left_out}"
        )


def sampled(tasks: DataFrame, at_most: int = SAMPLED, a_tool: int = A_TOOL, seed: int = 0) -> Sample:
    """About `at_most` mined tasks, and about as many again at most for rare tools; all where there are no more."""
    missing = [name for name in LEARNED_COLUMNS if name not in tasks.columns]
    if missing:
        raise DataError(f"The column {missing[0]!r} of mined tasks must be there, and is missing. Use camdf mine.")
    polars = require("polars", "spark")
    sql = require("pyspark.sql.functions", "spark")
    ranked = tasks.filter(sql.size("ranked") > 0)
    every, count = tasks.agg(sql.count("*"), sql.count_if(sql.size("ranked") > 0)).first()
    place = sql.pmod(sql.xxhash64("task_id", sql.lit(seed)), sql.lit(PLACES)) / PLACES
    share = at_most / max(count, 1)
    kept = ranked.withColumn("place", place)
    if share < 1:
        listed = ranked.select("task_id", place.alias("place"), sql.explode("ranked").alias("tool"))
        tools = listed.groupBy("tool").count()
        a_tool = min(a_tool, at_most // tools.count())
        shares = tools.select("tool", sql.greatest(sql.lit(share), a_tool / sql.col("count")).alias("share"))
        chosen = listed.join(sql.broadcast(shares), "tool").filter("place < share").select("task_id").distinct()
        kept = kept.join(sql.broadcast(chosen), "task_id", "left_semi")
    rows: pl.DataFrame = polars.from_arrow(kept.select(*tasks.columns, "place").toArrow())
    good = rows.filter(learnable())
    if good.is_empty():
        raise DataError(
            f"There is nothing to learn from: of {every:,} tasks {every - count:,} have no ranking, and {len(rows):,} "
            "rows are broken. Look at the columns 'ranked' and 'scores'."
        )
    return Sample(
        good.drop("place").sort([name for name in ("time", "task_id") if name in good.columns], nulls_last=True),
        ranked=count,
        unranked=every - count,
        broken=len(rows) - len(good),
        for_rare_tools=len(good.filter(polars.col("place") >= share)),
        a_tool=a_tool,
    )

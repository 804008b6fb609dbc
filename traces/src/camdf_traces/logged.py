"""Mined tasks to logged tasks, which policies learn from: what a run called is what its task required."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from camdf.core.rankings import Floats, GatedTasks, LoggedTasks, Rankings
from camdf.core.vectors import at_length_one
from camdf.datasets.files import File
from camdf.datasets.parquet import columns_of, tables_of
from camdf.datasets.records import FOR_SCORES, list_of_names, numbers, refuse, text
from camdf.errors import DataError, require
from camdf.examples.mined import AskedBy, Uncensored
from camdf_traces.runs import TASK_COLUMNS, TO_GET_RANKINGS, has_usable_ranking, unranked
from camdf_traces.spans import polars_types

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa

LEARNED_COLUMNS = ("task_id", "group", "ranked", "scores", "called")
"""The columns of a mined task that become a logged task."""

OF_A_GATE = ("offered", "explored")
"""Those that say what a gate did, where there was one."""


def logged_tasks(mined: pl.DataFrame, prices: Mapping[str, float] | None = None) -> LoggedTasks:
    """The mined tasks that a gate ranked, ready to learn from; of the columns only `LEARNED_COLUMNS` are needed.

    `vector`, the direction of what was asked (`camdf score --vectors`), is read where every ranked task has one.

    Each list is ordered by score, largest first, and then by name. A called tool that the ranking lacks is required and
    missing from the list. `prices` maps every tool to its cost; each costs 1 without it. Tasks without a ranking are
    left out; where all are, an error says what to do.
    """
    polars = require("polars", "mining")
    ranked = mined.filter(polars.col("ranked").list.len() > 0).with_row_index("row")
    if ranked.is_empty():
        raise DataError(unranked(len(mined)) if len(mined) else "There are no mined tasks. Mine more traces.")
    called = ranked.select("row", tool="called").explode("tool").drop_nulls().with_columns(required=True)
    listed = (
        ranked.select("row", "scores", tool="ranked")
        .explode("tool", "scores")
        .sort("row", "scores", "tool", descending=[False, True, False])
        .join(called, on=["row", "tool"], how="left", maintain_order="left")
    )
    catalogue = listed["tool"].unique(maintain_order=True)
    by_tool = polars.DataFrame({"tool": catalogue}).with_row_index("id")
    ids = listed.select("tool").join(by_tool, on="tool", how="left", maintain_order="left")["id"]
    lengths = ranked["ranked"].list.len().to_numpy().astype(np.int64)
    filled = np.arange(lengths.max()) < lengths[:, None]
    scores = np.zeros(filled.shape)
    tool_ids = np.full(filled.shape, -1)
    required = np.zeros(filled.shape, dtype=bool)
    scores[filled] = listed["scores"].to_numpy()
    tool_ids[filled] = ids.to_numpy()
    required[filled] = listed["required"].fill_null(False).to_numpy()
    vectors = _vectors(ranked)
    rankings = Rankings(scores, filled.astype(np.float64), lengths, tool_ids, tuple(catalogue), vectors=vectors)
    if prices is not None:
        rankings = rankings.with_costs(prices)
    return LoggedTasks(
        rankings,
        required,
        ranked["called"].list.len().to_numpy().astype(np.int64),
        np.array(ranked["task_id"].to_list(), dtype=np.str_),
        np.array(ranked["group"].to_list(), dtype=np.str_),
    )


def asked_in(mined: pl.DataFrame) -> dict[str, AskedBy]:
    """By id, what was asked in mined tasks."""
    polars = require("polars", "mining")
    columns = [polars.col(name) if name in mined.columns else polars.lit("").alias(name) for name in AskedBy._fields]
    rows = mined.select("task_id", *(column.fill_null("") for column in columns)).iter_rows()
    return {task_id: AskedBy(*known) for task_id, *known in rows}


def _vectors(ranked: pl.DataFrame) -> Floats | None:
    """(n, d): what was asked, if every task has a vector, and all have equally many numbers."""
    polars = require("polars", "mining")
    if "vector" not in ranked.columns or ranked["vector"].has_nulls():
        return None
    sizes = ranked["vector"].list.len().unique().to_list()
    if len(sizes) != 1 or sizes[0] == 0:
        return None
    flat = ranked["vector"].explode().cast(polars.Float64).to_numpy()
    if not np.isfinite(flat).all():
        return None
    return at_length_one(flat.reshape(len(ranked), -1))


def learnable() -> pl.Expr:
    """A mined row to learn from, whatever wrote it: ids, a usable ranking, and every called name once."""
    polars = require("polars", "mining")
    called = polars.col("called")
    known = polars.all_horizontal(polars.col("task_id", "group").is_not_null())
    holds: pl.Expr = (
        known
        & (polars.col("ranked").list.len() > 0)
        & has_usable_ranking()
        & (called.list.len() == called.list.n_unique())
    )
    return holds


def holds_mined_tasks(path: File) -> bool:
    """Whether a path holds mined tasks as `camdf mine` writes them: Parquet, a folder of it, or a table of days."""
    if _is_days(path):
        return True
    may_be = Path(path).is_dir() or Path(path).suffix == ".parquet"
    return may_be and {"ranked", "called"} <= set(columns_of(path))


def _is_days(path: File) -> bool:
    """Whether a place is a table of days. A file is none, and needs nothing that reads traces."""
    if Path(path).is_file():
        return False
    from camdf_traces.days import is_days

    return is_days(path)


def mined_table(path: File) -> pa.Table:
    """The mined tasks of a Parquet file, of a folder of them in the order of their names, or of a table of days."""
    if _is_days(path):
        from camdf_traces.days import read_days

        return read_days(path)
    table: pa.Table = require("pyarrow", "mining").concat_tables(tables_of(path)).combine_chunks()
    return table


def read_mined(path: File) -> LoggedTasks:
    """Logged tasks from a table that `camdf mine` wrote."""
    return logged_tasks(_with_rankings(path, _some_mined(path)))


def read_uncensored_mined(path: File) -> Uncensored:
    """What `read_mined` gives, without the tasks from which a gate had cut tools, as far as there are others."""
    polars = require("polars", "mining")
    ranked = _with_rankings(path, _some_mined(path))
    cut = (~polars.col("explored")).fill_null(False)
    whole = ranked.filter(~cut)
    logged = everything = logged_tasks(ranked)
    gated = None
    if 0 < len(whole) < len(ranked):
        logged = logged_tasks(whole)
        gated = _gated_tasks(ranked.filter(cut))
    return Uncensored(
        logged,
        len(everything) - len(logged),
        told=bool(ranked["explored"].any()),
        censored=whole.is_empty(),
        digests=frozenset([logged.digest(), everything.digest()]),
        gated=gated,
    )


def _gated_tasks(cut: pl.DataFrame) -> GatedTasks | None:
    """Tasks from which a gate had cut tools, where somebody recorded what was left; None where there are none.

    A tool that was called though it was not offered was searched for: what else was needed and not found nobody knows,
    so such calls say nothing.
    """
    polars = require("polars", "mining")
    recorded = cut.filter(polars.col("offered").list.len() > 0)
    if recorded.is_empty():
        return None
    offered = logged_tasks(recorded.with_columns(called="offered")).required
    of_those = polars.col("called").list.set_intersection("offered")
    return GatedTasks(logged_tasks(recorded.with_columns(called=of_those)), offered)


def _some_mined(path: File) -> pl.DataFrame:
    mined = _learned_columns(path, require("polars", "mining").from_arrow(mined_table(path)))
    if mined.is_empty():
        raise DataError(f"{path}: must hold at least one task, and is empty. Mine more traces.")
    return mined


def _with_rankings(path: File, mined: pl.DataFrame) -> pl.DataFrame:
    """The tasks with a ranking, which must all be as they should be."""
    polars = require("polars", "mining")
    ranked = mined.filter(polars.col("ranked").list.len() > 0)
    if ranked.is_empty():
        raise DataError(
            f"{path}: must hold tasks with a ranking, and none of its {len(mined)} mined tasks has one. "
            f"{TO_GET_RANKINGS}"
        )
    _refuse_broken(path, ranked)
    return ranked


def _learned_columns(path: File, mined: pl.DataFrame) -> pl.DataFrame:
    """The columns that are read, with the types of mined tasks, and the number of each row as `number`."""
    polars = require("polars", "mining")
    types = polars_types()
    missing = [name for name in LEARNED_COLUMNS if name not in mined.columns]
    if missing:
        raise DataError(f"{path}, column {missing[0]!r}: must be there, and is missing. Use camdf mine.")
    mined = mined.with_columns(polars.lit(None).alias(name) for name in OF_A_GATE if name not in mined.columns)
    columns = [polars.col(name).cast(types[TASK_COLUMNS[name]]) for name in (*LEARNED_COLUMNS, *OF_A_GATE)]
    if "vector" in mined.columns:
        columns.append(polars.col("vector").cast(polars.List(polars.Float64)))
    try:
        typed = mined.select(columns)
    except polars.exceptions.PolarsError as error:
        raise DataError(f"{path}: must have the columns of mined tasks. {error}. Use camdf mine.") from None
    return typed.with_row_index("number", offset=1)


def _refuse_broken(path: File, ranked: pl.DataFrame) -> None:
    """Raise where a row cannot be learned from; the error names the first such row, the field and the remedy."""
    polars = require("polars", "mining")
    broken = ranked.filter(~learnable().fill_null(False) | _has_unstorable_names())
    for row in broken.head(1).iter_rows(named=True):
        where = f"{path}, row {row['number']}"
        for field in ("task_id", "group"):
            text(where, field, row[field])
        for field in ("ranked", "called"):
            list_of_names(where, field, row[field])
        scores = row["scores"] or []
        if len(scores) != len(row["ranked"]):
            refuse(where, "scores", f"hold {len(row['ranked'])} numbers, one for each ranked tool", scores, "Add them.")
        by_tool = dict(zip(row["ranked"], scores, strict=True))
        numbers(where, "scores", by_tool, positive=False, remedy=FOR_SCORES)
    repeated = ranked.filter(polars.col("task_id").is_duplicated())
    if len(repeated):
        task_id = repeated["task_id"][0]
        first, second = repeated.filter(polars.col("task_id") == task_id)["number"].head(2)
        remedy = f"It stands in {path}, row {first} too; rename or remove one."
        refuse(f"{path}, row {second}", "task_id", "be different for every task", task_id, remedy)


def _has_unstorable_names() -> pl.Expr:
    """Names that `camdf.datasets.records.text` refuses: empty ones, and those that arrays of text would cut short."""
    polars = require("polars", "mining")

    def unstorable_name(name: pl.Expr) -> pl.Expr:
        return ((name == "") | name.str.contains("\0", literal=True)).fill_null(True)

    ids = [unstorable_name(polars.col(name)) for name in ("task_id", "group")]
    is_unstorable = unstorable_name(polars.element())
    tools = [polars.col(name).list.eval(is_unstorable).list.any() for name in ("ranked", "called")]
    unstorable: pl.Expr = polars.any_horizontal(*ids, *tools).fill_null(True)
    return unstorable

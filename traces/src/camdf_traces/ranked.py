"""Mined tasks that nobody ranked: what users asked through a scorer, and the ranking into the table in its place."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from camdf.datasets.files import File
from camdf.datasets.texts import TaskText
from camdf.errors import DataError, require
from camdf.examples.labels import NO_TOOL
from camdf.runtime.progress import Progress, silent
from camdf.scorers.base import Scorer
from camdf.scorers.folder import Scored, score_tasks, scored_records
from camdf.tools import Tool
from camdf_traces.logged import mined_table
from camdf_traces.runs import TASK_COLUMNS
from camdf_traces.spans import polars_types

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True)
class RankedTasks:
    """The tasks with their rankings, without any text unless it is kept, and the counts of what was done."""

    tasks: pl.DataFrame
    scored: Scored
    textless: int
    """Tasks without a ranking because nobody recorded what was asked."""

    undescribed: tuple[str, ...]
    """Tools that some task was offered and that the catalogue lacks: scored by their names alone."""


def rank_tasks(
    path: File,
    tools: Iterable[Tool],
    scorer: Scorer,
    scores: Path,
    *,
    top: int | None = None,
    vectors: bool = False,
    keep_text: bool = False,
    settings: Mapping[str, Any] | None = None,
    progress: Progress = silent,
) -> RankedTasks:
    """The tasks that `camdf mine --with-text` wrote, all ranked by one scorer, a gate's own rankings replaced.

    The candidates of a task are the tools that it was offered, and those that a gate had ranked: what it cut could not
    be called, and an audit must see that. Where nobody recorded either, they are all of `tools`. Scores are kept in the
    file `scores` while they are made, so that a run that was interrupted goes on where it stopped; `top`, `vectors` and
    `settings` are those of `camdf.scorers.folder.score_folder`.
    """
    polars = require("polars", "mining")
    types = polars_types()
    mined = polars.from_arrow(mined_table(path))
    asked = mined.filter(polars.col("text").fill_null("") != "")
    if asked.is_empty():
        raise DataError(f"{path}: must hold what users asked, and holds no text. Mine again, with --with-text.")
    catalogue = {tool.name: tool for tool in tools}
    tasks = [
        TaskText(task_id, text, _candidates_of_task(offered or (), by_a_gate or ()) or (*catalogue,))
        for task_id, text, offered, by_a_gate in asked.select("task_id", "text", "offered", "ranked").iter_rows()
    ]
    undescribed = dict.fromkeys(name for task in tasks for name in task.tools if name not in catalogue)
    known = {**catalogue, **{name: Tool(name) for name in undescribed}}
    done = score_tasks(tasks, known, scorer, scores, top=top, vectors=vectors, settings=settings, progress=progress)
    records = scored_records(scores)
    rankings = polars.DataFrame(
        {
            "task_id": [record["task_id"] for record in records],
            "ranked": [list(record["scores"]) for record in records],
            "scores": [list(record["scores"].values()) for record in records],
        },
        schema_overrides={name: types[TASK_COLUMNS[name]] for name in ("task_id", "ranked", "scores")},
    )
    columns = [name for name in mined.columns if name != "vector"]
    if vectors:
        rankings = rankings.with_columns(vector=polars.Series([record["vector"] for record in records]))
        columns.append("vector")
    if not keep_text:
        mined = mined.with_columns(text=polars.lit(""))
    ranked = (
        mined.drop("ranked", "scores", "vector", strict=False)
        .join(rankings, on="task_id", how="left", maintain_order="left")
        .with_columns(polars.col("ranked", "scores").fill_null([]))
        .select(columns)
    )
    return RankedTasks(ranked, done, len(mined) - len(asked), tuple(undescribed))


def _candidates_of_task(offered: Iterable[str], ranked: Iterable[str]) -> tuple[str, ...]:
    return tuple(name for name in dict.fromkeys([*offered, *ranked]) if not re.search(NO_TOOL, name))

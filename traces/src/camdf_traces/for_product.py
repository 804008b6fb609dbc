"""What the product asks of this distribution, as `camdf.examples.mined.MinedTasks` has it."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

from camdf.datasets.files import File
from camdf.examples.mined import SCORED_BY, AskedBy, MinedTasks, RankedTable, SampledTasks
from camdf.policies.artifact import scorer_as_text
from camdf.runtime.files import whole_file
from camdf.scorers import record_of
from camdf.scorers.base import Scorer
from camdf.tools import Tool
from camdf_traces.forget import Forgot, forget
from camdf_traces.logged import (
    asked_in,
    holds_mined_tasks,
    logged_tasks,
    mined_table,
    read_mined,
    read_uncensored_mined,
)
from camdf_traces.ranked import rank_tasks
from camdf_traces.span_files import span_tables
from camdf_traces.tasks import mine

__all__ = [
    "asked_in_table",
    "called_in_traces",
    "forget_in_table",
    "holds_mined_tasks",
    "rank_table",
    "read_mined",
    "read_uncensored_mined",
    "sampled_on_spark",
]

if TYPE_CHECKING:
    from camdf_traces import for_product

    DOES_IT: MinedTasks = for_product


def asked_in_table(path: File) -> dict[str, AskedBy]:
    """By id, what was asked in the mined tasks of a table."""
    import polars

    mined = polars.from_arrow(mined_table(path))
    assert isinstance(mined, polars.DataFrame)
    return asked_in(mined)


def sampled_on_spark(path: File, *, seed: int) -> SampledTasks | None:
    """A sample that Spark draws of mined tasks; None for a table of days, which is read whole.

    Those from which a gate had cut tools are left out, if there are others.
    """
    from camdf_traces.days import is_days
    from camdf_traces.spark.sample import sampled
    from camdf_traces.spark.session import session

    if is_days(path):
        return None
    tasks = session().read.parquet(str(path))
    sentence = ""
    if "explored" in tasks.columns:
        saw_all = tasks.filter("coalesce(explored, true)")
        if tasks.filter("NOT explored").take(1) and saw_all.filter("size(ranked) > 0").take(1):
            tasks = saw_all
            sentence = "Tasks from which a gate had cut tools were left out. "
    sample = sampled(tasks, seed=seed)
    return SampledTasks(logged_tasks(sample.tasks), asked_in(sample.tasks), f"{sentence}{sample}")


def rank_table(path: File, tools: Iterable[Tool], scorer: Scorer, output: Path, **choices: Any) -> RankedTable:
    """Mined tasks ranked and written; the file of scores lasts until every task has its ranking."""
    scores = output.with_suffix(".scores.jsonl")
    ranked = rank_tasks(Path(path), tools, scorer, scores, **choices)
    with whole_file(output, private=True) as new:
        ranked.tasks.write_parquet(new, metadata={SCORED_BY: scorer_as_text(record_of(scorer))})
    if not ranked.scored.refused:
        scores.unlink()
        scores.with_suffix(".settings.json").unlink()
    return RankedTable(ranked.scored, ranked.textless, ranked.undescribed)


def forget_in_table(
    table: File,
    *,
    conversation: str,
    user: str,
    before: date | None,
    alone: bool,
    id_key: bytes | None,
    hours: int,
) -> Forgot:
    """Delete from a table of days what belongs to a session or a user, or began before a day."""
    return forget(table, conversation=conversation, user=user, before=before, id_key=id_key, hours=hours, alone=alone)


def called_in_traces(path: File) -> list[list[str]]:
    """The tools that each run in a file of traces called."""
    with span_tables(path) as tables:
        called: list[list[str]] = mine(tables).tasks["called"].to_list()
        return called

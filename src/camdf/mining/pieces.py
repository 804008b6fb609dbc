"""Runs that wait for a person, and those that go on with them: the pieces of one task.

A run waits if it ended, without an error and without an outcome, while its model asked for tools that no span shows: a
person must approve of the call, or a client runs it. The next run of the conversation goes on with it if its model is
given the result of a tool before any words of a user, or if it begins with a tool that was waited for; and if the tools
that were waited for are among its own. Together they are one task: of the first piece are its id, time, text and
ranking, of the last its outcome. A tool that was waited for and that no piece ran was rejected: it is `wanted`.

A run that goes on with one that is not there is no task: what it called is a part of what its task required.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from camdf.errors import require

if TYPE_CHECKING:
    import polars as pl


def with_rests(runs: pl.DataFrame) -> pl.DataFrame:
    """The runs, and whether each is a `rest`, which goes on with another run; the trace alone tells."""
    polars = require("polars", "mining")
    trace = polars.col("task_id").str.replace("/[^/]*$", "")
    first = polars.col("time") == polars.col("time").min().over(trace)  # a later one may be a handoff's
    return runs.with_columns(rest=polars.col("continues") & first.fill_null(True))


def joined_pieces(runs: pl.DataFrame) -> pl.DataFrame:
    """The runs of `with_rests` with the pieces of each task as one."""
    polars = require("polars", "mining")
    waiting = runs.filter(polars.col("waits") & (polars.col("conversation") != ""))
    if waiting.is_empty():
        return runs
    several = runs.join(waiting, on="conversation", how="semi")
    tasks: list[dict[str, Any]] = []
    for run in several.sort("conversation", "time", "task_id", nulls_last=True).iter_rows(named=True):
        if tasks and _goes_on(tasks[-1], run):
            tasks[-1] = _together(tasks[-1], run)
        else:
            tasks.append(run)
    whole: pl.DataFrame = polars.DataFrame(tasks, schema=runs.schema)
    together: pl.DataFrame = polars.concat([runs.join(waiting, on="conversation", how="anti"), whole])
    return together


def _goes_on(before: dict[str, Any], run: dict[str, Any]) -> bool:
    waited, known = {*before["wanted"]}, {*run["offered"], *run["ranked"], *run["called"]}
    return (
        before["waits"]
        and before["conversation"] == run["conversation"]
        and (run["rest"] or not waited.isdisjoint(run["begins"]))
        and (not known or waited <= known)
    )


def _together(before: dict[str, Any], run: dict[str, Any]) -> dict[str, Any]:
    called = {*before["called"], *run["called"]}
    ranking = before if before["ranked"] else run
    return before | {
        **{name: run[name] for name in ("success", "failed", "stopped", "waits")},
        "incomplete": before["incomplete"] or run["incomplete"],
        "offered": list(dict.fromkeys([*before["offered"], *run["offered"]])),
        "ranked": ranking["ranked"],
        "scores": ranking["scores"],
        "explored": ranking["explored"],
        "called": sorted(called),
        "inferred": sorted({*before["inferred"], *run["inferred"]}),
        "wanted": sorted({*before["wanted"], *run["wanted"]} - called),
    }

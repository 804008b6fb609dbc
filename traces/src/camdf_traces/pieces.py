"""Runs that wait for a person, and those that go on with them: the pieces of one task.

A run waits if it ended, without an error and without an outcome, while its model asked for tools that no span shows: a
person must approve of the call, or a client runs it. Another run may go on with it if its model is given the result of
a tool before any words of a user, or if it begins with a tool. The next of these in the conversation does if the tools
that were waited for are among its own, and if those that it begins with are among them. Together they are one task: of
the first piece are its id, time, text and ranking, of the last its outcome. A tool that was waited for and that no
piece ran was rejected: it is `wanted`.

A run that goes on with one that is not there is no task: what it called is a part of what its task required.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from camdf.errors import require

if TYPE_CHECKING:
    import polars as pl


def may_be_piece() -> pl.Expr:
    """Runs that wait or may go on with another. All others are tasks, or none, whatever else there is."""
    polars = require("polars", "mining")
    goes_on = polars.col("rest") | (polars.col("begins").list.len() > 0)
    piece: pl.Expr = (polars.col("conversation") != "") & (polars.col("waits") | goes_on)
    return piece


def joined_pieces(runs: pl.DataFrame) -> pl.DataFrame:
    """The runs with the pieces of each task as one."""
    polars = require("polars", "mining")
    pieces = runs.filter(may_be_piece())
    several = pieces.join(pieces.filter("waits"), on="conversation", how="semi")
    if several.is_empty():
        return runs
    tasks: list[dict[str, Any]] = []
    for run in several.sort("conversation", "time", "task_id", nulls_last=True).iter_rows(named=True):
        if tasks and _goes_on(tasks[-1], run):
            tasks[-1] = _one_task_of(tasks[-1], run)
        else:
            tasks.append(run)
    whole: pl.DataFrame = polars.DataFrame(tasks, schema=runs.schema)
    together: pl.DataFrame = polars.concat([runs.join(several, on="task_id", how="anti"), whole])
    return together


def _goes_on(before: dict[str, Any], run: dict[str, Any]) -> bool:
    waited = {*before["wanted"]}
    known = {*run["offered"], *run["ranked"], *run["called"]}
    return (
        before["waits"]
        and before["conversation"] == run["conversation"]
        and (run["rest"] or not waited.isdisjoint(run["begins"]))
        and (not known or waited <= known)
    )


def _one_task_of(before: dict[str, Any], run: dict[str, Any]) -> dict[str, Any]:
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

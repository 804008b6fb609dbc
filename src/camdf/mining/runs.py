"""Spans to runs, in three steps: `deduplicated`, `with_owners`, `gathered`.

A run is what one agent did for one request: an agent span and every span whose nearest agent ancestor it is. The
docstring of `camdf.mining.tasks` has the rules.
"""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING

from camdf.errors import require
from camdf.mining.spans import SPAN_COLUMNS

if TYPE_CHECKING:
    import polars as pl

SCALARS = tuple(name for name, kind in SPAN_COLUMNS.items() if kind in ("text", "whole", "truth") and name != "text")
LISTS = tuple(name for name, kind in SPAN_COLUMNS.items() if kind in ("texts", "numbers"))
PREFERENCE = tuple(dict.fromkeys(("end", *SCALARS, *LISTS, "text")))
"""Of several versions of a span the one counts that is largest in the first of these columns where they differ. Missing
is least, so a finished span beats its own beginning. Lists and text come last, so that a reader of only the columns
before them finds the same version."""

DISCOVERY = (
    r"(?i)^(.*(/|\.|:|__))?(tool_?search(_tool)?(_regex|_bm25)?|tools/list"
    r"|(search|find|list|discover|retrieve)_?(available_)?tools?)$"
)
"""Calls that look for tools instead of doing the task, with or without a server's name before them. The pattern means
the same in Python, Rust and Java."""

SPAN_KEY = ("trace_id", "span_id")
IN_ORDER = ("start", "span_id")

TASK_COLUMNS: dict[str, str] = {
    "task_id": "text",
    "conversation": "text",
    "group": "text",
    "time": "whole",
    "offered": "texts",
    "ranked": "texts",
    "scores": "numbers",
    "called": "texts",
    "success": "truth",
    "explored": "truth",
    "text": "text",
}
"""The columns of a mined task, of the same sorts as those of a span."""


def deduplicated(spans: pl.DataFrame) -> pl.DataFrame:
    """One row for every trace_id and span_id, the preferred version; rows without those are dropped."""
    polars = require("polars", "mining")
    named, repeated = has_ids(), spans.select(polars.struct(SPAN_KEY).is_duplicated()).to_series()
    order = [name for name in PREFERENCE if name in spans.columns]
    versions = spans.filter(named & repeated).sort(order, descending=True, nulls_last=True)
    chosen = versions.unique(SPAN_KEY, keep="first", maintain_order=True)
    distinct: pl.DataFrame = polars.concat([spans.filter(named & ~repeated), chosen])
    return distinct


def with_owners(spans: pl.DataFrame) -> pl.DataFrame:
    """The spans with `owner`, the span_id of their agent ("" for the trace itself, null for none), `run` and `thread`.

    `run` numbers a trace and an owner: two texts in every join and group would take most of the time.
    """
    polars = require("polars", "mining")
    agent, conversation = polars.col("kind") == "agent", polars.col("conversation")
    traces = (
        spans.group_by("trace_id")
        .agg(
            agents=agent.sum(),
            agent=polars.when(agent).then("span_id").max(),
            thread=polars.when(conversation != "").then(conversation).min().fill_null(""),
        )
        .with_row_index("trace")
    )
    # Joined beside the spans, not to them: copying their lists would take most of the time.
    keys = spans.select(*SPAN_KEY, "parent_id", "kind")
    beside = keys.join(traces, on="trace_id", how="left", maintain_order="left")
    several = _nearest_agents(beside.filter(polars.col("agents") > 1), len(traces))
    alone = polars.col("agents") < 2
    found = beside.join(several, on=SPAN_KEY, how="left", maintain_order="left").select(
        "thread",
        owner=polars.when(alone).then(polars.col("agent").fill_null("")).otherwise("ancestor"),
        run=polars.when(alone).then("trace").otherwise("run"),
    )
    return spans.hstack(found)


def _nearest_agents(spans: pl.DataFrame, first_run: int) -> pl.DataFrame:
    """The nearest agent of every span that has one, itself included, as `ancestor`, and its `run`, from `first_run` on.

    Each step doubles how far up it looks.
    """
    polars = require("polars", "mining")
    agent = polars.col("kind") == "agent"
    reached = spans.select(*SPAN_KEY, ancestor=polars.when(agent).then("span_id").otherwise("parent_id"))
    agents = spans.filter(agent).select("trace_id", ancestor="span_id").with_row_index("run", offset=first_run)
    longest: int = spans.group_by("trace_id").len().select(polars.col("len").max()).item() or 0
    for _ in range(longest.bit_length()):
        above = reached.select("trace_id", ancestor="span_id", next="ancestor")
        further = reached.join(above, on=["trace_id", "ancestor"], how="left").select(*SPAN_KEY, ancestor="next")
        if further.join(reached, on=[*SPAN_KEY, "ancestor"], how="anti", nulls_equal=True).is_empty():
            break
        reached = further
    return reached.join(agents, on=["trace_id", "ancestor"])


def gathered(owned: pl.DataFrame, discovery: str = DISCOVERY) -> pl.DataFrame:
    """One row a run: the columns of a task, and whether it `failed`."""
    polars = require("polars", "mining")
    col, when = polars.col, polars.when
    spans = owned.lazy().filter(col("owner").is_not_null())
    agent = col("span_id") == col("owner")
    top = agent | ((col("owner") == "") & (col("parent_id") == "") & (col("kind") == "other"))
    runs = spans.group_by("run").agg(
        col("trace_id", "owner").first(),
        time=polars.coalesce(when(agent).then("start").max(), col("start").min()),
        conversation=when(agent).then("conversation").max(),
        thread=col("thread").first(),
        failed=(top & (col("error") != "")).any(),
        success=when(top).then("success").min(),
        explored=col("explored").max(),
        has_tools=_is_tool().any(),
        is_run=(agent | (col("kind") == "model") | _is_tool()).any(),
    )
    runs = runs.filter("is_run")
    called = _called(spans, runs.filter("has_tools"), discovery)
    for found in (called, _offered(spans), _ranked(spans), _texts(spans)):
        runs = runs.join(found, on="run", how="left")
    task_id = polars.concat_str("trace_id", polars.lit("/"), "owner")
    conversation = when(col("conversation") != "").then("conversation").otherwise("thread")
    by_text = col("text").map_elements(text_group, return_dtype=polars.String)
    return (
        runs.with_columns(
            col("offered", "ranked", "scores", "called").fill_null([]),
            task_id=task_id,
            conversation=conversation,
            group=when(conversation != "").then(conversation).otherwise(polars.coalesce(by_text, task_id)),
            text=col("text").fill_null(""),
        )
        .select(*TASK_COLUMNS, "failed")
        .collect()
    )


def text_group(text: str) -> str:
    """The group of tasks whose texts are the same, but for case, spaces and numbers.

    >>> text_group("Cancel order 17") == text_group(" cancel  order 4711") != text_group("Cancel my order")
    True
    """
    same = re.sub(r"\d+", "0", " ".join(text.lower().split()))
    return f"text-{hashlib.sha256(same.encode()).hexdigest()[:16]}"


def has_ids() -> pl.Expr:
    """Spans with a trace_id and a span_id."""
    polars = require("polars", "mining")
    named: pl.Expr = (polars.col("trace_id") != "") & (polars.col("span_id") != "")
    return named


def has_usable_ranking() -> pl.Expr:
    """A ranking to learn from: a finite score that is not negative for every name, and every name once."""
    polars = require("polars", "mining")
    ranked, scores, each = polars.col("ranked"), polars.col("scores"), polars.element()
    usable: pl.Expr = (
        (ranked.list.len() == scores.list.len())
        & (ranked.list.len() == ranked.list.n_unique())
        & ranked.list.eval((each != "").fill_null(False)).list.all()
        & scores.list.eval((each.is_finite() & (each >= 0)).fill_null(False)).list.all()
    )
    return usable


def _is_tool() -> pl.Expr:
    polars = require("polars", "mining")
    tool: pl.Expr = (polars.col("kind") == "tool") & (polars.col("name") != "")
    return tool


def _called(spans: pl.LazyFrame, with_tools: pl.LazyFrame, discovery: str) -> pl.LazyFrame:
    """The tools that ran without an error; in all runs but those `with_tools`, the ones that a model requested."""
    polars = require("polars", "mining")
    ran = spans.filter(_is_tool() & (polars.col("error") == "")).select("run", called="name")
    answers = spans.filter(polars.col("kind") == "model").select("run", called="requested")
    requested = answers.join(with_tools, on="run", how="anti").explode("called")
    names = polars.col("called")
    called: pl.LazyFrame = (
        polars.concat([ran, requested])
        .filter((names != "") & ~names.str.contains(discovery))
        .group_by("run")
        .agg(names.unique().sort())
    )
    return called


def _offered(spans: pl.LazyFrame) -> pl.LazyFrame:
    """The tools of the model's requests, first seen first."""
    polars = require("polars", "mining")
    offered, each = polars.col("offered"), polars.element()
    return (
        spans.filter((polars.col("kind") == "model") & (offered.list.len() > 0))
        .select("run", "offered", place=polars.arg_sort_by(IN_ORDER, nulls_last=True).arg_sort())
        .group_by("run", "offered")
        .agg(polars.col("place").min())
        .sort("place")
        .group_by("run", maintain_order=True)
        .agg(offered.explode())
        .with_columns(offered.list.eval(each.filter(each != "")).list.unique(maintain_order=True))
    )


def _ranked(spans: pl.LazyFrame) -> pl.LazyFrame:
    """The first usable ranking."""
    polars = require("polars", "mining")
    return (
        spans.filter(polars.col("ranked").list.len() > 0)
        .select("run", *IN_ORDER, "ranked", "scores")
        .filter(has_usable_ranking())
        .sort(IN_ORDER, nulls_last=True)
        .unique("run", keep="first", maintain_order=True)
        .select("run", "ranked", polars.col("scores").list.eval(polars.element().abs()))  # -0.0 is 0.0
    )


def _texts(spans: pl.LazyFrame) -> pl.LazyFrame:
    """The text of the agent span, else the first text of the run."""
    polars = require("polars", "mining")
    if "text" not in spans.collect_schema():
        return spans.select("run", text="owner").clear()
    return (
        spans.filter(polars.col("text") != "")
        .select("run", *IN_ORDER, "text", within=polars.col("span_id") != polars.col("owner"))
        .sort("within", *IN_ORDER, nulls_last=True)
        .unique("run", keep="first", maintain_order=True)
        .select("run", "text")
    )

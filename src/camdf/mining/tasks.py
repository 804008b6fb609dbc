"""Mining on one machine: the span table to one row a task, in four steps: dedupe, own, gather, keep.

A task is one run of an agent: an agent span and every span whose nearest agent ancestor it is. Where a trace has one
agent span, all of its spans belong to that; where it has none, the trace is the task, if a model or a tool ran in it. A
trace with several agent spans has a task for each; a span with no way up to any of them belongs to none.

The result is a function of the set of spans: their order, their repetition and how they lie in files change nothing.
Of two versions of one span the more complete one counts (`PREFERENCE`), and tasks come sorted by time, then task_id.

The mined table has one row a task:

    task_id       trace_id/span_id of the agent span; trace_id/ where the trace has none
    conversation  that of the agent span, else the least by name in the trace; "" without any
    group         what no split may part: the conversation, else a digest of the text (`text_group`), else the task
    time          nanoseconds since 1970: the start of the agent span, else of the run's first span; null without any
    offered       the tools of the run's requests, first seen first
    ranked        the candidates of the run's first usable ranking by a gate, best first, and their
    scores            scores; both empty where there is none
    called        the tools that ran without an error, by name; where the run has no tool spans, those that its model
                  asked for. Searches for tools are left out (`DISCOVERY`)
    success       the outcome that the agent span names, or the top of a trace without one; null where it is unknown
    explored      whether a gate let the run see every tool; null without a gate
    text          what the user asked, where text was asked for; else ""

Runs that failed are counted and left out: what they called is no evidence of what the task needed.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from camdf.core.rankings import LoggedTasks, Rankings
from camdf.datasets.records import DataError
from camdf.mining.parts import SPANS_AT_A_TIME, Report, Source, in_parts, load_polars
from camdf.mining.spans import COLUMNS

if TYPE_CHECKING:
    import polars as pl

SCALARS = tuple(name for name, kind in COLUMNS.items() if kind in ("text", "whole", "truth") and name != "text")
LISTS = tuple(name for name, kind in COLUMNS.items() if kind in ("texts", "numbers"))
PREFERENCE = tuple(dict.fromkeys(("end", *SCALARS, *LISTS, "text")))
"""Of several versions of a span the one counts that is largest in the first of these columns where they differ. Missing
is least, so a finished span beats its own beginning. Lists and text come last, so that whoever reads only the columns
before them finds the same version."""

DISCOVERY = (
    r"(?i)^(.*(/|\.|:|__))?(tool_?search(_tool)?(_regex|_bm25)?|tools/list"
    r"|(search|find|list|discover|retrieve)_?(available_)?tools?)$"
)
"""Calls that look for tools instead of doing the task, with or without a server's name before them. The pattern means
the same in Python, Rust and Java."""

SPAN = ("trace_id", "span_id")
IN_ORDER = ("start", "span_id")
TASK = (
    "task_id",
    "conversation",
    "group",
    "time",
    "offered",
    "ranked",
    "scores",
    "called",
    "success",
    "explored",
    "text",
)


@dataclass(frozen=True)
class Mined:
    """The mined tasks, and what was counted on the way to them."""

    tasks: pl.DataFrame
    spans: int
    duplicates: int
    """Spans beyond the first with the same trace_id and span_id."""

    nameless: int
    """Spans without a trace_id or a span_id, which have no place."""

    unowned: int
    """Spans of traces with several agents that lead up to none of them."""

    runs: int
    failed: int
    """Runs left out because they ended in an error."""

    unsuccessful: int
    """Runs left out because their outcome says so, without an error."""

    unknown: int
    """Runs without an error and without an outcome."""

    require_outcome: bool
    """Whether those were left out too."""

    @property
    def kept(self) -> int:
        """How many tasks there are."""
        return len(self.tasks)

    @property
    def ranked(self) -> int:
        """Tasks with a gate's ranking: those that `logged_tasks` has."""
        return int((self.tasks["ranked"].list.len() > 0).sum())

    @property
    def explored(self) -> int:
        """Tasks that were let to see every tool."""
        return int(self.tasks["explored"].sum())

    @property
    def tools(self) -> int:
        """Tools that some task was offered or called."""
        names = [self.tasks[column].explode().drop_nulls().unique() for column in ("offered", "called")]
        return int(load_polars().concat(names).n_unique())

    def __str__(self) -> str:
        unknown = "were left out too" if self.require_outcome else "count as successes"
        lines = [
            f"{self.spans:,} spans: {self.duplicates:,} were duplicates, {self.nameless:,} had no id, "
            f"{self.unowned:,} belong to no agent.",
            f"{self.runs:,} runs: {self.failed:,} ended in an error and {self.unsuccessful:,} without success, and "
            f"were left out; {self.unknown:,} have no recorded outcome and {unknown}.",
            f"{self.kept:,} tasks with {self.tools:,} tools: {self.ranked:,} have a ranking, {self.explored:,} "
            "explored.",
        ]
        if self.ranked < self.kept:
            lines.append(f"{_unranked(self.kept - self.ranked)}")
        return "\n".join(lines)


def mine(
    source: Source,
    *,
    require_outcome: bool = False,
    with_text: bool = False,
    discovery: str = DISCOVERY,
    at_a_time: int = SPANS_AT_A_TIME,
    report: Report | None = None,
) -> Mined:
    """Tasks from spans: Parquet files of the span table (one, a folder, a list), or the table itself.

    Runs without a recorded outcome count as successes unless `require_outcome`. Text is read only `with_text`, and only
    then do near-copies outside of any conversation share a group. About `at_a_time` spans are in memory together, and
    `report(done, total, seconds left)` is called on the way.
    """
    columns = [name for name in COLUMNS if with_text or name != "text"]
    seen, tasks = Counter[str](), []
    for spans in in_parts(source, columns, at_a_time, report):
        some, counts = _mine_part(spans, require_outcome, discovery)
        del spans  # before the next part is read
        tasks.append(some)
        seen.update(counts)
    table = load_polars().concat(tasks).sort("time", "task_id", nulls_last=True)
    return Mined(table, **seen, require_outcome=require_outcome)


def _mine_part(spans: pl.DataFrame, require_outcome: bool, discovery: str) -> tuple[pl.DataFrame, dict[str, int]]:
    distinct = dedupe(spans)
    owned = own(distinct)
    runs = gather(owned, discovery)
    success = runs["success"].filter(~runs["failed"])
    nameless = spans.select((~_named()).sum()).item()
    return keep(runs, require_outcome), {
        "spans": len(spans),
        "nameless": nameless,
        "duplicates": len(spans) - nameless - len(distinct),
        "unowned": owned["owner"].null_count(),
        "runs": len(runs),
        "failed": len(runs) - len(success),
        "unsuccessful": len(success.filter(success.eq_missing(False))),
        "unknown": success.null_count(),
    }


def logged_tasks(mined: pl.DataFrame, prices: Mapping[str, float] | None = None) -> LoggedTasks:
    """The mined tasks that a gate ranked, ready to learn from: what was called is what was required.

    A called tool that the ranking lacks is required and missing from the list. `prices` maps every tool to its cost;
    each costs 1 without it. Tasks without a ranking are left out; where all are, an error says what to do.
    """
    polars = load_polars()
    ranked = mined.filter(polars.col("ranked").list.len() > 0).with_row_index("row")
    if ranked.is_empty():
        raise DataError(_unranked(len(mined)) if len(mined) else "There are no mined tasks.")
    called = ranked.select("row", tool="called").explode("tool").drop_nulls().with_columns(required=True)
    listed = (
        ranked.select("row", "scores", tool="ranked")
        .explode("tool", "scores")
        .sort("row", "scores", "tool", descending=[False, True, False])
        .join(called, on=["row", "tool"], how="left", maintain_order="left")
    )
    catalogue = listed["tool"].unique(maintain_order=True)
    numbered = polars.DataFrame({"tool": catalogue}).with_row_index("id")
    ids = listed.select("tool").join(numbered, on="tool", how="left", maintain_order="left")["id"]
    lengths = ranked["ranked"].list.len().to_numpy().astype(np.int64)
    filled = np.arange(lengths.max()) < lengths[:, None]
    scores, tool_ids, required = np.zeros(filled.shape), np.full(filled.shape, -1), np.zeros(filled.shape, dtype=bool)
    scores[filled] = listed["scores"].to_numpy()
    tool_ids[filled] = ids.to_numpy()
    required[filled] = listed["required"].fill_null(False).to_numpy()
    rankings = Rankings(scores, filled.astype(np.float64), lengths, tool_ids, tuple(catalogue))
    logged = LoggedTasks(
        rankings if prices is None else rankings.with_costs(prices),
        required,
        ranked["called"].list.len().to_numpy().astype(np.int64),
        np.array(ranked["task_id"].to_list(), dtype=np.str_),
        np.array(ranked["group"].to_list(), dtype=np.str_),
    )
    return logged


def text_group(text: str) -> str:
    """The group of tasks that ask the same, but for case, spaces and numbers.

    >>> text_group("Cancel order 17") == text_group(" cancel  order 4711") != text_group("Cancel my order")
    True
    """
    same = re.sub(r"\d+", "0", " ".join(text.lower().split()))
    return f"text-{hashlib.sha256(same.encode()).hexdigest()[:16]}"


def dedupe(spans: pl.DataFrame) -> pl.DataFrame:
    """One row for every trace_id and span_id, the preferred version; rows without those are dropped."""
    polars = load_polars()
    named, repeated = _named(), spans.select(polars.struct(SPAN).is_duplicated()).to_series()
    order = [name for name in PREFERENCE if name in spans.columns]
    versions = spans.filter(named & repeated).sort(order, descending=True, nulls_last=True)
    chosen = versions.unique(SPAN, keep="first", maintain_order=True)
    distinct: pl.DataFrame = polars.concat([spans.filter(named & ~repeated), chosen])
    return distinct


def own(spans: pl.DataFrame) -> pl.DataFrame:
    """The spans with `owner`, the span_id of their agent ("" for the trace itself, null for none), `run` and `thread`.

    A run is a trace and an owner by number: two texts in every join and group would take most of the time.
    """
    polars = load_polars()
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
    beside = spans.select(*SPAN, "parent_id", "kind").join(traces, on="trace_id", how="left", maintain_order="left")
    several = _ancestors(beside.filter(polars.col("agents") > 1), len(traces))
    alone = polars.col("agents") < 2
    found = beside.join(several, on=SPAN, how="left", maintain_order="left").select(
        "thread",
        owner=polars.when(alone).then(polars.col("agent").fill_null("")).otherwise("ancestor"),
        run=polars.when(alone).then("trace").otherwise("run"),
    )
    return spans.hstack(found)


def _ancestors(spans: pl.DataFrame, number: int) -> pl.DataFrame:
    """The nearest agent of every span, itself included, where there is one; agents have numbers from this one on.

    Each step doubles how far up it looks.
    """
    polars = load_polars()
    agent = polars.col("kind") == "agent"
    reached = spans.select(*SPAN, ancestor=polars.when(agent).then("span_id").otherwise("parent_id"))
    agents = spans.filter(agent).select("trace_id", ancestor="span_id").with_row_index("run", offset=number)
    longest: int = spans.group_by("trace_id").len().select(polars.col("len").max()).item() or 0
    for _ in range(longest.bit_length()):
        above = reached.select("trace_id", ancestor="span_id", next="ancestor")
        further = reached.join(above, on=["trace_id", "ancestor"], how="left").select(*SPAN, ancestor="next")
        if further.join(reached, on=[*SPAN, "ancestor"], how="anti", nulls_equal=True).is_empty():
            break
        reached = further
    return reached.join(agents, on=["trace_id", "ancestor"])


def gather(owned: pl.DataFrame, discovery: str = DISCOVERY) -> pl.DataFrame:
    """One row a run: the columns of a task, and whether it `failed`."""
    polars = load_polars()
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
    for found in (_called(spans, runs.filter("has_tools"), discovery), _offered(spans), _ranked(spans), _asked(spans)):
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
        .select(*TASK, "failed")
        .collect()
    )


def keep(runs: pl.DataFrame, require_outcome: bool) -> pl.DataFrame:
    """The runs that count as tasks: no error, and no outcome that says they failed."""
    success = load_polars().col("success").fill_null(not require_outcome)
    return runs.filter(~load_polars().col("failed") & success).select(TASK)


def _named() -> pl.Expr:
    polars = load_polars()
    named: pl.Expr = (polars.col("trace_id") != "") & (polars.col("span_id") != "")
    return named


def _is_tool() -> pl.Expr:
    polars = load_polars()
    tool: pl.Expr = (polars.col("kind") == "tool") & (polars.col("name") != "")
    return tool


def _called(spans: pl.LazyFrame, with_tools: pl.LazyFrame, discovery: str) -> pl.LazyFrame:
    """The tools that ran without an error; in all runs but those `with_tools`, the ones that a model asked for."""
    polars = load_polars()
    ran = spans.filter(_is_tool() & (polars.col("error") == "")).select("run", called="name")
    requests = spans.filter(polars.col("kind") == "model").select("run", called="requested")
    asked = requests.join(with_tools, on="run", how="anti").explode("called")
    names = polars.col("called")
    called: pl.LazyFrame = (
        polars.concat([ran, asked])
        .filter((names != "") & ~names.str.contains(discovery))
        .group_by("run")
        .agg(names.unique().sort())
    )
    return called


def _offered(spans: pl.LazyFrame) -> pl.LazyFrame:
    """What the model's requests offered, first seen first."""
    polars = load_polars()
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
    polars = load_polars()
    return (
        spans.filter(polars.col("ranked").list.len() > 0)
        .select("run", *IN_ORDER, "ranked", "scores")
        .filter(usable())
        .sort(IN_ORDER, nulls_last=True)
        .unique("run", keep="first", maintain_order=True)
        .select("run", "ranked", polars.col("scores").list.eval(polars.element().abs()))  # -0.0 is 0.0
    )


def _asked(spans: pl.LazyFrame) -> pl.LazyFrame:
    """The text of the agent span, else the first text of the run."""
    polars = load_polars()
    if "text" not in spans.collect_schema():
        return spans.select("run", text="owner").clear()
    return (
        spans.filter(polars.col("text") != "")
        .select("run", *IN_ORDER, "text", within=polars.col("span_id") != polars.col("owner"))
        .sort("within", *IN_ORDER, nulls_last=True)
        .unique("run", keep="first", maintain_order=True)
        .select("run", "text")
    )


def usable() -> pl.Expr:
    """A ranking to learn from: a finite score that is not negative for every name, and every name once."""
    polars = load_polars()
    ranked, scores, each = polars.col("ranked"), polars.col("scores"), polars.element()
    usable: pl.Expr = (
        (ranked.list.len() == scores.list.len())
        & (ranked.list.len() == ranked.list.n_unique())
        & ranked.list.eval((each != "").fill_null(False)).list.all()
        & scores.list.eval((each.is_finite() & (each >= 0)).fill_null(False)).list.all()
    )
    return usable


def learnable() -> pl.Expr:
    """A mined row to learn from, from wherever it comes: ids, a usable ranking, and every called name once."""
    polars = load_polars()
    called = polars.col("called")
    known = polars.all_horizontal(polars.col("task_id", "group").is_not_null())
    learnable: pl.Expr = (
        known & (polars.col("ranked").list.len() > 0) & usable() & (called.list.len() == called.list.n_unique())
    )
    return learnable


def _unranked(count: int) -> str:
    return (
        f"{count:,} tasks have no ranking, so nothing can be learned from them yet. Rank them with `camdf score`, or "
        "run a gate in shadow mode, which records its ranking."
    )

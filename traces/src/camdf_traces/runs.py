"""Spans to runs, in three steps: `deduplicated`, `with_owners`, `gathered`.

A run is what one agent did for one request: an agent span and every span that has no other agent between it and that
one. The docstring of `camdf_traces.tasks` has the rules.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np

from camdf.errors import require
from camdf.examples.labels import DISCOVERY, NO_TOOL, WITHIN, text_group
from camdf.gate.tool_search import CALL
from camdf_traces.ancestry import any_above, leads_to_a_top, nearest, rows_above
from camdf_traces.spans import SPAN_COLUMNS

if TYPE_CHECKING:
    import polars as pl
    from numpy.typing import NDArray

SCALARS = tuple(name for name, kind in SPAN_COLUMNS.items() if kind in ("text", "whole", "truth") and name != "text")
LISTS = tuple(name for name, kind in SPAN_COLUMNS.items() if kind in ("texts", "numbers"))
PREFERENCE = tuple(dict.fromkeys(("end", *SCALARS, *LISTS, "text")))
"""Of several versions of a span the one counts that is largest in the first of these columns where they differ. Missing
is least, so a finished span beats its own beginning. Lists and text come last, so that a reader of only the columns
before them finds the same version."""

CLASS = "^[A-Z][a-z0-9]+([A-Z][a-z0-9]*)*$"
"""The name of a class: a request for one that nothing follows is a structured answer, and ends a run as words do."""

TO_GET_RANKINGS = "Rank them with `camdf score`, or run a gate in shadow mode, which records its ranking."

SPAN_KEY = ("trace_id", "span_id")
IN_ORDER = ("start", "span_id")

TASK_COLUMNS: dict[str, str] = {
    "task_id": "text",
    "conversation": "text",
    "user": "text",
    "service": "text",
    "group": "text",
    "time": "whole",
    "offered": "texts",
    "ranked": "texts",
    "scores": "numbers",
    "called": "texts",
    "inferred": "texts",
    "wanted": "texts",
    "success": "truth",
    "explored": "truth",
    "text": "text",
}
"""The columns of a mined task, of the same sorts as those of a span."""

RUN_COLUMNS: dict[str, str] = {
    **TASK_COLUMNS,
    "trace_id": "text",
    **dict.fromkeys(("failed", "incomplete", "stopped", "waits", "rest"), "truth"),
    "begins": "texts",
}
"""Those of a run: beside what a task has, why it may be none, and how it hangs together with others."""


SPANS_LEFT_OUT = {"duplicates": "duplicates", "nameless": "without an id", "unowned": "of no agent"}
"""Why spans are left out: the counts of `span_counts`, in words."""


def deduplicated(spans: pl.DataFrame) -> pl.DataFrame:
    """One row for every trace_id and span_id, the preferred version; rows without those are dropped."""
    polars = require("polars", "mining")
    repeated = spans.select(polars.struct(SPAN_KEY).is_duplicated()).to_series()
    order = [name for name in PREFERENCE if name in spans.columns]
    versions = spans.filter(has_ids() & repeated).sort(order, descending=True, nulls_last=True)
    chosen = versions.unique(SPAN_KEY, keep="first", maintain_order=True)
    distinct: pl.DataFrame = polars.concat([spans.filter(has_ids() & ~repeated), chosen])
    return distinct


def span_counts(spans: pl.DataFrame, owned: pl.DataFrame) -> dict[str, int]:
    """How many spans there are, and why some belong to no run; `owned` are those of them that `with_owners` placed."""
    nameless: int = spans.select((~has_ids()).sum()).item()
    return {
        "spans": len(spans),
        "nameless": nameless,
        "duplicates": len(spans) - nameless - len(owned),
        "unowned": owned["owner"].null_count(),
    }


def with_owners(spans: pl.DataFrame) -> pl.DataFrame:
    """The spans, each with its place among the others.

    owner       the span_id of the agent of its run, "" for the run of a trace without agents, null for no run
    run         a number for trace and owner: two texts in every join and group would take most of the time
    own         it is a step of the run, and not one inside of a tool that the run called
    thread      the conversation of its trace: the least by name
    orphan      it names a span above it that is not there
    incomplete  from some span of its trace the way up ends at such an orphan, or in a circle
    failed      a step above it failed; a call of a model may fail and be tried again
    refused     a step above it has an outcome that is a failure
    accepted    a step above it has an outcome that is a success
    """
    polars = require("polars", "mining")
    named = polars.col("conversation").filter(polars.col("conversation") != "")
    traces = (
        spans.group_by("trace_id")
        .agg(thread=named.min().fill_null(""), threads=named.n_unique())
        .with_row_index("trace")
    )
    # Beside the spans, not joined to them: copying their lists would take most of the time.
    keys = spans.select(*SPAN_KEY, "parent_id").join(traces, on="trace_id", how="left", maintain_order="left")
    marks = {name: column.to_numpy() for name, column in spans.select(**_marks()).to_dict().items()}
    up = rows_above(keys)
    trace = keys["trace"].to_numpy()
    run, own = _runs_of_spans(up, trace, marks, joined=keys["threads"].to_numpy() == 1)
    agents = polars.Series(run, dtype=polars.Int64).set(polars.Series(run >= len(spans)), None)
    owner = polars.when(polars.Series(run >= 2 * len(spans))).then(polars.lit(""))
    incomplete = _in_trace(trace, ~leads_to_a_top(up)) > 0
    return spans.hstack(
        polars.select(
            owner=owner.otherwise(spans["span_id"].gather(agents)),
            run=run,
            own=own,
            thread=keys["thread"],
            orphan=up[: len(spans)] > len(spans),
            incomplete=incomplete,
            failed=any_above(up, marks["failed"]),
            refused=any_above(up, marks["refused"]),
            accepted=any_above(up, marks["accepted"]),
        )
    )


def _runs_of_spans(
    up: NDArray[np.int64], trace: NDArray[Any], marks: dict[str, NDArray[np.bool_]], joined: NDArray[np.bool_]
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """The run of each of n spans, and whether it is a step of it, and not one inside of a tool.

    A run is the row of its agent, or 2n and the number of its trace where that has no agent; n is no run.
    """
    call = marks["call"]
    count = len(trace)
    agents = np.zeros(count + 1, dtype=bool)
    agents[nearest(up, marks["agent"])[call]] = True  # an agent without a call is none
    agents = agents[:count]
    run = nearest(up, agents)
    around = nearest(up, agents | marks["tool"])
    own = agents | (np.append(run, [count] * 2)[up] == np.append(around, [count] * 2)[up])[:count]
    several = _in_trace(trace, agents)
    only = np.zeros(trace.max(initial=0) + 1, dtype=np.int64)
    only[trace[agents]] = np.flatnonzero(agents)
    run = np.where((run == count) & (several == 1) & ~call, only[trace], run)
    return np.where((several == 0) & joined & (_in_trace(trace, call) > 1), 2 * count + trace, run), own


def _in_trace(trace: NDArray[Any], marked: NDArray[np.bool_]) -> NDArray[np.int64]:
    """How many spans are marked in the trace of each."""
    counts: NDArray[np.int64] = np.bincount(trace[marked], minlength=trace.max(initial=0) + 1)[trace]
    return counts


def _marks() -> dict[str, pl.Expr]:
    polars = require("polars", "mining")
    kind = polars.col("kind")
    success = polars.col("success")
    return {
        "agent": kind == "agent",
        "call": (kind == "model") | _is_tool(),
        "tool": _is_tool() & (polars.col("name") != CALL.name),
        "failed": (polars.col("error") != "") & (kind != "model"),
        "refused": success.eq_missing(False),
        "accepted": success.eq_missing(True),
    }


def gathered(owned: pl.DataFrame, no_tool: str = NO_TOOL) -> pl.DataFrame:
    """One row a run: the columns of a task, and whether it `failed`, `stopped` early, or is `incomplete`.

    A run `waits` if it stopped because no span shows the calls that its model asked for. It is a `rest` if its model is
    first given the result of a tool, and no run of its trace began before it: a later one may be a handoff's.

    Each of six functions gives some columns of a run, and these tell how it hangs together:

    has_tools  `_agents_of_runs`: some step is a call of a tool
    called     `_called_tools`: the tools that ran without an error, and those that are inferred
    inferred   `_called_tools`: the tools that only a request shows, and after which the model was asked again
    last       `_called_tools`: the tools that the last call of its model asks for
    wanted     `_called_tools`: those of them that have no span
    broken     `_ends_of_runs`: the last call of its model gave no answer
    continues  `_ends_of_runs`: the first request to its model ends with the result of a tool
    begins     `_ends_of_runs`: the tools that ran before that request
    """
    polars = require("polars", "mining")
    spans = _of_the_first_agent(owned).lazy().filter(polars.col("owner").is_not_null())
    steps = spans.filter("own")
    calls = _without_copies(steps)
    runs = _agents_of_runs(spans).collect()
    for of_runs in (
        _called_tools(calls, no_tool),
        _ends_of_runs(calls),
        _offered_tools(steps),
        _first_rankings(steps),
        _texts_of_runs(steps),
    ):
        # one by one: as a single plan, Polars computes what several of them read again for each
        runs = runs.join(of_runs.collect(), on="run", how="left")
    wanted = polars.col("wanted")
    return (
        _with_required(_with_names(runs))
        .with_columns(
            *(
                polars.when(_succeeded_untraced())
                .then(polars.col(name).list.set_union(wanted).list.sort())
                .otherwise(name)
                for name in ("called", "inferred")
            ),
            wanted=polars.when(~_succeeded_untraced()).then(wanted).otherwise([]),
            rest=_is_rest(),
            stopped=_stopped(),
            waits=_stopped() & (wanted.list.len() > 0) & ~polars.col("broken"),
        )
        .select(*RUN_COLUMNS)
    )


def _agents_of_runs(spans: pl.LazyFrame) -> pl.LazyFrame:
    """Whose a run is, when it began, how it went, and whether it has tools: by its agent and what is above that."""
    polars = require("polars", "mining")
    col = polars.col
    when = polars.when
    marks = _marks()
    is_agent = col("span_id") == col("owner")
    has_no_agent = (col("owner") == "") & col("own")
    is_top = is_agent | (has_no_agent & marks["call"])
    is_refused = (col("own") & marks["refused"]) | (is_top & col("refused"))
    is_accepted = (is_agent & marks["accepted"]) | (is_top & col("accepted"))
    return spans.group_by("run").agg(
        col("trace_id", "owner", "thread", "incomplete").first(),
        time=polars.coalesce(when(is_agent).then("start").max(), col("start").filter("own").min()),
        conversation=when(is_agent).then("conversation").max(),
        user=col("user").filter("own").max(),
        service=when(is_agent | has_no_agent).then("service").max(),
        failed=((is_agent & marks["failed"]) | (is_top & col("failed"))).any(),
        success=when(is_refused.any()).then(False).when(is_accepted.any()).then(True),
        explored=col("explored").filter("own").max(),
        has_tools=(col("own") & _is_tool()).any(),
    )


def _with_names(runs: pl.DataFrame) -> pl.DataFrame:
    """The runs with their `task_id`, `conversation` and `group`, and with nothing missing of what steps tell."""
    polars = require("polars", "mining")
    col = polars.col
    when = polars.when
    task_id = polars.concat_str("trace_id", polars.lit("/"), "owner")
    conversation = when(col("conversation") != "").then("conversation").otherwise("thread")
    by_text = col("text").map_elements(text_group, return_dtype=polars.String)
    return runs.with_columns(
        col("offered", "ranked", "scores", "called", "inferred", "last", "wanted", "begins").fill_null([]),
        col("broken", "continues").fill_null(False),
        task_id=task_id,
        conversation=conversation,
        group=when(conversation != "").then(conversation).otherwise(polars.coalesce(by_text, task_id)),
        text=col("text").fill_null(""),
    )


def _stopped() -> pl.Expr:
    """The run ended, without success, before its model answered."""
    polars = require("polars", "mining")
    unanswered = (polars.col("last").list.len() > 0) | polars.col("broken")
    stopped: pl.Expr = unanswered & ~polars.col("success").fill_null(False)
    return stopped


def _succeeded_untraced() -> pl.Expr:
    """The run succeeded without a span of any tool, so what its model waited for ran."""
    polars = require("polars", "mining")
    untraced: pl.Expr = polars.col("success").fill_null(False) & ~polars.col("has_tools")
    return untraced


def _is_rest() -> pl.Expr:
    """The run goes on with one before it, which is not there: no run of its trace began earlier."""
    polars = require("polars", "mining")
    is_first = (polars.col("time") == polars.col("time").min().over("trace_id")).fill_null(True)
    rest: pl.Expr = polars.col("continues") & is_first
    return rest


def _of_the_first_agent(owned: pl.DataFrame) -> pl.DataFrame:
    """The spans, without those that come in a run after it passed the task on to an agent with other tools."""
    polars = require("polars", "mining")
    passes_on = polars.col("own") & _is_tool() & (polars.col("name") == WITHIN) & (polars.col("error") == "")
    passed_on = owned.filter(passes_on).group_by("run").agg(until=polars.coalesce("end", "start").min())
    if passed_on.is_empty():
        return owned
    later = (polars.col("start") > polars.col("until")).fill_null(False)
    return owned.join(passed_on, on="run", how="left").filter(~later).drop("until")


def required(called: list[str], offered: list[str], ranked: list[str]) -> list[str]:
    """Of the tools that a run called, those that it could have been offered, by the names that it was offered.

    A tracer may know a tool of a server by its bare name, and the model under one with the server's name before it. A
    list with a tool search in it, a provider's or a gate's, leads to tools that are not on it.

    >>> required(["lookup", "log"], ["files_lookup", "send"], [])
    ['files_lookup']
    >>> required(["lookup", "log"], ["files_lookup", "find_tool", "call_tool"], [])
    ['files_lookup', 'log']
    """
    known = {*offered, *ranked}
    closed = offered and not any(re.fullmatch(f"(?i){DISCOVERY}|{CALL.name}", name) for name in offered)
    names = set()
    for name in called:
        longer = [other for other in known if re.search(rf"[/.:_-]{re.escape(name)}$", other)]
        if name not in known and len(longer) == 1:
            names |= {*longer}
        elif name in known or not closed:
            names.add(name)
    return sorted(names)


def awaited(requested: list[str], offered: list[str], ranked: list[str]) -> list[str]:
    """Of the tools that the last answer of a run's model asked for, those whose results it waited for.

    The others are the answer itself or a handoff: what nobody offered and, where a gate ranked the tools, what it did
    not rank.

    >>> awaited(["Answer", "send"], ["send", "Answer"], ["send"])
    ['send']
    """
    return [name for name in required(requested, offered, ranked) if not ranked or name in ranked]


def _with_required(runs: pl.DataFrame) -> pl.DataFrame:
    """The runs with `required` in place of what they called, and `awaited` in place of their last requests.

    Each is asked only where it can change anything.
    """
    polars = require("polars", "mining")
    offered = polars.col("offered")
    ranked = polars.col("ranked")
    for names, rule in (("called", required), ("inferred", required), ("last", awaited), ("wanted", awaited)):
        unknown = polars.col(names).list.set_difference(offered.list.concat(ranked)).list.len() > 0
        changes = (offered.list.len() + ranked.list.len() > 0) & unknown
        if rule is awaited:
            unranked = polars.col(names).list.set_difference(ranked).list.len() > 0
            changes |= (ranked.list.len() > 0) & unranked
        some = runs.filter(polars.col(names).list.len() > 0).filter(changes)  # few runs have more than what they called
        if len(some):
            rows = some.select(names, offered, ranked).iter_rows()
            new = polars.Series(names, [rule(*row) for row in rows], runs.schema[names])
            runs = polars.concat([runs.join(some, on="run", how="anti"), some.with_columns(new)])
    return runs


def unranked(count: int) -> str:
    """The words for tasks without a ranking, and what to do about them."""
    return f"{count:,} tasks have no ranking, so nothing can be learned from them yet. {TO_GET_RANKINGS}"


def has_ids() -> pl.Expr:
    """Spans with a trace_id and a span_id."""
    polars = require("polars", "mining")
    named: pl.Expr = (polars.col("trace_id") != "") & (polars.col("span_id") != "")
    return named


def has_usable_ranking() -> pl.Expr:
    """A ranking to learn from: a finite score that is not negative for every name, and every name once."""
    polars = require("polars", "mining")
    ranked = polars.col("ranked")
    scores = polars.col("scores")
    element = polars.element()
    usable: pl.Expr = (
        (ranked.list.len() == scores.list.len())
        & (ranked.list.len() == ranked.list.n_unique())
        & ranked.list.eval((element != "").fill_null(False)).list.all()
        & scores.list.eval((element.is_finite() & (element >= 0)).fill_null(False)).list.all()
    )
    return usable


def _is_tool() -> pl.Expr:
    polars = require("polars", "mining")
    tool: pl.Expr = (polars.col("kind") == "tool") & (polars.col("name") != "")
    return tool


def _without_copies(steps: pl.LazyFrame) -> pl.LazyFrame:
    """The steps, without calls of a model that ask for nothing below one that asks for tools: both are one call.

    MLflow records the client's call below the framework's, and of a stream not what it asked for.
    """
    polars = require("polars", "mining")
    asks = polars.col("requested").list.len() > 0
    models = steps.filter(polars.col("kind") == "model")
    asking = models.filter(asks).select("run", parent_id="span_id")
    copies = models.filter(~asks).join(asking, ["run", "parent_id"], "semi").select("run", "span_id").collect()
    if copies.is_empty():  # a tracer rarely records both, and then nothing is joined with all spans
        return steps
    return steps.join(copies.lazy(), on=["run", "span_id"], how="anti")


def _called_tools(steps: pl.LazyFrame, no_tool: str) -> pl.LazyFrame:
    """The tools that ran without an error, and those that only a request shows: the names that `required` is given.

    A request without a span stands for the call if the model was asked again after it, since that takes an answer to
    the call; such tools are `inferred`. The requests of the run's last model call are its `last`; those of them that
    have no span are `wanted`.
    """
    polars = require("polars", "mining")
    name = polars.col("name")
    ids = polars.col("request_ids")
    is_required = (name != "") & ~name.str.contains(no_tool)
    spans = steps.filter(_is_tool()).select("run", "name", "call_id", ran=polars.col("error") == "").collect().lazy()
    no_ids = polars.col("requested").list.eval(polars.element().str.head(0))
    requests = (
        steps.filter(polars.col("kind") == "model")
        .sort(IN_ORDER, nulls_last=True)
        .select(
            "run",
            name="requested",
            call_id=polars.when(ids.list.len() == polars.col("requested").list.len()).then(ids).otherwise(no_ids),
            last=polars.int_range(polars.len()).over("run") == polars.len().over("run") - 1,
        )
        .explode("name", "call_id")
        .filter(is_required)
        .collect()
        .lazy()
    )
    unseen = _without_a_span(requests, spans).collect().lazy()
    called: pl.LazyFrame = (
        polars.concat(
            [
                spans.filter(polars.col("ran") & is_required).select("run", called="name"),
                unseen.filter(~polars.col("last")).select("run", called="name", inferred="name"),
                requests.filter(polars.col("last") & ~name.str.contains(CLASS)).select("run", last="name"),
                unseen.filter(polars.col("last") & ~name.str.contains(CLASS)).select("run", wanted="name"),
            ],
            how="diagonal",
        )
        .group_by("run")
        .agg(polars.col("called", "inferred", "last", "wanted").drop_nulls().unique().sort())
    )
    return called


def _without_a_span(requests: pl.LazyFrame, spans: pl.LazyFrame) -> pl.LazyFrame:
    """The requests that no span of their run executes: none has their call id, nor their name and the id of no request.

    A span may know the tool of a server by its bare name.
    """
    polars = require("polars", "mining")
    call = ["run", "call_id"]
    named = requests.filter(polars.col("call_id") != "")
    others = spans.join(named, on=call, how="anti").select("run", "name")
    left = requests.join(spans.filter(polars.col("call_id") != ""), on=call, how="anti")
    left = left.join(others, on=["run", "name"], how="anti")
    bare = left.join(others, on="run", suffix="_bare").filter(
        polars.col("name").str.ends_with(polars.col("name_bare"))
        & polars.col("name")
        .str.head(-polars.col("name_bare").str.len_chars().cast(polars.Int64))
        .str.contains("[/.:_-]$")
    )
    return left.join(bare, on=["run", "name"], how="anti")


def _ends_of_runs(steps: pl.LazyFrame) -> pl.LazyFrame:
    """How a run ends, and how it begins.

    broken     its last model call failed or was cut short, or was followed by a tool where no request is recorded. It
               was cut short if it has no count of the tokens of its answer, or 0, and an earlier call of that model has
    continues  the request of its first model call ends with the result of a tool
    begins     the tools that ran before that call
    """
    polars = require("polars", "mining")
    col = polars.col
    model = col("kind") == "model"
    read = ("name", "error", "start", "requested", "output_tokens", "continues")
    of_models = {name: col(name).filter(model) for name in read}
    uncounted = of_models["output_tokens"].last().fill_null(0) == 0
    counted = ((col("output_tokens") > 0) & model & (col("name") == of_models["name"].last())).any()
    silent = of_models["requested"].list.len().sum() == 0
    later = (col("start") > of_models["start"].last()) & _is_tool()
    return (
        steps.select("run", *IN_ORDER, "kind", "name", "error", "requested", "output_tokens", "continues")
        .sort(IN_ORDER, nulls_last=True)
        .group_by("run", maintain_order=True)
        .agg(
            broken=model.any() & ((of_models["error"].last() != "") | (uncounted & counted) | (silent & later.any())),
            continues=of_models["continues"].first(),
            begins=col("name").filter(_is_tool() & (col("start") < of_models["start"].first())),
        )
    )


def _offered_tools(steps: pl.LazyFrame) -> pl.LazyFrame:
    """The tools of the model's requests, first seen first; the agent's own where no request names any."""
    polars = require("polars", "mining")
    offered = polars.col("offered")
    kind = polars.col("kind")
    some = steps.filter(offered.list.len() > 0).select("run", *IN_ORDER, "kind", "offered")
    requests = some.filter(kind == "model")
    without = some.filter(kind.is_in(["agent", "other"])).join(requests, on="run", how="anti")
    offers: pl.LazyFrame = (
        polars.concat([requests, without])
        .select("run", "offered", place=polars.arg_sort_by(IN_ORDER, nulls_last=True).arg_sort())
        .group_by("run", "offered")
        .agg(polars.col("place").min())
        .sort("place")
        .group_by("run", maintain_order=True)
        .agg(offered.explode())
        .with_columns(
            offered.list.eval(polars.element().filter(polars.element() != "")).list.unique(maintain_order=True)
        )
    )
    return offers


def _first_rankings(steps: pl.LazyFrame) -> pl.LazyFrame:
    """The first usable ranking."""
    polars = require("polars", "mining")
    return (
        steps.filter(polars.col("ranked").list.len() > 0)
        .select("run", *IN_ORDER, "ranked", "scores")
        .filter(has_usable_ranking())
        .sort(IN_ORDER, nulls_last=True)
        .unique("run", keep="first", maintain_order=True)
        .select("run", "ranked", polars.col("scores").list.eval(polars.element().abs()))  # -0.0 is 0.0
    )


def _texts_of_runs(steps: pl.LazyFrame) -> pl.LazyFrame:
    """The text of the agent span, else the first text of the run."""
    polars = require("polars", "mining")
    if "text" not in steps.collect_schema():
        return steps.select("run", text="owner").clear()
    return (
        steps.filter(polars.col("text") != "")
        .select("run", *IN_ORDER, "text", within=polars.col("span_id") != polars.col("owner"))
        .sort("within", *IN_ORDER, nulls_last=True)
        .unique("run", keep="first", maintain_order=True)
        .select("run", "text")
    )

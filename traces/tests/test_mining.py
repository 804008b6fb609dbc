"""Mining: Polars gives what a short program in plain Python gives, however the spans come."""

from __future__ import annotations

import json
import math
import re
from collections import defaultdict
from dataclasses import asdict, replace
from io import BytesIO
from pathlib import Path
from random import Random
from typing import Any

import fsspec
import polars as pl
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import ipc

from camdf import datasets
from camdf.cli import main
from camdf.core.rankings import LoggedTasks
from camdf.errors import DataError
from camdf.examples.labels import NO_TOOL, text_group
from camdf.examples.mined import is_mined, read_logged
from camdf.prices import ToolStatistics
from camdf_lab import domains
from camdf_traces.logged import logged_tasks
from camdf_traces.runs import CLASS, PREFERENCE, TASK_COLUMNS, awaited, required
from camdf_traces.span_files import span_tables
from camdf_traces.spans import Span, arrow_of, arrow_table
from camdf_traces.tasks import mine
from camdf_traces.usage import tool_statistics, usage
from mined_spans import (
    AGENT,
    ASKS,
    PIECES,
    RANKED,
    SEARCHES,
    asks,
    piece,
    random_spans,
    runs_tool,
    traces,
)
from saying import refuses, says

__all__ = ["traces"]

Tasks = list[dict[str, Any]]


def reference(spans: list[Span], require_outcome: bool = False, with_text: bool = False) -> Tasks:
    """What mining means, one rule after the other."""
    tasks = [task_of(trace, owner, with_text) for trace in traces_of(spans).values() for owner in owners(trace)]
    kept = [task for task in tasks if task and task["success"] is not False]
    if require_outcome:
        kept = [task for task in kept if task["success"]]
    return sorted(kept, key=lambda task: (task["time"] is None, task["time"], task["task_id"]))


Trace = dict[str, Span]


def traces_of(spans: list[Span]) -> dict[str, Trace]:
    """The spans of every trace by name, each in its most complete version."""
    versions: dict[tuple[str, str], list[Span]] = defaultdict(list)
    for span in spans:
        if span.trace_id and span.span_id:
            versions[span.trace_id, span.span_id].append(span)
    traces: dict[str, Trace] = defaultdict(dict)
    for (trace, name), found in versions.items():
        traces[trace][name] = max(found, key=completeness)
    return traces


def completeness(span: Span) -> tuple[Any, ...]:
    values = [getattr(span, name) for name in PREFERENCE]
    return tuple((value is not None, value) if value is not None else (False,) for value in values)


def way_up(span: Span, trace: Trace) -> list[Span]:
    """The spans above one, nearest first; of a circle each once."""
    found: list[Span] = []
    while span.parent_id in trace and trace[span.parent_id] not in found:
        span = trace[span.parent_id]
        found.append(span)
    return found


def is_whole(trace: Trace) -> bool:
    """Whether every way up ends at a span without a parent."""
    return all([span, *way_up(span, trace)][-1].parent_id == "" for span in trace.values())


def agent_of(span: Span, trace: Trace) -> str | None:
    return next((each.span_id for each in (span, *way_up(span, trace)) if each.kind == "agent"), None)


def owners(trace: Trace) -> list[str]:
    """The agents in which something was called; "" for a trace without any, where a conversation joins its calls."""
    calls = [span for span in trace.values() if is_call(span)]
    agents = {agent_of(span, trace) for span in calls} - {None}
    if agents:
        return [agent for agent in agents if agent]
    conversations = {span.conversation for span in trace.values()} - {""}
    return [""] if len(conversations) == 1 and len(calls) > 1 else []


def members_of(trace: Trace, owner: str) -> list[Span]:
    """The spans of a run that are steps of it, and not of a tool that it called."""
    runs, found = owners(trace), []
    for span in trace.values():
        above = way_up(span, trace)
        nearest = next((each.span_id for each in (span, *above) if each.span_id in runs), None)
        if nearest is None and (owner == "" or (len(runs) == 1 and not is_call(span))):
            nearest = owner
        tools = [each.span_id for each in above if is_tool(each) and each.name != "call_tool"]
        between = next((each.span_id for each in above if each.span_id in {*tools, *runs}), None)
        if nearest == owner and (span.span_id == owner or between not in tools):
            found.append(span)
    return sorted(found, key=in_order)


def task_of(trace: Trace, owner: str, with_text: bool) -> dict[str, Any] | None:
    """The run as a task; None where it failed, or where a span of its trace is missing."""
    members = members_of(trace, owner)
    agent = trace[owner] if owner else None
    tops = [agent] if agent else [span for span in members if is_call(span)]
    above = [each for span in tops for each in way_up(span, trace)]
    if any(span.error for span in (*above, *([agent] if agent else [])) if span.kind != "model") or not is_whole(trace):
        return None
    good = [span.success for span in (*above, *([agent] if agent else []))]
    outcome = False if False in [*good, *(span.success for span in members)] else (True if True in good else None)
    explored = [span.explored for span in members if span.explored is not None]
    models = [span for span in members if span.kind == "model"]
    asking = {span.span_id for span in models if span.requested}
    requests = [span for span in models if span.requested or span.parent_id not in asking]
    ends = requests[-1:]
    tools = [span for span in members if is_tool(span)]
    asked = [call for span in requests[:-1] for call in calls_of(span)]
    pending = [call for span in ends for call in calls_of(span) if not re.search(CLASS, call[0])]
    unseen = [name for name, call_id in asked if not has_span(name, call_id, tools, asked + pending)]
    wanted = [name for name, call_id in pending if not has_span(name, call_id, tools, asked + pending)]
    ran = [span.name for span in tools if not span.error and not re.search(NO_TOOL, span.name)]
    offers = [span for span in models if span.offered]
    offering = offers or [span for span in members if span.kind in ("agent", "other")]
    offered = [name for span in offering for name in span.offered if name]
    ranking = next((span for span in members if is_usable(span)), Span("", ""))
    threads = [span.conversation for span in trace.values() if span.conversation]
    conversation = (agent.conversation if agent else "") or min(threads, default="")
    starts = [span.start for span in members if span.start is not None]
    texts = [span.text for span in (*([agent] if agent else []), *members) if span.text] if with_text else []
    task_id = f"{next(iter(trace.values())).trace_id}/{owner}"
    lists = offered, list(ranking.ranked)
    waits, wanted = [awaited(names, *lists) for names in ([name for name, _ in pending], wanted)]
    if outcome is None and (waits or is_cut_short(requests, tools)):
        return None
    called, inferred = required(ran + unseen, *lists), required(unseen, *lists)
    if outcome and not tools:
        called, inferred, wanted = sorted({*called, *wanted}), sorted({*inferred, *wanted}), []
    return {
        "task_id": task_id,
        "conversation": conversation,
        "user": max(span.user for span in members),
        "service": agent.service if agent else max(span.service for span in members),
        "group": conversation or (text_group(texts[0]) if texts else task_id),
        "time": agent.start if agent and agent.start is not None else min(starts, default=None),
        "offered": list(dict.fromkeys(offered)),
        "ranked": list(ranking.ranked),
        "scores": [score + 0.0 for score in ranking.scores],
        "called": called,
        "inferred": inferred,
        "wanted": wanted,
        "success": outcome,
        "explored": any(explored) if explored else None,
        "text": texts[0] if texts else "",
    }


def calls_of(span: Span) -> list[tuple[str, str]]:
    """The tools that a model's answer calls, and the ids of the calls."""
    same = len(span.request_ids) == len(span.requested)
    ids = span.request_ids if same else [""] * len(span.requested)
    return [call for call in zip(span.requested, ids, strict=True) if call[0] and not re.search(NO_TOOL, call[0])]


def has_span(name: str, call_id: str, tools: list[Span], calls: list[tuple[str, str]]) -> bool:
    """Whether one of the tools executes a call: by its id, or by its name if that tool has the id of no call."""
    if call_id and any(span.call_id == call_id for span in tools):
        return True
    others = [span.name for span in tools if not span.call_id or span.call_id not in {each for _, each in calls}]
    return any(name == other or re.search(rf"[/.:_-]{re.escape(other)}$", name) for other in others)


def is_cut_short(requests: list[Span], tools: list[Span]) -> bool:
    """Whether the last call of the model failed, has no count of its tokens, or comes before a tool."""
    if not requests:
        return False
    last = requests[-1]
    counted = any(span.output_tokens for span in requests if span.name == last.name)
    silent = not any(span.requested for span in requests)
    after = [span for span in tools if None not in (span.start, last.start) and span.start > last.start]  # type: ignore[operator]
    return bool(last.error) or (not last.output_tokens and counted) or (silent and bool(after))


def is_call(span: Span) -> bool:
    return span.kind == "model" or is_tool(span)


def in_order(span: Span) -> tuple[bool, int, str]:
    return span.start is None, span.start or 0, span.span_id


def is_tool(span: Span) -> bool:
    return span.kind == "tool" and span.name != ""


def is_usable(span: Span) -> bool:
    return (
        0 < len(span.ranked) == len(span.scores) == len(set(span.ranked))
        and all(span.ranked)
        and all(math.isfinite(score) and score >= 0 for score in span.scores)
    )


seeds = st.integers(0, 2**32)


@given(seeds, st.booleans(), st.booleans())
@settings(max_examples=150, deadline=None)
def test_polars_mines_what_plain_python_mines(seed: int, require_outcome: bool, with_text: bool) -> None:
    spans = random_spans(seed)
    mined = mine(arrow_table(spans), require_outcome=require_outcome, with_text=with_text, at_a_time=25)
    assert repr(mined.tasks.to_dicts()) == repr(reference(spans, require_outcome, with_text))  # -0.0 is not 0.0 here
    assert mined.spans == len(spans)
    for counts in mined.sums.values():
        whole, *parts = counts.values()
        assert whole == sum(parts)


@given(seeds, st.integers(1, 4))
@settings(max_examples=60, deadline=None)
def test_no_shuffling_repetition_or_layout_in_files_changes_the_logged_tasks(
    tmp_path_factory: pytest.TempPathFactory, seed: int, files: int
) -> None:
    spans, random = random_spans(seed), Random(seed)
    once = mine(arrow_table(spans), with_text=True)
    again = spans + random.choices(spans, k=len(spans))
    random.shuffle(again)
    folder = tmp_path_factory.mktemp("spans")
    for number in range(files):
        pq.write_table(arrow_table(again[number::files]), folder / f"{number}.parquet")
    other = mine(folder, with_text=True, at_a_time=25)
    assert other.tasks.equals(once.tasks, null_equal=True)
    assert (other.runs, other.failed, other.unowned) == (once.runs, once.failed, once.unowned)
    assert other.duplicates + other.nameless == once.duplicates + once.nameless + len(spans)
    if once.ranked:
        assert logged_tasks(other.tasks).digest() == logged_tasks(once.tasks).digest()
    assert tool_statistics(folder, at_a_time=25) == tool_statistics(arrow_table(spans))
    assert usage(folder, at_a_time=25) == usage(arrow_table(spans))


ANSWERS = Span("t", "m9", "a", "model", start=70, end=80, offered=("search", "mail"))
UNRATED = replace(AGENT, success=None)


def only(*spans: Span, **options: Any) -> dict[str, Any]:
    (task,) = mine(arrow_table(list(spans)), **options).tasks.to_dicts()
    return dict(task)


def test_mined_tasks_come_out_of_arrows_own_writer_as_they_went_in() -> None:
    """What Spark and Delta do with them; a column of empty lists is what Polars before 2.0 hands over wrongly."""
    kept = 0
    for seed in range(300):
        tasks = mine(arrow_table(random_spans(seed)), with_text=True).tasks
        written = BytesIO()
        table = arrow_of(tasks, TASK_COLUMNS)
        with ipc.new_stream(written, table.schema) as stream:
            stream.write_table(table)
        again = ipc.open_stream(written.getvalue()).read_all()
        again.validate(full=True)
        assert pl.DataFrame(again).equals(tasks)
        kept += len(tasks)
    assert kept > 150


def test_a_run_becomes_a_task_with_what_it_was_offered_ranked_and_called() -> None:
    assert only(RANKED, ASKS, SEARCHES) == {
        "task_id": "t/a",
        "conversation": "c1",
        "user": "",
        "service": "",
        "group": "c1",
        "time": 10,
        "offered": ["search", "mail"],
        "ranked": ["search", "maps", "mail"],
        "scores": [0.9, 0.5, 0.1],
        "called": ["search"],
        "inferred": [],
        "wanted": [],
        "success": True,
        "explored": False,
        "text": "",
    }


def test_offered_tools_come_in_the_order_in_which_requests_first_had_them() -> None:
    later = replace(ASKS, span_id="m0", start=25, offered=("maps", "mail", "fax"))
    untimed = replace(ASKS, span_id="a0", start=None, offered=("phone", "search"))
    assert only(AGENT, untimed, later, ASKS)["offered"] == ["search", "mail", "maps", "fax", "phone"]


def test_a_retry_counts_once_and_a_tool_that_only_failed_is_not_required() -> None:
    failed = replace(SEARCHES, span_id="s0", start=25, error="timeout")
    mails = Span("t", "x", "a", "tool", "mail", error="refused")
    assert only(AGENT, ASKS, failed, SEARCHES, mails)["called"] == ["search"]


def test_searching_for_tools_and_passing_the_task_on_is_not_doing_it() -> None:
    for name in (
        "tool_search",
        "ToolSearch",
        "mcp__hub__search_tools",
        "hub/list_available_tools",
        "tools/list",
        "hub_find_tool",
    ):
        assert only(AGENT, SEARCHES, Span("t", "d", "a", "tool", name))["called"] == ["search"], name
    for name in (
        "transfer_to_sales",
        "transfer_back_to_clerk",
        "handoff to sales",
        "hub__transfer_to_sales",
        "handoff",
    ):
        assert only(AGENT, SEARCHES, Span("t", "d", "a", "tool", name))["called"] == ["search"], name
    for name in ("search_tools_shop", "list_toolboxes", "search", "transfer_money", "final_results"):
        assert name in only(AGENT, Span("t", "d", "a", "tool", name))["called"]


def test_what_comes_after_a_handoff_inside_of_a_run_is_of_another_agent() -> None:
    passes_on = Span("t", "h", "a", "tool", "handoff", start=50, end=55)
    other = replace(ASKS, span_id="m2", start=60, offered=("maps", "handoff"), requested=("maps",), explored=True)
    maps = Span("t", "x", "a", "tool", "maps", start=70)
    alone, task = only(AGENT, ASKS, SEARCHES), only(AGENT, ASKS, SEARCHES, passes_on, other, maps)
    assert task == alone
    beside = replace(maps, span_id="y", start=52, name="mail")  # asked for together with the handoff
    assert only(AGENT, ASKS, SEARCHES, passes_on, beside, other, maps)["called"] == ["mail", "search"]
    failed = replace(passes_on, error="no such agent")
    assert only(AGENT, ASKS, SEARCHES, failed, other, maps)["called"] == ["maps", "search"]


def test_only_what_the_run_could_have_been_offered_is_required() -> None:
    log = Span("t", "l", "a", "tool", "write_log", start=41)
    assert only(AGENT, ASKS, SEARCHES, log)["called"] == ["search"]
    assert only(AGENT, SEARCHES, log)["called"] == ["search", "write_log"]  # nobody says what was offered
    maps = replace(log, name="maps")
    assert only(RANKED, ASKS, SEARCHES, maps)["called"] == [
        "maps",
        "search",
    ]  # cut by the gate, and reached all the same
    searchable = replace(ASKS, offered=("search", "tool_search"))
    assert only(AGENT, searchable, SEARCHES, maps)["called"] == ["maps", "search"]
    unranked = replace(log, name="mail")
    narrow = replace(RANKED, ranked=("search",), scores=(0.9,))
    tasks = mine(arrow_table([narrow, ASKS, SEARCHES, unranked])).tasks
    assert tasks["called"].to_list() == [["mail", "search"]]
    assert logged_tasks(tasks).missing.tolist() == [1]


def test_what_an_agent_has_was_offered_where_no_request_says_so() -> None:
    agent = replace(AGENT, offered=("search", "mail", "maps"))
    unnamed = replace(ASKS, offered=())
    assert only(agent, unnamed, SEARCHES)["offered"] == ["search", "mail", "maps"]
    assert only(agent, unnamed, ASKS, SEARCHES)["offered"] == ["search", "mail"]


def test_what_happens_inside_of_a_tool_is_no_call_of_the_agent() -> None:
    """An MCP server's own span of the same call, a tool that uses others, a tool with a model of its own."""
    inside = [
        Span("t", "i1", "s1", "tool", "bare_search"),
        Span("t", "i2", "i1", "tool", "mail"),
        Span("t", "i3", "s1", "model", offered=("maps",), requested=("maps",), ranked=("maps",), scores=(0.5,)),
    ]
    task = only(AGENT, ASKS, SEARCHES, *inside)
    assert (task["called"], task["offered"], task["ranked"]) == (["search"], ["search", "mail"], [])


def test_a_call_through_the_search_is_a_call_of_the_tool_behind_it() -> None:
    tool_search = replace(SEARCHES, name="call_tool")
    behind = Span("t", "k", "s1", "tool", "maps")
    assert only(RANKED, ASKS, tool_search, behind)["called"] == ["maps"]
    assert only(RANKED, ASKS, replace(tool_search, name="maps"), behind)["called"] == ["maps"]


@pytest.mark.parametrize(
    "offered", ["mcp__files__lookup", "files/lookup", "files.lookup", "files_lookup", "files-lookup"]
)
def test_a_tool_that_a_server_knows_by_its_bare_name_is_the_one_that_was_offered(offered: str) -> None:
    asks, looks = replace(ASKS, offered=(offered, "overlook")), replace(SEARCHES, name="lookup")
    assert only(AGENT, asks, looks)["called"] == [offered]
    assert only(AGENT, replace(asks, offered=(offered, "lookup")), looks)["called"] == ["lookup"]
    assert only(AGENT, replace(asks, offered=(offered, "web_lookup")), looks)["called"] == []  # it may be either


def test_a_structured_answer_that_only_the_last_answer_asks_for_is_no_tool() -> None:
    answers = replace(ASKS, span_id="m2", start=50, offered=("search", "mail", "Answer"), requested=("Answer",))
    assert only(RANKED, ASKS, answers)["called"] == ["search"]
    assert only(RANKED, answers)["called"] == []
    assert only(RANKED, replace(answers, requested=("mail",)))["called"] == ["mail"]
    assert only(RANKED, answers, replace(ASKS, start=60))["called"] == ["Answer", "search"]  # it went on: a tool ran


def test_without_tool_spans_what_the_model_asked_for_was_called() -> None:
    assert only(AGENT, ASKS)["called"] == ["search"]
    assert only(AGENT, ASKS, replace(SEARCHES, error="timeout"))["called"] == []


def test_every_agent_of_a_trace_has_a_task_of_its_own() -> None:
    below = [
        Span("t", "b", "s1", "agent", "helper", start=31),
        Span("t", "step", "b", "other", start=32),
        Span("t", "m2", "step", "model", start=33, offered=("maps",)),
        Span("t", "k", "step", "tool", "maps", start=34),
        Span("t", "beside", kind="tool", name="mail"),
    ]
    mined = mine(arrow_table([AGENT, ASKS, SEARCHES, *below]))
    assert [(task["task_id"], task["offered"], task["called"]) for task in mined.tasks.to_dicts()] == [
        ("t/a", ["search", "mail"], ["search"]),
        ("t/b", ["maps"], ["maps"]),
    ]
    assert mined.tasks["group"].to_list() == ["c1", "c1"]
    assert mined.unowned == 1


def test_an_agent_that_calls_nothing_is_a_step_of_the_run_around_it() -> None:
    """The workflow above an agent, and a node of the agent's own graph that says agent in its name."""
    workflow = Span("t", "w", kind="agent", name="workflow")
    node = Span(
        "t", "n", "a", "agent", "gate.before_agent", ranked=("search", "mail"), scores=(0.5, 0.25), explored=True
    )
    agent = replace(AGENT, parent_id="w")
    mined = mine(arrow_table([workflow, agent, node, ASKS, SEARCHES]))
    (task,) = mined.tasks.to_dicts()
    assert (task["task_id"], task["called"], task["ranked"]) == ("t/a", ["search"], ["search", "mail"])
    assert task["explored"] is True
    assert (mined.runs, mined.unowned) == (1, 0)
    assert mine(arrow_table([workflow, node])).runs == 0


def test_parents_in_a_circle_hang_nothing_and_leave_no_run_to_learn_from() -> None:
    circle = [Span("t", f"x{i}", f"x{(i + 1) % 5}", "tool", "mail") for i in range(5)]
    mined = mine(arrow_table([AGENT, ASKS, *circle]))
    assert (mined.unowned, mined.runs, mined.incomplete, mined.kept) == (5, 1, 1, 0)


def test_a_span_a_thousand_steps_below_its_agent_finds_it() -> None:
    chain = [Span("t", f"x{i}", f"x{i - 1}" if i else "b", "other") for i in range(1000)]
    deep = Span("t", "deep", "x999", "tool", "mail")
    mined = mine(arrow_table([AGENT, SEARCHES, replace(AGENT, span_id="b", parent_id="a"), *chain, deep]))
    assert mined.tasks["called"].to_list() == [["search"], ["mail"]]


def test_calls_without_an_agent_are_a_task_only_where_one_conversation_joins_them() -> None:
    web = Span("w", "1", kind="other", start=5)
    joined = replace(ASKS, parent_id="r", conversation="c1")
    bare = [joined, replace(SEARCHES, parent_id="r"), Span("t", "r", success=True, start=1)]
    assert only(web, *bare)["task_id"] == "t/"
    assert only(web, *bare)["success"] is True
    assert mine(arrow_table([replace(joined, conversation=""), *bare[1:]])).runs == 0
    assert mine(arrow_table([joined, replace(bare[1], conversation="c2"), bare[2]])).runs == 0
    assert mine(arrow_table([joined, bare[2]])).runs == 0  # the rest of its conversation may be in any other trace
    failed = [replace(span, error="crash") if span.span_id == "r" else span for span in bare]
    assert mine(arrow_table(failed)).failed == 1
    assert mine(arrow_table([*bare, Span("t", "r2", success=False)])).unsuccessful == 1


def test_a_run_whose_agent_never_arrived_is_no_success() -> None:
    """A worker was killed: its steps were exported, and the agent's span was not."""
    orphans = [replace(ASKS, conversation="c1"), SEARCHES]
    mined = mine(arrow_table(orphans))
    assert (mined.runs, mined.orphans, mined.incomplete, mined.kept) == (1, 2, 1, 0)
    assert says(str(mined), "2 spans", "parent", "not there")
    assert says(str(mined), "1 whose trace")
    assert mine(arrow_table([*orphans, AGENT])).kept == 1
    lost = Span("t", "lost", "gone", "tool", "mail")
    assert mine(arrow_table([AGENT, ASKS, SEARCHES, lost])).incomplete == 1
    remote = replace(AGENT, parent_id="in another service")
    assert mine(arrow_table([remote, ASKS, SEARCHES])).incomplete == 1


@pytest.mark.parametrize("change", [{"error": "crash"}, {"success": False}])
def test_a_run_below_something_that_failed_is_no_success(change: dict[str, Any]) -> None:
    root = Span("t", "r", kind="other", name="workflow", **change)
    step = Span("t", "step", "r", "other", success=True)
    runs = [
        [replace(AGENT, span_id=each, parent_id="step"), replace(ASKS, span_id=f"{each}1", parent_id=each)]
        for each in ("p", "q")
    ]
    mined = mine(arrow_table([root, step, *runs[0], *runs[1]]))
    assert (mined.runs, mined.failed + mined.unsuccessful, mined.kept) == (2, 2, 0)
    fine = replace(root, error="", success=None)
    assert mine(arrow_table([fine, step, *runs[0], *runs[1]])).tasks["success"].to_list() == [True, True]


def test_an_outcome_of_any_step_that_is_a_failure_fails_the_run_and_a_failed_model_call_alone_does_not() -> None:
    assert mine(arrow_table([UNRATED, replace(ASKS, success=False)])).unsuccessful == 1
    assert only(UNRATED, replace(ANSWERS, success=True))["success"] is None
    again = replace(ASKS, span_id="m0", start=15, error="429")
    assert only(UNRATED, again, ASKS, SEARCHES, ANSWERS)["called"] == ["search"]


@pytest.mark.parametrize(
    "steps",
    [
        [SEARCHES],  # it was cancelled, exited, left or ran into a limit after its tool
        [replace(SEARCHES, error="CancelledError")],  # or while the tool ran
        [],  # nobody approved of the call
        [SEARCHES, replace(ANSWERS, error="500")],  # the model failed, and the framework went on as if it had not
        [SEARCHES, replace(ANSWERS, output_tokens=None)],  # the answer was left in the middle of its stream
        [SEARCHES, replace(ANSWERS, output_tokens=0)],
        [SEARCHES, ANSWERS, replace(ASKS, span_id="m2", start=75, requested=("mail",))],
    ],
)
def test_a_run_that_stopped_before_its_answer_is_no_success(steps: list[Span]) -> None:
    asks = replace(ASKS, output_tokens=9)
    mined = mine(arrow_table([UNRATED, asks, *steps]))
    assert (mined.runs, mined.stopped, mined.kept) == (1, 1, 0)
    assert says(str(mined), "1 runs begun", "0 tasks", "1 stopped")
    whole = [UNRATED, asks, *steps, replace(ANSWERS, span_id="end", start=85, output_tokens=5)]
    assert mine(arrow_table(whole)).kept == 1
    assert mine(arrow_table([AGENT, asks, *steps])).kept == 1  # an outcome has the last word


def test_a_structured_answer_ends_a_run_as_words_do() -> None:
    answer = replace(ASKS, span_id="m2", start=50, requested=("WeatherReport",))
    task = only(UNRATED, ASKS, SEARCHES, answer)
    assert (task["called"], task["wanted"]) == (["search"], [])


def test_a_run_that_ends_with_a_tool_has_stopped_although_nobody_recorded_requests() -> None:
    silent = replace(ASKS, requested=())
    assert mine(arrow_table([UNRATED, silent, SEARCHES])).stopped == 1
    assert only(UNRATED, silent, SEARCHES, ANSWERS)["called"] == ["search"]


@pytest.mark.parametrize(("spans", "tasks"), PIECES.values(), ids=PIECES)
def test_the_pieces_of_a_task_are_joined_and_a_rest_without_its_beginning_is_none(
    spans: list[Span], tasks: list[tuple[list[str], list[str]]]
) -> None:
    """A person is asked between two runs: each lies in a trace of its own, and they share a conversation."""
    mined = mine(arrow_table(spans))
    assert [(task["called"], task["wanted"]) for task in mined.tasks.to_dicts()] == tasks
    assert mined.runs == mined.kept + mined.failed + mined.unsuccessful + mined.stopped + mined.rests


def test_an_agent_that_a_task_was_handed_to_is_no_rest_of_another_run() -> None:
    """Its first request ends with the result of the handoff."""
    first = piece(1, asks("search"), runs_tool("search"), asks(continues=True))
    other = Span("p1", "b", kind="agent", name="files", conversation="c", start=150)
    answer = replace(asks(continues=True), trace_id="p1", span_id="m", parent_id="b", start=151)
    assert mine(arrow_table([*first, other, answer])).kept == 2


def test_a_call_of_a_model_that_is_recorded_twice_asks_for_what_either_does() -> None:
    copy = replace(ASKS, span_id="m1-client", parent_id="m1", start=21, requested=())
    assert mine(arrow_table([UNRATED, ASKS, copy, SEARCHES])).stopped == 1
    assert only(UNRATED, ASKS, copy, SEARCHES, ANSWERS)["called"] == ["search"]


def test_a_tool_that_was_only_requested_at_the_end_is_wanted_and_not_required() -> None:
    mails = replace(ASKS, span_id="m2", start=50, requested=("mail",))
    task = only(AGENT, ASKS, SEARCHES, mails)
    assert (task["called"], task["wanted"], task["inferred"]) == (["search"], ["mail"], [])


def test_a_request_without_a_span_stands_for_the_call_if_the_model_was_asked_again() -> None:
    both = replace(ASKS, requested=("search", "mail"))
    task = only(UNRATED, both, SEARCHES, ANSWERS)
    assert (task["called"], task["inferred"], task["wanted"]) == (["mail", "search"], ["mail"], [])
    failed = Span("t", "s2", "a", "tool", "mail", start=30, error="timeout")
    assert only(UNRATED, both, SEARCHES, failed, ANSWERS)["called"] == ["search"]


def test_a_request_and_its_span_are_matched_by_the_id_of_the_call() -> None:
    both = replace(ASKS, requested=("search", "search"), request_ids=("1", "2"))
    failed = replace(SEARCHES, error="timeout")
    assert only(UNRATED, both, failed, ANSWERS)["inferred"] == ["search"]  # the second call has no span
    assert only(UNRATED, both, failed, replace(failed, span_id="s2", call_id="2"), ANSWERS)["called"] == []
    renamed = replace(failed, name="run_function")
    assert only(UNRATED, replace(ASKS, request_ids=("1",)), renamed, ANSWERS)["called"] == []


@given(seeds, st.sampled_from([{"error": "crash"}, {"success": False}]))
@settings(max_examples=100, deadline=None)
def test_whatever_fails_leaves_no_success_at_or_below_it(seed: int, change: dict[str, Any]) -> None:
    spans = [span for span in random_spans(seed) if span.trace_id and span.span_id] or [AGENT]
    failed = Random(seed).choice([span for span in spans if span.kind != "model"] or [AGENT])
    spans.append(replace(failed, end=9, **change))
    trace = traces_of(spans)[failed.trace_id]
    below = [
        span for span in trace.values() if failed.span_id in {each.span_id for each in (span, *way_up(span, trace))}
    ]
    assert not {f"{span.trace_id}/{span.span_id}" for span in below} & set(mine(arrow_table(spans)).tasks["task_id"])


@given(seeds)
@settings(max_examples=100, deadline=None)
def test_a_span_that_is_missing_leaves_nothing_to_learn_from_in_its_trace(seed: int) -> None:
    spans = [span for trace in traces_of(random_spans(seed)).values() for span in trace.values()]
    parents = {(span.trace_id, span.parent_id) for span in spans if span.parent_id != span.span_id}
    inner = [span for span in spans if (span.trace_id, span.span_id) in parents]
    if inner:
        lost = Random(seed).choice(inner)
        mined = mine(arrow_table([span for span in spans if span is not lost]))
        assert lost.trace_id not in {task_id.split("/")[0] for task_id in mined.tasks["task_id"]}
        assert mined.orphans > 0


def test_failed_runs_are_left_out_and_unknown_outcomes_only_when_asked() -> None:
    agents = [replace(AGENT, error="crash"), replace(AGENT, success=False), replace(AGENT, success=None), AGENT]
    spans = [replace(span, trace_id=str(i)) for i, agent in enumerate(agents, 1) for span in (agent, ANSWERS)]
    mined = mine(arrow_table(spans))
    assert mined.tasks["task_id"].to_list() == ["3/a", "4/a"]
    assert (mined.runs, mined.failed, mined.unsuccessful, mined.unknown) == (4, 1, 1, 1)
    assert mine(arrow_table(spans), require_outcome=True).tasks["task_id"].to_list() == ["4/a"]


def test_a_finished_span_replaces_its_beginning_whichever_comes_first() -> None:
    begun = replace(SEARCHES, end=None)
    crashed = replace(SEARCHES, error="crash")
    for spans in ([begun, crashed], [crashed, begun]):
        assert only(AGENT, *spans)["called"] == []


def test_a_called_tool_that_the_ranking_lacks_is_required_and_missing_from_the_list() -> None:
    tasks = mine(arrow_table([RANKED, SEARCHES, Span("t", "z", "a", "tool", "fax")])).tasks
    logged = logged_tasks(tasks, prices={"search": 2.0, "maps": 1.0, "mail": 0.5})
    assert logged.rankings.names(0) == ["search", "maps", "mail"]
    assert logged.required.tolist() == [[True, False, False]]
    assert (logged.n_required.tolist(), logged.missing.tolist()) == ([2], [1])
    assert logged.rankings.costs.tolist() == [[2.0, 1.0, 0.5]]


def test_tasks_that_nobody_ranked_stay_in_the_table_and_out_of_the_logged_tasks() -> None:
    plain = [replace(span, trace_id="u") for span in (AGENT, ASKS)]
    mined = mine(arrow_table([RANKED, ASKS, *plain]))
    assert (len(mined.tasks), mined.ranked, len(logged_tasks(mined.tasks))) == (2, 1, 1)
    assert "1 tasks have no ranking" in str(mined)
    with pytest.raises(DataError, match="shadow mode"):
        logged_tasks(mine(arrow_table(plain)).tasks)


def test_near_copies_outside_of_a_conversation_share_a_group_where_text_is_read() -> None:
    agents = [replace(AGENT, trace_id=str(i), conversation="", text=f"Cancel  order {i}") for i in range(3)]
    table = arrow_table([*agents, *(replace(ASKS, trace_id=str(i)) for i in range(3))])
    assert mine(table, with_text=True).tasks["group"].n_unique() == 1
    assert mine(table).tasks["group"].to_list() == ["0/a", "1/a", "2/a"]


def test_a_table_may_lack_columns_hold_nulls_and_use_other_types_of_text_and_number() -> None:
    table = pl.DataFrame(
        {
            "trace_id": pl.Series(["t", "t", None], dtype=pl.Categorical),
            "span_id": ["a", "s", "x"],
            "parent_id": [None, "a", None],
            "kind": ["agent", "tool", None],
            "name": ["clerk", "mail", None],
            "start": pl.Series([1, 2, None], dtype=pl.Int32),
            "offered": [None, ["x", None], None],
        }
    )
    mined = mine(table)
    assert mined.tasks["called"].to_list() == [["mail"]]
    assert mined.nameless == 1
    with pytest.raises(DataError, match="'kind'"):
        mine(table.drop("kind"))


def test_the_statistics_of_tools_and_runs_are_what_prices_need() -> None:
    second = 1_000_000_000
    spans = [
        AGENT,
        replace(ASKS, input_tokens=1000, cached_tokens=0),
        replace(ASKS, span_id="m2", input_tokens=3000, cached_tokens=2000),
        replace(ASKS, span_id="m3"),
        replace(SEARCHES, start=0, end=3 * second),
        replace(SEARCHES, span_id="s2", start=0, end=second, error="timeout"),
        replace(SEARCHES, span_id="s3", start=None),
        Span("u", "f", kind="tool", name="fax", start=5, end=4),
    ]
    assert tool_statistics(arrow_table(spans)) == {
        "fax": ToolStatistics(1, 0.0, 0),
        "search": ToolStatistics(3, 6.0, 1),
    }
    used = usage(arrow_table(spans))
    assert (used.runs, used.turns, used.input_tokens, used.cached_share) == (1, 3.0, 2000.0, 0.5)


def test_camdf_mine_writes_what_camdf_fit_reads(
    traces: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output, statistics = tmp_path / "tasks.parquet", tmp_path / "statistics.json"
    assert main(["mine", str(traces), "-o", str(output), "--statistics", str(statistics)]) == 0
    printed = capsys.readouterr().out
    assert "250 spans read: 150 used, 100 duplicates." in printed
    assert says(printed, "50 tasks with 2 tools", "40 have a ranking", "0 explored")
    assert "10 tasks have no ranking" in printed
    found = json.loads(statistics.read_text())
    assert found["usage"] == {"runs": 50, "turns": 1.0, "input_tokens": 1200.0, "cached_share": 0.25}
    assert found["tools"]["search"]["calls"] + found["tools"]["mail"]["calls"] == 50
    assert read_logged(output).digest() == logged_tasks(pl.read_parquet(output)).digest()
    policy = tmp_path / "policy.json"
    arguments = ["fit", str(output), "-o", str(policy), "--cost-pressure", "0.1", "--splits", "3"]
    assert main([*arguments, "--policy", "fixed-k"]) == 0
    assert "40 tasks, 20 groups" in capsys.readouterr().out


def test_tasks_without_any_ranking_are_refused_with_what_to_do(tmp_path: Path) -> None:
    mine(arrow_table([AGENT, ASKS])).tasks.write_parquet(tmp_path / "tasks.parquet")
    with refuses(DataError, "tasks.parquet", "none of its 1", "shadow mode"):
        read_logged(tmp_path / "tasks.parquet")


def test_mined_tasks_are_read_as_from_records_whatever_their_files(tmp_path: Path) -> None:
    spans = [replace(span, trace_id=f"{seed}-{span.trace_id}") for seed in range(40) for span in random_spans(seed)]
    tasks = mine(arrow_table(spans)).tasks
    ranked = [task for task in tasks.to_dicts() if task["ranked"]]
    records = [
        {
            "task_id": task["task_id"],
            "group": task["group"],
            "scores": dict(zip(task["ranked"], task["scores"], strict=True)),
            "required": task["called"],
        }
        for task in ranked
    ]
    expected = LoggedTasks.from_records(records)
    assert len(expected) > 20
    (tmp_path / "folder").mkdir()
    tasks.write_parquet(tmp_path / "tasks.parquet")
    tasks.head(9).write_parquet(tmp_path / "folder" / "a.parquet")
    tasks.tail(-9).write_parquet(tmp_path / "folder" / "b.parquet")
    for path in (tmp_path / "tasks.parquet", tmp_path / "folder"):
        assert is_mined(path)
        found = read_logged(path)
        assert found.digest() == expected.digest()
        assert found.rankings.catalogue == expected.rankings.catalogue
        assert (found.task_ids.tolist(), found.groups.tolist()) == (
            expected.task_ids.tolist(),
            expected.groups.tolist(),
        )


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"scores": [0.9, 0.5]}, ["'scores'", "3 numbers"]),
        ({"scores": [0.9, 0.5, math.nan]}, ["'scores'", "'mail'", "nan", "sigmoid"]),
        ({"scores": [0.9, -0.5, 0.1]}, ["'scores'", "'maps'", "-0.5"]),
        ({"scores": [0.9, 0.5, None]}, ["'scores'", "'mail'", "None"]),
        ({"ranked": ["search", "maps", "maps"]}, ["'ranked'", "once", "'maps'"]),
        ({"ranked": ["search", "maps", "\0"]}, ["'ranked'", "valid characters"]),
        ({"called": ["search", "search"]}, ["'called'", "once", "'search'"]),
        ({"called": ["search", None]}, ["'called'", "None"]),
        ({"called": None}, ["'called'", "list of tool names"]),
        ({"group": ""}, ["'group'", "not empty"]),
        ({"group": None}, ["'group'", "None"]),
        ({"task_id": None}, ["'task_id'", "None"]),
        ({"task_id": "u/a"}, ["'task_id'", "different for every task", "row 1 too"]),
    ],
)
def test_a_broken_row_of_mined_tasks_is_refused_with_row_field_and_remedy(
    tmp_path: Path, change: dict[str, Any], words: list[str]
) -> None:
    rows = mine(arrow_table([replace(each, trace_id=name) for name in "tu" for each in (RANKED, ASKS)])).tasks.sort(
        "task_id", descending=True
    )
    first, second = rows.to_dicts()
    path = tmp_path / "tasks.parquet"
    pl.DataFrame([first, {**second, **change}], schema=rows.schema).write_parquet(path)
    with pytest.raises(DataError) as caught:
        read_logged(path)
    assert all(word in str(caught.value) for word in (f"{path}, row 2", *words)), str(caught.value)


def test_a_table_of_mined_tasks_is_refused_as_a_file_of_ones_own_with_what_reads_it(tmp_path: Path) -> None:
    mine(arrow_table([RANKED, ASKS])).tasks.write_parquet(tmp_path / "tasks.parquet")
    with pytest.raises(DataError, match=r"camdf\.examples\.mined\.read_logged"):
        datasets.read(tmp_path / "tasks.parquet")
    pl.DataFrame(schema={"ranked": pl.List(pl.String), "called": pl.List(pl.String)}).write_parquet(
        tmp_path / "a.parquet"
    )
    with pytest.raises(DataError, match="column 'task_id': must be there"):
        read_logged(tmp_path / "a.parquet")


def test_a_file_of_ones_own_is_read_as_logged_tasks_too(tmp_path: Path) -> None:
    logged = domains.load("retail", "claude")
    for name, write in (("tasks.jsonl", datasets.write_jsonl), ("tasks.parquet", datasets.write_parquet)):
        write(logged, tmp_path / name)
        assert not is_mined(tmp_path / name)
        assert read_logged(tmp_path / name).digest() == datasets.read(tmp_path / name).digest()
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="a folder without"):
        read_logged(tmp_path / "empty")


def test_a_folder_without_spans_and_a_broken_file_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = str(tmp_path / "tasks.parquet")
    assert main(["mine", str(tmp_path / "nowhere"), "-o", output]) == 2
    assert says(capsys.readouterr().err, "no file or folder", tmp_path / "nowhere")
    folder = tmp_path / "traces"
    folder.mkdir()
    assert main(["mine", str(folder), "-o", output]) == 2
    assert "There are no traces" in capsys.readouterr().err
    (folder / "half.parquet").write_bytes(b"PAR1 and no more")
    assert main(["mine", str(folder), "-o", output]) == 2
    assert says(capsys.readouterr().err, "half.parquet", "whole Parquet file")


def test_a_span_table_behind_a_url_may_be_empty_as_one_on_this_machine(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pq.write_table(arrow_table([]), tmp_path / "spans.parquet")
    with fsspec.open("memory://nothing/spans.parquet", "wb") as file:
        file.write((tmp_path / "spans.parquet").read_bytes())
    said = []
    for place in (str(tmp_path / "spans.parquet"), "memory://nothing"):
        assert main(["mine", place, "-o", str(tmp_path / "tasks.parquet")]) == 0
        assert main(["compare", place]) == 2
        said.append(capsys.readouterr())
    assert said[0] == said[1]
    assert said[0].out.startswith("0 spans read: 0 used.")
    assert says(said[0].err, "no run of an agent")


def test_traces_in_another_format_pass_through_temporary_span_tables(tmp_path: Path) -> None:
    folder = tmp_path / "traces"
    folder.mkdir()
    pq.write_table(arrow_table([RANKED, ASKS]), folder / "some.parquet")
    other = [replace(span, trace_id="u") for span in (AGENT, replace(ASKS, requested=()))]
    more = [json.dumps(asdict(span)) for span in (SEARCHES, *other)]
    (folder / "more.jsonl").write_text("\n".join([*more, "{ broken"]))
    told: list[str] = []
    with span_tables(folder, bytes_a_file=1, tell=told.append) as tables:
        assert len(tables) == 4
        assert mine(tables).tasks["called"].to_list() == [["search"], []]
    assert [table.exists() for table in tables] == [True, False, False, False]
    assert says(told[0], "4 records", "3 spans", "1 could not be read")


def test_progress_is_reported_to_the_end_and_time_left_reaches_zero() -> None:
    spans = [replace(AGENT, trace_id=str(i)) for i in range(40)]
    seen: list[tuple[int, int, float]] = []
    mine(arrow_table(spans), at_a_time=10, progress=lambda *step: seen.append(step))
    assert [done for done, _, _ in seen] == sorted({done for done, _, _ in seen})
    assert seen[-1] == (8, 8, 0.0)


def test_the_page_says_what_the_stored_measurement_of_twenty_million_spans_says() -> None:
    root = Path(__file__).parents[2]
    stored = json.loads((root / "results" / "mining.json").read_text())
    page = (root / "traces" / "docs" / "mining.md").read_text(encoding="utf-8")
    assert stored["generated"]["spans"] >= 20_000_000
    assert stored["tasks that differ"] == 0
    assert stored["polars"]["peak GiB"] < 24
    for name, engine in (("Polars", stored["polars"]), ("DuckDB", stored["duckdb"])):
        used, passed, peak = engine["processor seconds"], engine["seconds"], engine["peak GiB"]
        assert f"| {name} | {used:.0f} | {passed:.0f} | {peak:.1f} |" in page
    assert f"{stored['generated']['spans']:,} spans" in page
    assert f"{stored['polars']['tasks']:,} tasks" in page
    assert f"20 million spans in {stored['polars']['peak GiB']:.1f} GiB" in page


def test_the_page_says_of_its_fits_what_its_table_says() -> None:
    page = (Path(__file__).parents[1] / "docs" / "mining.md").read_text(encoding="utf-8")
    row = r"^(untold|explored|tasks) +(promised|given) +(\d\.\d+) +\d+% +(\d\.\d+)$"
    rows = {(runs, when): (float(own), float(rule)) for runs, when, own, rule in re.findall(row, page, flags=re.M)}
    assert rows["untold", "promised"][0] > rows["untold", "given"][0], "promises more than it can keep"
    assert rows["untold", "given"][0] < rows["explored", "given"][0], "gives less than the one from explored runs"
    assert rows["untold", "given"][0] < rows["tasks", "given"][0], "and than the one that knows what was cut"
    assert rows["untold", "promised"][1] > rows["untold", "promised"][0], (
        "its fit said that a simple rule would do better"
    )
    assert rows["untold", "given"][1] < rows["untold", "given"][0], "in the new month the rule does worse"
    ((tasks, explored),) = re.findall(r"^(\d+) tasks with .* (\d+) explored\.$", page, flags=re.M)
    assert f"from {explored} tasks instead of {tasks}" in " ".join(page.split())


def test_the_page_says_what_the_stored_measurement_of_reading_says() -> None:
    root = Path(__file__).parents[2]
    stored = json.loads((root / "results" / "reading.json").read_text())
    page = (root / "traces" / "docs" / "mining.md").read_text(encoding="utf-8")
    steps = ("read", "read with text", "read into span tables")
    labels = {
        "genai": ("GenAI conventions", "json.loads alone"),
        "genai in protobuf": ("the same in protobuf", "its parser alone"),
        "openinference": ("OpenInference", "json.loads alone"),
        "openinference in protobuf": ("OpenInference in protobuf", "its parser alone"),
    }
    for name, (label, alone) in labels.items():
        figures = " | ".join(f"{stored[name][step]:.0f}" for step in (alone, *steps))
        assert f"| {label} | {stored[name]['bytes a span']:,} | {figures} |" in page
    assert f"(a load of {stored['load']:.1f}), so" in page
    assert stored["genai"]["read"] < stored["genai in protobuf"]["read"], "the page says that protobuf costs more"
    small = stored["small files"]
    together, apart = (part["read into span tables"] for part in (stored["genai"], small))
    assert says(page, f"{small['files']:,} small files", f"{together:.0f} becomes {apart:.0f}")
    large = stored["large file"]
    assert says(page, "a file", f"{large['megabytes']} MB")
    assert f"(a load of {large['load']:.1f})" in page
    for workers, took in large["processes"].items():
        figures = f"{took['seconds']:.1f} | {took['processor seconds']:.1f}"
        assert f"| {workers} process{'es' if workers != '1' else ''} | {figures} |" in page
    missed = says(" ".join(page.split()), "20 microseconds", "is missed")
    assert (stored["genai"]["read"] > 20) == missed

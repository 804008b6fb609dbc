"""Mining: Polars gives what a short program in plain Python gives, however the spans come."""

from __future__ import annotations

import json
import math
import re
from collections import defaultdict
from dataclasses import asdict, replace
from pathlib import Path
from random import Random
from typing import Any

import polars as pl
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from camdf import datasets
from camdf.cli import main
from camdf.core.rankings import LoggedTasks
from camdf.errors import DataError
from camdf.mining.logged import is_mined, logged_tasks, read_logged
from camdf.mining.runs import DISCOVERY, PREFERENCE, text_group
from camdf.mining.span_files import span_tables
from camdf.mining.spans import Kind, Span, arrow_table
from camdf.mining.tasks import mine
from camdf.mining.usage import tool_statistics, usage
from camdf.prices import ToolStatistics

Tasks = list[dict[str, Any]]


def reference(spans: list[Span], require_outcome: bool = False, with_text: bool = False) -> Tasks:
    """What mining means, one rule after the other."""
    versions: dict[tuple[str, str], list[Span]] = defaultdict(list)
    for span in spans:
        if span.trace_id and span.span_id:
            versions[span.trace_id, span.span_id].append(span)
    traces: dict[str, dict[str, Span]] = defaultdict(dict)
    for (trace, name), found in versions.items():
        traces[trace][name] = max(found, key=completeness)
    runs: dict[tuple[str, str], list[Span]] = defaultdict(list)
    for trace, members in traces.items():
        for span in members.values():
            owner = owner_of(span, members)
            if owner is not None:
                runs[trace, owner].append(span)
    tasks = [task_of(run, traces[run[0]], members, with_text) for run, members in runs.items()]
    kept = [task for task in tasks if task and task["success"] is not False]
    if require_outcome:
        kept = [task for task in kept if task["success"]]
    return sorted(kept, key=lambda task: (task["time"] is None, task["time"], task["task_id"]))


def completeness(span: Span) -> tuple[Any, ...]:
    values = [getattr(span, name) for name in PREFERENCE]
    return tuple((value is not None, value) if value is not None else (False,) for value in values)


def owner_of(span: Span, trace: dict[str, Span]) -> str | None:
    agents = [each.span_id for each in trace.values() if each.kind == "agent"]
    if len(agents) < 2:
        return agents[0] if agents else ""
    for _ in trace:
        if span.kind == "agent":
            return span.span_id
        if span.parent_id not in trace:
            return None
        span = trace[span.parent_id]
    return span.span_id if span.kind == "agent" else None


def task_of(
    run: tuple[str, str], trace: dict[str, Span], members: list[Span], with_text: bool
) -> dict[str, Any] | None:
    """The run as a task; None where it failed, or where nothing of an agent ran in it."""
    trace_id, owner = run
    members = sorted(members, key=in_order)
    agent = trace[owner] if owner else None
    if not any(span.kind in ("agent", "model") or is_tool(span) for span in members):
        return None
    top = [agent] if agent else [span for span in members if not span.parent_id and span.kind == "other"]
    if any(span.error for span in top):
        return None
    outcomes = [span.success for span in top if span.success is not None]
    explored = [span.explored for span in members if span.explored is not None]
    if any(is_tool(span) for span in members):
        called = {span.name for span in members if is_tool(span) and not span.error}
    else:
        called = {name for span in members if span.kind == "model" for name in span.requested}
    offered = [name for span in members if span.kind == "model" for name in span.offered if name]
    ranking = next((span for span in members if is_usable(span)), Span("", ""))
    threads = [span.conversation for span in trace.values() if span.conversation]
    conversation = (agent.conversation if agent else "") or min(threads, default="")
    starts = [span.start for span in members if span.start is not None]
    texts = [span.text for span in (*([agent] if agent else []), *members) if span.text] if with_text else []
    task_id = f"{trace_id}/{owner}"
    return {
        "task_id": task_id,
        "conversation": conversation,
        "group": conversation or (text_group(texts[0]) if texts else task_id),
        "time": agent.start if agent and agent.start is not None else min(starts, default=None),
        "offered": list(dict.fromkeys(offered)),
        "ranked": list(ranking.ranked),
        "scores": [score + 0.0 for score in ranking.scores],
        "called": sorted(name for name in called if name and not re.search(DISCOVERY, name)),
        "success": all(outcomes) if outcomes else None,
        "explored": any(explored) if explored else None,
        "text": texts[0] if texts else "",
    }


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


TOOLS = ("search", "mail", "maps", "tool_search", "crm/list_tools", "straße", "")


def random_spans(seed: int) -> list[Span]:
    """A few dozen spans with few names, so that parents, circles, several agents and versions of a span are common."""
    draw = Random(seed)

    def some_tools() -> tuple[str, ...]:
        return tuple(draw.choices(TOOLS, k=draw.choice([0, 1, 2, 3])))

    def a_span() -> Span:
        ranked = tuple(draw.sample(TOOLS[:6], 2)) if draw.random() < 0.3 else some_tools()
        good = tuple(draw.choices([0.0, -0.0, 0.2, 0.9, 1.5], k=len(ranked)))
        bad = draw.choice([(0.5,), (-0.1,) * len(ranked), (math.inf,) * len(ranked)])
        return Span(
            trace_id=draw.choice(["t", "u", "v", "w"]) if draw.random() < 0.98 else "",
            span_id=draw.choice("abcdefgh") if draw.random() < 0.98 else "",
            parent_id=draw.choice([*"abcdefgh", "gone", "", "", ""]),
            kind=draw.choice(kinds),
            name=draw.choice(TOOLS),
            conversation=draw.choice(["", "", "", "c1", "c2"]),
            start=draw.choice([None, 1, 2, 3]),
            end=draw.choice([None, 1, 2]),
            error=draw.choice(["", "", "", "", "timeout"]),
            text=draw.choice(["", "", "Cancel order 17", "cancel order 4", "Hello"]),
            offered=some_tools(),
            requested=some_tools(),
            call_id=draw.choice(["", "1", "2"]),
            ranked=ranked,
            scores=draw.choice([good, good, bad]),
            explored=draw.choice([None, None, True, False]),
            success=draw.choice([None, None, True, True, False]),
            input_tokens=draw.choice([None, 0, 100, 900]),
            cached_tokens=draw.choice([None, 0, 100, 2000]),
        )

    kinds: list[Kind] = draw.choice(
        [["agent", "model", "tool", "other"], ["model", "tool", "other"], ["model", "agent"]]
    )
    return [a_span() for _ in range(draw.choice([1, 6, 30, 60]))]


seeds = st.integers(0, 2**32)


@given(seeds, st.booleans(), st.booleans())
@settings(max_examples=150, deadline=None)
def test_polars_mines_what_plain_python_mines(seed: int, require_outcome: bool, with_text: bool) -> None:
    spans = random_spans(seed)
    mined = mine(arrow_table(spans), require_outcome=require_outcome, with_text=with_text, at_a_time=25)
    assert repr(mined.tasks.to_dicts()) == repr(reference(spans, require_outcome, with_text))  # -0.0 is not 0.0 here
    assert mined.spans == len(spans)
    left_out = mined.failed + mined.unsuccessful + (mined.unknown if require_outcome else 0)
    assert mined.runs - left_out == len(mined.tasks)


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


AGENT = Span("t", "a", kind="agent", name="clerk", conversation="c1", start=10, end=90, success=True)
ASKS = Span("t", "m1", "a", "model", start=20, end=30, offered=("search", "mail"), requested=("search",))
SEARCHES = Span("t", "s1", "a", "tool", "search", start=30, end=40, call_id="1")
RANKED = replace(AGENT, ranked=("search", "maps", "mail"), scores=(0.9, 0.5, 0.1), explored=False)


def only(*spans: Span, **options: Any) -> dict[str, Any]:
    (task,) = mine(arrow_table(list(spans)), **options).tasks.to_dicts()
    return dict(task)


def test_a_run_becomes_a_task_with_what_it_was_offered_ranked_and_called() -> None:
    assert only(RANKED, ASKS, SEARCHES) == {
        "task_id": "t/a",
        "conversation": "c1",
        "group": "c1",
        "time": 10,
        "offered": ["search", "mail"],
        "ranked": ["search", "maps", "mail"],
        "scores": [0.9, 0.5, 0.1],
        "called": ["search"],
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


def test_searching_for_tools_is_not_doing_the_task() -> None:
    for name in ("tool_search", "ToolSearch", "mcp__hub__search_tools", "hub/list_available_tools", "tools/list"):
        assert only(AGENT, SEARCHES, Span("t", "d", "a", "tool", name))["called"] == ["search"], name
    for name in ("search_tools_shop", "list_toolboxes", "search"):
        assert name in only(AGENT, Span("t", "d", "a", "tool", name))["called"]


def test_without_tool_spans_what_the_model_asked_for_was_called() -> None:
    assert only(AGENT, ASKS)["called"] == ["search"]
    assert only(AGENT, ASKS, replace(SEARCHES, error="timeout"))["called"] == []


def test_every_agent_of_a_trace_has_a_task_of_its_own() -> None:
    below = [
        Span("t", "b", "s1", "agent", "helper", start=31),
        Span("t", "step", "b", "other", start=32),
        Span("t", "m2", "step", "model", start=33, offered=("maps",)),
        Span("t", "k", "step", "tool", "maps", start=34),
        Span("t", "lost", "gone", "tool", "mail"),
    ]
    mined = mine(arrow_table([AGENT, ASKS, SEARCHES, *below]))
    assert [(task["task_id"], task["offered"], task["called"]) for task in mined.tasks.to_dicts()] == [
        ("t/a", ["search", "mail"], ["search"]),
        ("t/b", ["maps"], ["maps"]),
    ]
    assert mined.tasks["group"].to_list() == ["c1", "c1"]
    assert mined.unowned == 1


def test_parents_in_a_circle_belong_to_no_agent_and_hang_nothing() -> None:
    circle = [Span("t", f"x{i}", f"x{(i + 1) % 5}", "tool", "mail") for i in range(5)]
    mined = mine(arrow_table([AGENT, replace(AGENT, span_id="b"), *circle]))
    assert (mined.unowned, mined.runs) == (5, 2)


def test_a_span_a_thousand_steps_below_its_agent_finds_it() -> None:
    chain = [Span("t", f"x{i}", f"x{i - 1}" if i else "b", "other") for i in range(1000)]
    deep = Span("t", "deep", "x999", "tool", "mail")
    mined = mine(arrow_table([AGENT, replace(AGENT, span_id="b", parent_id="a"), *chain, deep]))
    assert mined.tasks["called"].to_list() == [[], ["mail"]]


def test_a_trace_without_an_agent_is_one_task_and_a_trace_without_a_model_or_tool_is_none() -> None:
    web = Span("w", "1", kind="other", start=5)
    bare = [replace(ASKS, parent_id="r"), replace(SEARCHES, parent_id="r"), Span("t", "r", success=True, start=1)]
    assert only(web, *bare)["task_id"] == "t/"
    assert only(web, *bare)["success"] is True
    failed = [replace(span, error="crash") if span.span_id == "r" else span for span in bare]
    assert mine(arrow_table(failed)).failed == 1
    assert mine(arrow_table([*bare, Span("t", "r2", success=False)])).unsuccessful == 1


def test_failed_runs_are_left_out_and_unknown_outcomes_only_when_asked() -> None:
    spans = [
        replace(AGENT, trace_id="1", error="crash"),
        replace(AGENT, trace_id="2", success=False),
        replace(AGENT, trace_id="3", success=None),
        replace(AGENT, trace_id="4"),
    ]
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
    plain = replace(AGENT, trace_id="u")
    mined = mine(arrow_table([RANKED, plain]))
    assert (len(mined.tasks), mined.ranked, len(logged_tasks(mined.tasks))) == (2, 1, 1)
    assert "1 tasks have no ranking" in str(mined)
    with pytest.raises(DataError, match="shadow mode"):
        logged_tasks(mine(arrow_table([plain])).tasks)


def test_near_copies_outside_of_a_conversation_share_a_group_where_text_is_read() -> None:
    runs = [replace(AGENT, trace_id=str(i), conversation="", text=f"Cancel  order {i}") for i in range(3)]
    table = arrow_table(runs)
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


@pytest.fixture
def traces(tmp_path: Path) -> Path:
    """Forty runs that a gate ranked and ten that it did not, in two files, each run in both."""
    folder = tmp_path / "traces"
    folder.mkdir()
    runs = [
        [
            replace(RANKED if i < 40 else AGENT, trace_id=f"{i:02}", conversation=f"c{i // 2}", start=i),
            replace(ASKS, trace_id=f"{i:02}", input_tokens=1200, cached_tokens=300),
            replace(SEARCHES, trace_id=f"{i:02}", name="search" if i % 3 else "mail"),
        ]
        for i in range(50)
    ]
    for name, end in (("one", 2), ("two", 3)):
        pq.write_table(arrow_table([span for run in runs for span in run[:end]]), folder / f"{name}.parquet")
    return folder


def test_camdf_mine_writes_what_camdf_fit_reads(
    traces: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output, statistics = tmp_path / "tasks.parquet", tmp_path / "statistics.json"
    assert main(["mine", str(traces), "-o", str(output), "--statistics", str(statistics)]) == 0
    printed = capsys.readouterr().out
    assert "250 spans: 100 were duplicates" in printed
    assert "50 tasks with 2 tools: 40 have a ranking, 0 explored." in printed
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
    mine(arrow_table([AGENT])).tasks.write_parquet(tmp_path / "tasks.parquet")
    with pytest.raises(DataError, match=r"none of its 1 mined tasks has one.*shadow mode"):
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
    rows = mine(arrow_table([replace(RANKED, trace_id="u"), RANKED])).tasks.sort("task_id", descending=True)
    first, second = rows.to_dicts()
    path = tmp_path / "tasks.parquet"
    pl.DataFrame([first, {**second, **change}], schema=rows.schema).write_parquet(path)
    with pytest.raises(DataError) as caught:
        read_logged(path)
    assert all(word in str(caught.value) for word in (f"{path}, row 2", *words)), str(caught.value)


def test_a_table_of_mined_tasks_is_refused_as_a_file_of_ones_own_with_what_reads_it(tmp_path: Path) -> None:
    mine(arrow_table([RANKED])).tasks.write_parquet(tmp_path / "tasks.parquet")
    with pytest.raises(DataError, match=r"camdf\.mining\.logged\.read_logged"):
        datasets.read(tmp_path / "tasks.parquet")
    pl.DataFrame(schema={"ranked": pl.List(pl.String), "called": pl.List(pl.String)}).write_parquet(
        tmp_path / "a.parquet"
    )
    with pytest.raises(DataError, match="column 'task_id': must be there"):
        read_logged(tmp_path / "a.parquet")


def test_a_file_of_ones_own_is_read_as_logged_tasks_too(tmp_path: Path) -> None:
    logged = datasets.load("retail", "claude")
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
    assert "There is no file or folder" in capsys.readouterr().err
    folder = tmp_path / "traces"
    folder.mkdir()
    assert main(["mine", str(folder), "-o", output]) == 2
    assert "There are no traces" in capsys.readouterr().err
    (folder / "half.parquet").write_bytes(b"PAR1 and no more")
    assert main(["mine", str(folder), "-o", output]) == 2
    assert "half.parquet: must be a whole Parquet file" in capsys.readouterr().err


def test_traces_in_another_format_pass_through_temporary_span_tables(tmp_path: Path) -> None:
    folder = tmp_path / "traces"
    folder.mkdir()
    pq.write_table(arrow_table([RANKED, ASKS]), folder / "some.parquet")
    more = [json.dumps(asdict(span)) for span in (SEARCHES, replace(AGENT, trace_id="u"))]
    (folder / "more.jsonl").write_text("\n".join([*more, "{ broken"]))
    told: list[str] = []
    with span_tables(folder, spans_a_file=1, tell=told.append) as tables:
        assert len(tables) == 3
        assert mine(tables).tasks["called"].to_list() == [["search"], []]
    assert [table.exists() for table in tables] == [True, False, False]
    assert "3 records gave 2 spans; 1 could not be read." in told[0]


def test_progress_is_reported_to_the_end_and_time_left_reaches_zero() -> None:
    spans = [replace(AGENT, trace_id=str(i)) for i in range(40)]
    seen: list[tuple[int, int, float]] = []
    mine(arrow_table(spans), at_a_time=10, progress=lambda *step: seen.append(step))
    assert [done for done, _, _ in seen] == sorted({done for done, _, _ in seen})
    assert seen[-1] == (8, 8, 0.0)


def test_the_page_says_what_the_stored_measurement_of_twenty_million_spans_says() -> None:
    root = Path(__file__).parents[1]
    stored = json.loads((root / "results" / "mining.json").read_text())
    page = (root / "docs" / "mining.md").read_text(encoding="utf-8")
    assert stored["generated"]["spans"] >= 20_000_000
    assert stored["tasks that differ"] == 0
    assert stored["polars"]["peak GiB"] < 24
    for name, engine in (("Polars", stored["polars"]), ("DuckDB", stored["duckdb"])):
        used, passed, peak = engine["processor seconds"], engine["seconds"], engine["peak GiB"]
        assert f"| {name} | {used:.0f} | {passed:.0f} | {peak:.1f} |" in page
    assert f"{stored['generated']['spans']:,} spans" in page
    assert f"{stored['polars']['tasks']:,} tasks" in page

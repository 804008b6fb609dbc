"""A table that grows day by day is what mining everything at once gives, whatever came when, and however often."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from hypothesis import given, settings
from hypothesis import strategies as st

from arrivals import BEGIN, DAY, FIRST, SECRET, at_once, days_of, in_a_possible_order, run, some_runs
from camdf.cli import main
from camdf.errors import DataError, UsageError
from camdf.mining.buckets import Bucket, commit, opened, read_buckets
from camdf.mining.days import MinedDay, Rules, mine_day, read_days
from camdf.mining.logged import is_mined, mined_table
from camdf.mining.spans import Span, arrow_table


def tasks_of(table: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = read_days(table).to_pylist()
    return found


@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 2**32), count=st.integers(1, 8), watermark=st.integers(1, 3))
def test_the_days_of_any_split_add_up_to_mining_everything_at_once(
    seed: int, count: int, watermark: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    rng, table = random.Random(seed), tmp_path_factory.mktemp("days") / "table"
    runs = some_runs(rng, count)
    days = days_of(rng, runs, watermark)
    for day in in_a_possible_order(rng, days, watermark):
        mine_day(arrow_table(days[day]), table, day, watermark=watermark)
        if rng.random() < 0.3:
            version = DeltaTable(table).version()
            again = mine_day(arrow_table([*days[day], *days[day]]), table, day, watermark=watermark)
            assert (again.added, again.changed, again.removed, again.version) == (0, 0, 0, version)
    assert tasks_of(table) == at_once(span for spans in runs for span in spans)


@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 2**32), count=st.integers(1, 8), watermark=st.integers(1, 2), by_batch=st.booleans())
def test_buckets_of_traces_add_up_to_mining_everything_at_once(
    seed: int, count: int, watermark: int, by_batch: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    rng, table, rules = random.Random(seed), tmp_path_factory.mktemp("buckets") / "table", Rules(watermark)
    runs = some_runs(rng, count)
    days = days_of(rng, runs, watermark)
    order = in_a_possible_order(rng, days, watermark)
    arrivals = [(day, days[day]) for day in order]
    if by_batch:  # a day comes in two parts, which add up
        arrivals = [(day, part) for day in order for part in (days[day][::2], days[day][1::2]) if part]
    for day, spans in arrivals:
        state = opened(table, rules, 2)
        last, versions = state.last_day(day), []
        for number, version in enumerate(state.versions):
            some = [span for span in spans if int(span.trace_id, 16) % 2 == number]
            read = pl.DataFrame(pl.from_arrow(arrow_table(some))).select(rules.columns())
            now = Bucket.at(table, number, version)
            for _ in range(2):  # an executor that died is replaced, and the second writes what the first did
                after, _ = now.brought(read, state.next, day, last, rules, more=by_batch)
            versions.append(after.version)
        commit(table, replace(state, versions=tuple(versions), last=str(last)))
    assert read_buckets(table).to_pylist() == at_once(span for spans in runs for span in spans)
    assert is_mined(table)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return tmp_path / "table"


def bring(table: Path, day: date, spans: list[Span], **choices: Any) -> MinedDay:
    return mine_day(arrow_table(spans), table, day, **choices)


def test_a_run_across_midnight_is_one_task_with_one_id(table: Path) -> None:
    spans = run(1, BEGIN + 23 * DAY // 24)
    assert bring(table, FIRST, spans[1:3]).added == 0  # the agent is not there yet
    done = bring(table, FIRST + timedelta(1), [spans[0], *spans[3:]])
    assert (done.added, done.changed, done.removed) == (1, 0, 0)
    (task,) = tasks_of(table)
    assert (task["task_id"], task["called"]) == (f"{1:032x}/a", ["get", "send"])
    assert DeltaTable(table).partitions() == [{"day": str(FIRST)}]


def test_a_day_may_come_after_later_ones(table: Path) -> None:
    spans = run(1, BEGIN)
    bring(table, FIRST, spans[:3], watermark=1)
    bring(table, FIRST + timedelta(2), run(2, BEGIN + 2 * DAY), watermark=1)
    bring(table, FIRST + timedelta(1), spans[3:], watermark=1)
    assert tasks_of(table) == at_once([*spans, *run(2, BEGIN + 2 * DAY)])


def test_late_spans_mine_only_the_traces_that_they_are_part_of(table: Path) -> None:
    runs = [run(number, BEGIN) for number in range(5)]
    bring(table, FIRST, [span for spans in runs for span in spans[:-1]])
    late = bring(table, FIRST + timedelta(2), [runs[3][-1]])
    assert (late.traces, late.added, late.changed, late.removed, late.late) == (1, 0, 1, 0, 0)
    assert [len(task["called"]) for task in tasks_of(table)] == [1, 1, 1, 2, 1]
    failed = bring(table, FIRST + timedelta(1), [replace(runs[2][0], end=2**62, error="crash")])
    assert (failed.traces, failed.removed) == (1, 1)


def test_what_comes_after_the_watermark_is_said_and_changes_nothing(table: Path) -> None:
    spans = run(1, BEGIN)
    bring(table, FIRST, spans)
    before = tasks_of(table)
    done = bring(table, FIRST + timedelta(3), [replace(spans[0], end=2**62, error="crash"), *run(2, BEGIN + 3 * DAY)])
    assert (done.late, done.added) == (1, 1)
    assert "1 spans came too late" in str(done)
    assert tasks_of(table)[:1] == before
    bring(table, FIRST + timedelta(9), run(3, BEGIN + 9 * DAY))
    with pytest.raises(UsageError, match=r"at most 2 days before the last one .* Got 2026-11-14"):
        bring(table, FIRST, spans)


def test_a_trace_that_comes_back_after_its_spans_were_forgotten_stays_as_it_is(table: Path) -> None:
    timeless = [replace(span, start=None, end=None) for span in run(1, BEGIN)]
    bring(table, FIRST, timeless)
    bring(table, FIRST + timedelta(9), run(2, BEGIN + 9 * DAY))
    back = bring(table, FIRST + timedelta(10), [replace(timeless[1], span_id="x"), replace(timeless[2], name="find")])
    assert (back.settled, back.traces, back.changed, back.removed) == (1, 0, 0, 0)
    assert "1 traces came back" in str(back)
    assert [task["called"] for task in tasks_of(table)] == [["get", "send"]] * 2


def test_a_day_that_is_mined_again_puts_the_new_spans_in_place_of_the_old(table: Path) -> None:
    bring(table, FIRST, [*run(1, BEGIN), *run(2, BEGIN)])
    done = bring(table, FIRST, [*run(2, BEGIN), *run(3, BEGIN)])
    assert (done.traces, done.added, done.changed, done.removed) == (2, 1, 0, 1)
    assert [task["task_id"] for task in tasks_of(table)] == [f"{number:032x}/a" for number in (2, 3)]


def test_tasks_are_deleted_after_the_days_that_they_are_to_be_kept(table: Path) -> None:
    for number in range(6):
        bring(table, FIRST + timedelta(number), run(number, BEGIN + number * DAY), keep_days=2)
    assert [task["task_id"] for task in tasks_of(table)] == [f"{number:032x}/a" for number in (3, 4, 5)]
    assert len(list((table / "_spans").iterdir())) == 1


@pytest.mark.parametrize("days", [-1, 10**9, 1.5, True, "2"])
@pytest.mark.parametrize("name", ["watermark", "keep_days"])
def test_days_that_are_no_number_of_days_are_refused_before_anything_is_deleted(
    name: str, days: Any, table: Path
) -> None:
    bring(table, FIRST, run(1, BEGIN))
    with pytest.raises(UsageError, match=f"The '{name}' of a table of days must be a whole number of days from 0"):
        bring(table, FIRST, run(1, BEGIN), **{name: days})
    assert len(tasks_of(table)) == 1
    assert Rules(watermark=0, keep_days=0).keep_days == 0


@pytest.mark.parametrize("option", ["--watermark", "--keep-days"])
def test_options_of_a_table_of_days_are_refused_without_one(
    option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pq.write_table(arrow_table(run(1, BEGIN)), tmp_path / "traces.parquet")
    tasks = tmp_path / "tasks.parquet"
    assert main(["mine", str(tmp_path / "traces.parquet"), "-o", str(tasks), option, "2"]) == 2
    assert "Name one with --into, or leave them out." in capsys.readouterr().err
    assert not tasks.exists()


def test_without_text_nothing_that_a_user_wrote_is_kept(table: Path, tmp_path: Path) -> None:
    def told(folder: Path) -> str:
        return str([pq.read_table(file, partitioning=None).to_pylist() for file in folder.rglob("*.parquet")])

    bring(table, FIRST, run(1, BEGIN))
    assert f"{1:032x}" in told(table)
    assert SECRET not in told(table)
    bring(tmp_path / "texts", FIRST, run(1, BEGIN), with_text=True)
    assert tasks_of(tmp_path / "texts")[0]["text"] == SECRET
    with pytest.raises(UsageError, match="was made with with_text=True"):
        bring(tmp_path / "texts", FIRST, run(1, BEGIN))


def test_another_schema_and_another_folder_are_refused(table: Path, tmp_path: Path) -> None:
    bring(table, FIRST, run(1, BEGIN))
    log = table / "_delta_log" / f"{0:020}.json"
    log.write_text(log.read_text().replace('\\"camdf\\": 1', '\\"camdf\\": 99'))
    with pytest.raises(DataError, match="tasks with schema 1"):
        bring(table, FIRST, run(1, BEGIN))
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").touch()
    with pytest.raises(DataError, match="must be a table of camdf's"):
        bring(tmp_path / "other", FIRST, run(1, BEGIN))


CHILD = """
import sys
from datetime import date
from camdf.mining.days import mine_day
print("ready", flush=True)
sys.stdin.readline()
mine_day(sys.argv[1], sys.argv[2], date.fromisoformat(sys.argv[3]))
print("done", flush=True)
"""


def test_a_process_that_is_killed_in_a_merge_leaves_the_table_whole(table: Path, tmp_path: Path) -> None:
    """Killed again and again, from the moment at which it has written the new spans to when it is done before that."""
    days = [
        [span for number in range(400) for span in run(number, BEGIN)[:-1]],
        [run(number, BEGIN)[-1] for number in range(400)],
    ]
    bring(table, FIRST, days[0])
    pq.write_table(arrow_table(days[1]), tmp_path / "second.parquet")
    old, new = tasks_of(table), at_once(span for spans in days for span in spans)
    command = [sys.executable, "-c", CHILD, str(tmp_path / "second.parquet"), str(table), str(FIRST + timedelta(1))]
    spans, killed, delay = table / "_spans" / "2.parquet", 0, 0.0
    while tasks_of(table) == old:
        before = spans.stat().st_mtime_ns if spans.exists() else 0
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
            assert child.stdin is not None
            assert child.stdout is not None
            assert child.stdout.readline() == "ready\n"
            child.stdin.write("\n")
            child.stdin.flush()
            while child.poll() is None and (not spans.exists() or spans.stat().st_mtime_ns == before):
                time.sleep(0.001)
            time.sleep(delay)
            if child.poll() is None:
                child.kill()
                killed += 1
        delay = delay * 4 + 0.01
    assert killed >= 1
    assert tasks_of(table) == new
    assert bring(table, FIRST + timedelta(1), days[1]).traces == 0
    done = bring(table, FIRST + timedelta(2), run(1000, BEGIN))
    assert (done.added, len(list(spans.parent.iterdir()))) == (1, 1)


def test_camdf_mine_fills_a_table_that_other_commands_read(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spans = run(1, BEGIN, ranked=("get", "send"), scores=(0.5, 0.25), explored=True)
    pq.write_table(arrow_table(spans), tmp_path / "traces.parquet")
    command = ["mine", str(tmp_path / "traces.parquet"), "--into", str(table)]
    assert main([*command, "--day", str(FIRST)]) == 0
    assert "1 tasks added, 0 changed, 0 removed" in capsys.readouterr().out
    assert main([*command, "--day", str(FIRST)]) == 0
    assert "0 tasks added" in capsys.readouterr().out
    assert is_mined(table)
    assert mined_table(table).to_pylist() == at_once(spans)
    assert main(["audit", str(table)]) == 0
    assert "1 tasks, 1 with a ranking" in capsys.readouterr().out
    assert main(command) == 2
    assert "needs both --into and --day" in capsys.readouterr().err

"""A table that grows is what mining everything at once gives, whatever came when, how often, and from how many."""

from __future__ import annotations

import json
import random
import threading
import time
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from deltalake.schema import Field, PrimitiveType
from hypothesis import given, settings
from hypothesis import strategies as st

from arrivals import BEGIN, DAY, FIRST, SECRET, at_once, days_of, in_a_possible_order, run, some_runs
from camdf.cli import main
from camdf.errors import DataError, UsageError
from camdf.examples.mined import is_mined
from camdf_traces import buckets
from camdf_traces.buckets import Rules
from camdf_traces.days import SPANS_A_BUCKET, MinedDay, mine_day, read_days
from camdf_traces.delta import DeltaFolder
from camdf_traces.logged import mined_table
from camdf_traces.spans import Span, arrow_table
from mined_spans import PIECES
from saying import refuses, says
from writers import Writer, race

TWO_BUCKETS = 2 * SPANS_A_BUCKET


def tasks_of(table: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = read_days(table).to_pylist()
    return found


def days_in(table: Path) -> list[str]:
    return sorted({str(each["day"]) for each in DeltaTable(table).partitions()})


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return tmp_path / "table"


def bring(table: Path, day: date, spans: list[Span], **choices: Any) -> MinedDay:
    return mine_day(arrow_table(spans), table, day, **choices)


# What adds up.


@settings(max_examples=15, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    count=st.integers(1, 8),
    watermark=st.integers(1, 3),
    by_hour=st.booleans(),
    spans_a_day=st.sampled_from([1, TWO_BUCKETS]),
)
def test_the_days_of_any_split_add_up_to_mining_everything_at_once(
    seed: int, count: int, watermark: int, by_hour: bool, spans_a_day: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    rng, table = random.Random(seed), tmp_path_factory.mktemp("days") / "table"
    runs = some_runs(rng, count)
    days = days_of(rng, runs, watermark)
    rules: dict[str, Any] = {"watermark": watermark, "spans_a_day": spans_a_day}
    for day in in_a_possible_order(rng, days, watermark):
        for part in (days[day][::2], days[day][1::2]) if by_hour else (days[day],):
            bring(table, day, part, **rules)
        if rng.random() < 0.3:
            version = DeltaTable(table).version()
            again = bring(table, day, [*days[day], *days[day]], **rules)
            assert (again.new, again.added, again.changed, again.removed, again.version) == (0, 0, 0, 0, version)
            assert again.read == again.repeated
    assert tasks_of(table) == at_once(span for spans in runs for span in spans)


def test_hourly_runs_give_the_tasks_of_one_run_over_the_whole_day(table: Path) -> None:
    hours = [[span for number in range(5) for span in run(100 * hour + number, BEGIN)] for hour in range(6)]
    for spans in hours:
        assert bring(table, FIRST, spans).added == 5
    assert tasks_of(table) == at_once(span for spans in hours for span in spans)


@pytest.mark.parametrize(("spans", "tasks"), PIECES.values(), ids=PIECES)
@pytest.mark.parametrize("latest_first", [False, True])
def test_the_pieces_of_a_task_are_joined_whenever_they_come(
    spans: list[Span], tasks: list[tuple[list[str], list[str]]], latest_first: bool, table: Path
) -> None:
    traces: dict[str, list[Span]] = {}
    for span in spans:
        traces.setdefault(span.trace_id, []).append(replace(span, start=BEGIN + (span.start or 0)))
    arriving = sorted(traces.values(), key=lambda some: some[0].start or 0, reverse=latest_first)
    for number, some in enumerate(arriving):
        done = bring(table, FIRST + timedelta(number), some[:-1], spans_a_day=TWO_BUCKETS)
        done = bring(table, FIRST + timedelta(number), some[-1:], spans_a_day=TWO_BUCKETS)
        assert done.runs["begun"] == sum(done.runs.values()) - done.runs["begun"]
    assert [(task["called"], task["wanted"]) for task in tasks_of(table)] == tasks
    assert tasks_of(table) == at_once(span for some in traces.values() for span in some)
    again = bring(table, FIRST + timedelta(2), arriving[0], spans_a_day=TWO_BUCKETS)
    assert (again.added, again.changed, again.removed) == (0, 0, 0)


def test_a_run_that_turns_out_not_to_wait_is_joined_with_nothing(table: Path) -> None:
    spans, _ = PIECES["unrecorded"]
    spans = [replace(span, start=BEGIN + (span.start or 0)) for span in spans]
    bring(table, FIRST, spans)
    assert [task["called"] for task in tasks_of(table)] == [["mail", "search"]]
    answer = replace(spans[3], span_id="late", requested=(), start=BEGIN + 190)
    late = bring(table, FIRST + timedelta(1), [answer])
    assert (late.added, late.changed, late.removed) == (2, 0, 1)
    assert tasks_of(table) == at_once([*spans, answer])


def test_a_task_of_pieces_stays_when_they_are_gone_and_its_conversation_goes_on(table: Path) -> None:
    first = [replace(span, start=BEGIN + (span.start or 0)) for span in PIECES["approved"][0]]
    again = [replace(span, trace_id=f"{span.trace_id}-9", start=(span.start or 0) + 9 * DAY) for span in first]
    days = {0: first, 5: run(1, BEGIN + 5 * DAY), 9: again}
    for number, spans in days.items():
        bring(table, FIRST + timedelta(number), spans, watermark=1)
    assert tasks_of(table) == at_once(span for spans in days.values() for span in spans)
    assert len(tasks_of(table)) == 3
    held = [part["held"] for part in DeltaTable(table / "_spans").partitions()]
    assert held.count("piece") == 1, "pieces are let go as spans are"


def test_a_run_across_midnight_is_one_task_with_one_id(table: Path) -> None:
    spans = run(1, BEGIN + 23 * DAY // 24)
    assert bring(table, FIRST, spans[1:3]).added == 0  # the agent is not there yet
    done = bring(table, FIRST + timedelta(1), [spans[0], *spans[3:]])
    assert (done.added, done.changed, done.removed) == (1, 0, 0)
    (task,) = tasks_of(table)
    assert (task["task_id"], task["called"]) == (f"{1:032x}/a", ["get", "send"])
    assert days_in(table) == [str(FIRST)]


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


def test_a_day_that_is_mined_again_adds_what_is_new_and_replaces_what_changed(table: Path) -> None:
    first, second = run(1, BEGIN, success=True), run(2, BEGIN)
    bring(table, FIRST, [*first, *second])
    done = bring(table, FIRST, [replace(first[0], success=False), *run(3, BEGIN)])
    assert (done.new, done.added, done.changed, done.removed) == (6, 1, 0, 1)
    assert [task["task_id"] for task in tasks_of(table)] == [f"{number:032x}/a" for number in (2, 3)]
    bring(table, FIRST, [replace(second[0], end=None, error="lost")])
    assert len(tasks_of(table)) == 2, "a span that has ended counts more than its own beginning"


def test_a_day_that_is_replaced_has_only_what_was_read_last(table: Path) -> None:
    bring(table, FIRST, [*run(1, BEGIN), *run(2, BEGIN)])
    done = bring(table, FIRST, [*run(2, BEGIN), *run(3, BEGIN)], replace=True)
    assert (done.new, done.added, done.changed, done.removed) == (10, 1, 0, 1)
    assert [task["task_id"] for task in tasks_of(table)] == [f"{number:032x}/a" for number in (2, 3)]


# What cannot be used is held back.


def test_what_is_too_late_is_held_back_and_said_and_its_trace_waits(table: Path) -> None:
    spans = run(1, BEGIN)
    bring(table, FIRST, [*spans, *run(2, BEGIN)])
    same = bring(table, FIRST + timedelta(3), spans)
    assert (same.repeated, same.late, same.removed) == (5, 0, 0), "a second copy tells nothing new"
    done = bring(table, FIRST + timedelta(3), [replace(spans[0], error="crash"), *run(3, BEGIN + 3 * DAY)])
    assert (done.late, done.added, done.removed, done.waiting) == (1, 1, 1, 1)
    assert says(str(done), "1 too late")
    assert says(str(done), "1 traces have no task", "held back")
    assert [task["task_id"] for task in tasks_of(table)] == [f"{number:032x}/a" for number in (2, 3)]
    bring(table, FIRST + timedelta(9), run(4, BEGIN + 9 * DAY))
    with refuses(UsageError, "at most 2 days before", table, FIRST + timedelta(9), got=FIRST):
        bring(table, FIRST, spans)


def test_a_clock_that_is_ahead_is_held_back_and_moves_no_watermark(table: Path) -> None:
    bring(table, FIRST, run(1, BEGIN))
    wrong = [replace(span, start=BEGIN + 2000 * DAY) for span in run(2, BEGIN)]
    done = bring(table, FIRST + timedelta(1), [*wrong, *run(3, BEGIN + DAY)])
    assert (done.ahead, done.new, done.added) == (5, 5, 1)
    assert says(str(done), "5 ahead of the clock")
    for number in range(2, 8):
        assert bring(table, FIRST + timedelta(number), run(10 + number, BEGIN + number * DAY)).added == 1
    assert len(tasks_of(table)) == 8
    one_tool = run(20, BEGIN + 7 * DAY)
    one_tool[2] = replace(one_tool[2], start=BEGIN + 9 * DAY)
    done = bring(table, FIRST + timedelta(7), one_tool)
    assert (done.ahead, done.added, done.waiting) == (1, 0, 1), "a run without one of its tools is no label"


def test_by_how_much_a_clock_may_be_ahead_is_a_setting(table: Path) -> None:
    soon = run(1, BEGIN + DAY + DAY // 24)
    assert bring(table, FIRST, soon).ahead == 4, "its agent begins an hour after the end of the day, and the rest later"
    assert bring(table, FIRST, soon, ahead_hours=4.0).added == 0, "it is known, and stays held back"
    assert bring(table, FIRST, soon, ahead_hours=4.0, replace=True).added == 1


def test_a_trace_that_comes_back_after_its_spans_are_gone_stays_as_it_is(table: Path) -> None:
    timeless = [replace(span, start=None, end=None) for span in run(1, BEGIN)]
    bring(table, FIRST, timeless)
    bring(table, FIRST + timedelta(9), run(2, BEGIN + 9 * DAY))
    for span in (replace(timeless[1], span_id="x"), replace(timeless[2], name="find")):
        back = bring(table, FIRST + timedelta(10), [span])
        assert (back.settled, back.traces, back.changed, back.removed) == (1, 0, 0, 0)
    assert says(str(back), "1 of traces", "spans are gone")
    assert [task["called"] for task in tasks_of(table)] == [["get", "send"]] * 2


def test_a_trace_of_which_spans_still_come_keeps_all_of_its_spans(table: Path) -> None:
    spans = run(1, BEGIN)
    bring(table, FIRST, spans[:3], watermark=1)
    for number in (1, 2, 3, 4):
        later = replace(spans[2], span_id=f"t{number}", name="find", start=BEGIN + number * DAY)
        bring(table, FIRST + timedelta(number), [later], watermark=1)
    bring(table, FIRST + timedelta(5), [replace(spans[3], start=BEGIN + 5 * DAY)], watermark=1)
    assert [task["called"] for task in tasks_of(table)] == [["find", "get"]]


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_every_span_that_is_read_is_counted_once(seed: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    rng, table = random.Random(seed), tmp_path_factory.mktemp("counts") / "table"
    for number in range(4):
        spans = [span for spans in some_runs(rng, 3) for span in spans]
        spans = [replace(span, span_id=rng.choice([span.span_id, span.span_id, ""])) for span in spans]
        done = bring(table, FIRST + timedelta(number), spans)
        left_out = done.repeated + done.nameless + done.ahead + done.late + done.settled + done.forgotten
        assert done.read == len(spans) == done.new + left_out


# Writers and readers side by side.


def test_two_writers_that_race_lose_no_task(table: Path, tmp_path: Path) -> None:
    """Twenty races of two real processes, while this one reads."""
    bring(table, FIRST, run(0, BEGIN))
    failures, done = [], threading.Event()

    def read() -> None:
        while not done.wait(0.01):
            try:
                tasks_of(table)
            except Exception as error:
                failures.append(error)

    reader = threading.Thread(target=read)
    reader.start()
    try:
        spans = race(str(table), tmp_path, races=20)
    finally:
        done.set()
        reader.join()
    assert tasks_of(table) == at_once([*run(0, BEGIN), *spans])
    assert not failures


def test_a_writer_that_loses_the_race_does_its_work_again(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bring(table, FIRST, run(0, BEGIN))
    mined = buckets.mine_bucket
    others = iter([run(1, BEGIN)])

    def meanwhile(*args: Any, **choices: Any) -> Any:
        for spans in others:
            bring(table, FIRST + timedelta(1), spans)
        return mined(*args, **choices)

    monkeypatch.setattr("camdf_traces.days.mine_bucket", meanwhile)
    bring(table, FIRST + timedelta(2), run(2, BEGIN + DAY))
    assert len(tasks_of(table)) == 3
    files = {file.name for file in table.glob("bucket=*/**/*.parquet")}
    named = {file.rpartition("/")[2] for file in DeltaTable(table).file_uris()}
    assert files - named == {file for file in files if file not in named}
    assert bring(table, FIRST + timedelta(2), run(2, BEGIN + DAY)).traces == 0


def test_a_writer_that_dies_between_pieces_and_tasks_leaves_its_work_to_the_next(
    table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spans = [replace(span, start=BEGIN + (span.start or 0)) for span in PIECES["unrecorded"][0]]
    answer = replace(spans[3], span_id="late", requested=(), start=BEGIN + 190)
    commit = DeltaFolder.commit

    def dying(self: DeltaFolder, add: Any, remove: Any = (), **numbers: int) -> None:
        if "camdf" in numbers:
            raise KeyboardInterrupt
        commit(self, add, remove, **numbers)

    for number, some in enumerate((spans[:4], spans[4:], [answer])):  # it waits, goes on, and never waited
        with monkeypatch.context() as patched:
            patched.setattr(DeltaFolder, "commit", dying)
            with pytest.raises(KeyboardInterrupt):
                bring(table, FIRST, some)
        bring(table, FIRST, run(number, BEGIN))
    assert tasks_of(table) == at_once([*spans, answer, *(span for number in range(3) for span in run(number, BEGIN))])


def test_a_reader_that_began_before_a_commit_reads_on(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bring(table, FIRST, run(1, BEGIN))
    old = DeltaTable(table)
    bring(table, FIRST, run(2, BEGIN))
    assert old.to_pyarrow_table().num_rows == 1, "files that left the table stay for an hour"
    read, meanwhile = DeltaFolder.arrow, iter([run(3, BEGIN)])

    def slowly(self: Any, columns: Any) -> Any:
        for spans in meanwhile:
            bring(table, FIRST, spans, grace_hours=0)
        return read(self, columns)

    monkeypatch.setattr(DeltaFolder, "arrow", slowly)
    assert len(tasks_of(table)) == 3, "and whose are gone all the same reads the version that took their place"


def test_a_process_that_is_killed_leaves_its_work_to_the_next(table: Path, tmp_path: Path) -> None:
    """Killed again and again, later each time, until one is done before that."""
    days = [
        [span for number in range(400) for span in run(number, BEGIN)[:-1]],
        [run(number, BEGIN)[-1] for number in range(400)],
    ]
    bring(table, FIRST, days[0])
    old, new = tasks_of(table), at_once(span for spans in days for span in spans)
    pq.write_table(arrow_table(days[1]), tmp_path / "second.parquet")
    killed, delay = 0, 0.0
    while tasks_of(table) == old:
        child = Writer(str(table), FIRST + timedelta(1))
        child.bring(tmp_path / "second.parquet")
        time.sleep(delay)
        killed += child.process.poll() is None
        child.end()
        delay = delay * 2 + 0.1
    assert killed >= 1
    assert tasks_of(table) == new
    bring(table, FIRST + timedelta(1), days[1])
    assert bring(table, FIRST + timedelta(2), run(1000, BEGIN)).added == 1
    assert tasks_of(table) == at_once([*run(1000, BEGIN), *(span for spans in days for span in spans)])


# What is refused, and what others do to a table.


@pytest.mark.parametrize("days", [-1, 10**9, 1.5, True, "2"])
@pytest.mark.parametrize("name", ["watermark", "keep_days"])
def test_days_that_are_no_number_of_days_are_refused_before_anything_is_deleted(
    name: str, days: Any, table: Path
) -> None:
    bring(table, FIRST, run(1, BEGIN))
    with refuses(UsageError, name, "table of days", must="whole number of days from 0", got=repr(days)):
        bring(table, FIRST, run(1, BEGIN), **{name: days})
    assert len(tasks_of(table)) == 1
    assert Rules(watermark=0, keep_days=0).keep_days == 0
    with pytest.raises(UsageError, match="must not be negative"):
        Rules(ahead_hours=-1)


@pytest.mark.parametrize("option", [["--watermark", "2"], ["--keep-days", "2"], ["--replace"]])
def test_options_of_a_table_of_days_are_refused_without_one(
    option: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pq.write_table(arrow_table(run(1, BEGIN)), tmp_path / "traces.parquet")
    tasks = tmp_path / "tasks.parquet"
    assert main(["mine", str(tmp_path / "traces.parquet"), "-o", str(tasks), *option]) == 2
    assert says(capsys.readouterr().err, option[0], "--into")
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
    log.write_text(log.read_text().replace('\\"camdf\\": 2', '\\"camdf\\": 1'))
    with pytest.raises(DataError, match="tasks with schema 2"):
        bring(table, FIRST, run(1, BEGIN))
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").touch()
    with refuses(DataError, tmp_path / "other", must="table of camdf's"):
        bring(tmp_path / "other", FIRST, run(1, BEGIN))


def test_a_column_that_somebody_added_stays(table: Path) -> None:
    bring(table, FIRST, run(1, BEGIN))
    DeltaTable(table).alter.add_columns([Field("team", PrimitiveType("string"))])
    DeltaTable(table).update({"team": "'desk'"})
    bring(table, FIRST, run(2, BEGIN))
    assert sorted(DeltaTable(table).to_pyarrow_table()["team"].to_pylist(), key=str) == [None, "desk"]
    assert len(tasks_of(table)) == 2


def as_before(table: Path, column: str) -> None:
    """Take a column out of a table's files, and out of what its logs tell of them: an older version's table."""
    for folder in (table, table / "_spans"):
        for log in (folder / "_delta_log").glob("*.json"):
            actions = [json.loads(line) for line in log.read_text().splitlines()]
            for action in actions:
                if file := action.get("add"):
                    pq.write_table(
                        pq.read_table(folder / file["path"], partitioning=None).drop_columns([column]),
                        folder / file["path"],
                    )
                    file["size"] = (folder / file["path"]).stat().st_size
                if made := action.get("metaData"):
                    schema = json.loads(made["schemaString"])
                    schema["fields"] = [field for field in schema["fields"] if field["name"] != column]
                    made["schemaString"] = json.dumps(schema)
            log.write_text("".join(f"{json.dumps(action)}\n" for action in actions))


def test_a_table_without_the_column_of_services_is_read_and_goes_on(table: Path) -> None:
    pieces = [replace(span, start=BEGIN + (span.start or 0)) for span in PIECES["approved"][0]]
    waiting = [span for span in pieces if span.trace_id == pieces[0].trace_id]
    goes_on = [span for span in pieces if span.trace_id != pieces[0].trace_id]
    spans, later = [*run(1, BEGIN), *run(2, BEGIN), *waiting], run(3, BEGIN + DAY)
    bring(table, FIRST, spans)
    as_before(table, "service")
    assert "service" not in DeltaTable(table).to_pyarrow_table().column_names
    assert tasks_of(table) == at_once(spans)
    again = bring(table, FIRST, spans)
    assert (again.new, again.repeated, again.added, again.changed, again.removed) == (0, len(spans), 0, 0, 0)
    told = [replace(span, service="desk") for span in later]
    bring(table, FIRST + timedelta(1), [*told, *goes_on])
    assert tasks_of(table) == at_once([*spans, *told, *goes_on])
    assert [task["service"] for task in tasks_of(table)].count("desk") == 1
    known = [replace(span, service="desk") for span in run(1, BEGIN)]
    assert bring(table, FIRST, known).changed == 1
    assert [task["service"] for task in tasks_of(table)].count("desk") == 2


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
    assert "1 tasks read: 1 with" in capsys.readouterr().out
    assert main(command) == 2
    assert says(capsys.readouterr().err, "--into and --day")

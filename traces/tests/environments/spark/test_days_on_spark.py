"""Days and micro-batches that add up on real Spark, in tables that are those of one machine."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from arrivals import BEGIN, DAY, FIRST, at_once, days_of, in_a_possible_order, run, some_runs
from camdf.cli import main
from camdf.errors import DataError, UsageError
from camdf.examples.mined import is_mined
from camdf_traces.buckets import Rules
from camdf_traces.days import SPANS_A_BUCKET, MinedDay
from camdf_traces.days import mine_day as on_one_machine
from camdf_traces.logged import mined_table
from camdf_traces.spans import SPAN_COLUMNS, Span, arrow_table
from camdf_traces.spark.days import mine_day, mine_stream
from camdf_traces.spark.mining import SPARK_TYPES
from camdf_traces.spark.session import session


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    found = session()
    found.conf.set("spark.sql.shuffle.partitions", "2")
    yield found
    found.stop()


def frame(spark: SparkSession, spans: list[Span], path: Path) -> Any:
    pq.write_table(arrow_table(spans), path)
    return spark.read.parquet(str(path))


def tasks_of(table: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = mined_table(table).to_pylist()
    return found


def days_in(table: Path) -> set[str]:
    """The days of which some bucket has a file of tasks."""
    return {str(each["day"]) for each in DeltaTable(table).partitions()}


THREE_BUCKETS = 3 * SPANS_A_BUCKET


def test_the_days_of_a_split_add_up_to_mining_everything_at_once(spark: SparkSession, tmp_path: Path) -> None:
    rng, table = random.Random(3), tmp_path / "table"
    runs = some_runs(rng, 16)
    days = days_of(rng, runs, 1)
    order = in_a_possible_order(rng, days, 1)
    for number, day in enumerate(order):
        if number % 3 == 2:  # one table, whoever fills it
            on_one_machine(arrow_table(days[day]), table, day, watermark=1)
            continue
        spans = frame(spark, days[day], tmp_path / f"{number}.parquet")
        mine_day(spans, table, day, Rules(1), spans_a_day=THREE_BUCKETS)
    assert is_mined(table)
    assert {each["bucket"] for each in DeltaTable(table).partitions()} == {"1", "2", "3"}  # the last: of pieces
    expected = at_once([span for spans in runs for span in spans])
    assert tasks_of(table) == expected
    version, last = DeltaTable(table).version(), max(order)
    again = mine_day(frame(spark, days[last] * 2, tmp_path / "again.parquet"), table, last, Rules(1))
    assert (again.added, again.changed, again.removed, again.version) == (0, 0, 0, version)
    assert tasks_of(table) == expected


def test_a_table_of_other_settings_or_of_something_else_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    spans, table = frame(spark, run(1, BEGIN), tmp_path / "1.parquet"), tmp_path / "table"
    done = mine_day(spans, table, FIRST, Rules(keep_days=1))
    assert (done.read, done.new, done.traces, done.added) == (5, 5, 1, 1)
    with pytest.raises(UsageError, match="with_text=False"):
        mine_day(spans, table, FIRST, Rules(with_text=True))
    later = frame(spark, run(2, BEGIN + 3 * DAY), tmp_path / "2.parquet")
    assert mine_day(later, table, FIRST + timedelta(3), Rules(keep_days=1)).added == 1
    assert days_in(table) == {str(FIRST + timedelta(3))}
    with pytest.raises(UsageError, match="at most 2 days before"):
        mine_day(spans, table, FIRST)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").touch()
    with pytest.raises(DataError, match="Name another folder"):
        mine_day(spans, tmp_path / "other", FIRST)


def test_a_day_that_is_replaced_has_only_what_was_read_last(spark: SparkSession, tmp_path: Path) -> None:
    table = tmp_path / "table"
    mine_day(frame(spark, [*run(1, BEGIN), *run(2, BEGIN)], tmp_path / "1.parquet"), table, FIRST)
    later = frame(spark, run(2, BEGIN), tmp_path / "2.parquet")
    assert mine_day(later, table, FIRST).removed == 0
    assert mine_day(later, table, FIRST, replace=True).removed == 1
    assert tasks_of(table) == at_once(run(2, BEGIN))


STREAM = """
import sys
from pathlib import Path
from camdf_traces.buckets import Rules
from camdf_traces.days import SPANS_A_BUCKET, Days
from camdf_traces.spans import SPAN_COLUMNS
from camdf_traces.spark import days
from camdf_traces.spark.mining import SPARK_TYPES
from camdf_traces.spark.session import session

source, table, checkpoint = map(Path, sys.argv[1:])
mined, batches = Days._mine_all, []
def slowly(self, each):
    batches.append(1)
    if len(batches) == 2:
        print("about to mine", flush=True)
        sys.stdin.readline()  # killed here, after the spans are put down and before their tasks are
    return mined(self, each)
Days._mine_all = slowly
spark = session()
spark.conf.set("spark.sql.shuffle.partitions", "2")
types = ", ".join(f"`{name}` {SPARK_TYPES[kind]}" for name, kind in SPAN_COLUMNS.items())
spans = spark.readStream.schema(types).option("maxFilesPerTrigger", 1).parquet(str(source))
choices = {"spans_a_day": 3 * SPANS_A_BUCKET, "once": True, "clock": lambda: 2**62}
stream = days.mine_stream(spans, table, checkpoint, Rules(2), **choices)
stream.awaitTermination()
"""


def streamed(spark: SparkSession, source: Path, table: Path, checkpoint: Path, **choices: Any) -> list[MinedDay]:
    """What a stream says that takes all files that are there, one a batch."""
    types = ", ".join(f"`{name}` {SPARK_TYPES[kind]}" for name, kind in SPAN_COLUMNS.items())
    spans = spark.readStream.schema(types).option("maxFilesPerTrigger", 1).parquet(str(source))
    told: list[MinedDay] = []
    choices = {"spans_a_day": THREE_BUCKETS, "once": True, "tell": told.append, "clock": lambda: 2**62, **choices}
    mine_stream(spans, table, checkpoint, Rules(2), **choices).awaitTermination()
    return told


def test_a_stream_that_is_killed_goes_on_without_loss_or_double_count(spark: SparkSession, tmp_path: Path) -> None:
    rng, table, source, checkpoint = random.Random(5), tmp_path / "table", tmp_path / "in", tmp_path / "checkpoint"
    runs = some_runs(rng, 8)
    days = days_of(rng, runs, 1)
    source.mkdir()
    order = sorted(days)
    for number, some in enumerate((order[:2], order[2:4], order[4:])):
        frame(spark, [span for day in some for span in days[day]], source / f"{number}.parquet")
        time.sleep(0.01)  # a directory source takes the oldest file first
    command = [sys.executable, "-c", STREAM, str(source), str(table), str(checkpoint)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert any("about to mine" in line for line in process.stdout)
        before = tasks_of(table)
        process.send_signal(signal.SIGKILL)
    assert tasks_of(table) == before
    streamed(spark, source, table, checkpoint)
    assert tasks_of(table) == at_once([span for spans in runs for span in spans])
    version = DeltaTable(table).version()
    assert streamed(spark, source, table, checkpoint) == []
    assert DeltaTable(table).version() == version


def test_a_clock_that_is_ahead_stops_no_stream(spark: SparkSession, tmp_path: Path) -> None:
    table, source, checkpoint = tmp_path / "table", tmp_path / "in", tmp_path / "checkpoint"
    source.mkdir()
    wrong = [replace(span, start=(span.start or 0) + 1500 * DAY) for span in run(9, BEGIN + DAY)]
    batches = [run(1, BEGIN), [*run(2, BEGIN + DAY), *wrong], run(3, BEGIN + 2 * DAY), run(4, BEGIN + 3 * DAY)]
    for number, spans in enumerate(batches):
        frame(spark, spans, source / f"{number}.parquet")
        time.sleep(0.01)
    told = streamed(spark, source, table, checkpoint, clock=lambda: BEGIN + 4 * DAY)
    assert [(done.added, done.ahead, done.late) for done in told] == [(1, 0, 0), (1, 5, 0), (1, 0, 0), (1, 0, 0)]
    assert [done.day for done in told] == [FIRST + timedelta(number) for number in range(4)]
    assert len(tasks_of(table)) == 4


def test_the_day_of_a_span_is_that_of_one_machine_to_the_nanosecond(spark: SparkSession, tmp_path: Path) -> None:
    table = tmp_path / "table"
    spans = [*run(1, BEGIN - 1), *run(2, BEGIN)]
    mine_day(frame(spark, spans, tmp_path / "1.parquet"), table, FIRST)
    assert days_in(table) == {str(FIRST - timedelta(1)), str(FIRST)}


def test_camdf_mine_fills_a_table_on_spark_that_other_commands_read(
    spark: SparkSession, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    spans = run(1, BEGIN, ranked=("get", "send"), scores=(0.5, 0.25), explored=True)
    pq.write_table(arrow_table(spans), tmp_path / "traces.parquet")
    table = tmp_path / "table"
    command = ["mine", str(tmp_path / "traces.parquet"), "--engine", "spark", "--into", str(table), "--day", str(FIRST)]
    assert main(command) == 0
    assert "1 tasks added, 0 changed, 0 removed" in capfd.readouterr().out
    assert main(["audit", str(table)]) == 0
    assert "1 tasks read: 1 with a ranking" in capfd.readouterr().out

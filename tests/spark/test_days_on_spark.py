"""Days and micro-batches that add up on real Spark, onto folders that change in one step."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from arrivals import BEGIN, DAY, FIRST, at_once, days_of, in_a_possible_order, run, some_runs
from camdf.cli import main
from camdf.errors import DataError, UsageError
from camdf.mining.buckets import STATE
from camdf.mining.days import Rules
from camdf.mining.logged import is_mined, mined_table
from camdf.mining.spans import SPAN_COLUMNS, Span, arrow_table
from camdf.mining.spark.days import mine_day, mine_stream
from camdf.mining.spark.mining import SPARK_TYPES
from camdf.mining.spark.session import session


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
    return {each for file in table.glob("bucket=*/*.json") for each in json.loads(file.read_text())} - {"spans"}


def test_the_days_of_a_split_add_up_to_mining_everything_at_once(spark: SparkSession, tmp_path: Path) -> None:
    rng, table = random.Random(3), tmp_path / "table"
    runs = some_runs(rng, 12)
    days = days_of(rng, runs, 1)
    order = in_a_possible_order(rng, days, 1)
    for number, day in enumerate(order):
        mine_day(frame(spark, days[day], tmp_path / f"{number}.parquet"), table, day, Rules(1), buckets=3)
    assert is_mined(table)
    expected = at_once([span for spans in runs for span in spans])
    assert tasks_of(table) == expected
    state = (table / STATE).read_bytes()
    last = max(order)
    again = mine_day(frame(spark, days[last] * 2, tmp_path / "again.parquet"), table, last, Rules(1), buckets=3)
    assert (again.added, again.changed, again.removed) == (0, 0, 0)
    assert tasks_of(table) == expected
    assert (table / STATE).read_bytes() == state, "a second run of a day changes nothing"


def test_a_table_of_other_settings_or_of_something_else_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    spans, table = frame(spark, run(1, BEGIN), tmp_path / "1.parquet"), tmp_path / "table"
    done = mine_day(spans, table, FIRST, Rules(keep_days=1), buckets=2)
    assert (done.spans, done.traces, done.added) == (5, 1, 1)
    with pytest.raises(UsageError, match="with_text=False"):
        mine_day(spans, table, FIRST, Rules(with_text=True), buckets=2)
    with pytest.raises(UsageError, match="buckets=2"):
        mine_day(spans, table, FIRST, buckets=3)
    later = frame(spark, run(2, BEGIN + 3 * DAY), tmp_path / "2.parquet")
    assert mine_day(later, table, FIRST + timedelta(3), Rules(keep_days=1), buckets=2).added == 1
    assert days_in(table) == {str(FIRST + timedelta(3))}
    with pytest.raises(UsageError, match="at most 2 days before"):
        mine_day(spans, table, FIRST, buckets=2)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").touch()
    with pytest.raises(DataError, match="Name another folder"):
        mine_day(spans, tmp_path / "other", FIRST, buckets=2)


STREAM = """
import sys
from pathlib import Path
from camdf.mining.spans import SPAN_COLUMNS
from camdf.mining.days import Rules
from camdf.mining.spark import days
from camdf.mining.spark.mining import SPARK_TYPES
from camdf.mining.spark.session import session

source, table, checkpoint = map(Path, sys.argv[1:])
committed = days.commit
def slowly(where, state):
    print("about to commit", state.batch, flush=True)
    if state.batch == 1:
        sys.stdin.readline()  # killed here, between the files and the state that names them
    committed(where, state)
days.commit = slowly
spark = session()
spark.conf.set("spark.sql.shuffle.partitions", "2")
types = ", ".join(f"`{name}` {SPARK_TYPES[kind]}" for name, kind in SPAN_COLUMNS.items())
spans = spark.readStream.schema(types).option("maxFilesPerTrigger", 1).parquet(str(source))
days.mine_stream(spans, table, checkpoint, Rules(1), buckets=3, once=True).awaitTermination()
"""


def test_a_stream_that_is_killed_goes_on_without_loss_or_double_count(spark: SparkSession, tmp_path: Path) -> None:
    rng, table, source, checkpoint = random.Random(5), tmp_path / "table", tmp_path / "in", tmp_path / "checkpoint"
    runs = some_runs(rng, 8)
    days = days_of(rng, runs, 1)
    source.mkdir()
    for number, day in enumerate(sorted(days)):
        frame(spark, days[day], source / f"{number}.parquet")
        time.sleep(0.01)  # a directory source takes the oldest file first
    command = [sys.executable, "-c", STREAM, str(source), str(table), str(checkpoint)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert any("about to commit 1" in line for line in process.stdout)
        before = tasks_of(table)
        process.send_signal(signal.SIGKILL)
    assert json.loads((table / STATE).read_text())["batch"] == 0
    assert tasks_of(table) == before
    types = ", ".join(f"`{name}` {SPARK_TYPES[kind]}" for name, kind in SPAN_COLUMNS.items())
    stream = spark.readStream.schema(types).option("maxFilesPerTrigger", 1).parquet(str(source))
    mine_stream(stream, table, checkpoint, Rules(1), buckets=3, once=True).awaitTermination()
    assert tasks_of(table) == at_once([span for spans in runs for span in spans])
    state = (table / STATE).read_bytes()
    mine_stream(stream, table, checkpoint, Rules(1), buckets=3, once=True).awaitTermination()
    assert (table / STATE).read_bytes() == state


def test_the_day_of_a_span_is_that_of_one_machine_to_the_nanosecond(spark: SparkSession, tmp_path: Path) -> None:
    table = tmp_path / "table"
    spans = [*run(1, BEGIN - 1), *run(2, BEGIN)]
    mine_day(frame(spark, spans, tmp_path / "1.parquet"), table, FIRST, buckets=2)
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
    assert "1 tasks, 1 with a ranking" in capfd.readouterr().out

"""Spark adds transport and a sample: the same tasks, whatever the partitions and whoever dies."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from small_spark import SETTINGS

from camdf import ExpectedPayoffBySet, Payoff, Rankings, load
from camdf.cli import main
from camdf.datasets import read_examples
from camdf.datasets.examples import past_tasks
from camdf.errors import DataError
from camdf.examples.mined import read_logged
from camdf_lab import domains
from camdf_traces.audit.measures import untraced
from camdf_traces.audit.task_lists import read_tasks
from camdf_traces.logged import LEARNED_COLUMNS, logged_tasks
from camdf_traces.spans import Span, arrow_table
from camdf_traces.spark import mining
from camdf_traces.spark.sample import sampled
from camdf_traces.tasks import mine
from mined_spans import AGENT, ASKS, RANKED, SEARCHES, random_spans, traces

__all__ = ["traces"]


def started(master: str) -> SparkSession:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master(master).appName("camdf-tests")
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


@pytest.fixture(scope="module")
def cluster() -> Iterator[SparkSession]:
    session = started("local[2]")
    yield session
    session.stop()


def frame(cluster: SparkSession, spans: list[Span], partitions: int = 3) -> DataFrame:
    return cluster.createDataFrame(arrow_table(spans)).repartition(partitions)


def collected(tasks: DataFrame) -> pl.DataFrame:
    found: pl.DataFrame = pl.from_arrow(tasks.toArrow())  # type: ignore[assignment]
    return found


def runs(count: int, conversation: str = "") -> list[Span]:
    """`count` ranked runs of three spans."""
    return [
        replace(span, trace_id=f"{i:06}", start=(span.start or 0) + i, conversation=conversation or f"c{i // 3}")
        for i in range(count)
        for span in (RANKED, replace(ASKS, conversation=""), replace(SEARCHES, name="search" if i % 3 else "mail"))
    ]


def test_calls_without_a_span_are_shown_by_service_on_a_cluster_too(cluster: SparkSession, tmp_path: Path) -> None:
    """The runs of `shop` have no tool spans; tables of two ages, one without the column, are one table."""
    answers = replace(ASKS, span_id="m2", start=50, end=60, requested=())
    spans = [
        replace(span, trace_id=f"{i}", service=service)
        for i, service in enumerate(["desk", "shop", "shop"])
        for span in (AGENT, ASKS, *([SEARCHES] if service == "desk" else []), answers)
    ]
    pq.write_table(arrow_table(spans), tmp_path / "new.parquet")
    older = arrow_table([replace(span, trace_id="old") for span in (AGENT, ASKS, SEARCHES, answers)])
    pq.write_table(older.drop_columns(["service"]), tmp_path / "old.parquet")
    there = mining.mine(mining.span_frame([tmp_path / "new.parquet", tmp_path / "old.parquet"]))
    there.write(tmp_path / "tasks")
    assert collected(there.tasks).equals(
        mine(tmp_path / "new.parquet").tasks.vstack(mine(tmp_path / "old.parquet").tasks)
    )
    found = untraced(read_tasks(tmp_path / "tasks"))
    assert found is not None
    assert (found.calls, found.tools, found.services) == (4, {"search": 0.5}, {"shop": 1.0})
    there.release()


def test_what_is_written_is_its_owners_alone_and_takes_the_place_of_what_was_there(
    cluster: SparkSession, tmp_path: Path
) -> None:
    place = tmp_path / "tasks"
    old = tmp_path / "tasks.0123456789ab.part"
    new = tmp_path / "tasks.ba9876543210.part"
    for left in (old, new):
        left.mkdir()
        (left / "part.parquet").write_text("of a program that was killed")
    day_before = time.time() - 25 * 3600
    os.utime(old, (day_before, day_before))
    mask = os.umask(0)
    try:
        for count, mode in ((3, 0o700), (6, 0o750)):
            mined = mining.mine(frame(cluster, runs(count)))
            mined.write(place)
            mined.release()
            assert len(read_tasks(place).groups) == count
            assert stat.S_IMODE(place.stat().st_mode) == mode
            place.chmod(0o750)
    finally:
        os.umask(mask)
    assert {*tmp_path.iterdir()} == {place, new}, "a program may be at work there"


@pytest.mark.parametrize(("require_outcome", "with_text", "at_a_time"), [(False, True, 40), (True, False, 10_000)])
def test_the_mined_tasks_and_the_counts_are_those_of_one_machine(
    cluster: SparkSession, require_outcome: bool, with_text: bool, at_a_time: int
) -> None:
    worlds = [random_spans(seed) for seed in range(at_a_time, at_a_time + 150)]
    spans = [replace(s, trace_id=s.trace_id and f"{s.trace_id}{i}") for i, world in enumerate(worlds) for s in world]
    here = mine(arrow_table(spans), require_outcome=require_outcome, with_text=with_text)
    there = mining.mine(
        frame(cluster, spans), require_outcome=require_outcome, with_text=with_text, spans_a_partition=at_a_time
    )
    assert here.ranked > 20
    assert collected(there.tasks).equals(here.tasks, null_equal=True)
    assert str(there) == str(here)
    assert logged_tasks(collected(there.tasks)).digest() == logged_tasks(here.tasks).digest()


def test_a_table_without_a_needed_column_is_refused_before_anything_runs(cluster: SparkSession) -> None:
    with pytest.raises(DataError, match="'kind'"):
        mining.mine(frame(cluster, [AGENT]).drop("kind"))


@pytest.mark.parametrize("one_trace", [False, True])
def test_one_huge_conversation_does_not_sink_a_partition(cluster: SparkSession, one_trace: bool) -> None:
    """A conversation lies wherever its traces hash to; even a single trace of its size is only one worker's table."""
    count = 20_000
    crowd = [
        replace(s, trace_id="huge", span_id=f"{s.span_id}{i}") if one_trace and i % 3 else s
        for i, s in enumerate(runs(count, "huge"))
    ]
    table = arrow_table(crowd)
    mined = mining.mine(cluster.createDataFrame(table), spans_a_partition=count // 2)
    here = mine(table)
    assert collected(mined.tasks).equals(here.tasks, null_equal=True)
    if not one_trace:
        sizes = cluster.createDataFrame(table).repartition(6, "trace_id").rdd.glom().map(len).collect()
        assert max(sizes) < 1.5 * min(sizes)


def test_rows_that_are_no_text_are_counted_and_the_rest_is_mined(cluster: SparkSession) -> None:
    good = frame(cluster, runs(20))
    columns = [f"cast(X'ff' as string) as {name}" if name == "name" else name for name in good.columns]
    broken = good.limit(7).selectExpr(*columns)
    mined = mining.mine(good.union(broken))
    assert (mined.unreadable, mined.spans) == (7, 67)
    assert collected(mined.tasks).equals(mine(arrow_table(runs(20))).tasks, null_equal=True)
    assert "7 with text that is no UTF-8" in str(mined)


def test_broken_tasks_are_counted_and_the_rest_is_learned_from(cluster: SparkSession) -> None:
    tasks = mine(arrow_table(runs(300))).tasks
    damage = pl.DataFrame(
        {
            "ranked": [["a", "b"], ["a", "a"], ["a"], None, ["a"], []],
            "scores": [[0.5], [0.5, 0.4], [float("nan")], [0.1], [0.2], []],
            "called": [["a"], ["a"], ["a"], ["a"], None, ["a"]],
        }
    ).with_columns(task_id=pl.lit("broken"), group=pl.lit("g"))
    both = pl.concat([tasks.select(LEARNED_COLUMNS), damage.select(LEARNED_COLUMNS)])
    sample = sampled(cluster.createDataFrame(both.to_arrow()))
    assert (len(sample.tasks), sample.broken, sample.unranked) == (300, 4, 2)
    assert "2 more have no ranking, and 4 rows are broken" in str(sample)
    assert logged_tasks(sample.tasks.sort("task_id")).digest() == logged_tasks(tasks.sort("task_id")).digest()


def test_where_there_is_nothing_to_learn_from_the_error_says_what_was_left_out(cluster: SparkSession) -> None:
    unranked = mine(arrow_table(runs(9))).tasks.with_columns(ranked=pl.lit([], pl.List(pl.String)))
    with pytest.raises(DataError, match="nothing to learn from: of 9 tasks 9 have no ranking"):
        sampled(cluster.createDataFrame(unranked.to_arrow()))


def test_a_sample_of_a_table_without_a_needed_column_is_refused(cluster: SparkSession) -> None:
    tasks = mine(arrow_table(runs(3))).tasks.drop("called")
    with pytest.raises(DataError, match="'called'"):
        sampled(cluster.createDataFrame(tasks.to_arrow()))


def test_files_of_other_types_and_columns_are_one_table(cluster: SparkSession, tmp_path: Path) -> None:
    table = arrow_table(runs(4))
    narrow = table.set_column(table.schema.get_field_index("start"), "start", table["start"].cast("int32"))
    for name, part in (("a", table), ("b", narrow.drop_columns(["text", "conversation"]))):
        pq.write_table(part, tmp_path / f"{name}.parquet")
    files = [tmp_path / f"{name}.parquet" for name in "ab"]
    mined = mining.mine(mining.span_frame(files))
    assert collected(mined.tasks).equals(mine(files).tasks, null_equal=True)
    assert mined.rows[0].is_cached
    mined.release()
    assert not mined.rows[0].is_cached


def test_a_folder_of_something_else_is_never_written_over(
    cluster: SparkSession, traces: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = sorted(traces.iterdir())
    for folder in (traces, tmp_path):
        assert main(["mine", str(traces), "-o", str(folder), "--engine", "spark"]) == 2
        assert "folder" in capsys.readouterr().err
    assert sorted(traces.iterdir()) == kept


def test_where_mining_fails_the_tasks_of_before_stay(
    cluster: SparkSession, traces: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = tmp_path / "tasks.parquet"
    arguments = ["mine", str(traces), "-o", str(output), "--engine", "spark"]
    assert main(arguments) == 0
    before = read_logged(output).digest()
    mine_on_spark = mining.mine

    def failing(*frames: Any, **choices: Any) -> mining.MinedOnSpark:
        mined = mine_on_spark(*frames, **choices)
        return replace(mined, tasks=mined.tasks.selectExpr("*", "raise_error('full disk') AS reason"))

    monkeypatch.setattr(mining, "mine", failing)
    with pytest.raises(Exception, match="full disk"):
        main(arguments)
    assert read_logged(output).digest() == before
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("tasks.parquet")] == ["tasks.parquet"]


@pytest.fixture(scope="module")
def skewed(cluster: SparkSession) -> tuple[pl.DataFrame, DataFrame]:
    """6,000 tasks: two tools are in every list, and each of the others is in half as many as the one before."""
    lists = [["a", "b", f"tool-{(i & -i).bit_length():02}"] for i in range(1, 6001)]
    tasks = pl.DataFrame(
        {
            "task_id": [f"{i:05}" for i in range(6000)],
            "group": [f"{i // 3}" for i in range(6000)],
            "ranked": lists,
            "scores": [[0.9, 0.5, 0.1]] * 6000,
            "called": [names[i % 3 :][:1] for i, names in enumerate(lists)],
        }
    )
    return tasks, cluster.createDataFrame(tasks.to_arrow()).repartition(3)


def times_listed(tasks: pl.DataFrame) -> dict[str, int]:
    return dict(tasks["ranked"].explode().value_counts().iter_rows())


def test_a_sample_is_everything_where_there_is_no_more(skewed: tuple[pl.DataFrame, DataFrame]) -> None:
    tasks, table = skewed
    sample = sampled(table)
    assert sample.tasks.equals(tasks)
    assert str(sample).startswith("All 6,000 tasks with a ranking;")


def test_in_a_sample_every_tool_keeps_its_tasks_or_about_as_many_as_asked(
    skewed: tuple[pl.DataFrame, DataFrame],
) -> None:
    tasks, table = skewed
    sample = sampled(table, at_most=1000, a_tool=40)
    kept, before = times_listed(sample.tasks), times_listed(tasks)
    for tool, times in before.items():
        assert kept[tool] == times if times <= 40 else kept[tool] > 20
    assert 900 < len(sample.tasks) - sample.for_rare_tools < 1100
    assert 100 < sample.for_rare_tools < 400
    assert f"A sample of {len(sample.tasks):,} of 6,000 tasks" in str(sample)
    assert sampled(table, at_most=1000, a_tool=0).for_rare_tools == 0


def test_what_a_task_required_does_not_decide_whether_it_is_sampled(skewed: tuple[pl.DataFrame, DataFrame]) -> None:
    _, table = skewed
    sample = sampled(table, at_most=1000)
    other = table.withColumn("called", table["ranked"])
    assert sampled(other, at_most=1000).tasks["task_id"].equals(sample.tasks["task_id"])


def test_a_sample_is_the_same_whatever_the_partitions_and_another_with_another_seed(
    skewed: tuple[pl.DataFrame, DataFrame],
) -> None:
    _, table = skewed
    sample = sampled(table, at_most=500)
    assert sampled(table.repartition(1), at_most=500).tasks.equals(sample.tasks)
    assert not sampled(table, at_most=500, seed=1).tasks.equals(sample.tasks)


def test_camdf_mine_and_fit_take_the_same_arguments_on_spark(
    cluster: SparkSession, traces: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    printed = {}
    for engine in ("local", "spark"):
        output, statistics = tmp_path / f"{engine}.parquet", tmp_path / f"{engine}.json"
        assert main(["mine", str(traces), "-o", str(output), "--statistics", str(statistics), "--engine", engine]) == 0
        printed[engine] = capsys.readouterr().out.replace(engine, "ENGINE")
    assert printed["spark"] == printed["local"]
    assert json.loads((tmp_path / "spark.json").read_text()) == json.loads((tmp_path / "local.json").read_text())
    here, there = (read_logged(tmp_path / f"{engine}.parquet") for engine in ("local", "spark"))
    assert here.digest() == there.digest()
    policies = {}
    for policy, engine in (
        ("expected-payoff-by-set", "local"),
        ("expected-payoff-by-set", "spark"),
        ("cam-df", "spark"),
    ):
        saved = tmp_path / f"{policy}-{engine}.json"
        arguments = ["fit", str(tmp_path / f"{engine}.parquet"), "-o", str(saved), "--cost-pressure", "0.1"]
        assert main([*arguments, "--splits", "2", "--policy", policy, "--engine", engine]) == 0
        printed[policy] = capsys.readouterr().out
        assert "40 tasks, 20 groups" in printed[policy]
        assert engine == "local" or printed[policy].startswith("All 40 tasks with a ranking; 10 more have no ranking")
        policies[policy, engine] = load(saved)
    audits = []
    for engine in ("local", "spark"):
        assert main(["audit", str(tmp_path / f"{engine}.parquet")]) == 0
        audits.append(capsys.readouterr().out.replace(engine, "ENGINE"))
    assert audits[0] == audits[1]
    here_fitted, there_fitted = (policies["expected-payoff-by-set", engine] for engine in ("local", "spark"))
    assert isinstance(here_fitted, ExpectedPayoffBySet)
    assert isinstance(there_fitted, ExpectedPayoffBySet)
    assert repr(there_fitted.model_) == repr(here_fitted.model_)


def test_a_local_spark_runs_its_workers_in_the_python_that_asked(traces: Path, tmp_path: Path) -> None:
    """Whatever python3 is on the path, which is what PySpark would take."""
    bare = {name: value for name, value in os.environ.items() if name != "PYSPARK_PYTHON"} | {"PATH": "/usr/bin:/bin"}
    command = [
        sys.executable,
        "-m",
        "camdf",
        "mine",
        str(traces),
        "-o",
        str(tmp_path / "tasks"),
        "--engine",
        "spark",
    ]
    run = subprocess.run(command, env=bare, capture_output=True, text=True)
    assert "50 tasks" in run.stdout, run.stderr


def test_past_requests_are_kept_by_a_fit_on_spark_and_recalled_by_its_workers(
    cluster: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    logged = domains.load("mcp-atlas", "minilm", texts=True).take(np.random.default_rng(0).permutation(170))
    rankings = logged.rankings
    assert rankings.vectors is not None
    rows = range(len(logged))
    ranked = [rankings.names(row) for row in rows]
    table = pl.DataFrame(
        {
            "task_id": logged.task_ids.tolist(),
            "user": [f"user {row % 30}" for row in rows],
            "group": logged.groups.tolist(),
            "time": list(rows),
            "ranked": ranked,
            "scores": [rankings.scores[row, : len(names)].tolist() for row, names in enumerate(ranked)],
            "called": [
                [name for name, needs in zip(names, logged.required[row], strict=False) if needs]
                for row, names in enumerate(ranked)
            ],
            "text": [f"request {row}" for row in rows],
            "vector": rankings.vectors.tolist(),
        }
    )
    table[:120].write_parquet(tmp_path / "tasks.parquet")
    table[120:].write_parquet(tmp_path / "newer.parquet")
    policy, examples, newer = (tmp_path / name for name in ("policy.json", "examples.jsonl", "newer.parquet"))
    command = f"fit {tmp_path}/tasks.parquet -o {policy} --cost-pressure 0.05 --splits 1 --engine spark --keep-text"
    assert main([*command.split(), "--remember", str(examples)]) == 0
    kept = read_examples(examples)
    assert [example.text for example in kept] == [f"request {row}" for row in range(120)]
    assert {example.user for example in kept} == {f"user {row}" for row in range(30)}
    assert main(["evaluate", str(policy), str(newer), "--examples", str(examples), "--splits", "1"]) == 0
    assert "recalls past requests" not in capsys.readouterr().out

    recalling, payoff = load(policy).recalling(past_tasks(kept)), Payoff(0.05)

    def kept_of(rankings: Rankings) -> list[list[str]]:
        decisions = recalling.decide(rankings, payoff)
        return [decisions.names(rankings, row) for row in range(len(rankings))]

    def decided(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            tasks = logged_tasks(pl.DataFrame(pl.from_arrow(batch)))
            yield pa.RecordBatch.from_pydict({"task_id": tasks.task_ids.tolist(), "kept": kept_of(tasks.rankings)})

    here = read_logged(newer)
    there = cluster.read.parquet(str(newer)).repartition(3).mapInArrow(decided, "task_id string, kept array<string>")
    assert {row.task_id: row.kept for row in there.collect()} == dict(
        zip(here.task_ids.tolist(), kept_of(here.rankings), strict=True)
    )


@pytest.fixture
def forgiving(cluster: SparkSession) -> Iterator[SparkSession]:
    """A session that tries a task four times, in place of the other: last in the file."""
    cluster.stop()
    session = started("local[2,4]")
    yield session
    session.stop()


def dies_once(mark: Path) -> Callable[[], None]:
    """Kills the worker that calls it, once."""

    def die() -> None:
        if not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)

    return die


def test_a_worker_killed_in_the_middle_of_mining_is_retried_and_the_output_is_the_same(
    forgiving: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = mine(arrow_table(runs(200)))
    miner, die = mining._miner, dies_once(tmp_path / "mining")

    def dying_miner(*arguments: Any) -> Any:
        mined = miner(*arguments)

        def dying(batches: Iterator[Any]) -> Iterator[Any]:
            for number, batch in enumerate(mined(batches)):
                yield batch
                if number == 0:
                    die()

        return dying

    monkeypatch.setattr(mining, "_miner", dying_miner)
    there = mining.mine(frame(forgiving, runs(200)))
    assert collected(there.tasks).equals(here.tasks, null_equal=True)
    assert there.spans == here.spans
    assert (tmp_path / "mining").exists()

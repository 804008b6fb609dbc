"""Spark adds transport and nothing else: the same tasks, the same fit, whatever the partitions and whoever dies."""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from camdf import CAMDF, ExpectedPayoffBySet, LoggedTasks, Payoff, load
from camdf.cli import main
from camdf.errors import DataError
from camdf.mining.logged import LEARNED_COLUMNS, logged_tasks, read_logged
from camdf.mining.spans import Span, arrow_table
from camdf.mining.spark import fit, mining
from camdf.mining.tasks import mine
from camdf.models.newton import over
from camdf_lab import domains
from same_fit import apart_by_name, differing_sets, folds_as_here, shared_tools
from test_mining import AGENT, ASKS, RANKED, SEARCHES, random_spans, traces
from test_newton import SAMPLE, apart, by_scikit_learn
from worlds import random_logged

__all__ = ["traces"]

PAYOFF = Payoff(0.08)
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "4",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "2g",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",  # small jobs: compile little
    "spark.sql.codegen.wholeStage": "false",
}


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
    assert "7 rows hold text that is no UTF-8" in str(mined)


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
    blocks = fit.pack(cluster.createDataFrame(both.to_arrow()))
    assert (len(blocks), blocks.refused, blocks.unranked) == (300, 5, 1)
    assert "5 rows are broken" in str(blocks)
    whole = CAMDF().fit_in_passes(over([logged_tasks(tasks)]), PAYOFF, blocks.tools)
    assert apart(fit.fit_on_blocks(CAMDF(), blocks, PAYOFF).model_, whole.model_, logged_tasks(tasks), PAYOFF) <= 1e-10
    dated = both.with_columns(time=pl.lit(None, pl.Int64))
    assert len(fit.sampled_tasks(cluster.createDataFrame(dated.to_arrow()))) == 300


def test_where_there_is_nothing_to_learn_from_the_error_says_what_was_left_out(cluster: SparkSession) -> None:
    unranked = mine(arrow_table(runs(9))).tasks.with_columns(ranked=pl.lit([], pl.List(pl.String)))
    blocks = fit.pack(cluster.createDataFrame(unranked.to_arrow()))
    with pytest.raises(DataError, match="nothing to learn from: 0 tasks to learn from; 9 have no ranking"):
        fit.fit_on_blocks(CAMDF(), blocks, PAYOFF)


def test_files_of_other_types_and_columns_are_one_table(cluster: SparkSession, tmp_path: Path) -> None:
    table = arrow_table(runs(4))
    narrow = table.set_column(table.schema.get_field_index("start"), "start", table["start"].cast("int32"))
    for name, part in (("a", table), ("b", narrow.drop_columns(["text", "conversation"]))):
        pq.write_table(part, tmp_path / f"{name}.parquet")
    files = [tmp_path / f"{name}.parquet" for name in "ab"]
    mined = mining.mine(mining.span_frame(files))
    assert collected(mined.tasks).equals(mine(files).tasks, null_equal=True)
    assert mined.rows.is_cached
    mined.release()
    assert not mined.rows.is_cached


def test_a_folder_of_something_else_is_never_written_over(
    cluster: SparkSession, traces: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = sorted(traces.iterdir())
    for folder in (traces, tmp_path):
        assert main(["mine", str(traces), "-o", str(folder), "--engine", "spark"]) == 2
        assert "folder" in capsys.readouterr().err
    assert sorted(traces.iterdir()) == kept


@pytest.mark.parametrize(("domain", "scorer"), SAMPLE[:3])
def test_the_fit_is_newton_cholesky_and_decides_alike_at_every_shipped_state(
    cluster: SparkSession, domain: str, scorer: str
) -> None:
    logged = domains.load(domain, scorer, dispersion=1.5)
    policy = fit.fit_on_blocks(CAMDF(), fit.blocks_of(cluster, logged, 3), PAYOFF)
    other = by_scikit_learn(CAMDF(), logged, PAYOFF)
    if other.tools:
        order = [other.tools.index(tool) for tool in policy.model_.tools]
        other = replace(
            other, tools=policy.model_.tools, tool_coefficients=tuple(other.tool_coefficients[i] for i in order)
        )
    assert apart(policy.model_, other, logged, PAYOFF) <= 1e-8
    ours, theirs = (
        policy.stops(model.evidence(logged.rankings, PAYOFF), policy.cutoff_) for model in (policy.model_, other)
    )
    assert (ours == theirs)[logged.rankings.listed].all()


def test_the_default_is_that_of_one_machine(cluster: SparkSession) -> None:
    """One ranking and labels taken as they are, for every pass is a job; tests/test_warm_passes.py has more."""
    logged = domains.load("airline", "minilm", dispersion=1.5)
    blocks = fit.blocks_of(cluster, logged, 3)
    here, there = (ExpectedPayoffBySet(trust_labels=True) for _ in range(2))
    here.fit(logged, PAYOFF)
    there.fit_in_passes(blocks.total, PAYOFF, blocks.tools, folds_as_here(logged))
    assert apart_by_name(here.model_, there.model_) <= 1e-6
    assert differing_sets(here, there, logged.rankings) == 0


def test_however_many_partitions_the_driver_adds_few_sums(
    cluster: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fit, "SUMS_AT_ONCE", 2)
    logged = random_logged(np.random.default_rng(2), 90, 5)
    blocks = fit.blocks_of(cluster, logged, 9)
    assert len(blocks) == len(logged)
    kind, collected_rows = type(blocks.rows), []
    collect = kind.collect

    def noted(rows: DataFrame) -> Any:
        collected_rows.append(collect(rows))
        return collected_rows[-1]

    monkeypatch.setattr(kind, "collect", noted)
    assert blocks.total(len) == len(logged)
    assert [1 <= len(rows) <= 2 for rows in collected_rows] == [True]


def test_a_group_lies_in_one_block(cluster: SparkSession) -> None:
    tasks = mine(arrow_table(runs(600))).tasks
    blocks = fit.pack(cluster.createDataFrame(tasks.to_arrow()).repartition(5))
    groups = [set(pickle.loads(row.block).groups.tolist()) for row in blocks.rows.filter("tasks > 0").collect()]
    assert len(groups) > 1
    assert sum(map(len, groups)) == len(set.union(*groups)) == 200


def test_tools_are_learned_by_name_only_where_every_task_lists_the_same(cluster: SparkSession) -> None:
    shared = random_logged(np.random.default_rng(0), 60, 5, shared=True)
    mixed = random_logged(np.random.default_rng(0), 60, 5)
    assert fit.blocks_of(cluster, shared).tools == tuple(sorted(shared.rankings.catalogue))
    assert fit.blocks_of(cluster, mixed).tools == ()


def test_a_sample_keeps_groups_whole_and_is_everything_where_there_is_no_more(cluster: SparkSession) -> None:
    tasks = mine(arrow_table(runs(600))).tasks
    table = cluster.createDataFrame(tasks.to_arrow())
    assert fit.sampled_tasks(table).equals(tasks, null_equal=True)
    some = fit.sampled_tasks(table, at_most=200)
    assert 100 < len(some) < 300
    assert some["group"].value_counts()["count"].unique().to_list() == [3]


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
    for policy, engine in (("by-set", "local"), ("by-set", "spark"), ("cam-df", "spark")):
        saved = tmp_path / f"{policy}-{engine}.json"
        arguments = ["fit", str(tmp_path / f"{engine}.parquet"), "-o", str(saved), "--cost-pressure", "0.1"]
        assert main([*arguments, "--splits", "2", "--policy", policy, "--engine", engine]) == 0
        printed[policy] = capsys.readouterr().out
        assert "40 tasks, 20 groups" in printed[policy]
        assert engine == "local" or "Fitted on all 40 tasks by Newton's method" in printed[policy]
    audits = []
    for engine in ("local", "spark"):
        assert main(["audit", str(tmp_path / f"{engine}.parquet")]) == 0
        audits.append(capsys.readouterr().out.replace(engine, "ENGINE"))
    assert audits[0] == audits[1]
    by_set = load(tmp_path / "by-set-spark.json")
    of_one_batch = ExpectedPayoffBySet().fit_in_passes(over([here]), Payoff(0.1), shared_tools(here))
    assert apart_by_name(by_set.model_, of_one_batch.model_) <= 1e-6  # type: ignore[attr-defined]
    newton = load(tmp_path / "cam-df-spark.json")
    whole = CAMDF().fit_in_passes(over([here]), Payoff(0.1), tuple(sorted(here.rankings.catalogue)))
    assert apart(newton.model_, whole.model_, here, Payoff(0.1)) <= 1e-10  # type: ignore[attr-defined]


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


def test_a_worker_killed_in_the_middle_of_mining_or_of_a_fit_is_retried_and_the_output_is_the_same(
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

    blocks = fit.blocks_of(forgiving, random_logged(np.random.default_rng(1), 200, 6), 4)
    calm = CAMDF().fit_in_passes(blocks.total, PAYOFF)
    die_again = dies_once(tmp_path / "fit")

    def total(of: Any, /) -> Any:
        def asked(logged: LoggedTasks) -> Any:
            value = of(logged)
            die_again()
            return value

        return blocks.total(asked)

    assert CAMDF().fit_in_passes(total, PAYOFF).model_.coefficients == calm.model_.coefficients
    assert (tmp_path / "fit").exists()

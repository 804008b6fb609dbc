"""What users wrote is in no file of Spark's either: not in a shuffle, not in what the executors keep on disk."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from small_spark import SETTINGS

from camdf.cli import main
from secret_traces import SECRET, holds_the_secret, scratch, traces

__all__ = ["scratch", "traces"]

READABLE = dict.fromkeys(
    (
        "spark.shuffle.compress",
        "spark.shuffle.spill.compress",
        "spark.rdd.compress",
        "spark.broadcast.compress",
        "spark.sql.inMemoryColumnarStorage.compressed",
    ),
    "false",
)


@pytest.fixture
def local(tmp_path: Path) -> Iterator[Path]:
    """The folder where a session keeps its files, none of them compressed, for as long as it lives."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    folder = tmp_path / "local"
    builder = SparkSession.builder.master("local[2]").config("spark.local.dir", str(folder))
    for name, value in {**SETTINGS, **READABLE}.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    assert session.sparkContext.getConf().get("spark.local.dir") == str(folder)
    yield folder
    session.stop()


@pytest.mark.parametrize("options", [[], ["--with-text"]])
def test_no_text_of_a_user_touches_a_disk_of_the_cluster(
    options: list[str],
    local: Path,
    traces: Path,
    scratch: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    written = tmp_path / "written"
    written.mkdir()
    outputs = ["-o", str(written / "tasks.parquet"), "--statistics", str(written / "statistics.json")]
    assert main(["mine", str(traces), *outputs, "--engine", "spark", *options]) == 0
    printed = capsys.readouterr()
    assert SECRET not in printed.out + printed.err
    assert any(file.name.startswith("shuffle_") for file in local.rglob("*.data"))
    assert any(file.name.startswith("rdd_") for file in local.rglob("*"))
    for folder in (local, scratch, written):
        assert holds_the_secret(folder) == bool(options), folder

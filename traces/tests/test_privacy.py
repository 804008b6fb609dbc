"""What users wrote stays where it was: without text, mining keeps none of it in any file, memory or message.

Every text of the traces here holds one secret word. `environments/spark/test_private_spark.py` looks for it in Spark's
files.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from camdf.cli import main
from camdf_traces.readers import FORMATS, read_spans
from camdf_traces.readers.formats import guess
from camdf_traces.span_files import span_tables
from camdf_traces.tasks import mine
from secret_traces import (
    SECRET,
    holds_the_secret,
    records,
    scratch,
    traces,
)

__all__ = ["scratch", "traces"]


def test_every_format_is_among_the_traces() -> None:
    assert records().keys() == FORMATS.keys()
    assert {FORMATS[guess(found[0])] for found in records().values()} == {*FORMATS.values()}


@pytest.mark.parametrize("with_text", [False, True])
def test_no_text_of_a_user_outlives_the_record_that_holds_it(with_text: bool, traces: Path) -> None:
    for file in sorted(traces.iterdir()):
        reading = read_spans(file, with_text=with_text)
        spans = list(reading)
        assert len(spans) >= 2, file
        assert (SECRET in str(spans)) == with_text, file
        assert SECRET not in str(reading.report)


@pytest.mark.parametrize("with_text", [False, True])
def test_no_text_of_a_user_touches_a_disk(with_text: bool, traces: Path, scratch: Path, tmp_path: Path) -> None:
    """Not even while mining is at work, in the files that it deletes."""
    with span_tables(traces, with_text=with_text, bytes_a_file=3000, tell=lambda said: None) as tables:
        mined = mine(tables, with_text=with_text, at_a_time=4)
    assert mined.kept >= 6
    assert (SECRET in str(mined.tasks.to_dicts())) == with_text
    assert {folder.name.split("-")[1] for folder in scratch.iterdir()} == {"spans", "parts"}
    assert len(list(scratch.rglob("*.parquet"))) > 10
    assert holds_the_secret(scratch) == with_text


@pytest.mark.parametrize("options", [[], ["--with-text"]])
def test_camdf_mine_keeps_and_prints_no_text_of_a_user(
    options: list[str], traces: Path, scratch: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written = tmp_path / "written"
    written.mkdir()
    outputs = ["-o", str(written / "tasks.parquet"), "--statistics", str(written / "statistics.json")]
    assert main(["mine", str(traces), *outputs, *options]) == 0
    printed = capsys.readouterr()
    assert "not JSON" in printed.out
    assert SECRET not in printed.out + printed.err
    assert holds_the_secret(written) == holds_the_secret(scratch) == bool(options)

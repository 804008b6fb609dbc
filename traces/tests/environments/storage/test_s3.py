"""Traces behind a URL, on a real S3 API: moto's server on loopback, read through s3fs."""

from __future__ import annotations

import bz2
import gzip
import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from arrivals import BEGIN, FIRST, at_once
from arrivals import run as of_a_day
from camdf.cli import main
from camdf.errors import DataError, MissingExtraError
from camdf.examples.mined import is_mined
from camdf_traces.days import mine_day
from camdf_traces.forget import forget
from camdf_traces.logged import mined_table
from camdf_traces.readers import read_spans
from camdf_traces.span_files import span_tables
from camdf_traces.spans import Span, arrow_table
from camdf_traces.tasks import mine
from writers import race

SECRET = "zanzibar-4711"


def answers(host: str, port: int) -> bool:
    with socket.socket() as asked:
        return asked.connect_ex((host, port)) == 0


@pytest.fixture(scope="module")
def bucket() -> Iterator[Any]:
    """A file system of fsspec with an empty bucket, as the environment of an operator would configure it.

    The server is a process of its own: `deltalake` lets no other thread of its process run while it waits for one.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        host, port = free.getsockname()
    command = [sys.executable, "-m", "moto.server", "-H", host, "-p", str(port)]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while not answers(host, port):
        time.sleep(0.05)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ACCESS_KEY_ID", "testing")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
        patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        patch.setenv("AWS_ALLOW_HTTP", "true")  # of the server on loopback
        patch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
        patch.setitem(fsspec.config.conf, "s3", {"endpoint_url": f"http://{host}:{port}"})
        filesystem = fsspec.filesystem("s3")
        filesystem.mkdir("desk")
        yield filesystem
    server.terminate()
    server.wait()


def run(number: int) -> list[Span]:
    """An agent, its model and a tool."""
    trace = f"{number:032x}"
    return [
        Span(trace, "a", kind="agent", start=number, text=SECRET),
        Span(trace, "b", "a", "model", start=number, offered=("get", "send"), text=SECRET),
        Span(trace, "c", "a", "tool", "get", start=number),
    ]


def lines(spans: list[Span]) -> bytes:
    rows = arrow_table(spans).to_pylist()
    return "\n".join(map(json.dumps, rows)).encode()


@pytest.fixture(scope="module")
def url(bucket: Any) -> str:
    """Six runs, each in a file of another sort, and two files that are no traces."""
    packed = pa.compress(lines(run(3)), "zstd", asbytes=True)
    with bucket.open("desk/traces/2026/tables.parquet", "wb") as stream:
        pq.write_table(arrow_table(run(0)), stream)
    for name, written in {
        "a.jsonl": lines(run(1)),
        "deeper/b.jsonl.gz": gzip.compress(lines(run(2))),
        "deeper/c.jsonl.zst": packed,
        "d.ndjson.bz2": bz2.compress(lines(run(4))),
        "e.json": json.dumps(arrow_table(run(5)).to_pylist(), indent=1).encode(),
        "_SUCCESS": b"",
        "notes.txt": b"no trace",
    }.items():
        bucket.pipe(f"desk/traces/2026/{name}", written)
    return "s3://desk/traces"


def test_a_folder_of_a_bucket_is_read_whatever_its_files_are_packed_with(url: str) -> None:
    reading = read_spans(url)
    expected = [span for number in range(6) for span in run(number)]
    assert sorted(reading, key=lambda span: (span.trace_id, span.span_id)) == expected
    assert reading.report.skipped == 0
    assert "2 other files were passed over, by their names: _SUCCESS, notes.txt" in str(reading.report)
    assert list(read_spans(f"{url}/2026/deeper/c.jsonl.zst", with_text=False))[2] == run(3)[2]


def test_spans_of_a_bucket_are_mined_and_no_text_touches_a_disk(url: str) -> None:
    told: list[str] = []
    with span_tables(url, tell=told.append) as tables:
        assert len(tables) == 2
        assert SECRET not in str([pq.read_table(table).to_pylist() for table in tables])
        assert mine(tables).tasks["called"].to_list() == [["get"]] * 6
    assert "passed over" in told[0]
    with span_tables(url, with_text=True, tell=told.append) as tables:
        assert mine(tables, with_text=True).tasks["text"].to_list() == [SECRET] * 6


def test_camdf_mine_takes_a_url(url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["mine", url, "-o", str(tmp_path / "tasks.parquet")]) == 0
    assert "6 tasks with 2 tools" in capsys.readouterr().out
    assert pq.read_metadata(tmp_path / "tasks.parquet").num_rows == 6


def test_a_table_in_a_bucket_grows_forgets_and_is_read(bucket: Any, tmp_path: Path) -> None:
    table = "s3://desk/table"
    spans = [replace(span, conversation="c1") for span in of_a_day(1, BEGIN)]
    mine_day(arrow_table([*spans, *of_a_day(2, BEGIN)]), table, FIRST)
    assert mine_day(arrow_table(of_a_day(3, BEGIN)), table, FIRST).added == 1
    assert is_mined(table)
    assert mined_table(table).to_pylist() == at_once([*spans, *of_a_day(2, BEGIN), *of_a_day(3, BEGIN)])
    assert forget(table, conversation="c1", alone=True).tasks == 1
    assert len(mined_table(table)) == 2
    left = [bucket.cat_file(path) for path in bucket.find("desk/table")]
    assert not any(f"{1:032x}".encode() in content for content in left)


def test_two_writers_of_a_table_in_a_bucket_lose_no_task(bucket: Any, tmp_path: Path) -> None:
    spans = race("s3://desk/raced", tmp_path, races=4)
    assert mined_table("s3://desk/raced").to_pylist() == at_once(spans)


def test_a_url_that_cannot_be_opened_says_what_is_missing(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(DataError, match="There are no traces below s3://desk/nothing"):
        read_spans("s3://desk/nothing")
    with pytest.raises(DataError, match="must be a URL that fsspec knows"):
        read_spans("nowhere://desk")
    with pytest.raises(MissingExtraError, match="gcsfs"):
        read_spans("gs://desk/traces")

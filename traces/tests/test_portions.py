"""Traces read in portions, by one process or by several: the same spans in the same order, and the same report."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from camdf.errors import DataError
from camdf_traces import portions
from camdf_traces.portions import Portion, in_portions, read_portions
from camdf_traces.readers import read_spans
from camdf_traces.readers.files import TraceFile
from camdf_traces.span_files import span_tables

BROKEN = '{"trace_id": "half of a'


def row(number: int, **more: Any) -> str:
    return json.dumps({"trace_id": f"t{number}", "span_id": "s", "parent_id": "", "kind": "agent", **more})


def folder_of_traces(folder: Path) -> Path:
    """One file with many lines, blank and broken ones among them; small files, one that is packed, one that is cut."""
    folder.mkdir()
    lines = [BROKEN if number % 50 == 33 else "" if number % 7 == 3 else row(number) for number in range(400)]
    (folder / "b.jsonl").write_text("\n".join(lines))
    for number in range(12):
        (folder / f"c{number:02}.jsonl").write_text(f"{row(1000 + number)}\n{BROKEN}\n")
    (folder / "a.jsonl.gz").write_bytes(gzip.compress("\n".join(map(row, range(2000, 2030))).encode()))
    (folder / "d.json").write_text(json.dumps([json.loads(row(3000)), json.loads(row(3001))], indent=1))
    (folder / "e.jsonl.gz").write_bytes(gzip.compress(row(4000).encode())[:-9])
    (folder / "f.txt").touch()
    return folder


def read(folder: Path, **how: Any) -> tuple[list[dict[str, Any]], list[str]]:
    """The rows in their order, and what was told."""
    told: list[str] = []
    with span_tables(folder, tell=told.append, **how) as tables:
        return [each for table in tables for each in pq.read_table(table).to_pylist()], told


@given(
    lines=st.lists(st.sampled_from([b"", b"{}", b'{"a": 1}', b"x" * 40]), max_size=30),
    ends=st.booleans(),
    size=st.integers(1, 120),
)
@settings(max_examples=60, deadline=None)
def test_the_parts_of_a_file_are_its_lines_and_know_how_many_come_before(
    tmp_path_factory: pytest.TempPathFactory, lines: list[bytes], ends: bool, size: int
) -> None:
    path = tmp_path_factory.mktemp("parts") / "traces.jsonl"
    path.write_bytes(b"\n".join(lines) + b"\n" * ends)
    file = TraceFile(str(path))
    parts = [part for portion in in_portions([file], size) for part in portion.files]
    assert sum(portion.size for portion in in_portions([file], size)) == path.stat().st_size
    found: list[bytes] = []
    for part in parts:
        some = list(part.lines())
        if some:
            assert part.lines_before() == len(found)
        found += some
    assert found == path.read_bytes().splitlines(keepends=True) == list(file.lines())


def test_portions_hold_small_files_together_and_cut_only_what_has_lines(tmp_path: Path) -> None:
    files = [TraceFile(str(path)) for path in sorted(folder_of_traces(tmp_path / "traces").iterdir())]
    found = list(in_portions(files, 1500))
    assert [part.path for portion in found for part in portion.files if not part.start] == [file.path for file in files]
    assert {part.name for portion in found for part in portion.files if part.end is not None} == {"b.jsonl"}
    assert max(len(portion.files) for portion in found) > 5
    assert max(portion.size for portion in found) <= 1500
    assert TraceFile(str(tmp_path / "nowhere.jsonl")).size() == 0


@pytest.mark.parametrize("workers", [2, 3])
def test_spans_their_order_and_the_report_do_not_depend_on_processes_or_portions(tmp_path: Path, workers: int) -> None:
    folder = folder_of_traces(tmp_path / "traces")
    rows, told = read(folder)
    assert len(rows) > 300
    assert [each["trace_id"] for each in rows] == [span.trace_id for span in read_spans(folder)]
    assert "b.jsonl:34: not JSON" in told[0]
    assert "b.jsonl:234: not JSON" in told[0]
    assert (rows, told) == read(folder, bytes_a_portion=700)
    seen: list[tuple[int, int]] = []
    again = read(
        folder, bytes_a_portion=700, workers=workers, progress=lambda done, total, left: seen.append((done, total))
    )
    assert again == (rows, told)
    assert seen[-1] == (1, 1)


def test_no_process_is_started_unasked_or_for_little(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def started(*arguments: Any, **options: Any) -> None:
        raise AssertionError("a pool was started")

    monkeypatch.setattr(portions, "ProcessPoolExecutor", started)
    folder = folder_of_traces(tmp_path / "traces")
    assert read(folder, bytes_a_portion=700) == read(folder, workers=8)
    with pytest.raises(AssertionError, match="a pool was started"):
        read(folder, bytes_a_portion=700, workers=8)


def test_a_worker_that_is_killed_is_said(tmp_path: Path) -> None:
    """It waits for a pipe that nobody writes to."""
    os.mkfifo(tmp_path / "pipe.jsonl")
    (tmp_path / "some.jsonl").write_text(row(1))
    names = ("some", "pipe", "some", "some")
    some = [Portion((TraceFile(str(tmp_path / f"{name}.jsonl")),), 1) for name in names]
    with pytest.raises(DataError, match="--workers 1"):  # noqa: PT012
        for _ in read_portions(some, tmp_path, with_text=False, bytes_a_table=1000, workers=2):
            for child in children(os.getpid()):
                os.kill(child, signal.SIGKILL)


def children(parent: int) -> list[int]:
    """The processes that one has started to read traces."""
    found = []
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            command = (status.parent / "cmdline").read_bytes()
            if f"\nPPid:\t{parent}\n" in status.read_text() and b"spawn_main" in command:
                found.append(int(status.parent.name))
        except OSError:  # it has just ended
            continue
    return found


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_command_leaves_no_process_and_an_orderly_one_no_file(tmp_path: Path, sent: int) -> None:
    with (tmp_path / "traces.jsonl").open("w") as stream:
        stream.writelines(row(number, name="x" * 1000) + "\n" for number in range(150_000))
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    command = [sys.executable, "-m", "camdf", "mine", "traces.jsonl", "-o", "tasks.parquet", "--workers", "2"]
    alone: dict[str, Any] = {"env": {**os.environ, "TMPDIR": str(scratch)}, "start_new_session": True}
    process = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, **alone)
    workers: list[int] = []
    while not list(scratch.rglob("*.parquet")) and process.poll() is None:
        workers = children(process.pid) or workers
        time.sleep(0.05)
    assert len(workers) == 2
    if sent == signal.SIGINT:
        os.killpg(process.pid, sent)  # as a terminal does
    else:
        process.send_signal(sent)
    _, said = process.communicate(timeout=120)
    if sent == signal.SIGINT:
        assert process.returncode == 130
        assert b"camdf: interrupted" in said
        assert b"Traceback" not in said
        assert not list(scratch.rglob("*.parquet"))
    ends = time.monotonic() + 60
    while any(map(is_there, workers)) and time.monotonic() < ends:
        time.sleep(0.05)
    assert not any(map(is_there, workers))


def is_there(process: int) -> bool:
    """Whether a process still runs; one that nobody has waited for does not."""
    try:
        return "\nState:\tZ" not in Path(f"/proc/{process}/status").read_text()
    except OSError:
        return False

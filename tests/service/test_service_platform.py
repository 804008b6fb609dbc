"""`camdf serve` and `camdf learn` need nothing that exists on one platform alone; Windows itself is not tried here."""

from __future__ import annotations

import ast
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from camdf.runtime.files import locked, write_whole
from camdf.service.outcomes import marked
from running_service import PLAIN, SECONDS, folder_of, ranking, running

PACKAGE = Path(__file__).parents[2] / "src" / "camdf"
OF_ONE_PLATFORM = {"fcntl", "grp", "msvcrt", "pty", "pwd", "resource", "termios", "tty", "uvloop", "winreg"}

ELSEWHERE = """
import asyncio, logging, os, random, signal, sys
for name in ("fcntl", "grp", "pwd", "resource", "termios", "uvloop"):
    sys.modules[name] = None
for name in ("pread", "pwrite", "fork", "register_at_fork", "setpriority", "getpriority"):
    delattr(os, name)
del signal.SIGHUP
from camdf.cli import main
sys.exit(main())
"""
"""The command on a platform that has only what all have."""

PROGRAM = (sys.executable, "-c", ELSEWHERE)


def test_the_service_imports_nothing_that_one_platform_alone_has() -> None:
    files = [*PACKAGE.glob("service/**/*.py"), PACKAGE / "cli" / "service.py", PACKAGE / "runtime" / "files.py"]
    for file in files:
        for node in ast.parse(file.read_text("utf-8")).body:
            if isinstance(node, ast.Import):
                assert not {each.name for each in node.names} & OF_ONE_PLATFORM, file
            elif isinstance(node, ast.ImportFrom):
                assert node.module not in OF_ONE_PLATFORM, file


def test_without_fcntl_it_serves_keeps_outcomes_and_shares_no_log(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "served", PLAIN + "rollout.explore = 1.0\n[learn]\nevery_hours = 1\n")
    outcome = {"decision": marked("one", ""), "called": ["a"], "success": True}
    with running(folder, program=PROGRAM) as service:
        assert service.decide(ranking({"a": 0.9, "b": 0.1}))["explored"]
        assert service.ask("/v1/outcomes", outcome).body == {"first": 1, "last": 1}
        command = [*PROGRAM, "serve", "camdf.toml", "--state", "state"]
        other = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=SECONDS)
        assert other.returncode == 2
        assert "Another process writes" in other.stderr
        service.kill()
    with open(folder / "state" / "outcomes.jsonl", "ab") as file:
        file.write(b'{"seq":2')
    with running(folder, program=PROGRAM) as service:
        assert service.ask("/v1/outcomes", outcome).body == {"first": 2, "last": 2}
    learn = subprocess.run(
        [*PROGRAM, "learn", "camdf.toml", "--state", "state"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
    )
    assert (learn.returncode, learn.stderr) == (0, "")
    assert "\npolicy.json: " in learn.stdout


@pytest.mark.parametrize("fcntl", [True, False], ids=["with fcntl", "without"])
def test_a_lock_is_held_by_one_and_the_next_waits_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fcntl: bool
) -> None:
    if not fcntl:
        monkeypatch.setitem(sys.modules, "fcntl", None)
    path, got = tmp_path / "file", threading.Event()
    path.touch()

    def wait() -> None:
        with locked(path, wait=True):
            got.set()

    waiting = threading.Thread(target=wait)
    with locked(path, wait=False):
        with pytest.raises(BlockingIOError), locked(path, wait=False):
            pass
        waiting.start()
        assert not got.wait(0.3)
    assert got.wait(SECONDS)
    waiting.join()


@pytest.mark.parametrize("fcntl", [True, False], ids=["with fcntl", "without"])
def test_who_waited_for_a_file_that_was_replaced_has_the_new_one_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fcntl: bool
) -> None:
    if not fcntl:
        monkeypatch.setitem(sys.modules, "fcntl", None)
    path, got, end = tmp_path / "file", threading.Event(), threading.Event()
    path.touch()

    def wait() -> None:
        with locked(path, wait=True):
            got.set()
            end.wait(SECONDS)

    waiting = threading.Thread(target=wait)
    with locked(path, wait=False):
        waiting.start()
        assert not got.wait(0.3)
        write_whole(path, b"new")
    assert got.wait(SECONDS)
    with pytest.raises(BlockingIOError), locked(path, wait=False):
        pass
    end.set()
    waiting.join()


def test_a_file_that_is_replaced_is_read_by_those_who_could_read_it(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_whole(path, b"old")
    path.chmod(0o400)
    write_whole(path, b"new")
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (b"new", 0o400)

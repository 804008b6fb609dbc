"""The hook on a user's prompt: whatever happens on the other side, the prompt goes on, in time and as it was."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from camdf.integrations.gateway import prompt_hook
from camdf.integrations.gateway.prompt_hook import BEGINS, BUDGET, MOST_PRINTED, NOTHING, SUFFIX, socket_name
from camdf.integrations.gateway.prompt_socket import PromptSocket, hook_output

PATIENCE = 3.0
"""Seconds that a busy machine may take beyond the budget."""

ASKED = json.dumps({"hook_event_name": "UserPromptSubmit", "prompt": "Book a room", "session_id": "a", "cwd": "/"})
NOTE = "A note\nof two lines, with 'quotes', ünïcode and \x7f."


def ran(folder: Path, asked: bytes = ASKED.encode(), *options: str) -> subprocess.CompletedProcess[bytes]:
    """The hook as clients run it."""
    command = [sys.executable, "-I", "-S", *options, prompt_hook.__file__, str(folder)]
    return subprocess.run(command, input=asked, capture_output=True, timeout=60)


@contextmanager
def answering(folder: Path, answer: Callable[[bytes], Awaitable[str]]) -> Iterator[PromptSocket]:
    """A gateway's socket, served by a thread."""
    loop = asyncio.new_event_loop()
    served = PromptSocket(folder, answer)
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        asyncio.run_coroutine_threadsafe(served.open(), loop).result(10)
        yield served
    finally:
        asyncio.run_coroutine_threadsafe(ended(served), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def ended(served: PromptSocket) -> None:
    """Close a socket, and end what is still answered."""
    served.close()
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    await asyncio.sleep(0.05)


@contextmanager
def listening(path: Path, *, mode: int = 0o600) -> Iterator[socket.socket]:
    """A socket of whoever, at a path that is short enough."""
    with socket.socket(socket.AF_UNIX) as bound:
        here = os.getcwd()
        os.chdir(path.parent)
        try:
            bound.bind(path.name)
        finally:
            os.chdir(here)
        path.chmod(mode)
        bound.listen()
        yield bound


@contextmanager
def saying(path: Path, answer: bytes, *, mode: int = 0o600) -> Iterator[list[bytes]]:
    """A socket that says the same to everybody, and what was said to it."""
    heard: list[bytes] = []

    def serve(bound: socket.socket) -> None:
        with suppress(OSError):
            while True:
                connection = bound.accept()[0]
                with connection, suppress(OSError):
                    heard.append(connection.recv(1 << 20))
                    connection.sendall(answer)

    with listening(path, mode=mode) as bound:
        thread = threading.Thread(target=serve, args=[bound], daemon=True)
        thread.start()
        yield heard
        bound.shutdown(socket.SHUT_RDWR)
        thread.join()


async def note_for_all(asked: bytes) -> str:
    return NOTE


def own(folder: Path, parent: int = 1, process: int = 0) -> Path:
    return folder / socket_name(str(Path.cwd()), parent, process or os.getpid())


def test_the_note_is_printed_as_clients_take_it_and_nothing_but_the_standard_library_is_loaded(tmp_path: Path) -> None:
    heard: list[bytes] = []

    async def answer(asked: bytes) -> str:
        heard.append(asked)
        return NOTE

    deep = tmp_path / ("a folder whose name is longer than a socket's may be " * 3)
    deep.mkdir()
    with answering(deep, answer) as served:
        assert served.path.stat().st_mode & 0o777 == 0o600
        done = ran(deep, ASKED.encode(), "-X", "importtime")
    assert heard == [ASKED.encode()]
    assert done.returncode == 0
    output = json.loads(done.stdout)["hookSpecificOutput"]
    assert output == {"hookEventName": "UserPromptSubmit", "additionalContext": NOTE}
    loaded = {line.rpartition("|")[2].strip() for line in done.stderr.decode().splitlines()}
    assert "_socket" in loaded
    assert not {name for name in loaded if name.split(".")[0] in {"numpy", "camdf", "json", "socket", "re", "asyncio"}}
    assert not list(deep.iterdir()), "a gateway takes its socket with it"


def test_a_prompt_that_needs_nothing_prints_nothing(tmp_path: Path) -> None:
    async def nothing(asked: bytes) -> str:
        return ""

    with answering(tmp_path, nothing):
        done = ran(tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(b"", id="it hangs up"),
        pytest.param(hook_output(NOTE)[:-10], id="cut off"),
        pytest.param(b'{"decision": "block"}\n', id="another shape"),
        pytest.param(BEGINS + b"\x1b[2J" + b'"}}\n', id="control signs"),
        pytest.param(BEGINS + b"a\nb" + b'"}}\n', id="two lines"),
        pytest.param(BEGINS + "ü".encode() + b'"}}\n', id="not ASCII"),
        pytest.param(BEGINS + b"x" * MOST_PRINTED + b'"}}\n', id="too long"),
        pytest.param(NOTHING * 2, id="more than one answer"),
    ],
)
def test_what_is_no_whole_answer_is_not_printed(answer: bytes, tmp_path: Path) -> None:
    with saying(own(tmp_path), answer) as heard:
        done = ran(tmp_path)
    assert heard
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


@pytest.mark.parametrize("how", ["accepts", "does not accept", "sends a byte at a time"])
def test_a_socket_that_hangs_holds_a_prompt_up_for_no_longer_than_the_budget(how: str, tmp_path: Path) -> None:
    threads = []
    with listening(own(tmp_path)) as bound:
        if how != "does not accept":

            def serve() -> None:
                with suppress(OSError), bound.accept()[0] as connection:
                    for _ in range(50):
                        if how == "sends a byte at a time":
                            connection.sendall(b"{")
                        time.sleep(0.01)

            threads.append(threading.Thread(target=serve))
            threads[0].start()
        began = time.monotonic()
        done = ran(tmp_path)
        took = time.monotonic() - began
        for thread in threads:
            thread.join()
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert took < BUDGET + PATIENCE


def test_a_client_that_never_ends_its_input_gets_the_prompt_back_in_time(tmp_path: Path) -> None:
    command = [sys.executable, "-I", "-S", prompt_hook.__file__, str(tmp_path)]
    with answering(tmp_path, note_for_all):
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert process.stdin is not None
        assert process.stdout is not None
        began = time.monotonic()
        process.stdin.write(b'{"prompt": ')
        process.stdin.flush()
        assert process.wait(60) == 0
        assert time.monotonic() - began < BUDGET + PATIENCE
        assert process.stdout.read() == b""
        process.stdin.close()
        process.stdout.close()


@pytest.mark.parametrize("mode", [0o666, 0o620, 0o601])
def test_a_socket_that_others_may_have_put_there_is_not_asked(mode: int, tmp_path: Path) -> None:
    with saying(own(tmp_path), hook_output(NOTE), mode=mode) as heard:
        assert ran(tmp_path).stdout == b""
    assert heard == []


def test_a_link_to_a_socket_and_what_is_no_socket_are_not_asked(tmp_path: Path) -> None:
    (tmp_path / "gateway").mkdir()
    (tmp_path / "other").mkdir()
    with saying(own(tmp_path / "other"), hook_output(NOTE)) as heard:
        own(tmp_path / "gateway").symlink_to(own(tmp_path / "other"))
        own(tmp_path / "gateway", process=7).write_bytes(hook_output(NOTE))
        (tmp_path / "gateway" / f"nonsense{SUFFIX}").mkdir()
        done = ran(tmp_path / "gateway")
    assert (heard, done.returncode, done.stdout, done.stderr) == ([], 0, b"", b"")


@pytest.mark.parametrize("folder", ["", "gone"])
def test_where_no_gateway_runs_nothing_is_printed(folder: str, tmp_path: Path) -> None:
    done = ran(tmp_path / folder)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_a_prompt_of_ten_megabytes_is_read_to_its_end_and_sent_to_nobody(tmp_path: Path) -> None:
    with saying(own(tmp_path), hook_output(NOTE)) as heard:
        done = ran(tmp_path, json.dumps({"prompt": "a" * 10_000_000}).encode())
    assert (heard, done.returncode, done.stdout, done.stderr) == ([], 0, b"", b"")


def test_the_gateway_that_the_same_client_started_is_asked_then_the_projects_then_any(tmp_path: Path) -> None:
    elsewhere = tmp_path / socket_name("/elsewhere", os.getpid(), 1)
    project = own(tmp_path, parent=1, process=2)
    same = own(tmp_path, parent=os.getpid(), process=3)
    told = []
    with ExitStack() as served:
        for name, place in {"elsewhere": elsewhere, "project": project, "same": same}.items():
            served.enter_context(saying(place, hook_output(name)))
        for nearest in (same, project, elsewhere):
            told.append(json.loads(ran(tmp_path).stdout)["hookSpecificOutput"]["additionalContext"])
            nearest.rename(nearest.with_suffix(".gone"))
    assert told == ["same", "project", "elsewhere"]


def test_of_a_gateway_that_was_killed_the_next_one_takes_the_place_and_the_socket_goes(tmp_path: Path) -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    left = own(tmp_path, parent=os.getpid(), process=gone.pid)
    with listening(left):
        pass
    assert ran(tmp_path).stdout == b""
    other = own(tmp_path, parent=1, process=os.getppid())
    with saying(other, hook_output("of another gateway")), answering(tmp_path, note_for_all):
        assert not left.exists()
        assert other.exists()
        assert json.loads(ran(tmp_path).stdout)["hookSpecificOutput"]["additionalContext"] in (
            NOTE,
            "of another gateway",
        )


def test_beyond_what_is_answered_at_once_prompts_go_on_without(tmp_path: Path) -> None:
    busy = asyncio.Event()

    async def slow(asked: bytes) -> str:
        await asyncio.wait_for(busy.wait(), 30)
        return NOTE

    with answering(tmp_path, slow) as served:
        connections = []
        for _ in range(40):
            connection = socket.socket(socket.AF_UNIX)
            here = os.getcwd()
            os.chdir(tmp_path)
            connection.connect(served.path.name)
            os.chdir(here)
            connections.append(connection)
        done = ran(tmp_path)
        for connection in connections:
            connection.close()
    assert (done.returncode, done.stdout) == (0, b"")

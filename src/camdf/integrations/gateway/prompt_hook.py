"""What a client runs on each prompt: the gateway of its project is asked for a note, which is printed.

`python -I -S prompt_hook.py FOLDER`, with the hook's input on standard input and the gateway's folder as argument. A
user waits for it: it imports no part of this package and little else, and ends within its budget. Whatever goes wrong,
it prints nothing and its exit code is 0, so that the prompt goes on as it would without it.
"""

import _socket  # the module around it takes longer to import than all else here
import os
import sys
from collections.abc import Iterator
from select import select
from stat import S_ISSOCK
from time import monotonic
from zlib import crc32

BUDGET = 0.12
"""Seconds that the prompt may wait, from the first line of this program on: 0.15 with Python's own start."""

MOST_READ = 1_000_000
"""Bytes of the input: with a longer prompt nobody is asked."""

MOST_PRINTED = 70_000
"""Bytes of an answer: 10,000 characters, all of them escaped."""

BEGINS = b'{"hookSpecificOutput": {"hookEventName": "UserPromptSubmit", "additionalContext": "'
"""How an answer begins. It ends with a line, so that one that was cut off is told from a whole one."""

ENDS = b'"}}\n'
NOTHING = b"\n"
"""The answer where the prompt needs no note."""

SUFFIX = ".prompts"


def project_mark(folder: str) -> str:
    """What stands for a project in the name of a socket, which can have few letters."""
    return f"{crc32(os.fsencode(os.path.realpath(folder))):08x}"


def socket_name(folder: str, parent: int, process: int) -> str:
    """The name of a gateway's socket: its project, the process that started it, and its own."""
    return f"{project_mark(folder)}-{parent}-{process}{SUFFIX}"


def sockets_by_nearness(project: str, parent: int) -> list[str]:
    """The sockets of this folder that nobody but this user can have put there.

    First those of the project that the same client started, then the project's others, and the newest of each first.
    """
    sockets = []
    for name in os.listdir("."):
        parts = name.split("-")
        if len(parts) != 3 or not name.endswith(SUFFIX):
            continue
        file = os.lstat(name)
        if S_ISSOCK(file.st_mode) and file.st_uid == os.getuid() and not file.st_mode & 0o077:
            is_project = parts[0] == project
            sockets.append((is_project and parts[1] == str(parent), is_project, file.st_mtime_ns, name))
    return [name for *_, name in sorted(sockets, reverse=True)]


def read_input(ends: float) -> bytes:
    """The hook's input to its end, even where it is too long: a client that cannot write it might report a failure."""
    read = b""
    while select([0], [], [], max(0.0, ends - monotonic()))[0]:
        part = os.read(0, 1 << 20)
        if not part:
            return read
        if len(read) <= MOST_READ:
            read += part
    raise TimeoutError


def gateway_answer(name: str, asked: bytes, ends: float) -> bytes:
    """What the gateway of a socket answers."""
    with_gateway = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        with_gateway.settimeout(max(0.001, ends - monotonic()))
        with_gateway.connect(name)
        sent = 0
        while sent < len(asked):
            with_gateway.settimeout(max(0.001, ends - monotonic()))
            sent += with_gateway.send(asked[sent : sent + 65_536])
        with_gateway.shutdown(_socket.SHUT_WR)
        answer = b""
        while len(answer) <= MOST_PRINTED and not answer.endswith(b"\n"):
            with_gateway.settimeout(max(0.001, ends - monotonic()))
            part = with_gateway.recv(65_536)
            if not part or monotonic() > ends:
                return b""
            answer += part
        return answer
    finally:
        with_gateway.close()


def answers(folder: str, asked: bytes, ends: float) -> Iterator[bytes]:
    """What the gateways of a folder answer, the nearest first; of one that does not answer there is nothing."""
    project = project_mark(os.getcwd())
    os.chdir(folder)  # the name of a socket is bounded, and that of the folder may be longer
    for name in sockets_by_nearness(project, os.getppid()):
        if monotonic() > ends:
            return
        try:
            yield gateway_answer(name, asked, ends)
        except OSError:
            continue


def is_whole(answer: bytes) -> bool:
    """Whether an answer is one line of JSON of the shape that clients know, without any control sign."""
    is_bounded = len(answer) <= MOST_PRINTED and answer.startswith(BEGINS) and answer.endswith(ENDS)
    return is_bounded and answer.isascii() and answer[:-1].decode().isprintable()


def main(folder: str) -> None:
    """Ask, and print what came back."""
    ends = monotonic() + BUDGET
    asked = read_input(ends)
    if len(asked) > MOST_READ:
        return
    for answer in answers(folder, asked, ends):
        if answer == NOTHING:
            return
        if is_whole(answer):
            os.write(1, answer)
            return


if __name__ == "__main__":
    try:
        main(sys.argv[1])
    except BaseException:
        os._exit(0)
    os._exit(0)  # nothing is left to clean up

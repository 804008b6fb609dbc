"""Processes that are killed in the middle of what they write: at any call that changes a file, or at any byte."""

from __future__ import annotations

import os
import resource
import signal
import sys
import threading
from collections.abc import Callable
from itertools import count

CHANGES = frozenset({"open", "os.chmod", "os.link", "os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.truncate"})
"""Names of the audit events after which a disk may be another one: each is announced before it happens."""


def killed_before(step: int, work: Callable[[], object]) -> bool:
    """Do some work in a process of its own, which is killed before its step of that number that changes a file.

    False where the work ended before.
    """
    return _killed(_before(step, lambda: os.kill(os.getpid(), signal.SIGKILL)), work)


def changed_before(step: int, change: Callable[[], object], work: Callable[[], object]) -> bool:
    """The same where somebody else makes a change before that step, and the work goes on to its end."""
    changed = list[int]()

    def act() -> None:
        changed.append(step)
        change()

    def worked() -> None:
        work()
        if changed:
            os.kill(os.getpid(), signal.SIGKILL)

    return _killed(_before(step, act), worked)


def _before(step: int, act: Callable[[], object]) -> Callable[[], None]:
    steps = count()

    def watch(event: str, arguments: tuple[object, ...]) -> None:
        if event in CHANGES and next(steps) == step:
            act()

    return lambda: sys.addaudithook(watch)


def killed_at_byte(byte: int, work: Callable[[], object]) -> bool:
    """The same, killed at the byte of any file that is the first beyond so many."""

    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_FSIZE, (byte, byte))

    return _killed(limit, work)


def _killed(prepare: Callable[[], None], work: Callable[[], object]) -> bool:
    child = os.fork()
    if child == 0:
        try:
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, 1)
            os.dup2(null, 2)
            prepare()
            work()
        except BaseException:
            os._exit(1)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return True
    assert os.WEXITSTATUS(status) == 0, "the work failed by itself"
    return False


def at_every_step(work: Callable[[], object], after: Callable[[int], object]) -> int:
    """Have some work killed before each of its steps, and look each time at what is left; how many steps it has."""
    assert threading.active_count() == 1 or sys.version_info < (3, 12), "a process with threads is not forked"
    for step in count():
        was_killed = killed_before(step, work)
        after(step)
        if not was_killed:
            return step
    raise AssertionError

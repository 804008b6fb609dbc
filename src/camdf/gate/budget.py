"""Work runs on threads of its own, within a budget of seconds: a scorer that hangs costs the budget, no more."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future
from contextvars import copy_context
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Any, TypeVar

from camdf.scorers.base import Scorer
from camdf.tools import Tool

T = TypeVar("T")


class BusyError(RuntimeError):
    """As many calls as allowed are still running."""


class Workers:
    """Daemon threads, at most `limit`, so that a stuck scorer neither piles up nor holds the process open.

    A thread that is done waits for the next call: starting one costs several times as much as waking one.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._calls: SimpleQueue[tuple[Future[Any], Callable[[], Any]]] = SimpleQueue()
        self._lock = Lock()
        self._threads = self._idle = 0

    def start(self, work: Callable[[], T]) -> Future[T]:
        """Run some work; its answer, or what it raised, arrives in the future."""
        future: Future[T] = Future()
        future.set_running_or_notify_cancel()
        context = copy_context()
        with self._lock:
            if self._idle:
                self._idle -= 1
            elif self._threads < self.limit:
                self._begin()
            else:
                raise BusyError
        self._calls.put((future, lambda: context.run(work)))
        return future

    def _begin(self) -> None:
        try:
            Thread(target=self._work, name="camdf-scorer", daemon=True).start()
        except RuntimeError as error:  # the system has no thread to give
            raise BusyError from error
        self._threads += 1

    def _work(self) -> None:
        while True:
            future, call = self._calls.get()
            try:
                answer = call()
            except Exception as error:
                self._rest(future.set_exception, error)
            except BaseException as error:  # a scorer that exits ends its own call, not the harness
                self._rest(future.set_exception, RuntimeError(type(error).__name__))
            else:
                self._rest(future.set_result, answer)
            del future, call  # an idle thread keeps nobody's task

    def _rest(self, tell: Callable[[Any], None], outcome: Any) -> None:
        with self._lock:
            self._idle += 1
        tell(outcome)


def answer(scorer: Scorer, task: str, tools: Sequence[Tool]) -> Sequence[float]:
    """What a scorer says, whether it is a function or a coroutine."""
    found = scorer(task, tools)
    return asyncio.run(_awaited(found)) if inspect.isawaitable(found) else found


async def _awaited(found: Awaitable[Any]) -> Any:
    return await found

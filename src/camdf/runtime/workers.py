"""Work runs on threads of its own, within a budget of seconds: what hangs costs the budget, no more.

Coroutines of scorers run on one event loop for all gates, so that they may share a client, and are cancelled where the
budget ends. A function cannot be stopped: its thread is left alone, and counted until the function returns.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future
from contextvars import copy_context
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from typing import Any, Generic, TypeVar

from camdf.runtime.forks import Locked, renewed_in_forks

T = TypeVar("T")
Answer = TypeVar("Answer")

REST = 5.0
"""Seconds after which a thread without work ends."""


class BusyError(RuntimeError):
    """Every thread is at work that nobody waits for any more, or as much work is in line as may be."""


class Work(Generic[T]):
    """Some work under way on a thread, and the seconds that it has."""

    def __init__(self, seconds: float | None, leave: Callable[[Future[T]], None]) -> None:
        self.future: Future[T] = Future()
        self._seconds = seconds
        self._leave = leave
        self._ends = None if seconds is None else time.monotonic() + seconds
        self._awaited: Future[Any] | None = None
        self.given_up = False
        """Whether nobody waits for it any more."""

    @classmethod
    def here(cls) -> Work[T]:
        """Work on the calling thread, which takes what time it takes."""
        return cls(None, lambda future: None)

    def wait(self) -> T:
        """What the work returns, or a TimeoutError."""
        try:
            return self.future.result(self._seconds)
        except BaseException:
            self.leave()
            raise

    async def wait_async(self) -> T:
        """`wait`, for an event loop."""
        try:
            async with asyncio.timeout(self._seconds):  # wait_for, in Python 3.11, may swallow a cancellation
                return await asyncio.wrap_future(self.future)
        except BaseException:
            self.leave()
            raise

    def leave(self) -> None:
        """Nobody waits any more: what has not begun never will, and a coroutine is cancelled."""
        self.given_up = True
        if self._awaited is not None:
            self._awaited.cancel()
        self._leave(self.future)

    def awaited(self, answer: Awaitable[Answer]) -> Answer:
        """What a coroutine gives; called from the work itself."""
        self._awaited = LOOP.start(_as_coroutine(answer))
        try:
            waited: Answer = self._awaited.result(self._seconds_left())
            return waited
        except BaseException:
            self._awaited.cancel()
            raise

    def _seconds_left(self) -> float | None:
        if self.given_up:
            return 0.0
        if self._ends is None:
            return None
        return max(self._ends - time.monotonic(), 0.0)


class Workers:
    """Daemon threads, at most `limit`: a stuck scorer neither piles up nor holds the process open.

    Work that finds no thread free waits in line, where at most `waiting` pieces may be; None sets no bound. Work whose
    caller has given up counts as stuck until it returns. Where all threads are stuck, more work is refused at once.
    """

    def __init__(self, limit: int, waiting: int | None = None) -> None:
        self.limit = limit
        self.waiting = waiting
        self.renew()
        renewed_in_forks(self)

    def renew(self) -> None:
        """Begin without threads."""
        self._calls: SimpleQueue[tuple[Future[Any], Callable[[], Any]]] = SimpleQueue()
        self._lock = Lock()
        self._threads = self._idle = self._in_line = 0
        self._at_work: dict[Future[Any], bool] = {}  # and whether its caller has given up

    def start(self, work: Callable[[Work[T]], T], seconds: float | None = None) -> Work[T]:
        """Run some work on a thread, in the context of the caller."""
        begun: Work[T] = Work(seconds, self._leave)
        context = copy_context()
        with self._lock:
            if self._idle:
                self._idle -= 1
            elif self._threads < self.limit:
                self._begin_thread()
            elif self._in_line == self.waiting or sum(self._at_work.values()) >= self._threads:
                raise BusyError
            else:
                self._in_line += 1
        self._calls.put((begun.future, lambda: context.run(work, begun)))
        return begun

    def _begin_thread(self) -> None:
        try:
            Thread(target=self._work_on_calls, name="camdf-worker", daemon=True).start()
        except RuntimeError as error:  # the system has no thread to give
            raise BusyError from error
        self._threads += 1

    def _leave(self, future: Future[Any]) -> None:
        if not future.cancel():
            with self._lock:
                if future in self._at_work:
                    self._at_work[future] = True

    def _work_on_calls(self) -> None:
        while (queued := self._next_call()) is not None:
            future, call = queued
            if not self._takes_up(future):
                continue
            try:
                answer = call()
            except Exception as error:
                self._finish(future, future.set_exception, error)
            except BaseException as error:  # a scorer that exits ends its own call, not the harness
                self._finish(future, future.set_exception, RuntimeError(type(error).__name__))
            else:
                self._finish(future, future.set_result, answer)
                del answer
            del queued, future, call  # an idle thread keeps nobody's task

    def _next_call(self) -> tuple[Future[Any], Callable[[], Any]] | None:
        """The next call; None where there was none for so long that the thread may end."""
        calls = self._calls
        try:
            return calls.get(timeout=REST)
        except Empty:
            with self._lock:
                if self._idle:
                    self._idle -= 1
                    self._threads -= 1
                    return None
            return calls.get()  # it is on its way

    def _takes_up(self, future: Future[Any]) -> bool:
        with self._lock:
            if future.set_running_or_notify_cancel():
                self._at_work[future] = False
                return True
            self._is_free()
            return False

    def _finish(self, future: Future[Any], tell: Callable[[Any], None], outcome: Any) -> None:
        with self._lock:
            self._at_work.pop(future, None)
            self._is_free()
        tell(outcome)

    def _is_free(self) -> None:
        if self._in_line:
            self._in_line -= 1
        else:
            self._idle += 1


class Loop(Locked):
    """An event loop on a thread of its own, begun when the first coroutine comes."""

    def renew(self) -> None:
        """Begin without a thread."""
        super().renew()
        self._loop: asyncio.AbstractEventLoop | None = None

    def start(self, coroutine: Coroutine[Any, Any, T]) -> Future[T]:
        """Run a coroutine; what it returns arrives in the future, and cancelling the future cancels it."""
        with self._lock:
            if self._loop is None:
                loop = asyncio.new_event_loop()
                Thread(target=loop.run_forever, name="camdf-loop", daemon=True).start()  # may raise: then none is kept
                self._loop = loop
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)


LOOP = Loop()


async def _as_coroutine(answer: Awaitable[T]) -> T:
    return await answer

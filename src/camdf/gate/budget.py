"""A scorer gets so many seconds, on a thread of its own: one that hangs costs the budget and nothing else."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Sequence
from concurrent.futures import Future
from contextvars import copy_context
from threading import BoundedSemaphore, Thread
from typing import Any

from camdf.scorers.base import Scorer
from camdf.tools import Tool


class BusyError(RuntimeError):
    """As many scorer calls as allowed are still running."""


class Workers:
    """Daemon threads, at most `limit` at once, so that a stuck scorer neither piles up nor holds the process open."""

    def __init__(self, limit: int) -> None:
        self._free = BoundedSemaphore(limit)

    def start(self, scorer: Scorer, task: str, tools: Sequence[Tool]) -> Future[Sequence[float]]:
        """Run the scorer; its answer, or what it raised, arrives in the future."""
        if not self._free.acquire(blocking=False):
            raise BusyError
        future: Future[Sequence[float]] = Future()
        future.set_running_or_notify_cancel()
        context = copy_context()

        def work() -> None:
            try:
                future.set_result(context.run(_answer, scorer, task, tools))
            except Exception as error:
                future.set_exception(error)
            except BaseException as error:  # a scorer that exits ends its own thread, not the harness
                future.set_exception(RuntimeError(type(error).__name__))
            finally:
                self._free.release()

        try:
            Thread(target=work, name="camdf-scorer", daemon=True).start()
        except RuntimeError as error:  # the system has no thread to give
            self._free.release()
            raise BusyError from error
        return future


def _answer(scorer: Scorer, task: str, tools: Sequence[Tool]) -> Sequence[float]:
    found = scorer(task, tools)
    return asyncio.run(_awaited(found)) if inspect.isawaitable(found) else found


async def _awaited(found: Awaitable[Any]) -> Any:
    return await found

"""A memory that many workers share through a store, which may be slow, wrong or gone at any moment.

What the store says is merged into what this process remembers, in the store's order, so that all workers agree on it.
Where it has no answer in time, this process goes on with what it has. Writing is left to threads, and nobody waits.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from camdf.gate.breaker import Breaker, RestingError
from camdf.gate.budget import BusyError, Workers
from camdf.gate.memory import MOST, Identity, Memory, Remembered

PATIENCE = 0.25
"""Seconds that a decision waits for a store at most; half of what it has left, if that is less."""

TOGETHER, IN_LINE = 8, 1000
"""How many conversations are read and written at a time, and how many may wait to be written; more are not."""


class ConversationStore(Protocol):
    """Where conversations are remembered outside of this process. It may raise, and it may hang."""

    def recall(self, conversation: str) -> Remembered | None:
        """What the conversation has, in the order in which it got it; None where it is not known."""
        ...

    def add(self, conversation: str, kept: Sequence[Identity], explored: bool) -> None:
        """Append what it does not have yet, in one step, whoever else does the same; mark it if it explores."""
        ...


class SharedMemory(Memory):
    """The conversations of a store, and in this process the last `size` of them for when it does not answer."""

    def __init__(self, store: ConversationStore, size: int) -> None:
        self.store, self.breaker = store, Breaker(failures=3, seconds=1.0)
        self.failures = 0
        """How often the store was not read or not written."""

        self._askers, self._writers = Workers(TOGETHER), Workers(TOGETHER, IN_LINE)
        super().__init__(size)

    def recall(self, conversation: str | None, within: float | None = None) -> Remembered | None:
        """What the store says, and after it what only this process knows; of the store, in time or not at all."""
        if conversation is None:
            return None
        here, name = super().recall(conversation), conversation
        try:
            self.breaker.check()
            seconds = PATIENCE if within is None else min(PATIENCE, within / 2)
            found = _checked(self._askers.start(lambda work: self.store.recall(name), seconds).wait())
            self.breaker.succeeded()
        except Exception as error:
            self._note(error)
            return here
        if found is None:
            return here
        with self._lock:
            here = self._kept.get(conversation, Remembered((), False))
            return self._put(conversation, Remembered((*found.kept, *here.kept), found.explored or here.explored))

    def widen(self, conversation: str | None, kept: Iterable[Identity], explored: bool) -> tuple[Identity, ...]:
        """Add tools here at once, and have all that the conversation has now written to the store."""
        now = super().widen(conversation, kept, explored)
        if conversation is not None:
            name = conversation
            try:
                self.breaker.check()
                self._writers.start(lambda work: self._write(name, now, explored))
            except Exception as error:
                self._note(error)
        return now

    def _write(self, conversation: str, kept: tuple[Identity, ...], explored: bool) -> None:
        try:
            self.store.add(conversation, kept, explored)
            self.breaker.succeeded()
        except BaseException as error:
            self._note(error)

    def _note(self, error: BaseException) -> None:
        """A store that is not asked, or for which no thread is free, has not failed once more."""
        with self._lock:
            self.failures += 1
        if not isinstance(error, (RestingError, BusyError)):
            self.breaker.failed()


def _checked(found: Any) -> Remembered | None:
    """What a store says, if it can be."""
    if found is None:
        return None
    kept, explored = found
    known = tuple((server, name, which) for server, name, which in tuple(kept)[-MOST:])
    if not all(type(server) is type(name) is str and type(which) is int for server, name, which in known):
        raise TypeError("A store remembers tools by server, name and number.")
    return Remembered(known, bool(explored))

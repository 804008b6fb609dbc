"""What each conversation was given, so that later turns only widen it: a changing tool list breaks a cached prompt."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from threading import Lock
from typing import NamedTuple


class Given(NamedTuple):
    """The tools a conversation has, in the order it got them, and the question that was decided last."""

    kept: tuple[str, ...]
    question: int
    explored: bool


class Memory:
    """The last conversations, as many as `size`; the least recently seen is forgotten first."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._given: OrderedDict[str, Given] = OrderedDict()
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._given)

    def recall(self, conversation: str | None) -> Given | None:
        """What the conversation has, if it is remembered."""
        if conversation is None:
            return None
        with self._lock:
            if conversation in self._given:
                self._given.move_to_end(conversation)
            return self._given.get(conversation)

    def widen(self, conversation: str | None, kept: Iterable[str], question: int, explored: bool) -> tuple[str, ...]:
        """Add tools to what the conversation has, at the end, and return all it has now."""
        if conversation is None:
            return tuple(kept)
        with self._lock:
            before = self._given.pop(conversation, Given((), 0, False))
            now = tuple(dict.fromkeys((*before.kept, *kept)))
            self._given[conversation] = Given(now, question, explored or before.explored)
            while len(self._given) > self.size:
                self._given.popitem(last=False)
            return now

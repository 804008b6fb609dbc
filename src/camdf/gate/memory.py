"""The tools of conversations whose history a gate is not shown, so that their later turns only widen them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from threading import Lock
from typing import NamedTuple


class Remembered(NamedTuple):
    """The tools a conversation has, in the order it got them, and whether it explores."""

    kept: tuple[str, ...]
    explored: bool


class Memory:
    """The last conversations, as many as `size`; the least recently seen is forgotten first."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._kept: OrderedDict[str, Remembered] = OrderedDict()
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._kept)

    def recall(self, conversation: str | None) -> Remembered | None:
        """What the conversation has, if it is remembered."""
        if conversation is None:
            return None
        with self._lock:
            if conversation in self._kept:
                self._kept.move_to_end(conversation)
            return self._kept.get(conversation)

    def widen(self, conversation: str | None, kept: Iterable[str], explored: bool) -> tuple[str, ...]:
        """Add tools to what the conversation has, at the end, and return all it has now."""
        if conversation is None:
            return tuple(kept)
        with self._lock:
            before = self._kept.pop(conversation, Remembered((), False))
            now = tuple(dict.fromkeys((*before.kept, *kept)))
            self._kept[conversation] = Remembered(now, explored or before.explored)
            while len(self._kept) > self.size:
                self._kept.popitem(last=False)
            return now

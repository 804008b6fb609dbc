"""The tools of conversations whose history a gate is not shown, so that their later turns only widen them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from threading import Lock
from typing import NamedTuple, TypeAlias

from camdf.gate.forks import renewed_in_forks

Identity: TypeAlias = tuple[str, str, int]
"""What a tool is in every request: its server, its name, and which of several that have both."""

MOST = 10_000
"""How many tools of one conversation are remembered: those that it got last."""


class Remembered(NamedTuple):
    """The tools a conversation has, in the order it got them, and whether it explores."""

    kept: tuple[Identity, ...]
    explored: bool


class Memory:
    """The last conversations, as many as `size`; the least recently seen is forgotten first."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._kept: OrderedDict[str, Remembered] = OrderedDict()
        self.renew()
        renewed_in_forks(self)

    def renew(self) -> None:
        """A lock of its own, in a process of its own."""
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._kept)

    def recall(self, conversation: str | None, within: float | None = None) -> Remembered | None:
        """What the conversation has, if it is remembered; `within` so many seconds, where others have to be asked."""
        if conversation is None:
            return None
        with self._lock:
            if conversation in self._kept:
                self._kept.move_to_end(conversation)
            return self._kept.get(conversation)

    def widen(self, conversation: str | None, kept: Iterable[Identity], explored: bool) -> tuple[Identity, ...]:
        """Add tools to what the conversation has, at the end, and return all it has now."""
        if conversation is None:
            return tuple(kept)
        with self._lock:
            before = self._kept.get(conversation, Remembered((), False))
            return self._put(conversation, Remembered((*before.kept, *kept), explored or before.explored)).kept

    def _put(self, conversation: str, all_of_it: Remembered) -> Remembered:
        """Remember this and no more of a conversation, each tool once; the lock is held."""
        now = Remembered(tuple(dict.fromkeys(all_of_it.kept))[-MOST:], all_of_it.explored)
        self._kept[conversation] = now
        self._kept.move_to_end(conversation)
        while len(self._kept) > self.size:
            self._kept.popitem(last=False)
        return now

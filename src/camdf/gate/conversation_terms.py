"""A conversation ends as it began: under one policy and in one mode, whatever an operator changes in the meantime.

It is known by its name or, where it has none, by the user's turns so far. One that is not known begins.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from threading import Lock
from typing import NamedTuple

from camdf.gate.decision import Mode
from camdf.gate.forks import renewed_in_forks
from camdf.gate.judge import Judge


class Terms(NamedTuple):
    """Who decides on a conversation, and what becomes of the tools that are cut."""

    judge: Judge
    mode: Mode


class Begun:
    """The judge of conversations that begin, and the terms of those that began before: of the last `size` decisions."""

    def __init__(self, judge: Judge, size: int) -> None:
        self.judge, self.size = judge, size
        self._terms: OrderedDict[int, Terms] = OrderedDict()
        self.renew()
        renewed_in_forks(self)

    def renew(self) -> None:
        """A lock of its own, in a process of its own."""
        self._lock = Lock()

    def recall(self, keys: Iterable[int]) -> Terms | None:
        """The terms of the first of these keys that is known."""
        with self._lock:
            for key in keys:
                if key in self._terms:
                    self._terms.move_to_end(key)
                    return self._terms[key]
        return None

    def keep(self, key: int | None, terms: Terms) -> None:
        """Something was decided under these terms."""
        if key is None:
            return
        with self._lock:
            self._terms[key] = terms
            self._terms.move_to_end(key)
            while len(self._terms) > self.size:
                self._terms.popitem(last=False)

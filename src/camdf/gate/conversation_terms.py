"""A conversation ends as it began: under one policy and in one mode, whatever an operator changes in the meantime.

It is known by its name. One without a name shares nothing with others that begin alike, so nobody knows under which
policy it began: for an hour after a policy was replaced, it also has what that one would have given it, so that no list
narrows in the middle.
"""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock
from time import monotonic
from typing import NamedTuple

from camdf.gate.decision import Mode
from camdf.gate.forks import renewed_in_forks
from camdf.gate.judge import Judge

REPLACED, SECONDS = 16, 3600.0
"""How many policies that were replaced are kept for conversations whose beginning is not known, and for how long."""


class Terms(NamedTuple):
    """Who decides on a conversation, and what becomes of the tools that are cut."""

    judge: Judge
    mode: Mode
    earlier: tuple[Judge, ...] = ()
    """Judges who may have decided on it before, the oldest first."""

    @property
    def judges(self) -> tuple[Judge, ...]:
        """All who have a say."""
        return (*self.earlier, self.judge)


class ConversationTerms:
    """The judge of conversations that begin, those before it, and the terms of the last `size` named conversations."""

    def __init__(self, judge: Judge, size: int) -> None:
        self.judge, self.size = judge, size
        self._replaced: tuple[tuple[Judge, float], ...] = ()
        self._terms: OrderedDict[str, Terms] = OrderedDict()
        self.renew()
        renewed_in_forks(self)

    def renew(self) -> None:
        """A lock of its own, in a process of its own."""
        self._lock = Lock()

    def replace(self, judge: Judge) -> None:
        """Another judge decides on conversations that begin from now on."""
        self._replaced = (*self._replaced, (self.judge, monotonic()))[-REPLACED:]
        self.judge = judge

    def earlier(self) -> tuple[Judge, ...]:
        """The judges who may have decided on a conversation that is under way, the oldest first, each once."""
        late = [judge for judge, when in self._replaced if monotonic() - when < SECONDS]
        return tuple({judge.digest or id(judge): judge for judge in late if judge.digest != self.judge.digest}.values())

    def recall(self, name: str | None) -> Terms | None:
        """The terms of a conversation that began before."""
        with self._lock:
            terms = None if name is None else self._terms.get(name)
            if name is not None and terms is not None:
                self._terms.move_to_end(name)
            return terms

    def keep(self, name: str | None, terms: Terms) -> None:
        """Something was decided under these terms."""
        if name is None:
            return
        with self._lock:
            self._terms[name] = terms
            self._terms.move_to_end(name)
            while len(self._terms) > self.size:
                self._terms.popitem(last=False)

"""A conversation ends as it began: under one policy and in one mode, whatever an operator changes in the meantime.

It is known by its name. One without a name shares nothing with others that begin alike, so nobody knows under which
policy it began: for an hour after a policy was replaced, it also has what that one would have given it, so that no list
narrows in the middle.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256
from os import urandom
from time import monotonic
from typing import NamedTuple

from camdf.gate.lists import Mode
from camdf.gate.memory import Latest
from camdf.gate.scoring import Judge
from camdf.gate.settings import Dealt
from camdf.policies.rules import AcquireAll

REPLACED = 16
"""How many policies that were replaced are kept for conversations whose beginning is not known."""

SECONDS = 3600.0
"""For how long they are kept."""

LONGEST_NAME = 200
"""Longer names of conversations are remembered by their digest."""


class Terms(NamedTuple):
    """Who decides on a conversation, and what becomes of the tools that are cut."""

    judges: tuple[Judge, ...]
    """The last one decides; those before it may have decided on the conversation earlier, the oldest first."""

    mode: Mode

    @property
    def load_all(self) -> bool:
        """Whether every tool is given at once, so that none can join."""
        return isinstance(self.judges[-1].policy, AcquireAll)


class ConversationTerms(Latest[Terms]):
    """The judge of conversations that begin, those before it, and the terms of the last `size` named conversations."""

    def __init__(self, judge: Judge, size: int) -> None:
        self.judge = judge
        self._replaced: tuple[tuple[Judge, float], ...] = ()
        super().__init__(size)

    def terms_for(self, conversation: str | None, dealt: Dealt, mode: Mode, *, is_under_way: bool) -> Terms:
        """Who decides: whoever began the conversation, where that is known, else those of today."""
        began = None if conversation is None else self.recall(conversation)
        if dealt.off:
            judges = began.judges[-1:] if began else (self.judge,)
            terms = Terms(judges, "shadow")
            if conversation is not None:  # for good: switched on again, it would narrow what it saw
                self.keep(conversation, terms)
            return terms
        if began is not None:
            return began
        if not dealt.cuts:
            mode = "shadow"
        if is_under_way:
            return Terms((*self.earlier(), self.judge), mode)
        return Terms((self.judge,), mode)

    def replace(self, judge: Judge) -> None:
        """Another judge decides on conversations that begin from now on."""
        self._replaced = (*self._replaced, (self.judge, monotonic()))[-REPLACED:]
        self.judge = judge

    def earlier(self) -> tuple[Judge, ...]:
        """The judges who may have decided on a conversation that is under way, the oldest first, each once."""
        late = [judge for judge, when in self._replaced if monotonic() - when < SECONDS]
        return tuple({judge.digest or id(judge): judge for judge in late if judge.digest != self.judge.digest}.values())

    def keep(self, conversation: str, terms: Terms) -> None:
        """Something was decided under these terms."""
        with self._lock:
            self._remember(conversation, terms)


def conversation_named(given: object) -> str:
    """The name of a conversation: as it was given, or made up where it is empty, which asks for one."""
    return readable(given) or urandom(16).hex()


def remembered_by(name: str, tenant: str) -> str:
    """What a conversation is remembered by: no tenant's is another's, whatever they are called."""
    if not tenant and len(name) <= LONGEST_NAME:
        return name
    if tenant:
        name = f"{len(tenant)} {tenant}{name}"
    return sha256(name.encode(errors="surrogatepass")).hexdigest()


def readable(text: object) -> str:
    """Any object as text, "" where it has none."""
    if text is None:
        return ""
    try:
        return str(text).strip()
    except Exception:
        return ""


def names_in(given: Iterable[str]) -> frozenset[str]:
    """The names in what a harness hands over, which may be one of them, or anything."""
    try:
        names = (given,) if isinstance(given, str) else given
        return frozenset(str.__str__(name) for name in names if isinstance(name, str))
    except Exception:
        return frozenset()

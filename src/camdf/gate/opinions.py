"""What scorer and policy make of each turn, asked once: scores and rankings are kept."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from contextlib import suppress
from threading import Lock
from typing import Any, NamedTuple

from camdf.errors import UsageError
from camdf.gate.budget import Work
from camdf.gate.decision import Ranked
from camdf.gate.forks import renewed_in_forks
from camdf.gate.judge import Judge
from camdf.gate.request import Request
from camdf.scorers.base import Scorer, checked, says_nothing, vector_of

KEPT = 200_000
"""How many scores are kept, those of 40 tools for 5,000 turns: a history is scored once, not at every model call."""

JUDGES = 4
"""Of how many judges the rankings of one turn are kept: those who said theirs last."""


class RefusedError(Exception):
    """A scorer's answer is not one finite score for every tool."""


class Said(NamedTuple):
    """What a scorer said of a turn: a score for every tool, and the direction of its text where the policy reads it."""

    scores: tuple[float, ...]
    vector: bytes = b""


class Opinions:
    """A scorer, what it said of the turns of late, and what judges made of that."""

    def __init__(self, scorer: Scorer | None) -> None:
        self.scorer = scorer
        self._said: OrderedDict[tuple[str, int], Said] = OrderedDict()
        self._rankings: dict[tuple[str, int], dict[Judge, tuple[Ranked, ...]]] = {}
        self._held = 0
        self.renew()
        renewed_in_forks(self)

    def renew(self) -> None:
        """A lock of its own, in a process of its own."""
        self._lock = Lock()

    def missing(self, request: Request, judge: Judge) -> list[str]:
        """The turns that have no scores yet, each once, the oldest first: those that the decision needs."""
        found: list[str] = []
        for subject in dict.fromkeys(turn.subject for turn in request.turns if request.asks(turn)):
            if not self.scored(request, subject):
                found.append(subject)
            elif request.door and not found and any(each.kept for each in self.ranking(request, subject, judge)):
                break  # with a door, the first turn with signal decides
        return found if request.costs else []

    def score(self, request: Request, judge: Judge, subjects: Sequence[str], work: Work[Any]) -> frozenset[str]:
        """Score turns, the oldest first; what is finished after the budget is kept all the same.

        The answer names the turns on which the scorer raised twice while it answered on others: they say nothing.
        """
        if not subjects:  # another decision has had them scored in the meantime
            return frozenset()
        if self.scorer is None:
            raise UsageError("This gate has no scorer. Give it one, or pass scores= with every task.")
        scorer, tools = self.scorer, [request.tools[key] for key in request.costs]

        def attempt(subject: str) -> Exception | None:
            try:
                scores = work.answer(scorer, subject, tools)
                self.take(request, subject, scores, vector_of(scorer, subject) if judge.policy.reads_texts else b"")
            except Exception as error:
                return error
            with suppress(Exception):  # a policy that breaks says so when it decides
                self.ranking(request, subject, judge)
            return None

        failed = {subject: error for subject in subjects if (error := attempt(subject))}
        if not any(self.scored(request, turn.subject) for turn in request.turns):
            raise failed[subjects[-1]]
        return frozenset(subject for subject in failed if attempt(subject))

    def take(self, request: Request, subject: str, scores: object, vector: bytes = b"", *, own: bool = False) -> None:
        """Keep the scores of a turn, if they are sound: the scorer's for all tenants, a harness's `own` for its own."""
        try:
            sound = tuple(checked(scores, [request.tools[key] for key in request.costs]).tolist())
        except Exception as error:
            raise RefusedError(type(error).__name__) from None
        key = (subject, request.own_catalogue if own else request.catalogue)
        with self._lock:
            self._held += len(sound) - len(self._said.pop(key, Said(())).scores)
            self._said[key] = Said(sound, vector)
            self._rankings.pop(key, None)
            while self._held > KEPT and len(self._said) > 1:
                oldest, dropped = self._said.popitem(last=False)
                self._rankings.pop(oldest, None)
                self._held -= len(dropped.scores)

    def scored(self, request: Request, subject: str, *, ranked_by: Judge | None = None) -> bool:
        """Whether the scores of a turn are at hand; with `ranked_by`, whether that judge has spoken too."""
        key = self._key(request, subject)
        return key in self._said if ranked_by is None else ranked_by in self._rankings.get(key, ())

    def ranking(self, request: Request, subject: str, judge: Judge) -> tuple[Ranked, ...]:
        """The candidates of a scored turn in rank order, `kept` where this turn alone makes them worth their cost."""
        key = self._key(request, subject)
        with self._lock:
            known, said = self._rankings.get(key, {}).get(judge), self._said[key]
            self._said.move_to_end(key)
        if known is None:
            known = judge.ranked(dict(zip(request.costs, said.scores, strict=True)), request.costs, said.vector)
            with self._lock:
                if key in self._said:
                    by_judge = self._rankings.setdefault(key, {})
                    by_judge[judge] = known
                    while len(by_judge) > JUDGES:
                        del by_judge[next(iter(by_judge))]
        return known

    def vector(self, request: Request, subject: str) -> bytes:
        """The direction of a scored turn's text, where it is kept."""
        said = self._said.get(self._key(request, subject))
        return said.vector if said else b""

    def _key(self, request: Request, subject: str) -> tuple[str, int]:
        """Where the scores of a turn are, if they are: a harness's own come first."""
        own = subject, request.own_catalogue
        return own if own in self._said else (subject, request.catalogue)

    def of_late(self, judge: Judge) -> list[tuple[tuple[Ranked, ...], bytes]]:
        """What a judge said of the turns that are still kept, with the direction of each one's text, where it is known.

        Turns whose scores prefer no tool are left out.
        """
        with self._lock:
            known = [(each[judge], self._said[key].vector) for key, each in self._rankings.items() if judge in each]
        return [each for each in known if not says_nothing([one.score for one in each[0]])]

"""What scorer and policy make of each turn, asked once: scores and rankings are kept."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from contextlib import suppress
from threading import Lock
from typing import Any

from camdf.errors import UsageError
from camdf.gate.budget import Work
from camdf.gate.decision import Ranked
from camdf.gate.forks import renewed_in_forks
from camdf.gate.judge import Judge, Said
from camdf.gate.request import Request
from camdf.scorers.base import Scorer, checked, says_nothing, vector_of

KEPT = 200_000
"""How many scores are kept, those of 40 tools for 5,000 turns: a history is scored once, not at every model call."""

JUDGES = 4
"""Of how many judges the rankings of one turn are kept: those who said theirs last."""


class RefusedScoresError(Exception):
    """A scorer's answer is not one finite score for every tool."""


class TurnScores:
    """A scorer, what it said of the turns of late, and what judges made of that.

    What is kept here spares work, and no more: a call holds the scores that it decides on (`Request.said`).
    """

    def __init__(self, scorer: Scorer | None) -> None:
        self.scorer = scorer
        self._said: OrderedDict[tuple[str, int], Said] = OrderedDict()
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
            elif request.door and not found and self._settles(request, subject, judge):
                break
        return found if request.costs else []

    def _settles(self, request: Request, subject: str, judge: Judge) -> bool:
        """Whether a turn decides for good where there is a door: the first with signal does."""
        with suppress(Exception):  # a policy that breaks says so when it decides
            return any(each.kept for each in self.ranking(request, subject, judge))
        return False

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
        """Take the scores of a turn, if they are sound: the scorer's for all tenants, a harness's `own` for its own."""
        try:
            sound = tuple(checked(scores, [request.tools[key] for key in request.costs]).tolist())
        except Exception as error:
            raise RefusedScoresError(type(error).__name__) from None
        key = (subject, request.own_catalogue if own else request.catalogue)
        said = request.said[subject] = Said(sound, vector)
        with self._lock:
            self._held += len(sound) - len(self._said.pop(key, Said(())).scores)
            self._said[key] = said
            while self._held > KEPT and len(self._said) > 1:
                self._held -= len(self._said.popitem(last=False)[1].scores)

    def scored(self, request: Request, subject: str, *, ranked_by: Judge | None = None) -> bool:
        """Whether the scores of a turn are at hand; with `ranked_by`, whether that judge has spoken too."""
        said = self._said_of(request, subject)
        return said is not None and (ranked_by is None or ranked_by in said.rankings)

    def ranking(self, request: Request, subject: str, judge: Judge) -> tuple[Ranked, ...]:
        """The candidates of a scored turn in rank order, `kept` where this turn alone makes them worth their cost."""
        if not request.costs:
            return ()
        said = self._said_of(request, subject)
        assert said is not None, "a turn is ranked once it is scored"
        known = said.rankings.get(judge)
        if known is None:
            known = judge.ranked(dict(zip(request.costs, said.scores, strict=True)), request.costs, said.vector)
            with self._lock:
                said.rankings[judge] = known
                while len(said.rankings) > JUDGES:
                    del said.rankings[next(iter(said.rankings))]
        return known

    def vector(self, request: Request, subject: str) -> bytes:
        """The direction of a scored turn's text, where it is known."""
        said = self._said_of(request, subject)
        return said.vector if said else b""

    def _said_of(self, request: Request, subject: str) -> Said | None:
        """The scores of a turn, if they are at hand. In a conversation, those that a harness once gave come first."""
        if (said := request.said.get(subject)) is not None:
            return said
        given = (subject, request.own_catalogue)
        with self._lock:
            key = given if request.key is not None and given in self._said else (subject, request.catalogue)
            if (said := self._said.get(key)) is not None:
                self._said.move_to_end(key)
                request.said[subject] = said
        return said

    def of_late(self, judge: Judge) -> list[tuple[tuple[Ranked, ...], bytes]]:
        """What a judge said of the turns that are still kept, with the direction of each one's text, where it is known.

        Turns whose scores prefer no tool are left out.
        """
        with self._lock:
            known = [(each.rankings[judge], each.vector) for each in self._said.values() if judge in each.rankings]
        return [each for each in known if not says_nothing([one.score for one in each[0]])]

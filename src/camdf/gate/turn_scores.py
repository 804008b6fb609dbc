"""What scorer and policy make of each turn, asked once: scores and rankings are kept."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any

from camdf.errors import UsageError
from camdf.gate.judge import Judge, ScoredTurn
from camdf.gate.ranking import Ranked
from camdf.gate.request import Request
from camdf.runtime.forks import Locked
from camdf.runtime.workers import Work
from camdf.scorers.base import Scorer, checked, vector_of

KEPT = 200_000
"""How many scores are kept, those of 40 tools for 5,000 turns: a history is scored once, not at every model call."""

JUDGES = 20
"""The rankings of one turn are kept for so many judges, the latest."""

UNKNOWN = ScoredTurn(())
"""Stands for scores that conversations without a name disagree about."""


class RefusedScoresError(Exception):
    """A scorer's answer is not one finite score for every tool."""


class TurnScores(Locked):
    """A scorer, what it said of the turns of late, and what judges made of that.

    What is kept here spares work, and no more: a call holds the scores that it decides on (`Request.scored_turns`).
    """

    def __init__(self, scorer: Scorer | None) -> None:
        self.scorer = scorer
        self._turns: OrderedDict[tuple[str, int | None], ScoredTurn] = OrderedDict()
        self._held = 0
        super().__init__()

    def missing(self, request: Request, judges: Sequence[Judge]) -> list[str]:
        """The turns that have no scores yet, each once, the oldest first: those that the decision needs."""
        unscored: list[str] = []
        for subject in dict.fromkeys(turn.subject for turn in request.turns if turn.subject and not turn.greets):
            turn = self._scored_turn(request, subject)
            if turn is None:
                unscored.append(subject)
            elif request.settled and not unscored and all(self._settles(request, turn, judge) for judge in judges):
                break
        return unscored if request.costs else []

    def _settles(self, request: Request, turn: ScoredTurn, judge: Judge) -> bool:
        """Whether a turn decides for good where there is a tool search: the first with signal does."""
        with suppress(Exception):  # a policy that breaks says so when it decides
            return any(tool.kept for tool in deciding(self._ranking(request, turn, judge)))
        return False

    def score(
        self, request: Request, judges: Sequence[Judge], subjects: Sequence[str], work: Work[Any]
    ) -> frozenset[str]:
        """Score turns, the oldest first; what is finished after the budget is kept all the same.

        The answer names the turns on which the scorer raised twice while it answered on others: they say nothing.
        """
        if not subjects:  # another decision has had them scored in the meantime
            return frozenset()
        if self.scorer is None:
            raise UsageError("This gate has no scorer. Give it one, or pass scores= with every task.")
        scorer, tools = self.scorer, [request.tools[key] for key in request.costs]
        reads_texts = any(judge.policy.reads_texts for judge in judges)

        def attempt(subject: str) -> Exception | None:
            try:
                scores = work.answer(scorer, subject, tools)
                turn = self.take(request, subject, scores, vector_of(scorer, subject) if reads_texts else b"")
            except Exception as error:
                return error
            with suppress(Exception):  # a policy that breaks says so when it decides
                for judge in judges:
                    self._ranking(request, turn, judge)
            return None

        failed = {subject: error for subject in subjects if (error := attempt(subject))}
        if failed and not any(self._scored_turn(request, turn.subject) for turn in request.turns):
            raise failed[subjects[-1]]
        return frozenset(subject for subject in failed if attempt(subject))

    def take(
        self, request: Request, subject: str, scores: object, vector: bytes = b"", *, own: bool = False
    ) -> ScoredTurn:
        """Take the scores of a turn, if they are sound: the scorer's for all tenants, a harness's `own` for its own.

        Where two conversations without a name bring different scores for one text, nobody knows whose a later turn
        means, and neither are known from then on.
        """
        try:
            sound = tuple(checked(scores, [request.tools[key] for key in request.costs]).tolist())
        except Exception as error:
            raise RefusedScoresError(type(error).__name__) from None
        turn = kept = request.scored_turns[subject] = ScoredTurn(sound, vector)
        catalogue = request.own_catalogue if own else request.catalogue
        if catalogue is None:  # one text and no more: nobody will ask again
            return turn
        key = (subject, catalogue)
        with self._lock:
            before = self._turns.pop(key, ScoredTurn(()))
            if own and request.conversation is None and (before is UNKNOWN or before.scores not in ((), sound)):
                kept = UNKNOWN
            self._held += len(kept.scores) - len(before.scores)
            self._turns[key] = kept
            while self._held > KEPT and len(self._turns) > 1:
                self._held -= len(self._turns.popitem(last=False)[1].scores)
        return turn

    def ranked(
        self, request: Request, subject: str, judge: Judge, *, late: bool = False
    ) -> tuple[tuple[Ranked, ...], bytes] | None:
        """The candidates of a turn in rank order, and the direction of its text, where it is known.

        They are `kept` where this turn alone makes them worth their cost. None where the turn has no scores yet or,
        where time is up, `late`, the judge has not spoken.
        """
        if not request.costs:
            return (), b""
        turn = self._scored_turn(request, subject)
        if turn is None or (late and judge not in turn.rankings):
            return None
        return self._ranking(request, turn, judge), turn.vector

    def _ranking(self, request: Request, turn: ScoredTurn, judge: Judge) -> tuple[Ranked, ...]:
        known = turn.rankings.get(judge)
        if known is None:
            known = _ranked(judge, dict(zip(request.costs, turn.scores, strict=True)), request, turn.vector)
            with self._lock:
                turn.rankings[judge] = known
                while len(turn.rankings) > JUDGES:
                    del turn.rankings[next(iter(turn.rankings))]
        return known

    def rank_together(self, asked: Iterable[tuple[Request, Judge]]) -> None:
        """Have judges rank last turns whose scores were just taken: the policy of each is asked once for all."""
        by_judge: dict[Judge, list[tuple[Request, ScoredTurn]]] = {}
        for request, judge in asked:
            turn = self._scored_turn(request, request.turns[-1].subject) if request.costs and request.turns else None
            if turn is not None and not turn.vector:
                by_judge.setdefault(judge, []).append((request, turn))
        for judge, own in by_judge.items():
            if len(own) > 1:
                scores = [dict(zip(request.costs, turn.scores, strict=True)) for request, turn in own]
                with suppress(Exception):  # a policy that breaks says so when it decides
                    rankings = judge.ranked_together(scores, [request.costs for request, _ in own])
                    for (_, turn), ranking in zip(own, rankings, strict=True):
                        turn.rankings[judge] = ranking

    def _scored_turn(self, request: Request, subject: str) -> ScoredTurn | None:
        """The scores of a turn, if they are at hand. In a conversation, those that a harness once gave come first."""
        if (turn := request.scored_turns.get(subject)) is not None:
            return turn
        given, shared = (subject, request.own_catalogue), (subject, request.catalogue)
        with self._lock:
            key = given if given in self._turns else shared
            turn = self._turns.get(key)
            if turn is not None:
                self._turns.move_to_end(key)
        if turn is UNKNOWN:
            return None
        if turn is not None:
            request.scored_turns[subject] = turn
        return turn


def deciding(ranking: tuple[Ranked, ...]) -> tuple[Ranked, ...]:
    """The part of a ranking that decides whether a turn says anything: trusted tools, unless there are none."""
    return tuple(tool for tool in ranking if tool.trusted) or ranking


def _ranked(judge: Judge, scores: dict[str, float], request: Request, vector: bytes) -> tuple[Ranked, ...]:
    """Trusted tools as if there were no others, then the others as they rank among all."""
    if not request.untrusted:
        return judge.ranked(scores, request.costs, vector)
    alone = judge.ranked({key: scores[key] for key in scores if key not in request.untrusted}, request.costs, vector)
    among_all = judge.ranked(scores, request.costs, vector)
    return (*alone, *(tool._replace(trusted=False) for tool in among_all if tool.name in request.untrusted))

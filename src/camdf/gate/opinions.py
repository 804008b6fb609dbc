"""What the policy makes of each turn, asked once: scores and rankings are kept."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from threading import Lock
from typing import Any

from camdf.core.payoff import Payoff
from camdf.core.rankings import Rankings
from camdf.errors import UsageError
from camdf.gate.budget import Work
from camdf.gate.decision import Ranked
from camdf.gate.forks import renewed_in_forks
from camdf.gate.request import Request
from camdf.policies.base import Policy
from camdf.scorers.base import Scorer, checked

KEPT = 200_000
"""How many scores are kept, those of 40 tools for 5,000 turns: a history is scored once, not at every model call."""


class RefusedError(Exception):
    """A scorer's answer is not one finite score for every tool."""


class Opinions:
    """A scorer and a policy, and what they said of the turns of late."""

    def __init__(self, policy: Policy, scorer: Scorer | None, payoff: Payoff) -> None:
        self.policy, self.scorer, self.payoff = policy, scorer, payoff
        self._scores: OrderedDict[tuple[str, int], tuple[float, ...]] = OrderedDict()
        self._rankings: dict[tuple[str, int], dict[Payoff, tuple[Ranked, ...]]] = {}
        self._held = 0
        self.renew()
        renewed_in_forks(self)

    def renew(self) -> None:
        """A lock of its own, in a process of its own."""
        self._lock = Lock()

    def missing(self, request: Request) -> list[str]:
        """The turns that have no scores yet, each once, the oldest first: those that the decision needs."""
        found: list[str] = []
        for subject in dict.fromkeys(turn.subject for turn in request.turns if request.asks(turn)):
            if not self.scored(request, subject):
                found.append(subject)
            elif request.door and not found and any(each.kept for each in self.ranking(request, subject)):
                break  # with a door, the first turn with signal decides
        return found if request.costs else []

    def score(self, request: Request, subjects: Sequence[str], work: Work[Any]) -> frozenset[str]:
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
                self.take(request, subject, work.answer(scorer, subject, tools))
            except Exception as error:
                return error
            with suppress(Exception):  # a policy that breaks says so when it decides
                self.ranking(request, subject)
            return None

        failed = {subject: error for subject in subjects if (error := attempt(subject))}
        if not any(self.scored(request, turn.subject) for turn in request.turns):
            raise failed[subjects[-1]]
        return frozenset(subject for subject in failed if attempt(subject))

    def take(self, request: Request, subject: str, scores: object) -> None:
        """Keep the scores of a turn, if they are sound."""
        try:
            sound = tuple(checked(scores, [request.tools[key] for key in request.costs]).tolist())
        except Exception as error:
            raise RefusedError(type(error).__name__) from None
        key = subject, request.catalogue
        with self._lock:
            self._held += len(sound) - len(self._scores.pop(key, ()))
            self._scores[key] = sound
            self._rankings.pop(key, None)
            while self._held > KEPT and len(self._scores) > 1:
                oldest, dropped = self._scores.popitem(last=False)
                self._rankings.pop(oldest, None)
                self._held -= len(dropped)

    def scored(self, request: Request, subject: str, *, ranked: bool = False) -> bool:
        """Whether the scores of a turn are at hand; with `ranked`, whether the policy has spoken too."""
        return (subject, request.catalogue) in (self._rankings if ranked else self._scores)

    def ranking(self, request: Request, subject: str, payoff: Payoff | None = None) -> tuple[Ranked, ...]:
        """The candidates of a scored turn in rank order, `kept` where this turn alone makes them worth their cost.

        None is kept where the scores prefer no tool. `payoff` is by default the gate's.
        """
        key, payoff = (subject, request.catalogue), payoff or self.payoff
        with self._lock:
            known, scores = self._rankings.get(key, {}).get(payoff), self._scores[key]
            self._scores.move_to_end(key)
        if known is None:
            by_key = dict(zip(request.costs, scores, strict=True))
            known = self.ranked(by_key, request.costs, payoff)
            with self._lock:
                if key in self._scores:
                    self._rankings.setdefault(key, {})[payoff] = known
        return known

    def of_late(self) -> list[tuple[Ranked, ...]]:
        """The rankings of turns under the gate's own payoff that are still kept, but for those that prefer no tool."""
        with self._lock:
            known = [each[self.payoff] for each in self._rankings.values() if self.payoff in each]
        return [each for each in known if not says_nothing([one.score for one in each])]

    def ranked(self, scores: Mapping[str, float], costs: Mapping[str, float], payoff: Payoff) -> tuple[Ranked, ...]:
        """What the policy says of candidates with these scores and costs."""
        if not scores:
            return ()
        rankings = Rankings.from_scores(scores, costs)
        if says_nothing(list(scores.values())):
            names, worth, evidence = rankings.names(0), [False] * len(scores), [None] * len(scores)
        else:
            decisions = self.policy.decide(rankings, payoff)
            names, worth = rankings.names(0), decisions.acquired[0].tolist()
            evidence = [None] * len(names) if decisions.evidence is None else decisions.evidence[0].tolist()
        pressure = payoff.cost_pressure
        found, priced = [scores[name] for name in names], [pressure * costs[name] for name in names]
        why = ["worth its cost" if good else "not worth it" for good in worth]
        return tuple(map(Ranked, names, found, priced, evidence, worth, why))


def says_nothing(scores: Sequence[float]) -> bool:
    """Whether scores prefer no tool: all are equal, as where BM25 finds no word of the task in any description."""
    return len(scores) > 0 and min(scores) == max(scores) and (len(scores) > 1 or scores[0] == 0)

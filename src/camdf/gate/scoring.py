"""What scorer and policy make of one turn: scores, and the ranking in which a policy keeps what is worth its cost.

A turn is scored once, and a policy is asked once about it: what was said of late is kept. A decision holds the scores
that it is made with (`KnownScores`), so what is forgotten here in the meantime changes nothing.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from inspect import isawaitable
from itertools import repeat
from os import PathLike
from typing import Any, Self

import numpy as np

from camdf.checks import try_policy
from camdf.core.decisions import Decisions
from camdf.core.payoff import Payoff
from camdf.core.rankings import Rankings
from camdf.core.vectors import from_bytes
from camdf.datasets.ids import spellings
from camdf.errors import ArtifactError, UsageError
from camdf.gate.catalogue import Catalogue
from camdf.gate.decision import Reason
from camdf.gate.ranking import Ranked, Ranking
from camdf.policies.artifact import content_of, from_json, to_json
from camdf.policies.base import Policy, copies_of, fitted_payoff
from camdf.policies.copies import Copies
from camdf.policies.models.past_tasks import PastTasks
from camdf.policies.training import FittedCatalogue
from camdf.runtime.breaker import RestingError
from camdf.runtime.forks import Locked
from camdf.runtime.workers import BusyError, Work
from camdf.scorers.base import Scorer, checked, says_nothing, vector_of
from camdf.tools import Tool

SCORES_KEPT = 200_000
"""How many scores are kept, those of 40 tools for 5,000 turns: a history is scored once, not at every model call."""

JUDGES_KEPT = 20
"""The rankings of one turn are kept for so many judges, the latest."""


@dataclass(frozen=True, eq=False)
class Judge:
    """A policy, the payoff under which it decides, and the judge of the conversations that explore, if that differs.

    One for a `user` of whom the policy knows past tasks is another judge: what it makes of a turn is for no one else.
    """

    policy: Policy
    payoff: Payoff
    exploring: Judge | None = None
    written: str = ""
    """The SHA-256 in the policy's file, where it came from one."""

    copies: Copies = field(default_factory=dict)
    """The tools that the policy knows as one with another."""

    user: str = ""
    """For whom it judges, as the past tasks spell it; "" for everybody."""

    of_users: dict[str, Judge] = field(default_factory=dict)
    """Those for the users of whom the policy knows."""

    @cached_property
    def by_turn(self) -> Judge:
        """The judge of turns each of which gets tools of its own."""
        policy = getattr(self.policy, "by_turn", self.policy)
        if policy is self.policy:
            return self
        return replace(self, policy=policy, exploring=self.exploring and self.exploring.by_turn, of_users={})

    def for_user(self, user: str, id_key: bytes | None = None) -> Judge:
        """The judge for whoever has this id; this one where the policy knows nothing of them."""
        knows: Callable[[str], bool] | None = getattr(self.policy, "knows", None)
        if knows is None:
            return self
        for name in spellings(user, id_key):
            if knows(name):
                exploring = self.exploring and replace(self.exploring, user=name)
                return self.of_users.setdefault(name, replace(self, exploring=exploring, user=name))
        return self

    def needed(self, catalogue: Catalogue) -> Mapping[str, float]:
        """By key, the part of the logged tasks that needed a tool or one that does the same, where the policy knows."""
        known: Mapping[str, float] = getattr(self.policy, "needed", {})
        if not self.copies:
            return {name: part for name, part in known.items() if name in catalogue.costs}
        stands = catalogue.standing(catalogue.names_of_same(self.copies))
        return {stands[name]: part for name, part in known.items() if name in stands}

    @cached_property
    def reads_texts(self) -> bool:
        """Whether the policy reads the direction of a task's text."""
        return self.policy.reads_texts

    @cached_property
    def digest(self) -> str:
        """The one in its file, or that `camdf.save` would write; "" for a policy that cannot be saved."""
        try:
            return self.written or str(json.loads(to_json(self.policy, self.policy.training_))["sha256"])
        except Exception:
            return ""

    @cached_property
    def catalogue(self) -> FittedCatalogue | None:
        """The tools that the policy was fitted on, where its file says so."""
        training = getattr(self.policy, "training_", None)
        return None if training is None else training.catalogue

    @classmethod
    def at_work(cls, policy: Policy, payoff: Payoff | None, explore_pressure: float | None, written: str = "") -> Self:
        """A judge that can work: the payoff is known, and the policy can decide at the lower cost pressure too."""
        if isinstance(policy, type) or not callable(getattr(policy, "decide", None)):
            raise UsageError(
                "The 'policy' of Gate must be one that decides, as camdf.cold_start() and camdf.load(path) give it. "
                f"Got {policy!r} instead."
            )
        known = payoff or _payoff_of_fit(policy)
        if not isinstance(known, Payoff):
            raise UsageError("This policy serves any payoff. Give the gate one, as Payoff(0.12).")
        copies = copies_of(policy)
        exploring: Judge | None = None
        if explore_pressure is not None:
            exploring = cls(policy, _lower_payoff(policy, known, explore_pressure), copies=copies)
        return cls(policy, known, exploring, written, copies)

    @classmethod
    def from_file(
        cls,
        path: str | PathLike[str],
        payoff: Payoff | None,
        explore_pressure: float | None,
        past: PastTasks | None,
        check_fit: Callable[[Policy], None],
    ) -> Self:
        """The judge of a file that `camdf.save` wrote, once it has decided on made-up tasks; else an ArtifactError.

        `check_fit` raises a UsageError where the policy was fitted with something else than what the gate has.
        """
        content = content_of(path)
        policy = from_json(content)
        try:
            check_fit(policy)
            policy = policy.recalling(past)
            judge = cls.at_work(policy, payoff, explore_pressure, json.loads(content)["sha256"])
            for judging in (judge, judge.exploring or judge):
                try_policy(policy, judging.payoff)
        except Exception as error:
            raise ArtifactError(f"The policy in {str(path)!r} does not decide here: {error}") from error
        return judge

    def ranked(self, scores: Mapping[str, float], costs: Mapping[str, float], vector: bytes = b"") -> Ranking:
        """Candidates with these scores and costs in rank order; none is kept where the scores prefer no tool.

        `vector` is the direction of the task's text, for a policy that reads it (`camdf.scorers.base.vector_of`).
        """
        if not scores:
            return Ranking()
        rankings = Rankings.from_scores(scores, costs)
        if vector:
            rankings = replace(rankings, vectors=from_bytes([vector]))
        if self.user:
            rankings = replace(rankings, users=np.array([self.user]))
        (ranked,) = self._ranked_rows(rankings, [scores])
        return ranked

    def ranked_together(
        self, scores: Sequence[Mapping[str, float]], costs: Sequence[Mapping[str, float]]
    ) -> list[Ranking]:
        """`ranked` for several lists, none of them empty: the policy is asked once for all."""
        rankings = Rankings.from_scores(scores, costs)
        if self.user:
            rankings = replace(rankings, users=np.full(len(rankings), self.user))
        return self._ranked_rows(rankings, scores)

    def _ranked_rows(self, rankings: Rankings, scores: Sequence[Mapping[str, float]]) -> list[Ranking]:
        silent = [says_nothing(list(by_name.values())) for by_name in scores]
        if all(silent):
            return [self._cut_ranking(rankings, row) for row in range(len(rankings))]
        decisions = self.policy.decide(rankings, self.payoff)
        ranked: list[Ranking] = []
        for row, is_silent in enumerate(silent):
            if is_silent:
                ranked.append(self._cut_ranking(rankings, row))
            else:
                ranked.append(self._decided_ranking(rankings, decisions, row))
        return ranked

    def _cut_ranking(self, rankings: Rankings, row: int) -> Ranking:
        """The candidates of one task, none of them kept."""
        scores, costs, priced = self._numbers_of_row(rankings, row)
        same = (repeat(None), repeat(False), repeat("not worth it"))
        return Ranking(tuple(map(Ranked, rankings.names(row), scores, costs, priced, *same)))

    def _decided_ranking(self, rankings: Rankings, decisions: Decisions, row: int) -> Ranking:
        """The candidates of one task, with what the policy decided and why."""
        names = rankings.names(row)
        scores, costs, priced = self._numbers_of_row(rankings, row)
        kept = decisions.acquired[row, : len(names)].tolist()
        evidence: Iterable[float | None] = repeat(None)
        if decisions.evidence is not None:
            evidence = decisions.evidence[row, : len(names)].tolist()
        why = ["worth its cost" if is_kept else "not worth it" for is_kept in kept]
        if any(kept) and self.policy.has_reasons:
            reasons = self.policy.reasons(rankings, row)
            for place, name in enumerate(names):
                if kept[place] and name in reasons:
                    why[place] = f"worth its cost, {reasons[name]}"
        none = None if decisions.none is None else float(decisions.none[row])
        return Ranking(tuple(map(Ranked, names, scores, costs, priced, evidence, kept, why)), none)

    def _numbers_of_row(self, rankings: Rankings, row: int) -> tuple[list[float], list[float], list[float]]:
        """Scores, costs and priced costs of one task, in rank order."""
        length = int(rankings.lengths[row])
        costs = rankings.costs[row, :length].tolist()
        pressure = self.payoff.cost_pressure
        return rankings.scores[row, :length].tolist(), costs, [pressure * cost for cost in costs]


@dataclass(frozen=True, eq=False, slots=True, weakref_slot=True)
class ScoredTurn:
    """What a scorer said of a turn: a score for every tool, and the direction of its text where the policy reads it."""

    scores: tuple[float, ...]
    vector: bytes = b""
    rankings: dict[Judge, Ranking] = field(default_factory=dict)
    """What judges made of it."""


UNKNOWN = ScoredTurn(())
"""Stands for scores that conversations without a name disagree about."""


@dataclass(frozen=True)
class KnownScores:
    """What is known of the turns of a request when it is decided on."""

    turns: Mapping[str, ScoredTurn]
    """By what a turn is about."""

    silent: frozenset[str] = frozenset()
    """Turns on which the scorer raised twice while it answered on others: they say nothing."""

    failure: Exception | None = None
    """Why the last turn may have no scores."""

    late: bool = False
    """Whether time is up, so that only turns count on which the policy has spoken already."""


class RefusedScoresError(Exception):
    """A scorer's answer is not one finite score for every tool."""


class TurnScores(Locked):
    """What a scorer said of the turns of late, and what judges made of that. It spares work, and no more."""

    def __init__(self, scorer: Scorer | None) -> None:
        self.scorer = scorer
        self._turns: OrderedDict[tuple[str, int | None], ScoredTurn] = OrderedDict()
        self._held = 0
        super().__init__()

    def known(self, subjects: Iterable[str], catalogue: Catalogue, own: int | None) -> dict[str, ScoredTurn]:
        """The scores of turns that are at hand. Those that a harness gave in this conversation, its `own`, go first."""
        known: dict[str, ScoredTurn] = {}
        content = catalogue.content
        with self._lock:
            for subject in subjects:
                key = (subject, own)
                if key not in self._turns:
                    key = (subject, content)
                turn = self._turns.get(key)
                if turn is not None:
                    self._turns.move_to_end(key)
                    if turn is not UNKNOWN:
                        known[subject] = turn
        return known

    def score(
        self,
        subjects: Sequence[str],
        catalogue: Catalogue,
        judges: Sequence[Judge],
        work: Work[Any] | None,
        known: Mapping[str, ScoredTurn],
    ) -> KnownScores:
        """Score turns, the oldest first, and have the judges rank them; what comes too late is kept all the same.

        Where the scorer has no answer on any turn, `known` ones included, what it raised on the last one is raised.
        """
        scorer = self.scorer
        if scorer is None:
            raise UsageError("This gate has no scorer. Give it one, or pass scores= with every task.")
        reads_texts = any(judge.reads_texts for judge in judges)
        tools = [catalogue.tools[key] for key in catalogue.costs]
        turns = dict(known)

        def attempt(subject: str) -> Exception | None:
            try:
                scores = scorer(subject, tools)
                if isawaitable(scores):
                    scores = (work or Work.here()).awaited(scores)
                vector = vector_of(scorer, subject) if reads_texts else b""
                turn = ScoredTurn(sound_scores(scores, tools), vector)
            except Exception as error:
                return error
            turns[subject] = turn
            with self._lock:
                self._keep_turn((subject, catalogue.content), turn)
            with suppress(Exception):  # a policy that breaks says so when it decides
                for judge in judges:
                    self.ranking(turn, catalogue, judge)
            return None

        failed = {subject: error for subject in subjects if (error := attempt(subject))}
        if failed and not turns:
            raise failed[subjects[-1]]
        return KnownScores(turns, frozenset(subject for subject in failed if attempt(subject)))

    def given(
        self, subject: str, catalogue: Catalogue, scores: object, own: int | None, *, is_named: bool
    ) -> ScoredTurn:
        """The scores that a harness gives for a turn, if they are sound; later calls of its conversation have them too.

        Where two conversations without a name bring different scores for one text, nobody knows whose a later turn
        means, and neither are known from then on. `own` is None for one text and no more: nobody will ask again.
        """
        turn = ScoredTurn(sound_scores(scores, [catalogue.tools[key] for key in catalogue.costs]))
        if own is None:
            return turn
        with self._lock:
            before = self._turns.get((subject, own), turn)
            if before.scores == turn.scores:
                turn = before
            elif not is_named:
                self._keep_turn((subject, own), UNKNOWN)
                return turn
            self._keep_turn((subject, own), turn)
        return turn

    def _keep_turn(self, key: tuple[str, int | None], turn: ScoredTurn) -> None:
        """Keep the scores of a turn, and forget those that were asked for first; the lock is held."""
        before = self._turns.pop(key, UNKNOWN)
        self._held += len(turn.scores) - len(before.scores)
        self._turns[key] = turn
        while self._held > SCORES_KEPT and len(self._turns) > 1:
            _, forgotten = self._turns.popitem(last=False)
            self._held -= len(forgotten.scores)

    def ranking(self, turn: ScoredTurn, catalogue: Catalogue, judge: Judge) -> Ranking:
        """The candidates of a turn in rank order, `kept` where this turn alone makes them worth their cost."""
        ranking = turn.rankings.get(judge)
        if ranking is None:
            scores = dict(zip(catalogue.costs, turn.scores, strict=True))
            ranking = _ranked_by_trust(judge, scores, catalogue, turn.vector)
            self._keep_ranking(turn, judge, ranking)
        return ranking

    def rank_together(self, asked: Iterable[tuple[ScoredTurn, Catalogue, Judge]]) -> None:
        """Have judges rank several turns whose scores were just given: the policy of each is asked once for all."""
        by_judge: dict[Judge, list[tuple[ScoredTurn, Catalogue]]] = {}
        for turn, catalogue, judge in asked:
            if judge not in turn.rankings and catalogue.costs and not catalogue.untrusted and not judge.copies:
                by_judge.setdefault(judge, []).append((turn, catalogue))
        for judge, own in by_judge.items():
            if len(own) < 2:
                continue
            scores = [dict(zip(catalogue.costs, turn.scores, strict=True)) for turn, catalogue in own]
            with suppress(Exception):  # a policy that breaks says so when it decides
                rankings = judge.ranked_together(scores, [catalogue.costs for _, catalogue in own])
                for (turn, _), ranking in zip(own, rankings, strict=True):
                    self._keep_ranking(turn, judge, ranking)

    def _keep_ranking(self, turn: ScoredTurn, judge: Judge, ranking: Ranking) -> None:
        with self._lock:
            turn.rankings[judge] = ranking
            while len(turn.rankings) > JUDGES_KEPT:
                del turn.rankings[next(iter(turn.rankings))]


FAILURES: dict[type[Exception], Reason] = {
    RestingError: "scorer resting",
    BusyError: "scorer busy",
    TimeoutError: "scorer too slow",
    RefusedScoresError: "scores refused",
}
"""Why turns have no scores."""


def failure_reason(error: Exception) -> Reason:
    """Why turns have no scores, by what was raised."""
    for kind, reason in FAILURES.items():
        if isinstance(error, kind):
            return reason
    return "scorer failed"


def failure_type(error: Exception) -> str:
    """The type of what was raised; of scores that were refused, that of what is wrong with them."""
    if isinstance(error, RefusedScoresError):
        return str(error)
    return type(error).__name__


def sound_scores(scores: object, tools: Sequence[Tool]) -> tuple[float, ...]:
    """One finite score for every tool, or a RefusedScoresError, which says no more than a type: texts may be secret."""
    try:
        return tuple(checked(scores, tools).tolist())
    except Exception as error:
        raise RefusedScoresError(type(error).__name__) from None


def _ranked_by_trust(judge: Judge, scores: dict[str, float], catalogue: Catalogue, vector: bytes) -> Ranking:
    """Trusted tools as if there were no others, then the others as they rank among all."""
    costs = catalogue.costs
    untrusted = catalogue.untrusted
    ranked = partial(_ranked_as_one, judge, catalogue) if judge.copies else judge.ranked
    among_all = ranked(scores, costs, vector)
    if not untrusted:
        return among_all
    alone = ranked({key: scores[key] for key in scores if key not in untrusted}, costs, vector)
    others = [tool._replace(trusted=False) for tool in among_all.tools if tool.name in untrusted]
    return alone._replace(tools=(*alone.tools, *others))


def _ranked_as_one(
    judge: Judge, catalogue: Catalogue, scores: Mapping[str, float], costs: Mapping[str, float], vector: bytes
) -> Ranking:
    """A ranking in which one of the tools that do the same stands for all, with the best of their scores.

    The others follow after the last rank. What an untrusted tool scores raises no trusted one that stands for it.
    """
    names = catalogue.names_of_same(judge.copies)
    stands = catalogue.standing(names)
    best: dict[str, float] = {}
    left_out: list[Ranked] = []
    for key, score in scores.items():
        name = names[key]
        stand = stands[name]
        if key not in catalogue.untrusted or stand in catalogue.untrusted:
            best[name] = max(best.get(name, 0.0), score)
        if key != stand:
            priced = judge.payoff.cost_pressure * costs[key]
            left_out.append(Ranked(key, score, costs[key], priced, None, False, f"does the same as {stand}"))
    ranking = judge.ranked(best, {name: costs[stands[name]] for name in best}, vector)
    decided = [tool._replace(name=stands[tool.name]) for tool in ranking.tools]
    return ranking._replace(tools=(*decided, *left_out))


def recalling(policy: Policy, past: PastTasks | None, scorer: Scorer | None) -> Policy:
    """A policy with past tasks; an error where the scorer's vectors cannot be compared with theirs."""
    if past is not None and past.dimensions and policy.recalls:
        past.check_vectors(len(vector_of(scorer, "Send an email")), "the scorer makes")
    return policy.recalling(past)


def _payoff_of_fit(policy: Any) -> Any:
    """The payoff that a policy was fitted for, if it was fitted for one."""
    if isinstance(policy, Policy):
        return fitted_payoff(policy)
    return getattr(policy, "payoff_", None)


def _lower_payoff(policy: Policy, payoff: Payoff, pressure: float) -> Payoff:
    """The payoff at which a conversation explores."""
    if pressure >= payoff.cost_pressure:
        raise UsageError(
            f"The 'explore_pressure' of Rollout must be below the gate's cost pressure, {payoff.cost_pressure:g}. "
            f"Got {pressure!r} instead."
        )
    if policy.fitted_for == "a payoff":
        raise UsageError(
            f"A {type(policy).__name__} decides at the one cost pressure it was fitted for, so 'explore_pressure' says "
            "nothing to it. Use a policy that serves any payoff, such as ExpectedPayoffBySet."
        )
    return replace(payoff, cost_pressure=pressure)

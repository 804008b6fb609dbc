"""A policy at work: what it says of candidates at one payoff, and the SHA-256 by which decisions name it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import repeat
from os import PathLike
from typing import Self

from camdf.checks import try_policy
from camdf.core.payoff import Payoff
from camdf.core.rankings import Rankings
from camdf.core.vectors import from_bytes
from camdf.errors import ArtifactError, UsageError
from camdf.gate.ranking import Ranked
from camdf.models.past_tasks import PastTasks
from camdf.policies.artifact import content_of, from_json, to_json
from camdf.policies.base import Policy, fitted_payoff
from camdf.scorers.base import Scorer, says_nothing, vector_of


@dataclass(frozen=True, eq=False)
class Judge:
    """A policy, the payoff under which it decides, and the judge of the conversations that explore, if that differs."""

    policy: Policy
    payoff: Payoff
    exploring: Judge | None = None
    written: str = ""
    """The SHA-256 in the policy's file, where it came from one."""

    @cached_property
    def digest(self) -> str:
        """The one in its file, or that `camdf.save` would write; "" for a policy that cannot be saved."""
        try:
            return self.written or str(json.loads(to_json(self.policy, self.policy.training_))["sha256"])
        except Exception:
            return ""

    @classmethod
    def of(cls, policy: Policy, payoff: Payoff | None, explore_pressure: float | None, written: str = "") -> Self:
        """A judge that can work: the payoff is known, and the policy can decide at the lower cost pressure too."""
        if isinstance(policy, type) or not callable(getattr(policy, "decide", None)):
            raise UsageError(
                "The 'policy' of Gate must be one that decides, as camdf.cold_start() and camdf.load(path) give it. "
                f"Got {policy!r} instead."
            )
        known = payoff or (fitted_payoff(policy) if isinstance(policy, Policy) else getattr(policy, "payoff_", None))
        if not isinstance(known, Payoff):
            raise UsageError("This policy serves any payoff. Give the gate one, as Payoff(0.12).")
        lower = None if explore_pressure is None else cls(policy, _lower(policy, known, explore_pressure))
        return cls(policy, known, lower, written)

    @classmethod
    def from_file(
        cls, path: str | PathLike[str], payoff: Payoff | None, explore_pressure: float | None, past: PastTasks | None
    ) -> Self:
        """The judge of a file that `camdf.save` wrote, once it has decided on made-up tasks; else an ArtifactError."""
        content = content_of(path)
        policy = from_json(content)
        try:
            policy = policy.recalling(past)
            judge = cls.of(policy, payoff, explore_pressure, json.loads(content)["sha256"])
            for judging in (judge, judge.exploring or judge):
                try_policy(policy, judging.payoff)
        except Exception as error:
            raise ArtifactError(f"The policy in {str(path)!r} does not decide here: {error}") from error
        return judge

    def ranked(
        self, scores: Mapping[str, float], costs: Mapping[str, float], vector: bytes = b""
    ) -> tuple[Ranked, ...]:
        """Candidates with these scores and costs in rank order; none is kept where the scores prefer no tool.

        `vector` is the direction of the task's text, for a policy that reads it (`camdf.scorers.base.vector_of`).
        """
        if not scores:
            return ()
        rankings = Rankings.from_scores(scores, costs)
        if vector:
            rankings = replace(rankings, vectors=from_bytes([vector]))
        (ranked,) = self._ranked(rankings, [scores])
        return ranked

    def ranked_together(
        self, scores: Sequence[Mapping[str, float]], costs: Sequence[Mapping[str, float]]
    ) -> list[tuple[Ranked, ...]]:
        """`ranked` for several lists, none of them empty: the policy is asked once for all."""
        return self._ranked(Rankings.from_scores(scores, costs), scores)

    def _ranked(self, rankings: Rankings, scores: Sequence[Mapping[str, float]]) -> list[tuple[Ranked, ...]]:
        silent = [says_nothing(list(by_name.values())) for by_name in scores]
        decisions = None if all(silent) else self.policy.decide(rankings, self.payoff)
        pressure, lists = self.payoff.cost_pressure, []
        for row, length in enumerate(rankings.lengths.tolist()):
            names = rankings.names(row)
            given, costs = rankings.scores[row, :length].tolist(), rankings.costs[row, :length].tolist()
            worth: list[bool] = [False] * length
            evidence: Iterable[float | None] = repeat(None, length)
            if decisions is not None and not silent[row]:
                worth = decisions.acquired[row, :length].tolist()
                if decisions.evidence is not None:
                    evidence = decisions.evidence[row, :length].tolist()
            reasons = self.policy.reasons(rankings, row) if any(worth) and rankings.vectors is not None else {}
            why = [
                f"worth its cost{f', {reasons[name]}' if name in reasons else ''}" if good else "not worth it"
                for name, good in zip(names, worth, strict=True)
            ]
            priced = [pressure * cost for cost in costs]
            lists.append(tuple(map(Ranked, names, given, costs, priced, evidence, worth, why)))
        return lists


@dataclass(frozen=True, eq=False, slots=True)
class ScoredTurn:
    """What a scorer said of a turn: a score for every tool, and the direction of its text where the policy reads it."""

    scores: tuple[float, ...]
    vector: bytes = b""
    rankings: dict[Judge, tuple[Ranked, ...]] = field(default_factory=dict)
    """What judges made of it."""


def recalling(policy: Policy, past: PastTasks | None, scorer: Scorer | None) -> Policy:
    """A policy with past tasks; an error where the scorer's vectors cannot be compared with theirs."""
    if past is not None and policy.recalls:
        past.check_vectors(len(vector_of(scorer, "Send an email")), "the scorer makes")
    return policy.recalling(past)


def _lower(policy: Policy, payoff: Payoff, pressure: float) -> Payoff:
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

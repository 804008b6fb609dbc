"""A policy at work: what it says of candidates at one payoff, and the SHA-256 by which decisions name it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from os import PathLike
from typing import Self

from camdf.checks import try_policy
from camdf.core.payoff import Payoff, is_number
from camdf.core.rankings import Rankings
from camdf.core.vectors import from_bytes
from camdf.errors import ArtifactError, UsageError
from camdf.gate.decision import Ranked
from camdf.policies.artifact import content_of, from_json, to_json
from camdf.policies.base import Policy
from camdf.scorers.base import says_nothing


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
        known = payoff or getattr(policy, "payoff_", None)
        if not isinstance(known, Payoff):
            raise UsageError("This policy serves any payoff. Give the gate one, as Payoff(0.12).")
        lower = None if explore_pressure is None else cls(policy, _lower(policy, known, explore_pressure))
        return cls(policy, known, lower, written)

    @classmethod
    def from_file(cls, path: str | PathLike[str], payoff: Payoff | None, explore_pressure: float | None) -> Self:
        """The judge of a file that `camdf.save` wrote, once it has decided on made-up tasks; else an ArtifactError."""
        content = content_of(path)
        policy = from_json(content)
        try:
            judge = cls.of(policy, payoff, explore_pressure, json.loads(content)["sha256"])
            for each in (judge, judge.exploring or judge):
                try_policy(policy, each.payoff)
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
        if says_nothing(list(scores.values())):
            names, worth, evidence = rankings.names(0), [False] * len(scores), [None] * len(scores)
        else:
            decisions = self.policy.decide(rankings, self.payoff)
            names, worth = rankings.names(0), decisions.acquired[0].tolist()
            evidence = [None] * len(names) if decisions.evidence is None else decisions.evidence[0].tolist()
        pressure = self.payoff.cost_pressure
        found, asked = [scores[name] for name in names], [costs[name] for name in names]
        why = ["worth its cost" if good else "not worth it" for good in worth]
        return tuple(map(Ranked, names, found, asked, (pressure * cost for cost in asked), evidence, worth, why))


@dataclass(frozen=True, eq=False, slots=True)
class Said:
    """What a scorer said of a turn: a score for every tool, and the direction of its text where the policy reads it."""

    scores: tuple[float, ...]
    vector: bytes = b""
    rankings: dict[Judge, tuple[Ranked, ...]] = field(default_factory=dict)
    """What judges made of it."""


def _lower(policy: Policy, payoff: Payoff, pressure: float) -> Payoff:
    """The payoff at which a conversation explores."""
    if not is_number(pressure) or not 0 <= pressure < payoff.cost_pressure:
        raise UsageError(
            f"The 'explore_pressure' of Gate must be at least 0 and below its cost pressure, {payoff.cost_pressure:g}. "
            f"Got {pressure!r} instead."
        )
    if policy.fitted_for == "a payoff":
        raise UsageError(
            f"A {type(policy).__name__} decides at the one cost pressure it was fitted for, so 'explore_pressure' says "
            "nothing to it. Use a policy that serves any payoff, such as ExpectedPayoffBySet."
        )
    return replace(payoff, cost_pressure=pressure)

"""The four training-free predicates: parameters fixed beforehand, nothing learned (the paper's Appendix D)."""

from __future__ import annotations

import numpy as np

from camdf.core.decisions import Decisions
from camdf.core.payoff import Payoff
from camdf.core.rankings import Rankings
from camdf.policies import fields
from camdf.policies.base import Policy


class ScoreAtLeast(Policy):
    """Acquire every tool with s_j >= 0.5, or another score named beforehand."""

    kind = "score-at-least"
    fields = {"score": fields.number}

    def __init__(self, score: float = 0.5) -> None:
        self.score = score

    def decide(self, rankings: Rankings, payoff: Payoff) -> Decisions:
        return Decisions((rankings.scores >= self.score) & rankings.listed, evidence=rankings.scores)


class LargestGap(Policy):
    """Cut the ranking at its largest drop from one score to the next; the earlier of two equal drops."""

    kind = "largest-gap"

    def decide(self, rankings: Rankings, payoff: Payoff) -> Decisions:
        drops = np.full(rankings.scores.shape, -np.inf)
        inner = rankings.listed[:, 1:]
        drops[:, :-1][inner] = (rankings.scores[:, :-1] - rankings.scores[:, 1:])[inner]
        depth = np.where(rankings.lengths > 1, drops.argmax(axis=1) + 1 if rankings.width else 0, rankings.lengths)
        return Decisions.prefix(rankings, depth)


class ScoreMass(Policy):
    """Acquire the smallest prefix that holds 80% of the list's total score, or another share named beforehand."""

    kind = "score-mass"
    fields = {"share": fields.number}

    def __init__(self, share: float = 0.8) -> None:
        self.share = share

    def decide(self, rankings: Rankings, payoff: Payoff) -> Decisions:
        self.verify()
        held = np.zeros((len(rankings), rankings.width + 1))
        np.cumsum(rankings.scores, axis=1, out=held[:, 1:])
        return Decisions.prefix(rankings, (held >= self.share * held[:, -1:]).argmax(axis=1))

    def verify(self) -> None:
        if not 0 <= self.share <= 1:
            raise ValueError(f"The 'share' of ScoreMass must lie between 0 and 1. Got {self.share!r} instead")


class PlugIn(Policy):
    """Acquire every tool with s_j >= lambda c_j: Proposition 2, if scores were calibrated marginal values."""

    kind = "plug-in"

    def decide(self, rankings: Rankings, payoff: Payoff) -> Decisions:
        surplus = rankings.scores - payoff.cost_pressure * rankings.costs
        return Decisions((surplus >= 0) & rankings.listed, evidence=surplus)

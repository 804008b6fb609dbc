"""The rules that people run today: some with their one number named beforehand, some with it tuned, one constant set.

`ScoreAtLeast`, `LargestGap`, `ScoreMass` and `PlugIn` are the paper's training-free predicates (its Appendix D).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Self

import numpy as np

from camdf.core.decisions import Decisions
from camdf.core.payoff import Payoff
from camdf.core.rankings import Bools, Floats, Ints, LoggedTasks, Rankings
from camdf.policies.base import FittedPolicy, Policy
from camdf.policies.models.stored import count, names, number, numbers, share
from camdf.policies.models.tuning import best_cutoff, falling_cutoffs
from camdf.runtime.settings import or_none

USUAL_TOOLS = 8
"""How many tools a conversation gets where nobody says how many: docs/first-day.md has what they reach."""


class AcquireAll(Policy):
    """Give the agent everything: what a harness without a gate does."""

    kind = "acquire-all"

    def decide(self, rankings: Rankings, payoff: Payoff) -> Decisions:
        return Decisions.prefix(rankings, rankings.lengths)


class TopK(Policy):
    """The same number of top-ranked tools for every task, named beforehand: what most harnesses do."""

    kind = "top-k"
    k: Annotated[int, count]

    def __init__(self, k: int = 5) -> None:
        self.store(k=k)

    def decide(self, rankings: Rankings, payoff: Payoff) -> Decisions:
        return Decisions.prefix(rankings, np.minimum(rankings.lengths, self.k))


class TopShare(Policy):
    """The same share of every list, from the top, rounded up: a working set where nothing is known but a ranking."""

    kind = "top-share"
    share: Annotated[float, share]

    def __init__(self, share: float = 0.375) -> None:
        self.store(share=share)

    def decide(self, rankings: Rankings, payoff: Payoff) -> Decisions:
        return Decisions.prefix(rankings, np.ceil(rankings.lengths * self.share - 1e-9).astype(np.int64))


class NearBest(Policy):
    """The tools that score at least a share of the best tool's score, at most so many of them."""

    kind = "near-best"
    k: Annotated[int, count]
    share: Annotated[float, share]

    def __init__(self, k: int = 5, share: float = 0.6) -> None:
        self.store(k=k, share=share)

    def decide(self, rankings: Rankings, payoff: Payoff) -> Decisions:
        near = (rankings.scores >= self.share * rankings.scores[:, :1]) & rankings.listed
        near[:, self.k :] = False
        return Decisions(near)


class FirstDay(Policy):
    """What decides before anybody has labels: the best eight for a conversation; of a turn, those near its best."""

    kind = "first-day"

    @property
    def by_turn(self) -> Policy:
        return NearBest()

    def decide(self, rankings: Rankings, payoff: Payoff) -> Decisions:
        return Decisions.prefix(rankings, np.minimum(rankings.lengths, USUAL_TOOLS))


class ScoreAtLeast(Policy):
    """Acquire every tool with s_j >= 0.5, or another score named beforehand."""

    kind = "score-at-least"
    score: Annotated[float, number]

    def __init__(self, score: float = 0.5) -> None:
        self.store(score=score)

    def decide(self, rankings: Rankings, payoff: Payoff) -> Decisions:
        return Decisions((rankings.scores >= self.score) & rankings.listed, evidence=rankings.scores)


class LargestGap(Policy):
    """Cut the ranking at its largest drop from one score to the next; the earlier of two equal drops."""

    kind = "largest-gap"

    def decide(self, rankings: Rankings, payoff: Payoff) -> Decisions:
        if rankings.width == 0:
            return Decisions.prefix(rankings, rankings.lengths)
        drops = np.full(rankings.scores.shape, -np.inf)
        inner = rankings.listed[:, 1:]
        drops[:, :-1][inner] = (rankings.scores[:, :-1] - rankings.scores[:, 1:])[inner]
        depth = np.where(rankings.lengths > 1, drops.argmax(axis=1) + 1, rankings.lengths)
        return Decisions.prefix(rankings, depth)


class ScoreMass(Policy):
    """Acquire the smallest prefix that holds 80% of the list's total score, or another share named beforehand."""

    kind = "score-mass"
    share: Annotated[float, share]

    def __init__(self, share: float = 0.8) -> None:
        self.store(share=share)

    def decide(self, rankings: Rankings, payoff: Payoff) -> Decisions:
        held = np.zeros((len(rankings), rankings.width + 1))
        np.cumsum(rankings.scores, axis=1, out=held[:, 1:])
        return Decisions.prefix(rankings, (held >= self.share * held[:, -1:]).argmax(axis=1))


class PlugIn(Policy):
    """Acquire every tool with (1 - recourse) s_j >= lambda c_j: Proposition 2, if scores were marginal values."""

    kind = "plug-in"

    def decide(self, rankings: Rankings, payoff: Payoff) -> Decisions:
        surplus = (1.0 - payoff.recourse) * rankings.scores - payoff.cost_pressure * rankings.costs
        return Decisions((surplus >= 0) & rankings.listed, evidence=surplus)


class FixedK(FittedPolicy):
    """The same number of top-ranked tools for every task, chosen on validation payoff."""

    kind = "fixed-k"
    k_: Annotated[int, count]

    def fit(self, logged: LoggedTasks, payoff: Payoff, validation: LoggedTasks | None = None) -> Self:
        if validation is None:
            validation = logged
        self.k_ = int(payoff.by_depth(validation).mean(axis=0).argmax())
        self.payoff_ = payoff
        return self

    def decide(self, rankings: Rankings, payoff: Payoff) -> Decisions:
        k = self.learned("k_", payoff)
        return Decisions.prefix(rankings, np.minimum(rankings.lengths, k))


class _Threshold(FittedPolicy):
    """Acquire every candidate whose index reaches a tuned threshold. Subclasses say what the index is.

    `grid` replaces the quantiles of the training tasks as candidate thresholds; acquire-nothing and acquire-all are
    always among them.
    """

    grid: Annotated[tuple[float, ...] | None, or_none(numbers)]
    threshold_: Annotated[float, number]

    def __init__(self, grid: Sequence[float] | None = None) -> None:
        self.store(grid=grid)

    def index(self, rankings: Rankings) -> Floats:
        """(n, m): what is compared with the threshold."""
        raise NotImplementedError

    def acquire(self, rankings: Rankings, threshold: float) -> Bools:
        return (self.index(rankings) >= threshold) & rankings.listed

    def fit(self, logged: LoggedTasks, payoff: Payoff, validation: LoggedTasks | None = None) -> Self:
        chosen_on = logged if validation is None else validation
        cutoffs = falling_cutoffs(self.index(logged.rankings)[logged.rankings.listed], self.grid)
        self.threshold_ = best_cutoff(cutoffs, lambda t: self.acquire(chosen_on.rankings, t), chosen_on, payoff)
        self.payoff_ = payoff
        return self

    def decide(self, rankings: Rankings, payoff: Payoff) -> Decisions:
        return Decisions(self.acquire(rankings, self.learned("threshold_", payoff)), evidence=self.index(rankings))


class ScoreThreshold(_Threshold):
    """Acquire every tool with s_j >= tau."""

    kind = "score-threshold"

    def index(self, rankings: Rankings) -> Floats:
        return rankings.scores


class ScorePerCostThreshold(_Threshold):
    """Acquire every tool with s_j / c_j >= tau: it may skip an expensive tool in the middle of the ranking."""

    kind = "score-per-cost-threshold"

    def index(self, rankings: Rankings) -> Floats:
        return rankings.scores / np.where(rankings.listed, rankings.costs, 1.0)


class ConstantSet(FittedPolicy):
    """One set of tools for every task, blind to scores: the best set on the training tasks, by local search.

    Only where all tasks share one catalogue of at most 64 tools; elsewhere it acquires nothing. The search starts from
    the empty set and takes the best of three kinds of step until none pays: add one tool, drop one tool, or add all
    that some training task required. Under the partial payoff this finds the best set; under the exact one it may not.
    """

    kind = "constant-set"
    tools_: Annotated[tuple[str, ...], names]

    def fit(self, logged: LoggedTasks, payoff: Payoff, validation: LoggedTasks | None = None) -> Self:
        self.tools_ = _best_constant_set(logged, payoff)
        self.payoff_ = payoff
        return self

    def decide(self, rankings: Rankings, payoff: Payoff) -> Decisions:
        tools = frozenset(self.learned("tools_", payoff))
        chosen = np.array([name in tools for name in rankings.catalogue] + [False])
        return Decisions(chosen[rankings.tool_ids])


def _best_constant_set(logged: LoggedTasks, payoff: Payoff) -> tuple[str, ...]:
    rankings = logged.rankings
    if not rankings.shares_catalogue:
        return ()
    by_tool = np.argsort(rankings.tool_ids, axis=1)
    required = np.take_along_axis(logged.required, by_tool, axis=1)
    costs = np.take_along_axis(rankings.costs, by_tool, axis=1).mean(axis=0)
    kinds, count = np.unique(np.column_stack([required, logged.n_required]), axis=0, return_counts=True)
    needs = kinds[:, :-1].astype(bool)
    n_required = kinds[:, -1]

    def mean_payoffs(sets: Bools) -> Floats:
        covered: Ints = sets.astype(np.int64) @ needs.T.astype(np.int64)
        worth = payoff.worth(covered, n_required, n_required - needs.sum(axis=1))
        value: Floats = (worth * count).sum(axis=1) / count.sum() - payoff.cost_pressure * (sets * costs).sum(axis=1)
        return value

    alone = np.eye(len(costs), dtype=bool)
    best = np.zeros(len(costs), dtype=bool)
    while True:
        steps = np.concatenate([best[None], best ^ alone, best | needs])
        following = steps[mean_payoffs(steps).argmax()]
        if (following == best).all():
            return tuple(name for name, kept in zip(rankings.catalogue, best, strict=True) if kept)
        best = following

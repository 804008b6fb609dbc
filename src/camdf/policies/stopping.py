"""The shared shape of every learned policy that stops along the ranking: evidence at each depth, and a cutoff."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Annotated, ClassVar, Self

import numpy as np

from camdf.core.decisions import Decisions
from camdf.core.payoff import Payoff, cost_of
from camdf.core.probability import logit
from camdf.core.rankings import Bools, Floats, Ints, LoggedTasks, Rankings, pieces
from camdf.core.stopping import first_stop
from camdf.policies.base import FittedPolicy
from camdf.policies.models.linear import LinearModel, identity_tools
from camdf.policies.models.stored import columns, number, object_of, share, shares
from camdf.policies.models.tuning import LARGEST, best_stop_cutoff, between_quantiles
from camdf.runtime.settings import or_none, truth

NEXT_TO_NOTHING = 1e-15
"""A threshold of a grid may be 0 or 1; its logit is taken this close to them."""


class StoppingPolicy(FittedPolicy):
    """Walks the ranking and stops at the first depth whose evidence passes the cutoff; else takes the whole list.

    `threshold` is fixed beforehand, or None to choose it on validation payoff, among `grid` or else cuts between the
    training quantiles of the evidence, acquire-nothing and acquire-all included.
    `identity` adds a one-hot column of the next tool where all tasks share one catalogue of at most 64 tools.
    `cost_blind` shows the features every list at its mean cost, so that only prices are hidden: the learned target
    still knows them.
    """

    stops_above: ClassVar[bool] = True
    """True where high evidence says stop (>= cutoff), False where it says continue (stop below the cutoff)."""

    columns: Annotated[tuple[str, ...], columns]
    identity: Annotated[bool, truth]
    cost_blind: Annotated[bool, truth]
    threshold: Annotated[float | None, or_none(share)]
    grid: Annotated[tuple[float, ...] | None, or_none(shares)]
    model_: Annotated[LinearModel, object_of(LinearModel)]
    cutoff_: Annotated[float, number]

    def __init__(
        self,
        columns: Sequence[str],
        *,
        identity: bool = False,
        cost_blind: bool = False,
        threshold: float | None = None,
        grid: Sequence[float] | None = None,
    ) -> None:
        self.store(columns=columns, identity=identity, cost_blind=cost_blind, threshold=threshold, grid=grid)

    @abstractmethod
    def learn(self, logged: LoggedTasks, seen: Rankings, payoff: Payoff, tools: tuple[str, ...]) -> LinearModel:
        """Fit the model: targets from `logged`, features from `seen` (its rankings, at mean costs if cost-blind)."""

    def cutoff(self, threshold: float, payoff: Payoff) -> float:
        """A threshold in the units of the evidence: the logit of a probability, unless a subclass says otherwise.

        Logits are compared, which spares a live decision the sigmoid of its evidence.
        """
        return float(logit(np.array(threshold), clip=NEXT_TO_NOTHING))

    def evidence(self, rankings: Rankings, payoff: Payoff) -> Floats:
        """(n, m): the number that is compared with the cutoff at every depth 0 .. m - 1."""
        return self.model_.evidence(self._seen(rankings), payoff)

    def fit(self, logged: LoggedTasks, payoff: Payoff, validation: LoggedTasks | None = None) -> Self:
        if validation is None:
            validation = logged
        tools = identity_tools(logged.rankings, self.identity)
        self.model_ = self.learn(logged, self._seen(logged.rankings), payoff, tools)
        self.payoff_ = payoff
        self.cutoff_ = self._chosen_cutoff(logged, validation, payoff)
        return self

    def _chosen_cutoff(self, logged: LoggedTasks, validation: LoggedTasks, payoff: Payoff) -> float:
        if self.threshold is not None:
            return self.cutoff(self.threshold, payoff)
        if self.grid is not None:
            inner = sorted(self.cutoff(threshold, payoff) for threshold in self.grid)
        else:
            inner = between_quantiles(self.evidence(logged.rankings, payoff)[logged.rankings.listed])
        cutoffs = [-LARGEST, *inner, LARGEST]
        if not self.stops_above:
            cutoffs.reverse()
        evidence = self.evidence(validation.rankings, payoff)
        return best_stop_cutoff(evidence, validation, payoff, cutoffs, self.stops)

    def decide(self, rankings: Rankings, payoff: Payoff) -> Decisions:
        cutoff = self.learned("cutoff_", payoff)
        parts = pieces(rankings)
        if len(parts) == 1:
            return Decisions.prefix(rankings, *self._walk(rankings, payoff, cutoff))
        depth = np.empty(len(rankings), dtype=np.int64)
        evidence = np.empty(rankings.scores.shape)
        for piece in parts:
            depth[piece], evidence[piece] = self._walk(rankings.take(piece), payoff, cutoff)
        return Decisions.prefix(rankings, depth, evidence)

    def _walk(self, rankings: Rankings, payoff: Payoff, cutoff: float) -> tuple[Ints, Floats]:
        evidence = self.evidence(rankings, payoff)
        return first_stop(self.stops(evidence, cutoff), rankings.lengths), evidence

    def stops(self, evidence: Floats, cutoff: float) -> Bools:
        """(n, m): the states whose evidence says stop."""
        if self.stops_above:
            return evidence >= cutoff
        return evidence < cutoff

    def verify(self) -> None:
        if self.model_.columns != self.columns:
            raise ValueError("model_: its columns must be the policy's, in the same order")
        if self.model_.tools and not self.identity:
            raise ValueError("model_: it weighs tools, but the policy does not use identity")

    def _seen(self, rankings: Rankings) -> Rankings:
        if not self.cost_blind:
            return rankings
        return at_mean_costs(rankings)


def at_mean_costs(rankings: Rankings) -> Rankings:
    """Every candidate at the mean cost of its list: the same rankings to someone who cannot see prices."""
    listed = rankings.listed
    mean = cost_of(rankings, listed) / np.maximum(rankings.lengths, 1)
    return rankings.with_costs(np.where(listed, mean[:, None], 0.0))

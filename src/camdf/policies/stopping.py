"""The shared shape of every learned policy that stops along the ranking: evidence at each depth, and a cutoff."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar, Self

import numpy as np

from camdf.core.decisions import Decisions
from camdf.core.payoff import Payoff, cost_of
from camdf.core.rankings import Bools, Floats, Ints, LoggedTasks, Rankings
from camdf.core.stopping import first_stop
from camdf.policies import fields
from camdf.policies.base import FittedPolicy
from camdf.policies.fields import LARGEST
from camdf.policies.linear import LinearModel, model_field
from camdf.policies.tuning import best_stop_cutoff, between_quantiles

STATES_AT_ONCE = 4096
"""A batch is worked off in pieces of about so many states, so that the workspace stays in cache and never grows."""


def logit(probability: float) -> float:
    """log(p / (1 - p)): thresholds on probabilities are compared as logits, which spares the runtime its sigmoid."""
    return float(np.log(probability) - np.log1p(-probability))


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

    fields = {
        "columns": fields.names,
        "identity": fields.flag,
        "cost_blind": fields.flag,
        "threshold": fields.optional(fields.number),
        "grid": fields.optional(fields.numbers),
        "model_": model_field,
        "cutoff_": fields.number,
    }

    def __init__(
        self,
        columns: Sequence[str],
        *,
        identity: bool = False,
        cost_blind: bool = False,
        threshold: float | None = None,
        grid: Sequence[float] | None = None,
    ) -> None:
        self.columns = tuple(columns)
        self.identity = identity
        self.cost_blind = cost_blind
        self.threshold = threshold
        self.grid = None if grid is None else tuple(grid)

    @abstractmethod
    def learn(self, logged: LoggedTasks, seen: Rankings, payoff: Payoff, tools: tuple[str, ...]) -> LinearModel:
        """Fit the model: targets from `logged`, features from `seen` (its rankings, at mean costs if cost-blind)."""

    def cutoff(self, threshold: float, payoff: Payoff) -> float:
        """A threshold in the units of the evidence: the logit of a probability, unless a subclass says otherwise."""
        return logit(threshold)

    def evidence(self, rankings: Rankings, payoff: Payoff) -> Floats:
        """(n, m): the number that is compared with the cutoff at every depth 0 .. m - 1."""
        model: LinearModel = self.model_
        return model.evidence(self._seen(rankings), payoff)

    def fit(self, logged: LoggedTasks, payoff: Payoff, validation: LoggedTasks | None = None) -> Self:
        rankings = logged.rankings
        tools = rankings.catalogue if self.identity and rankings.shares_catalogue else ()
        self.model_ = self.learn(logged, self._seen(rankings), payoff, tools)
        self.payoff_ = payoff
        self.cutoff_ = self._chosen_cutoff(logged, logged if validation is None else validation, payoff)
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
        return best_stop_cutoff(evidence, validation, payoff, cutoffs, self.stops_above)

    def decide(self, rankings: Rankings, payoff: Payoff) -> Decisions:
        cutoff = self.learned("cutoff_", payoff)
        if rankings.scores.size <= STATES_AT_ONCE:
            return Decisions.prefix(rankings, *self._walk(rankings, payoff, cutoff))
        depth = np.empty(len(rankings), dtype=np.int64)
        evidence = np.empty(rankings.scores.shape)
        rows = max(1, STATES_AT_ONCE // rankings.width)
        for start in range(0, len(rankings), rows):
            piece = slice(start, start + rows)
            depth[piece], evidence[piece] = self._walk(rankings.take(piece), payoff, cutoff)
        return Decisions.prefix(rankings, depth, evidence)

    def _walk(self, rankings: Rankings, payoff: Payoff, cutoff: float) -> tuple[Ints, Floats]:
        evidence = self.evidence(rankings, payoff)
        return first_stop(self.stops(evidence, cutoff), rankings.lengths), evidence

    def stops(self, evidence: Floats, cutoff: float) -> Bools:
        """(n, m): the states whose evidence says stop."""
        return evidence >= cutoff if self.stops_above else evidence < cutoff

    def verify(self) -> None:
        if self.model_.columns != self.columns:
            raise ValueError("model_: its columns must be the policy's, in the same order")
        if self.model_.tools and not self.identity:
            raise ValueError("model_: it weighs tools, but the policy does not use identity")

    def _seen(self, rankings: Rankings) -> Rankings:
        return at_mean_costs(rankings) if self.cost_blind else rankings


def at_mean_costs(rankings: Rankings) -> Rankings:
    """Every candidate at the mean cost of its list: the same rankings to someone who cannot see prices."""
    listed = rankings.listed
    mean = cost_of(rankings, listed) / np.maximum(rankings.lengths, 1)
    return rankings.with_costs(np.where(listed, mean[:, None], 0.0))

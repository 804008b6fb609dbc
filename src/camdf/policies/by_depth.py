"""Expected payoff by depth: model what every prefix adds, then take the prefix with the highest expected payoff."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Self

import numpy as np

from camdf.core.decisions import Decisions
from camdf.core.features import COST_FREE
from camdf.core.payoff import Payoff, ValueFunction
from camdf.core.probability import sigmoid
from camdf.core.rankings import Bools, Floats, LoggedTasks, Rankings, pieces
from camdf.core.sets import leaving_cuts
from camdf.core.sums import before_each
from camdf.errors import UsageError
from camdf.policies.base import FittedPolicy
from camdf.policies.models.linear import LinearModel, fit_logistic, identity_tools
from camdf.policies.models.stored import columns, object_of
from camdf.runtime.settings import truth


class ExpectedPayoffByDepth(FittedPolicy):
    """Acquire the first k candidates, k = argmax of E[v(A_k) | X] - lambda * C_k; of depths that tie, the smallest.

    Nothing is revealed while the list is walked, so this is the Bayes choice among prefixes. Write v_k for v(A_k).
    Every value lies in [0, 1] and never falls as tools are added, hence for each ranking X

        E[v_k - v_0] = E[v_m - v_0] * (sum over t < k of E[v_{t+1} - v_t]) / (sum over t < m of E[v_{t+1} - v_t]).

    Two logistic models stand for the two kinds of expectation: `gain_` for what the next candidate adds at each state,
    `whole_` for what the whole list adds, from its state at depth 0. Both minimize the cross-entropy with the share of
    the value, whose minimizer is the expectation; under the exact value these are the probability that the next
    candidate completes the required set, and that the list holds it at all. The expected value therefore never falls
    with depth and ends at `whole_`, below 1 where retrieval misses.

    No cost and no cost pressure enters a column, so one fit decides at every pressure and every price. The value and
    its recourse are learned: a policy fitted for one refuses another. `identity` adds a one-hot column of the next tool
    to `gain_` where all tasks share one catalogue of at most 64 tools.
    """

    fitted_for = "a value"
    kind = "expected-payoff-by-depth"
    columns: Annotated[tuple[str, ...], columns]
    identity: Annotated[bool, truth]
    gain_: Annotated[LinearModel, object_of(LinearModel)]
    whole_: Annotated[LinearModel, object_of(LinearModel)]

    def __init__(self, columns: Sequence[str] = COST_FREE, *, identity: bool = True) -> None:
        self.store(columns=columns, identity=identity)
        _check_cost_free(self.columns)

    def fit(self, logged: LoggedTasks, payoff: Payoff, validation: LoggedTasks | None = None) -> Self:
        rankings = logged.rankings
        tools = identity_tools(rankings, self.identity)
        worth = payoff.worth_by_depth(logged)
        adds = np.broadcast_to(worth[:, -1:] - worth[:, :1], rankings.scores.shape)
        at_start = rankings.listed & (np.arange(rankings.width) == 0)
        self.gain_ = _fit_share(rankings, payoff, self.columns, tools, rankings.listed, np.diff(worth, axis=1))
        self.whole_ = _fit_share(rankings, payoff, self.columns, (), at_start, adds)
        self.payoff_ = payoff
        return self

    def expected_gain(self, rankings: Rankings) -> Floats:
        """(n, m + 1): E[v(A_k) - v(nothing) | X] at every depth; 0 at depth 0, never falling, level at padding."""
        fitted = self.payoff_
        gain = sigmoid(self.gain_.evidence(rankings, fitted)) * rankings.listed
        so_far = np.cumsum(gain, axis=1)
        whole = sigmoid(self.whole_.evidence(rankings, fitted)[:, :1])
        expected = np.zeros((len(rankings), rankings.width + 1))
        # An empty list in a wider rectangle adds nothing: 0 / 1.
        expected[:, 1:] = whole * (so_far / np.where(rankings.lengths[:, None] > 0, so_far[:, -1:], 1.0))
        return expected

    def decide(self, rankings: Rankings, payoff: Payoff) -> Decisions:
        """The evidence is each prefix's expected payoff less that of acquiring nothing, by its last candidate."""
        self.learned("payoff_", payoff)
        parts = [rankings.take(piece) for piece in pieces(rankings)]
        net = np.concatenate([self._net(part, payoff) for part in parts])
        return Decisions.prefix(rankings, net.argmax(axis=1), net[:, 1:])

    def _net(self, rankings: Rankings, payoff: Payoff) -> Floats:
        """(n, m + 1): the expected payoff of every prefix less that of acquiring nothing."""
        net = self.expected_gain(rankings)
        net[:, 1:] -= payoff.cost_pressure * np.cumsum(rankings.costs, axis=1)
        return net

    def leaving_pressures(self, rankings: Rankings, value: str | ValueFunction, recourse: float) -> Floats:
        """(n, m): the cost pressure at which each candidate leaves, as `camdf.policies.pressure` needs it."""
        return leaving_cuts(self.expected_gain(rankings), before_each(rankings.costs), rankings.lengths)

    def learned(self, name: str, payoff: Payoff) -> Any:
        """A learned attribute, once the policy is known to be fitted, for this value and recourse, at any pressure."""
        fitted = self.__dict__.get("payoff_")
        if fitted is None:
            return super().learned(name, payoff)
        if fitted.value != payoff.value:
            raise UsageError(
                f"This {type(self).__name__} was fitted for the value {fitted.value!r}, which may be decided at any "
                f"cost pressure. Refit it to decide under the value {payoff.value!r}."
            )
        if fitted.recourse != payoff.recourse:
            raise UsageError(
                f"This {type(self).__name__} was fitted for the recourse {fitted.recourse!r}, which may be decided at "
                f"any cost pressure. Refit it to decide under the recourse {payoff.recourse!r}."
            )
        return super().learned(name, fitted)

    def verify(self) -> None:
        _check_cost_free(self.columns)
        if self.gain_.columns != self.columns or self.whole_.columns != self.columns:
            raise ValueError("gain_, whole_: their columns must be the policy's, in the same order")
        if self.whole_.tools or (self.gain_.tools and not self.identity):
            raise ValueError("gain_, whole_: only gain_ may weigh tools, and only where the policy uses identity")


def _check_cost_free(columns: tuple[str, ...]) -> None:
    priced = [name for name in columns if name not in COST_FREE]
    if priced:
        raise UsageError(
            f"The 'columns' of ExpectedPayoffByDepth must be among COST_FREE, so that one fit serves every price. "
            f"Got {priced[0][:40]!r} instead."
        )


def _fit_share(
    rankings: Rankings, payoff: Payoff, columns: Sequence[str], tools: Sequence[str], states: Bools, share: Floats
) -> LinearModel:
    """A logistic model of a share (n, m) in [0, 1]: each state stands once as 1 and once as 0, weighed by its share."""
    twice = rankings.take(np.tile(np.arange(len(rankings)), 2))
    weights = np.concatenate([share, 1.0 - share])
    labels = np.repeat([True, False], len(rankings))[:, None] & np.ones(rankings.width, dtype=bool)
    return fit_logistic(twice, payoff, columns, tools, np.tile(states, (2, 1)) & (weights > 0), labels, weights)

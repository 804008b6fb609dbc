"""Predict first, decide second: model what the prefix is worth, then cut the prediction at a threshold."""

from __future__ import annotations

from collections.abc import Sequence

from camdf.core.features import AGGREGATES
from camdf.core.payoff import Payoff
from camdf.core.rankings import LoggedTasks, Rankings
from camdf.policies.models.linear import LinearModel, fit_logistic, fit_ridge
from camdf.policies.stopping import StoppingPolicy


def all_or_nothing(payoff: Payoff) -> bool:
    """Whether a set is worth 1 or nothing: the exact value, without recourse."""
    return payoff.value == "exact" and payoff.recourse == 0


class PredictThenThreshold(StoppingPolicy):
    """Predict the value of the current prefix and stop once the prediction reaches a threshold.

    Where that value is all or nothing (exact, without recourse) the prediction is the probability of sufficiency
    (logistic); elsewhere it is the value itself (ridge), as in the paper's MCP-Atlas protocol. The columns default to
    the 16 cost-inclusive aggregates; the paper's cross-scorer pipeline uses the 9 of `SCORE_AGGREGATES`, its Atlas
    pipelines `COST_FREE` and `COST_AUGMENTED`.
    """

    kind = "predict-then-threshold"

    def __init__(
        self,
        columns: Sequence[str] = AGGREGATES,
        *,
        identity: bool = False,
        cost_blind: bool = False,
        threshold: float | None = None,
        grid: Sequence[float] | None = None,
    ) -> None:
        super().__init__(columns, identity=identity, cost_blind=cost_blind, threshold=threshold, grid=grid)

    def cutoff(self, threshold: float, payoff: Payoff) -> float:
        if all_or_nothing(payoff):
            return super().cutoff(threshold, payoff)
        return threshold

    def learn(self, logged: LoggedTasks, seen: Rankings, payoff: Payoff, tools: tuple[str, ...]) -> LinearModel:
        worth = payoff.worth_by_depth(logged)[:, :-1]
        if all_or_nothing(payoff):
            return fit_logistic(seen, payoff, self.columns, tools, seen.listed, worth == 1.0)
        return fit_ridge(seen, payoff, self.columns, tools, seen.listed, worth)

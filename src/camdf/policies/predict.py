"""Predict first, decide second: model what the prefix is worth, then cut the prediction at a threshold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import numpy as np

from camdf.core.features import AGGREGATES, FULL
from camdf.core.groups import numbered
from camdf.core.payoff import Payoff
from camdf.core.probability import sigmoid
from camdf.core.rankings import Bools, Floats, LoggedTasks, Rankings
from camdf.models.linear import LinearModel, fit_logistic, fit_ridge
from camdf.policies import fields
from camdf.policies.stopping import StoppingPolicy

FOLDS = 5


def _all_or_nothing(payoff: Payoff) -> bool:
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
        return super().cutoff(threshold, payoff) if _all_or_nothing(payoff) else threshold

    def learn(self, logged: LoggedTasks, seen: Rankings, payoff: Payoff, tools: tuple[str, ...]) -> LinearModel:
        worth = payoff.worth_by_depth(logged)[:, :-1]
        if _all_or_nothing(payoff):
            return fit_logistic(seen, payoff, self.columns, tools, seen.listed, worth == 1.0)
        return fit_ridge(seen, payoff, self.columns, tools, seen.listed, worth)


class ResidualCorrected(PredictThenThreshold):
    """Predict-then-threshold with its cost-related errors predicted away: the paper's negative result.

    Cross-fitting over five folds of groups leaves every training state a prediction from tasks that it does not belong
    to; a ridge model of the residuals on all 32 columns is added to the prediction, and the threshold is tuned anew.
    """

    kind = "residual-corrected"
    fields = {**PredictThenThreshold.fields, "residual_": fields.linear_model}

    def cutoff(self, threshold: float, payoff: Payoff) -> float:
        return threshold

    def fit(self, logged: LoggedTasks, payoff: Payoff, validation: LoggedTasks | None = None) -> Self:
        seen = self._seen(logged.rankings)
        group, _ = numbered(logged.groups)
        worth = payoff.worth_by_depth(logged)[:, :-1]
        residual = np.zeros(worth.shape)
        for fold in range(FOLDS):
            held: Bools = group % FOLDS == fold
            if held.any() and not held.all():
                model = self.learn(logged.take(~held), seen.take(~held), payoff, ())
                residual[held] = worth[held] - self._prediction(model, seen.take(held), payoff)
        self.residual_ = fit_ridge(seen, payoff, FULL, (), seen.listed, residual)
        return super().fit(logged, payoff, validation)

    def verify(self) -> None:
        super().verify()
        if self.residual_.columns != FULL or self.residual_.tools:
            raise ValueError("residual_: its columns must be the full feature map, without tools")

    def evidence(self, rankings: Rankings, payoff: Payoff) -> Floats:
        seen = self._seen(rankings)
        return self._prediction(self.model_, seen, payoff) + self.residual_.evidence(seen, payoff)

    def _prediction(self, model: LinearModel, seen: Rankings, payoff: Payoff) -> Floats:
        z = model.evidence(seen, payoff)
        return sigmoid(z) if _all_or_nothing(payoff) else z

"""CAM-DF and its family: stop where the regret-weighted classifier says that no later prefix pays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from camdf.core.features import AGGREGATES, FULL, LITE
from camdf.core.payoff import Payoff
from camdf.core.rankings import LoggedTasks, Rankings
from camdf.core.stopping import hindsight_targets
from camdf.policies import fields
from camdf.policies.linear import LinearModel, fit_logistic, fit_ridge
from camdf.policies.stopping import StoppingPolicy


class CAMDF(StoppingPolicy):
    """The paper's CAM-DF: P(stop) from a logistic model whose errors weigh what they cost; stop at P >= 0.5.

    Minimises the mean of (|gap| + 0.0001) * logistic loss + L2 over all nonterminal states of the training tasks, where
    the label says whether the gap between stopping and the best later prefix is not negative (Equation 5).

    `weights="uniform"` drops the regret weights, `identity=False` the next-tool columns, `threshold=None` tunes the
    stop threshold on validation: the paper's ablations and controls.
    """

    kind = "cam-df"
    fields = {**StoppingPolicy.fields, "weights": fields.choice("regret", "uniform")}

    def __init__(
        self,
        columns: Sequence[str] = FULL,
        *,
        identity: bool = True,
        cost_blind: bool = False,
        weights: Literal["regret", "uniform"] = "regret",
        threshold: float | None = 0.5,
        grid: Sequence[float] | None = None,
    ) -> None:
        super().__init__(columns, identity=identity, cost_blind=cost_blind, threshold=threshold, grid=grid)
        self.weights = weights

    def learn(self, logged: LoggedTasks, seen: Rankings, payoff: Payoff, tools: tuple[str, ...]) -> LinearModel:
        targets = hindsight_targets(logged, payoff)
        labels = targets.stop if self.stops_above else ~targets.stop
        weights = targets.weight if self.weights == "regret" else None
        return fit_logistic(seen, payoff, self.columns, tools, targets.state, labels, weights)


class CAMDFLite(CAMDF):
    """The interpretable variant: exactly ten columns, P(continue), stop below a threshold tuned on validation.

    Positive coefficients favour going on (the paper's Table A9).
    """

    kind = "cam-df-lite"
    stops_above = False

    def __init__(
        self,
        columns: Sequence[str] = LITE,
        *,
        identity: bool = False,
        cost_blind: bool = False,
        weights: Literal["regret", "uniform"] = "regret",
        threshold: float | None = None,
        grid: Sequence[float] | None = None,
    ) -> None:
        super().__init__(
            columns, identity=identity, cost_blind=cost_blind, weights=weights, threshold=threshold, grid=grid
        )


class AggregateOnlyDF(CAMDF):
    """CAM-DF's objective on the 16 aggregates alone: no next tool, no interactions, no identity.

    The paper uses this name for two baselines. This is Retail's, as its ablation table defines it. The one of WorkBench
    and tau2, which equals CAM-DF where all costs are equal, is `CAMDF(cost_blind=True)`.
    """

    kind = "aggregate-only-df"

    def __init__(
        self,
        columns: Sequence[str] = AGGREGATES,
        *,
        identity: bool = False,
        cost_blind: bool = False,
        weights: Literal["regret", "uniform"] = "regret",
        threshold: float | None = 0.5,
        grid: Sequence[float] | None = None,
    ) -> None:
        super().__init__(
            columns, identity=identity, cost_blind=cost_blind, weights=weights, threshold=threshold, grid=grid
        )


class GapRegression(StoppingPolicy):
    """Regress the gap itself and stop where the prediction is not negative: the paper's objective ablation."""

    kind = "gap-regression"

    def __init__(
        self,
        columns: Sequence[str] = FULL,
        *,
        identity: bool = True,
        cost_blind: bool = False,
        threshold: float | None = 0.0,
        grid: Sequence[float] | None = None,
    ) -> None:
        super().__init__(columns, identity=identity, cost_blind=cost_blind, threshold=threshold, grid=grid)

    def cutoff(self, threshold: float, payoff: Payoff) -> float:
        return threshold

    def learn(self, logged: LoggedTasks, seen: Rankings, payoff: Payoff, tools: tuple[str, ...]) -> LinearModel:
        targets = hindsight_targets(logged, payoff)
        return fit_ridge(seen, payoff, self.columns, tools, targets.state, targets.gap)

"""Policies that only the paper's tables compare; where the lab is installed, `camdf.load` and `--policy` know them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, Self

import numpy as np

from camdf.core.features import AGGREGATES, FULL
from camdf.core.groups import numbered
from camdf.core.payoff import Payoff
from camdf.core.probability import sigmoid
from camdf.core.rankings import Bools, Floats, Ints, LoggedTasks, Rankings
from camdf.core.stopping import hindsight_targets
from camdf.policies.base import Policy
from camdf.policies.camdf import CAMDF
from camdf.policies.models.linear import LinearModel, fit_ridge
from camdf.policies.models.stored import number, numbers, object_of
from camdf.policies.predict import PredictThenThreshold, all_or_nothing
from camdf.policies.rules import ScoreThreshold
from camdf.policies.stopping import StoppingPolicy
from camdf.runtime.settings import or_none

FOLDS = 5


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
        target: Literal["hindsight", "on-policy"] = "hindsight",
        threshold: float | None = 0.5,
        grid: Sequence[float] | None = None,
    ) -> None:
        super().__init__(
            columns,
            identity=identity,
            cost_blind=cost_blind,
            weights=weights,
            target=target,
            threshold=threshold,
            grid=grid,
        )


class GapRegression(StoppingPolicy):
    """Regress the gap itself and stop where the prediction is not negative: the paper's objective ablation."""

    kind = "gap-regression"
    threshold: Annotated[float | None, or_none(number)]
    grid: Annotated[tuple[float, ...] | None, or_none(numbers)]

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


class ResidualCorrected(PredictThenThreshold):
    """Predict-then-threshold with its cost-related errors predicted away: the paper's negative result.

    Cross-fitting over five folds of groups leaves every training state a prediction from tasks that it does not belong
    to; a ridge model of the residuals on all 32 columns is added to the prediction, and the threshold is tuned anew.
    """

    kind = "residual-corrected"
    residual_: Annotated[LinearModel, object_of(LinearModel)]

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
        return sigmoid(z) if all_or_nothing(payoff) else z


@dataclass(frozen=True, eq=False)
class MarkedRankings(Rankings):
    """Rankings of which a rule outside of them (keywords, say) has chosen some candidates: (n, m) marks."""

    preselected: Bools = field(kw_only=True)

    @classmethod
    def of(cls, rankings: Rankings, preselected: Bools) -> MarkedRankings:
        """The same rankings with these marks."""
        return cls(**{**vars(rankings), "preselected": preselected})

    def arrays_of_tasks(self) -> dict[str, Any]:
        return {**super().arrays_of_tasks(), "preselected": self.preselected}

    def reordered(self, order: Ints) -> Rankings:
        marks = np.take_along_axis(self.preselected, order, axis=1)
        return MarkedRankings.of(super().reordered(order), marks)

    def padded_to(self, width: int) -> Rankings:
        marks = np.pad(self.preselected, ((0, 0), (0, width - self.width)))
        return MarkedRankings.of(super().padded_to(width), marks)


class KeywordRule(ScoreThreshold):
    """Acquire what a hand-written rule preselected, and every tool with s_j >= tau (the paper's Retail rule).

    Of rankings without marks (`MarkedRankings`) nothing is preselected.
    """

    kind = "keyword-rule"

    def acquire(self, rankings: Rankings, threshold: float) -> Bools:
        chosen = super().acquire(rankings, threshold)
        if isinstance(rankings, MarkedRankings):
            chosen = chosen | rankings.preselected
        return chosen


def preselect_keywords(rankings: Rankings, texts: Sequence[str], keywords: dict[str, Sequence[str]]) -> MarkedRankings:
    """Marked are candidates one of whose keywords stands in the task's text: literal words, any case, no patterns."""
    lowered = [text.lower() for text in texts]
    chosen = np.zeros((len(rankings), len(rankings.catalogue) + 1), dtype=bool)
    for column, tool in enumerate(rankings.catalogue):
        words = [word.lower() for word in keywords.get(tool, ())]
        chosen[:, column] = [_has_any(text, words) for text in lowered]
    return MarkedRankings.of(rankings, np.take_along_axis(chosen, rankings.tool_ids, axis=1))


def _has_any(text: str, words: Sequence[str]) -> bool:
    return any(word in text for word in words)


LIBRARY: tuple[type[Policy], ...] = (AggregateOnlyDF, GapRegression, KeywordRule, ResidualCorrected)
"""What the entry points of this distribution name (`camdf.policies` in `lab/pyproject.toml`)."""

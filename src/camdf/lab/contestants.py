"""Every policy that the studies compare, by the name that tables and records use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Self

import numpy as np

from camdf.core.decisions import Decisions
from camdf.core.features import COST_AUGMENTED, COST_FREE, SCORE_AGGREGATES
from camdf.core.payoff import Payoff
from camdf.core.rankings import Ints, LoggedTasks, Rankings
from camdf.policies.base import Policy
from camdf.policies.by_depth import ExpectedPayoffByDepth
from camdf.policies.by_set import ExpectedPayoffBySet
from camdf.policies.camdf import CAMDF, AggregateOnlyDF, CAMDFLite, GapRegression
from camdf.policies.predicates import LargestGap, PlugIn, ScoreAtLeast, ScoreMass
from camdf.policies.simple import AcquireAll, ConstantSet, FixedK, ScorePerCostThreshold, ScoreThreshold
from camdf.policies.sufficiency import PredictThenThreshold, ResidualCorrected


class InRatioOrder(Policy):
    """Another policy, walking every list by score per cost instead of by score: the paper's ordering contrast."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy

    def fit(self, logged: LoggedTasks, payoff: Payoff, validation: LoggedTasks | None = None) -> Self:
        other = None if validation is None else validation.reordered(by_score_per_cost(validation.rankings))
        self.policy.fit(logged.reordered(by_score_per_cost(logged.rankings)), payoff, other)
        return self

    def decide(self, rankings: Rankings, payoff: Payoff) -> Decisions:
        order = by_score_per_cost(rankings)
        walked = self.policy.decide(rankings.reordered(order), payoff).acquired
        acquired = np.zeros_like(walked)
        np.put_along_axis(acquired, order, walked, axis=1)
        return Decisions(acquired)


def by_score_per_cost(rankings: Rankings) -> Ints:
    """Positions that put every list in the order of score per cost; ties keep their rank."""
    return rankings.order_by(ScorePerCostThreshold().index(rankings))


CONTESTANTS: dict[str, Callable[[], Policy]] = {
    "acquire-all": AcquireAll,
    "fixed-k": FixedK,
    "score-threshold": ScoreThreshold,
    "score-per-cost": ScorePerCostThreshold,
    "constant-set": ConstantSet,
    "predict": PredictThenThreshold,
    "predict, scores only": lambda: PredictThenThreshold(SCORE_AGGREGATES),
    "predict, fixed 0.5": lambda: PredictThenThreshold(threshold=0.5),
    "predict, scores only, fixed 0.5": lambda: PredictThenThreshold(SCORE_AGGREGATES, threshold=0.5),
    "predict, cost-free": lambda: PredictThenThreshold(COST_FREE),
    "predict, cost-augmented": lambda: PredictThenThreshold(COST_AUGMENTED),
    "predict, residual-corrected": ResidualCorrected,
    "aggregate-only": AggregateOnlyDF,
    "cam-df": CAMDF,
    "cam-df-lite": CAMDFLite,
    "cam-df, no identity": lambda: CAMDF(identity=False),
    "cam-df, uniform weights": lambda: CAMDF(weights="uniform"),
    "cam-df, tuned": lambda: CAMDF(threshold=None),
    "cam-df, cost-blind": lambda: CAMDF(cost_blind=True),
    "cam-df, no identity, cost-blind": lambda: CAMDF(identity=False, cost_blind=True),
    "cam-df, ratio order": lambda: InRatioOrder(CAMDF()),
    "cam-df, on-policy": lambda: CAMDF(target="on-policy"),
    "by-depth": ExpectedPayoffByDepth,
    "by-set": ExpectedPayoffBySet,
    "by-set, trusting": lambda: ExpectedPayoffBySet(trust_labels=True),
    "gap regression": GapRegression,
    "lite, cost-free": lambda: CAMDFLite(COST_FREE),
    "lite, cost-augmented": lambda: CAMDFLite(COST_AUGMENTED),
    "score at least 0.5": ScoreAtLeast,
    "largest gap": LargestGap,
    "80% score mass": ScoreMass,
    "plug-in": PlugIn,
}

"""The policies that the paper's tables compare: the product's, the lab's, and CAM-DF walking lists in another order."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Self

import numpy as np

from camdf.core.decisions import Decisions
from camdf.core.payoff import Payoff
from camdf.core.rankings import Ints, LoggedTasks, Rankings
from camdf.policies.base import Policy
from camdf.policies.camdf import CAMDF
from camdf.policies.registry import POLICIES
from camdf.policies.rules import ScorePerCostThreshold
from camdf_lab.policies import LIBRARY, KeywordRule


class InRatioOrder(Policy):
    """Another policy, which sees every list in the order of score per cost: the paper's contrast on ordering."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy

    def fit(self, logged: LoggedTasks, payoff: Payoff, validation: LoggedTasks | None = None) -> Self:
        if validation is not None:
            validation = validation.reordered(by_score_per_cost(validation.rankings))
        self.policy.fit(logged.reordered(by_score_per_cost(logged.rankings)), payoff, validation)
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


CONTESTANTS: Mapping[str, Callable[[], Policy]] = {
    **POLICIES,
    **{policy.kind: policy for policy in LIBRARY if policy is not KeywordRule},
    "cam-df, ratio order": lambda: InRatioOrder(CAMDF()),
}
"""By name, each makes a new, unfitted policy. The keyword rule is left out: no dataset here comes with keywords."""

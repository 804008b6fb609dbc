"""Expected payoff by the number of tools handed over, as the policy itself sees it."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from camdf.core.payoff import Payoff
from camdf.core.rankings import Rankings
from camdf.core.sums import before_each
from camdf.errors import needs
from camdf.policies.base import Policy
from camdf.policies.by_set import ExpectedPayoffBySet

with needs("serve"):
    from msgspec import Struct


class PayoffPoint(Struct, kw_only=True):
    """So many tools, taken in the order that pays best: what they are worth, and what is left after their cost."""

    tools: int
    value: float
    payoff: float


def curve(policy: Policy, scores: Mapping[str, float], costs: Mapping[str, float], payoff: Payoff) -> list[PayoffPoint]:
    """One point for each number of tools; none where the policy does not say what a set is worth."""
    if not isinstance(policy, ExpectedPayoffBySet) or not scores:
        return []
    rankings = Rankings.from_scores(scores, {name: costs[name] for name in scores})
    probability, holds = policy.probabilities(rankings)
    if payoff.value == "exact":
        _, value, cost = policy.cuts(rankings, probability, holds, payoff.recourse)
    else:
        leaving = policy.leaving_pressures(rankings, payoff.value, payoff.recourse)
        order = np.argsort(-leaving, axis=1, kind="stable")
        value = before_each(np.take_along_axis(leaving * rankings.costs, order, axis=1))
        cost = before_each(np.take_along_axis(rankings.costs, order, axis=1))
    left = value - payoff.cost_pressure * cost
    pairs = zip(value[0].tolist(), left[0].tolist(), strict=True)
    return [PayoffPoint(tools=count, value=worth, payoff=net) for count, (worth, net) in enumerate(pairs)]

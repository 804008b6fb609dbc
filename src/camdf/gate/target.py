"""Say what a gate should hand over, not what a tool is worth: the cost pressure that a target comes to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np

from camdf.core.payoff import Payoff
from camdf.core.rankings import Rankings
from camdf.core.vectors import from_bytes
from camdf.errors import UsageError
from camdf.gate.decision import GateDecision
from camdf.gate.ranking import Ranked
from camdf.policies.base import Policy
from camdf.policies.pressure import pressure_for_budget, pressure_for_estimate, pressure_for_tools
from camdf.runtime.settings import Settings, number, or_none
from camdf.scorers.base import says_nothing


@dataclass(frozen=True)
class Target(Settings):
    """One of three: how many tools a task gets on average, what they may cost, or how often they should suffice.

    The first two are measured on a sample, the last is the policy's own estimate: it is as good as the policy, and a
    promise only once labels are there (`camdf.pressure_for_sufficiency`).
    """

    mean_tools: Annotated[float | None, or_none(number())] = None
    """How many tools a task gets on average."""

    sufficiency: Annotated[float | None, or_none(number())] = None
    """The share of tasks that need no other tool, as the policy estimates."""

    dollars_per_task: Annotated[float | None, or_none(number())] = None
    """What the tools of a task may cost on average."""

    def __post_init__(self) -> None:
        super().__post_init__()
        given = {name: value for name, value in vars(self).items() if value is not None}
        if len(given) != 1:
            raise UsageError(
                f"Give one of mean_tools, sufficiency and dollars_per_task. Got {', '.join(given) or 'none'} instead."
            )

    def payoff(self, policy: Policy, scored: Sequence[tuple[Sequence[Ranked], bytes]], like: Payoff) -> Payoff:
        """The payoff whose cost pressure comes nearest to the target on a sample of scored requests.

        Value and recourse stay those of `like`. The bytes are the directions of the requests' texts, where the policy
        reads them.
        """
        known = [pair for pair in scored if pair[0]]
        if not known:
            raise UsageError("A target is found on at least one request that could be scored. Got none.")
        lists, vectors = zip(*known, strict=True)
        rankings = _priced_rankings(lists)
        if all(vectors):
            rankings = replace(rankings, vectors=from_bytes(vectors))
        sample = (policy, rankings, like.value, like.recourse)
        if self.mean_tools is not None:
            return pressure_for_tools(*sample, tools=self.mean_tools)
        if self.dollars_per_task is not None:
            return pressure_for_budget(*sample, budget=self.dollars_per_task)
        assert self.sufficiency is not None
        return pressure_for_estimate(*sample, sufficiency=self.sufficiency)


def scored_among(decisions: Sequence[GateDecision]) -> list[tuple[tuple[Ranked, ...], bytes]]:
    """What trusted tools were ranked in each decision that a scorer told apart, and the direction of its text."""
    scored: list[tuple[tuple[Ranked, ...], bytes]] = []
    for decision in decisions:
        ranking = tuple(tool for tool in decision.ranking if tool.trusted)
        if ranking and not says_nothing([tool.score for tool in ranking]):
            scored.append((ranking, decision.vector))
    if decisions and not scored:
        why = decisions[-1].error or decisions[-1].reason
        raise UsageError(f"None of these {len(decisions)} requests could be scored: {why}. Try the scorer by itself.")
    return scored


def _priced_rankings(lists: Sequence[Sequence[Ranked]]) -> Rankings:
    """Scored requests as a policy reads them, each candidate at its own cost."""
    rankings = Rankings.from_scores([_scores_by_name(ranking) for ranking in lists])
    costs = np.zeros(rankings.costs.shape)
    for row, ranking in enumerate(lists):
        cost_of = {tool.name: tool.cost for tool in ranking}
        costs[row, : len(ranking)] = [cost_of[name] for name in rankings.names(row)]
    return rankings.with_costs(costs)


def _scores_by_name(ranking: Sequence[Ranked]) -> dict[str, float]:
    return {tool.name: tool.score for tool in ranking}

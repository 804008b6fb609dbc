"""Does a policy pay on these tasks? The answer that an operator needs, with baselines, intervals and one sentence."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Self

from camdf._progress import Progress, counted, silent
from camdf.core.decisions import Decisions
from camdf.core.groups import numbered
from camdf.core.payoff import Payoff
from camdf.core.rankings import LoggedTasks, Rankings
from camdf.core.resampling import Interval
from camdf.evaluation.replay import ORACLE, Outcomes, replay
from camdf.evaluation.splits import draw_splits
from camdf.policies.base import Policy
from camdf.policies.registry import POLICIES

SIMPLE_RULES = ("fixed-k", "score-threshold", "score-per-cost-threshold", "constant-set")
"""What a policy must beat to be worth its keep; each is tuned on the same tasks."""

SUBJECT = "this policy"


@dataclass(frozen=True, eq=False)
class Assessment:
    """A policy beside the simple rules on held-out tasks, and its margin over the best of them."""

    outcomes: Outcomes
    subject: str
    best_rule: str
    margin: Interval

    @property
    def pays(self) -> bool:
        """True where the margin's whole interval lies above zero."""
        return self.margin.low > 0

    @property
    def verdict(self) -> str:
        """One sentence: what to do."""
        rule = f"the best simple rule ({self.best_rule})"
        figures = f"{self.margin.mean:+.3f} over {rule}, 95% CI {self.margin.low:+.3f} to {self.margin.high:+.3f}"
        if self.pays:
            return f"pays: {figures}"
        if self.margin.high < 0:
            return f"does not pay: {figures}; ship the {self.best_rule} rule"
        return f"not shown to pay: {figures}; ship the {self.best_rule} rule, or log more tasks"

    def table(self) -> str:
        """The policy, the rules and the oracle as aligned text, best payoff first, with margins over each."""
        names = [name for name in self.outcomes.values if name != ORACLE]
        names.sort(key=lambda name: -self.outcomes.mean(name))
        width = max(map(len, [*names, ORACLE]))
        head = f"{'':{width}}  payoff  sufficient    cost  tools   {self.subject} minus it"
        lines = [head]
        for name in [*names, ORACLE]:
            mean = self.outcomes.mean
            margin = "" if name == self.subject else str(self.outcomes.difference(self.subject, name, by_group=True))
            lines.append(
                f"{name:{width}}  {mean(name):6.3f}  {mean(name, 'sufficiency'):10.0%}  {mean(name, 'cost'):6.2f}"
                f"  {mean(name, 'tools'):5.2f}   {margin}".rstrip()
            )
        return "\n".join(lines)


class Fixed(Policy):
    """A policy that is already fitted, and stays as it is when a replay would fit it."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy

    def fit(self, logged: LoggedTasks, payoff: Payoff, validation: LoggedTasks | None = None) -> Self:
        return self

    def decide(self, rankings: Rankings, payoff: Payoff) -> Decisions:
        return self.policy.decide(rankings, payoff)


def assess(
    make: Callable[[], Policy],
    logged: LoggedTasks,
    payoff: Payoff,
    *,
    splits: int = 30,
    seed: int = 0,
    subject: str = SUBJECT,
    rules: Mapping[str, Callable[[], Policy]] | None = None,
    progress: Progress = silent,
) -> Assessment:
    """Replay a policy and the simple rules over splits that keep groups together; intervals resample groups.

    The best rule is picked in hindsight on the same tasks, which favours the rules: a policy that pays here pays.
    """
    chosen = {name: POLICIES[name] for name in SIMPLE_RULES} if rules is None else dict(rules)
    grouped = numbered(logged.groups)[1] < len(logged)
    drawn = draw_splits(logged, splits, seed, grouped=grouped)
    outcomes = replay({subject: make, **chosen}, logged, payoff, counted(drawn, splits, progress))
    best = max(chosen, key=lambda name: outcomes.mean(name))
    return Assessment(outcomes, subject, best, outcomes.difference(subject, best, by_group=True))

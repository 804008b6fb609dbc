"""Replay: fit policies on logged tasks, decide on held-out ones, and keep what each decision paid, task by task."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from camdf.core.decisions import Decisions
from camdf.core.payoff import Payoff, cost_of
from camdf.core.rankings import Bools, Floats, Ints, LoggedTasks, Rankings, Strings
from camdf.core.resampling import Interval, paired_bootstrap
from camdf.core.stopping import prefix_oracle
from camdf.evaluation.splits import Split
from camdf.gate.fold import handed_over
from camdf.policies.base import Policy
from camdf.policies.rules import AcquireAll

MEASURES = ("payoff", "sufficiency", "cost", "waste", "tools")
"""What is kept of a decision: its payoff, 1 if all required tools were acquired, the cost of what was acquired, the
cost of what was acquired and not required, and how many tools were acquired."""

DANGERS = ("covered", "exposed", "needless")
"""What is kept besides where tools have effects: 1 if all required tools with effects were acquired, how many of these
were acquired, and 1 if any of them was not required."""

ORACLE = "prefix-oracle"
"""The name under which the oracle is reported; it is no policy, because it sees the labels."""


@dataclass(frozen=True, eq=False)
class Outcomes:
    """What each policy's decisions paid and cost: every mean is per task over its test appearances.

    `values` maps a policy's name to (tasks, measures); a task that was never tested has NaN. `by_split` maps it to the
    pooled payoffs of all test appearances, for the paper's standard errors.
    """

    task_ids: Strings
    groups: Strings
    values: Mapping[str, Floats]
    by_split: Mapping[str, Floats]

    @property
    def measures(self) -> tuple[str, ...]:
        """What is kept: `MEASURES`, and `DANGERS` where tools have effects."""
        columns = max((values.shape[1] for values in self.values.values()), default=0)
        return MEASURES if columns <= len(MEASURES) else (*MEASURES, *DANGERS)

    def mean(self, policy: str, measure: str = "payoff") -> float:
        """Over tasks, of the mean over a task's test appearances."""
        return float(np.nanmean(self.values[policy][:, self.measures.index(measure)]))

    def standard_error(self, policy: str) -> float:
        """Of the payoff, over pooled task and split records, as the paper's Table A3 has it."""
        pooled = self.by_split[policy]
        if len(pooled) < 2:
            return 0.0
        return float(pooled.std(ddof=1) / np.sqrt(len(pooled)))

    def difference(self, policy: str, baseline: str, *, by_group: bool = False, seed: int = 0) -> Interval:
        """Mean payoff of `policy` minus `baseline` with its paired bootstrap interval, over tasks or over groups."""
        paired = self.values[policy][:, 0] - self.values[baseline][:, 0]
        tested = ~np.isnan(paired)
        groups = self.groups[tested] if by_group else None
        return paired_bootstrap(paired[tested], seed, groups=groups)

    def win_rate(self, policy: str, baseline: str) -> float:
        """The share of tasks on which `policy` pays more; a tie counts for neither."""
        paired = self.values[policy][:, 0] - self.values[baseline][:, 0]
        return float((paired[~np.isnan(paired)] > 0).mean())


def all_handed_over(
    rankings: Rankings,
    decisions: Decisions,
    given: Bools | None = None,
    at_least: int = 0,
    at_most: int | None = None,
    *,
    searches: bool = False,
) -> Bools:
    """(n, m): what a gate with these bounds makes of a policy's decisions, by its own `handed_over`.

    `given` marks the tools that stay whatever a policy says. Where nothing is decided, a task whose agent `searches`
    gets those alone, and any other its whole list.
    """
    acquired = decisions.acquired
    if given is None:
        given = np.zeros_like(acquired)
    handed = given.copy() if searches else rankings.listed.copy()
    chances = [None] * len(rankings) if decisions.none is None else decisions.none.tolist()
    columns = (rankings.lengths.tolist(), rankings.scores.tolist(), acquired.tolist(), given.tolist(), chances)
    for row, (length, scores, chosen, stays, none) in enumerate(zip(*columns, strict=True)):
        marks = handed_over(scores[:length], chosen[:length], stays[:length], at_least, at_most, none=none)
        if marks is not None:
            handed[row, :length] = marks
    return handed


def _handed_over_by_gate(policy: Policy, rankings: Rankings, payoff: Payoff, decisions: Decisions) -> Bools:
    """(n, m): what a gate hands over where a policy decides so; agents can search where a miss has recourse."""
    decides = policy.policy if isinstance(policy, Fixed) else policy
    searches = payoff.recourse > 0 and not isinstance(decides, AcquireAll)
    return all_handed_over(rankings, decisions, searches=searches)


class Fixed(Policy):
    """A policy that is already fitted, and stays as it is when a replay would fit it."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy

    def fit(self, logged: LoggedTasks, payoff: Payoff, validation: LoggedTasks | None = None) -> Self:
        return self

    def decide(self, rankings: Rankings, payoff: Payoff) -> Decisions:
        return self.policy.decide(rankings, payoff)


def exposing(logged: LoggedTasks, acquired: Bools, with_effects: Collection[str]) -> Floats:
    """(n, 3): what the acquired candidates of each task expose, `DANGERS`, where these tools have effects."""
    exposed = acquired & logged.rankings.among(with_effects)
    return np.column_stack(
        [
            logged.needing(with_effects).sufficient(acquired),
            exposed.sum(axis=1),
            (exposed & ~logged.required).any(axis=1),
        ]
    ).astype(np.float64)


def measured(logged: LoggedTasks, payoff: Payoff, acquired: Bools) -> Floats:
    """(n, measures): what the acquired candidates of each task paid and cost."""
    return np.column_stack(
        [
            payoff.of(logged, acquired),
            logged.sufficient(acquired),
            cost_of(logged.rankings, acquired),
            cost_of(logged.rankings, acquired & ~logged.required),
            acquired.sum(axis=1),
        ]
    ).astype(np.float64)


class Tally:
    """Measures added up by name and task over the splits that test it."""

    def __init__(self, logged: LoggedTasks, with_effects: Collection[str] = ()) -> None:
        self.logged = logged
        self.with_effects = with_effects
        self.totals: dict[str, Floats] = {}
        self.pooled: dict[str, list[Floats]] = {}
        self.appearances = np.zeros(len(logged))

    def add(self, name: str, rows: Ints, test: LoggedTasks, payoff: Payoff, decisions: Decisions) -> None:
        """Measure decisions on the test tasks, which stand in these rows."""
        values = measured(test, payoff, decisions.acquired)
        if self.with_effects:
            values = np.hstack([values, exposing(test, decisions.acquired, self.with_effects)])
        self.totals.setdefault(name, np.zeros((len(self.logged), values.shape[1])))[rows] += values
        self.pooled.setdefault(name, []).append(values[:, 0])

    def outcomes(self) -> Outcomes:
        """Means over test appearances."""
        with np.errstate(invalid="ignore"):
            values = {name: total / self.appearances[:, None] for name, total in self.totals.items()}
        by_split = {name: np.concatenate(parts) for name, parts in self.pooled.items()}
        return Outcomes(self.logged.task_ids, self.logged.groups, values, by_split)


def replay(
    policies: Mapping[str, Callable[[], Policy]],
    logged: LoggedTasks,
    payoff: Payoff,
    splits: Iterable[Split],
    *,
    training: Callable[[LoggedTasks, int], LoggedTasks] | None = None,
    pricing: Callable[[LoggedTasks, int], LoggedTasks] | None = None,
    gated: bool = True,
    with_effects: Collection[str] = (),
) -> Outcomes:
    """Fit every policy anew on each split and measure it on the test tasks; the prefix oracle stands beside them.

    Where a split has no validation tasks, policies choose on the training tasks.
    `training` changes what is learned from (label noise, say) and `pricing` what tools cost, each by the split's
    number; tests are always measured on true labels. What counts is what a gate hands over; where not `gated`, what a
    policy chose, as the paper counts. Of the tools that `with_effects` names, `DANGERS` are measured too.
    """
    tally = Tally(logged, with_effects)
    for number, split in enumerate(splits):
        priced = logged if pricing is None else pricing(logged, number)
        taught = priced if training is None else training(priced, number)
        train = taught.take(split.train)
        validation = taught.take(split.validation) if len(split.validation) else None
        test = priced.take(split.test)
        tally.appearances[split.test] += 1
        for name, make in policies.items():
            policy = make().fit(train, payoff, validation)
            decisions = policy.decide(test.rankings, payoff)
            if gated:
                handed = _handed_over_by_gate(policy, test.rankings, payoff, decisions)
                decisions = replace(decisions, acquired=handed)
            tally.add(name, split.test, test, payoff, decisions)
        tally.add(ORACLE, split.test, test, payoff, prefix_oracle(test, payoff))
    return tally.outcomes()

"""Replay: fit policies on logged tasks, decide on held-out ones, and keep what each decision paid, task by task."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from camdf.core.decisions import Decisions
from camdf.core.payoff import Payoff, cost_of
from camdf.core.rankings import Bools, Floats, LoggedTasks, Strings
from camdf.core.resampling import RESAMPLES, Interval, paired_bootstrap
from camdf.lab.splits import Split
from camdf.policies.base import Policy
from camdf.policies.oracle import prefix_oracle

MEASURES = ("payoff", "sufficiency", "cost", "waste", "tools")
"""What is kept of a decision: its payoff, 1 if all required tools were acquired, the cost of what was acquired, the
cost of what was acquired and not required, and how many tools were acquired."""

ORACLE = "prefix-oracle"
"""The name under which the oracle is reported; it is no policy, because it sees the labels."""


@dataclass(frozen=True, eq=False)
class Outcomes:
    """What each policy's decisions came to: every mean is per task over its test appearances.

    `values` maps a policy's name to (tasks, measures); a task that was never tested has NaN. `by_split` maps it to the
    pooled payoffs of all test appearances, for the paper's standard errors.
    """

    task_ids: Strings
    groups: Strings
    values: Mapping[str, Floats]
    by_split: Mapping[str, Floats]

    def mean(self, policy: str, measure: str = "payoff") -> float:
        """Over tasks, of the mean over a task's test appearances."""
        return float(np.nanmean(self.values[policy][:, MEASURES.index(measure)]))

    def standard_error(self, policy: str) -> float:
        """Of the payoff, over pooled task and split records, as the paper's Table A3 has it."""
        pooled = self.by_split[policy]
        return float(pooled.std(ddof=1) / np.sqrt(len(pooled))) if len(pooled) > 1 else 0.0

    def difference(
        self, policy: str, baseline: str, *, by_group: bool = False, seed: int = 0, resamples: int = RESAMPLES
    ) -> Interval:
        """Mean payoff of `policy` minus `baseline` with its paired bootstrap interval, over tasks or over groups."""
        paired = self.values[policy][:, 0] - self.values[baseline][:, 0]
        tested = ~np.isnan(paired)
        groups = self.groups[tested] if by_group else None
        return paired_bootstrap(paired[tested], np.random.default_rng(seed), groups=groups, resamples=resamples)

    def win_rate(self, policy: str, baseline: str) -> float:
        """The share of tasks on which `policy` pays more; a tie counts for neither."""
        paired = self.values[policy][:, 0] - self.values[baseline][:, 0]
        return float((paired[~np.isnan(paired)] > 0).mean())


def measured(logged: LoggedTasks, payoff: Payoff, acquired: Bools) -> Floats:
    """(n, measures): what the acquired candidates of each task came to."""
    covered = (logged.required & acquired).sum(axis=1)
    return np.column_stack(
        [
            payoff.of(logged, acquired),
            covered == logged.n_required,
            cost_of(logged.rankings, acquired),
            cost_of(logged.rankings, acquired & ~logged.required),
            acquired.sum(axis=1),
        ]
    ).astype(np.float64)


def replay(
    policies: Mapping[str, Callable[[], Policy]],
    logged: LoggedTasks,
    payoff: Payoff,
    splits: Iterable[Split],
    *,
    training: Callable[[LoggedTasks, int], LoggedTasks] | None = None,
    pricing: Callable[[LoggedTasks, int], LoggedTasks] | None = None,
) -> Outcomes:
    """Fit every policy anew on each split and measure it on the test tasks; the prefix oracle stands beside them.

    Where a split has no validation tasks, policies choose on the training tasks.
    `training` changes what is learned from (label noise, say) and `pricing` what tools cost, each by the split's
    number; tests are always measured on true labels.
    """
    totals = {name: np.zeros((len(logged), len(MEASURES))) for name in (*policies, ORACLE)}
    pooled: dict[str, list[Floats]] = {name: [] for name in totals}
    appearances = np.zeros(len(logged))
    for number, split in enumerate(splits):
        priced = logged if pricing is None else pricing(logged, number)
        taught = priced if training is None else training(priced, number)
        train, validation, test = taught.take(split.train), taught.take(split.validation), priced.take(split.test)
        appearances[split.test] += 1

        def record(name: str, decisions: Decisions, test: LoggedTasks = test, rows: Split = split) -> None:
            values = measured(test, payoff, decisions.acquired)
            totals[name][rows.test] += values
            pooled[name].append(values[:, 0])

        for name, make in policies.items():
            policy = make().fit(train, payoff, validation if len(validation) else None)
            record(name, policy.decide(test.rankings, payoff))
        record(ORACLE, prefix_oracle(test, payoff))
    with np.errstate(invalid="ignore"):
        values = {name: total / appearances[:, None] for name, total in totals.items()}
    by_split = {name: np.concatenate(parts) for name, parts in pooled.items()}
    return Outcomes(logged.task_ids, logged.groups, values, by_split)

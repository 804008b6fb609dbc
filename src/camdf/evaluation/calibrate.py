"""What `camdf calibrate` does: find the cost pressure for a promise or a budget, and say what one gets at it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from camdf.core.groups import numbered
from camdf.core.payoff import Payoff, ValueFunction, cost_of
from camdf.core.rankings import LoggedTasks, pieces
from camdf.core.resampling import Interval, paired_bootstrap
from camdf.errors import UsageError
from camdf.evaluation.assess import amount, what_a_miss_means
from camdf.evaluation.replay import all_handed_over
from camdf.policies.base import Policy
from camdf.policies.pressure import (
    leaving_pressures,
    pressure_for_budget,
    pressure_for_sufficiency,
    pressure_for_tools,
)
from camdf.runtime.settings import checked_setting, number

STEPS = 100
"""How many pressures are tried for a number of tools that a gate is to hand over."""

TARGETS = ("min_sufficiency", "budget", "mean_tools", "task_worth")
"""What a calibration may be for."""


@dataclass(frozen=True)
class Calibration:
    """The payoff that was found, its target, and what its decisions are on these very tasks.

    `sufficiency` is the share of tasks that get every required tool, with its 95% interval, resampling groups. `cost`
    and `tools` are means over tasks, `dearest` is the highest cost of a task; `cost_of_all` and `tools_of_all` are the
    means where every tool is given.
    """

    payoff: Payoff
    target: Mapping[str, float]
    """The one that was named."""

    per_task: bool
    tasks: int
    groups: int
    sufficiency: Interval
    cost: float
    cost_of_all: float
    dearest: float
    tools: float
    tools_of_all: float

    def sentences(self, unit: str = "") -> str:
        """What one gets, what is promised, and what is not; `unit` stands before costs."""
        share = self.sufficiency

        cost = amount(self.cost, self.cost_of_all)
        usual = amount(self.cost_of_all)
        said = (
            f"On these {self.tasks} tasks it keeps every required tool in {share.mean:.1%} of them "
            f"(95% CI {share.low:.1%} to {share.high:.1%}), with {self.tools:.2f} of {self.tools_of_all:.2f} tools a "
            f"task, at a cost of {unit}{cost} instead of {unit}{usual}. In {1 - share.mean:.1%} "
            f"{what_a_miss_means(self.payoff)}."
        )
        if "min_sufficiency" in self.target:
            return f"{said}\n{self._what_is_promised()}"
        return f"{said}\n{self._what_is_measured()}"

    def _what_is_promised(self) -> str:
        drawn = f"these {self.tasks} tasks"
        coming = "a new task"
        if self.groups < self.tasks:
            drawn = f"these {self.groups} groups"
            coming = "a task of a new group"
        return (
            f"Promised: {coming} that is drawn as {drawn} were gets every required tool with a chance of at "
            f"least {self.target['min_sufficiency']:g}, averaged over such draws, whatever the policy has learned.\n"
            "Not promised: the same after this one draw, for each kind of task, or once tasks, tools or scores change. "
            "Then calibrate again."
        )

    def _what_is_measured(self) -> str:
        met = "this is so"
        if "budget" in self.target:
            met = f"the budget of {self.target['budget']:g} is met"
        if self.per_task:
            met = f"the most expensive task costs {amount(self.dearest, self.cost_of_all)}, {met}"
        return (
            f"Measured, not promised: {met} on these tasks, and on "
            "others as far as they are alike. Nothing is promised of the tools that a task gets."
        )

    def summary(self) -> dict[str, Any]:
        """The same for machines."""
        asked = {**dict.fromkeys(TARGETS), **self.target, "per_task": self.per_task}
        names = ("cost", "cost_of_all", "dearest", "tools", "tools_of_all")
        measured = {"sufficiency": asdict(self.sufficiency), **{name: getattr(self, name) for name in names}}
        return {"asked": asked, "measured": measured, "sentences": self.sentences()}


def calibrate(
    policy: Policy,
    logged: LoggedTasks,
    value: str = "exact",
    recourse: float = 0.0,
    *,
    min_sufficiency: float | None = None,
    budget: float | None = None,
    mean_tools: float | None = None,
    task_worth: float | None = None,
    per_task: bool = False,
) -> Calibration:
    """Find the cost pressure for one of the four (`camdf.policies.pressure`) and measure its decisions on these tasks.

    `budget` and `task_worth` are in the unit of the costs.

    >>> from camdf import cold_start, datasets
    >>> found = calibrate(cold_start(), datasets.sample(), budget=3.0)
    >>> round(found.cost, 2), round(found.tools_of_all, 2)
    (2.94, 7.0)
    """
    asked = zip(TARGETS, (min_sufficiency, budget, mean_tools, task_worth), strict=True)
    target = {name: given for name, given in asked if given is not None}
    if len(target) != 1:
        raise UsageError(
            "A calibration is for a 'min_sufficiency', a 'budget', 'mean_tools' or a 'task_worth'. Name one of them."
        )
    if budget is not None:
        payoff = pressure_for_budget(policy, logged, value, recourse, budget=budget, per_task=per_task)
    elif mean_tools is not None:
        payoff = pressure_for_tools(policy, logged, value, recourse, tools=mean_tools)
    elif task_worth is not None:
        payoff = Payoff.from_money(task_worth, value, recourse)
    else:
        payoff = pressure_for_sufficiency(policy, logged, value, recourse, min_sufficiency=target["min_sufficiency"])
    rankings = logged.rankings
    acquired = np.concatenate([policy.decide(rankings.take(piece), payoff).acquired for piece in pieces(rankings)])
    sufficient = logged.sufficient(acquired).astype(np.float64)
    cost = cost_of(rankings, acquired)
    return Calibration(
        payoff,
        target,
        per_task,
        len(logged),
        numbered(logged.groups)[1],
        paired_bootstrap(sufficient, groups=logged.groups),
        float(cost.mean()),
        float(cost_of(rankings, rankings.listed).mean()),
        float(cost.max()),
        float(acquired.sum(axis=1).mean()),
        float(rankings.lengths.mean()),
    )


def pressure_for_handed_over(
    held_out: Iterable[tuple[Policy, LoggedTasks]],
    value: str | ValueFunction = "exact",
    recourse: float = 0.0,
    *,
    tools: float,
) -> tuple[Payoff, float]:
    """The cost pressure at which a gate hands over nearest to so many tools on average, and how many that are.

    Each policy decides on tasks that it was not fitted on. A gate without a search hands over a whole list where a
    policy chooses nothing of it, so more pressure can mean more tools, and there may be no pressure for a number: of
    those that would have a policy choose at most so many, the one that comes nearest is taken.
    """
    checked_setting("pressure_for_handed_over", "tools", tools, number(above=0))
    parts = [(policy, logged.rankings) for policy, logged in held_out]
    tasks = sum(len(rankings) for _, rankings in parts)
    leaving = [leaving_pressures(policy, rankings, value, recourse).ravel() for policy, rankings in parts]
    chosen = np.sort(np.concatenate([np.zeros(1), *leaving]))[::-1]
    places = np.linspace(0, min(tools * tasks, len(chosen) - 1), STEPS).astype(np.int64)

    def handed(pressure: float) -> float:
        payoff = Payoff(pressure, value, recourse)
        given = 0
        for policy, rankings in parts:
            given += int(all_handed_over(rankings, policy.decide(rankings, payoff), searches=recourse > 0).sum())
        return given / tasks

    pressures = np.unique(chosen[places])
    means = np.array([handed(float(pressure)) for pressure in pressures])
    nearest = int(np.abs(means - tools).argmin())
    return Payoff(float(pressures[nearest]), value, recourse), float(means[nearest])

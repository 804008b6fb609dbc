"""Say what is wanted, not what it is worth: the cost pressure for a sufficiency, a budget or a number of tools.

A policy whose sets are nested in the cost pressure (they only grow as it falls) is one family of decisions. Candidate j
of task i is then described by one number, the pressure at which it leaves the set: acquired at every pressure below,
left out at every pressure above. Mean cost and sufficiency are step functions of the pressure that change at these
numbers and nowhere else, so both searches sort them: there is no grid.

    by depth, and exact by set    slopes of the least concave majorant of expected value against cost, along the cuts
    partial by set                (1 - recourse) * E[1{j required} / number required] / c_j

With recourse (`Payoff.recourse`) a promised sufficiency is still that of the tools given up front: the share of tasks
that need no search.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import ceil
from typing import Protocol, runtime_checkable

import numpy as np

from camdf.core.decisions import Decisions
from camdf.core.groups import sizes_of
from camdf.core.payoff import Payoff, ValueFunction, cost_of
from camdf.core.rankings import Bools, Floats, LoggedTasks, Rankings, pieces
from camdf.errors import UsageError
from camdf.policies.base import Policy
from camdf.runtime.settings import checked_setting, number

ROUNDING = 1e-9
"""Summed losses, and costs relative to the budget, count as equal within this: 1 - 0.9 is not 0.1 in binary."""


@runtime_checkable
class Nested(Protocol):
    """A policy whose sets grow as the cost pressure falls, and which says where its candidates leave."""

    def leaving_pressures(self, rankings: Rankings, value: str | ValueFunction, recourse: float) -> Floats:
        """(n, m): acquired at every cost pressure below, left out at every one above; 0 at padding."""
        ...


@runtime_checkable
class Estimating(Protocol):
    """A policy that says how likely a set is to suffice."""

    def estimated_sufficiency(self, rankings: Rankings, acquired: Bools) -> Floats:
        """(n,): the chance that each task needs no tool outside its set."""
        ...


def leaving_pressures(
    policy: Policy, rankings: Rankings, value: str | ValueFunction = "exact", recourse: float = 0.0
) -> Floats:
    """(n, m): the cost pressure at which each candidate leaves its task's set; 0 where it is never in, and at padding.

    `policy.decide` at pressure L acquires exactly the candidates that leave above L. One that leaves at L itself goes
    as the policy breaks ties (out under the exact value, in under the partial one) and as rounding has it: the policy
    compares sums that are rounded at 1e-16, so a number below 1e-12 or so is only known to a few digits.
    """
    free = Payoff(0.0, value, recourse)
    return np.concatenate([_leaving_of_piece(policy, rankings.take(piece), free) for piece in pieces(rankings)])


def sufficient_below(logged: LoggedTasks, leaving: Floats) -> Floats:
    """(n,): each task's set holds all required tools at pressures below this: the first required tool to leave.

    0 where the list lacks a required tool, infinity where nothing is required.
    """
    first: Floats = np.where(logged.required, leaving, np.inf).min(axis=1, initial=np.inf)
    return np.where(logged.missing > 0, 0.0, first)


def pressure_for_sufficiency(
    policy: Policy,
    calibration: LoggedTasks,
    value: str | ValueFunction = "exact",
    recourse: float = 0.0,
    *,
    min_sufficiency: float,
    by_group: bool = True,
) -> Payoff:
    """The highest cost pressure that promises `min_sufficiency` on a task to come, whatever the policy learned.

    `policy` is fitted, `calibration` are labeled tasks that it has not seen. `value` and `recourse` are those of the
    `Payoff` that is returned.

    Conformal risk control (Angelopoulos, Bates, Fisch, Lei and Schuster 2024): a task's loss is 1 where its set lacks a
    required tool, else 0, and never falls as the pressure rises. With R the mean loss on n calibration tasks, this is
    the highest pressure with (n * R + 1) / (n + 1) <= 1 - min_sufficiency. The promise, with L the loss of a new task:

        if the n calibration tasks and the new one are exchangeable (in any order equally likely), and the policy was
        fitted on none of them, then E[L; the level is not refused] <= 1 - min_sufficiency.

    No distribution and no model is assumed. What the promise is not: it is an average over draws of calibration and new
    task, not a bound for one calibration, one kind of task or tasks that have drifted; and where some draws are refused
    (below), the tasks after the other draws may do worse than the level, since a lucky draw is what let them through.

    Tasks of one group are not exchangeable with those of another, so a group is one draw: its loss is the mean over its
    tasks, n counts groups, and the promise is about a task picked at random in a new group. Where every task is its own
    group, as by default, that is the same thing. `by_group=False` counts tasks; it is sound where the tasks to come
    repeat the groups as these do.

    A level that cannot be promised raises UsageError and names the highest that can: with every useful tool given
    (pressure 0) the loss R0 is that of lists that lack a required tool, so the bound is n * (1 - R0) / (n + 1).
    """
    between_0_and_1 = number(above=0, below=1)
    checked_setting("pressure_for_sufficiency", "min_sufficiency", min_sufficiency, between_0_and_1)
    leaving = _leaving_of_some(policy, calibration.rankings, value, recourse)
    below = sufficient_below(calibration, leaving)
    weights = unit_weights(calibration, by_group)
    highest = highest_level(below, weights)
    limit = highest_pressure(below, weights, min_sufficiency)
    if limit is None:
        units = round(float(weights.sum()))
        unit = "groups" if units < len(calibration) else "tasks"
        raise UsageError(
            f"The 'min_sufficiency' must be at most {np.floor(highest * 1e4) / 1e4:.4f}, the highest level that these "
            f"{units} calibration {unit} can promise (all listed tools "
            f"suffice in {highest * (units + 1) / units:.1%} of them, and one more counts as a miss). "
            f"Got {min_sufficiency!r} instead. Calibrate on more tasks, or lengthen the lists that lack required tools."
        )
    if np.isinf(limit):
        return Payoff(float(leaving.max(initial=0.0)), value, recourse)
    allowed = _allowed_loss(weights, min_sufficiency)

    def keeps(decisions: Decisions) -> bool:
        return bool((weights * ~calibration.sufficient(decisions.acquired)).sum() <= allowed + ROUNDING)

    # Any pressure below the limit keeps the promise, so the rounding of `decide` is met by going a little lower.
    below_limit = [limit * (1.0 - 2.0**power) for power in (-48, -40, -32, -24, -16, -8)]
    payoffs = [Payoff(pressure, value, recourse) for pressure in (*below_limit, 0.0)]
    return _first_kept(policy, calibration.rankings, payoffs, keeps)


def pressure_for_budget(
    policy: Policy,
    tasks: Rankings | LoggedTasks,
    value: str | ValueFunction = "exact",
    recourse: float = 0.0,
    *,
    budget: float,
    per_task: bool = False,
) -> Payoff:
    """The lowest cost pressure, so the largest sets, at which the mean cost of these `tasks` is within `budget`.

    `policy` decides, and `value` and `recourse` are those of the `Payoff` that is returned.

    The budget is in the unit of the costs: tools where every cost is 1, else tokens or money a task. `per_task` bounds
    the cost of every one of these tasks instead of their mean. No labels are needed. It is met on these tasks, and on
    others as far as they are alike: this is a measurement, not a promise.
    """
    checked_setting("pressure_for_budget", "budget", budget, number(0))
    rankings = _rankings_of(tasks)
    return _payoff_within(policy, rankings, rankings, budget, value, recourse, per_task)


def pressure_for_tools(
    policy: Policy,
    tasks: Rankings | LoggedTasks,
    value: str | ValueFunction = "exact",
    recourse: float = 0.0,
    *,
    tools: float,
) -> Payoff:
    """The lowest cost pressure, so the largest sets, at which these `tasks` get at most `tools` tools on average.

    `policy` decides, and `value` and `recourse` are those of the `Payoff` that is returned.
    Costs say which tools these are, not how many. No labels are needed; as for a budget, this is a measurement.
    """
    checked_setting("pressure_for_tools", "tools", tools, number(0))
    rankings = _rankings_of(tasks)
    at_one_each = rankings.with_costs(rankings.listed.astype(np.float64))
    return _payoff_within(policy, rankings, at_one_each, tools, value, recourse)


def pressure_for_estimate(
    policy: Policy,
    tasks: Rankings | LoggedTasks,
    value: str | ValueFunction = "exact",
    recourse: float = 0.0,
    *,
    sufficiency: float,
) -> Payoff:
    """The highest cost pressure, so the smallest sets, at which the policy itself expects so many tasks to suffice.

    No labels are needed, and nothing is promised: the estimate is as good as the policy. With labels,
    `pressure_for_sufficiency` promises. A sufficiency that the policy does not expect of whole lists is refused.
    """
    rankings = _rankings_of(tasks)
    leaving = _leaving_of_some(policy, rankings, value, recourse)
    if not isinstance(policy, Estimating):
        raise UsageError(f"{type(policy).__name__} has no estimate of its own. Use ExpectedPayoffBySet.")

    def expected(pressure: float) -> float:
        acquired = policy.decide(rankings, Payoff(pressure, value, recourse)).acquired
        return float(policy.estimated_sufficiency(rankings, acquired).mean())

    steps = np.unique(leaving[leaving > 0])
    between = np.sqrt(steps[1:] * steps[:-1]) if len(steps) > 1 else steps / 2
    pressures = np.append(0.0, between)
    most = expected(0.0)
    checked_setting("pressure_for_estimate", "sufficiency", sufficiency, number(above=0))
    if sufficiency > most:
        raise UsageError(
            f"The 'sufficiency' must be at most {most:.3f}, which is what this policy expects of whole "
            f"lists. Got {sufficiency!r} instead."
        )
    low = 0  # what is expected at pressures[low] reaches it
    high = len(pressures)  # what is expected at pressures[high] does not, or there is no such pressure
    while high - low > 1:
        middle = (low + high) // 2
        if expected(float(pressures[middle])) >= sufficiency:
            low = middle
        else:
            high = middle
    return Payoff(float(pressures[low]), value, recourse)


def pressure_for_coverage(
    held_out: Iterable[tuple[Policy, LoggedTasks]],
    value: str | ValueFunction = "exact",
    recourse: float = 0.0,
    *,
    covered: float,
) -> Payoff:
    """The highest cost pressure at which this share of tasks gets all that they need (`LoggedTasks.needing`).

    Each policy decides on tasks that it was not fitted on. This is a measurement, and no promise: the level is met on
    these tasks, and on others as far as they are alike.
    """
    checked_setting("pressure_for_coverage", "covered", covered, number(above=0, most=1))
    parts = [
        sufficient_below(logged, _leaving_of_some(policy, logged.rankings, value, recourse))
        for policy, logged in held_out
    ]
    below = np.sort(np.concatenate(parts))[::-1]
    limit = float(below[ceil(covered * len(below) - ROUNDING) - 1])
    if limit <= 0:
        raise UsageError(
            f"The 'covered' must be at most {(below > 0).mean():.3f}, the share of tasks that get all that they need "
            f"where nothing has a price. Got {covered!r} instead."
        )
    if np.isinf(limit):
        limit = float(max(below[np.isfinite(below)], default=1.0))
    return Payoff(limit * (1.0 - 2.0**-24), value, recourse)


def unit_weights(logged: LoggedTasks, by_group: bool = True) -> Floats:
    """(n,): what each task counts, so that the tasks of every group count 1 together; 1 for every task otherwise."""
    if not by_group:
        return np.ones(len(logged))
    return 1.0 / sizes_of(logged.groups)


def highest_level(below: Floats, weights: Floats) -> float:
    """The highest sufficiency that can be promised: n * (1 - R0) / (n + 1), with R0 the mean loss at pressure 0."""
    return float((weights * (below > 0)).sum() / (weights.sum() + 1.0))


def highest_pressure(below: Floats, weights: Floats, level: float) -> float | None:
    """The least upper bound of pressures with (n * R + 1) / (n + 1) <= 1 - level; None where there is none.

    `below` says up to which pressure each task is sufficient, `weights` what it counts. With one task a unit this is
    the floor((n + 1) * (1 - level))-th smallest of `below`, the quantile of split conformal prediction.
    """
    allowed = _allowed_loss(weights, level)
    if allowed < -ROUNDING:
        return None
    order = np.argsort(below, kind="stable")
    over = np.flatnonzero(np.cumsum(weights[order]) > allowed + ROUNDING)
    if not len(over):
        return np.inf
    limit = float(below[order[over[0]]])
    if limit <= 0:
        return None
    return limit


def lowest_pressure(leaving: Floats, costs: Floats, budget: float, per_task: bool = False) -> float:
    """The greatest lower bound of pressures at which the mean cost, or with `per_task` every cost, is within budget."""
    most = budget
    if not per_task:  # as one task with the candidates of all
        most = budget * len(leaving)
        leaving = leaving.reshape(1, -1)
        costs = costs.reshape(1, -1)
    order = np.argsort(-leaving, axis=1, kind="stable")
    leaves = np.take_along_axis(leaving, order, axis=1)
    spent = np.cumsum(np.take_along_axis(costs, order, axis=1), axis=1)
    return float(np.where(spent > most * (1.0 + ROUNDING), leaves, 0.0).max(initial=0.0))


def _allowed_loss(weights: Floats, level: float) -> float:
    """The summed loss that the level leaves: (n + 1) * (1 - level) - 1."""
    return (float(weights.sum()) + 1.0) * (1.0 - level) - 1.0


def _rankings_of(tasks: Rankings | LoggedTasks) -> Rankings:
    if isinstance(tasks, LoggedTasks):
        return tasks.rankings
    return tasks


def _leaving_of_some(policy: Policy, rankings: Rankings, value: str | ValueFunction, recourse: float) -> Floats:
    """`leaving_pressures` of at least one task."""
    if not len(rankings):
        raise UsageError("A cost pressure is found on at least one task. Got none.")
    return leaving_pressures(policy, rankings, value, recourse)


def _payoff_within(
    policy: Policy,
    rankings: Rankings,
    counted: Rankings,
    most: float,
    value: str | ValueFunction,
    recourse: float,
    per_task: bool = False,
) -> Payoff:
    """The lowest pressure at which decisions on `rankings` cost at most so much, at the prices of `counted`."""
    leaving = _leaving_of_some(policy, rankings, value, recourse)
    limit = lowest_pressure(leaving, counted.costs, most, per_task)

    def keeps(decisions: Decisions) -> bool:
        cost = cost_of(counted, decisions.acquired)
        spent = cost.max() if per_task else cost.mean()
        return bool(spent <= most * (1.0 + ROUNDING))

    above_limit = [limit * (1.0 + 2.0**power) for power in range(-48, 9, 8)]
    pressures = [limit, *above_limit, 2.0 * float(leaving.max(initial=0.0))]
    return _first_kept(policy, rankings, [Payoff(pressure, value, recourse) for pressure in pressures], keeps)


def _first_kept(
    policy: Policy, rankings: Rankings, payoffs: list[Payoff], keeps: Callable[[Decisions], bool]
) -> Payoff:
    """The first of these payoffs under which the decisions, as the policy really makes them, keep the rule."""
    for payoff in payoffs:
        if keeps(policy.decide(rankings, payoff)):
            return payoff
    raise UsageError(
        f"The decisions of this {type(policy).__name__} are not the ones that its leaving pressures say. "
        "Its sets must grow as the cost pressure falls."
    )


def _leaving_of_piece(policy: Policy, rankings: Rankings, free: Payoff) -> Floats:
    # One decision raises where the policy is not fitted, or not for this value and recourse.
    policy.decide(rankings.take(slice(0, 1)), free)
    if isinstance(policy, Nested):
        return policy.leaving_pressures(rankings, free.value, free.recourse)
    raise UsageError(
        f"The sets of a policy must be nested in the cost pressure, which is not known of {type(policy).__name__}. "
        "Use ExpectedPayoffBySet or ExpectedPayoffByDepth, or give it a method "
        "leaving_pressures(rankings, value, recourse)."
    )

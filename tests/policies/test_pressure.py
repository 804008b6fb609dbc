"""Promised sufficiency and met budgets: the leaving pressures, the guarantee, the refusals, the frontier."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from camdf import (
    AcquireAll,
    Decisions,
    ExpectedPayoffByDepth,
    ExpectedPayoffBySet,
    LoggedTasks,
    NotFittedError,
    Payoff,
    Policy,
    Rankings,
)
from camdf.core.payoff import ValueFunction, cost_of
from camdf.core.rankings import Floats
from camdf.core.sets import leaving_cuts
from camdf.policies.pressure import (
    highest_pressure,
    leaving_pressures,
    pressure_for_budget,
    pressure_for_coverage,
    pressure_for_estimate,
    pressure_for_sufficiency,
    pressure_for_tools,
    sufficient_below,
    unit_weights,
)
from saying import refuses
from worlds import random_logged, small_logged

FAMILIES = [
    (kind, value) for kind in ("expected-payoff-by-set", "expected-payoff-by-depth") for value in ("exact", "partial")
]
families = pytest.mark.parametrize(("kind", "value"), FAMILIES, ids=[" ".join(pair) for pair in FAMILIES])
seeds = pytest.mark.parametrize("shared", [False, True], ids=["own lists", "shared catalogue"])


@cache
def fitted(kind: str, value: str, shared: bool) -> Policy:
    policy = ExpectedPayoffBySet() if kind == "expected-payoff-by-set" else ExpectedPayoffByDepth()
    return policy.fit(random_logged(np.random.default_rng(1), 150, 8, shared=shared), Payoff(0.1, value))


@cache
def fresh(shared: bool, missing: float = 0.15) -> LoggedTasks:
    return random_logged(np.random.default_rng(2), 120, 8, shared=shared, missing=missing)


class ByScore(Policy):
    """Acquires what scores above the cost pressure: the simplest nested family."""

    def decide(self, rankings: Rankings, payoff: Payoff) -> Decisions:
        return Decisions((rankings.scores > payoff.cost_pressure) & rankings.listed)

    def leaving_pressures(self, rankings: Rankings, value: str | ValueFunction, recourse: float) -> Floats:
        return rankings.scores


class Contrary(ByScore):
    """Says one thing and does the opposite."""

    def decide(self, rankings: Rankings, payoff: Payoff) -> Decisions:
        return Decisions((rankings.scores < payoff.cost_pressure + 0.1) & rankings.listed)


def sufficiency(policy: Policy, logged: LoggedTasks, payoff: Payoff) -> Floats:
    acquired = policy.decide(logged.rankings, payoff).acquired
    enough: Floats = ((logged.required & acquired).sum(axis=1) == logged.n_required).astype(np.float64)
    return enough


def mean_by_group(values: Floats, logged: LoggedTasks) -> float:
    return float(np.mean([values[logged.groups == name].mean() for name in np.unique(logged.groups)]))


def costs(policy: Policy, rankings: Rankings, pressure: float, value: str) -> Floats:
    return cost_of(rankings, policy.decide(rankings, Payoff(pressure, value)).acquired)


# Where candidates leave.


@families
@seeds
def test_leaving_pressures_reproduce_the_decisions_around_every_one_of_them(
    kind: str, value: str, shared: bool
) -> None:
    policy, rankings = fitted(kind, value, shared), fresh(shared).rankings
    leaving = leaving_pressures(policy, rankings, value)
    places = np.unique(leaving[leaving > 1e-3])
    assert len(places) > 100
    some = np.random.default_rng(0).choice(places, 100, replace=False)
    for pressure in [0.0, *(some * (1 - 1e-9)), *(some * (1 + 1e-9)), places[-1] * 2]:
        acquired = policy.decide(rankings, Payoff(pressure, value)).acquired
        assert np.array_equal(acquired, leaving > pressure)


@families
def test_sets_only_grow_as_the_pressure_falls(kind: str, value: str) -> None:
    policy, rankings = fitted(kind, value, False), fresh(False).rankings
    sets = [policy.decide(rankings, Payoff(pressure, value)).acquired for pressure in np.geomspace(2.0, 1e-4, 60)]
    assert all((smaller <= larger).all() for smaller, larger in pairwise(sets))
    assert sets[0].sum() < sets[-1].sum()


def test_leaving_cuts_are_the_pressures_up_to_which_a_deeper_cut_wins() -> None:
    rng = np.random.default_rng(3)
    worth = np.maximum.accumulate(rng.random((200, 7)), axis=1)
    cost = np.concatenate([np.zeros((200, 1)), np.cumsum(rng.uniform(0.1, 2.0, (200, 6)), axis=1)], axis=1)
    found = leaving_cuts(worth, cost, np.full(200, 6))
    for row in range(200):
        for cut in range(6):
            wins = [
                min((worth[row, k] - worth[row, j]) / (cost[row, k] - cost[row, j]) for j in range(cut + 1))
                for k in range(cut + 1, 7)
            ]
            assert found[row, cut] == pytest.approx(max(0.0, *wins), abs=1e-12)


@families
def test_padding_and_batches_do_not_change_where_candidates_leave(kind: str, value: str) -> None:
    policy, rankings = fitted(kind, value, False), fresh(False).rankings
    leaving = leaving_pressures(policy, rankings, value)
    wide = leaving_pressures(policy, rankings.padded_to(11), value)
    assert np.array_equal(wide[:, :8], leaving)
    assert not wide[:, 8:].any()
    alone = [leaving_pressures(policy, rankings.take([row]), value) for row in range(20)]
    assert np.array_equal(np.concatenate(alone), leaving[:20])


@families
def test_a_task_is_sufficient_below_the_first_required_tool_to_leave(kind: str, value: str) -> None:
    policy, logged = fitted(kind, value, False), fresh(False)
    below = sufficient_below(logged, leaving_pressures(policy, logged.rankings, value))
    assert np.array_equal(below == 0, logged.missing > 0)
    assert np.isinf(below[logged.n_required == 0]).all()
    for pressure in (0.003, 0.04, 0.11, 0.3):
        assert np.array_equal(sufficiency(policy, logged, Payoff(pressure, value)), below > pressure)


# The guarantee.


def exchangeable(rng: np.random.Generator, units: int, size: int, alike: float) -> LoggedTasks:
    """Groups of tasks whose required tools score well or badly together; `alike` 0 makes all tasks independent."""
    kind = alike * rng.normal(size=(units, 1, 1)) + (1 - alike) * rng.normal(size=(units, size, 1))
    needed = np.sort(rng.random((units, size, 4)) < 0.4, axis=2)
    scores = 1 / (1 + np.exp(-(kind + needed + 0.5 * rng.normal(size=needed.shape)).reshape(-1, 4)))
    n = len(scores)
    tool_ids = np.tile(np.arange(4), (n, 1))
    rankings = Rankings(scores, np.ones((n, 4)), np.full(n, 4), tool_ids, tuple("abcd"))
    names = np.arange(n).astype(np.str_)
    required = needed.reshape(-1, 4)
    groups = np.repeat(np.arange(units), size).astype(np.str_)
    return LoggedTasks(rankings, required, required.sum(axis=1), names, groups)


def recalibrated(level: float, units: int, size: int, alike: float, by_group: bool) -> Floats:
    """Sufficiency on a new unit over 2,000 draws of calibration tasks and of that unit."""
    rng = np.random.default_rng(11)
    found = []
    for _ in range(2000):
        logged = exchangeable(rng, units + 1, size, alike)
        below = sufficient_below(logged, logged.rankings.scores)
        known = slice(0, units * size)
        weights = unit_weights(logged.take(known), by_group)
        limit = highest_pressure(below[known], weights, level)
        assert limit is not None
        found.append((below[units * size :] >= limit).mean())
    return np.array(found)


@pytest.mark.parametrize("level", [0.8, 0.9, 0.95])
def test_new_tasks_are_sufficient_as_often_as_promised_and_hardly_more(level: float) -> None:
    found = recalibrated(level, 39, 1, 0.0, by_group=True)
    error = found.std() / np.sqrt(len(found))
    assert level - 4 * error <= found.mean() <= level + 1 / 40 + 4 * error


def test_a_new_group_is_sufficient_as_often_as_promised() -> None:
    found = recalibrated(0.9, 15, 4, 0.8, by_group=True)
    assert found.mean() >= 0.9 - 4 * found.std() / np.sqrt(len(found))


def test_counting_tasks_breaks_the_promise_where_tasks_come_in_groups() -> None:
    found = recalibrated(0.9, 5, 20, 1.0, by_group=False)
    assert found.mean() < 0.9 - 4 * found.std() / np.sqrt(len(found))


def test_the_promise_holds_with_refusals_counted_as_no_loss() -> None:
    rng, losses = np.random.default_rng(4), []
    for _ in range(2000):
        below = np.where(rng.random(31) < 0.1, 0.0, rng.random(31))
        limit = highest_pressure(below[:30], np.ones(30), 0.85)
        losses.append(limit is not None and below[30] < limit)
    assert 0 < np.mean(losses) <= 0.15 + 4 * np.std(losses) / np.sqrt(2000)


@families
@pytest.mark.parametrize("by_group", [True, False], ids=["groups", "tasks"])
def test_the_pressure_is_the_highest_that_meets_the_bound_on_the_calibration_tasks(
    kind: str, value: str, by_group: bool
) -> None:
    policy, logged = fitted(kind, value, False), fresh(False, missing=0.02)
    units = len(np.unique(logged.groups)) if by_group else len(logged)

    def bound(pressure: float) -> float:
        enough = sufficiency(policy, logged, Payoff(pressure, value))
        mean = mean_by_group(enough, logged) if by_group else float(enough.mean())
        return (units * (1 - mean) + 1) / (units + 1)

    for level in (0.5, 0.8, 0.9):
        payoff = pressure_for_sufficiency(policy, logged, value, min_sufficiency=level, by_group=by_group)
        assert payoff.value == value
        assert bound(payoff.cost_pressure) <= 1 - level + 1e-9 < bound(payoff.cost_pressure * (1 + 1e-7))


def test_a_higher_level_never_has_a_higher_pressure() -> None:
    policy, logged = fitted("expected-payoff-by-set", "exact", False), fresh(False, missing=0.0)
    levels = np.linspace(0.05, 0.95, 19)
    found = [pressure_for_sufficiency(policy, logged, min_sufficiency=x).cost_pressure for x in levels]
    assert all(a >= b for a, b in pairwise(found))
    assert found[0] > 2 * found[-1]


@settings(max_examples=150, deadline=None)
@given(small_logged(most_tasks=8), st.sampled_from([0.2, 0.5, 0.6, 0.75, 0.8]), st.booleans())
def test_the_pressure_agrees_with_trying_every_set(logged: LoggedTasks, level: float, by_group: bool) -> None:
    assume(len(logged))
    units = len(np.unique(logged.groups)) if by_group else len(logged)

    def met(pressure: float) -> bool:
        enough = sufficiency(ByScore(), logged, Payoff(pressure))
        mean = mean_by_group(enough, logged) if by_group else float(enough.mean())
        return (units * (1 - mean) + 1) / (units + 1) <= 1 - level + 1e-9

    tried = [pressure for pressure in (0.0, 0.05, 0.3, 0.7, 0.95, 1.5) if met(pressure)]
    if tried:
        found = pressure_for_sufficiency(ByScore(), logged, min_sufficiency=level, by_group=by_group)
        assert met(found.cost_pressure)
        same = sufficiency(ByScore(), logged, found) == sufficiency(ByScore(), logged, Payoff(tried[-1]))
        assert same.all()
    else:
        with pytest.raises(ValueError, match="must be at most"):
            pressure_for_sufficiency(ByScore(), logged, min_sufficiency=level, by_group=by_group)


# Refusals.


@pytest.mark.parametrize(
    ("tasks", "lacking", "level"), [(9, 0, 0.95), (18, 0, 0.95), (60, 12, 0.85)], ids=["few", "one too few", "lists"]
)
def test_a_level_out_of_reach_is_refused_and_the_named_one_is_promised(tasks: int, lacking: int, level: float) -> None:
    logged = exchangeable(np.random.default_rng(0), tasks, 1, 0.0)
    logged = replace(logged, n_required=logged.n_required + (np.arange(tasks) < lacking))
    with pytest.raises(ValueError, match="highest level") as refusal:
        pressure_for_sufficiency(ByScore(), logged, min_sufficiency=level)
    named = re.search(r"at most (0\.\d+)", str(refusal.value))
    assert named is not None
    highest = float(named[1])
    assert highest == pytest.approx((tasks - lacking) / (tasks + 1), abs=1e-4)
    assert pressure_for_sufficiency(ByScore(), logged, min_sufficiency=highest).cost_pressure >= 0
    with pytest.raises(ValueError, match="at most"):
        pressure_for_sufficiency(ByScore(), logged, min_sufficiency=highest + 2e-4)


def test_nineteen_tasks_can_promise_95_percent_and_nine_90() -> None:
    for tasks, level in ((19, 0.95), (9, 0.9), (4, 0.8), (99, 0.99)):
        logged = exchangeable(np.random.default_rng(0), tasks, 1, 0.0)
        payoff = pressure_for_sufficiency(ByScore(), logged, min_sufficiency=level)
        assert sufficiency(ByScore(), logged, payoff).all()


def test_the_number_of_groups_limits_the_level() -> None:
    logged = exchangeable(np.random.default_rng(0), 5, 10, 0.5)
    with pytest.raises(ValueError, match=r"at most 0\.8333.* 5 calibration groups"):
        pressure_for_sufficiency(ByScore(), logged, min_sufficiency=0.9)
    assert pressure_for_sufficiency(ByScore(), logged, min_sufficiency=0.9, by_group=False).cost_pressure > 0


def test_where_any_pressure_keeps_the_level_nothing_is_acquired() -> None:
    logged = exchangeable(np.random.default_rng(0), 30, 1, 0.0)
    free = replace(logged, required=np.zeros_like(logged.required), n_required=np.zeros(30, dtype=np.int64))
    payoff = pressure_for_sufficiency(ByScore(), free, min_sufficiency=0.9)
    assert not ByScore().decide(free.rankings, payoff).acquired.any()


@pytest.mark.parametrize("level", [0.0, 1.0, -0.5, float("nan")])
def test_levels_lie_between_0_and_1(level: float) -> None:
    with pytest.raises(ValueError, match="above 0 and below 1"):
        pressure_for_sufficiency(ByScore(), fresh(False), min_sufficiency=level)


def test_what_cannot_be_controlled_says_so() -> None:
    logged = fresh(False)
    with refuses(ValueError, "nested", "cost pressure", "AcquireAll"):
        pressure_for_budget(AcquireAll(), logged, budget=1.0)
    with pytest.raises(NotFittedError):
        pressure_for_budget(ExpectedPayoffBySet(), logged, budget=1.0)
    with refuses(ValueError, "fitted", "value", "exact"):
        pressure_for_budget(fitted("expected-payoff-by-depth", "exact", False), logged, "partial", budget=1.0)
    with pytest.raises(ValueError, match="at least one task"):
        pressure_for_budget(ByScore(), logged.take([]), budget=1.0)
    with pytest.raises(ValueError, match="'budget' of pressure_for_budget must be"):
        pressure_for_budget(ByScore(), logged, budget=-1.0)
    with refuses(ValueError, "grow", "cost pressure", "falls"):
        pressure_for_budget(Contrary(), logged, budget=0.0)


# Budgets.


@families
@seeds
@pytest.mark.parametrize("per_task", [False, True], ids=["mean", "every task"])
def test_a_budget_is_met_and_a_slightly_lower_pressure_breaks_it(
    kind: str, value: str, shared: bool, per_task: bool
) -> None:
    policy, rankings = fitted(kind, value, shared), fresh(shared).rankings
    for budget in (0.5, 1.7, 3.0):
        payoff = pressure_for_budget(policy, rankings, value, budget=budget, per_task=per_task)
        spent, lower = (costs(policy, rankings, payoff.cost_pressure * by, value) for by in (1.0, 1 - 1e-7))
        measure = np.max if per_task else np.mean
        assert measure(spent) <= budget * (1 + 1e-9) < measure(lower)


@families
def test_a_budget_for_everything_needs_no_pressure_and_none_acquires_nothing(kind: str, value: str) -> None:
    policy, logged = fitted(kind, value, False), fresh(False)
    assert pressure_for_budget(policy, logged, value, budget=100.0).cost_pressure == 0
    nothing = pressure_for_budget(policy, logged, value, budget=0.0)
    assert not policy.decide(logged.rankings, nothing).acquired.any()


def test_at_unit_costs_a_budget_counts_tools() -> None:
    policy, logged = fitted("expected-payoff-by-set", "exact", False), fresh(False)
    unit = logged.with_costs(logged.rankings.listed.astype(np.float64))
    payoff = pressure_for_budget(policy, unit, budget=2.0)
    tools = policy.decide(unit.rankings, payoff).acquired.sum(axis=1)
    assert 1.9 < tools.mean() <= 2.0


@settings(max_examples=150, deadline=None)
@given(small_logged(most_tasks=6), st.sampled_from([0.0, 0.1, 0.5, 1.0, 1.7, 3.0]), st.booleans())
def test_the_budget_agrees_with_trying_every_set(logged: LoggedTasks, budget: float, per_task: bool) -> None:
    assume(len(logged))
    rankings = logged.rankings

    def met(pressure: float) -> bool:
        spent = costs(ByScore(), rankings, pressure, "exact")
        return bool((spent.max() if per_task else spent.mean()) <= budget * (1 + 1e-9))

    lowest = next(pressure for pressure in (0.0, 0.1, 0.5, 0.9, 1.0) if met(pressure))
    found = pressure_for_budget(ByScore(), rankings, budget=budget, per_task=per_task)
    assert np.array_equal(
        ByScore().decide(rankings, found).acquired, ByScore().decide(rankings, Payoff(lowest)).acquired
    )


# The study and its picture.


# A number of tools, and the policy's own estimate.


@families
@seeds
@settings(max_examples=15, deadline=None)
@given(st.floats(0.0, 9.0))
def test_the_lowest_pressure_for_so_many_tools_gives_no_more_and_a_lower_one_would(
    kind: str, value: str, shared: bool, tools: float
) -> None:
    policy, rankings = fitted(kind, value, shared), fresh(shared).rankings
    payoff = pressure_for_tools(policy, rankings, value, tools=tools)
    assert policy.decide(rankings, payoff).acquired.sum(axis=1).mean() <= tools * (1 + 1e-9)
    lower = policy.decide(rankings, replace(payoff, cost_pressure=payoff.cost_pressure * (1 - 1e-6))).acquired
    assert payoff.cost_pressure == 0 or lower.sum(axis=1).mean() > tools or tools < 1e-9 or not lower.any()


@seeds
@pytest.mark.parametrize("value", ["exact", "partial"])
@pytest.mark.parametrize("level", [0.3, 0.6, 0.75])
def test_the_highest_pressure_at_which_a_policy_expects_so_much(value: str, level: float, shared: bool) -> None:
    policy, rankings = fitted("expected-payoff-by-set", value, shared), fresh(shared).rankings
    assert isinstance(policy, ExpectedPayoffBySet)

    def expected(pressure: float) -> float:
        acquired = policy.decide(rankings, Payoff(pressure, value)).acquired
        return float(policy.estimated_sufficiency(rankings, acquired).mean())

    payoff = pressure_for_estimate(policy, rankings, value, sufficiency=level)
    assert expected(payoff.cost_pressure) >= level
    above = leaving_pressures(policy, rankings, value)
    above = np.unique(above[above > payoff.cost_pressure * (1 + 1e-9)])
    assert not len(above) or expected(float(above[0] * (1 + 1e-9))) < level or expected(float(above[1])) < level


def test_what_a_policy_expects_of_a_set_is_what_it_chooses_by() -> None:
    rankings = fresh(False).rankings
    policy = fitted("expected-payoff-by-set", "exact", False)
    assert isinstance(policy, ExpectedPayoffBySet)
    probability, holds = policy.probabilities(rankings)
    order, value, _ = policy.cuts(rankings, probability, holds)
    for depth in (0, 1, 3, rankings.width):
        acquired = np.zeros(rankings.scores.shape, dtype=bool)
        np.put_along_axis(acquired, order[:, :depth], True, axis=1)
        expected = value[np.arange(len(rankings)), np.minimum(depth, rankings.width)]
        found = policy.estimated_sufficiency(rankings, acquired & rankings.listed)
        np.testing.assert_allclose(found, expected, atol=1e-9)


# Tools with effects.


def with_effects(logged: LoggedTasks) -> frozenset[str]:
    """About half of the tools."""
    return frozenset(logged.rankings.catalogue[::2])


@families
@seeds
@settings(max_examples=15, deadline=None)
@given(st.floats(0.05, 0.8))
def test_the_highest_pressure_that_covers_so_many_tasks(kind: str, value: str, shared: bool, level: float) -> None:
    policy, logged = fitted(kind, value, shared), fresh(shared)
    needing = logged.needing(with_effects(logged))
    most = float((needing.missing == 0).mean())
    needs_none = float((needing.n_required == 0).mean())
    assume(needs_none < level < most - 0.1)
    payoff = pressure_for_coverage([(policy, needing)], value, covered=level)

    def covered(pressure: float) -> float:
        acquired = policy.decide(logged.rankings, Payoff(pressure, value)).acquired
        return float(needing.sufficient(acquired).mean())

    assert covered(payoff.cost_pressure) >= level
    assert covered(payoff.cost_pressure * (1 + 1e-6)) < level + 1 / len(logged)


@pytest.mark.parametrize("level", [0.5, 0.7, 0.8])
def test_tasks_to_come_are_covered_as_often_as_those_that_were_held_out(level: float) -> None:
    drawn = random_logged(np.random.default_rng(11), 2_600, 8, shared=True, missing=0.1)
    known, held_out, coming = map(drawn.take, (slice(200), slice(200, 600), slice(600, None)))
    policy = ExpectedPayoffBySet().fit(known, Payoff(0.1, "partial"))
    some = with_effects(known)
    payoff = pressure_for_coverage([(policy, held_out.needing(some))], "partial", covered=level)
    acquired = policy.decide(coming.rankings, payoff).acquired
    covered = float(coming.needing(some).sufficient(acquired).mean())
    sampling_error = (level * (1 - level) * (1 / 400 + 1 / 2_000)) ** 0.5
    assert abs(covered - level) <= 3 * sampling_error


def test_where_only_tools_with_effects_count_others_may_be_left_out() -> None:
    logged = LoggedTasks.from_records(
        [
            {"scores": {"read": 0.9, "send": 0.8}, "required": ["read", "send"]},
            {"scores": {"read": 0.9, "send": 0.8}, "required": ["read", "unlisted"]},
        ]
    )
    needing = logged.needing({"send"})
    assert needing.sufficient(np.array([[False, True], [False, True]])).tolist() == [True, False]
    assert needing.n_required.tolist() == [1, 1], "what a list lacks is still needed"


@pytest.mark.parametrize("value", ["exact", "partial"])
@seeds
@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1), st.floats(0.01, 2.0), st.floats(0.01, 0.3), st.sampled_from([0.0, 0.5]))
def test_a_higher_price_of_an_effect_never_exposes_more_tools_that_have_it(
    value: str, shared: bool, seed: int, more: float, pressure: float, recourse: float
) -> None:
    """Under the partial value a theorem for each tool; under the exact one for the best set, which a policy takes.

    The best set S at costs c is no worse than S' there, and S' no worse than S where each tool in W costs more by d:
    the sum of both says d |S and W| >= d |S' and W|.
    """
    policy, rankings = fitted("expected-payoff-by-set", value, shared), fresh(shared).rankings
    rng = np.random.default_rng(seed)
    names = rankings.catalogue
    before = dict(zip(names, rng.uniform(0.1, 2.0, len(names)).tolist(), strict=True))
    dangerous = {name for name in names if rng.random() < 0.4}
    after = {name: cost + more * (name in dangerous) for name, cost in before.items()}
    payoff = Payoff(pressure, value, recourse)
    exposed, then = (
        (policy.decide(rankings.with_costs(costs), payoff).acquired & rankings.among(dangerous)).sum(axis=1)
        for costs in (before, after)
    )
    assert (then <= exposed).all()


def test_targets_that_make_no_sense_are_refused() -> None:
    policy, rankings = fitted("expected-payoff-by-set", "exact", True), fresh(True).rankings
    for tools in (-1.0, float("nan"), float("inf")):
        with refuses(ValueError, "tools", "pressure_for_tools", must="a number, 0 or more"):
            pressure_for_tools(policy, rankings, tools=tools)
    for level, must in ((0.0, "above 0"), (-0.5, "above 0"), (1.0, "at most"), (float("nan"), "above 0")):
        with refuses(ValueError, "'sufficiency'", must=must, got=level):
            pressure_for_estimate(policy, rankings, sufficiency=level)
    needing = fresh(True).needing(with_effects(fresh(True)))
    for covered, must in ((0.0, "above 0"), (1.5, "at most 1"), (1.0, "at most")):
        with refuses(ValueError, "'covered'", must=must, got=covered):
            pressure_for_coverage([(policy, needing)], covered=covered)
    with refuses(ValueError, "no estimate"):
        pressure_for_estimate(fitted("expected-payoff-by-depth", "exact", True), rankings, sufficiency=0.5)

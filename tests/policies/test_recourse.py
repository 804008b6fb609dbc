"""Recourse: what a missed tool is still worth, by enumeration; who may decide under it; what it costs."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from runpy import run_path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from camdf import (
    ExpectedPayoffByDepth,
    ExpectedPayoffBySet,
    LoggedTasks,
    Payoff,
    PlugIn,
    Policy,
    Prices,
    UsageError,
    cold_start,
)
from camdf.checks import sample_tasks
from camdf.core.payoff import partial
from camdf.core.rankings import Floats, joined
from camdf.core.sets import sufficiency_by_cut, value_order, worth_by_cut
from camdf.errors import ArtifactError
from camdf.policies.artifact import digest, from_json, to_json
from camdf.policies.base import FittedPolicy
from camdf.policies.pressure import leaving_pressures, pressure_for_budget, pressure_for_sufficiency
from camdf.policies.registry import POLICIES
from camdf_lab import domains
from saying import refuses
from small_sets import (
    MISSING,
    acquired_by,
    chance_of_each,
    holding,
    knowing,
    model,
    ranked,
    shares_of_each,
    small_worlds,
    subsets,
    sufficiency_of_each,
)
from worlds import random_logged

RECOURSES = (0.0, 0.2, 0.7, 0.95, 1.0)
PRESSURES = (0.0, 0.02, 0.1, 0.25, 0.6)
some_recourse = pytest.mark.parametrize("recourse", RECOURSES)
sizes = pytest.mark.parametrize("m", range(1, 8))


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20263)


def worth_of_each(probability: Floats, recourse: float) -> Floats:
    """(n, 2^m): E[recourse^missed] of every set, over every required set that is not empty, the list holding all."""
    sets = subsets(probability.shape[1])
    missed = (sets[:, None] & ~sets[None]).sum(axis=2)
    worth: Floats = chance_of_each(probability) @ np.power(recourse, missed)
    return worth


def cuts_of(m: int) -> list[int]:
    """Which of all sets are the first k candidates, k = 0 to m."""
    return [(1 << k) - 1 for k in range(m + 1)]


# What a missed tool is still worth.


def test_every_missed_tool_takes_the_same_share_of_what_is_left() -> None:
    covered = np.arange(4)
    assert Payoff(0.1, "exact", 0.5).worth(covered, np.full(4, 3)).tolist() == [0.125, 0.25, 0.5, 1.0]
    assert Payoff(0.1, "partial", 0.5).worth(covered, np.full(4, 3)) == pytest.approx([3 / 6, 4 / 6, 5 / 6, 1.0])


def test_no_search_of_the_list_finds_a_tool_outside_of_it() -> None:
    task = {"scores": {"a": 0.9, "b": 0.5}, "required": ["a", "b", "elsewhere"]}
    logged = LoggedTasks.from_records([task])
    assert Payoff(0.0, "exact", 0.9).by_depth(logged).tolist() == [[0.0, 0.0, 0.0]]
    # The two listed tools are worth a third each where they are given, and nine tenths of it where they are searched.
    assert Payoff(0.0, "partial", 0.9).by_depth(logged)[0] == pytest.approx([0.6, 1.9 / 3, 2 / 3])


@pytest.mark.parametrize("value", ["exact", "partial"])
def test_a_task_that_requires_nothing_is_worth_1_at_any_recourse(value: str) -> None:
    nothing = np.zeros(1, dtype=np.int64)
    assert all(Payoff(0.1, value, recourse).worth(nothing, nothing).tolist() == [1.0] for recourse in RECOURSES)


@pytest.mark.parametrize("value", ["exact", "partial"])
def test_worth_never_falls_with_more_recourse_nor_with_more_required_tools(
    rng: np.random.Generator, value: str
) -> None:
    logged = random_logged(rng, 500, 8)
    by_recourse = [Payoff(0.0, value, recourse).worth_by_depth(logged) for recourse in np.linspace(0, 1, 21)]
    assert all((less <= more).all() for less, more in pairwise(by_recourse))
    assert all((np.diff(worth, axis=1) >= -1e-15).all() for worth in by_recourse)
    assert all(((worth >= 0) & (worth <= 1)).all() for worth in by_recourse)


def test_payoffs_without_recourse_compare_and_hash_as_they_did() -> None:
    assert Payoff(0.1) == Payoff(0.1, "exact", 0.0)
    assert hash(Payoff(0.1)) == hash(Payoff(0.1, "exact", 0.0))
    assert Payoff(0.1) != Payoff(0.1, recourse=0.5)
    assert Payoff.from_money(0.4, "partial", 0.9) == Payoff(2.5, "partial", 0.9)


@pytest.mark.parametrize("recourse", [-0.1, 1.1, np.nan, np.inf, "all", None])
def test_a_recourse_that_makes_no_sense_is_refused(recourse: Any) -> None:
    with refuses(UsageError, "recourse", "Payoff", must="a share from 0 to 1"):
        Payoff(0.1, recourse=recourse)


def test_a_value_of_your_own_says_itself_what_a_miss_is_worth() -> None:
    assert Payoff(0.1, partial).recourse == 0
    with refuses(UsageError, "exact", "partial"):
        Payoff(0.1, partial, 0.5)


# The best set, by enumeration of all sets and of all that could be required.


@some_recourse
@sizes
def test_the_worth_of_a_cut_is_that_of_the_enumerated_required_sets(
    rng: np.random.Generator, m: int, recourse: float
) -> None:
    p, costs = small_worlds(rng, m)
    order, log_not = value_order(p, costs, np.ones(p.shape, dtype=bool), recourse)
    worth = worth_of_each(np.take_along_axis(p, order, axis=1), recourse)[:, cuts_of(m)]
    np.testing.assert_allclose(worth_by_cut(log_not, recourse), worth, rtol=0, atol=1e-12)
    ratios = np.take_along_axis(np.log1p(-(1 - recourse) * p) / costs, order, axis=1)
    assert (np.diff(ratios, axis=1) >= -1e-12).all()


@sizes
def test_without_recourse_the_worth_of_a_cut_is_its_sufficiency_to_the_bit(rng: np.random.Generator, m: int) -> None:
    p, costs = small_worlds(rng, m)
    listed = np.ones(p.shape, dtype=bool)
    order, log_not = value_order(p, costs, listed)
    assert np.array_equal(order, value_order(p, costs, listed, 0.0)[0])
    np.testing.assert_allclose(worth_by_cut(log_not, 0.0), sufficiency_by_cut(log_not), rtol=0, atol=1e-15)
    rankings, holds = ranked(p, costs), np.full(len(p), 0.7)
    policy = knowing(model(calibration=(0.4, 1.7)))
    _, value, _ = policy.cuts(rankings, p, holds)
    assert np.array_equal(value, policy.model_.calibrated(sufficiency_by_cut(log_not)) * holds[:, None])


@some_recourse
@pytest.mark.parametrize("holds", [1.0, 0.6])
@sizes
def test_under_the_exact_payoff_no_set_of_all_is_worth_more_than_the_chosen_one(
    rng: np.random.Generator, m: int, holds: float, recourse: float
) -> None:
    p, costs = small_worlds(rng, m)
    rankings, sets, policy = ranked(p, costs), subsets(m), knowing(model(holds=holding(holds)))
    value = holds * worth_of_each(p, recourse)
    for pressure in PRESSURES:
        worth = value - pressure * (costs @ sets.T)
        chosen = acquired_by(policy, rankings, Payoff(pressure, "exact", recourse)) @ (1 << np.arange(m))
        np.testing.assert_allclose(worth[np.arange(len(p)), chosen], worth.max(axis=1), rtol=0, atol=1e-9)


@some_recourse
@pytest.mark.parametrize("missing", MISSING.values(), ids=list(MISSING))
@sizes
def test_under_the_partial_payoff_no_set_of_all_is_worth_more_than_the_chosen_one(
    rng: np.random.Generator, m: int, missing: tuple[float, ...], recourse: float
) -> None:
    p, costs = small_worlds(rng, m)
    rankings, sets, policy = ranked(p, costs), subsets(m), knowing(model(missing=missing))
    gain = (1 - recourse) * shares_of_each(p, missing) @ sets.T
    for pressure in PRESSURES:
        worth = gain - pressure * (costs @ sets.T)
        chosen = acquired_by(policy, rankings, Payoff(pressure, "partial", recourse)) @ (1 << np.arange(m))
        np.testing.assert_allclose(worth[np.arange(len(p)), chosen], worth.max(axis=1), rtol=0, atol=1e-9)


@some_recourse
@pytest.mark.parametrize("value", ["exact", "partial"])
def test_what_the_policy_expects_of_a_set_is_what_replay_pays_on_average(
    rng: np.random.Generator, value: str, recourse: float
) -> None:
    m, holds = 4, 0.7
    p, costs = small_worlds(rng, m, n=20)
    sets, rankings = subsets(m), ranked(p, costs)
    # Every required set twice: as it is, and with one more tool that the list lacks. No task requires nothing.
    lacks = np.repeat([0, 1], len(sets))
    inside = np.where(sets, p[:, None], 1 - p[:, None]).prod(axis=2)
    chance = np.concatenate([holds * chance_of_each(p), (1 - holds) * inside], axis=1)
    payoff = Payoff(0.1, value, recourse)
    for row in range(len(p)):
        one = rankings.take(np.full(len(lacks), row))
        required = np.tile(sets, (2, 1))
        names = np.array([str(i) for i in range(len(lacks))], dtype=np.str_)
        logged = LoggedTasks(one, required, required.sum(axis=1) + lacks, names, names)
        paid = [chance[row] @ payoff.of(logged, np.tile(each, (len(lacks), 1))) for each in sets]
        if value == "exact":
            _, expected, cost = knowing(model()).cuts(one.take([0]), p[[row]], np.array([holds]), recourse)
            order = value_order(p[[row]], costs[[row]], np.ones((1, m), dtype=bool), recourse)[0][0]
            found = expected[0] - 0.1 * cost[0]
            cuts = [int((1 << order[:k]).sum()) for k in range(m + 1)]
            np.testing.assert_allclose(found, [paid[cut] for cut in cuts], rtol=0, atol=1e-9)
        else:
            gains = np.array([paid[1 << j] - paid[0] for j in range(m)]) + 0.1 * costs[row]
            shares = holds * shares_of_each(p[[row]], (1.0,))[0] + (1 - holds) * shares_of_each(p[[row]], (0.0, 1.0))[0]
            np.testing.assert_allclose(gains, (1 - recourse) * shares, rtol=0, atol=1e-9)


@sizes
def test_more_recourse_never_lowers_the_worth_of_a_set_nor_of_the_best_one(rng: np.random.Generator, m: int) -> None:
    p, costs = small_worlds(rng, m)
    rankings, sets = ranked(p, costs), subsets(m)
    for calibration in ((0.0, 1.0), (0.5, 2.0), (-0.5, 0.4)):
        policy = knowing(model(calibration=calibration))
        best = []
        for recourse in np.linspace(0, 1, 11):
            _, value, cost = policy.cuts(rankings, p, np.ones(len(p)), recourse)
            assert (np.diff(value, axis=1) >= -1e-12).all()
            assert ((value >= -1e-12) & (value <= 1 + 1e-12)).all()
            if calibration == (0.0, 1.0):
                best.append((value - 0.1 * cost).max(axis=1))
        assert all((more >= less - 1e-12).all() for less, more in pairwise(best))
    each = [worth_of_each(p, recourse) for recourse in np.linspace(0, 1, 11)]
    assert all((more >= less - 1e-12).all() for less, more in pairwise(each))
    np.testing.assert_allclose(each[0], sufficiency_of_each(p), rtol=0, atol=1e-12)
    np.testing.assert_allclose(each[-1], np.ones((len(p), len(sets))), rtol=0, atol=1e-12)


@pytest.mark.parametrize(("slope", "beaten"), [(1.0, False), (3.0, True)])
def test_the_best_cut_is_the_best_set_unless_sets_are_calibrated_far_from_independence(
    rng: np.random.Generator, slope: float, beaten: bool
) -> None:
    p, costs = small_worlds(rng, 5, n=400)
    rankings, sets, policy = ranked(p, costs), subsets(5), knowing(model(calibration=(0.0, slope)))
    enough, worth = sufficiency_of_each(p), worth_of_each(p, 0.5)
    calibrated = policy.model_.calibrated(enough)
    value = calibrated + (1 - calibrated) * np.maximum(worth - enough, 0) / np.maximum(1 - enough, 1e-9)
    paid = value - 0.1 * (costs @ sets.T)
    chosen = acquired_by(policy, rankings, Payoff(0.1, "exact", 0.5)) @ (1 << np.arange(5))
    short = paid.max(axis=1) - paid[np.arange(len(p)), chosen]
    assert (short > 1e-6).any() == beaten
    assert (short > 0.01).mean() < 0.1


def test_under_the_partial_payoff_more_recourse_never_loads_more(rng: np.random.Generator) -> None:
    p, costs = small_worlds(rng, 7, n=300)
    policy, rankings = knowing(model()), ranked(p, costs)
    sets = [acquired_by(policy, rankings, Payoff(0.05, "partial", r)) for r in np.linspace(0, 1, 21)]
    assert all((more <= less).all() for less, more in pairwise(sets))
    assert sets[0].sum() > sets[10].sum() > 0
    assert not sets[-1].any()


def test_under_the_exact_payoff_some_recourse_can_load_tools_for_a_task_that_was_hopeless_without() -> None:
    p = np.array([[0.92, 0.46, 0.37, 0.34, 0.25]])
    policy, rankings = knowing(model()), ranked(p, np.ones(p.shape))
    loaded = [int(acquired_by(policy, rankings, Payoff(0.21, "exact", r)).sum()) for r in (0.0, 0.4, 0.9)]
    assert loaded == [0, 1, 0]


def test_where_a_miss_is_sure_to_be_found_nothing_that_costs_is_loaded(rng: np.random.Generator) -> None:
    p, costs = small_worlds(rng, 6)
    policy, rankings = knowing(model()), ranked(p, costs)
    for value in ("exact", "partial"):
        assert not acquired_by(policy, rankings, Payoff(0.01, value, 1.0)).any()


def test_the_cold_start_decides_under_recourse_without_a_new_fit() -> None:
    rankings = domains.load("metatool", "minilm").rankings
    loaded = [cold_start().decide(rankings, Payoff(0.02, "partial", r)).acquired.sum() for r in (0.0, 0.5, 0.95)]
    assert loaded[0] > loaded[1] > loaded[2]


# Every policy.


def fitted(name: str, payoff: Payoff) -> Policy:
    return POLICIES[name]().fit(sample_tasks(1), payoff, sample_tasks(2))


LEARNED_FROM_PAYOFFS = [name for name, make in POLICIES.items() if isinstance(make(), FittedPolicy)]
MARKED = "keyword-rule"  # needs marks that these tasks do not have


@pytest.mark.parametrize("name", [name for name in LEARNED_FROM_PAYOFFS if name != MARKED])
def test_a_policy_that_is_fitted_for_a_payoff_refuses_another_recourse(name: str) -> None:
    payoff, rankings = Payoff(0.12, "exact", 0.8), sample_tasks(3).rankings
    policy = fitted(name, payoff)
    assert policy.decide(rankings, payoff).acquired.shape == rankings.scores.shape
    with refuses(UsageError, "fitted", "recourse", "Refit"):
        policy.decide(rankings, replace(payoff, recourse=0.5))


@pytest.mark.parametrize("value", ["exact", "partial"])
@pytest.mark.parametrize("name", [name for name in POLICIES if name != MARKED])
def test_every_policy_that_learns_pays_no_less_where_it_was_fitted_for_the_recourse(name: str, value: str) -> None:
    tasks = [sample_tasks(seed, tasks=150) for seed in (1, 2)]
    payoff = Payoff(0.1, value, 0.95)
    final, logged = replace(payoff, recourse=0.0), joined(*tasks)
    told, ignoring = (POLICIES[name]().fit(tasks[0], each, tasks[1]) for each in (payoff, final))
    paid = payoff.of(logged, told.decide(logged.rankings, payoff).acquired).mean()
    paid_ignoring = payoff.of(logged, ignoring.decide(logged.rankings, final).acquired).mean()
    without_learning = {"score-at-least", "largest-gap", "score-mass", "first-day", "near-best"}
    blind = {"acquire-all", "top-k", "top-share", *without_learning}
    unchanged = name in blind or (name, value) == ("constant-set", "exact")  # the best set for all is empty as it is
    assert paid == paid_ignoring if unchanged else paid > paid_ignoring


def test_plug_in_takes_a_score_for_what_the_tool_adds_and_a_search_would_not() -> None:
    rankings = sample_tasks(3).rankings
    told = PlugIn().decide(rankings, Payoff(0.1, "partial", 0.75)).acquired
    assert np.array_equal(told, PlugIn().decide(rankings, Payoff(0.4)).acquired)


def test_by_depth_expects_what_logged_prefixes_are_worth_under_recourse(rng: np.random.Generator) -> None:
    logged = random_logged(rng, 4000, 6, missing=0.2)
    payoff = Payoff(0.1, "exact", 0.6)
    worth = payoff.worth_by_depth(logged)
    expected = ExpectedPayoffByDepth().fit(logged, payoff).expected_gain(logged.rankings)
    np.testing.assert_allclose(expected.mean(axis=0), (worth - worth[:, :1]).mean(axis=0), rtol=0, atol=0.02)


# Saved policies.


@pytest.mark.parametrize("name", ["cam-df", "expected-payoff-by-depth", "fixed-k", "constant-set"])
def test_a_saved_policy_keeps_its_recourse_and_decides_alike(name: str) -> None:
    payoff, rankings = Payoff(0.12, "exact", 0.8), sample_tasks(3).rankings
    policy = fitted(name, payoff)
    text = to_json(policy)
    assert json.loads(text)["payoff"] == {"cost_pressure": 0.12, "value": "exact", "recourse": 0.8}
    again = from_json(text.encode())
    assert isinstance(again, FittedPolicy)
    assert again.payoff_ == payoff
    assert np.array_equal(again.decide(rankings, payoff).acquired, policy.decide(rankings, payoff).acquired)
    assert to_json(again) == text


def test_a_policy_without_recourse_is_the_document_that_it_always_was() -> None:
    text = to_json(fitted("fixed-k", Payoff(0.12)))
    assert json.loads(text)["payoff"] == {"cost_pressure": 0.12, "value": "exact"}
    assert "recourse" not in to_json(fitted("expected-payoff-by-set", Payoff(0.12, "exact", 0.9)))


@pytest.mark.parametrize(
    ("payoff", "says"),
    [
        ({"cost_pressure": 0.1, "value": "exact", "recourse": 1.5}, "share … 0 … 1"),
        ({"cost_pressure": 0.1, "value": "exact", "recourse": "0.5"}, "share … 0 … 1"),
        ({"cost_pressure": 0.1, "value": "exact", "resource": 0.5}, "unknown: ['resource']"),
        ({"cost_pressure": 0.1, "recourse": 0.5}, "missing: ['value']"),
        (0.5, "must be an object"),
    ],
)
def test_a_document_with_another_payoff_than_it_may_have_is_refused(payoff: object, says: str) -> None:
    document = json.loads(to_json(fitted("fixed-k", Payoff(0.12, "exact", 0.8))))
    document["payoff"] = payoff
    document["sha256"] = digest(document)
    with refuses(ArtifactError, says):
        from_json(json.dumps(document).encode())


# Pressures that are found.


@pytest.mark.parametrize("value", ["exact", "partial"])
@pytest.mark.parametrize("kind", [ExpectedPayoffBySet, ExpectedPayoffByDepth])
def test_pressures_are_found_under_recourse_as_without(kind: type[Policy], value: str) -> None:
    rng = np.random.default_rng(1)
    payoff = Payoff(0.1, value, 0.9)
    policy = kind().fit(random_logged(rng, 150, 8), payoff)
    logged = random_logged(rng, 120, 8, missing=0.02)
    leaving = leaving_pressures(policy, logged.rankings, value, 0.9)
    places = np.unique(leaving[leaving > 1e-3])
    assert len(places) > 50
    for pressure in [*(places[::5] * (1 - 1e-9)), *(places[::5] * (1 + 1e-9))]:
        acquired = policy.decide(logged.rankings, replace(payoff, cost_pressure=pressure)).acquired
        assert np.array_equal(acquired, leaving > pressure)
    promised = pressure_for_sufficiency(policy, logged, value, 0.9, min_sufficiency=0.8, by_group=False)
    affordable = pressure_for_budget(policy, logged, value, 0.9, budget=2.0)
    assert (promised.value, promised.recourse) == (affordable.value, affordable.recourse) == (value, 0.9)
    acquired = policy.decide(logged.rankings, promised).acquired
    assert ((logged.required & acquired).sum(axis=1) == logged.n_required).mean() >= 0.8
    assert (logged.rankings.costs * policy.decide(logged.rankings, affordable).acquired).sum(axis=1).mean() <= 2 + 1e-6


def test_a_pressure_is_not_found_for_a_recourse_that_was_not_fitted() -> None:
    logged = random_logged(np.random.default_rng(1), 60, 6)
    policy = ExpectedPayoffByDepth().fit(logged, Payoff(0.1, "exact", 0.9))
    with refuses(UsageError, "0.9", "Refit", "0.0"):
        pressure_for_budget(policy, logged, budget=2.0)


# What a search costs.

SEARCH = {"prefix_tokens": 8_000, "found_tokens": 600, "call_tokens": 60, "output": 15.0}


def test_a_search_is_one_more_request_its_call_and_what_it_answers() -> None:
    prices = Prices(uncached=3.0, cached=0.3, turns=4)
    request, written = 8_000 * 0.3 / 1e6, 60 * 15.0 / 1e6
    carried = 660 * (3.0 + 3 * 0.3) / 1e6
    assert prices.of_search(**SEARCH) == pytest.approx(request + written + carried)
    assert replace(prices, cache=False).of_search(**SEARCH) == pytest.approx((8_000 + 4 * 660) * 3 / 1e6 + written)
    waiting = replace(prices, seconds=2.0, dollars_per_second=0.01)
    assert waiting.of_search(**SEARCH) == pytest.approx(prices.of_search(**SEARCH) + 0.02)


@settings(max_examples=100, deadline=None)
@given(st.floats(0.001, 10.0), st.floats(0.0, 1.0), st.floats(0.0, 1e6), st.floats(0.0, 1e5))
def test_recourse_is_the_chance_to_find_times_what_the_search_leaves_of_the_task(
    task_worth: float, found: float, prefix: float, answer: float
) -> None:
    prices = Prices()
    dollars = prices.of_search(prefix_tokens=prefix, found_tokens=answer, call_tokens=60, output=15.0)
    recourse = prices.recourse(task_worth, found=found, prefix_tokens=prefix, found_tokens=answer)
    assert recourse == pytest.approx(np.clip(found * (1 - dollars / task_worth), 0.0, 1.0))
    assert prices.payoff(task_worth, "partial", recourse) == Payoff(1 / task_worth, "partial", recourse)


@pytest.mark.parametrize(
    ("name", "wrong", "requirement"),
    [
        ("found", 1.2, "a number, 0 or more, at most 1"),
        ("found", float("nan"), "a number, 0 or more, at most 1"),
        ("task_worth", 0.0, "a number above 0"),
        ("prefix_tokens", -1.0, "a number, 0 or more"),
        ("output", float("inf"), "a number, 0 or more"),
    ],
)
def test_a_search_that_makes_no_sense_is_refused(name: str, wrong: float, requirement: str) -> None:
    good = {"task_worth": 0.4, "found": 0.9, **SEARCH}
    with pytest.raises(UsageError, match=f"'{name}' of Prices must be {requirement}"):
        Prices().recourse(**{**good, name: wrong})


def test_the_page_shows_how_often_the_first_search_finds_the_tool() -> None:
    root = Path(__file__).parents[2]
    benchmark, page = run_path(str(root / "benchmarks" / "first_search.py")), root / "docs" / "recourse.md"
    assert benchmark["table"]() in page.read_text(encoding="utf-8")
    stored = json.loads((root / "results" / "first_search.json").read_text())
    assert benchmark["reached_table"](stored) in page.read_text(encoding="utf-8")
    assert benchmark["names"]() == stored["names"]
    told = [f"{row['tokens of names']:,} " for row in stored["names"]]
    assert f"{told[0]}tokens for 40 tools and {told[1]}for 400" in (root / "docs" / "gate.md").read_text()
    *_, best = stored["reached"]
    assert best["by its exact name"] == [440, 440]
    assert best["sixty plain searches"][0] >= 51


# The study.

"""The paper's theorems, lemmas and propositions, checked on the code: seeded in bulk, and by examples that shrink."""

from __future__ import annotations

from itertools import accumulate, product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

from camdf import LoggedTasks, Payoff, Rankings
from camdf.core.features import state_features
from camdf.core.rankings import Bools, Floats, Ints
from camdf.core.stopping import WEIGHT_FLOOR, earliest_best_depth, first_stop, frontier, gap, hindsight_targets
from three_tools import (
    CASES,
    LISTED,
    SETS,
    Worlds,
    every_required_set,
    random_stops,
    random_worlds,
)
from worlds import RECOURSES, random_logged, small_logged, small_payoffs

PAYOFFS = [Payoff(0.12, "exact"), Payoff(0.2, "partial")]
examples = settings(max_examples=300, deadline=None)
both_values = pytest.mark.parametrize("payoff", PAYOFFS, ids=["exact", "partial"])


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20260)


# Theorem 1: regret is a sum of weighted mistakes.


def weighted_mistakes(payoffs: Floats, stop: Bools, lengths: Ints) -> tuple[Floats, Floats]:
    """Both sides of Theorem 1 for every row: the realized regret, and the sum over the visited states."""
    delta = gap(payoffs)
    depth = first_stop(stop, lengths)
    visited = np.arange(stop.shape[1]) <= np.minimum(depth, lengths - 1)[:, None]
    mistakes = visited & (stop != (delta >= 0))
    regret = frontier(payoffs)[:, 0] - payoffs[np.arange(len(depth)), depth]
    return regret, (np.abs(delta) * mistakes).sum(axis=1)


@both_values
def test_regret_is_the_sum_of_weighted_mistakes_for_any_stop_pattern(rng: np.random.Generator, payoff: Payoff) -> None:
    logged = random_logged(rng, CASES, 9)
    stop = random_stops(rng, logged.required.shape)
    regret, mistakes = weighted_mistakes(payoff.by_depth(logged), stop, logged.rankings.lengths)
    assert (regret > 0.1).mean() > 0.2
    np.testing.assert_allclose(regret, mistakes, rtol=0, atol=1e-12)


def test_the_decomposition_holds_for_any_payoffs_and_not_only_for_the_papers(rng: np.random.Generator) -> None:
    payoffs = np.where(rng.random((CASES, 1)) < 0.5, rng.normal(size=(CASES, 8)), rng.integers(-2, 3, (CASES, 8)))
    regret, mistakes = weighted_mistakes(payoffs, random_stops(rng, (CASES, 7)), np.full(CASES, 7))
    np.testing.assert_allclose(regret, mistakes, rtol=0, atol=1e-12)


@examples
@given(small_logged(), small_payoffs(RECOURSES), st.data())
def test_regret_computed_from_the_definitions_is_the_sum_of_weighted_mistakes(
    logged: LoggedTasks, payoff: Payoff, data: st.DataObject
) -> None:
    for row, payoffs in enumerate(payoff.by_depth(logged).tolist()):
        m = int(logged.rankings.lengths[row])
        answers = data.draw(st.lists(st.booleans(), min_size=m, max_size=m))
        depth = next((t for t in range(m) if answers[t]), m)
        gaps = [payoffs[t] - max(payoffs[t + 1 : m + 1]) for t in range(m)]
        mistakes = sum(abs(gaps[t]) for t in range(min(depth, m - 1) + 1) if answers[t] != (gaps[t] >= 0))
        assert mistakes == pytest.approx(max(payoffs[: m + 1]) - payoffs[depth], rel=0, abs=1e-12)


@both_values
def test_following_the_labels_has_no_regret_and_any_other_walk_has_none_below_it(
    rng: np.random.Generator, payoff: Payoff
) -> None:
    logged = random_logged(rng, CASES, 9)
    lengths, payoffs = logged.rankings.lengths, payoff.by_depth(logged)
    by_label, _ = weighted_mistakes(payoffs, hindsight_targets(logged, payoff).stop, lengths)
    anyhow, _ = weighted_mistakes(payoffs, random_stops(rng, logged.required.shape), lengths)
    assert (by_label == 0).all()
    assert (anyhow >= 0).all()


@both_values
def test_regret_is_at_most_the_weighted_mistakes_of_all_states(rng: np.random.Generator, payoff: Payoff) -> None:
    # Training scores every state, also those that a walk never reaches: it lowers a bound of the regret.
    logged = random_logged(rng, CASES, 9)
    targets, stop = hindsight_targets(logged, payoff), random_stops(rng, logged.required.shape)
    regret, _ = weighted_mistakes(payoff.by_depth(logged), stop, logged.rankings.lengths)
    everywhere = (np.abs(targets.gap) * targets.state * (stop != targets.stop)).sum(axis=1)
    assert (regret <= everywhere + 1e-12).all()
    assert (regret < everywhere - 0.1).mean() > 0.2


# Lemma 1: the stopping frontier.


def test_the_earliest_best_depth_is_the_first_that_attains_the_frontier(rng: np.random.Generator) -> None:
    payoffs = rng.integers(-3, 3, (CASES, 8)).astype(np.float64)
    attained = payoffs == frontier(payoffs)
    depth = earliest_best_depth(payoffs)
    assert np.array_equal(depth, attained.argmax(axis=1))
    assert np.array_equal(payoffs[np.arange(CASES), depth], payoffs.max(axis=1))


def test_stopping_is_optimal_exactly_where_the_gap_is_not_negative(rng: np.random.Generator) -> None:
    payoffs = np.where(rng.random((CASES, 1)) < 0.5, rng.normal(size=(CASES, 8)), rng.integers(-3, 3, (CASES, 8)))
    assert np.array_equal(gap(payoffs) >= 0, (payoffs == frontier(payoffs))[:, :-1])


@examples
@given(st.lists(st.sampled_from([-1.0, -0.5, 0.0, 0.25, 1.0]), min_size=1, max_size=6))
def test_the_frontier_gap_and_depth_follow_their_definitions(payoffs: list[float]) -> None:
    row, m = np.array([payoffs]), len(payoffs) - 1
    assert frontier(row)[0].tolist() == [max(payoffs[t:]) for t in range(m + 1)]
    assert gap(row)[0].tolist() == [payoffs[t] - max(payoffs[t + 1 :]) for t in range(m)]
    assert earliest_best_depth(row)[0] == min(t for t in range(m + 1) if payoffs[t] == max(payoffs[t:]))


# Algorithm A1: labels and weights.


@both_values
def test_labels_stop_at_ties_and_weights_are_the_gap_plus_the_floor(rng: np.random.Generator, payoff: Payoff) -> None:
    logged = random_logged(rng, CASES, 9)
    targets = hindsight_targets(logged, payoff)
    assert WEIGHT_FLOOR == 1e-4
    assert np.array_equal(targets.gap, gap(payoff.by_depth(logged)))
    assert np.array_equal(targets.stop, targets.gap >= 0)
    assert np.array_equal(targets.weight, np.abs(targets.gap) + 1e-4)
    assert np.array_equal(targets.state, logged.rankings.listed)


def test_a_tie_between_stopping_and_continuing_is_labeled_stop() -> None:
    logged = LoggedTasks.from_records([{"scores": {"a": 0.9, "b": 0.1}, "required": ["b"]}])
    targets = hindsight_targets(logged, Payoff(0.5))
    assert targets.gap.tolist() == [[0.0, -0.5]]
    assert targets.stop.tolist() == [[True, False]]
    assert targets.weight.tolist() == [[1e-4, 0.5001]]


@examples
@given(small_logged(), small_payoffs())
def test_targets_match_algorithm_a1_written_out(logged: LoggedTasks, payoff: Payoff) -> None:
    targets = hindsight_targets(logged, payoff)
    for row in range(len(logged)):
        m, needed = int(logged.rankings.lengths[row]), int(logged.n_required[row])
        covered = list(accumulate(logged.required[row, :m].tolist(), initial=0))
        cost = list(accumulate(logged.rankings.costs[row, :m].tolist(), initial=0.0))
        share = [covered[t] / needed if needed else 1.0 for t in range(m + 1)]
        value = [float(share[t] == 1.0) if payoff.value == "exact" else share[t] for t in range(m + 1)]
        payoffs = [value[t] - payoff.cost_pressure * cost[t] for t in range(m + 1)]
        best = payoffs[m]
        for t in range(m - 1, -1, -1):
            delta = payoffs[t] - best
            found = targets.gap[row, t], targets.stop[row, t], targets.weight[row, t]
            assert found == (delta, delta >= 0, abs(delta) + 1e-4)
            best = max(payoffs[t], best)


# Theorem 2, Lemma 2 and Proposition 1, by enumerating every required set of small worlds.


@st.composite
def small_worlds(draw: st.DrawFn) -> Worlds:
    """One ranking, with a law that hypothesis can shrink."""
    costs = {tool: draw(st.sampled_from([1.0, 0.3, 2.0])) for tool in "abc"}
    rankings = Rankings.from_scores({"a": 0.9, "b": 0.5, "c": 0.1}, costs)
    counts = draw(st.lists(st.integers(0, 5), min_size=len(SETS), max_size=len(SETS)).filter(any))
    return every_required_set(rankings, np.array([counts]) / sum(counts))


def signs_of_the_best_classifiers(worlds: Worlds, payoff: Payoff) -> tuple[Bools, Bools]:
    """(worlds, m) twice: whether some, and whether every, minimizer of the weighted 0-1 risk stops at each state."""
    targets = hindsight_targets(worlds.logged, payoff)
    classifiers = np.array(list(product([False, True], repeat=LISTED)))
    wrong = np.abs(targets.gap)[:, None, :] * (targets.stop[:, None, :] != classifiers)
    risks = worlds.expected(wrong.sum(axis=2))
    best = risks <= risks.min(axis=1, keepdims=True) + 1e-12
    some = (best[:, :, None] & classifiers).any(axis=1)
    every = (~best[:, :, None] | classifiers).all(axis=1)
    return some, every


def assert_bayes_aligned(worlds: Worlds, payoff: Payoff) -> None:
    some, every = signs_of_the_best_classifiers(worlds, payoff)
    mean = worlds.expected(hindsight_targets(worlds.logged, payoff).gap)
    clear = np.abs(mean) > 1e-9
    assert np.array_equal(some[clear], (mean > 0)[clear])
    assert np.array_equal(every[clear], (mean > 0)[clear])


@both_values
def test_every_bayes_minimizer_has_the_sign_of_the_expected_gap(rng: np.random.Generator, payoff: Payoff) -> None:
    assert_bayes_aligned(random_worlds(rng), payoff)


@examples
@given(small_worlds(), small_payoffs(RECOURSES))
def test_the_best_of_all_classifiers_has_the_sign_of_the_expected_gap(worlds: Worlds, payoff: Payoff) -> None:
    assert_bayes_aligned(worlds, payoff)


def stop_and_continue_weight(worlds: Worlds, payoff: Payoff, floor: float = 0.0) -> tuple[Floats, Floats]:
    """Lemma 2's a and b at every state, from the weights that training uses less 0.0001 plus `floor`."""
    targets = hindsight_targets(worlds.logged, payoff)
    weight = targets.weight - WEIGHT_FLOOR + floor
    return worlds.expected(weight * targets.stop), worlds.expected(weight * ~targets.stop)


def logistic_risk(stop_weight: Any, continue_weight: Any, z: Any) -> Any:
    return stop_weight * np.logaddexp(0, -z) + continue_weight * np.logaddexp(0, z)


@both_values
def test_the_logistic_minimizer_is_the_log_of_a_over_b_and_has_the_sign_of_a_minus_b(
    rng: np.random.Generator, payoff: Payoff
) -> None:
    worlds = random_worlds(rng)
    a, b = stop_and_continue_weight(worlds, payoff)
    mean = worlds.expected(hindsight_targets(worlds.logged, payoff).gap)
    mixed = (a > 1e-6) & (b > 1e-6) & (np.abs(mean) > 1e-9)
    a, b, mean = a[mixed], b[mixed], mean[mixed]
    z = np.log(a / b)
    np.testing.assert_allclose(a - b, mean, rtol=0, atol=1e-12)
    assert np.array_equal(z > 0, mean > 0)
    for step in np.linspace(-2, 2, 41):
        assert (logistic_risk(a, b, z) <= logistic_risk(a, b, z + step) + 1e-15).all()
    # The paper's proof writes sign(b), which is always positive: it would never continue.
    assert (z < 0).mean() > 0.1
    assert (z > 0).mean() > 0.1


@examples
@given(small_worlds(), small_payoffs(RECOURSES), st.integers(0, LISTED - 1))
def test_a_numerical_minimizer_of_the_logistic_risk_agrees(worlds: Worlds, payoff: Payoff, t: int) -> None:
    a, b = (float(side[0, t]) for side in stop_and_continue_weight(worlds, payoff))
    if min(a, b) > 1e-3:
        found = minimize_scalar(lambda z: logistic_risk(a, b, z), bounds=(-15, 15), method="bounded")
        assert found.x == pytest.approx(np.log(a / b), abs=1e-3)
    # With pure labels the risk has no minimum, and the L2 penalty of the implementation gives it one of the same sign.
    if abs(a - b) > 1e-3:
        penalized = minimize_scalar(lambda z: logistic_risk(a, b, z) + 0.01 * z**2, bounds=(-15, 15), method="bounded")
        assert np.sign(penalized.x) == np.sign(a - b)


def decisions_moved_by_the_floor(worlds: Worlds, payoff: Payoff, floor: float) -> Bools:
    """(worlds, m): where weights |Z| + floor ask for another action than E[Z], after checking the shift's formula."""
    targets = hindsight_targets(worlds.logged, payoff)
    mean, stops = worlds.expected(targets.gap), worlds.expected(targets.stop)
    a, b = stop_and_continue_weight(worlds, payoff, floor)
    np.testing.assert_allclose(a - b, mean + floor * (2 * stops - 1), rtol=0, atol=1e-12)
    moved: Bools = (a - b > 1e-12) != (mean > 1e-12)
    assert (np.abs(mean[moved]) <= floor + 1e-11).all()
    return moved


@both_values
def test_the_weight_floor_moves_the_boundary_by_at_most_itself(rng: np.random.Generator, payoff: Payoff) -> None:
    worlds = random_worlds(rng)
    assert decisions_moved_by_the_floor(worlds, payoff, WEIGHT_FLOOR).mean() < 0.01
    assert decisions_moved_by_the_floor(worlds, payoff, 0.05).any()


@examples
@given(small_worlds(), small_payoffs(RECOURSES), st.sampled_from([WEIGHT_FLOOR, 0.01, 0.3]))
def test_any_weight_floor_moves_the_boundary_by_at_most_itself(worlds: Worlds, payoff: Payoff, floor: float) -> None:
    decisions_moved_by_the_floor(worlds, payoff, floor)


@pytest.mark.parametrize(("past", "flips"), [(0.4, True), (0.6, False)])
def test_the_weight_floor_can_flip_a_decision_inside_its_bound_and_not_outside(past: float, flips: bool) -> None:
    # One unit-cost tool at pressure 1/4, required with chance q: the gap is -3/4 or +1/4, its mean 1/4 - q.
    records = [{"scores": {"a": 1.0}, "required": needs} for needs in (["a"], [])]
    targets = hindsight_targets(LoggedTasks.from_records(records), Payoff(0.25))
    q = 0.25 + past * WEIGHT_FLOOR
    chance = np.array([q, 1 - q])
    assert chance @ targets.gap[:, 0] == pytest.approx(-past * WEIGHT_FLOOR, rel=1e-6)
    signed = np.where(targets.stop, targets.weight, -targets.weight)[:, 0]
    assert (chance @ signed > 0) == flips


# Proposition 1: the one-step marginal rule.


def assert_marginal_rule(worlds: Worlds, payoff: Payoff) -> None:
    worth = worlds.expected(payoff.worth_by_depth(worlds.logged))
    gain = np.diff(worth, axis=1)
    left = [SETS & (np.arange(LISTED + 1) >= t) for t in range(LISTED)]
    if payoff.value == "exact":
        next_one = [(left[t].sum(axis=1) == 1) & SETS[:, t] for t in range(LISTED)]
    else:
        next_one = [SETS[:, t] / SETS.sum(axis=1) for t in range(LISTED)]
    np.testing.assert_allclose(gain, worlds.chance @ np.array(next_one, dtype=np.float64).T, rtol=0, atol=1e-12)
    step = np.diff(worlds.expected(payoff.by_depth(worlds.logged)), axis=1)
    clear = np.abs(step) > 1e-9
    assert np.array_equal((gain / worlds.rankings.costs >= payoff.cost_pressure)[clear], (step > 0)[clear])


@both_values
def test_one_more_tool_pays_exactly_where_its_marginal_value_per_cost_reaches_the_pressure(
    rng: np.random.Generator, payoff: Payoff
) -> None:
    assert_marginal_rule(random_worlds(rng), payoff)


@examples
@given(small_worlds(), small_payoffs())
def test_the_exact_marginal_value_is_the_chance_that_the_next_tool_completes_the_set(
    worlds: Worlds, payoff: Payoff
) -> None:
    assert_marginal_rule(worlds, payoff)


def test_equal_sufficiency_of_the_prefix_can_ask_for_opposite_actions() -> None:
    payoff, steps = Payoff(0.3), []
    for rest in (["b"], ["b", "unlisted"]):
        records = [{"scores": {"a": 0.9, "b": 0.5}, "required": needs} for needs in (["a"], rest)]
        logged = LoggedTasks.from_records(records)
        assert payoff.worth_by_depth(logged).mean(axis=0)[1] == 0.5
        steps.append(float(np.diff(payoff.by_depth(logged).mean(axis=0))[1]))
    assert steps == pytest.approx([0.2, -0.3])


def test_one_step_does_not_see_a_pair_that_pays_together() -> None:
    logged = LoggedTasks.from_records([{"scores": {"a": 0.9, "b": 0.5}, "required": ["a", "b"]}])
    by_depth = Payoff(0.2).by_depth(logged)
    assert by_depth[0].tolist() == pytest.approx([0.0, -0.2, 0.6])
    assert np.diff(by_depth)[0, 0] < 0
    assert gap(by_depth)[0, 0] == pytest.approx(-0.6)


# Propositions 2 and 3: additive values. Partial coverage is additive with p_j = E[1{j in G} / |G|].


def subset_payoffs(worlds: Worlds, payoff: Payoff) -> tuple[Bools, Floats]:
    """Every subset of the listed tools, (8, m), and its expected payoff, (worlds, 8)."""
    subsets = np.array(list(product([False, True], repeat=LISTED)))
    acquired = [np.broadcast_to(subset, worlds.logged.required.shape) for subset in subsets]
    return subsets, np.hstack([worlds.expected(payoff.of(worlds.logged, mask)) for mask in acquired])


def assert_additive_structure(worlds: Worlds, payoff: Payoff) -> None:
    values = worlds.chance @ (SETS[:, :LISTED] / SETS.sum(axis=1, keepdims=True))
    costs, pressure = worlds.rankings.costs, payoff.cost_pressure
    subsets, of_subset = subset_payoffs(worlds, payoff)
    surplus = values - pressure * costs
    clear = (np.abs(surplus) > 1e-9).all(axis=1)
    assert np.array_equal(subsets[of_subset.argmax(axis=1)][clear], (values / costs >= pressure)[clear])

    partial_sums = np.hstack([np.zeros((len(values), 1)), np.cumsum(surplus, axis=1)])
    by_depth = worlds.expected(payoff.by_depth(worlds.logged))
    np.testing.assert_allclose(by_depth, partial_sums, rtol=0, atol=1e-12)
    depth = earliest_best_depth(by_depth)[:, None]
    best_sum = partial_sums.max(axis=1, keepdims=True)
    np.testing.assert_allclose(np.take_along_axis(partial_sums, depth, axis=1), best_sum, rtol=0, atol=1e-12)

    ahead = np.array([[max(np.cumsum(row[t:])) for t in range(LISTED)] for row in surplus])
    clear_ahead = np.abs(ahead) > 1e-9
    assert np.array_equal((gap(by_depth) < 0)[clear_ahead], (ahead > 0)[clear_ahead])


def test_with_additive_values_subset_prefix_and_continuation_have_closed_forms(rng: np.random.Generator) -> None:
    assert_additive_structure(random_worlds(rng), Payoff(0.2, "partial"))


@examples
@given(small_worlds(), st.floats(0.0, 0.5))
def test_the_additive_closed_forms_hold_at_any_pressure(worlds: Worlds, pressure: float) -> None:
    assert_additive_structure(worlds, Payoff(pressure, "partial"))


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(0, 6), min_size=1, max_size=5), st.integers(0, 6), st.floats(0.0, 0.5))
def test_at_equal_costs_and_values_that_fall_along_the_list_the_best_prefix_is_a_threshold(
    counts: list[int], unlisted: int, pressure: float
) -> None:
    # Just one tool is required: the first in so many of the tasks, the second in fewer, and so on.
    falling = sorted(counts, reverse=True)
    names = [f"t{j}" for j in range(len(falling))]
    needs = [name for name, count in zip(names, falling, strict=True) for _ in range(count)] + ["?"] * (unlisted + 1)
    logged = LoggedTasks.from_records([{"scores": dict.fromkeys(names, 0.5), "required": [need]} for need in needs])
    values = np.array(falling) / len(needs)
    if (np.abs(values - pressure) > 1e-9).all():
        expected = Payoff(pressure, "partial").by_depth(logged).mean(axis=0, keepdims=True)
        assert earliest_best_depth(expected)[0] == (values > pressure).sum()


def payoff_of_subset(rankings: Rankings, subset: list[int]) -> Floats:
    """The expected payoff of a subset where just one tool is required, tool j with chance score_j, at pressure 1."""
    n, m = rankings.scores.shape
    acquired = np.zeros((n, m), dtype=bool)
    acquired[:, subset] = True
    names, one = np.arange(n).astype(np.str_), np.ones(n, dtype=np.int64)
    total = np.zeros(n)
    for needed in range(m + 1):
        required = np.tile(np.arange(m) == needed, (n, 1))
        chance = rankings.scores[:, needed] if needed < m else 1.0 - rankings.scores.sum(axis=1)
        total += chance * Payoff(1.0).of(LoggedTasks(rankings, required, one, names, names), acquired)
    return total


def assert_only_the_cheap_tool_pays(draws: Floats) -> None:
    """`draws` (cases, 5) in (0, 1) picks two tools with p_i > p_j, p_i / c_i < p_j / c_j, and a pressure between."""
    value_i = 0.2 + 0.4 * draws[:, 0]
    value_j = value_i * (0.1 + 0.5 * draws[:, 1])
    cost_j = 0.1 + 2 * draws[:, 2]
    cost_i = cost_j * value_i / value_j * (1.1 + 3 * draws[:, 3])
    low, high = value_i / cost_i, value_j / cost_j
    pressure = low + (high - low) * draws[:, 4]
    # Costs times pressure put every case at pressure 1, so that one call serves all of them.
    values, priced = np.column_stack([value_i, value_j]), np.column_stack([cost_i, cost_j]) * pressure[:, None]
    n = len(draws)
    rankings = Rankings(values, priced, np.full(n, 2), np.tile([0, 1], (n, 1)), ("i", "j"))
    only_j = payoff_of_subset(rankings, [1])
    for monotone_in_value in ([], [0], [0, 1]):
        assert (only_j > payoff_of_subset(rankings, monotone_in_value)).all()


def test_no_value_monotone_rule_finds_the_optimum_where_value_and_value_per_cost_disagree(
    rng: np.random.Generator,
) -> None:
    assert_only_the_cheap_tool_pays(rng.uniform(0.001, 0.999, (CASES, 5)))


@examples
@given(st.lists(st.floats(0.001, 0.999), min_size=5, max_size=5))
def test_the_cheap_tool_alone_is_best_at_any_pressure_between_the_ratios(draws: list[float]) -> None:
    assert_only_the_cheap_tool_pays(np.array([draws]))


def test_the_papers_two_tool_instance_acquires_the_cheap_tool_and_skips_the_better_scored_one() -> None:
    rankings = Rankings.from_scores({"i": 0.8, "j": 0.5}, costs={"i": 4.0, "j": 1.0})
    per_cost, surplus = state_features(rankings, Payoff(0.3), ["next_score_per_cost", "next_surplus"])[:, 0]
    assert rankings.names(0) == ["i", "j"]
    assert per_cost.tolist() == pytest.approx([0.2, 0.5])
    assert surplus.tolist() == pytest.approx([-0.4, 0.2])
    # Values of 0.8 and 0.5 add up to more than a task is worth, so tasks realize the instance at half scale.
    needs = [["i"]] * 8 + [["j"]] * 5 + [["unlisted"]] * 7
    records = [{"scores": {"i": 0.8, "j": 0.5}, "required": need} for need in needs]
    logged, payoff = LoggedTasks.from_records(records, {"i": 4.0, "j": 1.0}), Payoff(0.15)
    masks = {subset: np.tile([("i" in subset), ("j" in subset)], (20, 1)) for subset in ("", "i", "j", "ij")}
    worth = {subset: float(payoff.of(logged, mask).mean()) for subset, mask in masks.items()}
    assert worth == pytest.approx({"": 0.0, "i": -0.2, "j": 0.1, "ij": -0.1})
    assert earliest_best_depth(payoff.by_depth(logged).mean(axis=0, keepdims=True))[0] == 0


# Where the target itself fails.


def test_the_hindsight_target_keeps_going_where_acquiring_nothing_is_best() -> None:
    # Ten candidates, one required, its rank uniform, unit costs, pressure 0.2; the state shows the depth alone.
    tools = [f"tool-{j}" for j in range(10)]
    records = [{"scores": dict.fromkeys(tools, 0.5), "required": [tool]} for tool in tools]
    logged, payoff = LoggedTasks.from_records(records), Payoff(0.2)
    worth = payoff.by_depth(logged).mean(axis=0, keepdims=True)
    assert worth[0].tolist() == pytest.approx([-0.1 * k for k in range(11)])
    assert earliest_best_depth(worth)[0] == 0

    mean_gap = hindsight_targets(logged, payoff).gap.mean(axis=0, keepdims=True)
    assert mean_gap[0, 0] == pytest.approx(-0.1)
    assert (mean_gap[0, :8] < -1e-9).all()
    assert (mean_gap[0, 8:] > 1e-9).all()
    stopped = int(first_stop(mean_gap >= 0, np.array([10]))[0])
    assert stopped == 8
    assert worth[0, stopped] == pytest.approx(-0.8)


@both_values
def test_the_hindsight_rule_never_stops_where_a_later_depth_is_expected_to_pay_more(
    rng: np.random.Generator, payoff: Payoff
) -> None:
    worlds = random_worlds(rng)
    by_depth = payoff.by_depth(worlds.logged)
    mean_gap, mean = worlds.expected(gap(by_depth)), worlds.expected(by_depth)
    depth = first_stop(mean_gap >= 0, worlds.rankings.lengths)
    later = np.take_along_axis(frontier(mean), depth[:, None], axis=1)[:, 0]
    at_depth = mean[np.arange(len(mean)), depth]
    assert (at_depth >= later - 1e-12).all()
    assert (mean_gap <= gap(mean) + 1e-12).all()
    assert (depth > earliest_best_depth(mean)).mean() > 0.01, "and where it errs it has gone on too far"

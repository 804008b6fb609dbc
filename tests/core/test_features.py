"""The feature map: every column against a slow reading of its definition, and the bits that must never change."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from camdf import LoggedTasks, Payoff, Rankings
from camdf.core.features import (
    AGGREGATES,
    COLUMNS,
    COST_AUGMENTED,
    COST_FREE,
    FULL,
    LITE,
    SCORE_AGGREGATES,
    state_features,
)
from camdf.core.rankings import Floats
from camdf.policies.models.linear import state_matrix
from camdf_lab.domains.costs import RETAIL_BASE_COSTS, dispersed
from worlds import random_logged, small_logged, small_payoffs

PAYOFF = Payoff(0.12)
examples = settings(max_examples=200, deadline=None)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(39)


@pytest.fixture
def rankings(rng: np.random.Generator) -> Rankings:
    """Lists of 0 to 9 candidates: half in score order, half in any order."""
    made = random_logged(rng, 400, 9).rankings
    shuffle = np.where(np.arange(400)[:, None] < 200, made.order_by(made.scores), made.order_by(rng.random((400, 9))))
    return made.reordered(shuffle)


# The inventory.


def test_the_sets_of_columns_have_the_papers_sizes() -> None:
    sizes = [len(names) for names in (FULL, AGGREGATES, SCORE_AGGREGATES, LITE, COST_FREE, COST_AUGMENTED)]
    assert sizes == [32, 16, 9, 10, 15, 20]
    assert set(SCORE_AGGREGATES) < set(AGGREGATES) < set(FULL)
    assert set(COST_FREE) < set(COST_AUGMENTED) < set(FULL)


@pytest.mark.parametrize("names", [AGGREGATES, SCORE_AGGREGATES, LITE, COST_FREE, COST_AUGMENTED])
def test_every_set_of_columns_keeps_the_order_of_the_feature_map(names: tuple[str, ...]) -> None:
    assert list(names) == [name for name in FULL if name in names]
    assert tuple(COLUMNS) == FULL


def test_lite_has_exactly_the_ten_columns_of_the_papers_coefficient_table() -> None:
    assert set(LITE) == {
        "progress",  # Progress t/m
        "next_score",  # Next score
        "next_score_per_cost",  # Next score/cost
        "next_score_gap",  # Next score gap
        "remaining_score_max",  # Rem. max score
        "remaining_score_share",  # Rem. score (norm.)
        "remaining_score_per_cost",  # Rem. score/cost
        "selected_cost_share",  # Selected cost
        "priced_next_cost",  # lambda x next cost
        "next_high_cost",  # Next high-cost indicator
    }


def test_retails_seven_tools_make_39_columns_with_the_next_tool_as_identity(rng: np.random.Generator) -> None:
    tools = list(RETAIL_BASE_COSTS)
    scores = [dict(zip(tools, row, strict=True)) for row in rng.random((20, 7)).tolist()]
    rankings = Rankings.from_scores(scores, dispersed(RETAIL_BASE_COSTS, 1.0))
    matrix = state_matrix(rankings, PAYOFF, FULL, tools, rankings.listed)
    assert matrix.shape == (20 * 7, 39)
    next_tools = [tools[column] for column in matrix[:, 32:].argmax(axis=1)]
    assert next_tools == [name for row in range(20) for name in rankings.names(row)]
    assert (matrix[:, 32:].sum(axis=1) == 1).all()


@pytest.mark.parametrize("name", FULL)
def test_every_column_is_defined_by_a_docstring(name: str) -> None:
    definition = COLUMNS[name].__doc__
    assert definition is not None
    assert definition.endswith(".")


# The definitions.


def over(part: float, whole: float) -> float:
    """A ratio in which 0 / 0 is 0."""
    return part / whole if whole else 0.0


def mean(values: list[float]) -> float:
    return over(sum(values), len(values))


def state_by_hand(scores: list[float], costs: list[float], pressure: float, t: int) -> dict[str, float]:
    """Every column at depth t of one list, read off the docstrings."""
    m = len(scores)
    chosen, left = scores[:t], scores[t:]
    paid, owed = costs[:t], costs[t:]
    score, cost = scores[t], costs[t]
    return {
        "progress": t / m,
        "selected_score_sum": sum(chosen),
        "selected_score_mean": mean(chosen),
        "selected_score_last": chosen[-1] if chosen else scores[0],
        "remaining_score_sum": sum(left),
        "remaining_score_mean": mean(left),
        "remaining_score_max": max(left),
        "remaining_score_share": over(sum(left), sum(scores)),
        "first_score": scores[0],
        "selected_cost_sum": sum(paid),
        "selected_cost_share": sum(paid) / sum(costs),
        "selected_cost_mean": mean(paid),
        "remaining_cost_sum": sum(owed),
        "remaining_cost_mean": mean(owed),
        "selected_score_per_cost": over(sum(chosen), sum(paid)),
        "remaining_score_per_cost": sum(left) / sum(owed),
        "next_score": score,
        "next_cost": cost,
        "next_score_per_cost": score / cost,
        "next_high_cost": 1.0 if cost > mean(costs) * (1 + 1e-9) else 0.0,
        "next_score_gap": score - (scores[t + 1] if t + 1 < m else 0.0),
        "next_score_drop": chosen[-1] - score if chosen else 0.0,
        "next_score_share": over(score, sum(left)),
        "next_score_squared": score**2,
        "next_score_times_cost": score * cost,
        "next_score_times_progress": score * t / m,
        "next_relative_cost": cost / mean(costs),
        "cost_spread": max(costs) / mean(costs),
        "priced_next_cost": pressure * cost,
        "priced_remaining_cost": pressure * sum(owed),
        "next_surplus": score - pressure * cost,
        "remaining_surplus": sum(max(s - pressure * c, 0.0) for s, c in zip(left, owed, strict=True)),
    }


def by_hand(rankings: Rankings, payoff: Payoff, name: str) -> list[float]:
    """One column at every state that exists, task by task and depth by depth."""
    lists = zip(rankings.scores.tolist(), rankings.costs.tolist(), rankings.lengths.tolist(), strict=True)
    return [
        state_by_hand(scores[:m], costs[:m], payoff.cost_pressure, t)[name]
        for scores, costs, m in lists
        for t in range(m)
    ]


@pytest.mark.parametrize("name", FULL)
def test_every_column_is_what_its_docstring_says(rankings: Rankings, name: str) -> None:
    found = state_features(rankings, PAYOFF, [name])[0][rankings.listed]
    np.testing.assert_allclose(found, by_hand(rankings, PAYOFF, name), rtol=1e-12, atol=1e-12)


@examples
@given(small_logged(), small_payoffs())
def test_every_column_is_what_its_docstring_says_on_small_lists(logged: LoggedTasks, payoff: Payoff) -> None:
    rankings = logged.rankings
    found = state_features(rankings, payoff)[:, rankings.listed]
    for name, column in zip(FULL, found, strict=True):
        np.testing.assert_allclose(column, by_hand(rankings, payoff, name), rtol=1e-12, atol=1e-12, err_msg=name)


@pytest.mark.parametrize("names", [LITE, ("next_cost",), ("remaining_surplus", "progress")])
def test_columns_come_in_the_order_asked_for_and_do_not_depend_on_the_others(
    rankings: Rankings, names: tuple[str, ...]
) -> None:
    everything = dict(zip(FULL, state_features(rankings, PAYOFF), strict=True))
    assert np.array_equal(state_features(rankings, PAYOFF, names), np.array([everything[name] for name in names]))


# Bits that never change.


def alone(rankings: Rankings, row: int) -> Rankings:
    """One task as a live decision sees it: no neighbors, no padding."""
    one, length = rankings.take([row]), int(rankings.lengths[row])
    return replace(one, scores=one.scores[:, :length], costs=one.costs[:, :length], tool_ids=one.tool_ids[:, :length])


def assert_same_bits_alone_and_padded(rankings: Rankings, payoff: Payoff) -> None:
    batch = state_features(rankings, payoff)
    for row, length in enumerate(rankings.lengths.tolist()):
        assert np.array_equal(state_features(alone(rankings, row), payoff)[:, 0], batch[:, row, :length])
    for width in (rankings.width + 1, 3 * rankings.width + 7):
        wider = state_features(rankings.padded_to(width), payoff)[:, :, : rankings.width]
        assert np.array_equal(wider[:, rankings.listed], batch[:, rankings.listed])


def test_padding_and_batch_size_change_no_bit(rankings: Rankings) -> None:
    assert_same_bits_alone_and_padded(rankings, PAYOFF)


@examples
@given(small_logged(), small_payoffs())
def test_padding_and_batch_size_change_no_bit_of_small_lists(logged: LoggedTasks, payoff: Payoff) -> None:
    assert_same_bits_alone_and_padded(logged.rankings, payoff)


@pytest.mark.parametrize("tasks", [1, 2, 7, 399])
def test_the_number_and_the_order_of_tasks_change_no_bit(
    rng: np.random.Generator, rankings: Rankings, tasks: int
) -> None:
    rows = rng.permutation(len(rankings))[:tasks]
    assert np.array_equal(state_features(rankings.take(rows), PAYOFF), state_features(rankings, PAYOFF)[:, rows])


def test_values_are_finite_at_padding_and_for_empty_lists(rankings: Rankings) -> None:
    assert (rankings.lengths == 0).any()
    assert np.isfinite(state_features(rankings.padded_to(12), PAYOFF)).all()


@pytest.mark.parametrize(("tasks", "shape"), [([], (32, 0, 0)), ([{}], (32, 1, 0)), ([{}, {}], (32, 2, 0))])
def test_no_tasks_or_no_candidates_make_an_empty_map(tasks: list[dict[str, float]], shape: tuple[int, ...]) -> None:
    assert state_features(Rankings.from_scores(tasks), PAYOFF).shape == shape


def test_inputs_are_neither_changed_nor_shared(rankings: Rankings) -> None:
    arrays = [rankings.scores, rankings.costs, rankings.lengths, rankings.tool_ids]
    copies = [array.copy() for array in arrays]
    first = state_features(rankings, PAYOFF)
    kept = first.copy()
    for name in FULL:
        state_features(rankings, PAYOFF, [name])[...] = -1.0
    assert all(np.array_equal(array, copy) for array, copy in zip(arrays, copies, strict=True))
    assert np.array_equal(state_features(rankings, PAYOFF), kept)
    assert not any(np.shares_memory(first, array) for array in arrays)


# What enters a column, and what must not.


def unchanged_columns(rankings: Rankings, before: Floats, after: Floats) -> set[str]:
    listed = rankings.listed
    return {name for i, name in enumerate(FULL) if np.array_equal(before[i][listed], after[i][listed])}


def test_prices_and_pressure_enter_every_column_but_the_cost_free_ones(
    rng: np.random.Generator, rankings: Rankings
) -> None:
    before = state_features(rankings, PAYOFF)
    other_prices = rankings.with_costs(rankings.costs * rng.uniform(0.5, 2.0, rankings.costs.shape))
    assert unchanged_columns(rankings, before, state_features(other_prices, PAYOFF)) == set(COST_FREE)
    pressed = {"priced_next_cost", "priced_remaining_cost", "next_surplus", "remaining_surplus"}
    assert unchanged_columns(rankings, before, state_features(rankings, Payoff(0.2))) == set(FULL) - pressed
    assert unchanged_columns(rankings, before, state_features(rankings, Payoff(0.12, "partial"))) == set(FULL)


@pytest.mark.parametrize("price", [1.0, 0.1, 0.7, 3.3])
def test_the_five_extra_cost_columns_are_constant_where_costs_are_equal(rankings: Rankings, price: float) -> None:
    extra = [name for name in COST_AUGMENTED if name not in COST_FREE]
    flat = rankings.with_costs(np.where(rankings.listed, price, 0.0))
    values = state_features(flat, PAYOFF, extra)[:, rankings.listed]
    assert len(extra) == 5
    # Adding a price up and dividing by the count rounds, so ratios are 1 to a few units in the last place.
    np.testing.assert_allclose(values, np.broadcast_to(values[:, :1], values.shape), rtol=1e-14, atol=0)
    constants = dict(zip(extra, values[:, 0].tolist(), strict=True))
    expected = {"next_cost": price, "next_relative_cost": 1.0, "next_high_cost": 0.0, "cost_spread": 1.0}
    assert constants == pytest.approx({**expected, "priced_next_cost": 0.12 * price})


def test_at_unit_costs_lite_columns_coincide_as_their_coefficients_do_in_the_paper(rng: np.random.Generator) -> None:
    rankings = random_logged(rng, 300, 9, spreads=(0.0,)).rankings
    lite = dict(zip(LITE, state_features(rankings, PAYOFF, LITE)[:, rankings.listed], strict=True))
    assert np.array_equal(lite["next_score"], lite["next_score_per_cost"])
    assert np.array_equal(lite["next_score"], lite["remaining_score_max"])
    assert np.array_equal(lite["progress"], lite["selected_cost_share"])
    assert set(lite["priced_next_cost"]) == {0.12}
    assert set(lite["next_high_cost"]) == {0.0}


def labeled(logged: LoggedTasks, required: list[list[str]]) -> LoggedTasks:
    """The same tasks with other required tools, built from records as a log is."""
    r = logged.rankings
    records = [
        {"scores": dict(zip(r.names(i), r.scores[i].tolist(), strict=False)), "required": names}
        for i, names in enumerate(required)
    ]
    prices = {tool: 0.2 + 0.1 * i for i, tool in enumerate(r.catalogue)}
    return LoggedTasks.from_records(records, prices)


def assert_labels_never_reach_a_feature(logged: LoggedTasks, rng: np.random.Generator) -> None:
    tools = list(logged.rankings.catalogue) or ["unlisted"]
    erased: list[list[str]] = [[] for _ in range(len(logged))]
    random = [rng.choice([*tools, "unlisted"], rng.integers(0, 4)).tolist() for _ in range(len(logged))]
    true = [
        [name for name, marked in zip(logged.rankings.names(i), logged.required[i], strict=False) if marked]
        for i in range(len(logged))
    ]
    unlabeled = labeled(logged, erased)
    features = state_features(unlabeled.rankings, PAYOFF)
    for required in (true, true[::-1], random):
        other = labeled(logged, required)
        assert np.array_equal(state_features(other.rankings, PAYOFF), features)
        moved = other.reordered(other.rankings.order_by(other.rankings.costs)).padded_to(other.rankings.width + 1)
        same = unlabeled.reordered(unlabeled.rankings.order_by(other.rankings.costs))
        listed = same.rankings.listed
        found = state_features(moved.rankings, PAYOFF)[:, :, : other.rankings.width]
        assert np.array_equal(found[:, listed], state_features(same.rankings, PAYOFF)[:, listed])


def test_permuting_or_erasing_the_required_tools_changes_no_feature(rng: np.random.Generator) -> None:
    assert_labels_never_reach_a_feature(random_logged(rng, 200, 9), rng)


@examples
@given(small_logged(), st.integers(0, 2**32 - 1))
def test_the_required_tools_change_no_feature_of_small_lists(logged: LoggedTasks, seed: int) -> None:
    assert_labels_never_reach_a_feature(logged, np.random.default_rng(seed))

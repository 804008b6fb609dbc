"""The law of set sizes: its sums against every set written out, and what it learns from worlds whose law is known."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from camdf.core.probability import logit, sigmoid
from camdf.core.rankings import Floats
from camdf.core.sets import (
    AT_LEAST_ONE,
    SIZES,
    SMALLEST,
    SizeLaw,
    expected_shares,
    size_chances,
    sufficiency_by_cut,
    value_order,
    worth_by_cut,
)
from camdf.policies.models.set_law import (
    FLATTEST,
    LEVEL,
    SHARPNESS,
    SPREAD,
    STEP,
    UNDECIDED,
    SetLaw,
    cuts_by_chance,
    fit_calibration,
    fit_set_law,
    fit_sizes,
    required_sizes,
    sharpened,
)
from small_sets import model

chances = st.lists(st.floats(0.001, 0.999), min_size=1, max_size=7)
laws = st.lists(st.floats(0.01, 1.0), min_size=SIZES, max_size=SIZES).map(lambda each: SizeLaw(tuple(each)))


def sets_of(p: list[float], law: SizeLaw) -> dict[tuple[int, ...], float]:
    """Every set that is not empty, and how likely it is under the law, written out."""
    found = {}
    for size in range(1, len(p) + 1):
        for chosen in combinations(range(len(p)), size):
            odds = np.prod([p[j] / (1 - p[j]) for j in chosen])
            found[chosen] = float(law.weights[min(size, SIZES) - 1] * odds)
    total = sum(found.values())
    return {chosen: weight / total for chosen, weight in found.items()}


def cut_chances(p: Floats, law: SizeLaw) -> list[float]:
    """How often all sets within the first k together are required, k = 0 to all."""
    sets = sets_of(p.tolist(), law)
    return [sum(w for chosen, w in sets.items() if max(chosen) < k) for k in range(len(p) + 1)]


def log_not(p: list[float]) -> Floats:
    return np.asarray(np.log1p(-np.array([p])))


@settings(deadline=None)
@given(chances, laws)
def test_a_cut_suffices_as_often_as_all_sets_within_it_together(p: list[float], law: SizeLaw) -> None:
    np.testing.assert_allclose(
        sufficiency_by_cut(log_not(p), law)[0], cut_chances(np.array(p), law), rtol=1e-9, atol=1e-12
    )


@settings(deadline=None)
@given(chances, laws, st.floats(0.0, 1.0))
def test_with_recourse_a_cut_is_worth_what_all_sets_are_together(p: list[float], law: SizeLaw, recourse: float) -> None:
    sets = sets_of(p, law)
    expected = [
        sum(w * recourse ** sum(j >= k for j in chosen) for chosen, w in sets.items()) for k in range(len(p) + 1)
    ]
    np.testing.assert_allclose(worth_by_cut(log_not(p), recourse, law)[0], expected, rtol=1e-9, atol=1e-12)


@settings(deadline=None)
@given(chances, laws)
def test_expected_shares_are_those_of_all_sets_together(p: list[float], law: SizeLaw) -> None:
    sets = sets_of(p, law)
    expected = [sum(w / len(chosen) for chosen, w in sets.items() if j in chosen) for j in range(len(p))]
    found = expected_shares(np.array([p]), np.ones((1, len(p)), dtype=bool), (1.0,), law)[0]
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


def best_of(values: dict[tuple[int, ...], float], costs: list[float], pressure: float) -> float:
    return max(value - pressure * sum(costs[j] for j in chosen) for chosen, value in values.items())


def worth_of_every_set(p: list[float], law: SizeLaw, recourse: float = 0.0) -> dict[tuple[int, ...], float]:
    """E[recourse^missed] of every set, written out."""
    sets, every = sets_of(p, law), [each for size in range(len(p) + 1) for each in combinations(range(len(p)), size)]
    return {each: sum(w * recourse ** len(set(chosen) - set(each)) for chosen, w in sets.items()) for each in every}


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(0.001, 0.999), min_size=1, max_size=5), laws, st.floats(0.0, 1.0), st.floats(0.0, 0.5))
def test_at_equal_costs_no_set_beats_the_best_cut_under_any_law(
    p: list[float], law: SizeLaw, recourse: float, pressure: float
) -> None:
    likeliest_first = sorted(p, reverse=True)
    best = best_of(worth_of_every_set(likeliest_first, law, recourse), [1.0] * len(p), pressure)
    cuts = worth_by_cut(log_not(likeliest_first), recourse, law)[0] - pressure * np.arange(len(p) + 1)
    assert cuts.max() == pytest.approx(best, abs=1e-9)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.floats(0.001, 0.999), min_size=1, max_size=5),
    laws,
    st.tuples(st.floats(-2.0, 2.0), st.floats(FLATTEST, 3.0)),
    st.floats(0.0, 0.5),
)
def test_at_equal_costs_no_set_beats_the_best_cut_however_sets_are_calibrated(
    p: list[float], law: SizeLaw, calibration: tuple[float, float], pressure: float
) -> None:
    likeliest_first, known = sorted(p, reverse=True), model(calibration=calibration)
    every = worth_of_every_set(likeliest_first, law)
    calibrated = known.calibrated(np.array(list(every.values()))).tolist()
    best = best_of(dict(zip(every, calibrated, strict=True)), [1.0] * len(p), pressure)
    cuts = known.calibrated(sufficiency_by_cut(log_not(likeliest_first), law)[0]) - pressure * np.arange(len(p) + 1)
    assert cuts.max() == pytest.approx(best, abs=1e-6)


def test_at_unequal_costs_a_law_of_sizes_may_have_a_better_set_than_every_cut() -> None:
    # Every task needs just one tool: then value adds up over tools, and the order by -log(1 - p) / cost is not the one.
    just_one = SizeLaw((1.0, *(1e-12,) * (SIZES - 1)))
    p, costs, pressure = [0.6, 0.9], [1.0, 3.0], 0.2
    order, logs = value_order(np.array([p]), np.array([costs]), np.ones((1, 2), dtype=bool))
    assert order.tolist() == [[0, 1]]
    cuts = sufficiency_by_cut(logs, just_one)[0] - pressure * np.cumsum([0.0, *costs])
    assert cuts.tolist() == pytest.approx([0.0, 1 / 7 - 0.2, 0.2])
    assert best_of(worth_of_every_set(p, just_one), costs, pressure) == pytest.approx(6 / 7 - 0.6)


@settings(deadline=None)
@given(chances)
def test_the_sums_over_sizes_give_independence_where_the_law_says_no_more(p: list[float]) -> None:
    nearly = SizeLaw((*AT_LEAST_ONE.weights[:-1], 1.0 - 1e-12))  # equal, and summed up all the same
    listed = np.ones((1, len(p)), dtype=bool)
    for recourse in (0.0, 0.6):
        one, other = (worth_by_cut(log_not(p), recourse, law) for law in (AT_LEAST_ONE, nearly))
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-11)
    for missing in ((1.0,), (0.7, 0.2, 0.1)):
        shares = [expected_shares(np.array([p]), listed, missing, law) for law in (AT_LEAST_ONE, nearly)]
        np.testing.assert_allclose(shares[0], shares[1], rtol=1e-8, atol=1e-11)


@settings(deadline=None)
@given(chances, laws, st.integers(1, 5))
def test_padding_changes_no_bit(p: list[float], law: SizeLaw, extra: int) -> None:
    narrow, wide = log_not(p), np.pad(log_not(p), ((0, 0), (0, extra)))
    listed = np.pad(np.ones((1, len(p)), dtype=bool), ((0, 0), (0, extra)))
    for one, other in (
        (sufficiency_by_cut(narrow, law), sufficiency_by_cut(wide, law)),
        (worth_by_cut(narrow, 0.4, law), worth_by_cut(wide, 0.4, law)),
        (
            expected_shares(np.array([p]), listed[:, : len(p)], (0.9, 0.1), law),
            expected_shares(np.pad([p], ((0, 0), (0, extra))), listed, (0.9, 0.1), law),
        ),
    ):
        assert np.array_equal(one, other[:, : one.shape[1]])


@pytest.mark.parametrize("width", [1, 13, 14, 60, 415])
def test_sizes_of_long_lists_are_counted_without_overflow(width: int) -> None:
    for chance in (1e-9, 1e-3, 0.5, 1 - 1e-9):
        found = size_chances(np.log1p(-np.full((1, width), chance)))[:, 0, -1]
        assert np.isfinite(found).all()
        assert found.sum() == pytest.approx(1.0, abs=1e-9)
        assert found @ np.arange(SIZES + 1) <= min(width * chance, SIZES) + 1e-9


def world(rng: np.random.Generator, tasks: int, law: SizeLaw) -> tuple[Floats, Floats]:
    """Probabilities, and sets drawn from the law."""
    p = rng.uniform(0.05, 0.6, size=(tasks, 6))
    needed = np.zeros(p.shape)
    for row in range(tasks):
        sets = sets_of(p[row].tolist(), law)
        chosen = list(sets)[rng.choice(len(sets), p=list(sets.values()))]
        needed[row, list(chosen)] = 1.0
    return p, needed


@settings(max_examples=5, deadline=None)
@given(st.integers(0, 1000))
def test_tasks_that_always_need_two_tools_are_found_out(seed: int) -> None:
    exactly_two = SizeLaw((1e-9, 1.0, *(1e-9,) * (SIZES - 2)))
    p, needed = world(np.random.default_rng(seed), 300, exactly_two)
    law = fit_set_law(p, needed, np.ones(p.shape, dtype=bool), np.ones(len(p)))
    order = np.sort(-p, axis=1)
    suffices = sufficiency_by_cut(np.log1p(-sharpened(-order, law.sharpness)), law.sizes)
    assert suffices[:, 1].mean() < 0.01
    assert sufficiency_by_cut(np.log1p(order))[:, 1].mean() > 0.05


@settings(max_examples=5, deadline=None)
@given(st.integers(0, 1000))
def test_where_tools_are_independent_the_law_says_so(seed: int) -> None:
    p, needed = world(np.random.default_rng(seed), 400, AT_LEAST_ONE)
    law = fit_set_law(p, needed, np.ones(p.shape, dtype=bool), np.ones(len(p)))
    order = np.log1p(np.sort(-p, axis=1))
    by_law = sufficiency_by_cut(np.log1p(-sharpened(-np.expm1(order), law.sharpness)), law.sizes)
    assert np.abs(by_law - sufficiency_by_cut(order)).mean() < 0.05


@settings(max_examples=6, deadline=None)
@given(st.integers(0, 1000), laws, st.sampled_from(SHARPNESS))
def test_no_other_law_of_sizes_makes_the_required_sets_likelier(seed: int, law: SizeLaw, sharpness: float) -> None:
    rng = np.random.default_rng(seed)
    p, needed = world(rng, 10, law)
    listed, weights = np.ones(p.shape, dtype=bool), rng.uniform(0.2, 1.0, len(p))
    required = required_sizes(needed, listed, weights)
    least, best = fit_sizes(p, needed, listed, weights, required, sharpness)

    def loss(log_g: Floats) -> float:
        total = 0.5 * (np.log(sharpness) / SPREAD) ** 2
        total += 0.5 * (np.diff(log_g) ** 2).sum() / STEP**2 + 0.5 * LEVEL * log_g.mean() ** 2
        for row, weight in enumerate(weights):
            odds = np.exp(sharpness * np.log(p[row] / (1 - p[row])))
            sharp = SizeLaw(tuple(np.exp(log_g).tolist()))
            total -= weight * np.log(sets_of((odds / (1 + odds)).tolist(), sharp)[tuple(np.flatnonzero(needed[row]))])
        return float(total)

    assert least == pytest.approx(loss(best), rel=1e-6)
    for _ in range(4):
        assert loss(best + rng.normal(0, 0.1, SIZES)) > least


def test_from_no_task_nothing_is_learned() -> None:
    nothing = np.zeros((0, 4))
    assert fit_set_law(nothing, nothing, nothing > 0, np.zeros(0)) == SetLaw()


@settings(max_examples=5, deadline=None)
@given(st.integers(0, 1000), st.floats(-0.8, 0.8), st.floats(0.6, 1.5))
def test_a_calibration_is_found_from_sets_that_suffice_by_it(seed: int, level: float, slope: float) -> None:
    rng = np.random.default_rng(seed)
    chance = rng.uniform(0.02, 0.98, 20_000)
    suffices = rng.random(len(chance)) < sigmoid(level + slope * logit(chance, SMALLEST))
    found = fit_calibration(chance, suffices.astype(np.float64), np.ones(len(chance)))
    assert found == pytest.approx((level, slope), abs=0.1)


def test_a_calibration_rises_even_where_the_likeliest_sets_always_fail() -> None:
    fails = np.zeros(10_000)
    level, slope = fit_calibration(np.full(len(fails), 0.95), fails, np.ones(len(fails)))
    assert (level < -1.0, slope) == (True, FLATTEST)


def test_a_calibration_from_few_sets_stays_near_none() -> None:
    assert fit_calibration(np.zeros(0), np.zeros(0), np.zeros(0)) == (0.0, 1.0)
    level, slope = fit_calibration(np.array([0.9, 0.8]), np.zeros(2), np.ones(2))
    assert -0.5 < level < 0
    assert 0.8 < slope < 1.0


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 1000), laws)
def test_sets_are_taken_likeliest_first_and_share_the_weight_of_their_task(seed: int, law: SizeLaw) -> None:
    rng = np.random.default_rng(seed)
    p, needed = world(rng, 8, law)
    listed, weights = np.ones(p.shape, dtype=bool), rng.uniform(0.2, 1.0, len(p))
    chance, suffices, each = cuts_by_chance(p, needed, listed, weights, law, 1.0)
    expected = []
    for row, weight in enumerate(weights):
        order = np.argsort(-p[row])
        by_cut = [(q, bool(needed[row, order[k:]].sum() == 0)) for k, q in enumerate(cut_chances(p[row][order], law))]
        some = [(q, did) for q, did in by_cut if UNDECIDED < q < 1 - UNDECIDED]
        expected += [(q, did, weight / len(some)) for q, did in some]
    np.testing.assert_allclose(np.stack([chance, suffices, each], axis=1), expected, atol=1e-7)

"""A challenger is judged every day, one after another, and chance alone promotes hardly any."""

from __future__ import annotations

from collections.abc import Callable
from math import log
from typing import TypeAlias

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from camdf import Payoff, TopK, cold_start
from camdf.core.rankings import Floats, Rankings
from camdf.evaluation.assess import answer_of
from camdf.evaluation.champion import ERROR, RATES, Evidence, Trial, compared, error_of, log_evidence
from camdf.evaluation.replay import all_handed_over
from camdf.gate import Gate, Guards, Limits
from camdf.tools import Tool
from camdf_lab import domains
from saying import says

YEARS, DAYS, A_DAY, PATIENCE = 600, 365, 20, 600
"""Judged tasks a day; after so many a challenger is given up for the next one."""

Draw: TypeAlias = Callable[[np.random.Generator, Floats, Floats], Floats]
"""From a source of chance, the tasks on which each challenger was judged and its sum, (years,), to (years, A_DAY)."""


def either(rng: np.random.Generator, size: float, often: float, gains: Floats | float = 0.5) -> Floats:
    """0 mostly; where two policies differ, `size` more or less."""
    drawn = rng.random((YEARS, A_DAY))
    share = np.broadcast_to(np.asarray(gains), (YEARS,))[:, None]
    return size * ((drawn < often * share).astype(float) - ((drawn >= often * share) & (drawn < often)))


def two_values(rng: np.random.Generator, usual: float, rare: float) -> Floats:
    """Of mean zero."""
    chance = usual / (usual - rare)
    return np.where(rng.random((YEARS, A_DAY)) < chance, rare, usual)


def in_waves(rng: np.random.Generator, tasks: Floats, total: Floats) -> Floats:
    """Worse and better by turns, and never better on average since the trial began."""
    mean = -0.05 * np.sin(tasks / 40)
    return either(rng, 0.5, 0.5, 0.5 + mean / 0.5)


def with_the_past(rng: np.random.Generator, tasks: Floats, total: Floats) -> Floats:
    """More varied where it is already ahead."""
    return either(rng, 0.5, 0.3) * np.where(total > 0, 2.0, 0.5)[:, None]


NO_BETTER: dict[str, Draw] = {
    "as good": lambda rng, tasks, total: either(rng, 0.4, 0.2),
    "a little worse": lambda rng, tasks, total: either(rng, 0.4, 0.2, 0.48),
    "many small gains and rare large losses": lambda rng, tasks, total: two_values(rng, 0.02, -0.9),
    "many small losses and rare large gains": lambda rng, tasks, total: two_values(rng, -0.02, 0.9),
    "worse and better by turns": in_waves,
    "more varied when ahead": with_the_past,
}


def years_with_a_promotion(draw: Draw, promotes: Callable[..., np.ndarray], seed: int = 0) -> float:
    """The share of years in which any challenger is promoted at any of its daily looks."""
    rng = np.random.default_rng(seed)
    number, tasks, total, squares = (np.full(YEARS, start) for start in (1.0, 0.0, 0.0, 0.0))
    promoted = np.zeros(YEARS, dtype=bool)
    for _ in range(DAYS):
        paid = draw(rng, tasks, total)
        tasks, total, squares = tasks + A_DAY, total + paid.sum(axis=1), squares + (paid**2).sum(axis=1)
        found = promotes(number, tasks, total, squares)
        promoted |= found
        over = found | (tasks >= PATIENCE)
        number = number + over
        tasks, total, squares = (np.where(over, 0.0, each) for each in (tasks, total, squares))
    return float(promoted.mean())


def at_every_look(number: Floats, tasks: Floats, total: Floats, squares: Floats) -> np.ndarray:
    allowed: Floats = ERROR / (number * (number + 1))
    return np.greater(log_evidence(total, squares, 1.0), -np.log(allowed))


def by_a_plain_interval(number: Floats, tasks: Floats, total: Floats, squares: Floats) -> np.ndarray:
    """Whether the usual 95% interval lies above zero."""
    deviation = np.sqrt(np.maximum(squares - total**2 / tasks, 1e-12))
    return total > 1.96 * deviation


@pytest.mark.parametrize("kind", NO_BETTER)
def test_at_most_five_percent_of_years_see_a_false_promotion_over_all_challengers_and_looks(kind: str) -> None:
    assert years_with_a_promotion(NO_BETTER[kind], at_every_look) <= ERROR


def test_a_plain_interval_that_is_looked_at_every_day_promotes_by_chance_in_most_years() -> None:
    assert years_with_a_promotion(NO_BETTER["as good"], by_a_plain_interval) > 0.5


def test_what_pays_is_promoted_within_the_year() -> None:
    assert years_with_a_promotion(lambda rng, tasks, total: either(rng, 0.4, 0.2, 0.75), at_every_look) > 0.95


def test_all_challengers_together_spend_the_error_and_no_more() -> None:
    assert [error_of(number) for number in (1, 2, 3)] == [ERROR / 2, ERROR / 6, ERROR / 12]
    assert sum(error_of(number) for number in range(1, 10_000)) == pytest.approx(ERROR, rel=1e-3)
    assert sum(error_of(number) for number in range(1, 10_000)) < ERROR


@settings(deadline=None)
@given(st.floats(-1, 50), st.floats(0, 0.999))
def test_the_factor_of_one_task_is_at_most_one_plus_its_bet(difference: float, rate: float) -> None:
    """exp(r d - psi(r) d^2) <= 1 + r d for d >= -1: so its mean is at most 1 + r m <= exp(r m)."""
    pace = -np.log1p(-rate) - rate
    assert np.exp(rate * difference - pace * difference**2) <= 1 + rate * difference + 1e-12


@settings(deadline=None)
@given(st.floats(-50, 50), st.floats(0, 50), st.floats(1, 300), st.floats(1, 2))
def test_a_larger_bound_never_adds_evidence(total: float, squares: float, bound: float, more: float) -> None:
    """So a bound that rises from look to look leaves less than one that was right for each task."""
    before, after = (log_evidence(np.array(total), np.array(squares), each) for each in (bound, bound * more))
    assert after <= before + 1e-9


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.floats(-2, 2), min_size=1, max_size=60),
    st.sampled_from([0.05, 0.001]),
)
def test_the_interval_holds_the_mean_and_lies_above_zero_exactly_where_the_evidence_is_enough(
    differences: list[float], error: float
) -> None:
    paid = np.array(differences)
    evidence = Evidence(len(paid), float((paid**2).sum()), 2.0, (float(paid.sum()), 0, 0, 0, 0))
    margin, other = evidence.margin(error), evidence.margin(error / 10)
    assert margin.low - 1e-9 <= margin.mean <= margin.high + 1e-9
    assert other.low <= margin.low + 1e-9
    found = float(log_evidence(np.array(paid.sum()), np.array((paid**2).sum()), 2.0)) - log(1 / error)
    if abs(found) > 1e-6:
        assert (margin.low > 0) == (found > 0)


def test_evidence_adds_up_over_looks_whatever_the_order() -> None:
    logged, payoff = domains.load("workbench", "minilm"), Payoff(0.06)
    whole = compared(TopK(2), TopK(3), logged, payoff)
    half = [compared(TopK(2), TopK(3), logged.take(slice(*part)), payoff) for part in ((0, 300), (300, None))]
    for joined in (half[0] + half[1], Evidence() + half[1] + half[0]):
        assert joined.tasks == whole.tasks == len(logged)
        assert joined.total == pytest.approx(whole.total)
        assert joined.squares == pytest.approx(whole.squares)
        assert joined.bound == whole.bound == pytest.approx(1.06)


@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_policies_are_compared_by_the_tools_that_a_gate_would_hand_over(data: st.DataObject) -> None:
    names = [f"tool {number}" for number in range(data.draw(st.integers(2, 8)))]
    scores = {name: data.draw(st.sampled_from([0.0, 0.5]) | st.floats(0, 1)) for name in names}
    pinned = data.draw(st.sets(st.sampled_from(names), max_size=3))
    least = data.draw(st.integers(0, 5))
    most = data.draw(st.none() | st.integers(least, 8))
    policy, payoff = data.draw(st.builds(TopK, st.integers(0, 8)) | st.just(cold_start())), Payoff(0.1)
    gate = Gate(policy, None, payoff, guards=Guards(pinned=pinned), limits=Limits(at_least=least, at_most=most))
    decision = gate.decide_scored("a task", [Tool(name) for name in names], scores)
    rankings = Rankings.from_scores(scores)
    stays = np.array([[name in pinned for name in rankings.names(0)]])
    marks = all_handed_over(rankings, policy.decide(rankings, payoff), stays, least, most, searches=payoff.recourse > 0)
    assert {name for name, kept in zip(rankings.names(0), marks[0], strict=True) if kept} == set(decision.kept)


def test_sets_that_bounds_make_alike_have_no_margin() -> None:
    logged, payoff = domains.load("workbench", "minilm"), Payoff(0.06)
    free = compared(TopK(5), TopK(2), logged, payoff)
    few = compared(TopK(5), TopK(2), logged, payoff, at_most=2)
    many = compared(TopK(5), TopK(2), logged, payoff, at_least=5)
    assert free.squares > few.squares == many.squares == few.total == many.total == 0.0


def test_prices_too_large_for_every_rate_prove_nothing() -> None:
    dear = Evidence(1000, 1e6, 1 / min(RATES), (1e6, 0, 0, 0, 0))
    assert not Trial(1, dear).pays


def test_a_trial_says_what_fit_would_say_and_survives_as_json() -> None:
    logged, payoff = domains.load("workbench", "minilm"), Payoff(0.06)
    trial = Trial(3)
    assert trial.evidence.tasks == 0
    assert trial.verdict.startswith("not judged")
    while trial.evidence.tasks < 5 * len(logged):
        trial = trial.and_then(compared(TopK(5), TopK(1), logged, payoff))
    assert msgspec.json.decode(msgspec.json.encode(trial), type=Trial) == trial
    assert trial.pays
    assert trial.is_promising
    assert trial.verdict.startswith("is worth it: +0.")
    assert says(trial.verdict, "5.00 a task … 1.00")
    worse = Trial(1, compared(TopK(1), TopK(5), logged, payoff))
    assert worse.verdict.startswith("is not worth it: -0.")
    assert not worse.is_promising
    little = Trial(1, compared(TopK(5), TopK(1), logged.take(slice(0, None, 16)), payoff))
    assert not little.pays
    assert little.verdict.startswith(f"{answer_of(little.margin)}: +0.")
    assert little.is_promising

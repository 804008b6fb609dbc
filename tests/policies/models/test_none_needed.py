"""None is an answer: what is learned from tasks that need nothing, against every set written out."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import camdf
from camdf import ExpectedPayoffBySet, LoggedTasks, Payoff, Rankings
from camdf.cli import main
from camdf.core.rankings import Floats
from camdf.core.sets import SIZES, SizeLaw
from camdf.datasets.examples import Example, write_examples
from camdf.policies.artifact import from_json, to_json
from camdf.policies.models.membership import LIST_COLUMNS
from camdf.policies.models.none_needed import LEVEL, empty_set_odds, fit_none
from camdf.policies.models.set_law import SetLaw
from saying import says
from small_sets import knowing, model, ranked

chances = st.lists(st.floats(0.001, 0.999), min_size=1, max_size=6)
weights_of_sizes = st.tuples(*[st.floats(0.01, 1.0)] * SIZES)
levels = st.floats(-6.0, 3.0)
COUNT = len(LIST_COLUMNS)


def all_sets(count: int) -> list[tuple[int, ...]]:
    return [chosen for size in range(count + 1) for chosen in combinations(range(count), size)]


def required_sets(p: Floats, weights: tuple[float, ...], level: float) -> dict[tuple[int, ...], float]:
    """Every set, the empty one included, and how likely it is under a law of sizes that begins at 0."""
    by_size = (float(np.exp(level)), *weights)
    odds = p / (1 - p)
    found = {chosen: float(by_size[len(chosen)] * np.prod(odds[list(chosen)])) for chosen in all_sets(len(p))}
    total = sum(found.values())
    return {chosen: weight / total for chosen, weight in found.items()}


def world(p: list[float], weights: tuple[float, ...], level: float) -> tuple[ExpectedPayoffBySet, Rankings, Floats]:
    """A policy that knows the truth, and one ranking whose scores are the chances, the likeliest first."""
    sorted_p = np.array(sorted(p, reverse=True))
    none = (level, 1.0, *(0.0,) * COUNT)
    policy = knowing(model(sizes=weights, none=none))
    return policy, ranked(sorted_p[None], np.ones((1, len(p)))), sorted_p


@settings(deadline=None)
@given(chances, weights_of_sizes, levels)
def test_nothing_is_needed_as_often_as_the_empty_set_is_required(
    p: list[float], weights: tuple[float, ...], level: float
) -> None:
    policy, rankings, chance = world(p, weights, level)
    decided = policy.decide(rankings, Payoff(0.1))
    assert decided.none is not None
    truth = required_sets(chance, weights, level)[()]
    assert decided.none[0] == pytest.approx(truth, rel=1e-9, abs=1e-12)


@settings(deadline=None)
@given(chances, weights_of_sizes, levels, st.sampled_from([0.0, 0.3, 0.9, 1.0]))
def test_a_cut_is_worth_what_all_sets_are_together_the_empty_one_included(
    p: list[float], weights: tuple[float, ...], level: float, recourse: float
) -> None:
    policy, rankings, chance = world(p, weights, level)
    sets = required_sets(chance, weights, level)
    probability, _ = policy.probabilities(rankings)
    order, value, _ = policy.cuts(rankings, probability, np.ones(1), recourse)
    for count in range(len(p) + 1):
        cut = set(order[0, :count].tolist())
        expected = sum(share * recourse ** len(set(chosen) - cut) for chosen, share in sets.items())
        assert value[0, count] == pytest.approx(expected, rel=1e-9, abs=1e-12)


@settings(deadline=None)
@given(chances, weights_of_sizes, levels, st.sampled_from([0.0, 0.3, 0.9]), st.floats(0.001, 0.4))
def test_under_the_partial_payoff_no_set_beats_the_chosen_one(
    p: list[float], weights: tuple[float, ...], level: float, recourse: float, pressure: float
) -> None:
    policy, rankings, chance = world(p, weights, level)
    sets = required_sets(chance, weights, level)

    def worth(acquired: tuple[int, ...]) -> float:
        value = -pressure * len(acquired)
        for chosen, share in sets.items():
            there = len(set(chosen) & set(acquired)) / len(chosen) if chosen else 1.0
            value += share * (recourse + (1 - recourse) * there)
        return value

    acquired = policy.decide(rankings, Payoff(pressure, "partial", recourse=recourse)).acquired[0]
    best = max(map(worth, all_sets(len(p))))
    assert worth(tuple(np.flatnonzero(acquired).tolist())) == pytest.approx(best, abs=1e-9)


@settings(deadline=None)
@given(chances, weights_of_sizes, levels)
def test_a_set_suffices_as_often_as_estimated_where_nothing_may_be_needed(
    p: list[float], weights: tuple[float, ...], level: float
) -> None:
    policy, rankings, chance = world(p, weights, level)
    sets = required_sets(chance, weights, level)
    for acquired in all_sets(len(p)):
        marks = np.isin(np.arange(len(p)), acquired)[None]
        truth = sum(share for chosen, share in sets.items() if set(chosen) <= set(acquired))
        assert policy.estimated_sufficiency(rankings, marks)[0] == pytest.approx(truth, rel=1e-9, abs=1e-12)


def drawn(rng: np.random.Generator, tasks: int, none: float) -> list[dict[str, object]]:
    """Tasks over eight tools, of which a share needs none: what others need scores higher, and not always."""
    records: list[dict[str, object]] = []
    for number in range(tasks):
        needs_none = rng.random() < none
        scores = rng.uniform(0.05, 0.5, 8)
        count = 0 if needs_none else rng.integers(1, 3)
        needed = sorted(rng.choice(8, count, replace=False).tolist())
        scores[needed] += rng.uniform(0.1, 0.45, len(needed))
        named = {f"tool {place}": float(score) for place, score in enumerate(scores)}
        required = [f"tool {place}" for place in needed]
        records.append({"task_id": str(number), "scores": named, "required": required})
    return records


@pytest.mark.parametrize(("share", "of_others"), [(0.2, 0.9), (0.5, 0.5), (0.8, 0.25)])
def test_how_many_tasks_need_nothing_is_found_out_and_they_get_fewer_tools(share: float, of_others: float) -> None:
    rng = np.random.default_rng(7)
    payoff = Payoff(0.05)
    policy = ExpectedPayoffBySet().fit(LoggedTasks.from_records(drawn(rng, 200, share)), payoff)
    test = LoggedTasks.from_records(drawn(rng, 400, share))
    decided = policy.decide(test.rankings, payoff)
    assert decided.none is not None
    nothing = test.n_required == 0
    assert decided.none.mean() == pytest.approx(nothing.mean(), abs=0.06)
    assert decided.none[nothing].mean() > decided.none[~nothing].mean() + 0.2
    counts = decided.acquired.sum(axis=1)
    assert counts[nothing].mean() < of_others * counts[~nothing].mean()
    sufficiency = policy.estimated_sufficiency(test.rankings, decided.acquired).mean()
    assert sufficiency == pytest.approx(test.sufficient(decided.acquired).mean(), abs=0.08)


@pytest.mark.parametrize(("tasks", "none"), [(60, 0), (60, 4), (200, 9)])
def test_a_log_with_too_few_tasks_that_need_nothing_says_nothing_of_them(tasks: int, none: int) -> None:
    rng = np.random.default_rng(3)
    records = [*drawn(rng, tasks - none, 0.0), *drawn(rng, none, 1.0)]
    logged = LoggedTasks.from_records([{**record, "task_id": str(n)} for n, record in enumerate(records)])
    policy = ExpectedPayoffBySet().fit(logged, Payoff(0.05))
    assert policy.model_.none == ()
    assert policy.decide(logged.rankings, Payoff(0.05)).none is None
    assert '"none"' not in to_json(policy), "its file says nothing of it either"


def test_what_was_learned_of_tasks_that_need_nothing_is_saved_checked_and_loaded() -> None:
    rng = np.random.default_rng(4)
    logged = LoggedTasks.from_records(drawn(rng, 80, 0.5))
    policy = ExpectedPayoffBySet().fit(logged, Payoff(0.05))
    again = from_json(to_json(policy).encode())
    one = policy.decide(logged.rankings, Payoff(0.05))
    other = again.decide(logged.rankings, Payoff(0.05))
    assert np.array_equal(one.acquired, other.acquired)
    assert one.none is not None
    assert other.none is not None
    assert np.array_equal(one.none, other.none)
    with pytest.raises(camdf.CamdfError, match="none"):
        replace(policy.model_, none=(1.0,))


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 1000))
def test_without_a_task_that_says_otherwise_what_is_learned_stays_at_its_start(seed: int) -> None:
    p = np.random.default_rng(seed).uniform(0.1, 0.9, (0, 5))
    theta = fit_none(p, p > 0, np.zeros((0, COUNT)), np.zeros(0, dtype=bool), np.zeros(0), SetLaw())
    assert theta.tolist() == [LEVEL, 1.0, *[0.0] * COUNT]


@settings(deadline=None)
@given(chances, weights_of_sizes, st.integers(1, 4))
def test_padding_changes_no_bit_of_the_odds_of_the_empty_set(
    p: list[float], weights: tuple[float, ...], extra: int
) -> None:
    law = SizeLaw(weights)
    narrow = np.array([p])
    wide = np.pad(narrow, ((0, 0), (0, extra)))
    listed = np.pad(np.ones((1, len(p)), dtype=bool), ((0, 0), (0, extra)))
    one = empty_set_odds(narrow, listed[:, : len(p)], law, 1.2)
    assert np.array_equal(one, empty_set_odds(wide, listed, law, 1.2))


def test_an_empty_list_has_finite_odds() -> None:
    assert np.isfinite(empty_set_odds(np.zeros((1, 0)), np.zeros((1, 0), dtype=bool), SetLaw().sizes, 1.0)).all()


def test_examples_that_need_nothing_are_labels_and_both_shares_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("mail", "flight", "hotel", "song", "weather", "stock", "invoice", "parcel")
    (tmp_path / "tools.json").write_text(json.dumps({f"do_{word}": f"Handles a {word}." for word in words}))
    needed = [Example(f"Take care of the {word} number {k}", (f"do_{word}",)) for word in words for k in range(4)]
    nothing = [Example(f"Thanks for all of it, friend {number}") for number in range(8)]
    write_examples(tmp_path / "examples.jsonl", [*needed, *nothing])
    read = ("--tools", str(tmp_path / "tools.json"), "--scorer", "bm25", "--splits", "2")
    policy = str(tmp_path / "policy.json")
    assert main(["fit", str(tmp_path / "examples.jsonl"), "-o", policy, "--cost-pressure", ".05", *read, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["data"]["need_no_tool"] == pytest.approx(0.2)
    assert told["need_no_tool_estimated"] == pytest.approx(0.2, abs=0.1)
    assert main(["evaluate", policy, str(tmp_path / "examples.jsonl"), *read]) == 0
    assert says(capsys.readouterr().out, "20%", "need no tool", "the policy expects")
    assert main(["evaluate", policy, str(tmp_path / "examples.jsonl"), *read, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["need_no_tool_estimated"] == told["need_no_tool_estimated"]

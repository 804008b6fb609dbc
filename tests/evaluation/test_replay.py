"""The replay: fair splits, honest means, the same results however the work is divided."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import camdf
from camdf.checks import sample_tasks
from camdf.evaluation.assess import assess
from camdf.evaluation.replay import MEASURES, ORACLE, Fixed, measured, replay
from camdf.evaluation.splits import Split, draw_splits
from camdf_lab import domains
from saying import says

PAYOFF = camdf.Payoff(0.12)
LOGGED = sample_tasks(1, tasks=40)


# Splits


@pytest.mark.parametrize("grouped", [False, True])
def test_a_split_uses_every_task_once(grouped: bool) -> None:
    for split in draw_splits(LOGGED, 9, seed=3, grouped=grouped):
        assert sorted(np.concatenate(split).tolist()) == list(range(len(LOGGED)))
        assert all(len(part) for part in split)


@given(st.integers(3, 60), st.integers(0, 1000), st.sampled_from([(0.55, 0.20), (0.6, 0.2), (0.1, 0.1)]), st.booleans())
def test_a_round_of_splits_tests_every_task_at_least_once_and_fewer_do_not(
    units: int, seed: int, shares: tuple[float, float], grouped: bool
) -> None:
    logged = sample_tasks(1, tasks=2 * units if grouped else units)  # two tasks a group
    splits = list(draw_splits(logged, units, seed=seed, grouped=grouped, shares=shares))
    whole_round = -(-len(logged) // len(splits[0].test))
    tested = [set(np.concatenate([split.test for split in splits[:count]]).tolist()) for count in range(1, units + 1)]
    assert [len(each) == len(logged) for each in tested] == [count >= whole_round for count in range(1, units + 1)]


def test_at_the_usual_shares_four_splits_test_every_task_and_three_do_not() -> None:
    for count, all_of_them in ((3, False), (4, True)):
        tested = np.concatenate([split.test for split in draw_splits(LOGGED, count, seed=3)])
        assert (len(np.unique(tested)) == len(LOGGED)) == all_of_them


def test_grouped_splits_never_divide_a_group() -> None:
    for split in draw_splits(LOGGED, 9, seed=3, grouped=True):
        parts = [set(LOGGED.groups[part].tolist()) for part in split]
        assert sum(map(len, parts)) == len(set.union(*parts))


def test_split_sizes_follow_the_shares() -> None:
    split = next(iter(draw_splits(LOGGED, 1, seed=0)))
    assert [len(part) for part in split] == [22, 8, 10]
    split = next(iter(draw_splits(LOGGED, 1, seed=0, shares=(0.6, 0.2))))
    assert [len(part) for part in split] == [24, 8, 8]


def test_a_split_depends_on_its_number_and_seed_alone() -> None:
    first, second = (list(draw_splits(LOGGED, count, seed=1)) for count in (3, 9))
    for few, many in zip(first, second, strict=False):
        assert all(np.array_equal(a, b) for a, b in zip(few, many, strict=True))
    other = next(iter(draw_splits(LOGGED, 1, seed=2)))
    assert not np.array_equal(first[0].test, other.test)


def test_too_few_groups_are_refused() -> None:
    with pytest.raises(ValueError, match="at least three"):
        next(iter(draw_splits(LOGGED.take([0, 1]), 1, seed=0)))


# Replay


def test_a_mean_is_over_appearances_and_then_over_tasks() -> None:
    everything = np.arange(40)
    splits = [Split(everything, everything, np.array(rows)) for rows in ([0, 1], [0], [0, 2])]
    outcomes = replay({"all": camdf.AcquireAll}, LOGGED, PAYOFF, splits)
    payoff = PAYOFF.of(LOGGED, LOGGED.rankings.listed)
    assert outcomes.mean("all") == pytest.approx(payoff[:3].mean(), abs=1e-12)
    assert np.isnan(outcomes.values["all"][3:]).all()
    assert len(outcomes.by_split["all"]) == 5


def test_payoff_is_value_minus_priced_cost_and_waste_is_the_cost_of_what_was_not_required() -> None:
    acquired = np.random.default_rng(0).random(LOGGED.required.shape) < 0.6
    values = dict(zip(MEASURES, measured(LOGGED, PAYOFF, acquired).T, strict=True))
    assert np.allclose(values["payoff"], values["sufficiency"] - 0.12 * values["cost"])
    assert np.allclose(values["waste"], (LOGGED.rankings.costs * (acquired & ~LOGGED.required)).sum(axis=1))
    assert np.array_equal(values["tools"], acquired.sum(axis=1))


def test_the_oracle_bounds_every_policy_that_stops() -> None:
    outcomes = replay({"k": camdf.FixedK, "cam": camdf.CAMDF}, LOGGED, PAYOFF, draw_splits(LOGGED, 4, seed=0))
    for name in ("k", "cam"):
        assert (outcomes.values[name][:, 0] <= outcomes.values[ORACLE][:, 0] + 1e-12).all()


def test_a_policy_against_itself_has_no_difference_and_no_wins() -> None:
    outcomes = replay({"k": camdf.FixedK}, LOGGED, PAYOFF, draw_splits(LOGGED, 4, seed=0))
    assert outcomes.difference("k", "k").mean == outcomes.difference("k", "k").high == 0.0
    assert outcomes.win_rate("k", "k") == 0.0
    assert outcomes.win_rate(ORACLE, "k") > 0.0


# Running


# Assessing


def test_a_policy_that_pays_is_said_to_pay() -> None:
    logged = domains.load("workbench", "minilm", dispersion=1.0)
    payoff = camdf.Payoff(0.12, "partial")
    verdict = assess(camdf.CAMDFLite, logged, payoff, splits=4)
    assert verdict.pays
    assert verdict.verdict.startswith("is worth it: +0.")
    assert "this policy" in verdict.table()


def test_a_policy_that_loses_is_told_what_to_ship_instead() -> None:
    found = assess(lambda: Fixed(camdf.AcquireAll()), LOGGED, camdf.Payoff(0.3), splits=4)
    assert not found.pays
    assert found.verdict.startswith("is not worth it: -")
    assert f"ship the {found.best_rule} rule" in found.verdict


def test_a_tie_is_not_called_a_win() -> None:
    found = assess(camdf.FixedK, LOGGED, PAYOFF, splits=4, rules={"fixed-k": camdf.FixedK})
    assert found.best_rule == "fixed-k"
    assert says(found.verdict, "not shown", "+0.000 over … (fixed-k)")


def test_an_assessment_reports_at_once_and_after_every_split_and_ends_with_nothing_left() -> None:
    reports: list[tuple[int, int, float]] = []
    rules = {"fixed-k": camdf.FixedK}
    assess(camdf.FixedK, LOGGED, PAYOFF, splits=4, rules=rules, progress=lambda *each: reports.append(each))
    assert [(done, total) for done, total, _ in reports] == [(0, 4), (1, 4), (2, 4), (3, 4), (4, 4)]
    assert [left > 0 for *_, left in reports] == [True, True, True, True, False]


# Stored results

"""The on-policy target and expected payoff by depth: their theorems, and worlds whose best policy is known."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from camdf import CAMDF, CAMDFLite, ExpectedPayoffByDepth, LoggedTasks, Payoff, Policy, Rankings
from camdf.checks import check_policy, sample_tasks
from camdf.core.features import FULL
from camdf.core.rankings import Bools, Floats, Ints, pieces
from camdf.core.stopping import (
    first_stop,
    frontier,
    gap,
    hindsight_targets,
    on_policy_gap,
    on_policy_targets,
    realized,
)
from camdf.policies import by_depth
from camdf.policies.artifact import from_json, to_json
from camdf.policies.models.linear import LinearModel
from saying import refuses
from three_tools import CASES, Worlds, random_stops, random_worlds
from worlds import RECOURSES, random_logged, small_logged, small_payoffs

PAYOFFS = [Payoff(0.12, "exact"), Payoff(0.2, "partial")]
both_values = pytest.mark.parametrize("payoff", PAYOFFS, ids=["exact", "partial"])
examples = settings(max_examples=200, deadline=None)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20261)


def depth_of(policy: Policy, rankings: Rankings, payoff: Payoff) -> Ints:
    depth = policy.decide(rankings, payoff).depth
    assert depth is not None
    return depth


def mean_payoff(policy: Policy, logged: LoggedTasks, payoff: Payoff) -> float:
    return float(payoff.of(logged, policy.decide(logged.rankings, payoff).acquired).mean())


# The on-policy gap.


def any_payoffs(rng: np.random.Generator) -> Floats:
    """(CASES, 9): half of them real numbers, half small integers that tie."""
    return np.where(rng.random((CASES, 1)) < 0.5, rng.normal(size=(CASES, 9)), rng.integers(-2, 3, (CASES, 9)))


def test_the_realized_payoff_is_the_present_one_where_the_pattern_stops_and_the_next_elsewhere(
    rng: np.random.Generator,
) -> None:
    payoffs, stop = any_payoffs(rng), random_stops(rng, (CASES, 8))
    paid = realized(payoffs, stop)
    assert np.array_equal(paid[:, -1], payoffs[:, -1])
    assert np.array_equal(paid[:, :-1], np.where(stop, payoffs[:, :-1], paid[:, 1:]))
    assert np.array_equal(on_policy_gap(payoffs, stop), payoffs[:, :-1] - paid[:, 1:])


@both_values
def test_the_realized_payoff_at_depth_0_is_that_of_the_scan(rng: np.random.Generator, payoff: Payoff) -> None:
    logged = random_logged(rng, CASES, 9)
    payoffs, stop = payoff.by_depth(logged), random_stops(rng, logged.required.shape)
    depth = first_stop(stop, logged.rankings.lengths)
    assert np.array_equal(realized(payoffs, stop)[:, 0], payoffs[np.arange(CASES), depth])


@both_values
def test_what_a_pattern_says_at_padding_never_matters(rng: np.random.Generator, payoff: Payoff) -> None:
    logged = random_logged(rng, CASES, 9)
    stop, listed = random_stops(rng, logged.required.shape), logged.rankings.listed
    targets = [on_policy_targets(logged, payoff, pattern) for pattern in (stop, stop | ~listed, stop & listed)]
    assert all(np.array_equal(targets[0].gap, other.gap) for other in targets[1:])
    assert np.array_equal(targets[0].state, listed)


def test_the_payoff_difference_is_the_sum_of_on_policy_gaps_where_the_patterns_differ(rng: np.random.Generator) -> None:
    payoffs, ours, other = any_payoffs(rng), random_stops(rng, (CASES, 8)), random_stops(rng, (CASES, 8))
    visited = np.arange(8) <= first_stop(other, np.full(CASES, 8))[:, None]
    terms = (other.astype(np.int64) - ours) * on_policy_gap(payoffs, ours) * visited
    difference = realized(payoffs, other)[:, 0] - realized(payoffs, ours)[:, 0]
    assert (np.abs(difference) > 0.1).mean() > 0.5
    np.testing.assert_allclose(terms.sum(axis=1), difference, rtol=0, atol=1e-12)


def test_following_the_on_policy_labels_never_pays_less_from_any_depth(rng: np.random.Generator) -> None:
    payoffs, stop = any_payoffs(rng), random_stops(rng, (CASES, 8))
    improved = realized(payoffs, on_policy_gap(payoffs, stop) >= 0)
    assert (improved >= realized(payoffs, stop)).all()
    assert (improved > realized(payoffs, stop)).any()


def test_improving_one_state_never_lowers_the_payoff(rng: np.random.Generator) -> None:
    payoffs, stop = any_payoffs(rng), random_stops(rng, (CASES, 8))
    changed = np.arange(8) == rng.integers(8, size=CASES)[:, None]
    advantage = np.where(stop, -1, 1) * on_policy_gap(payoffs, stop)
    better = stop ^ (changed & (advantage > 0))
    assert (realized(payoffs, better) >= realized(payoffs, stop)).all()


def test_relabelling_over_and_over_reaches_the_frontier_and_stays(rng: np.random.Generator) -> None:
    payoffs, stop = any_payoffs(rng), random_stops(rng, (CASES, 8))
    for _ in range(8):
        stop = on_policy_gap(payoffs, stop) >= 0
    assert np.array_equal(realized(payoffs, stop), frontier(payoffs))
    assert np.array_equal(on_policy_gap(payoffs, stop) >= 0, stop)


@both_values
def test_the_hindsight_targets_are_the_on_policy_targets_of_an_oracle(rng: np.random.Generator, payoff: Payoff) -> None:
    logged = random_logged(rng, CASES, 9)
    hindsight = hindsight_targets(logged, payoff)
    of_oracle = on_policy_targets(logged, payoff, hindsight.stop)
    for part in ("gap", "stop", "weight", "state"):
        assert np.array_equal(getattr(hindsight, part), getattr(of_oracle, part))


@examples
@given(small_logged(), small_payoffs(RECOURSES), st.data())
def test_on_policy_targets_match_the_walk_written_out(logged: LoggedTasks, payoff: Payoff, data: st.DataObject) -> None:
    n, m = logged.required.shape
    answers = data.draw(st.lists(st.booleans(), min_size=n * m, max_size=n * m))
    stop = np.array(answers, dtype=bool).reshape(n, m)
    targets = on_policy_targets(logged, payoff, stop)
    for row, payoffs in enumerate(payoff.by_depth(logged).tolist()):
        length = int(logged.rankings.lengths[row])
        for t in range(length):
            ends = next((k for k in range(t + 1, length) if stop[row, k]), length)
            delta = payoffs[t] - payoffs[ends]
            found = targets.gap[row, t], targets.stop[row, t], targets.weight[row, t]
            assert found == (delta, delta >= 0, abs(delta) + 1e-4)


# The same in expectation: what a decision can know is the ranking, and the ranking leaves the required set open.


def expected_gap(worlds: Worlds, payoff: Payoff, stop: Bools) -> Floats:
    """(worlds, m): E[D_t] given the ranking, for a pattern (worlds, m) that sees the ranking alone."""
    repeated = np.repeat(stop, worlds.chance.shape[1], axis=0)
    return worlds.expected(on_policy_gap(payoff.by_depth(worlds.logged), repeated))


@both_values
def test_a_fixed_point_of_the_expected_on_policy_gap_is_the_best_prefix_rule(
    rng: np.random.Generator, payoff: Payoff
) -> None:
    worlds = random_worlds(rng)
    mean_by_depth = worlds.expected(payoff.by_depth(worlds.logged))
    hindsight = worlds.expected(gap(payoff.by_depth(worlds.logged))) >= 0
    for stop in (hindsight, random_stops(rng, hindsight.shape), np.ones_like(hindsight), np.zeros_like(hindsight)):
        pattern = stop
        for _ in range(pattern.shape[1]):
            pattern = expected_gap(worlds, payoff, pattern) >= 0
        delta = expected_gap(worlds, payoff, pattern)
        clear = np.abs(delta) > 1e-9
        assert np.array_equal((delta > 0)[clear], pattern[clear])
        np.testing.assert_allclose(realized(mean_by_depth, pattern)[:, 0], mean_by_depth.max(axis=1), rtol=0, atol=1e-9)
    # Already with three candidates the hindsight rule falls short of it where the ranking leaves much open.
    short = mean_by_depth.max(axis=1) - realized(mean_by_depth, hindsight)[:, 0]
    assert (short >= 0).all()
    assert (short > 0.01).mean() > 0.01


# Worlds of a few kinds of task. A decision sees the kind (through the scores); the required set is drawn.


@dataclass(frozen=True)
class Kind:
    """Tasks with one score vector, each of which requires one tool.

    `needs` gives the chance of every rank; what is left of 1 goes to a tool that the list lacks.
    """

    scores: tuple[float, ...]
    needs: tuple[float, ...]


def drawn(rng: np.random.Generator, kinds: list[Kind], n: int) -> tuple[LoggedTasks, list[list[int]]]:
    """n tasks of each kind, each kind's required ranks in their exact shares; and the rows of each kind."""
    m = len(kinds[0].scores)
    scores = np.repeat([kind.scores for kind in kinds], n, axis=0)
    ranks = np.concatenate(
        [np.repeat(np.arange(m + 1), np.round(n * np.array([*k.needs, 1 - sum(k.needs)])).astype(int)) for k in kinds]
    )
    total = n * len(kinds)
    assert len(ranks) == total
    # Which tool stands at which rank is drawn, so that no tool's name says anything.
    tool_ids = rng.random((total, m)).argsort(axis=1)
    rankings = Rankings(scores, np.ones((total, m)), np.full(total, m), tool_ids, tuple(f"t{j}" for j in range(m)))
    names = np.arange(total).astype(np.str_)
    required = np.arange(m) == ranks[:, None]
    logged = LoggedTasks(rankings, required, np.ones(total, dtype=np.int64), names, names)
    return logged, [list(range(i * n, (i + 1) * n)) for i in range(len(kinds))]


def bayes_payoff(logged: LoggedTasks, payoff: Payoff, rows: list[list[int]]) -> float:
    """The highest mean payoff of any rule that takes one depth for each kind, by trying every depth."""
    return float(np.mean([payoff.by_depth(logged.take(each)).mean(axis=0).max() for each in rows]))


FLAT = Kind((0.5,) * 10, (0.1,) * 10)
CLEAR = Kind((0.9, *[0.1] * 9), (1.0, *[0.0] * 9))
HALF = Kind((0.9, 0.6, *[0.1] * 8), (0.5, 0.4, *[0.0] * 8))
PAST: dict[str, Policy] = {"on-policy": CAMDF(target="on-policy"), "by-depth": ExpectedPayoffByDepth()}
past = pytest.mark.parametrize("policy", PAST.values(), ids=list(PAST))
AMBIGUITY: dict[str, tuple[list[Kind], float, float]] = {
    "ten candidates, flat scores": ([FLAT], 0.0, -0.8),
    "flat and clear tasks, told apart by scores": ([FLAT, CLEAR], 0.4, 0.0),
    "three kinds": ([FLAT, CLEAR, HALF], (0.0 + 0.8 + 0.5) / 3, (-0.8 + 0.8 + 0.5) / 3),
}


@past
@pytest.mark.parametrize(("kinds", "bayes", "hindsight"), AMBIGUITY.values(), ids=list(AMBIGUITY))
def test_bayes_payoff_is_reached_where_the_hindsight_target_stays_below_it(
    rng: np.random.Generator, policy: Policy, kinds: list[Kind], bayes: float, hindsight: float
) -> None:
    payoff = Payoff(0.2)
    logged, rows = drawn(rng, kinds, 1000)
    assert bayes_payoff(logged, payoff, rows) == pytest.approx(bayes)
    assert mean_payoff(policy.fit(logged, payoff), logged, payoff) == pytest.approx(bayes, abs=0.01)
    assert mean_payoff(CAMDF().fit(logged, payoff), logged, payoff) == pytest.approx(hindsight, abs=0.05)


def test_at_its_fixed_point_the_policy_stops_where_its_own_mean_gap_is_not_negative(rng: np.random.Generator) -> None:
    payoff = Payoff(0.2)
    logged, rows = drawn(rng, [FLAT, CLEAR, HALF], 1000)
    policy = CAMDF(target="on-policy", identity=False).fit(logged, payoff)
    depth = depth_of(policy, logged.rankings, payoff)
    stop = policy.evidence(logged.rankings, payoff) >= 0
    delta = on_policy_targets(logged, payoff, stop).gap
    for each in rows:
        walked = slice(0, int(depth[each[0]]) + 1)
        assert np.array_equal(delta[each].mean(axis=0)[walked] >= 0, stop[each[0]][walked])


# The on-policy fit.


@pytest.mark.parametrize("seed", range(4))
@both_values
def test_the_on_policy_fit_never_pays_less_on_its_training_tasks_than_the_hindsight_fit(
    seed: int, payoff: Payoff
) -> None:
    logged = random_logged(np.random.default_rng(seed), 150, 8, shared=seed % 2 == 0)
    on_policy = CAMDF(target="on-policy").fit(logged, payoff)
    assert mean_payoff(on_policy, logged, payoff) >= mean_payoff(CAMDF().fit(logged, payoff), logged, payoff)


Family = type[CAMDF] | type[CAMDFLite]


@pytest.mark.parametrize("family", [CAMDF, CAMDFLite], ids=lambda family: family.kind)
def test_the_target_is_a_setting_of_the_whole_family_and_is_saved(family: Family) -> None:
    check_policy(lambda: family(target="on-policy"))
    policy = family(target="on-policy").fit(sample_tasks(1), PAYOFFS[0])
    loaded = from_json(to_json(policy).encode())
    assert vars(loaded)["target"] == "on-policy"
    assert family().target == "hindsight"


def test_only_the_two_targets_are_fitted() -> None:
    wrong: Literal["hindsight"] = "foresight"  # type: ignore[assignment]
    with refuses(ValueError, "'target' of CAMDF", must="hindsight, on-policy", got="'foresight'"):
        CAMDF(target=wrong).fit(sample_tasks(1), PAYOFFS[0])


# Expected payoff by depth.


def test_expected_payoff_mean_by_depthwithout_identity_keeps_every_promise() -> None:
    check_policy(lambda: ExpectedPayoffByDepth(identity=False))


@pytest.mark.parametrize("value", ["exact", "partial", "squared"])
def test_expected_gains_are_those_of_the_world_where_every_state_has_its_own_logit(
    rng: np.random.Generator, value: str
) -> None:
    # Two kinds of task, four candidates: eight states and more columns, so the models can fit every state.
    kinds = [Kind((0.9, 0.5, 0.3, 0.1), (0.0,) * 4), Kind((0.6, 0.6, 0.5, 0.5), (0.0,) * 4)]
    logged, rows = drawn(rng, kinds, 6000)
    # Required sets of any size, nothing at all among them, and tools that the list lacks in the second kind.
    required = rng.random((12000, 4)) < np.repeat([[0.8, 0.4, 0.2, 0.1], [0.3, 0.3, 0.3, 0.3]], 6000, axis=0)
    lacking = (rng.random(12000) < 0.4) & (np.arange(12000) >= 6000)
    logged = replace(logged, required=required, n_required=required.sum(axis=1) + lacking)
    payoff = Payoff(0.1, value if value != "squared" else lambda a, b: (a / np.maximum(b, 1)) ** 2)
    worth = payoff.worth_by_depth(logged)
    policy = ExpectedPayoffByDepth(identity=False).fit(logged, payoff)
    expected, depth = policy.expected_gain(logged.rankings), depth_of(policy, logged.rankings, payoff)
    for each in rows:
        truth = (worth - worth[:, :1])[each].mean(axis=0)
        np.testing.assert_allclose(expected[each[0]], truth, rtol=0, atol=0.005)
        assert depth[each[0]] == (truth - 0.1 * np.arange(5)).argmax()


@both_values
def test_the_expected_gain_starts_at_0_never_falls_and_ends_at_what_the_list_adds(
    rng: np.random.Generator, payoff: Payoff
) -> None:
    policy = ExpectedPayoffByDepth().fit(random_logged(rng, 400, 8), payoff)
    rankings = random_logged(rng, 2000, 10).rankings
    expected = policy.expected_gain(rankings)
    assert (expected[:, 0] == 0).all()
    assert (np.diff(expected, axis=1) >= 0).all()
    assert (expected[:, -1] < 1).all()
    whole = 1 / (1 + np.exp(-policy.whole_.evidence(rankings, payoff)[:, 0]))
    np.testing.assert_allclose(expected[:, -1], np.where(rankings.lengths > 0, whole, 0.0), rtol=1e-12)


def test_the_depth_is_the_first_of_the_best_expected_payoffs(rng: np.random.Generator) -> None:
    payoff = Payoff(0.12)
    policy = ExpectedPayoffByDepth().fit(random_logged(rng, 400, 8), payoff)
    rankings = random_logged(rng, 1000, 8).rankings
    decisions = policy.decide(rankings, payoff)
    assert decisions.depth is not None
    assert decisions.evidence is not None
    assert len(np.unique(decisions.depth)) > 3
    for row, length in enumerate(rankings.lengths.tolist()):
        options = [0.0, *decisions.evidence[row, :length].tolist()]
        assert decisions.depth[row] == options.index(max(options))
    flat = LinearModel(policy.columns, (0.0,) * len(policy.columns), 0.0)
    policy.gain_ = policy.whole_ = flat
    # Ten equal candidates add 0.05 each, and at a pressure of 0.05 every depth ties.
    assert policy.decide(Rankings.from_scores({f"t{j}": 0.5 for j in range(10)}), Payoff(0.05)).depth == 0


@both_values
def test_one_fit_decides_at_every_cost_pressure(rng: np.random.Generator, payoff: Payoff) -> None:
    logged = random_logged(rng, 600, 8, shared=True)
    policy = ExpectedPayoffByDepth().fit(logged, payoff)
    pressures = [0.0, 1e-6, 0.01, 0.05, 0.12, 0.3, 1.0, 100.0]
    depths = [depth_of(policy, logged.rankings, replace(payoff, cost_pressure=each)) for each in pressures]
    assert all((cheaper >= dearer).all() for cheaper, dearer in pairwise(depths))
    assert np.array_equal(depths[0], logged.rankings.lengths)
    assert not np.any(depths[-1])
    other = ExpectedPayoffByDepth().fit(logged, replace(payoff, cost_pressure=0.5))
    assert np.array_equal(other.expected_gain(logged.rankings), policy.expected_gain(logged.rankings))


def test_prices_may_change_after_the_fit(rng: np.random.Generator) -> None:
    logged = random_logged(rng, 600, 8, shared=True)
    dearer = logged.with_costs(logged.rankings.costs * rng.uniform(0.5, 3.0, logged.rankings.costs.shape))
    before, after = ExpectedPayoffByDepth().fit(logged, Payoff(0.1)), ExpectedPayoffByDepth().fit(dearer, Payoff(0.1))
    assert to_json(before) == to_json(after)
    then, now = (depth_of(before, each.rankings, Payoff(0.1)) for each in (logged, dearer))
    assert not np.array_equal(then, now)


def test_another_value_than_the_fitted_one_is_refused() -> None:
    policy = ExpectedPayoffByDepth().fit(sample_tasks(1), Payoff(0.12))
    with refuses(ValueError, "value 'exact'", must="Refit", got="value 'partial'"):
        policy.decide(sample_tasks(2).rankings, Payoff(0.12, "partial"))


def test_a_list_that_may_lack_the_tool_is_worth_no_more_than_the_chance_that_it_holds_it(
    rng: np.random.Generator,
) -> None:
    # The first candidate is the right one if any is, but it is so in 3 of 10 tasks: at a pressure of 0.4 it never pays.
    rarely, surely = Kind((0.5, 0.2), (0.3, 0.0)), Kind((0.9, 0.2), (1.0, 0.0))
    logged, rows = drawn(rng, [rarely, surely], 1000)
    payoff = Payoff(0.4)
    policy = ExpectedPayoffByDepth().fit(logged, payoff)
    expected = policy.expected_gain(logged.rankings)
    assert expected[rows[0], -1] == pytest.approx(0.3, abs=0.01)
    assert expected[rows[1], -1] == pytest.approx(1.0, abs=0.01)
    assert mean_payoff(policy, logged, payoff) == pytest.approx(bayes_payoff(logged, payoff, rows)) == 0.3
    # Told that every list holds what is needed, the same policy buys the candidate and loses.
    policy.whole_ = replace(policy.whole_, coefficients=(0.0,) * len(policy.columns), intercept=50.0)
    assert mean_payoff(policy, logged, payoff) == pytest.approx(0.25)


def test_large_batches_are_worked_off_in_pieces(rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    policy = ExpectedPayoffByDepth().fit(random_logged(rng, 200, 8), PAYOFFS[0])
    rankings = random_logged(rng, 500, 9).rankings
    whole = policy.decide(rankings, PAYOFFS[0])
    small = partial(pieces, states=50)
    assert len(small(rankings)) == 100
    monkeypatch.setattr(by_depth, "pieces", small)
    parts = policy.decide(rankings, PAYOFFS[0])
    assert np.array_equal(np.asarray(whole.depth), np.asarray(parts.depth))
    assert np.array_equal(np.asarray(whole.evidence), np.asarray(parts.evidence))


def test_columns_that_see_costs_are_refused() -> None:
    with refuses(ValueError, "columns", must="COST_FREE"):
        ExpectedPayoffByDepth(FULL).fit(sample_tasks(1), PAYOFFS[0])


def test_models_that_contradict_the_policy_are_refused() -> None:
    policy = ExpectedPayoffByDepth().fit(sample_tasks(1), PAYOFFS[0])
    policy.verify()
    policy.identity = False
    with pytest.raises(ValueError, match="only gain_ may weigh tools"):
        policy.verify()
    policy.columns = policy.columns[:-1]
    with refuses(ValueError, "columns", must="the policy's"):
        policy.verify()


@past
def test_logs_without_tasks_or_without_candidates_give_a_policy_that_acquires_nothing(policy: Policy) -> None:
    for records in ([], [{"scores": {}, "required": ["a"]}]):
        logged = LoggedTasks.from_records(records)
        fitted = policy.fit(logged, Payoff(0.6))
        assert not fitted.decide(sample_tasks(1).rankings, Payoff(0.6)).acquired.any()
        assert len(fitted.decide(logged.rankings, Payoff(0.6))) == len(records)

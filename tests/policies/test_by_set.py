"""Expected payoff by set: its optimality by enumeration, what its membership model may know, and how reliable it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from itertools import pairwise

import numpy as np
import pytest

from camdf import ExpectedPayoffBySet, LoggedTasks, NotFittedError, Payoff, Rankings, checks
from camdf.checks import CHECKS, check_policy, sample_tasks
from camdf.core.candidates import candidate_features, history
from camdf.core.payoff import cost_of
from camdf.core.rankings import Bools, Floats, Ints, joined
from camdf.core.sets import SMALLEST, expected_shares, sufficiency_by_cut, value_order
from camdf.errors import BrokenPromiseError
from camdf.policies.artifact import from_json, to_json
from camdf.policies.models import membership, warm_start
from camdf.policies.models.design import BASE
from camdf.policies.models.membership import (
    HeldOut,
    MembershipModel,
    group_folds,
    splits_of,
)
from camdf.policies.models.prior import shipped_prior
from camdf.policies.models.set_law import sharpened
from camdf_lab import domains
from saying import refuses
from small_sets import (
    MISSING,
    NAMES,
    acquired_by,
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

PAYOFFS = [Payoff(0.12, "exact"), Payoff(0.12, "partial")]
both_values = pytest.mark.parametrize("payoff", PAYOFFS, ids=["exact", "partial"])
PRESSURES = (0.0, 1e-6, 0.003, 0.01, 0.03, 0.07, 0.09, 0.12, 0.2, 0.35, 0.6, 1.0, 100.0)
HISTORY = tuple(NAMES.index(name) for name in NAMES if "history" in name or "listed" in name)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20262)


def fitted_and_held(logged: LoggedTasks) -> tuple[MembershipModel, HeldOut]:
    """What the default learns from rankings that say how similar each tool is, and says of tasks it had not seen."""
    found = warm_start.fit_warm(logged, (shipped_prior("similarity"),))
    return found.model, found.held


# Worlds small enough to write out: every required set with its probability, every set that could be acquired.


@pytest.mark.parametrize("holds", [1.0, 0.7, 0.2])
@pytest.mark.parametrize("m", range(1, 9))
def test_under_the_exact_payoff_no_set_of_all_is_worth_more_than_the_chosen_one(
    rng: np.random.Generator, m: int, holds: float
) -> None:
    p, costs = small_worlds(rng, m)
    rankings, sets, policy = ranked(p, costs), subsets(m), knowing(model(holds=holding(holds)))
    sufficient, different, beyond = sufficiency_of_each(p), set(), 0.0
    for pressure in (0.0, 0.02, 0.1, 0.25, 0.6):
        worth = holds * sufficient - pressure * (costs @ sets.T)
        chosen = acquired_by(policy, rankings, Payoff(pressure)) @ (1 << np.arange(m))
        paid = worth[np.arange(len(p)), chosen]
        np.testing.assert_allclose(paid, worth.max(axis=1), rtol=0, atol=1e-9)
        different |= set(chosen.tolist())
        beyond = max(beyond, (paid - worth[:, [(1 << k) - 1 for k in range(m + 1)]].max(axis=1)).max())
    # The comparison says something: many sets occur, and some are worth more than every prefix of the list.
    assert len(different) >= min(2**m, 12)
    assert m == 1 or beyond > 0.01


@pytest.mark.parametrize("m", range(1, 9))
def test_the_sufficiency_of_a_cut_is_that_of_the_enumerated_required_sets(rng: np.random.Generator, m: int) -> None:
    p, costs = small_worlds(rng, m)
    order, log_not = value_order(p, costs, np.ones(p.shape, dtype=bool))
    chance = sufficiency_by_cut(log_not)
    sufficient = sufficiency_of_each(np.take_along_axis(p, order, axis=1))
    np.testing.assert_allclose(chance, sufficient[:, [(1 << k) - 1 for k in range(m + 1)]], rtol=0, atol=1e-12)
    assert (chance[:, 0] == 0).all()
    assert (chance[:, -1] == 1).all()
    ratios = np.take_along_axis(np.log1p(-p) / costs, order, axis=1)
    assert (np.diff(ratios, axis=1) >= 0).all()


@pytest.mark.parametrize("value", ["exact", "partial"])
def test_certain_hopeless_and_nearly_free_candidates_are_chosen_as_enumeration_says(
    rng: np.random.Generator, value: str
) -> None:
    p = rng.choice(np.array([0.0, 1e-12, 0.3, 1.0]), (200, 5))
    p[:20] = 0.0
    costs = rng.choice(np.array([1e-308, 1e-6, 0.3, 1.0, 40.0]), p.shape)
    rankings, sets, kept = ranked(p, costs), subsets(5), np.clip(p, SMALLEST, 1 - SMALLEST)
    gain = sufficiency_of_each(kept) if value == "exact" else shares_of_each(kept, (1.0,)) @ sets.T
    worth = gain - 0.1 * (costs @ sets.T)
    chosen = knowing(model()).choose(rankings, Payoff(0.1, value), p, np.ones(200))
    paid = worth[np.arange(200), chosen @ (1 << np.arange(5))]
    np.testing.assert_allclose(paid, worth.max(axis=1), rtol=0, atol=1e-6)


def test_a_lone_candidate_that_cannot_matter_still_suffices_where_the_list_holds_all() -> None:
    for p in (0.0, SMALLEST, 2 * SMALLEST, 0.5, 1.0):
        _, log_not = value_order(np.array([[p]]), np.ones((1, 1)), np.ones((1, 1), dtype=bool))
        assert sufficiency_by_cut(log_not).tolist() == [[0.0, 1.0]]


def test_padding_comes_after_every_candidate_however_dear_or_hopeless() -> None:
    costs = np.array([[1.7e308, 1.0, 1e-308, 0.0, 0.0], [1.0, 1.7e308, 0.0, 0.0, 0.0]])
    order, log_not = value_order(np.zeros(costs.shape), costs, costs > 0)
    assert order.tolist() == [[2, 1, 0, 3, 4], [0, 1, 2, 3, 4]]
    assert (log_not < 0).tolist() == [[True, True, True, False, False], [True, True, False, False, False]]


all_missing = pytest.mark.parametrize("missing", MISSING.values(), ids=list(MISSING))


@all_missing
@pytest.mark.parametrize("m", range(1, 9))
def test_expected_shares_are_those_of_the_enumerated_required_sets(
    rng: np.random.Generator, m: int, missing: tuple[float, ...]
) -> None:
    p, _ = small_worlds(rng, m)
    shares = expected_shares(p, np.ones(p.shape, dtype=bool), missing)
    np.testing.assert_allclose(shares, shares_of_each(p, missing), rtol=0, atol=1e-12)
    if missing == (1.0,):
        np.testing.assert_allclose(shares.sum(axis=1), 1.0, rtol=0, atol=1e-12)
    else:
        assert (shares.sum(axis=1) < 1).all()


@pytest.mark.parametrize("m", [40, 150])
def test_expected_shares_of_long_lists_are_those_of_the_count_distribution(rng: np.random.Generator, m: int) -> None:
    for p in (rng.uniform(0.0, 1.0, m), rng.uniform(0.0, 0.05, m)):
        truth = np.empty(m)
        for j in range(m):
            count = np.ones(1)
            for each in np.delete(p, j):
                count = np.convolve(count, [1 - each, each])
            truth[j] = p[j] * (count / np.arange(1, m + 1)).sum()
        shares = expected_shares(p[None], np.ones((1, m), dtype=bool), (1.0,))[0]
        np.testing.assert_allclose(shares, truth / (1 - np.prod(1 - p)), rtol=1e-9)


@all_missing
@pytest.mark.parametrize("m", range(1, 9))
def test_under_the_partial_payoff_no_set_of_all_is_worth_more_than_the_chosen_one(
    rng: np.random.Generator, m: int, missing: tuple[float, ...]
) -> None:
    p, costs = small_worlds(rng, m)
    rankings, sets, policy = ranked(p, costs), subsets(m), knowing(model(missing=missing))
    gain, different = shares_of_each(p, missing) @ sets.T, set()
    for pressure in (0.0, 0.02, 0.1, 0.25, 0.6):
        worth = gain - pressure * (costs @ sets.T)
        chosen = acquired_by(policy, rankings, Payoff(pressure, "partial")) @ (1 << np.arange(m))
        np.testing.assert_allclose(worth[np.arange(len(p)), chosen], worth.max(axis=1), rtol=0, atol=1e-9)
        different |= set(chosen.tolist())
    assert len(different) >= min(2**m, 12)


@both_values
def test_an_expensive_middling_tool_is_skipped_and_a_cheaper_one_ranked_after_it_is_kept(payoff: Payoff) -> None:
    rankings = Rankings.from_scores({"first": 0.9, "middling": 0.5, "last": 0.4})
    policy = knowing(model())
    dear = rankings.with_costs({"first": 1.0, "middling": 5.0, "last": 0.1})
    assert policy.decide(dear, payoff).names(dear) == ["first", "last"]
    even = rankings.with_costs({"first": 0.1, "middling": 0.1, "last": 0.1})
    assert policy.decide(even, payoff).names(even) == ["first", "middling", "last"]
    assert policy.decide(dear, payoff).depth is None


# One fit, any prices.


@cache
def fitted(shared: bool = False) -> ExpectedPayoffBySet:
    """One fit on 400 tasks, some with required tools that their lists lack."""
    return ExpectedPayoffBySet().fit(random_logged(np.random.default_rng(1), 400, 8, shared=shared), PAYOFFS[0])


def test_neither_prices_nor_payoff_enter_the_fit(rng: np.random.Generator) -> None:
    logged = random_logged(rng, 80, 6)
    dearer = logged.with_costs(logged.rankings.costs * rng.uniform(0.2, 5.0, logged.rankings.costs.shape))
    texts = {
        to_json(ExpectedPayoffBySet().fit(tasks, payoff))
        for tasks, payoff in ((logged, PAYOFFS[0]), (dearer, PAYOFFS[0]), (logged, Payoff(3.0, "partial")))
    }
    assert len(texts) == 1


@both_values
@pytest.mark.parametrize("shared", [False, True])
def test_raising_the_cost_pressure_only_takes_tools_away(
    rng: np.random.Generator, payoff: Payoff, shared: bool
) -> None:
    rankings = random_logged(rng, 300, 8, shared=shared).rankings
    policy = fitted(shared)
    chosen = [acquired_by(policy, rankings, replace(payoff, cost_pressure=each)) for each in PRESSURES]
    for cheaper, dearer in pairwise(chosen):
        assert not (dearer & ~cheaper).any()
        assert (cost_of(rankings, dearer) <= cost_of(rankings, cheaper)).all()
    assert np.array_equal(chosen[0], rankings.listed)
    assert not chosen[-1].any()
    assert len({marks.tobytes() for marks in chosen}) > 6


@both_values
def test_prices_may_change_with_every_request(rng: np.random.Generator, payoff: Payoff) -> None:
    rankings = random_logged(rng, 300, 8).rankings
    policy, marks = fitted(), rankings.listed & (rng.random(rankings.scores.shape) < 0.3)
    before = policy.decide(rankings, payoff)
    dearer = policy.decide(rankings.with_costs(np.where(marks, rankings.costs * 1e4, rankings.costs)), payoff)
    assert (before.acquired & marks).any()
    assert not (dearer.acquired & marks).any()
    assert np.array_equal(np.asarray(before.evidence), np.asarray(dearer.evidence))
    free = acquired_by(policy, rankings.with_costs(np.where(marks, 1e-9, rankings.costs)), payoff)
    assert free[marks].mean() > 0.99
    # A unit of cost means nothing by itself: half the prices at twice the pressure decide the same.
    halved = rankings.with_costs(rankings.costs / 2)
    doubled = replace(payoff, cost_pressure=2 * payoff.cost_pressure)
    assert np.array_equal(before.acquired, acquired_by(policy, halved, doubled))


# The same answer for the same task, under both payoffs.


def partial_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "PAYOFF", Payoff(0.12, "partial"))


@pytest.mark.parametrize("check", CHECKS.values(), ids=list(CHECKS))
def test_every_promise_of_a_policy_is_kept_under_the_partial_payoff_too(
    check: Callable[[checks.MakePolicy], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    partial_checks(monkeypatch)
    check(ExpectedPayoffBySet)


def test_the_checks_would_notice_a_partial_decision_that_depends_on_the_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    class Crowded(ExpectedPayoffBySet):
        def choose(self, rankings: Rankings, payoff: Payoff, probability: Floats, holds: Floats) -> Bools:
            crowd = replace(payoff, cost_pressure=payoff.cost_pressure * len(rankings))
            return super().choose(rankings, crowd if payoff.value == "partial" else payoff, probability, holds)

    CHECKS["check_batch_size_changes_nothing"](Crowded)
    partial_checks(monkeypatch)
    with pytest.raises(BrokenPromiseError):
        CHECKS["check_batch_size_changes_nothing"](Crowded)


def test_without_identity_every_promise_is_kept() -> None:
    check_policy(lambda: ExpectedPayoffBySet(identity=False))


@pytest.mark.parametrize("shared", [False, True])
def test_padding_batch_size_and_task_order_change_no_bit_of_what_the_choice_rests_on(
    rng: np.random.Generator, shared: bool
) -> None:
    known = fitted(shared).model_
    assert len(known.missing) > 1
    rankings = random_logged(rng, 150, 9, shared=shared).rankings
    rankings = rankings.take(rankings.lengths > 0)

    def found(part: Rankings) -> list[Floats | Ints]:
        probability, holds = known.probabilities(part)
        order, log_not = value_order(probability, part.costs, part.listed)
        cuts = known.calibrated(sufficiency_by_cut(log_not))
        shares = expected_shares(probability, part.listed, known.missing)
        cuts = cuts[:, : rankings.width + 1]
        return [holds, cuts, *(each[:, : rankings.width] for each in (probability, shares, order))]

    whole = found(rankings)
    for width in (10, 11, 16, 33):
        assert all(np.array_equal(a, b) for a, b in zip(whole, found(rankings.padded_to(width)), strict=True))
    shuffled = rng.permutation(len(rankings))
    pieces = [shuffled, *(np.arange(i, min(i + 3, len(rankings))) for i in range(0, len(rankings), 3))]
    for rows in [*pieces, *np.arange(len(rankings))[:, None]]:
        some = found(rankings.take(rows))
        assert all(np.array_equal(a[rows], b) for a, b in zip(whole, some, strict=True))


@both_values
def test_padding_batch_size_and_task_order_change_no_decision(rng: np.random.Generator, payoff: Payoff) -> None:
    rankings, policy = random_logged(rng, 150, 9).rankings, fitted()
    whole = acquired_by(policy, rankings, payoff)
    assert 0.05 < whole[rankings.listed].mean() < 0.95
    assert np.array_equal(acquired_by(policy, rankings.padded_to(20), payoff)[:, :9], whole)
    shuffled = rng.permutation(len(rankings))
    assert np.array_equal(acquired_by(policy, rankings.take(shuffled), payoff), whole[shuffled])
    for row, length in enumerate(rankings.lengths.tolist()):
        names, scores = rankings.names(row), rankings.scores[row].tolist()
        alone = Rankings.from_scores(dict(zip(names, scores, strict=False)), keep_order=True)
        alone = alone.with_costs(rankings.costs[row : row + 1, :length])
        assert np.array_equal(acquired_by(policy, alone, payoff)[0], whole[row, :length])


# Lists of any shape.


@both_values
def test_tools_never_seen_differ_by_their_scores_and_prices_alone(payoff: Payoff) -> None:
    scores = np.linspace(0.95, 0.05, 12)
    decided = []
    for prefix in ("new", "other"):
        rankings = Rankings.from_scores({f"{prefix}-{j:02d}": float(score) for j, score in enumerate(scores)})
        decided.append(fitted(shared=True).decide(rankings, payoff))
    assert np.array_equal(decided[0].acquired, decided[1].acquired)
    assert np.array_equal(np.asarray(decided[0].evidence), np.asarray(decided[1].evidence))
    cheap = acquired_by(fitted(shared=True), rankings, replace(payoff, cost_pressure=0.02))
    assert cheap.any()


@both_values
def test_candidates_may_differ_from_task_to_task_and_lists_may_be_empty_or_longer_than_any_seen(
    payoff: Payoff,
) -> None:
    lists = [
        {},
        {"tool-0001": 0.9},
        {"tool-0002": 0.8, "new": 0.7},
        {f"tool-{j:04d}": 1 / (1 + j) for j in range(24)},
        {f"long-{j:04d}": 1 / (1 + j) for j in range(300)},
        {},
    ]
    policy, payoff = fitted(), replace(payoff, cost_pressure=0.03)
    batch = Rankings.from_scores(lists)
    decisions = policy.decide(batch, payoff)
    assert not (decisions.acquired & ~batch.listed).any()
    assert decisions.acquired.sum(axis=1)[[0, -1]].tolist() == [0, 0]
    for row, scores in enumerate(lists):
        alone = Rankings.from_scores(scores)
        assert policy.decide(alone, payoff).names(alone) == decisions.names(batch, row)
    assert decisions.names(batch, 1) == ["tool-0001"]
    assert acquired_by(policy, Rankings.from_scores([{}, {}]), payoff).shape == (2, 0)
    assert acquired_by(policy, Rankings.from_scores([]), payoff).shape == (0, 0)


def test_a_lone_candidate_is_worth_the_chance_that_the_list_holds_all() -> None:
    rankings, policy = Rankings.from_scores({"a": 0.1}, costs={"a": 2.0}), knowing(model(holds=holding(0.6)))
    assert acquired_by(policy, rankings, Payoff(0.299)).all()
    assert not acquired_by(policy, rankings, Payoff(0.301)).any()
    policy.model_ = model(missing=(0.5, 0.5))
    # Of 0.1 tasks that require it half require one more: 0.05 + 0.05 / 2, given 1 - 0.9 * 0.5 that require anything.
    share = 0.075 / 0.55
    assert acquired_by(policy, rankings, Payoff(0.499 * share, "partial")).all()
    assert not acquired_by(policy, rankings, Payoff(0.501 * share, "partial")).any()


@both_values
@pytest.mark.parametrize("records", [[], [{"scores": {}, "required": ["a"]}]], ids=["no task", "no candidate"])
def test_logs_without_tasks_or_without_candidates_give_a_policy_that_acquires_nothing_dear(
    payoff: Payoff, records: list[dict[str, object]]
) -> None:
    logged, payoff = LoggedTasks.from_records(records), replace(payoff, cost_pressure=1.0)
    policy = ExpectedPayoffBySet().fit(logged, payoff)
    assert not acquired_by(policy, sample_tasks(1).rankings, payoff).any()
    assert len(policy.decide(logged.rankings, payoff)) == len(records)
    assert to_json(from_json(to_json(policy).encode())) == to_json(policy)


# History: what the other tasks say about a tool, and never the task's own label.


def area_under_curve(probability: Floats, required: Bools) -> float:
    """P(a required candidate has the higher probability), ties counting half."""
    yes, no = probability[required][:, None], probability[~required][None]
    return float(((yes > no) + 0.5 * (yes == no)).mean())


def log_loss(probability: Floats, required: Bools) -> float:
    return float(-np.log(np.where(required, probability, 1 - probability)).mean())


def flat_world(rng: np.random.Generator, tools: list[list[str]], chance: Callable[[str], float]) -> LoggedTasks:
    """Tasks over these tools, shuffled, all with score 0.5; each tool is required with its own chance."""
    records = [
        {
            "scores": dict.fromkeys(rng.permutation(names).tolist(), 0.5),
            "required": [name for name in names if rng.random() < chance(name)],
        }
        for names in tools
    ]
    return LoggedTasks.from_records(records, keep_order=True)


def test_a_tool_of_one_task_tells_nothing_about_its_own_label(rng: np.random.Generator) -> None:
    # Every tool occurs once: its own label in its history would predict every training label, and no other.
    logged = flat_world(rng, [[f"{i}-{j}" for j in range(6)] for i in range(120)], lambda _: 0.4)
    known, held = fitted_and_held(logged)
    of_history = [NAMES.index(name) for name in NAMES if "history" in name]
    assert np.abs(np.array(known.coefficients)[of_history]).max() < 0.001
    again, _ = known.probabilities(logged.rankings)
    listed, required = logged.rankings.listed, logged.required
    entropy = log_loss(np.full(required.sum() + (~required).sum(), required.mean()), required.ravel())
    assert np.ptp(again[listed]) < 0.01
    assert log_loss(held.probability[listed], required[listed]) == pytest.approx(entropy, abs=0.02)
    # With the own label left in, the very same world would look solved.
    counts = listed.astype(np.float64)
    fooled = history(counts, counts * required, known.base_rate).light
    assert area_under_curve(fooled[listed], required[listed]) == 1.0


def test_tools_of_one_task_do_not_keep_a_telling_history_of_others_from_being_used(rng: np.random.Generator) -> None:
    # Half the candidates recur and half of those are always required; the other half occur once, by a coin's flip.
    tools = [[f"seldom-{i}-{j}" for j in range(3)] + rng.permutation(NEEDED + SPARED).tolist()[:3] for i in range(150)]
    logged = flat_world(rng, tools, lambda name: 0.5 if name.startswith("seldom") else float(name in NEEDED))
    _, held = fitted_and_held(logged)
    recurs = np.array([not name.startswith("seldom") for name in logged.rankings.catalogue])[logged.rankings.tool_ids]
    required, probability = logged.required, held.probability
    assert area_under_curve(probability[recurs], required[recurs]) > 0.999
    assert log_loss(probability[recurs], required[recurs]) < 0.15
    assert area_under_curve(probability[~recurs], required[~recurs]) == pytest.approx(0.5, abs=0.08)
    assert log_loss(probability[~recurs], required[~recurs]) == pytest.approx(np.log(2), abs=0.03)


NEEDED, SPARED = [f"needed-{j}" for j in range(6)], [f"spared-{j}" for j in range(6)]


@pytest.mark.parametrize("shared", [False, True])
def test_at_equal_scores_a_tool_always_required_beats_one_never_seen_and_that_beats_one_never_required(
    rng: np.random.Generator, shared: bool
) -> None:
    tools = [rng.permutation(NEEDED + SPARED).tolist()[: 12 if shared else 5] for _ in range(120)]
    logged = flat_world(rng, tools, lambda name: float(name in NEEDED))
    assert logged.rankings.shares_catalogue is shared
    policy = ExpectedPayoffBySet().fit(logged, PAYOFFS[0])
    for names in (["needed-1", "new", "spared-1"], ["spared-1", "new", "needed-1"]):
        ranking = Rankings.from_scores(dict.fromkeys(names, 0.5), keep_order=True)
        chance = dict(zip(names, policy.model_.probabilities(ranking)[0][0].tolist(), strict=True))
        assert chance["needed-1"] > chance["new"] > chance["spared-1"]
        assert chance["needed-1"] > 0.9
        assert chance["spared-1"] < 0.1
        assert policy.decide(ranking, Payoff(0.2, "partial")).names(ranking)[:2].count("spared-1") == 0


def test_a_tool_never_seen_has_the_history_of_an_average_one(rng: np.random.Generator) -> None:
    rankings = random_logged(rng, 50, 6, shared=True).rankings
    unseen, base = np.zeros(rankings.scores.shape), 0.3
    never = candidate_features(rankings, history(unseen, unseen, base))
    average = candidate_features(rankings, history(unseen + 100.0, unseen + 100.0 * base, base))
    for column, name in enumerate(NAMES):
        if "history" in name:
            assert np.abs(never[column]).max() < 1e-12
            assert np.abs(average[column]).max() < 1e-12
        elif column not in HISTORY:
            assert np.array_equal(never[column], average[column])
    more = history(np.array([4.0]), np.array([2.0]), base)
    assert more.light > more.heavy > 0


# Held-out predictions.


@pytest.mark.parametrize("groups", [2, 3, 5, 17])
def test_folds_keep_groups_together_and_are_at_least_two(rng: np.random.Generator, groups: int) -> None:
    names = np.array([f"g{i}" for i in rng.permutation(np.arange(60) % groups)])
    logged = replace(random_logged(rng, 60, 4), groups=names)
    fold = group_folds(logged)
    assert len(np.unique(fold)) == min(groups, membership.FOLDS)
    assert all(len(set(fold[names == name].tolist())) == 1 for name in names)
    sizes = np.bincount(fold)
    assert sizes.max() - sizes.min() <= np.ceil(60 / groups) * 2
    held = np.zeros(60, dtype=int)
    for taught, out in splits_of(fold):
        assert not set(names[taught].tolist()) & set(names[out].tolist())
        assert np.array_equal(taught, ~out)
        held += out
    assert (held == 1).all()


@pytest.mark.parametrize("shared", [False, True])
def test_the_labels_of_a_group_cannot_move_its_own_held_out_predictions(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch, shared: bool
) -> None:
    monkeypatch.setattr(warm_start, "STRENGTHS", (BASE,))
    monkeypatch.setattr(warm_start, "FLIPS", ())
    logged = random_logged(rng, 90, 6, shared=shared)
    _, before = fitted_and_held(logged)
    for group in np.unique(logged.groups)[:6]:
        own = logged.groups == group
        required = np.where(own[:, None], ~logged.required & logged.rankings.listed, logged.required)
        n_required = required.sum(axis=1) + np.where(own, 1 - np.minimum(logged.missing, 1), logged.missing)
        _, after = fitted_and_held(replace(logged, required=required, n_required=n_required))
        assert np.array_equal(before.probability[own], after.probability[own])
        assert np.array_equal(before.holds[own], after.holds[own])
        assert not np.array_equal(before.probability[~own], after.probability[~own])


def test_a_single_group_leaves_independence_as_it_is() -> None:
    logged = sample_tasks(1)
    known, held = fitted_and_held(replace(logged, groups=np.full(len(logged), "one")))
    assert known.calibration == (0.0, 1.0)
    assert not held.probability.any()
    again, _ = known.probabilities(logged.rankings)
    assert area_under_curve(again[logged.rankings.listed], logged.required[logged.rankings.listed]) > 0.8


# Calibration of sets.


def pairs_world(rng: np.random.Generator, n: int) -> LoggedTasks:
    """Three pairs of tools; a pair is required or not as a whole, by chances that its common score gives."""
    scores = rng.choice(np.array([0.1, 0.3, 0.5, 0.7]), (n, 3)) + 0.01 * np.arange(3)
    needed = rng.random((n, 3)) < scores
    kept = needed.any(axis=1)
    scores, needed = np.repeat(scores[kept], 2, axis=1), np.repeat(needed[kept], 2, axis=1)
    order = np.argsort(-scores, axis=1, kind="stable")
    ids = np.arange(len(scores)).astype(np.str_)
    rankings = Rankings(
        np.take_along_axis(scores, order, axis=1),
        np.ones(scores.shape),
        np.full(len(scores), 6),
        order,
        tuple(f"pair-{j // 2}-{j % 2}" for j in range(6)),
    )
    needed = np.take_along_axis(needed, order, axis=1)
    return LoggedTasks(rankings, needed, needed.sum(axis=1), ids, ids)


def test_where_tools_come_in_pairs_sufficiency_under_the_law_of_sizes_is_nearer_the_truth_than_independence(
    rng: np.random.Generator,
) -> None:
    known, _ = fitted_and_held(pairs_world(rng, 800))
    logged = pairs_world(rng, 3000)
    rankings = logged.rankings
    probability, holds = known.probabilities(rankings)
    order, log_not = value_order(probability, rankings.costs, rankings.listed)
    independent = sufficiency_by_cut(log_not)
    # The truth by enumeration of the pairs: a cut suffices where every pair that it breaks or leaves is not required.
    pair = np.take_along_axis(rankings.tool_ids, order, axis=1) // 2
    whole = np.stack([np.cumsum(pair == j, axis=1) == 2 for j in range(3)], axis=2)
    chance = np.stack([(rankings.scores * (rankings.tool_ids == 2 * j)).sum(axis=1) for j in range(3)], axis=1)
    none = (1 - chance).prod(axis=1)[:, None]
    truth = (np.where(whole, 1.0, 1 - chance[:, None]).prod(axis=2) - none) / (1 - none)
    sharp = value_order(sharpened(probability, known.sharpness), rankings.costs, rankings.listed)[1]
    plain, mended = independent[:, 1:] - truth, sufficiency_by_cut(sharp, known.law)[:, 1:] - truth
    assert (holds > 0.999).all()
    assert (mended**2).mean() < 0.8 * (plain**2).mean()


def test_calibration_keeps_nothing_at_0_everything_at_1_and_the_order_between(rng: np.random.Generator) -> None:
    chance = np.concatenate([[0.0], np.sort(rng.random(200)), [1.0]])
    for calibration in ((0.0, 1.0), (0.7, 0.2), (-1.5, 2.5)):
        found = model(calibration=calibration).calibrated(chance)
        assert (found[0], found[-1]) == (0.0, 1.0)
        assert (np.diff(found) >= 0).all()
    np.testing.assert_allclose(model().calibrated(chance), chance, rtol=0, atol=1e-12)


# The model and the policy as values.

ONE_TOOL = {"tools": ("a",), "times_listed": (2.0,), "times_required": (1.0,), "levels": (0.0,), "slopes": (0.0,)}
CONTRADICTIONS: dict[str, tuple[dict[str, object], str]] = {
    "a column without coefficient": ({"coefficients": (0.0,)}, "a coefficient for every column"),
    "a tool without slope": ({**ONE_TOOL, "slopes": ()}, "four numbers for every tool"),
    "a number without tool": ({**ONE_TOOL, "levels": (0.0, 0.0)}, "four numbers for every tool"),
    "a list column without coefficient": ({"holds": (0.0,)}, "needs its list coefficients"),
    "three numbers of calibration": ({"calibration": (0.0, 1.0, 2.0)}, "its calibration"),
    "no share of missing tools": ({"missing": ()}, "its missing shares"),
    "a base rate of 0": ({"base_rate": 0.0}, "must lie between 0 and 1"),
    "a base rate of 1": ({"base_rate": 1.0}, "must lie between 0 and 1"),
    "a base rate that is no number": ({"base_rate": float("nan")}, "must lie between 0 and 1"),
    "a negative share": ({"missing": (1.1, -0.1)}, "must lie between 0 and 1"),
    "a share above 1": ({"missing": (1.5,)}, "must lie between 0 and 1"),
    "a tool listed less than never": ({**ONE_TOOL, "times_listed": (-1.0,)}, "required at least 0 times"),
    "a tool required less than never": ({**ONE_TOOL, "times_required": (-1.0,)}, "required at least 0 times"),
    "a tool required more often than listed": ({**ONE_TOOL, "times_required": (3.0,)}, "as often as it was listed"),
}


@pytest.mark.parametrize(("changes", "message"), CONTRADICTIONS.values(), ids=list(CONTRADICTIONS))
def test_a_membership_model_that_contradicts_itself_is_refused(changes: dict[str, object], message: str) -> None:
    model(**ONE_TOOL)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=message):
        model(**changes)  # type: ignore[arg-type]


@both_values
@pytest.mark.parametrize("shared", [False, True])
def test_a_saved_policy_decides_bit_for_bit_as_the_fitted_one(
    rng: np.random.Generator, payoff: Payoff, shared: bool
) -> None:
    policy = fitted(shared)
    loaded = from_json(to_json(policy).encode())
    assert isinstance(loaded, ExpectedPayoffBySet)
    assert loaded.identity is policy.identity
    rankings = random_logged(rng, 200, 10, shared=shared).rankings
    for pressure in PRESSURES:
        ours, theirs = (each.decide(rankings, replace(payoff, cost_pressure=pressure)) for each in (policy, loaded))
        assert np.array_equal(ours.acquired, theirs.acquired)
        assert np.array_equal(np.asarray(ours.evidence), np.asarray(theirs.evidence))
    assert to_json(loaded) == to_json(policy)


def test_a_value_function_of_ones_own_is_refused_with_the_remedy() -> None:
    squared = Payoff(0.1, lambda covered, n_required: (covered / np.maximum(n_required, 1)) ** 2)
    policy = ExpectedPayoffBySet().fit(sample_tasks(1), squared)
    with refuses(ValueError, "exact", "partial", "CAMDF"):
        policy.decide(sample_tasks(2).rankings, squared)
    assert acquired_by(policy, sample_tasks(2).rankings, Payoff(0.1)).any()


@both_values
def test_an_unfitted_policy_says_so(payoff: Payoff) -> None:
    with refuses(NotFittedError, "not", "fitted", "fit"):
        ExpectedPayoffBySet().decide(sample_tasks(1).rankings, payoff)


# Validation tasks are tasks to learn from.


def test_joined_tasks_keep_their_tools_costs_marks_and_groups_over_one_catalogue() -> None:
    first = LoggedTasks.from_records(
        [
            {"scores": {"a": 0.9, "b": 0.5}, "required": ["b"], "task_id": "1", "group": "g"},
            {"scores": {"b": 0.2}, "required": ["b", "far"], "task_id": "2", "group": "h"},
        ],
        {"a": 1.0, "b": 2.0},
    )
    second = LoggedTasks.from_records(
        [
            {"scores": {"c": 0.8, "b": 0.4, "a": 0.1}, "required": ["c", "a"], "task_id": "a-long-name", "group": "g"},
            {"scores": {}, "required": ["far"], "task_id": "4", "group": "a-long-group"},
        ],
        {"a": 5.0, "b": 6.0, "c": 7.0},
    )
    vectors = np.array([[1.0, 0.0], [0.0, 1.0]])
    first, second = (replace(part, rankings=replace(part.rankings, vectors=vectors)) for part in (first, second))
    both = joined(first, second)
    rankings = both.rankings
    assert rankings.catalogue == ("a", "b", "c")
    assert [rankings.names(row) for row in range(4)] == [["a", "b"], ["b"], ["c", "b", "a"], []]
    assert rankings.costs.tolist() == [[1, 2, 0], [2, 0, 0], [7, 6, 5], [0, 0, 0]]
    assert rankings.scores.tolist() == [[0.9, 0.5, 0], [0.2, 0, 0], [0.8, 0.4, 0.1], [0, 0, 0]]
    assert both.required.tolist() == [[0, 1, 0], [1, 0, 0], [1, 0, 1], [0, 0, 0]]
    assert (both.n_required.tolist(), both.missing.tolist()) == ([1, 2, 2, 1], [0, 1, 0, 1])
    assert np.asarray(rankings.vectors).tolist() == [[1, 0], [0, 1]] * 2
    assert joined(first, replace(second, rankings=replace(second.rankings, vectors=None))).rankings.vectors is None
    assert both.task_ids.tolist() == ["1", "2", "a-long-name", "4"]
    assert both.groups.tolist() == ["g", "h", "g", "a-long-group"]
    assert group_folds(both)[0] == group_folds(both)[2]


def test_the_parts_of_a_log_joined_again_are_the_log(rng: np.random.Generator) -> None:
    logged = random_logged(rng, 60, 6)
    for cut in (0, 1, 30, 60):
        both = joined(logged.take(slice(0, cut)), logged.take(slice(cut, 60)))
        assert both.digest() == logged.digest()
        assert np.array_equal(both.task_ids, logged.task_ids)


def test_a_fit_learns_from_training_and_validation_tasks_alike(rng: np.random.Generator) -> None:
    logged = random_logged(rng, 120, 6)
    parts = logged.take(slice(0, 70)), logged.take(slice(70, 120))
    whole = ExpectedPayoffBySet().fit(logged, PAYOFFS[0])
    assert to_json(ExpectedPayoffBySet().fit(parts[0], PAYOFFS[0], parts[1])) == to_json(whole)
    assert to_json(ExpectedPayoffBySet().fit(parts[0], PAYOFFS[0])) != to_json(whole)


# Reliability on the data that ships.


def calibration_error(probability: Floats, required: Bools, bins: int = 10) -> float:
    """Expected calibration error: |mean probability - share required| over bins of equal width, by size."""
    bin_of = np.minimum((probability * bins).astype(int), bins - 1)
    size = np.bincount(bin_of, minlength=bins)
    return float(np.abs(np.bincount(bin_of, probability - required, bins)).sum() / size.sum())


@cache
def shipped(domain: str, scorer: str) -> tuple[LoggedTasks, HeldOut]:
    logged = domains.load(domain, scorer)
    return logged, fitted_and_held(logged)[1]


# domain, scorer, bound on the calibration error, bound on log loss over that of the base rate.
SHIPPED = [
    ("retail", "claude", 0.045, 0.35),  # measured 0.030 and 0.23
    ("workbench", "minilm", 0.020, 0.55),  # 0.012 and 0.41
    ("metatool", "minilm", 0.010, 0.55),  # 0.005 and 0.39
    ("mcp-atlas", "claude", 0.012, 0.40),  # 0.007 and 0.29
]


@pytest.mark.parametrize(("domain", "scorer", "most", "loss"), SHIPPED, ids=[f"{d}-{s}" for d, s, *_ in SHIPPED])
def test_held_out_membership_probabilities_are_reliable_and_say_something(
    domain: str, scorer: str, most: float, loss: float
) -> None:
    logged, held = shipped(domain, scorer)
    listed = logged.rankings.listed
    probability, required = held.probability[listed], logged.required[listed]
    error = calibration_error(probability, required)
    assert error < most < 0.05
    base = required.mean()
    entropy = -(base * np.log(base) + (1 - base) * np.log(1 - base))
    assert log_loss(probability, required) < loss * entropy
    # The measure is not blind: the same probabilities made bolder or more timid are less reliable.
    logit = np.log(probability / (1 - probability))
    for slope in (0.4, 2.5):
        assert calibration_error(1 / (1 + np.exp(-slope * logit)), required) > 1.4 * error

"""What each policy does, beyond the promises that all share."""

from __future__ import annotations

import itertools
import sys
from dataclasses import replace

import numpy as np
import pytest

import camdf
from camdf import LoggedTasks, Payoff, Rankings
from camdf.checks import sample_tasks
from camdf.core.features import AGGREGATES, COST_AUGMENTED, COST_FREE, FULL, LITE
from camdf.core.probability import logit
from camdf.core.rankings import Bools, Floats
from camdf.core.stopping import first_stop, hindsight_targets, prefix_oracle
from camdf.policies.models.linear import LinearModel, logistic_pipeline, state_matrix
from camdf.policies.models.tuning import LARGEST, between_quantiles
from camdf.policies.rules import ScoreMass
from saying import refuses

EXACT, PARTIAL = Payoff(0.12), Payoff(0.12, "partial")
BOTH = pytest.mark.parametrize("payoff", [EXACT, PARTIAL], ids=["exact", "partial"])
TRAIN, VALIDATION, TEST = sample_tasks(1, tasks=80), sample_tasks(2), sample_tasks(3)

# The paper gives the numbers of thresholds alone; these are grids of those sizes.
SCORE_GRID = tuple(round(0.05 * i, 2) for i in range(1, 20))
RATIO_GRID = tuple(round(0.05 * i, 2) for i in range(1, 31))
ATLAS_GRID = tuple(round(0.04 * i, 2) for i in range(25))


def mean_payoff(policy: camdf.Policy, logged: LoggedTasks, payoff: Payoff) -> float:
    return float(payoff.of(logged, policy.decide(logged.rankings, payoff).acquired).mean())


def at_unit_costs(logged: LoggedTasks) -> LoggedTasks:
    return logged.with_costs(logged.rankings.listed.astype(np.float64))


# Simple rules


def test_acquire_all_takes_every_listed_candidate() -> None:
    rankings = sample_tasks(4, ragged=True).rankings
    assert np.array_equal(camdf.AcquireAll().decide(rankings, EXACT).acquired, rankings.listed)


@pytest.mark.parametrize("k", [0, 1, 5, 99])
def test_top_k_takes_the_first_k_of_every_list_and_the_whole_list_where_it_is_shorter(k: int) -> None:
    rankings = sample_tasks(4, ragged=True).rankings
    decisions = camdf.TopK(k).decide(rankings, EXACT)
    assert np.array_equal(decisions.acquired, rankings.listed & (np.arange(rankings.width) < k))
    assert np.array_equal(decisions.acquired, camdf.TopK(k).decide(rankings, Payoff(9.0)).acquired)


@BOTH
def test_fixed_k_takes_the_depth_that_pays_most_on_validation(payoff: Payoff) -> None:
    policy = camdf.FixedK().fit(TRAIN, payoff, VALIDATION)
    by_depth = [payoff.of(VALIDATION, np.arange(7) < k * np.ones((40, 1))).mean() for k in range(8)]
    assert policy.k_ == int(np.argmax(by_depth))


@BOTH
@pytest.mark.parametrize("policy", [camdf.ScoreThreshold, camdf.ScorePerCostThreshold])
def test_no_training_cut_pays_more_on_validation_than_the_tuned_threshold(
    policy: type[camdf.ScoreThreshold], payoff: Payoff
) -> None:
    fitted = policy().fit(TRAIN, payoff, VALIDATION)
    cuts = between_quantiles(fitted.index(TRAIN.rankings)[TRAIN.rankings.listed])
    rivals = [fitted.acquire(VALIDATION.rankings, cut) for cut in [*cuts, -LARGEST, LARGEST]]
    best = max(payoff.of(VALIDATION, rival).mean() for rival in rivals)
    assert mean_payoff(fitted, VALIDATION, payoff) == best


def test_a_threshold_can_be_tuned_to_acquire_nothing_or_everything() -> None:
    dear, free = Payoff(100.0), Payoff(0.0)
    assert not camdf.ScoreThreshold().fit(TRAIN, dear).decide(TEST.rankings, dear).acquired.any()
    hopeful = replace(TRAIN, required=TRAIN.rankings.listed, n_required=TRAIN.rankings.lengths)
    assert camdf.ScoreThreshold().fit(hopeful, free).decide(TEST.rankings, free).acquired.all()


def test_a_tie_between_thresholds_goes_to_fewer_tools() -> None:
    nothing_matters = replace(TRAIN, n_required=TRAIN.n_required + 1)
    assert (
        not camdf.ScoreThreshold().fit(nothing_matters, Payoff(0.0)).decide(TEST.rankings, Payoff(0.0)).acquired.any()
    )


@pytest.mark.parametrize("grid", [SCORE_GRID, RATIO_GRID, ATLAS_GRID], ids=[19, 30, 25])
def test_a_grid_of_the_papers_size_is_searched(grid: tuple[float, ...], request: pytest.FixtureRequest) -> None:
    assert len(grid) == int(request.node.callspec.id)
    assert camdf.ScoreThreshold(grid).fit(TRAIN, EXACT, VALIDATION).threshold_ in {*grid, -LARGEST, LARGEST}


def test_score_per_cost_may_skip_an_expensive_tool_in_the_middle() -> None:
    rankings = Rankings.from_scores({"a": 0.9, "b": 0.8, "c": 0.7}, {"a": 1.0, "b": 4.0, "c": 1.0})
    policy = camdf.ScorePerCostThreshold([0.5])
    policy.threshold_, policy.payoff_ = 0.5, EXACT
    assert policy.decide(rankings, EXACT).names(rankings) == ["a", "c"]


def _every_set(tools: int) -> Bools:
    return np.array(list(itertools.product([False, True], repeat=tools)))


def _mean_of_constant_set(logged: LoggedTasks, chosen: Bools, payoff: Payoff) -> float:
    return float(payoff.of(logged, chosen[logged.rankings.tool_ids]).mean())


def test_constant_set_is_the_best_set_under_the_partial_payoff() -> None:
    for seed in range(5):
        logged = sample_tasks(seed, tasks=30)
        best = max(_mean_of_constant_set(logged, chosen, PARTIAL) for chosen in _every_set(7))
        assert mean_payoff(camdf.ConstantSet().fit(logged, PARTIAL), logged, PARTIAL) == pytest.approx(best, abs=1e-12)


def test_constant_set_under_the_exact_payoff_is_never_worse_than_nothing_everything_or_one_more_step() -> None:
    payoff = Payoff(0.02)
    for seed in range(5):
        logged = sample_tasks(seed, tasks=30)
        policy = camdf.ConstantSet().fit(logged, payoff)
        chosen = np.isin(logged.rankings.catalogue, policy.tools_)
        rivals = [np.zeros(7, bool), np.ones(7, bool), *(chosen ^ np.eye(7, dtype=bool))]
        assert mean_payoff(policy, logged, payoff) >= max(_mean_of_constant_set(logged, r, payoff) for r in rivals)


def test_constant_set_acquires_nothing_without_a_shared_catalogue() -> None:
    assert camdf.ConstantSet().fit(sample_tasks(1, ragged=True), PARTIAL).tools_ == ()


# Training-free predicates


def _lists(rankings: Rankings) -> list[list[float]]:
    return [rankings.scores[i, : rankings.lengths[i]].tolist() for i in range(len(rankings))]


def test_largest_gap_cuts_at_the_largest_drop() -> None:
    rankings = sample_tasks(5, ragged=True).rankings
    depth = camdf.LargestGap().decide(rankings, EXACT).depth
    assert depth is not None
    for scores, chosen in zip(_lists(rankings), depth.tolist(), strict=True):
        drops = [a - b for a, b in itertools.pairwise(scores)]
        assert chosen == (drops.index(max(drops)) + 1 if drops else len(scores))


def test_score_mass_takes_the_smallest_prefix_that_holds_its_share() -> None:
    rankings = sample_tasks(5, ragged=True).rankings
    depth = ScoreMass(0.8).decide(rankings, EXACT).depth
    assert depth is not None
    for scores, chosen in zip(_lists(rankings), depth.tolist(), strict=True):
        total = sum(scores)
        assert sum(scores[:chosen]) >= 0.8 * total - 1e-12
        assert chosen == 0 or sum(scores[: chosen - 1]) < 0.8 * total


def test_plug_in_keeps_what_its_score_pays_for() -> None:
    rankings = TEST.rankings
    acquired = camdf.PlugIn().decide(rankings, Payoff(0.3)).acquired
    assert np.array_equal(acquired, rankings.scores >= 0.3 * rankings.costs)


def test_score_at_least_keeps_the_named_score() -> None:
    rankings = Rankings.from_scores({"a": 0.5, "b": 0.4999})
    assert camdf.ScoreAtLeast().decide(rankings, EXACT).names(rankings) == ["a"]


# Learned policies


@BOTH
@pytest.mark.parametrize("policy", [camdf.CAMDF, camdf.CAMDFLite, camdf.PredictThenThreshold])
def test_no_policy_that_stops_beats_the_prefix_oracle_on_any_task(policy: type[camdf.CAMDF], payoff: Payoff) -> None:
    best = payoff.of(TEST, prefix_oracle(TEST, payoff).acquired)
    fitted = policy().fit(TRAIN, payoff, VALIDATION)
    assert (payoff.of(TEST, fitted.decide(TEST.rankings, payoff).acquired) <= best).all()


def test_cam_df_learns_something_that_acquiring_all_or_nothing_does_not_know() -> None:
    fitted = camdf.CAMDF().fit(TRAIN, EXACT)
    everything = mean_payoff(camdf.AcquireAll(), TEST, EXACT)
    assert mean_payoff(fitted, TEST, EXACT) > max(everything, 0.0) + 0.05


def test_cam_df_has_39_coefficients_on_seven_tools_and_lite_has_ten() -> None:
    full = camdf.CAMDF().fit(TRAIN, EXACT).model_
    assert (len(full.coefficients), len(full.tool_coefficients)) == (32, 7)
    lite = camdf.CAMDFLite().fit(TRAIN, EXACT).model_
    assert (len(lite.coefficients), lite.tools) == (10, ())


def test_identity_is_learned_only_from_one_shared_catalogue() -> None:
    assert camdf.CAMDF().fit(sample_tasks(1, ragged=True), EXACT).model_.tools == ()
    assert camdf.CAMDF(identity=False).fit(TRAIN, EXACT).model_.tools == ()
    assert camdf.CAMDF().fit(sample_tasks(1, tools=65), EXACT).model_.tools == ()
    assert len(camdf.CAMDF().fit(sample_tasks(1, tools=64), EXACT).model_.tools) == 64


def test_lite_is_fitted_towards_continuing_and_stops_below_its_threshold() -> None:
    policy = camdf.CAMDFLite(threshold=0.5).fit(TRAIN, EXACT)
    mirror = camdf.CAMDF(LITE, identity=False).fit(TRAIN, EXACT)
    assert np.allclose(policy.model_.coefficients, -np.array(mirror.model_.coefficients), atol=1e-3)
    evidence = policy.evidence(TEST.rankings, EXACT)
    expected = first_stop(evidence < 0.0, TEST.rankings.lengths)
    assert np.array_equal(policy.decide(TEST.rankings, EXACT).acquired.sum(axis=1), expected)


def test_a_fixed_threshold_is_compared_as_a_logit() -> None:
    odds = float(logit(np.array(0.8)))
    assert camdf.CAMDF(threshold=0.8).fit(TRAIN, EXACT).cutoff_ == odds
    assert camdf.PredictThenThreshold(threshold=0.8).fit(TRAIN, EXACT).cutoff_ == odds
    assert camdf.PredictThenThreshold(threshold=0.8).fit(TRAIN, PARTIAL).cutoff_ == 0.8


@BOTH
@pytest.mark.parametrize("policy", [camdf.CAMDFLite, camdf.PredictThenThreshold])
def test_no_fixed_cutoff_pays_more_on_validation_than_the_tuned_one(
    policy: type[camdf.CAMDFLite], payoff: Payoff
) -> None:
    fitted = policy().fit(TRAIN, payoff, VALIDATION)
    tuned = mean_payoff(fitted, VALIDATION, payoff)
    for cut in [*between_quantiles(fitted.evidence(TRAIN.rankings, payoff)[TRAIN.rankings.listed]), -LARGEST, LARGEST]:
        fitted.cutoff_ = cut
        assert mean_payoff(fitted, VALIDATION, payoff) <= tuned


def test_cost_blind_cam_df_is_cam_df_where_all_costs_are_equal() -> None:
    train, test = at_unit_costs(TRAIN), at_unit_costs(TEST)
    blind = camdf.CAMDF(cost_blind=True).fit(train, EXACT).evidence(test.rankings, EXACT)
    assert np.array_equal(blind, camdf.CAMDF().fit(train, EXACT).evidence(test.rankings, EXACT))


def test_cost_blind_cam_df_decides_the_same_at_any_prices_with_the_same_mean() -> None:
    policy = camdf.CAMDF(cost_blind=True).fit(TRAIN, EXACT)
    reversed_prices = TEST.with_costs(TEST.rankings.costs[:, ::-1].copy())
    same = policy.decide(TEST.rankings, EXACT).acquired == policy.decide(reversed_prices.rankings, EXACT).acquired
    assert same.all()


def test_cost_augmented_lite_is_cost_free_lite_where_all_costs_are_equal() -> None:
    train, test = at_unit_costs(TRAIN), at_unit_costs(TEST)
    free = camdf.CAMDFLite(COST_FREE).fit(train, EXACT)
    augmented = camdf.CAMDFLite(COST_AUGMENTED).fit(train, EXACT)
    extra = [w for name, w in zip(COST_AUGMENTED, augmented.model_.coefficients, strict=True) if name not in COST_FREE]
    assert np.allclose(extra, 0.0, atol=1e-12)
    assert np.array_equal(free.decide(test.rankings, EXACT).acquired, augmented.decide(test.rankings, EXACT).acquired)


def test_uniform_weights_change_the_model_and_regret_weights_are_the_default() -> None:
    regret, uniform = (camdf.CAMDF(weights=w).fit(TRAIN, EXACT).model_ for w in ("regret", "uniform"))
    assert regret.coefficients == camdf.CAMDF().fit(TRAIN, EXACT).model_.coefficients != uniform.coefficients


def test_an_integer_weight_equals_repeating_the_row() -> None:
    rng = np.random.default_rng(0)
    matrix, labels = rng.normal(size=(60, 4)), rng.random(60) < 0.5
    times = rng.integers(1, 4, size=60)
    repeated = np.repeat(matrix, times, axis=0)
    scaler = logistic_pipeline(repeated, np.repeat(labels, times), None)
    weighted = logistic_pipeline(repeated, np.repeat(labels, times), np.ones(times.sum()))
    assert np.array_equal(scaler.predict_proba(matrix), weighted.predict_proba(matrix))
    scaled = scaler.named_steps["scale"].transform
    by_weight = type(scaler.named_steps["fit"])(C=1.0, solver="liblinear", tol=1e-10)
    by_weight.fit(scaled(matrix), labels, sample_weight=times)
    by_row = type(scaler.named_steps["fit"])(C=1.0, solver="liblinear", tol=1e-10)
    by_row.fit(scaled(repeated), np.repeat(labels, times))
    assert np.allclose(by_weight.coef_, by_row.coef_, atol=1e-6)


@pytest.mark.parametrize(("pressure", "depth"), [(10.0, 0), (0.0, 7)])
def test_where_one_label_alone_occurs_the_model_is_a_constant(pressure: float, depth: int) -> None:
    payoff = Payoff(pressure)
    everything = replace(TRAIN, required=TRAIN.rankings.listed, n_required=TRAIN.rankings.lengths)
    fitted = camdf.CAMDF().fit(everything, payoff)
    assert not any(fitted.model_.coefficients)
    assert (fitted.decide(TEST.rankings, payoff).acquired.sum(axis=1) == depth).all()


def test_a_users_own_value_function_can_be_learned_for() -> None:
    def squared(covered: Floats, n_required: Floats) -> Floats:
        share: Floats = np.where(n_required > 0, covered / np.maximum(n_required, 1), 1.0) ** 2
        return share

    payoff = Payoff(0.1, squared)  # type: ignore[arg-type]
    for policy in (camdf.CAMDF(), camdf.PredictThenThreshold()):
        assert mean_payoff(policy.fit(TRAIN, payoff, VALIDATION), TEST, payoff) > 0


def test_a_tool_that_was_never_seen_counts_as_an_average_one() -> None:
    model = LinearModel(("next_score",), (1.0,), 0.5, ("a", "b"), (0.25, -0.25))
    rankings = Rankings.from_scores({"a": 0.9, "new": 0.8, "b": 0.7})
    assert np.allclose(model.evidence(rankings, EXACT), [[0.9 + 0.75, 0.8 + 0.5, 0.7 + 0.25]])


# Errors


def test_deciding_under_another_payoff_is_refused_with_the_remedy() -> None:
    with refuses(ValueError, "Refit", "decide"):
        camdf.FixedK().fit(TRAIN, EXACT).decide(TEST.rankings, PARTIAL)


def test_deciding_before_fitting_says_to_fit_or_load() -> None:
    with pytest.raises(camdf.NotFittedError, match="Call fit"):
        camdf.CAMDF().decide(TEST.rankings, EXACT)


@pytest.mark.parametrize("columns", [("next_score", "progress"), ("progress", "unheard_of"), ("progress", "progress")])
def test_columns_out_of_order_unknown_or_repeated_are_refused(columns: tuple[str, ...]) -> None:
    with refuses(ValueError, "order", "feature map"):
        LinearModel(columns, (0.0,) * len(columns), 0.0)


def test_a_model_with_a_coefficient_too_few_is_refused() -> None:
    with refuses(ValueError, "coefficient", "column"):
        LinearModel(AGGREGATES, (0.0,), 0.0)


def test_fitting_without_scikit_learn_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn", None)
    with pytest.raises(camdf.MissingExtraError, match=r"camdf\[train\]"):
        camdf.CAMDF().fit(TRAIN, EXACT)


def test_a_policy_shows_its_settings() -> None:
    assert repr(ScoreMass(0.9)) == "ScoreMass(share=0.9)"
    assert "weights='uniform'" in repr(camdf.CAMDF(weights="uniform").fit(TRAIN, EXACT))
    assert "_=" not in repr(camdf.FixedK().fit(TRAIN, EXACT))


def test_batches_larger_than_a_piece_decide_like_small_ones() -> None:
    policy = camdf.CAMDF().fit(TRAIN, EXACT)
    many = TEST.rankings.take(np.arange(3000) % len(TEST))
    whole, part = policy.decide(many, EXACT), policy.decide(TEST.rankings, EXACT)
    assert whole.evidence is not None
    assert part.evidence is not None
    assert np.array_equal(whole.evidence[-40:], part.evidence[np.arange(2960, 3000) % 40])
    assert np.array_equal(whole.acquired[:40], part.acquired)


def test_cuts_lie_between_values_that_were_seen() -> None:
    values = np.random.default_rng(0).random(500)
    cuts = between_quantiles(values)
    assert 20 <= len(cuts) <= 24
    assert not np.isin(cuts, values).any()
    shares = np.searchsorted(np.sort(values), cuts) / 500
    assert np.abs(shares - np.arange(1, len(cuts) + 1) / (len(cuts) + 1)).max() < 0.02
    assert between_quantiles(np.array([0.5, 0.5])) == []


def test_folding_gives_the_pipelines_own_scores_and_decisions() -> None:
    policy = camdf.CAMDF().fit(TRAIN, EXACT)
    targets = hindsight_targets(TRAIN, EXACT)
    tools = policy.model_.tools
    matrix = state_matrix(TRAIN.rankings, EXACT, FULL, tools, targets.state)
    pipeline = logistic_pipeline(matrix, targets.stop[targets.state], targets.weight[targets.state])
    states = TEST.rankings.listed
    test_matrix = state_matrix(TEST.rankings, EXACT, FULL, tools, states)
    evidence = policy.evidence(TEST.rankings, EXACT)[states]
    assert np.allclose(pipeline.decision_function(test_matrix), evidence, atol=1e-9)
    assert np.array_equal(pipeline.predict_proba(test_matrix)[:, 1] >= 0.5, evidence >= 0)

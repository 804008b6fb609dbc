"""From the first label on: the fit around a prior, what it believes, and the signal of a task's text."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from camdf import ExpectedPayoffBySet, LoggedTasks, Payoff, Rankings, cold_start
from camdf.checks import check_policy
from camdf.core.candidates import counts_of, history, history_in_others
from camdf.core.probability import sigmoid
from camdf.core.rankings import Floats
from camdf.core.vectors import at_length_one
from camdf.errors import NotFittedError
from camdf.evaluation.curve import draw_steps
from camdf.policies.artifact import from_json, to_json
from camdf.policies.models.design import Design, Setting
from camdf.policies.models.posterior import Belief, Fitted, Rows, Sums, log_loss, most_likely, sums_of
from camdf.policies.models.prior import KINDS, shipped_prior
from camdf.policies.models.set_law import SetLaw
from camdf.policies.models.task_text import FEWEST, TextSignal, _answers_left_out, _ridge, fit_text
from camdf.policies.models.warm_start import FEWEST_FOR_FLIPS, FEWEST_TASKS, SURE_OF_FLIPS, LossComparison, fit_warm
from camdf_lab import domains
from camdf_lab.beyond.priors import kind_of, learned_prior, prior_without
from camdf_lab.flips import flipped
from saying import refuses

PRIORS = tuple(map(shipped_prior, KINDS))
seeds = st.integers(0, 10_000)


def rows_of(rng: np.random.Generator, count: int, columns: int, tools: int) -> Rows:
    dense = np.concatenate([np.ones((count, 1)), rng.normal(size=(count, 1 + columns))], axis=1)
    tool = np.sort(rng.integers(0, tools, count)) if tools else np.full(count, -1)
    tool = np.unique(tool, return_inverse=True)[1] if tools else tool
    labels = (rng.random(count) < sigmoid(dense[:, 1])).astype(np.float64)
    by_tool = np.concatenate([np.ones((count, 1)), rng.normal(size=(count, 1))], axis=1)
    return Rows(np.concatenate([by_tool, dense], axis=1), tool, labels, rng.uniform(0.2, 1.0, count))


@settings(max_examples=30, deadline=None)
@given(seeds, st.integers(0, 4), st.integers(0, 5), st.sampled_from([0.0, 0.05, 0.2]))
def test_no_step_in_any_direction_makes_the_labels_likelier(seed: int, columns: int, tools: int, flips: float) -> None:
    rng = np.random.default_rng(seed)
    rows = rows_of(rng, 60, columns, tools)
    width, count = rows.dense.shape[1], int(rows.tool.max()) + 1
    theta, levels, slopes = (np.array(rng.normal(size=size)) for size in (width, count, count))
    middle = Fitted(theta, levels, slopes)
    square, small = rng.normal(size=(width, width)), rng.normal(size=(count, 2, 2))
    before = Belief(middle, square @ square.T + np.eye(width), small @ small.transpose(0, 2, 1) + np.eye(2))
    found = most_likely(rows, before, flips)

    def loss(at: Fitted) -> float:
        total = rows.weights @ log_loss(at.log_odds(rows), rows.labels, flips)
        off = at.theta - middle.theta
        total += off @ before.precision @ off / 2
        for tool in range(count):
            apart = np.array([at.levels[tool] - middle.levels[tool], at.slopes[tool] - middle.slopes[tool]])
            total += apart @ before.of_tools[tool] @ apart / 2
        return float(total)

    assert found.loss == pytest.approx(loss(found), rel=1e-9)
    for _ in range(8):
        step = [1e-3 * rng.normal(size=len(part)) for part in (found.theta, found.levels, found.slopes)]
        moved = Fitted(found.theta + step[0], found.levels + step[1], found.slopes + step[2])
        assert loss(moved) >= found.loss - 1e-9


@settings(max_examples=20, deadline=None)
@given(seeds, st.integers(0, 5))
def test_where_a_fit_starts_does_not_change_where_it_ends(seed: int, tools: int) -> None:
    rng = np.random.default_rng(seed)
    rows = rows_of(rng, 60, 3, tools)
    width = rows.dense.shape[1]
    count = int(rows.tool.max()) + 1
    nothing = Fitted(np.zeros(width), np.zeros(count), np.zeros(count))
    before = Belief(nothing, np.eye(width), np.tile(np.eye(2), (count, 1, 1)))
    theta, levels, slopes = (np.array(rng.normal(size=size)) for size in (width, count, count))
    start = Fitted(theta, levels, slopes)
    near, far = (most_likely(rows, before, 0.0, begun) for begun in (None, start))
    for name in ("theta", "levels", "slopes"):
        np.testing.assert_allclose(getattr(near, name), getattr(far, name), atol=1e-6)


@settings(max_examples=30, deadline=None)
@given(seeds, st.sampled_from([0.01, 0.05, 0.2]))
def test_the_curvature_of_labels_is_how_their_gradient_changes(seed: int, flips: float) -> None:
    rng = np.random.default_rng(seed)
    rows = rows_of(rng, 60, 2, 0)
    theta = np.array(rng.normal(size=rows.dense.shape[1]))

    def sums_at(theta: Floats) -> Sums:
        at = Fitted(theta, np.zeros(0), np.zeros(0))
        return sums_of(rows, at.chance(rows), flips, 0, expected=False)

    ahead = 1e-6 * np.array(rng.normal(size=len(theta)))
    change = sums_at(theta + ahead).gradient - sums_at(theta - ahead).gradient
    np.testing.assert_allclose(sums_at(theta).curvature @ (2 * ahead), change, atol=1e-9)


@settings(max_examples=20, deadline=None)
@example(seed=136, tools=2)  # the loss falls slowly for long
@given(seeds, st.integers(0, 3))
def test_a_search_among_labels_that_may_be_flipped_ends_where_nothing_pulls(seed: int, tools: int) -> None:
    """By what labels are expected to curve alone, contradicted sure predictions take more steps than there may be."""
    rng = np.random.default_rng(seed)
    rows = rows_of(rng, 400, 2, tools)
    sure = np.concatenate([rows.columns[:, :3], 6.0 * rows.dense[:, 1:]], axis=1)
    wrong = rng.random(400) < 0.05
    labels = np.where(wrong, 1.0 - (sure[:, 3] > 0), sure[:, 3] > 0)
    rows = Rows(sure, rows.tool, labels, rows.weights)
    width = rows.dense.shape[1]
    count = int(rows.tool.max()) + 1
    nothing = Fitted(np.zeros(width), np.zeros(count), np.zeros(count))
    before = Belief(nothing, np.eye(width) / 25, np.tile(np.eye(2), (count, 1, 1)))
    found = most_likely(rows, before, 0.01)
    sums = sums_of(rows, found.chance(rows), 0.01, count)
    pull, pull_of_tools = before.pull(found)
    np.testing.assert_allclose(sums.gradient + pull, 0.0, atol=1e-4)
    np.testing.assert_allclose(sums.gradient_of_tools + pull_of_tools, 0.0, atol=1e-4)


@settings(deadline=None)
@given(st.floats(2.0, 15.0), st.floats(0.01, 0.3))
def test_where_flips_are_believed_in_a_label_against_a_sure_prediction_hardly_pulls(sure: float, flips: float) -> None:
    """By (1 - 2 e) p (1 - p) / (e + (1 - 2 e) p) at most, with p the chance that the label is right: p / e."""
    one = Rows.without_tools(np.ones((1, 1)), np.ones(1), np.ones(1))
    at = Fitted(np.array([-sure]), np.zeros(0), np.zeros(0))
    trusting, doubting = (-float(sums_of(one, at.chance(one), share, 0).gradient[0]) for share in (0.0, flips))
    chance = float(sigmoid(np.array(-sure)))
    assert trusting == pytest.approx(1 - chance)
    assert 0 < doubting <= min(chance / flips, trusting)
    assert doubting == pytest.approx((1 - 2 * flips) * chance * (1 - chance) / (flips + (1 - 2 * flips) * chance))


def test_without_a_label_it_is_the_cold_start_but_for_how_many_tools_that_expects() -> None:
    logged = domains.load("mcp-atlas", "minilm")
    started = fit_warm(logged.take(slice(0, 0)), PRIORS[:1]).model
    cold = cold_start().model_.unshifted()
    one, other = started.probabilities(logged.rankings), cold.probabilities(logged.rankings)
    np.testing.assert_allclose(one[0], other[0], atol=1e-9)


@pytest.mark.parametrize("labels", [1, 2, 3, 9, 10, 40])
@pytest.mark.parametrize("domain", ["retail", "mcp-atlas"])
def test_it_learns_from_the_first_label_on(domain: str, labels: int) -> None:
    logged = domains.load(domain, "minilm", dispersion=1.0, texts=True)
    few = logged.take(np.random.default_rng(labels).permutation(len(logged))[:labels])
    policy = ExpectedPayoffBySet().fit(few, Payoff(0.12))
    for payoff in (Payoff(0.05), Payoff(0.2, "partial"), Payoff(0.05, recourse=0.5)):
        decided = policy.decide(logged.rankings, payoff).acquired
        assert decided.any()
        assert not (decided & ~logged.rankings.listed).any()


@settings(max_examples=12, deadline=None)
@given(seeds, st.sampled_from(["retail", "mcp-atlas"]), st.booleans())
def test_the_folded_model_says_what_the_fit_says(seed: int, domain: str, texts: bool) -> None:
    """Held-out predictions come from the rows of a fit; a policy's from plain coefficients. Both are one formula."""
    logged = domains.load(domain, "minilm", texts=True)
    some = logged.take(np.random.default_rng(seed).permutation(len(logged))[:45])

    design = Design.of(some, PRIORS[0], some.rankings.shares_catalogue, texts)
    fitted, model = design.fitted(Setting()), design.model(Setting(), SetLaw())
    expected = sigmoid(fitted.log_odds(design.reading.others(logged.rankings)))
    np.testing.assert_allclose(model.probabilities(logged.rankings)[0][logged.rankings.listed], expected, atol=1e-9)


@pytest.mark.parametrize(("domain", "scorer"), [("retail", "claude"), ("retail", "minilm"), ("mcp-atlas", "claude")])
def test_labels_tell_what_the_scores_are(domain: str, scorer: str) -> None:
    logged = domains.load(domain, scorer)
    told, untold = (fit_warm(logged, priors).model for priors in ((prior_without(domain, kind_of(scorer)),), PRIORS))
    one, other = (each.probabilities(logged.rankings)[0] for each in (told, untold))
    assert np.abs(one - other).mean() < 0.07


@pytest.mark.parametrize("flips", [0.0, 0.1, 0.2])
def test_flipped_labels_are_told_from_hard_tasks(flips: float) -> None:
    """Telecom has five requests with many answers each: hard, and not wrong."""
    logged = domains.load("telecom", "claude")
    found = [
        fit_warm(flipped(logged, flips, np.random.default_rng(seed)), (shipped_prior("probability"),)).model.flips
        for seed in range(3)
    ]
    assert np.mean(found) == pytest.approx(flips, abs=0.04)
    assert fit_warm(logged, PRIORS, trust_labels=True).model.flips == 0.0


class WithFalls(LossComparison):
    """Groups whose held-out loss falls by so much, each, once any flips are believed in, and no further."""

    def __init__(self, falls: list[float]) -> None:
        self.falls = np.array(falls)

    def losses(self, setting: Setting) -> Floats:
        return self.falls * (setting.flips == 0)


groups_of_falls = st.lists(st.floats(-5, 5), min_size=2, max_size=30)


@given(groups_of_falls)
def test_flips_are_believed_in_only_where_the_loss_falls_clearly_and_not_by_one_group_alone(falls: list[float]) -> None:
    mean, error = np.mean(falls), np.std(falls, ddof=1) / np.sqrt(len(falls))
    without_the_loudest = sum(falls) - max(falls)
    assume(abs(mean - SURE_OF_FLIPS * error) > 1e-9)
    assume(abs(without_the_loudest) > 1e-9)
    believed = WithFalls(falls).chosen(shared=True, trust_labels=False).flips > 0
    assert believed == (mean > SURE_OF_FLIPS * error and without_the_loudest > 0)


def test_one_group_is_no_evidence_however_loud() -> None:
    assert WithFalls([5.0, 4.0, 0.1, -0.2]).chosen(shared=True, trust_labels=False).flips > 0
    assert WithFalls([50.0, 0.1, 0.1, -0.3]).chosen(shared=True, trust_labels=False).flips == 0
    assert WithFalls([5.0, 4.0, 0.1, -0.2]).chosen(shared=True, trust_labels=True).flips == 0


def test_with_fewer_than_twenty_tasks_labels_are_taken_as_they_are() -> None:
    """Ten tasks of mcp-atlas whose labels are right, and of which three in ten would else be taken for wrong."""
    logged = domains.load("mcp-atlas", "minilm")
    ten = next(step for step in draw_steps(logged, 10, 0) if step.labels == FEWEST_TASKS)
    few = logged.take(ten.splits[6].train)
    assert len(few) < FEWEST_FOR_FLIPS
    assert fit_warm(few, PRIORS).model.flips == 0.0


@pytest.mark.parametrize("prior", ["either", *KINDS])
def test_it_keeps_every_promise_of_a_policy(prior: str) -> None:
    check_policy(lambda: ExpectedPayoffBySet(prior=prior))


def test_a_prior_has_not_seen_the_domain_it_is_for() -> None:
    for kind in KINDS:
        without = prior_without("retail", kind)
        assert without.coefficients != shipped_prior(kind).coefficients
        assert prior_without("toolalpaca", kind) is shipped_prior(kind)
    assert learned_prior("probability").coefficients == pytest.approx(shipped_prior("probability").coefficients)


# The task's text.


def texts_world(rng: np.random.Generator, tasks: int, told: float, groups: int | None = None) -> LoggedTasks:
    """Scores that say nothing, and vectors that say, with weight `told`, which tools are required."""
    names = [f"tool {i}" for i in range(8)]
    records = []
    for row in range(tasks):
        required = rng.choice(8, size=2, replace=False)
        records.append(
            {
                "scores": {name: float(rng.random()) for name in names},
                "required": [names[i] for i in required],
                "group": str(row % groups if groups else row),
            }
        )
    logged = LoggedTasks.from_records(records)
    needed = np.array([[name in record["required"] for name in names] for record in records], dtype=np.float64)
    vectors = at_length_one(told * needed + rng.normal(scale=0.3, size=needed.shape))
    return replace(logged, rankings=replace(logged.rankings, vectors=vectors))


@settings(max_examples=10, deadline=None)
@given(seeds, st.sampled_from([0.03, 1.0]), st.integers(2, 20))
def test_leaving_a_group_out_in_closed_form_is_fitting_without_it(seed: int, penalty: float, groups: int) -> None:
    rng = np.random.default_rng(seed)
    vectors, beyond = at_length_one(rng.normal(size=(40, 6))), rng.normal(size=(40, 3))
    group = np.unique(rng.integers(0, groups, 40), return_inverse=True)[1]
    found = _answers_left_out(vectors, beyond, group, int(group.max()) + 1, penalty)
    for number in range(int(group.max()) + 1):
        out = group == number
        weights = _ridge(vectors[~out], penalty) @ (vectors[~out].T @ beyond[~out])
        np.testing.assert_allclose(found[out], vectors[out] @ weights, atol=1e-8)


def test_a_text_that_tells_is_used_and_one_that_does_not_is_left_alone() -> None:
    rng = np.random.default_rng(0)
    telling, silent = texts_world(rng, 200, 1.0), texts_world(rng, 200, 0.0)
    assert fit_text(silent) is None
    policy = ExpectedPayoffBySet(prior="similarity")
    test = texts_world(rng, 300, 1.0)
    payoff = Payoff(0.05)
    paid = {}
    for name, logged in (("telling", telling), ("silent", silent)):
        policy.fit(logged, payoff)
        assert (policy.with_text_ is not None) == (name == "telling")
        paid[name] = payoff.of(test, policy.decide(test.rankings, payoff).acquired).mean()
    assert paid["telling"] > paid["silent"] + 0.1


def test_without_vectors_a_policy_that_reads_texts_decides_by_the_ranking_alone() -> None:
    logged = texts_world(np.random.default_rng(1), 150, 1.0)
    bare = replace(logged, rankings=replace(logged.rankings, vectors=None))
    read, alone = (ExpectedPayoffBySet(prior="similarity").fit(each, Payoff(0.05)) for each in (logged, bare))
    assert read.with_text_ is not None
    for payoff in (Payoff(0.05), Payoff(0.1, "partial")):
        one, other = (each.decide(bare.rankings, payoff).acquired for each in (read, alone))
        assert np.array_equal(one, other)
    shorter = replace(bare.rankings, vectors=np.ones((len(bare), 3)))
    decided = [each.decide(lists, Payoff(0.05)) for each, lists in ((read, shorter), (alone, bare.rankings))]
    assert np.array_equal(decided[0].acquired, decided[1].acquired)


def test_no_tool_has_weights_that_fewer_than_five_tasks_required() -> None:
    logged = texts_world(np.random.default_rng(2), 120, 1.0)
    required, rare = logged.required.copy(), logged.rankings.tool_ids == 0
    required[rare] = False
    required[: FEWEST - 1] |= rare[: FEWEST - 1]
    fewer = replace(logged, required=required, n_required=required.sum(axis=1))
    found = fit_text(fewer)
    assert found is not None
    assert logged.rankings.catalogue[0] not in found[0].tools
    assert len(found[0].tools) == 7


def test_a_task_s_answer_does_not_depend_on_how_many_stand_beside_it() -> None:
    logged = texts_world(np.random.default_rng(3), 150, 1.0)
    policy = ExpectedPayoffBySet().fit(logged, Payoff(0.05))
    together, _ = policy.probabilities(logged.rankings)
    for row in (0, 7, 149):
        alone, _ = policy.probabilities(logged.rankings.take([row]))
        assert np.array_equal(alone[0], together[row])


def test_a_saved_policy_with_texts_decides_bit_for_bit_the_same_and_stays_small() -> None:
    logged = domains.load("metatool", "minilm", texts=True).take(slice(300))
    policy = ExpectedPayoffBySet(prior="similarity").fit(logged, Payoff(0.05))
    assert policy.with_text_ is not None
    text = to_json(policy)
    assert len(text) < 150_000
    again = from_json(text.encode())
    for payoff in (Payoff(0.05), Payoff(0.1, "partial")):
        one, other = (each.decide(logged.rankings, payoff) for each in (policy, again))
        assert np.array_equal(one.acquired, other.acquired)
        assert np.array_equal(np.asarray(one.evidence), np.asarray(other.evidence))


def test_a_signal_without_a_tool_or_with_uneven_rows_is_refused() -> None:
    for parts in (((), (), (), ()), (("a",), (0.5,), (1.0,), ()), (("a", "b"), (0.5, 0.5), (1.0, 1.0), ((1,), (1, 2)))):
        with pytest.raises(ValueError, match="text signal"):
            TextSignal(*parts)


# One outcome at a time.


def world(domain: str, scorer: str, seed: int) -> LoggedTasks:
    logged = domains.load(domain, scorer)
    return logged.take(np.random.default_rng(seed).permutation(len(logged)))


@pytest.mark.parametrize(("domain", "scorer"), [("retail", "minilm"), ("telecom", "claude"), ("mcp-atlas", "minilm")])
def test_outcomes_that_come_one_by_one_teach_nearly_what_they_teach_together(domain: str, scorer: str) -> None:
    payoff, seeds = Payoff(0.05), range(4)
    early, late, together = np.zeros(len(seeds)), np.zeros(len(seeds)), np.zeros(len(seeds))
    for seed in seeds:
        logged = world(domain, scorer, seed)
        first, then, test = logged.take(slice(15)), logged.take(slice(15, 55)), logged.take(slice(55, None))
        grown = ExpectedPayoffBySet().fit(first, payoff)
        early[seed] = payoff.of(test, grown.decide(test.rankings, payoff).acquired).mean()
        for row in range(len(then)):
            grown.update(then.take([row]))
        late[seed] = payoff.of(test, grown.decide(test.rankings, payoff).acquired).mean()
        whole = ExpectedPayoffBySet().fit(logged.take(slice(55)), payoff)
        together[seed] = payoff.of(test, whole.decide(test.rankings, payoff).acquired).mean()
    assert late.mean() > min(early.mean(), together.mean()) - 0.03
    known = grown.model_.tools
    counts = dict(zip(whole.model_.tools, whole.model_.times_listed, strict=True))
    one_by_one = dict(zip(known, grown.model_.times_listed, strict=True))
    assert one_by_one.keys() == counts.keys()
    assert all(one_by_one[tool] >= counts[tool] - 1e-9 for tool in counts)  # an outcome has no group to be weighed by


def test_a_tool_that_was_offered_and_not_called_was_not_needed_and_of_others_nothing_is_known() -> None:
    logged = world("retail", "claude", 1)
    policy = ExpectedPayoffBySet().fit(logged.take(slice(20)), Payoff(0.1))
    text, one = to_json(policy), logged.take([30])
    offered = np.zeros(one.required.shape, dtype=bool)
    nothing = replace(one, required=offered.copy(), n_required=np.zeros(1, dtype=np.int64))
    assert to_json(policy.update(nothing, offered)) == text
    offered[0, 0] = True
    before = policy.probabilities(one.rankings)[0][0]
    after = policy.update(nothing, offered).probabilities(one.rankings)[0][0]
    assert after[0] < before[0]
    seen = dict(zip(policy.model_.tools, policy.model_.times_listed, strict=True))
    saved = vars(from_json(text.encode()))["model_"]
    told = dict(zip(saved.tools, saved.times_listed, strict=True))
    assert seen == told, (
        "the likelier tools are offered, so how often those are needed is not how often listed ones are"
    )
    policy.update(nothing, one.rankings.listed)
    seen = dict(zip(policy.model_.tools, policy.model_.times_listed, strict=True))
    assert {name: seen[name] - told[name] for name in seen} == dict.fromkeys(one.rankings.names(0), 1.0)


def test_a_loaded_policy_goes_on_as_the_saved_one_does() -> None:
    logged = domains.load("metatool", "minilm", texts=True)
    logged = logged.take(np.random.default_rng(2).permutation(len(logged))[:240])
    policy = ExpectedPayoffBySet().fit(logged.take(slice(200)), Payoff(0.1))
    again = from_json(to_json(policy).encode())
    assert isinstance(again, ExpectedPayoffBySet)
    later = logged.take(slice(200, None))
    assert to_json(again.update(later)) == to_json(policy.update(later))


def test_a_tool_that_was_never_seen_is_learned_as_well() -> None:
    logged = world("retail", "claude", 3)
    policy = ExpectedPayoffBySet().fit(logged.take(slice(30)), Payoff(0.1))
    new = LoggedTasks.from_records([{"scores": {"new": 0.4, logged.rankings.catalogue[0]: 0.5}, "required": ["new"]}])
    before = policy.probabilities(new.rankings)[0][0, 1]
    for _ in range(5):
        policy.update(new)
    assert policy.probabilities(new.rankings)[0][0, 1] > before
    assert "new" in policy.model_.tools


def test_the_cold_start_can_be_updated_and_a_policy_of_an_earlier_version_cannot() -> None:
    logged = world("retail", "minilm", 4)
    policy = cold_start()
    before = policy.probabilities(logged.rankings)[0].sum()
    assert policy.update(logged.take(slice(5))).probabilities(logged.rankings)[0].sum() != before
    policy.model_ = replace(policy.model_, doubt=None)
    with refuses(NotFittedError, "before … updated", must="again"):
        policy.update(logged)
    with pytest.raises(NotFittedError, match="has not been fitted"):
        ExpectedPayoffBySet().update(logged)


def test_a_tools_history_comes_from_other_groups_in_which_near_copies_count_less_than_a_task_each() -> None:
    scores = {"search": 0.9, "mail": 0.5}
    told = [("copies", ["search"])] * 4 + [("lone", ["mail"]), ("other", ["mail"])]
    logged = LoggedTasks.from_records(
        [
            {"task_id": str(i), "group": group, "scores": scores, "required": required}
            for i, (group, required) in enumerate(told)
        ]
    )
    rankings = logged.rankings
    listed, required = counts_of(rankings, logged.required, logged.groups)
    search, mail = (rankings.catalogue.index(tool) for tool in ("search", "mail"))
    assert listed.tolist() == [4.0, 4.0]
    assert (required[search], required[mail]) == (2.0, 2.0)
    past = history_in_others(rankings, logged.required, logged.groups, listed, required, 0.5)
    never = history(np.array(2.0), np.array(0.0), 0.5)
    assert past.heavy[0, 0] == pytest.approx(never.heavy)  # search, of which only its own group ever had need
    assert past.light[4, 0] == pytest.approx(history(np.array(3.0), np.array(2.0), 0.5).light)


def test_how_likely_a_list_is_to_hold_all_depends_on_the_list() -> None:
    rng = np.random.default_rng(0)
    logged = world("livemcpbench", "minilm", 0)
    top = logged.rankings.scores[:, 0]
    kept = rng.random(len(logged)) < sigmoid(12.0 * (top - np.median(top)))
    told = replace(logged, n_required=logged.required.sum(axis=1) + ~kept)
    holds = fit_warm(told, PRIORS).model.probabilities(told.rankings)[1]
    assert holds[kept].mean() > holds[~kept].mean() + 0.1


def test_a_negative_similarity_counts_as_a_small_one() -> None:
    model = cold_start().model_
    none, hardly = (
        model.probabilities(Rankings.from_scores([{"search": 0.6, "mail": 0.3, "maps": low}]))[0][0, 2]
        for low in (0.0, model.lowest_score / 2)
    )
    assert model.lowest_score == 0.02
    assert none == pytest.approx(hardly, rel=0.1)

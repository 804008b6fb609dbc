"""From the first label on: the fit around a prior, what it believes, and the signal of a task's text."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from camdf import ExpectedPayoffBySet, LoggedTasks, Payoff, cold_start, datasets
from camdf.checks import check_policy
from camdf.core.probability import sigmoid
from camdf.core.vectors import at_length_one
from camdf.lab.beyond.priors import kind_of, learned_prior, prior_without
from camdf.lab.flips import flipped
from camdf.models.posterior import Fitted, Rows, Strength, log_loss, most_likely
from camdf.models.prior import KINDS, shipped_prior
from camdf.models.task_text import FEWEST, TextSignal, _left_out, _ridge, fit_text
from camdf.models.warm_start import FEWEST_TASKS, fit_warm
from camdf.policies.artifact import from_json, to_json

PRIORS = tuple(map(shipped_prior, KINDS))
seeds = st.integers(0, 10_000)


def rows_of(rng: np.random.Generator, count: int, columns: int, tools: int) -> Rows:
    dense = np.concatenate([np.ones((count, 1)), rng.normal(size=(count, 1 + columns))], axis=1)
    tool = np.sort(rng.integers(0, tools, count)) if tools else np.full(count, -1)
    tool = np.unique(tool, return_inverse=True)[1] if tools else tool
    labels = (rng.random(count) < sigmoid(dense[:, 1])).astype(np.float64)
    return Rows(dense, rng.normal(size=count), tool, labels, rng.uniform(0.2, 1.0, count))


@settings(max_examples=30, deadline=None)
@given(seeds, st.integers(0, 4), st.integers(0, 5), st.sampled_from([0.0, 0.05, 0.2]))
def test_no_step_in_any_direction_makes_the_labels_likelier(seed: int, columns: int, tools: int, flips: float) -> None:
    rng = np.random.default_rng(seed)
    rows, prior, strength = rows_of(rng, 60, columns, tools), PRIORS[seed % 2], Strength(0.4, 1.0, 0.5)
    found = most_likely(rows, prior, strength, flips)

    def loss(at: Fitted) -> float:
        off = at.theta - np.eye(len(at.theta))[1]
        precision = np.diag([0.0, 0.0, *[strength.columns**-2.0] * columns])
        precision[:2, :2] = prior.precision
        total = rows.weights @ log_loss(at.log_odds(rows), rows.labels, flips) + off @ precision @ off / 2
        return float(total + (at.levels @ at.levels / 1.0 + at.slopes @ at.slopes / 0.25) / 2)

    assert found.loss == pytest.approx(loss(found), rel=1e-9)
    for _ in range(8):
        step = [1e-3 * rng.normal(size=len(part)) for part in (found.theta, found.levels, found.slopes)]
        moved = Fitted(found.theta + step[0], found.levels + step[1], found.slopes + step[2], 0.0)
        assert loss(moved) >= found.loss - 1e-9


def test_without_a_label_it_is_the_cold_start() -> None:
    logged = datasets.load("mcp-atlas", "minilm")
    started = fit_warm(logged.take(slice(0, 0)), PRIORS[:1]).model
    policy = cold_start()
    one, other = started.probabilities(logged.rankings), policy.model_.probabilities(logged.rankings)
    np.testing.assert_allclose(one[0], other[0], atol=1e-9)


@pytest.mark.parametrize("labels", [1, 2, 3, 9, 10, 40])
@pytest.mark.parametrize("domain", ["retail", "mcp-atlas"])
def test_it_learns_from_the_first_label_on(domain: str, labels: int) -> None:
    logged = datasets.load(domain, "minilm", dispersion=1.0, texts=True)
    few = logged.take(np.random.default_rng(labels).permutation(len(logged))[:labels])
    policy = ExpectedPayoffBySet(prior="either").fit(few, Payoff(0.12))
    for payoff in (Payoff(0.05), Payoff(0.2, "partial"), Payoff(0.05, recourse=0.5)):
        decided = policy.decide(logged.rankings, payoff).acquired
        assert decided.any()
        assert not (decided & ~logged.rankings.listed).any()


@settings(max_examples=12, deadline=None)
@given(seeds, st.sampled_from(["retail", "mcp-atlas"]), st.booleans())
def test_the_folded_model_says_what_the_fit_says(seed: int, domain: str, texts: bool) -> None:
    """Held-out predictions come from the rows of a fit; a policy's from plain coefficients. Both are one formula."""
    logged = datasets.load(domain, "minilm", texts=True)
    some = logged.take(np.random.default_rng(seed).permutation(len(logged))[:45])
    from camdf.models.set_law import SetLaw
    from camdf.models.warm_start import Setting, _Design

    design = _Design.of(some, PRIORS[0], some.rankings.shares_catalogue, texts)
    fitted, model = design.fitted(Setting()), design.model(Setting(), SetLaw())
    expected = sigmoid(fitted.log_odds(design.rows_of(logged.rankings)))
    np.testing.assert_allclose(model.probabilities(logged.rankings)[0][logged.rankings.listed], expected, atol=1e-9)


@pytest.mark.parametrize(("domain", "scorer"), [("retail", "claude"), ("retail", "minilm"), ("mcp-atlas", "claude")])
def test_labels_tell_what_the_scores_are(domain: str, scorer: str) -> None:
    logged = datasets.load(domain, scorer)
    told, untold = (fit_warm(logged, priors).model for priors in ((prior_without(domain, kind_of(scorer)),), PRIORS))
    one, other = (each.probabilities(logged.rankings)[0] for each in (told, untold))
    assert np.abs(one - other).mean() < 0.05


@pytest.mark.parametrize("flips", [0.0, 0.1, 0.2])
def test_flipped_labels_are_told_from_hard_tasks(flips: float) -> None:
    """Telecom has five requests with many answers each: hard, and not wrong."""
    logged = datasets.load("telecom", "claude")
    found = [
        fit_warm(flipped(logged, flips, np.random.default_rng(seed)), (shipped_prior("probability"),)).flips
        for seed in range(3)
    ]
    assert np.mean(found) == pytest.approx(flips, abs=0.04)
    assert fit_warm(logged, PRIORS, trust_labels=True).flips == 0.0


def test_with_fewer_than_ten_tasks_labels_are_taken_as_they_are() -> None:
    logged = flipped(datasets.load("retail", "claude"), 0.3, np.random.default_rng(0)).take(slice(FEWEST_TASKS - 1))
    assert fit_warm(logged, PRIORS).flips == 0.0


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
    found = _left_out(vectors, beyond, group, int(group.max()) + 1, penalty)
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
    policy = ExpectedPayoffBySet(prior="either").fit(logged, Payoff(0.05))
    together, _ = policy.probabilities(logged.rankings)
    for row in (0, 7, 149):
        alone, _ = policy.probabilities(logged.rankings.take([row]))
        assert np.array_equal(alone[0], together[row])


def test_a_saved_policy_with_texts_decides_bit_for_bit_the_same_and_stays_small() -> None:
    logged = datasets.load("metatool", "minilm", texts=True)
    policy = ExpectedPayoffBySet(prior="either").fit(logged, Payoff(0.05))
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

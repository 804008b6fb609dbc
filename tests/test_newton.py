"""The fit in passes that add up is scikit-learn's newton-cholesky, however the tasks are cut into batches."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from camdf import CAMDF, LoggedTasks, Payoff
from camdf.core.rankings import Floats
from camdf.errors import DataError
from camdf.models.linear import LinearModel
from camdf.models.newton import NewtonSums, minimise, moments, over, partial_sums, penalised
from camdf.policies.camdf import CAMDFLite
from camdf_lab import domains
from newton_cholesky import newton_cholesky, standardised_apart, weighted_scaler
from worlds import random_logged

PAYOFF = Payoff(0.08)
SHIPPED = [(domain.name, scorer) for domain in domains.DOMAINS for scorer in domain.scorers]
SAMPLE = [SHIPPED[i] for i in np.random.default_rng(5).choice(len(SHIPPED), 6, replace=False)]


def by_scikit_learn(policy: CAMDF, logged: LoggedTasks, payoff: Payoff) -> LinearModel:
    """The same model from one matrix of all states."""
    tools = logged.rankings.catalogue if policy.identity and logged.rankings.shares_catalogue else ()
    matrix, labels, weights = policy.state_rows(logged, payoff, tools)
    return newton_cholesky(matrix, labels, weights, policy.columns, tools)


def cut(logged: LoggedTasks, batches: int) -> list[LoggedTasks]:
    edges = np.linspace(0, len(logged), batches + 1).astype(int)
    return [logged.take(slice(start, end)) for start, end in pairwise(edges)]


def newton(logged: LoggedTasks, payoff: Payoff, batches: int = 3, start: LinearModel | None = None) -> CAMDF:
    tools = logged.rankings.catalogue if logged.rankings.shares_catalogue else ()
    return CAMDF().fit_in_passes(over(cut(logged, batches)), payoff, tools, start)


def apart(first: LinearModel, second: LinearModel, logged: LoggedTasks, payoff: Payoff) -> float:
    """The largest difference between two models' coefficients, for columns as they are standardised."""
    matrix, _, weights = CAMDF().state_rows(logged, payoff, first.tools)
    scaler = weighted_scaler(matrix, weights)
    return standardised_apart(first, second, scaler.mean_, scaler.scale_)


@pytest.mark.parametrize(("domain", "scorer"), SAMPLE)
@pytest.mark.parametrize("dispersion", [0.0, 1.5])
def test_the_streamed_fit_is_newton_cholesky_and_decides_alike_at_every_shipped_state(
    domain: str, scorer: str, dispersion: float
) -> None:
    logged = domains.load(domain, scorer, dispersion=dispersion)
    policy = newton(logged, PAYOFF)
    other = by_scikit_learn(CAMDF(), logged, PAYOFF)
    assert apart(policy.model_, other, logged, PAYOFF) <= 1e-8
    listed, cutoff = logged.rankings.listed, policy.cutoff_
    ours, theirs = (policy.stops(model.evidence(logged.rankings, PAYOFF), cutoff) for model in (policy.model_, other))
    assert (ours == theirs)[listed].all()


@pytest.mark.parametrize("batches", [1, 2, 7, 40])
def test_no_cut_into_batches_changes_the_fit(batches: int) -> None:
    logged = random_logged(np.random.default_rng(1), 400, 9)
    assert apart(newton(logged, PAYOFF, batches).model_, newton(logged, PAYOFF).model_, logged, PAYOFF) <= 1e-10


def test_a_batch_without_tasks_adds_nothing() -> None:
    logged = random_logged(np.random.default_rng(2), 90, 6)
    empty = logged.take(slice(0, 0))
    policy = CAMDF().fit_in_passes(over([empty, logged, empty]), PAYOFF)
    assert policy.model_.coefficients == newton(logged, PAYOFF, 1).model_.coefficients


def test_a_start_changes_the_number_of_passes_and_nothing_else() -> None:
    logged = random_logged(np.random.default_rng(3), 600, 8)
    sample = newton(logged.take(slice(0, 200)), PAYOFF)
    asked: list[int] = []
    batches = over([logged])

    def counted(of):  # type: ignore[no-untyped-def]
        asked.append(1)
        return batches(of)

    cold = CAMDF().fit_in_passes(counted, PAYOFF)
    passes = len(asked)
    warm = CAMDF().fit_in_passes(counted, PAYOFF, start=sample.model_)
    assert len(asked) - passes <= passes
    assert apart(cold.model_, warm.model_, logged, PAYOFF) <= 1e-10


def test_an_integer_weight_equals_repeating_the_row() -> None:
    rng = np.random.default_rng(4)
    matrix, labels, times = rng.normal(size=(50, 3)), rng.random(50) < 0.4, rng.integers(1, 4, 50)
    coefficients = rng.normal(size=4)
    weighted = partial_sums(matrix, labels, times.astype(float), coefficients)
    rows = np.repeat(np.arange(50), times)
    repeated = partial_sums(matrix[rows], labels[rows], np.ones(len(rows)), coefficients)
    np.testing.assert_allclose(weighted.hessian, repeated.hessian)
    np.testing.assert_allclose(weighted.gradient, repeated.gradient)
    assert weighted.loss == pytest.approx(repeated.loss)


def test_the_gradient_and_the_hessian_are_those_of_the_loss() -> None:
    rng = np.random.default_rng(5)
    matrix, labels, weights = rng.normal(size=(40, 4)), rng.random(40) < 0.5, rng.random(40)
    here, little = rng.normal(size=5), 1e-6
    sums = penalised(partial_sums(matrix, labels, weights, here), here, 0.7)
    for i, direction in enumerate(np.eye(5)):
        sides = [here + sign * little * direction for sign in (1, -1)]
        above, below = (penalised(partial_sums(matrix, labels, weights, side), side, 0.7) for side in sides)
        assert (above.loss - below.loss) / (2 * little) == pytest.approx(sums.gradient[i], abs=1e-7)
        np.testing.assert_allclose((above.gradient - below.gradient) / (2 * little), sums.hessian[i], atol=1e-6)


def test_moments_of_parts_add_up_to_those_of_the_whole() -> None:
    rng = np.random.default_rng(6)
    matrix, labels, weights = 1e6 + rng.normal(size=(300, 2)), rng.random(300) < 0.5, rng.random(300)
    matrix[:, 1] = 0.1
    whole = moments(matrix, labels, weights)
    parts = moments(matrix[:7], labels[:7], weights[:7]) + moments(matrix[7:], labels[7:], weights[7:])
    scaler = weighted_scaler(matrix, weights)
    for found in (whole, parts):
        np.testing.assert_allclose(found.mean, scaler.mean_)
        np.testing.assert_allclose(found.scale, scaler.scale_)
    assert (parts.rows, parts.labelled) == (300, labels.sum())
    assert whole.scale[1] == 1.0


def test_where_only_one_label_occurs_the_model_is_the_constant_of_the_one_machine_fit() -> None:
    logged = random_logged(np.random.default_rng(7), 30, 5)
    free = replace(logged, required=np.zeros_like(logged.required), n_required=np.zeros(30, dtype=np.int64))
    streamed, whole = CAMDF().fit_in_passes(over(cut(free, 3)), PAYOFF), CAMDF().fit(free, PAYOFF)
    assert (streamed.model_.coefficients, streamed.model_.intercept) == (
        whole.model_.coefficients,
        whole.model_.intercept,
    )


def test_a_fit_that_needs_all_tasks_in_one_place_is_refused() -> None:
    logged = random_logged(np.random.default_rng(8), 30, 5)
    for policy in (CAMDF(target="on-policy"), CAMDFLite()):
        with pytest.raises(ValueError, match="fixed threshold"):
            policy.fit_in_passes(over([logged]), PAYOFF)


def test_uniform_weights_and_continuing_labels_are_fitted_as_their_policies_say() -> None:
    logged = random_logged(np.random.default_rng(9), 200, 6)
    for policy in (CAMDF(weights="uniform", identity=False), CAMDFLite(threshold=0.5), CAMDF(cost_blind=True)):
        found = policy.fit_in_passes(over(cut(logged, 4)), PAYOFF).model_
        other = by_scikit_learn(policy, logged, PAYOFF)
        np.testing.assert_allclose(
            found.evidence(logged.rankings, PAYOFF), other.evidence(logged.rankings, PAYOFF), atol=1e-7
        )


def test_a_step_that_overshoots_is_halved_and_endless_steps_are_reported() -> None:
    def sums_at(x: Floats) -> NewtonSums:
        """log(cosh x): Newton's own steps run away from 2."""
        return NewtonSums(float(np.log(np.cosh(x)).sum()), np.tanh(x), np.diag(1 / np.cosh(x) ** 2))

    assert minimise(sums_at, np.array([2.0])) == pytest.approx([0.0], abs=1e-12)
    with pytest.raises(DataError, match="did not settle"):
        minimise(lambda x: NewtonSums(-float(x.sum()), np.array([-1.0]), np.array([[1.0]])), np.array([0.0]))

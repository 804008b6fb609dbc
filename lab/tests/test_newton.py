"""Newton's method for logistic regression: its sums are those of the loss, and it ends at the least one."""

from __future__ import annotations

import numpy as np
import pytest

from camdf.core.rankings import Floats
from camdf.errors import DataError
from camdf_lab.newton import NewtonSums, minimize, partial_sums, penalized


def test_an_integer_weight_equals_repeating_the_row() -> None:
    rng = np.random.default_rng(4)
    matrix = rng.normal(size=(50, 3))
    labels = rng.random(50) < 0.4
    times = rng.integers(1, 4, 50)
    coefficients = rng.normal(size=4)
    weighted = partial_sums(matrix, labels, times.astype(float), coefficients)
    rows = np.repeat(np.arange(50), times)
    repeated = partial_sums(matrix[rows], labels[rows], np.ones(len(rows)), coefficients)
    np.testing.assert_allclose(weighted.hessian, repeated.hessian)
    np.testing.assert_allclose(weighted.gradient, repeated.gradient)
    assert weighted.loss == pytest.approx(repeated.loss)


def test_the_gradient_and_the_hessian_are_those_of_the_loss() -> None:
    rng = np.random.default_rng(5)
    matrix = rng.normal(size=(40, 4))
    labels = rng.random(40) < 0.5
    weights = rng.random(40)
    here = rng.normal(size=5)
    little = 1e-6
    sums = penalized(partial_sums(matrix, labels, weights, here), here, 0.7)
    for i, direction in enumerate(np.eye(5)):
        sides = [here + sign * little * direction for sign in (1, -1)]
        above, below = (penalized(partial_sums(matrix, labels, weights, side), side, 0.7) for side in sides)
        assert (above.loss - below.loss) / (2 * little) == pytest.approx(sums.gradient[i], abs=1e-7)
        np.testing.assert_allclose((above.gradient - below.gradient) / (2 * little), sums.hessian[i], atol=1e-6)


def test_a_step_that_overshoots_is_halved_and_endless_steps_are_reported() -> None:
    def sums_at(x: Floats) -> NewtonSums:
        """log(cosh x): Newton's own steps run away from 2."""
        return NewtonSums(float(np.log(np.cosh(x)).sum()), np.tanh(x), np.diag(1 / np.cosh(x) ** 2))

    assert minimize(sums_at, np.array([2.0])) == pytest.approx([0.0], abs=1e-12)
    with pytest.raises(DataError, match="did not settle"):
        minimize(lambda x: NewtonSums(-float(x.sum()), np.array([-1.0]), np.array([[1.0]])), np.array([0.0]))

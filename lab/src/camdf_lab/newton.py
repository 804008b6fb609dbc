"""Weighted logistic regression by Newton's method, over rows that need not lie in one matrix.

Minimizes, with the intercept unpenalized,

    sum of weight * log(1 + exp(-sign * z))  +  penalty / 2 * (sum of squared coefficients).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from camdf.core.probability import sigmoid
from camdf.core.rankings import Bools, Floats
from camdf.errors import DataError

LAST_STEP = 1e-7
"""A Newton step this small is the last: what it leaves is of the order of its square."""

LOSS_ROUNDING = 1e-10
"""A loss that rises by no more than this share of itself has not risen: the sums of many rows are only so exact."""

MOST_SUMS = 60
"""How often the sums are taken at most."""


@dataclass(frozen=True, eq=False)
class NewtonSums:
    """Loss, gradient and Hessian of some rows; the last entry of each belongs to the intercept."""

    loss: float
    gradient: Floats
    hessian: Floats

    def __add__(self, other: NewtonSums) -> NewtonSums:
        return NewtonSums(self.loss + other.loss, self.gradient + other.gradient, self.hessian + other.hessian)


def partial_sums(matrix: Floats, labels: Bools, weights: Floats, coefficients: Floats) -> NewtonSums:
    """The sums of some rows, (n, columns), at (columns + 1) coefficients, without the penalty."""
    z = matrix @ coefficients[:-1] + coefficients[-1]
    chance = sigmoid(z)
    curvature = weights * chance * (1.0 - chance)
    excess = weights * (chance - labels)
    loss = weights @ (np.logaddexp(0.0, z) - labels * z)
    rooted = matrix * np.sqrt(curvature)[:, None]
    hessian = np.empty((len(coefficients), len(coefficients)))
    hessian[:-1, :-1] = rooted.T @ rooted
    hessian[-1, :-1] = hessian[:-1, -1] = curvature @ matrix
    hessian[-1, -1] = curvature.sum()
    return NewtonSums(float(loss), np.append(excess @ matrix, excess.sum()), hessian)


def penalized(sums: NewtonSums, coefficients: Floats, penalty: float) -> NewtonSums:
    """The sums with the penalty, which spares the intercept."""
    strength = np.full(len(coefficients), penalty)
    strength[-1] = 0.0
    return NewtonSums(
        sums.loss + 0.5 * float(strength @ coefficients**2),
        sums.gradient + strength * coefficients,
        sums.hessian + np.diag(strength),
    )


def minimize(sums_at: Callable[[Floats], NewtonSums], start: Floats) -> Floats:
    """Where the loss is least, from its sums at any coefficients. A step that raises the loss is halved."""
    here = start
    sums = sums_at(here)
    taken = 1
    while taken < MOST_SUMS:
        change = np.asarray(np.linalg.solve(sums.hessian, sums.gradient), dtype=np.float64)
        if np.abs(change).max() <= LAST_STEP:
            return here - change
        there = sums_at(here - change)
        taken += 1
        while (
            there.loss - sums.loss > LOSS_ROUNDING * sums.loss
            and np.abs(change).max() > LAST_STEP
            and taken < MOST_SUMS
        ):
            change = change / 2
            there = sums_at(here - change)
            taken += 1
        here = here - change
        sums = there
    raise DataError(f"Newton's method did not settle after {MOST_SUMS} sums. Look for columns that run away.")

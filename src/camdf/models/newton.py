"""Weighted L2 logistic regression as passes that add up: Newton's method over batches of any engine.

Minimises, over standardised columns and with the intercept unpenalised,

    sum of weight * log(1 + exp(-sign * z))  +  penalty / 2 * (sum of squared coefficients),

which is scikit-learn's `newton-cholesky` after a `StandardScaler` that is fitted with `sample_weight`. (The paper's
learner, liblinear, penalises the intercept too and does not weigh the scaler; it remains what `CAMDF.fit` uses.)

A pass asks every batch of logged tasks for a value and adds the values up: `Moments` once, `NewtonSums` at each step.
Who holds the batches only has to provide `Total`; that is all that a cluster does. A batch becomes rows only while its
sums are taken, a few thousand rows at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from operator import add
from typing import Any, Protocol, TypeAlias, TypeVar

import numpy as np

from camdf.core.probability import sigmoid
from camdf.core.rankings import Bools, Floats, LoggedTasks, pieces
from camdf.errors import DataError
from camdf.models.linear import LinearModel, constant_model, fold

PENALTY = 1.0
"""The paper's C = 1."""

SETTLED = 1e-7
"""A Newton step this small is the last: what it leaves is of the order of its square."""

ROUNDING = 1e-10
"""A loss that rises by no more than this share of itself has not risen: the sums of many rows are only so exact."""

MOST_PASSES = 60
STATES_AT_ONCE = 2048
"""Rows of states in memory together, about."""


class Addable(Protocol):
    """What two batches say, in a form that adds up."""

    def __add__(self, other: Any, /) -> Any: ...


T = TypeVar("T", bound=Addable)

RowsOf: TypeAlias = Callable[[LoggedTasks], tuple[Floats, Bools, Floats]]
"""Some tasks as training rows: (rows, columns), a label and a weight for each. A cluster sends it to its workers."""


class Total(Protocol):
    """The sum, over all batches of the training tasks, of what a function says of each."""

    def __call__(self, of: Callable[[LoggedTasks], T], /) -> T: ...


def over(batches: Iterable[LoggedTasks]) -> Total:
    """The `Total` of batches in this process."""
    kept = list(batches)

    def total(of: Callable[[LoggedTasks], T], /) -> T:
        return reduce(add, map(of, kept))

    return total


@dataclass(frozen=True, eq=False)
class Moments:
    """Rows, their labels and weights, and each column's weighted mean and weighted sum of squared deviations."""

    rows: int
    labelled: int
    weight: float
    mean: Floats
    squares: Floats

    def __add__(self, other: Moments) -> Moments:
        """Both together: the sum of squares grows by what lies between the two means."""
        weight = self.weight + other.weight
        share = other.weight / weight if weight else 0.0
        apart = other.mean - self.mean
        return Moments(
            self.rows + other.rows,
            self.labelled + other.labelled,
            weight,
            self.mean + share * apart,
            self.squares + other.squares + self.weight * share * apart**2,
        )

    @property
    def scale(self) -> Floats:
        """Each column's weighted standard deviation; 1 where it varies by rounding alone."""
        variance = self.squares / self.weight
        rounding = self.rows * np.finfo(np.float64).eps
        constant = variance <= rounding * variance + (rounding * self.mean) ** 2
        scale: Floats = np.where(constant, 1.0, np.sqrt(variance))
        return scale


def moments(matrix: Floats, labels: Bools, weights: Floats) -> Moments:
    """The moments of some rows, (n, columns), with a label and a weight each."""
    weight = float(weights.sum())
    mean = weights @ matrix / weight if weight else np.zeros(matrix.shape[1])
    return Moments(len(matrix), int(labels.sum()), weight, mean, weights @ (matrix - mean) ** 2)


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


def rescaled(sums: NewtonSums, scale: Floats) -> NewtonSums:
    """The sums of rows whose columns are divided by `scale`, from the sums of the undivided rows."""
    divisor = np.append(scale, 1.0)
    return NewtonSums(sums.loss, sums.gradient / divisor, sums.hessian / np.outer(divisor, divisor))


def penalised(sums: NewtonSums, coefficients: Floats, penalty: float) -> NewtonSums:
    """The sums with the penalty, which spares the intercept."""
    strength = np.full(len(coefficients), penalty)
    strength[-1] = 0.0
    return NewtonSums(
        sums.loss + 0.5 * float(strength @ coefficients**2),
        sums.gradient + strength * coefficients,
        sums.hessian + np.diag(strength),
    )


def step(sums: NewtonSums) -> Floats:
    """The Newton step away from where penalised sums were taken."""
    return np.asarray(np.linalg.solve(sums.hessian, sums.gradient), dtype=np.float64)


def minimise(sums_at: Callable[[Floats], NewtonSums], start: Floats) -> Floats:
    """Where the penalised loss is least, from its sums at any coefficients. A step that raises the loss is halved."""
    here, sums, passes = start, sums_at(start), 1
    while passes < MOST_PASSES:
        change = step(sums)
        if np.abs(change).max() <= SETTLED:
            return here - change
        found, passes = sums_at(here - change), passes + 1
        while found.loss - sums.loss > ROUNDING * sums.loss and np.abs(change).max() > SETTLED and passes < MOST_PASSES:
            change = change / 2
            found, passes = sums_at(here - change), passes + 1
        here, sums = here - change, found
    raise DataError(f"Newton's method did not settle in {MOST_PASSES} passes. Look for columns that run away.")


def fit_in_passes(
    rows_of: RowsOf, total: Total, columns: Sequence[str], tools: Sequence[str], start: LinearModel | None = None
) -> LinearModel:
    """The model of all rows behind `total`, in one pass for the scaler and one for each Newton step.

    `start` is a model of the same columns to begin from, such as a fit on a sample: it changes how many passes there
    are, and nothing else.
    """
    seen = total(partial(_moments_of, rows_of))
    if seen.labelled in (0, seen.rows):
        return constant_model(columns, tools, seen.labelled, seen.rows)
    mean, scale = seen.mean, seen.scale

    def sums_at(coefficients: Floats) -> NewtonSums:
        return penalised(total(partial(_sums_of, rows_of, mean, scale, coefficients)), coefficients, PENALTY)

    found = minimise(sums_at, _standardised(start, tools, mean, scale))
    return fold(found[:-1], found[-1], mean, scale, columns, tools)


def _standardised(model: LinearModel | None, tools: Sequence[str], mean: Floats, scale: Floats) -> Floats:
    """A folded model's coefficients for standardised columns, and its intercept; zeros where there is none."""
    if model is None:
        return np.zeros(len(mean) + 1)
    known = dict(zip(model.tools, model.tool_coefficients, strict=True))
    weights = np.array([*model.coefficients, *(known.get(tool, 0.0) for tool in tools)])
    return np.array([*weights * scale, model.intercept + weights @ mean])


def _rows(rows_of: RowsOf, logged: LoggedTasks) -> Iterator[tuple[Floats, Bools, Floats]]:
    return (rows_of(logged.take(piece)) for piece in pieces(logged.rankings, STATES_AT_ONCE))


def _moments_of(rows_of: RowsOf, logged: LoggedTasks) -> Moments:
    return reduce(add, (moments(*some) for some in _rows(rows_of, logged)))


def _sums_of(rows_of: RowsOf, mean: Floats, scale: Floats, coefficients: Floats, logged: LoggedTasks) -> NewtonSums:
    of_centred = np.append(coefficients[:-1] / scale, coefficients[-1])
    found = (
        partial_sums(matrix - mean, labels, weights, of_centred) for matrix, labels, weights in _rows(rows_of, logged)
    )
    return rescaled(reduce(add, found), scale)

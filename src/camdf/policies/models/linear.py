"""A linear score over prefix states: fitted by scikit-learn, folded to plain coefficients, served by numpy alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np

from camdf.core.features import COLUMNS, state_features
from camdf.core.payoff import Payoff
from camdf.core.probability import smoothed_log_odds, unscaled
from camdf.core.rankings import Bools, Floats, Rankings
from camdf.core.sums import over_columns
from camdf.errors import UsageError, needs
from camdf.policies.models.stored import column_names, names, number, numbers

if TYPE_CHECKING:
    from sklearn.pipeline import Pipeline


@dataclass(frozen=True, eq=False)
class LinearModel:
    """z = intercept + sum of coefficient times column, plus the coefficient of the next tool where identity is learned.

    Terms are added in column order with plain multiplications and additions, so that padding, batch size and row order
    never change a bit of z.
    """

    columns: Annotated[tuple[str, ...], column_names]
    coefficients: Annotated[tuple[float, ...], numbers]
    intercept: Annotated[float, number]
    tools: Annotated[tuple[str, ...], names] = ()
    tool_coefficients: Annotated[tuple[float, ...], numbers] = ()

    def __post_init__(self) -> None:
        if not self.columns or self.columns != tuple(name for name in COLUMNS if name in self.columns):
            raise UsageError("The 'columns' of a model must be known, in the order of the feature map, at least one.")
        if len(self.columns) != len(self.coefficients) or len(self.tools) != len(self.tool_coefficients):
            raise UsageError("A model needs one coefficient for every column and one for every tool.")
        object.__setattr__(self, "_weights", np.array(self.coefficients)[:, None, None])
        object.__setattr__(self, "_constants", self.intercept + np.array(self.tool_coefficients))

    def evidence(self, rankings: Rankings, payoff: Payoff) -> Floats:
        """(n, m): z at every state."""
        terms = state_features(rankings, payoff, self.columns)
        terms *= self._weights  # type: ignore[attr-defined]
        z = over_columns(terms)
        if self.tools:
            z += self._constants_of(rankings.catalogue)[rankings.tool_ids]
        else:
            z += self.intercept
        return z

    def _constants_of(self, catalogue: tuple[str, ...]) -> Floats:
        """Intercept plus coefficient for every tool of a catalogue; a tool that was not seen in training has none."""
        constants: Floats = self._constants  # type: ignore[attr-defined]
        if catalogue == self.tools:
            return constants
        known = dict(zip(self.tools, constants.tolist(), strict=True))
        return np.array([*(known.get(name, self.intercept) for name in catalogue), self.intercept])


def identity_tools(rankings: Rankings, identity: bool) -> tuple[str, ...]:
    """The tools that get a column each where identity is learned: all, if the tasks share one catalogue."""
    return rankings.catalogue if identity and rankings.shares_catalogue else ()


def state_matrix(
    rankings: Rankings, payoff: Payoff, columns: Sequence[str], tools: Sequence[str], states: Bools
) -> Floats:
    """(states, columns + tools): the training matrix, one row a state, the next tool as one-hot columns."""
    matrix = state_features(rankings, payoff, columns)[:, states].T
    if not tools:
        return matrix
    position = {name: i for i, name in enumerate(tools)}
    codes = np.array([position[name] for name in rankings.catalogue])[rankings.tool_ids[states]]
    return np.concatenate([matrix, np.eye(len(tools))[codes]], axis=1)


def logistic_pipeline(matrix: Floats, labels: Bools, weights: Floats | None) -> Pipeline:
    """The paper's learner: standardized columns, L2 logistic regression, liblinear, C = 1."""
    linear_model, pipeline, preprocessing = scikit_learn()
    model = pipeline.Pipeline(
        [
            ("scale", preprocessing.StandardScaler()),
            ("fit", linear_model.LogisticRegression(C=1.0, solver="liblinear", max_iter=400)),
        ]
    )
    return model.fit(matrix, labels, fit__sample_weight=weights)


def ridge_pipeline(matrix: Floats, targets: Floats) -> Pipeline:
    """Standardized columns and ridge regression with penalty 1, for targets that are not labels."""
    linear_model, pipeline, preprocessing = scikit_learn()
    model = pipeline.Pipeline([("scale", preprocessing.StandardScaler()), ("fit", linear_model.Ridge(alpha=1.0))])
    return model.fit(matrix, targets)


def folded(pipeline: Pipeline, columns: Sequence[str], tools: Sequence[str]) -> LinearModel:
    """The pipeline as one set of coefficients: w = coef / scale, b = intercept - sum of w times mean."""
    scale = pipeline.named_steps["scale"]
    fit = pipeline.named_steps["fit"]
    return fold(np.ravel(fit.coef_), np.ravel(fit.intercept_)[0], scale.mean_, scale.scale_, columns, tools)


def fold(
    coefficients: Floats, intercept: float, mean: Floats, scale: Floats, columns: Sequence[str], tools: Sequence[str]
) -> LinearModel:
    """Coefficients of standardized columns as those of the columns themselves."""
    weights, constant = unscaled(coefficients, intercept, mean, scale)
    values = tuple(float(w) for w in weights)
    own = len(columns)
    return LinearModel(tuple(columns), values[:own], constant, tuple(tools), values[own:])


def fit_logistic(
    rankings: Rankings,
    payoff: Payoff,
    columns: Sequence[str],
    tools: Sequence[str],
    states: Bools,
    labels: Bools,
    weights: Floats | None = None,
) -> LinearModel:
    """A folded logistic model of `labels` (n, m) over the given states; a constant where only one label occurs."""
    y = labels[states]
    if y.size == 0 or y.all() or not y.any():
        return constant_model(columns, tools, int(y.sum()), y.size)
    if weights is not None:
        weights = weights[states]
    matrix = state_matrix(rankings, payoff, columns, tools, states)
    return folded(logistic_pipeline(matrix, y, weights), columns, tools)


def constant_model(columns: Sequence[str], tools: Sequence[str], labeled: int, rows: int) -> LinearModel:
    """The model of rows that all have one label: their smoothed log odds, whatever the columns say."""
    constant = smoothed_log_odds(labeled, rows - labeled)
    return LinearModel(tuple(columns), (0.0,) * len(columns), constant, tuple(tools), (0.0,) * len(tools))


def fit_ridge(
    rankings: Rankings, payoff: Payoff, columns: Sequence[str], tools: Sequence[str], states: Bools, targets: Floats
) -> LinearModel:
    """A folded ridge model of `targets` (n, m) over the given states."""
    matrix = state_matrix(rankings, payoff, columns, tools, states)
    return folded(ridge_pipeline(matrix, targets[states]), columns, tools)


def scikit_learn() -> tuple[Any, Any, Any]:
    """The modules that fitting needs, or an error that names the extra."""
    with needs("train"):
        from sklearn import linear_model, pipeline, preprocessing
    return linear_model, pipeline, preprocessing

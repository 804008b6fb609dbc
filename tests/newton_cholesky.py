"""What a fit in passes must agree with: scikit-learn's newton-cholesky on one matrix of all states."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from camdf.core.rankings import Bools, Floats
from camdf.models.linear import LinearModel, fold


def newton_cholesky(
    matrix: Floats, labels: Bools, weights: Floats, columns: Sequence[str], tools: Sequence[str]
) -> LinearModel:
    """The model of rows of states, behind a weighted scaler."""
    scaler = weighted_scaler(matrix, weights)
    fit = LogisticRegression(C=1.0, solver="newton-cholesky", tol=1e-12, max_iter=200)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # at this tolerance its line search ends before its own test is met
        fit.fit(scaler.transform(matrix), labels, sample_weight=weights)
    return fold(np.ravel(fit.coef_), fit.intercept_[0], scaler.mean_, scaler.scale_, columns, tools)


def weighted_scaler(matrix: Floats, weights: Floats) -> Any:
    """scikit-learn's scaler. Where weights sum to little it takes rounding for variance: constants get the scale 1."""
    with np.errstate(invalid="ignore"):
        scaler = StandardScaler().fit(matrix, sample_weight=weights)
    scaler.scale_ = np.where(constant_columns(matrix), 1.0, scaler.scale_)
    return scaler


def constant_columns(matrix: Floats) -> Bools:
    """The columns that vary by rounding alone."""
    constant: Bools = np.ptp(matrix, axis=0) <= 1e-12 * np.abs(matrix).max(axis=0)
    return constant


def standardised_apart(first: LinearModel, second: LinearModel, mean: Floats, scale: Floats) -> float:
    """The largest difference between two models' coefficients of standardised columns, intercept included."""
    both = [np.array([*model.coefficients, *model.tool_coefficients]) for model in (first, second)]
    at_mean = [model.intercept + weights @ mean for model, weights in zip((first, second), both, strict=True)]
    return float(np.abs([*(both[0] - both[1]) * scale, at_mean[0] - at_mean[1]]).max())

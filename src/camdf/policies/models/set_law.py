"""How many tools do tasks require? A law of set sizes, learned from predictions that had not seen the task.

P(R) is proportional to g(|R|) times the product over R of (p / (1 - p))^sharpness. With g = 1 and sharpness 1 that is
independence. Both are learned by maximum likelihood of the required sets, held near independence by a prior: the log of
g changes from one size to the next by about `STEP`, and the log of the sharpness is about `SPREAD`. What the law then
says of whole sets is calibrated: how likely the first k tools of a list are to suffice, beside whether they did.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from camdf.core.probability import logit, sigmoid
from camdf.core.rankings import Bools, Floats
from camdf.core.sets import (
    AT_LEAST_ONE,
    SIZES,
    SMALLEST,
    SizeLaw,
    log_not_required,
    size_chances,
    sufficiency_by_cut,
    value_order,
)

STEP = 1.0
SPREAD = 0.5
SHARPNESS = tuple(np.exp(np.linspace(-0.7, 0.7, 15)).tolist())
"""Among which likelihood picks; the one in the middle is 1."""

LEVEL = 0.1
"""How firmly the mean of log g is held at 0: g counts up to a factor, and this one settles it."""

MOST_STEPS = 50
SETTLED = 1e-8
"""A step in which nothing moves further than this is the last."""

UNCALIBRATED = np.array([0.0, 1.0])
"""The calibration that changes nothing."""

NEAR = np.array([0.5, 0.25])
"""How far a calibration is expected to be from none, in standard deviations."""

FLATTEST = 0.1
"""A calibration rises at least so steeply: a likelier set never becomes a less likely one."""

UNDECIDED = 0.02
"""Sets count for the calibration where the law takes them to suffice with a chance this far from 0 and 1."""


class SetLaw(NamedTuple):
    """The law of sizes, the power to which odds are taken, and (a, b), which make sigmoid(a + b * logit(q)) of q."""

    sizes: SizeLaw = AT_LEAST_ONE
    sharpness: float = 1.0
    calibration: tuple[float, ...] = (0.0, 1.0)


def sharpened(probability: Floats, sharpness: float) -> Floats:
    """Odds to that power."""
    if sharpness == 1.0:
        return probability
    return sigmoid(sharpness * logit(probability, SMALLEST))


def fit_set_law(probability: Floats, needed: Floats, listed: Bools, weights: Floats) -> SetLaw:
    """From held-out probabilities (n, m), how likely each candidate was required, and what each task counts.

    `needed` (n, m) is 0 or 1 where labels are right, and in between where they may be flipped. Lists hold all that
    their tasks need, at least one tool each.
    """
    if not len(probability):
        return SetLaw()
    required = required_sizes(needed, listed, weights)
    fits = [(*fit_sizes(probability, needed, listed, weights, required, power), power) for power in SHARPNESS]
    _, log_g, sharpness = min(fits, key=lambda fit: fit[0])
    sizes = SizeLaw(tuple(np.exp(log_g - log_g.max()).tolist()))
    cuts = cuts_by_chance(probability, needed, listed, weights, sizes, sharpness)
    return SetLaw(sizes, sharpness, fit_calibration(*cuts))


def fit_sizes(
    probability: Floats, needed: Floats, listed: Bools, weights: Floats, required: Floats, sharpness: float
) -> tuple[float, Floats]:
    """The penalized loss at one sharpness, and log g (SIZES,) where it is least: Newton's method, on a convex loss."""
    odds = logit(probability, SMALLEST) * sharpness
    told = float(weights @ ((needed * odds - np.logaddexp(0.0, odds)) * listed).sum(axis=1))
    chances = np.maximum(size_chances(log_not_required(sigmoid(odds), listed))[1:, :, -1].T, 1e-300)
    steps = np.diff(np.eye(SIZES), axis=0)
    penalty = steps.T @ steps / STEP**2 + LEVEL / SIZES**2
    log_g = np.zeros(SIZES)
    for _ in range(MOST_STEPS):
        terms = chances * np.exp(log_g)
        share = terms / terms.sum(axis=1)[:, None]
        expected = weights @ share
        together = (share * weights[:, None]).T @ share
        gradient = expected - required + penalty @ log_g
        step = np.linalg.solve(np.diag(expected) - together + penalty, gradient)
        log_g = log_g - step / max(1.0, float(np.abs(step).max()) / 2.0)
        if np.abs(step).max() < SETTLED:
            break
    any_set = float(weights @ np.log((chances * np.exp(log_g)).sum(axis=1)))
    loss = any_set - required @ log_g - told + 0.5 * log_g @ penalty @ log_g
    return float(loss + 0.5 * (np.log(sharpness) / SPREAD) ** 2), log_g


def required_sizes(needed: Floats, listed: Bools, weights: Floats) -> Floats:
    """(SIZES,): how often 1, 2, ... tools are required, given at least one; the same at every sharpness."""
    sizes = size_chances(log_not_required(needed, listed))[1:, :, -1].T
    shares: Floats = sizes / np.maximum(sizes.sum(axis=1, keepdims=True), 1e-300)
    return weights @ shares


def cuts_by_chance(
    probability: Floats, needed: Floats, listed: Bools, weights: Floats, sizes: SizeLaw, sharpness: float
) -> tuple[Floats, Floats, Floats]:
    """Sets of the likeliest tools of each list: how likely the law takes each to suffice, whether it did, its weight.

    A task's weight is shared by its sets.
    """
    order, log_not = value_order(sharpened(probability, sharpness), np.ones(probability.shape), listed)
    chance = sufficiency_by_cut(log_not, sizes)
    suffices = sufficiency_by_cut(np.take_along_axis(log_not_required(needed, listed), order, axis=1))
    some = (chance > UNDECIDED) & (chance < 1.0 - UNDECIDED)
    sets = some.sum(axis=1)
    return chance[some], suffices[some], np.repeat(weights / np.maximum(sets, 1), sets)


def fit_calibration(chance: Floats, suffices: Floats, weights: Floats) -> tuple[float, ...]:
    """(a, b): logistic regression of what suffices on the log odds of its chance, by Newton's method."""
    x = np.stack([np.ones(len(chance)), logit(chance, SMALLEST)], axis=1)
    calibration = UNCALIBRATED
    for _ in range(MOST_STEPS):
        now = sigmoid(x @ calibration)
        gradient = x.T @ (weights * (now - suffices)) + (calibration - UNCALIBRATED) / NEAR**2
        curvature = (x.T * (weights * now * (1.0 - now))) @ x + np.diag(1.0 / NEAR**2)
        step = np.linalg.solve(curvature, gradient)
        calibration = calibration - step / max(1.0, float(np.abs(step).max()))
        if np.abs(step).max() < SETTLED:
            break
    level, slope = calibration.tolist()
    return level, max(slope, FLATTEST)

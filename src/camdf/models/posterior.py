"""The most likely membership model, given labels and a prior: Newton's method, with the tools eliminated two by two.

The log odds that candidate j is required are

    z = a + s * z0 + sum over columns of d_k * (x_k - mean_k) / spread_k + u_tool + v_tool * logit(score),

and what is minimised is the log loss of every label, weighted by task, plus

    (theta - theta0)' P (theta - theta0) / 2 + sum d^2 / (2 columns^2) + sum u^2 / (2 levels^2) + sum v^2 / (2 slopes^2)

with theta = (a, s), theta0 = (0, 1), P the prior's precision, and a `Strength` for the rest. Where a share e of labels
is flipped, a label is 1 with probability e + (1 - 2e) * sigmoid(z); the curvature is then Fisher's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from camdf.core.probability import sigmoid
from camdf.core.rankings import Floats, Ints
from camdf.models.prior import Prior

SETTLED = 1e-7
"""A step that changes no parameter by more is the last."""

MOST_STEPS = 40
SMALLEST_SHARE = 1e-6
"""A step is halved until the loss does not rise; where less than this share of it would still raise it, that is all."""

ROUNDING = 1e-12
"""A loss that rises by no more than this share of itself has not risen."""

SUREST = 1e-12
"""Probabilities stay this far from 0 and 1 while they are learned."""


class Strength(NamedTuple):
    """How far columns, levels and slopes may go, as standard deviations, and whether groups are weighed down.

    A task of a group of n counts n^(-1/2): n near-copies say more than one task, and less than n.
    """

    columns: float
    levels: float
    slopes: float
    weigh_groups: bool = True

    def of_columns(self) -> Strength:
        """The same, where no tool may differ."""
        return self._replace(levels=1.0, slopes=1.0)


@dataclass(frozen=True, eq=False)
class Rows:
    """Listed candidates, one a row, in the order of their tools: what a fit reads.

    `dense` (rows, 2 + columns) holds 1, z0 and the standardised columns; `slope` the logit of the score. `tool` numbers
    the tools that may differ, from 0 on, or is -1 throughout. `labels` and `weights` say what is learned from them.
    """

    dense: Floats
    slope: Floats
    tool: Ints
    labels: Floats
    weights: Floats

    def weighted(self, weights: Floats) -> Rows:
        """The same rows, weighed otherwise."""
        return Rows(self.dense, self.slope, self.tool, self.labels, weights)


@dataclass(frozen=True, eq=False)
class Fitted:
    """What was learned: `theta` (2 + columns), a level and a slope for every tool, and the penalised loss there."""

    theta: Floats
    levels: Floats
    slopes: Floats
    loss: float

    def log_odds(self, rows: Rows) -> Floats:
        """(rows,): z."""
        z: Floats = rows.dense @ self.theta
        if len(self.levels):
            known = rows.tool >= 0
            z = z + np.where(known, self.levels[rows.tool] + self.slopes[rows.tool] * rows.slope, 0.0)
        return z


def observed(chance: Floats, flips: float) -> Floats:
    """How likely a label is to say 'required', where a share of labels is flipped."""
    return flips + (1.0 - 2.0 * flips) * chance


def log_loss(z: Floats, labels: Floats, flips: float) -> Floats:
    """(rows,): minus the log of how likely each label was."""
    seen = observed(np.clip(sigmoid(z), SUREST, 1.0 - SUREST), flips)
    loss: Floats = -(labels * np.log(seen) + (1.0 - labels) * np.log1p(-seen))
    return loss


def most_likely(rows: Rows, prior: Prior, strength: Strength, flips: float, start: Fitted | None = None) -> Fitted:
    """The minimum, from `start` or from what the prior says."""
    width, tools = rows.dense.shape[1], int(rows.tool.max(initial=-1)) + 1
    here = start or Fitted(np.append([0.0, 1.0], np.zeros(width - 2)), np.zeros(tools), np.zeros(tools), np.inf)
    precision = np.diag(np.append([0.0, 0.0], np.full(width - 2, strength.columns**-2.0)))
    precision[:2, :2] = prior.precision
    blocks = _Blocks(rows, tools, strength)
    here = _with_loss(here, rows, precision, strength, flips)
    for _ in range(MOST_STEPS):
        step = blocks.step(here, precision, flips)
        change = max(float(np.abs(part).max(initial=0.0)) for part in step)
        share = 1.0
        while True:
            theta, levels, slopes = (share * part for part in step)
            there = Fitted(here.theta - theta, here.levels - levels, here.slopes - slopes, np.inf)
            there = _with_loss(there, rows, precision, strength, flips)
            if there.loss <= here.loss * (1 + ROUNDING):
                break
            share /= 2
            if share < SMALLEST_SHARE:
                return here
        here = there
        if change <= SETTLED:
            break
    return here


def _with_loss(at: Fitted, rows: Rows, precision: Floats, strength: Strength, flips: float) -> Fitted:
    off = at.theta - np.append([0.0, 1.0], np.zeros(len(at.theta) - 2))
    loss = rows.weights @ log_loss(at.log_odds(rows), rows.labels, flips) + 0.5 * off @ precision @ off
    loss += 0.5 * (at.levels @ at.levels / strength.levels**2 + at.slopes @ at.slopes / strength.slopes**2)
    return Fitted(at.theta, at.levels, at.slopes, float(loss))


class _Blocks:
    """Newton steps: the Hessian is dense in theta; a 2 x 2 block a tool beside it goes by Schur's complement."""

    def __init__(self, rows: Rows, tools: int, strength: Strength) -> None:
        self.rows, self.tools, self.strength = rows, tools, strength
        self.starts = np.searchsorted(rows.tool, np.arange(tools))

    def step(self, at: Fitted, precision: Floats, flips: float) -> tuple[Floats, Floats, Floats]:
        """How far theta, levels and slopes lie from where the quadratic is least."""
        rows = self.rows
        chance = np.clip(sigmoid(at.log_odds(rows)), SUREST, 1.0 - SUREST)
        seen = observed(chance, flips)
        rise = (1.0 - 2.0 * flips) * chance * (1.0 - chance)
        excess = rows.weights * (seen - rows.labels) * rise / (seen * (1.0 - seen))
        curvature = rows.weights * rise * rise / (seen * (1.0 - seen))
        curved = rows.dense * curvature[:, None]
        off = at.theta - np.append([0.0, 1.0], np.zeros(len(at.theta) - 2))
        hessian, gradient = rows.dense.T @ curved + precision, rows.dense.T @ excess + precision @ off
        if not self.tools:
            return np.linalg.solve(hessian, gradient), np.zeros(0), np.zeros(0)
        cross = np.stack([self._by_tool(curved), self._by_tool(curved * rows.slope[:, None])], axis=1)
        own = np.empty((self.tools, 2, 2))
        own[:, 0, 0] = self._by_tool(curvature) + self.strength.levels**-2.0
        own[:, 0, 1] = own[:, 1, 0] = self._by_tool(curvature * rows.slope)
        own[:, 1, 1] = self._by_tool(curvature * rows.slope**2) + self.strength.slopes**-2.0
        pull = np.stack([self._by_tool(excess), self._by_tool(excess * rows.slope)], axis=1)
        pull += np.stack([at.levels / self.strength.levels**2, at.slopes / self.strength.slopes**2], axis=1)
        solved = np.linalg.solve(own, np.concatenate([cross, pull[:, :, None]], axis=2))
        flat = cross.reshape(-1, cross.shape[2])
        left = solved.reshape(-1, solved.shape[2])
        theta = np.linalg.solve(hessian - flat.T @ left[:, :-1], gradient - flat.T @ left[:, -1])
        each = (left[:, -1] - left[:, :-1] @ theta).reshape(-1, 2)
        return theta, each[:, 0], each[:, 1]

    def _by_tool(self, values: Floats) -> Floats:
        summed: Floats = np.add.reduceat(values, self.starts, axis=0)
        return summed

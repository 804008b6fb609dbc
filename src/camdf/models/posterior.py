"""The most likely membership model, given labels and what was believed before: by Newton's method.

The log odds that candidate j is required are

    z = theta . x + u_tool + v_tool * logit(score),

and what is minimised is the log loss of every label, weighted by task, plus how far the answer is from what was
believed: (theta - theta0)' P (theta - theta0) / 2, and the same for (u, v) of every tool with a 2 x 2 precision. Where
a share e of labels is flipped, a label is 1 with probability e + (1 - 2e) * sigmoid(z); the curvature is then Fisher's.
What is believed afterwards is the same kind of thing: so labels can come all at once, or one after the other.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from camdf.core.probability import sigmoid
from camdf.core.rankings import Floats, Ints

SETTLED = 1e-8
"""A step that promises to lower the loss by no more is the last."""

MOST_STEPS = 40
SMALLEST_SHARE = 1e-6
"""A step is halved until the loss does not rise; where less than this share of it would still raise it, that is all."""

ROUNDING = 1e-12
"""A loss that rises by no more than this share of itself has not risen."""

SUREST = 1e-12
"""Probabilities stay this far from 0 and 1 while they are learned."""


@dataclass(frozen=True, eq=False)
class Rows:
    """Listed candidates, one a row, in the order of their tools: what a fit reads.

    `dense` (rows, columns) is x, `slope` the logit of the score. `tool` numbers the tools that may differ, from 0 on,
    and is -1 for others. `labels` and `weights` say what is learned from them.
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
    """`theta`, a level and a slope for every tool, and the penalised loss there."""

    theta: Floats
    levels: Floats
    slopes: Floats
    loss: float = np.inf

    def log_odds(self, rows: Rows) -> Floats:
        """(rows,): z."""
        z: Floats = rows.dense @ self.theta
        if len(self.levels):
            known = rows.tool >= 0
            z = z + np.where(known, self.levels[rows.tool] + self.slopes[rows.tool] * rows.slope, 0.0)
        return z


@dataclass(frozen=True, eq=False)
class Belief:
    """What is believed of `theta` and of every tool: the likeliest values, and how firmly.

    `precision` (columns, columns) is that of theta, and `of_tools` (tools, 2, 2) that of every level and slope.
    """

    likeliest: Fitted
    precision: Floats
    of_tools: Floats

    def distance(self, at: Fitted) -> float:
        """Half the squared distance, in precisions."""
        off, apart = at.theta - self.likeliest.theta, self._apart(at)
        return float(off @ self.precision @ off + np.einsum("ti,tij,tj->", apart, self.of_tools, apart)) / 2

    def pull(self, at: Fitted) -> tuple[Floats, Floats]:
        """The gradient of that: (columns,), and (tools, 2)."""
        pulled: Floats = np.einsum("tij,tj->ti", self.of_tools, self._apart(at))
        return self.precision @ (at.theta - self.likeliest.theta), pulled

    def _apart(self, at: Fitted) -> Floats:
        return np.stack([at.levels - self.likeliest.levels, at.slopes - self.likeliest.slopes], axis=1)


def observed(chance: Floats, flips: float) -> Floats:
    """How likely a label is to say 'required', where a share of labels is flipped."""
    return flips + (1.0 - 2.0 * flips) * chance


def log_loss(z: Floats, labels: Floats, flips: float) -> Floats:
    """(rows,): minus the log of how likely each label was."""
    seen = observed(np.clip(sigmoid(z), SUREST, 1.0 - SUREST), flips)
    loss: Floats = -(labels * np.log(seen) + (1.0 - labels) * np.log1p(-seen))
    return loss


def most_likely(rows: Rows, before: Belief, flips: float, start: Fitted | None = None) -> Fitted:
    """The minimum, from `start` or from what was likeliest before."""
    here = _with_loss(start or before.likeliest, rows, before, flips)
    for _ in range(MOST_STEPS):
        curvature = _Curvature(rows, here, before, flips)
        step = curvature.step()
        share = 1.0
        while True:
            theta, levels, slopes = (share * part for part in step)
            there = Fitted(here.theta - theta, here.levels - levels, here.slopes - slopes)
            there = _with_loss(there, rows, before, flips)
            if there.loss <= here.loss * (1 + ROUNDING):
                break
            share /= 2
            if share < SMALLEST_SHARE:
                return here
        here = there
        if curvature.fall(step) <= SETTLED:
            break
    return here


def afterwards(rows: Rows, at: Fitted, before: Belief, flips: float) -> Belief:
    """What is believed once the rows are known: the curvature at the minimum, theta's with the tools summed out."""
    curvature = _Curvature(rows, at, before, flips)
    return Belief(at, curvature.of_theta_alone(), curvature.of_tools)


def _with_loss(at: Fitted, rows: Rows, before: Belief, flips: float) -> Fitted:
    loss = float(rows.weights @ log_loss(at.log_odds(rows), rows.labels, flips)) + before.distance(at)
    return Fitted(at.theta, at.levels, at.slopes, loss)


class _Curvature:
    """Gradient and Hessian: dense in theta, a 2 x 2 block a tool beside it, which Schur's complement takes out."""

    def __init__(self, rows: Rows, at: Fitted, before: Belief, flips: float) -> None:
        self.starts = np.searchsorted(rows.tool, np.arange(len(at.levels)))
        chance = np.clip(sigmoid(at.log_odds(rows)), SUREST, 1.0 - SUREST)
        seen = observed(chance, flips)
        rise = (1.0 - 2.0 * flips) * chance * (1.0 - chance)
        excess = rows.weights * (seen - rows.labels) * rise / (seen * (1.0 - seen))
        curvature = rows.weights * rise * rise / (seen * (1.0 - seen))
        curved = rows.dense * curvature[:, None]
        pull, pull_of_tools = before.pull(at)
        self.of_theta, self.gradient = rows.dense.T @ curved + before.precision, rows.dense.T @ excess + pull
        self.of_tools = before.of_tools.copy()
        self.of_tools[:, 0, 0] += self._by_tool(curvature)
        self.of_tools[:, 0, 1] += self._by_tool(curvature * rows.slope)
        self.of_tools[:, 1, 0] = self.of_tools[:, 0, 1]
        self.of_tools[:, 1, 1] += self._by_tool(curvature * rows.slope**2)
        cross = np.stack([self._by_tool(curved), self._by_tool(curved * rows.slope[:, None])], axis=1)
        pulled = np.stack([self._by_tool(excess), self._by_tool(excess * rows.slope)], axis=1) + pull_of_tools
        self.cross, self.gradient_of_tools = cross.reshape(-1, rows.dense.shape[1]), pulled
        solved = np.linalg.solve(self.of_tools, np.concatenate([cross, pulled[:, :, None]], axis=2))
        self.solved = solved.reshape(-1, rows.dense.shape[1] + 1)

    def of_theta_alone(self) -> Floats:
        """(columns, columns): theta's precision once the tools are summed out."""
        alone: Floats = self.of_theta - self.cross.T @ self.solved[:, :-1]
        return alone

    def step(self) -> tuple[Floats, Floats, Floats]:
        """How far theta, levels and slopes lie from where the quadratic is least."""
        theta = np.asarray(np.linalg.solve(self.of_theta_alone(), self.gradient - self.cross.T @ self.solved[:, -1]))
        of_tools = (self.solved[:, -1] - self.solved[:, :-1] @ theta).reshape(-1, 2)
        return theta, of_tools[:, 0], of_tools[:, 1]

    def fall(self, step: tuple[Floats, Floats, Floats]) -> float:
        """By how much the quadratic falls there."""
        theta, levels, slopes = step
        of_tools = np.stack([levels, slopes], axis=1)
        return float(self.gradient @ theta + np.vdot(self.gradient_of_tools, of_tools)) / 2

    def _by_tool(self, values: Floats) -> Floats:
        if not len(self.starts):
            return np.zeros((0, *values.shape[1:]))
        # A tool without a row has an empty part, which reduceat would fill with the row after it.
        ends = np.append(self.starts[1:], len(values))
        padded = np.concatenate([values, np.zeros((1, *values.shape[1:]))])
        summed: Floats = np.add.reduceat(padded, self.starts, axis=0)
        summed[ends == self.starts] = 0.0
        return summed

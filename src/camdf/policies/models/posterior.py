"""The most likely membership model, given labels and what was believed before: by Newton's method.

The log odds that candidate j is required are

    z = theta . x + u_tool + v_tool * logit(score),

and what is minimized is the log loss of every label, weighted by task, plus how far the answer is from what was
believed: (theta - theta0)' P (theta - theta0) / 2, and the same for (u, v) of every tool with a 2 x 2 precision. Where
a share e of labels is flipped, a label is 1 with probability e + (1 - 2e) * sigmoid(z), and the loss may have no lowest
point nearby: then a step is taken by Fisher's curvature, which is what labels are expected to have. What is believed
afterwards has that curvature and is the same kind of thing: so labels can come all at once, or one after the other.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from camdf.core.probability import sigmoid
from camdf.core.rankings import Floats, Ints

SETTLED = 1e-8
"""A step that promises to lower the loss by no more is the last."""

MOST_STEPS = 40
SMALLEST_SHARE = 1e-6
"""A step that raises the loss is halved, and halved again. The search ends where less than this share of the step is
left."""

ROUNDING = 1e-12
"""A loss that rises by no more than this share of itself has not risen."""

SUREST = 1e-12
"""Probabilities stay this far from 0 and 1 while they are learned."""

OF_TOOLS = 2
"""How many columns are those of single tools: of their levels, and of their slopes."""

ROWS_AT_ONCE = 2048
"""So many rows stay in a processor's cache while everything is summed that a step needs of them."""


@dataclass(frozen=True, eq=False)
class Rows:
    """Listed candidates, one a row, in the order of their tools: what a fit reads.

    `columns` (rows, 2 + columns) are what a level and a slope are multiplied by, 1 and the logit of the score, and then
    x. `tool` numbers the tools that may differ, from 0 on, and is -1 for others. `labels` and `weights` say what is
    learned from them.
    """

    columns: Floats
    tool: Ints
    labels: Floats
    weights: Floats

    @classmethod
    def without_tools(cls, dense: Floats, labels: Floats, weights: Floats) -> Rows:
        """From x alone (rows, columns), where no tool has a level or a slope."""
        count = len(dense)
        columns = np.concatenate([np.ones((count, 1)), np.zeros((count, 1)), dense], axis=1)
        return cls(columns, np.full(count, -1), labels, weights)

    @property
    def slope(self) -> Floats:
        """(rows,): the logit of the score."""
        return self.columns[:, 1]

    @property
    def dense(self) -> Floats:
        """(rows, columns): x."""
        return self.columns[:, OF_TOOLS:]

    def weighted(self, weights: Floats) -> Rows:
        """The same rows, weighed otherwise."""
        return replace(self, weights=weights)


@dataclass(frozen=True, eq=False)
class Fitted:
    """`theta`, a level and a slope for every tool, and the penalized loss there."""

    theta: Floats
    levels: Floats
    slopes: Floats
    loss: float = np.inf

    def log_odds(self, rows: Rows) -> Floats:
        """(rows,): z."""
        z: Floats = rows.dense @ self.theta
        if len(self.levels):
            z += np.append(self.levels, 0.0)[rows.tool]
            z += np.append(self.slopes, 0.0)[rows.tool] * rows.slope
        return z

    def chance(self, rows: Rows) -> Floats:
        """(rows,): that each is required."""
        return _chance(self.log_odds(rows))

    def moved(self, step: tuple[Floats, Floats, Floats], share: float) -> Fitted:
        """A share of a step of theta, levels and slopes away from here."""
        theta, levels, slopes = step
        return Fitted(self.theta - share * theta, self.levels - share * levels, self.slopes - share * slopes)


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
        off = at.theta - self.likeliest.theta
        apart = self._tools_apart(at)
        return float(off @ self.precision @ off + np.einsum("ti,tij,tj->", apart, self.of_tools, apart)) / 2

    def pull(self, at: Fitted) -> tuple[Floats, Floats]:
        """The gradient of that: (columns,), and (tools, 2)."""
        pulled: Floats = np.einsum("tij,tj->ti", self.of_tools, self._tools_apart(at))
        return self.precision @ (at.theta - self.likeliest.theta), pulled

    def _tools_apart(self, at: Fitted) -> Floats:
        return np.stack([at.levels - self.likeliest.levels, at.slopes - self.likeliest.slopes], axis=1)


def observed(chance: Floats, flips: float) -> Floats:
    """How likely a label is to say 'required', where a share of labels is flipped."""
    return flips + (1.0 - 2.0 * flips) * chance


def log_loss(z: Floats, labels: Floats, flips: float) -> Floats:
    """(rows,): minus the log of how likely each label was."""
    return _surprise(observed(_chance(z), flips), labels)


def most_likely(rows: Rows, before: Belief, flips: float, start: Fitted | None = None) -> Fitted:
    """The minimum, by Newton's method from `start` or from what was likeliest before.

    A step that makes the loss rise is halved. Where labels may be flipped, the loss can fall slowly for long, so a step
    is doubled for as long as that makes it fall further.
    """

    def measured(at: Fitted) -> tuple[Fitted, Floats]:
        chance = at.chance(rows)
        loss = rows.weights @ _surprise(observed(chance, flips), rows.labels)
        return replace(at, loss=float(loss) + before.distance(at)), chance

    here, chance = measured(start or before.likeliest)
    for _ in range(MOST_STEPS):
        curvature = _curvature_of_search(rows, chance, flips, here, before)
        step = curvature.step()
        share = 1.0
        last = curvature.fall(step) <= SETTLED
        there, chance = measured(here.moved(step, share))
        while there.loss > here.loss * (1 + ROUNDING):
            share /= 2
            if share < SMALLEST_SHARE:
                return here
            there, chance = measured(here.moved(step, share))
        while flips and share >= 1.0 and not last:
            further, chance_there = measured(here.moved(step, 2 * share))
            if further.loss >= there.loss:
                break
            share *= 2
            there, chance = further, chance_there
        here = there
        if last:
            break
    return here


def afterwards(rows: Rows, at: Fitted, before: Belief, flips: float) -> Belief:
    """What is believed once the rows are known: the curvature at the minimum, theta's with the tools summed out."""
    curvature = _Curvature(sums_of(rows, at.chance(rows), flips, len(at.levels)), at, before)
    return Belief(at, curvature.of_theta_alone(), curvature.of_tools)


@dataclass(frozen=True, eq=False)
class Sums:
    """What rows say at some point, without what was believed before.

    `gradient` (columns,) and `curvature` (columns, columns) are theta's. A tool's level and slope have `of_tools`
    (tools, 2, 2), `gradient_of_tools` (tools, 2), and `cross` (tools, 2, columns), second derivatives by both.
    """

    gradient: Floats
    curvature: Floats
    gradient_of_tools: Floats
    of_tools: Floats
    cross: Floats


def sums_of(rows: Rows, chance: Floats, flips: float, tools: int, *, expected: bool = True) -> Sums:
    """The sums of some rows, of which each is required with such a chance; a step of the search needs no more of them.

    The curvature is the one that labels are `expected` to have, or that of these labels. Without flips both are one.
    Rows of no tool are added up behind those of the last one.
    """
    seen = observed(chance, flips)
    rise = (1.0 - 2.0 * flips) * chance * (1.0 - chance)
    by_seen = rows.weights * rise / (seen * (1.0 - seen))
    excess = by_seen * (seen - rows.labels)
    curvature = by_seen * rise
    if not expected:
        of_label = np.where(rows.labels > 0.5, seen, seen - 1.0)
        curvature = rows.weights * rise * (rise / of_label - (1.0 - 2.0 * chance)) / of_label
    curvature = curvature[:, None]
    width = rows.columns.shape[1]
    gradient = np.zeros((tools + 1, width))
    curved = np.zeros((tools + 1, width, width))
    for tool, part in _blocks(rows.tool, tools):
        columns = rows.columns[part]
        gradient[tool] += excess[part] @ columns
        curved[tool] += columns.T @ (columns * curvature[part])
    return Sums(
        gradient=gradient[:, OF_TOOLS:].sum(axis=0),
        curvature=curved[:, OF_TOOLS:, OF_TOOLS:].sum(axis=0),
        gradient_of_tools=gradient[:tools, :OF_TOOLS],
        of_tools=curved[:tools, :OF_TOOLS, :OF_TOOLS],
        cross=curved[:tools, :OF_TOOLS, OF_TOOLS:],
    )


class _Curvature:
    """Gradient and Hessian: dense in theta, a 2 x 2 block a tool beside it, which Schur's complement takes out."""

    def __init__(self, sums: Sums, at: Fitted, before: Belief) -> None:
        pull, pull_of_tools = before.pull(at)
        self.of_theta = sums.curvature + before.precision
        self.gradient = sums.gradient + pull
        self.of_tools = before.of_tools + sums.of_tools
        self.gradient_of_tools = sums.gradient_of_tools + pull_of_tools
        width = len(self.gradient)
        self.cross = sums.cross.reshape(-1, width)
        solved = np.linalg.solve(
            self.of_tools, np.concatenate([sums.cross, self.gradient_of_tools[:, :, None]], axis=2)
        )
        self.solved = solved.reshape(-1, width + 1)

    def of_theta_alone(self) -> Floats:
        """(columns, columns): theta's precision once the tools are summed out."""
        alone: Floats = self.of_theta - self.cross.T @ self.solved[:, :-1]
        return alone

    def step(self) -> tuple[Floats, Floats, Floats]:
        """How far theta, levels and slopes lie from where the quadratic is least."""
        theta = np.asarray(np.linalg.solve(self.of_theta_alone(), self.gradient - self.cross.T @ self.solved[:, -1]))
        of_tools = (self.solved[:, -1] - self.solved[:, :-1] @ theta).reshape(-1, 2)
        return theta, of_tools[:, 0], of_tools[:, 1]

    def has_lowest_point(self) -> bool:
        """Whether the quadratic has one."""
        of_theta, of_tools = map(np.linalg.eigvalsh, (self.of_theta_alone(), self.of_tools))
        return bool((of_theta > 0).all() and (of_tools > 0).all())

    def fall(self, step: tuple[Floats, Floats, Floats]) -> float:
        """By how much the quadratic falls there."""
        theta, levels, slopes = step
        of_tools = np.stack([levels, slopes], axis=1)
        return float(self.gradient @ theta + np.vdot(self.gradient_of_tools, of_tools)) / 2


def _curvature_of_search(rows: Rows, chance: Floats, flips: float, at: Fitted, before: Belief) -> _Curvature:
    """That of the labels, by which a search ends in few steps, where it has a lowest point; else the expected one."""
    tools = len(at.levels)
    if flips:
        seen = _Curvature(sums_of(rows, chance, flips, tools, expected=False), at, before)
        if seen.has_lowest_point():
            return seen
    return _Curvature(sums_of(rows, chance, flips, tools), at, before)


def _chance(z: Floats) -> Floats:
    """(rows,): that each is required."""
    return np.clip(sigmoid(z), SUREST, 1.0 - SUREST)


def _surprise(seen: Floats, labels: Floats) -> Floats:
    """(rows,): minus the log of how likely each label was."""
    loss: Floats = -(labels * np.log(seen) + (1.0 - labels) * np.log1p(-seen))
    return loss


def _blocks(tool: Ints, tools: int) -> Iterator[tuple[int, slice]]:
    """The rows, which are in the order of their tools, block by block: whose rows they are, -1 first, and where."""
    ends = np.searchsorted(tool, np.arange(-1, tools + 1)).tolist()
    for number, (begin, end) in enumerate(pairwise(ends), -1):
        for first in range(begin, end, ROWS_AT_ONCE):
            yield number, slice(first, min(first + ROWS_AT_ONCE, end))

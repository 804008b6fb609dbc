"""How many tools do tasks require? A law of set sizes, learned from predictions that had not seen the task.

P(R) is proportional to g(|R|) times the product over R of (p / (1 - p))^sharpness. With g = 1 and sharpness 1 that is
independence. Both are learned by maximum likelihood of the required sets, held near independence by a prior: the log of
g changes from one size to the next by about `STEP`, and the log of the sharpness is about `SPREAD`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from camdf.core.probability import logit, sigmoid
from camdf.core.rankings import Bools, Floats
from camdf.core.sets import AT_LEAST_ONE, SIZES, SMALLEST, SizeLaw, log_not_required, size_chances

STEP = 1.0
SPREAD = 0.5
SHARPNESS = tuple(float(each) for each in np.exp(np.linspace(-0.7, 0.7, 15)))
"""Among which likelihood picks; the one in the middle is 1."""

LEVEL = 0.1
"""How firmly the mean of log g is held at 0: g counts up to a factor, and this one settles it."""

MOST_STEPS, SETTLED = 50, 1e-8
"""A step in which no log g moves further than this is the last."""


class SetLaw(NamedTuple):
    """The law of sizes, and the power to which odds are taken."""

    sizes: SizeLaw = AT_LEAST_ONE
    sharpness: float = 1.0


def sharpened(probability: Floats, sharpness: float) -> Floats:
    """Odds to that power."""
    return probability if sharpness == 1.0 else sigmoid(sharpness * logit(probability, SMALLEST))


def fit_set_law(probability: Floats, needed: Floats, listed: Bools, weights: Floats) -> SetLaw:
    """From held-out probabilities (n, m), how likely each candidate was required, and what each task counts.

    `needed` (n, m) is 0 or 1 where labels are right, and in between where they may be flipped. Lists hold all that
    their tasks need, at least one tool each.
    """
    if not len(probability):
        return SetLaw()
    required = required_sizes(needed, listed, weights)
    searches = [LawSearch(each) for each in SHARPNESS]
    for search in searches:
        tasks = SizedTasks.of(probability, needed, listed, weights, required, search.sharpness)
        while not search.settled:
            search.tell(tasks.sums(search.log_g))
    return likeliest_law(searches)


def likeliest_law(searches: Sequence[LawSearch]) -> SetLaw:
    """The law of the search that found the least loss; all of them have settled."""
    best = min(searches, key=lambda search: search.loss)
    return SetLaw(SizeLaw(tuple(np.exp(best.log_g - best.log_g.max()).tolist())), best.sharpness)


@dataclass(frozen=True, eq=False)
class LawSums:
    """What tasks say of one log g, without the penalty: the sums of two batches of tasks add up.

    `required` (SIZES,) is how often each size was required, `expected` how often it was to be expected, and `together`
    (SIZES, SIZES) what curves; `chance` is the log of how likely any set was, and `odds` that of the required ones.
    """

    required: Floats
    expected: Floats
    together: Floats
    chance: float
    odds: float

    def __add__(self, other: LawSums) -> LawSums:
        return LawSums(
            self.required + other.required,
            self.expected + other.expected,
            self.together + other.together,
            self.chance + other.chance,
            self.odds + other.odds,
        )


@dataclass(frozen=True, eq=False)
class SizedTasks:
    """Tasks at one sharpness: how likely each size is if independently, how often it was required, and weights."""

    chances: Floats
    required: Floats
    odds: float
    weights: Floats

    @classmethod
    def of(
        cls, probability: Floats, needed: Floats, listed: Bools, weights: Floats, required: Floats, sharpness: float
    ) -> SizedTasks:
        odds = logit(probability, SMALLEST) * sharpness
        told = weights @ ((needed * odds - np.logaddexp(0.0, odds)) * listed).sum(axis=1)
        chances = np.maximum(size_chances(log_not_required(sigmoid(odds), listed))[1:, :, -1].T, 1e-300)
        return cls(chances, required, float(told), weights)

    def sums(self, log_g: Floats) -> LawSums:
        """The sums at one log g."""
        terms = self.chances * np.exp(log_g)
        whole = terms.sum(axis=1)
        share = terms / whole[:, None]
        expected = self.weights @ share
        together = (share * self.weights[:, None]).T @ share
        return LawSums(self.required, expected, together, float(self.weights @ np.log(whole)), self.odds)


class LawSearch:
    """Newton's method for log g at one sharpness, which is convex: `log_g` is where the sums are wanted next."""

    loss: float

    def __init__(self, sharpness: float) -> None:
        self.sharpness, self.log_g, self.settled = sharpness, np.zeros(SIZES), False
        self._steps, self._last = 0, False

    def tell(self, sums: LawSums) -> None:
        """Go on from the sums at `log_g`; the last of them give the penalised loss."""
        steps = np.diff(np.eye(SIZES), axis=0)
        penalty = steps.T @ steps / STEP**2 + LEVEL / SIZES**2
        log_g = self.log_g
        if self._last:
            loss = sums.chance - sums.required @ log_g - sums.odds + 0.5 * log_g @ penalty @ log_g
            self.loss = float(loss + 0.5 * (np.log(self.sharpness) / SPREAD) ** 2)
            self.settled = True
            return
        gradient = sums.expected - sums.required + penalty @ log_g
        step = np.linalg.solve(np.diag(sums.expected) - sums.together + penalty, gradient)
        self.log_g = log_g - step / max(1.0, float(np.abs(step).max()) / 2.0)
        self._steps += 1
        self._last = self._steps == MOST_STEPS or bool(np.abs(step).max() < SETTLED)


def required_sizes(needed: Floats, listed: Bools, weights: Floats) -> Floats:
    """(SIZES,): how often 1, 2, ... tools are required, given at least one; the same at every sharpness."""
    sizes = size_chances(log_not_required(needed, listed))[1:, :, -1].T
    shares: Floats = sizes / np.maximum(sizes.sum(axis=1, keepdims=True), 1e-300)
    return weights @ shares

"""Worlds small enough to write out: every required set with its probability, every set that could be acquired."""

from __future__ import annotations

import numpy as np

from camdf import ExpectedPayoffBySet, Payoff, Rankings
from camdf.core.candidates import CANDIDATE_COLUMNS
from camdf.core.rankings import Bools, Floats
from camdf.policies.models.membership import (
    LIST_COLUMNS,
    MembershipModel,
)

NAMES = tuple(CANDIDATE_COLUMNS)


def model(**changes: tuple[float, ...] | tuple[str, ...] | float) -> MembershipModel:
    """A model that knows no tool, whose lists hold what is required, and for which a score is a probability."""
    parts: dict[str, object] = {
        "coefficients": tuple(float(name == "score_logit") for name in NAMES),
        "intercept": 0.0,
        "base_rate": 0.5,
        **dict.fromkeys(("tools", "times_listed", "times_required", "levels", "slopes"), ()),
        "holds": (60.0,) + (0.0,) * len(LIST_COLUMNS),
        "calibration": (0.0, 1.0),
        "missing": (1.0,),
    }
    return MembershipModel(**{**parts, **changes})  # type: ignore[arg-type]


def knowing(known: MembershipModel) -> ExpectedPayoffBySet:
    """A policy with that model instead of a fitted one."""
    policy = ExpectedPayoffBySet()
    policy.model_ = known
    return policy


def holding(chance: float) -> tuple[float, ...]:
    """The list coefficients under which every list holds what is required with that probability."""
    return (60.0 if chance == 1 else float(np.log(chance / (1 - chance))),) + (0.0,) * len(LIST_COLUMNS)


def ranked(probability: Floats, costs: Floats) -> Rankings:
    """Full lists with these probabilities as scores, in any order."""
    n, m = probability.shape
    ids = np.tile(np.arange(m), (n, 1))
    return Rankings(probability, costs, np.full(n, m), ids, tuple(f"t{j}" for j in range(m)))


def acquired_by(policy: ExpectedPayoffBySet, rankings: Rankings, payoff: Payoff) -> Bools:
    return policy.decide(rankings, payoff).acquired


def subsets(m: int) -> Bools:
    """(2^m, m): all sets of m candidates, the empty one first."""
    marks: Bools = (np.arange(2**m)[:, None] >> np.arange(m)) % 2 == 1
    return marks


def chance_of_each(probability: Floats) -> Floats:
    """(n, 2^m): P(required set | at least one is required), members drawn independently; the empty set gets 0."""
    sets = subsets(probability.shape[1])
    p = probability[:, None, :]
    chance: Floats = np.where(sets, p, 1.0 - p).prod(axis=2)
    chance[:, 0] = 0.0
    chance /= chance.sum(axis=1, keepdims=True)
    return chance


def sufficiency_of_each(probability: Floats) -> Floats:
    """(n, 2^m): P(required within A) for every set A, the list holding all."""
    sets = subsets(probability.shape[1])
    within = ~(sets[:, None] & ~sets[None]).any(axis=2)
    return chance_of_each(probability) @ within


def shares_of_each(probability: Floats, missing: tuple[float, ...]) -> Floats:
    """(n, m): E[1{j required} / number required | at least one], `missing[k]` = P(k more outside the list)."""
    sets = subsets(probability.shape[1])
    p = probability[:, None, :]
    chance = np.where(sets, p, 1.0 - p).prod(axis=2)
    share = np.zeros(probability.shape)
    for outside, weight in enumerate(missing):
        share += weight * (chance / np.maximum(sets.sum(axis=1) + outside, 1)) @ sets
    share /= 1.0 - missing[0] * chance[:, :1]
    return share


def small_worlds(rng: np.random.Generator, m: int, n: int = 60) -> tuple[Floats, Floats]:
    """(n, m) probabilities and costs: spread out, and in a third of the worlds on a coarse grid that ties."""
    p, costs = rng.uniform(0.01, 0.99, (n, m)) ** rng.uniform(0.4, 4.0, (n, 1)), rng.uniform(0.05, 3.0, (n, m))
    grid = rng.random((n, 1)) < 1 / 3
    p = np.where(grid, rng.choice(np.array([0.05, 0.5, 0.9]), (n, m)), np.maximum(p, 0.001))
    return p, np.where(grid, rng.choice(np.array([0.5, 1.0]), (n, m)), costs)


MISSING = {"none": (1.0,), "some": (0.6, 0.3, 0.1), "never complete": (0.0, 0.5, 0.5)}

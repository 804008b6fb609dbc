"""Rankings of three tools with every required set, and random stops: what the theory and its bounds are tried on."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np

from camdf import LoggedTasks, Rankings
from camdf.core.rankings import Bools, Floats
from worlds import random_logged

CASES = 10_000


def random_stops(rng: np.random.Generator, shape: tuple[int, ...]) -> Bools:
    """Stop patterns from eager to never, one eagerness a task."""
    stop: Bools = rng.random(shape) < rng.random((shape[0], 1)) ** 2
    return stop


LISTED = 3
SETS = np.array([bits for bits in product([False, True], repeat=LISTED + 1) if any(bits)])
"""Every nonempty required set over the three listed tools and one that the list lacks: (15, 4)."""


@dataclass(frozen=True)
class Worlds:
    """Rankings of three tools whose required set is random, with a known law: the decision sees the ranking alone."""

    rankings: Rankings
    logged: LoggedTasks
    """Every ranking with every required set, (worlds * 15) rows."""
    chance: Floats
    """(worlds, 15): the probability of each required set."""

    def expected(self, outcomes: Floats | Bools) -> Floats:
        """The mean over required sets, given the ranking: (worlds * 15, k) to (worlds, k)."""
        mean: Floats = np.einsum("ng,ngk->nk", self.chance, outcomes.reshape(*self.chance.shape, -1))
        return mean


def every_required_set(rankings: Rankings, chance: Floats) -> Worlds:
    n = len(rankings)
    repeated, sets = rankings.take(np.repeat(np.arange(n), len(SETS))), np.tile(SETS, (n, 1))
    names = np.arange(len(sets)).astype(np.str_)
    logged = LoggedTasks(repeated, sets[:, :LISTED], sets.sum(axis=1), names, names)
    return Worlds(rankings, logged, chance)


def random_worlds(rng: np.random.Generator, n: int = CASES) -> Worlds:
    """Costs of every spread, and laws from almost certain to diffuse."""
    rankings = random_logged(rng, n, LISTED, shared=True).rankings
    mass = rng.exponential(size=(n, len(SETS))) ** rng.uniform(0.5, 4.0, (n, 1))
    return every_required_set(rankings, mass / mass.sum(axis=1, keepdims=True))

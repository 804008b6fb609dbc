"""Wrong labels put in on purpose: every listed tool's membership flipped with a known probability."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from camdf.core.rankings import LoggedTasks


def noisy(logged: LoggedTasks, probability: float, seed: int, split: int) -> LoggedTasks:
    """The labels that one split learns from: the same flips at every price and payoff."""
    if not probability:
        return logged
    return flipped(logged, probability, np.random.default_rng([seed, split, 1]))


def flipped(logged: LoggedTasks, probability: float, rng: np.random.Generator) -> LoggedTasks:
    """Label noise: every listed tool's membership in the required set is flipped independently."""
    flips = (rng.random(logged.required.shape) < probability) & logged.rankings.listed
    required = logged.required ^ flips
    return replace(logged, required=required, n_required=required.sum(axis=1) + logged.missing)

"""Probabilities and log odds: the few formulas that every model shares, each written once."""

from __future__ import annotations

import numpy as np

from camdf.core.rankings import Floats

CLIP = 1e-4
"""Scores and probabilities are kept this far from 0 and 1 before a logit is taken, unless a caller says otherwise."""


def logit(values: Floats, clip: float = CLIP) -> Floats:
    """log(p / (1 - p)), with p kept away from 0 and 1."""
    kept = np.minimum(np.maximum(values, clip), 1.0 - clip)
    result: Floats = np.log(kept / (1.0 - kept))
    return result


def sigmoid(z: Floats) -> Floats:
    """1 / (1 + exp(-z)), for any z."""
    result: Floats = 1.0 / (1.0 + np.exp(np.minimum(-z, 700.0)))
    return result


def smoothed_log_odds(yes: int, no: int) -> float:
    """log((yes + 1/2) / (no + 1/2)): finite where one of the two never occurred."""
    return float(np.log((yes + 0.5) / (no + 0.5)))


def unscaled(weights: Floats, intercept: float, mean: Floats, scale: Floats) -> tuple[Floats, float]:
    """Weights of standardized columns as those of the columns themselves: w / scale, b - sum of (w / scale) * mean."""
    raw: Floats = weights / scale
    return raw, float(intercept - (raw * mean).sum())

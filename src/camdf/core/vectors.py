"""Vectors of texts, compared by their direction alone."""

from __future__ import annotations

import numpy as np

from camdf.core.rankings import Floats


def at_length_one(vectors: Floats) -> Floats:
    """(n, d): every row divided by its length; a row of 0s stays one.

    >>> at_length_one(np.array([[3.0, 4.0], [0.0, 0.0]])).tolist()
    [[0.6, 0.8], [0.0, 0.0]]
    """
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit: Floats = vectors / np.where(lengths > 0, lengths, 1.0)
    return unit

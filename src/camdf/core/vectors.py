"""Vectors of texts, compared by their direction alone, and kept in a byte a number."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from camdf.core.rankings import Floats

Bytes: TypeAlias = npt.NDArray[np.int8]

WHOLE = 127
"""The largest of the whole numbers that vectors and their weights are kept in."""

LENGTH_ROUNDING = 1e-12


def at_length_one(vectors: Floats) -> Floats:
    """(n, d): every row divided by its length; a row of 0s stays one, and one of length 1 stays as it is to the bit.

    >>> at_length_one(np.array([[3.0, 4.0], [0.0, 0.0]])).tolist()
    [[0.6, 0.8], [0.0, 0.0]]
    """
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit: Floats = vectors / np.where((lengths == 0) | (np.abs(lengths - 1) < LENGTH_ROUNDING), 1.0, lengths)
    return unit


def in_whole_numbers(vectors: Floats) -> Bytes:
    """(n, d): directions in whole numbers, the largest of every row 127 but for its sign: enough to compare texts by.

    >>> in_whole_numbers(np.array([[0.6, -0.8], [0.0, 0.0]])).tolist()
    [[95, -127], [0, 0]]
    """
    largest = np.abs(vectors).max(axis=1, initial=0.0, keepdims=True)
    return np.rint(WHOLE * vectors / np.where(largest > 0, largest, 1.0)).astype(np.int8)


def from_bytes(vectors: Sequence[bytes]) -> Floats:
    """(n, d): directions that were kept a signed byte a number, at length 1."""
    return at_length_one(np.frombuffer(b"".join(vectors), np.int8).reshape(len(vectors), -1).astype(np.float64))

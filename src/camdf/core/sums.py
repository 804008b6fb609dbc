"""Sums that padding and batch size cannot change: added one after the other, never pairwise and never through BLAS."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
import numpy.typing as npt

from camdf.core.rankings import Floats

Number = TypeVar("Number", np.int64, np.float64)


def before_each(terms: npt.NDArray[Number]) -> npt.NDArray[Number]:
    """(n, m) to (n, m + 1): the sum of every prefix, the empty one included."""
    sums = np.zeros((terms.shape[0], terms.shape[1] + 1), dtype=terms.dtype)
    np.add.accumulate(terms, axis=1, out=sums[:, 1:])
    return sums


def over_columns(terms: Floats) -> Floats:
    """(d, n, m) to (n, m): the sum over d, in order.

    numpy adds a matrix row by row, but a lone column pairwise; the running sum adds that one in order too.
    """
    lone = terms.shape[1:] == (1, 1)
    total: Floats = np.add.accumulate(terms, axis=0)[-1] if lone else np.add.reduce(terms, axis=0)
    return total

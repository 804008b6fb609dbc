"""Who stands above whom: every span by its row, and walks up from all rows at once.

`up` holds, for each of n rows, the row of the span above: n where there is none, n + 1 where the span names one that is
not there. Both lead to themselves, so that a walk may go on for ever. Each step of a walk doubles how far it looks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from camdf.errors import require

if TYPE_CHECKING:
    import polars as pl
    from numpy.typing import NDArray


def rows_above(keys: pl.DataFrame) -> NDArray[np.int64]:
    """`up` for spans with a number of their `trace`, a `span_id` that is unique in it and a `parent_id`."""
    polars = require("polars", "mining")
    rows = keys.select("trace", parent_id="span_id").with_row_index("row")
    parents = keys.select("trace", "parent_id").join(rows, on=["trace", "parent_id"], how="left", maintain_order="left")
    top = polars.col("parent_id") == ""
    above = polars.when(top).then(len(keys)).otherwise(polars.col("row").cast(polars.Int64).fill_null(len(keys) + 1))
    ends = np.arange(len(keys), len(keys) + 2)
    return np.concatenate([parents.select(above.alias("above"))["above"].to_numpy(), ends])


def nearest(up: NDArray[np.int64], wanted: NDArray[np.bool_]) -> NDArray[np.int64]:
    """The nearest row at or above each row that is `wanted`; n where the way up ends without one, or never ends."""
    count = len(wanted)
    jump = up.copy()
    jump[:count][wanted] = np.flatnonzero(wanted)
    jump = _walked(jump)[:count]
    reached = np.append(wanted, [False, False])[jump]
    return np.where(reached, jump, count)


def leads_to_a_top(up: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Whether the way up ends at a span with none above it: at no missing one, and in no circle."""
    count = len(up) - 2
    return np.asarray(_walked(up)[:count] == count)


def any_above(up: NDArray[np.int64], marked: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Whether any row above each row is `marked`, not counting itself."""
    count = len(marked)
    jump = up
    is_below = np.append(marked, [False, False])[up]
    for _ in range(count.bit_length()):
        is_below |= is_below[jump]
        further = jump[jump]
        if np.array_equal(further, jump):
            break
        jump = further
    return is_below[:count]


def _walked(jump: NDArray[np.int64]) -> NDArray[np.int64]:
    """The row where each walk stands after as many steps as there are rows."""
    for _ in range(len(jump).bit_length()):
        further = jump[jump]
        if np.array_equal(further, jump):
            break
        jump = further
    return jump

"""Names as numbers: tasks of one group, template or customer share one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from camdf.core.rankings import Floats, Ints

Names = npt.NDArray[Any] | Sequence[str]


def numbered(names: Names) -> tuple[Ints, int]:
    """(n,): a number for every name, equal for equal names, in the order of the sorted names; and how many there are.

    >>> numbered(["b", "a", "b"])
    (array([1, 0, 1]), 2)
    """
    distinct, number = np.unique(np.asarray(names), return_inverse=True)
    return number, len(distinct)


def sizes_of(names: Names) -> Floats:
    """(n,): how often the name of each occurs.

    >>> sizes_of(["b", "a", "b"]).tolist()
    [2.0, 1.0, 2.0]
    """
    number, _ = numbered(names)
    return np.bincount(number)[number].astype(np.float64)


def numbered_as_seen(names: Names) -> Ints:
    """(n,): the same, counted by first appearance, so that a name for every task is the task's own number.

    The bootstrap draws by number: with one group a task it draws what it would draw without groups.
    """
    _, first, number = np.unique(np.asarray(names), return_index=True, return_inverse=True)
    rank: Ints = first.argsort().argsort()
    return rank[number]

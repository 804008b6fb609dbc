"""Train, validation and test: drawn at random, or so that no group is split between them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from camdf.core.groups import numbered
from camdf.core.rankings import Ints, LoggedTasks
from camdf.errors import UsageError


class Split(NamedTuple):
    """Row numbers of the training, validation and test tasks."""

    train: Ints
    validation: Ints
    test: Ints


def draw_splits(
    logged: LoggedTasks, count: int, seed: int, *, grouped: bool = False, shares: tuple[float, float] = (0.55, 0.20)
) -> Iterator[Split]:
    """`count` splits; `shares` go to training and validation, the rest to the test.

    The order in which units (tasks, or groups) come to the test is a shuffled round that starts anew when it is used
    up, and the others are shuffled behind it. So a round of ceil(units / tested) splits, which is four at these shares
    and at most as many as there are units, tests every task at least once, and fewer splits leave some untested. Each
    split has a generator of its own, so any split can be drawn without the ones before it.
    """
    if count < 1 or seed < 0:
        raise UsageError(f"There must be at least 1 split, with a seed of at least 0. Got {count} and {seed} instead.")
    labels = logged.groups if grouped else logged.task_ids
    unit, units = numbered(labels)
    train, validation = _units_that_train_and_validate(units, shares)
    tested = units - train - validation
    per_round = -(-units // tested)
    for number in range(count):
        turn, place = divmod(number, per_round)
        order = np.random.default_rng([seed, turn]).permutation(units)
        test = np.take(order, np.arange(place * tested, (place + 1) * tested), mode="wrap")
        others = np.random.default_rng([seed, turn, place]).permutation(np.setdiff1d(order, test))
        parts = (others[:train], others[train:], test)
        yield Split(*(np.flatnonzero(np.isin(unit, part)) for part in parts))


def _units_that_train_and_validate(units: int, shares: tuple[float, float]) -> tuple[int, int]:
    """How many units train and validate; at least one of each, and at least one is left to test."""
    if units < 3:
        raise UsageError(
            f"A split needs at least three tasks, or groups of tasks. Got {units}. Log more tasks; until then "
            "camdf.cold_start() decides without any."
        )
    validation = max(1, round(units * shares[1]))
    tested = max(1, round(units * (1 - sum(shares))))
    return max(1, units - validation - tested), validation

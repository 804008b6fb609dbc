"""Logged tasks gathered into typed columns, so that reading a large file takes little more memory than its table.

What comes out is what `LoggedTasks.from_records` makes, to the bit: lists ordered by score and then by name, and the
catalogue in the order in which these lists name its tools.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from camdf.core.rankings import Bools, Floats, Ints, LoggedTasks, Rankings
from camdf.core.vectors import at_length_one


class Candidates(NamedTuple):
    """The candidates of all tasks one after another, task by task; `tool` points into a list of names."""

    tool: Ints
    score: Floats
    required: Bools
    cost: Floats | None


class Gathered:
    """Tasks so far, whose fields have been checked, with their candidates in the order of the file."""

    def __init__(self) -> None:
        self.task_ids: list[str] = []
        self.groups: list[str] = []
        self.lengths = array("q")
        self.n_required = array("q")
        self.tool = array("q")
        self.score = array("d")
        self.required = array("b")
        self.cost = array("d")
        self.vectors = array("d")
        self.users: list[str] = []
        self.dimensions = 0
        self.number: dict[str, int] = {}
        """Every tool that is a candidate somewhere, by name."""

    def add(
        self,
        task_id: str,
        group: str,
        scores: Mapping[str, float],
        required: Collection[str],
        n_required: int,
        costs: Mapping[str, float] | None,
        vector: Sequence[float] = (),
        user: str = "",
    ) -> None:
        """One more task."""
        number = self.number
        wanted = frozenset(required)
        for name in scores.keys() - number.keys():
            number[name] = len(number)
        self.task_ids.append(task_id)
        self.groups.append(group)
        self.lengths.append(len(scores))
        self.n_required.append(n_required)
        self.tool.extend(map(number.__getitem__, scores))
        self.score.extend(scores.values())
        self.required.extend(map(wanted.__contains__, scores))
        if costs is not None:
            self.cost.extend(map(costs.__getitem__, scores))
        self.vectors.extend(vector)
        self.dimensions = len(vector)
        self.users.append(user)

    def logged(self, *, priced: bool, keep_order: bool) -> LoggedTasks:
        """All of them as one table; every tool costs 1 unless they are `priced`."""
        cost = np.asarray(self.cost) if priced else None
        required = np.asarray(self.required).view(np.bool_)
        candidates = Candidates(np.asarray(self.tool), np.asarray(self.score), required, cost)
        logged = as_logged(
            tuple(self.number),
            np.asarray(self.lengths),
            np.asarray(self.n_required),
            candidates,
            self.task_ids,
            self.groups,
            keep_order=keep_order,
        )
        rankings = logged.rankings
        if self.dimensions:
            vectors = at_length_one(np.asarray(self.vectors).reshape(-1, self.dimensions))
            rankings = replace(rankings, vectors=vectors)
        if any(self.users):
            rankings = replace(rankings, users=np.array(self.users, dtype=np.str_))
        return replace(logged, rankings=rankings)


def as_logged(
    names: tuple[str, ...],
    lengths: Ints,
    n_required: Ints,
    candidates: Candidates,
    task_ids: list[str],
    groups: list[str],
    *,
    keep_order: bool,
) -> LoggedTasks:
    """The table of these tasks; `keep_order` takes the order of their candidates as the ranking."""
    listed: Bools = np.arange(int(lengths.max(initial=0))) < lengths[:, None]

    def padded(values: Any, empty: float, kind: npt.DTypeLike) -> npt.NDArray[Any]:
        table = np.full(listed.shape, empty, dtype=kind)
        table[listed] = values
        return table

    prices = 1.0 if candidates.cost is None else candidates.cost
    tool = padded(candidates.tool, -1, np.int64)
    score = padded(candidates.score, 0.0, np.float64)
    required = padded(candidates.required, False, np.bool_)
    cost = padded(prices, 0.0, np.float64)
    if not keep_order:
        by_name = np.argsort(np.array(sorted(range(len(names)), key=names.__getitem__), dtype=np.int64))
        ranks = np.append(by_name, len(names))[tool]
        order = np.lexsort((ranks, np.where(listed, -score, np.inf)), axis=1)
        tool, score, required, cost = (np.take_along_axis(table, order, 1) for table in (tool, score, required, cost))
    present, first = np.unique(tool[listed], return_index=True)
    present = present[np.argsort(first)]
    renumbered = np.full(len(names) + 1, -1, dtype=np.int64)
    renumbered[present] = np.arange(len(present))
    rankings = Rankings(score, cost, lengths, renumbered[tool], tuple(names[i] for i in present.tolist()))
    return LoggedTasks(
        rankings, required, n_required, np.array(task_ids, dtype=np.str_), np.array(groups, dtype=np.str_)
    )

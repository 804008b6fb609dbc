"""Mined or logged tasks as flat arrays, so that a question about millions of tasks is a few passes over numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from camdf.core.groups import numbered
from camdf.core.rankings import Bools, Floats, Ints, LoggedTasks
from camdf.datasets.files import File, read
from camdf.datasets.tool_names import renamed
from camdf.errors import require
from camdf.examples.labels import text_group
from camdf.policies.renames import Renames, check_renames
from camdf_traces.logged import holds_mined_tasks, logged_tasks, mined_table

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, eq=False)
class ToolLists:
    """A list of tools for each task, end to end: numbers into a catalogue, and the length of each task's list."""

    tools: Ints
    lengths: Ints

    @cached_property
    def task(self) -> Ints:
        """The task of each entry."""
        return np.repeat(np.arange(len(self.lengths)), self.lengths)

    @cached_property
    def place(self) -> Ints:
        """The place of each entry in its own list; the first is 1."""
        starts = np.cumsum(self.lengths) - self.lengths
        return np.arange(1, len(self.tools) + 1) - np.repeat(starts, self.lengths)

    @property
    def filled(self) -> Bools:
        """(n,): whether the task's list has entries."""
        filled: Bools = self.lengths > 0
        return filled


@dataclass(frozen=True, eq=False)
class TaskLists:
    """The tools that each task ranked, was offered and called. A part is None where nobody recorded it."""

    catalogue: tuple[str, ...]
    ranked: ToolLists
    scores: Floats
    """The scores of `ranked.tools`."""

    called: ToolLists
    n_required: Ints
    groups: Sequence[str]
    logged: Callable[[Ints], LoggedTasks]
    """Some of the tasks to learn from, by number; each must have a ranking."""

    offered: ToolLists | None = None
    explored: Bools | None = None
    time: Ints | None = None
    """Nanoseconds since 1970; 0 for a task without a time."""

    repeats: Ints | None = None
    """Runs of the same task share a number; -1 where the task is not known."""

    repeats_by: str = "text"
    inferred: ToolLists | None = None
    """Those of the called tools that only a request shows."""

    services: Sequence[str] = ()
    """The service of each task, "" where it names none; nothing where none does."""

    def __len__(self) -> int:
        return len(self.n_required)

    @classmethod
    def from_table(cls, table: pa.Table) -> TaskLists:
        """From mined tasks (camdf_traces.tasks); only the columns `ranked`, `scores` and `called` must be there."""
        compute = require("pyarrow.compute", "mining")
        lists, catalogue = _tool_lists(table)
        group_column = _recorded(table, "group")
        groups = [str(row) for row in range(len(table))] if group_column is None else group_column.to_pylist()

        def logged(rows: Ints) -> LoggedTasks:
            polars = require("polars", "mining")
            some = polars.from_arrow(table.select(["ranked", "scores", "called"]).take(rows))
            names = {"task_id": rows.astype(str), "group": [groups[row] for row in rows.tolist()]}
            return logged_tasks(some.with_columns(polars.Series(name, values) for name, values in names.items()))

        offered = lists.get("offered")
        if offered is not None and not offered.filled.any():
            offered = None
        services = _recorded(table, "service")
        return cls(
            catalogue,
            lists["ranked"],
            compute.list_flatten(table["scores"]).to_numpy().astype(np.float64),
            lists["called"],
            lists["called"].lengths,
            groups,
            logged,
            offered,
            explored=_recorded_array(table, "explored", np.bool_),
            time=_recorded_array(table, "time", np.int64),
            repeats=_repeats(_recorded(table, "text"), groups),
            inferred=lists.get("inferred"),
            services=() if services is None else services.fill_null("").to_pylist(),
        )

    @classmethod
    def from_logged(cls, logged: LoggedTasks) -> TaskLists:
        """From logged tasks, which record neither offers nor exploration nor time; near-copies share a group."""
        r = logged.rankings
        ranked, called = (ToolLists(r.tool_ids[marked], marked.sum(axis=1)) for marked in (r.listed, logged.required))
        number, _ = numbered(logged.groups)
        alone = np.bincount(number)[number] == 1
        return cls(
            r.catalogue,
            ranked,
            r.scores[r.listed],
            called,
            logged.n_required,
            logged.groups.tolist(),
            logged.take,
            repeats=None if alone.all() else np.where(alone, -1, number),
            repeats_by="group",
        )

    def renamed(self, renames: Renames) -> TaskLists:
        """The same tasks with each tool under its new name, where `renames` has one for it."""
        if not renames:
            return self
        check_renames(renames)
        new_names = [renames.get(name, name) for name in self.catalogue]
        number = {name: place for place, name in enumerate(dict.fromkeys(new_names))}
        places = np.array([number[name] for name in new_names], dtype=np.int64)

        def under_new_names(lists: ToolLists) -> ToolLists:
            return replace(lists, tools=places[lists.tools])

        return replace(
            self,
            catalogue=tuple(number),
            ranked=under_new_names(self.ranked),
            called=under_new_names(self.called),
            offered=self.offered and under_new_names(self.offered),
            inferred=self.inferred and under_new_names(self.inferred),
            logged=lambda rows: renamed(self.logged(rows), renames),
        )

    def codes(self, lists: ToolLists) -> Ints:
        """One number for each task and tool of some lists, so that membership is a comparison of numbers."""
        codes: Ints = lists.task * len(self.catalogue) + lists.tools
        return codes

    @cached_property
    def required(self) -> Bools:
        """For each ranked candidate, whether it was called."""
        return within(self.codes(self.ranked), self.codes(self.called))

    @cached_property
    def cut(self) -> Bools:
        """For each ranked candidate, whether the run was not offered it. Runs that recorded no offer lost nothing."""
        if self.offered is None:
            return np.zeros(len(self.scores), dtype=bool)
        seen = within(self.codes(self.ranked), self.codes(self.offered))
        return ~seen & self.offered.filled[self.ranked.task]

    @cached_property
    def lacked(self) -> Bools:
        """(n,): whether one of the task's ranked candidates was cut."""
        lacked = np.zeros(len(self), dtype=bool)
        lacked[self.ranked.task[self.cut]] = True
        return lacked


def within(codes: Ints, others: Ints) -> Bools:
    """Which codes are among the others. Both come nearly sorted, by task, so this is faster than np.isin."""
    if not len(others):
        return np.zeros(len(codes), dtype=bool)
    known = np.sort(others, kind="stable")
    is_known: Bools = known[np.minimum(np.searchsorted(known, codes), len(known) - 1)] == codes
    return is_known


def read_tasks(path: File) -> TaskLists:
    """A table that `camdf mine` wrote, or logged tasks of one's own (camdf.datasets.files)."""
    if holds_mined_tasks(path):
        return TaskLists.from_table(mined_table(path))
    return TaskLists.from_logged(read(path))


def _tool_lists(table: pa.Table) -> tuple[dict[str, ToolLists], tuple[str, ...]]:
    """The columns of tools that a table has, over one catalogue."""
    arrow = require("pyarrow", "mining")
    compute = require("pyarrow.compute", "mining")
    present = [name for name in ("ranked", "called", "offered", "inferred") if name in table.column_names]
    parts = [compute.list_flatten(table[name]).cast(arrow.string()) for name in present]
    coded = arrow.chunked_array([chunk for part in parts for chunk in part.chunks], type=arrow.string())
    coded = coded.combine_chunks().dictionary_encode()
    numbers = coded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    ends = np.cumsum([len(part) for part in parts])
    lists = {
        name: ToolLists(some, compute.list_value_length(table[name]).fill_null(0).to_numpy().astype(np.int64))
        for name, some in zip(present, np.split(numbers, ends[:-1]), strict=True)
    }
    return lists, tuple(coded.dictionary.to_pylist())


def _recorded(table: pa.Table, name: str) -> Any:
    """A column of a table; None where it is missing or all null."""
    if name not in table.column_names or table[name].null_count == len(table):
        return None
    return table[name]


def _recorded_array(table: pa.Table, name: str, kind: type[np.generic]) -> Any:
    """A column of a table as numbers, false or 0 where it is null; None where it is missing or all null."""
    column = _recorded(table, name)
    if column is None:
        return None
    return column.fill_null(kind(0)).to_numpy().astype(kind)


def _repeats(texts: Any, groups: list[str]) -> Ints | None:
    """`TaskLists.repeats` by the column of texts; by their digest where only that was kept, as the group."""
    digests = [""] * len(groups)
    if texts is not None:
        written = texts.to_pylist()
        known = {text: text_group(text) for text in set(written) if text}
        digests = [known.get(text, "") for text in written]
    kept = [group if group.startswith("text-") else "" for group in groups]
    same = [digest or group for digest, group in zip(digests, kept, strict=True)]
    if not any(same):
        return None
    return np.where(np.array(same) == "", -1, numbered(same)[0])

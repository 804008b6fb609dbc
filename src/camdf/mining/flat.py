"""Mined or logged tasks as flat arrays, so that a question about millions of tasks is a few passes over numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from camdf.core.rankings import Bools, Floats, Ints, LoggedTasks
from camdf.datasets.own import File, is_mined, parquet_parts, read
from camdf.mining.tasks import text_group
from camdf.policies.linear import MissingExtraError

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, eq=False)
class Lists:
    """A list of tools for each task, end to end: numbers into a catalogue, and how many each task has."""

    tools: Ints
    lengths: Ints

    @cached_property
    def task(self) -> Ints:
        """The task of each entry."""
        return np.repeat(np.arange(len(self.lengths)), self.lengths)

    @cached_property
    def place(self) -> Ints:
        """The place of each entry in its own list; the first is 1."""
        return np.arange(1, len(self.tools) + 1) - np.repeat(self.starts, self.lengths)

    @cached_property
    def starts(self) -> Ints:
        """(n,): where each list starts."""
        starts: Ints = np.cumsum(self.lengths) - self.lengths
        return starts

    def entries(self, task: int) -> slice:
        """Where one task's list stands."""
        return slice(self.starts[task], self.starts[task] + self.lengths[task])

    @property
    def filled(self) -> Bools:
        """(n,): whether the task has any."""
        filled: Bools = self.lengths > 0
        return filled


@dataclass(frozen=True, eq=False)
class FlatTasks:
    """What became of each task. A part is None where nobody recorded it."""

    catalogue: tuple[str, ...]
    ranked: Lists
    scores: Floats
    """Beside `ranked.tools`."""

    called: Lists
    n_required: Ints
    groups: Sequence[str]
    offered: Lists | None = None
    explored: Bools | None = None
    time: Ints | None = None
    """Nanoseconds since 1970; tasks without one are 0."""

    repeats: Ints | None = None
    """Runs of the same task share a number; -1 where nothing says which task it was."""

    repeats_by: str = "text"

    def __len__(self) -> int:
        return len(self.n_required)

    @classmethod
    def from_table(cls, table: pa.Table) -> FlatTasks:
        """From the mined table (camdf.mining.tasks); columns other than `ranked`, `scores` and `called` may lack."""
        arrow, compute = _pyarrow()
        present = [name for name in ("ranked", "called", "offered") if name in table.column_names]
        parts = [compute.list_flatten(table[name]).cast(arrow.string()) for name in present]
        coded = arrow.chunked_array([chunk for part in parts for chunk in part.chunks], type=arrow.string())
        coded = coded.combine_chunks().dictionary_encode()
        numbers = coded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        ends = np.cumsum([len(part) for part in parts])
        lists = {
            name: Lists(some, compute.list_value_length(table[name]).fill_null(0).to_numpy().astype(np.int64))
            for name, some in zip(present, np.split(numbers, ends[:-1]), strict=True)
        }

        def column(name: str) -> Any:
            found = table[name] if name in table.column_names else None
            return None if found is None or found.null_count == len(found) else found

        explored, time, texts, groups = (column(name) for name in ("explored", "time", "text", "group"))
        group_names = [str(row) for row in range(len(table))] if groups is None else groups.to_pylist()
        same = [""] * len(table) if texts is None else _digests(texts.to_pylist())
        same = [
            digest or (group if group.startswith("text-") else "")
            for digest, group in zip(same, group_names, strict=True)
        ]
        offered = lists.get("offered")
        return cls(
            tuple(coded.dictionary.to_pylist()),
            lists["ranked"],
            compute.list_flatten(table["scores"]).to_numpy().astype(np.float64),
            lists["called"],
            lists["called"].lengths,
            group_names,
            offered if offered is not None and offered.filled.any() else None,
            None if explored is None else explored.fill_null(False).to_numpy().astype(bool),
            None if time is None else time.fill_null(0).to_numpy().astype(np.int64),
            _numbered(same) if any(same) else None,
        )

    @classmethod
    def from_logged(cls, logged: LoggedTasks) -> FlatTasks:
        """From logged tasks, which do not say what was offered, explored or when; near-copies share a group."""
        r = logged.rankings
        lists = [Lists(r.tool_ids[marked], marked.sum(axis=1)) for marked in (r.listed, logged.required)]
        _, number, size = np.unique(logged.groups, return_inverse=True, return_counts=True)
        alone = size[number] == 1
        return cls(
            r.catalogue,
            lists[0],
            r.scores[r.listed],
            lists[1],
            logged.n_required,
            logged.groups.tolist(),
            repeats=None if alone.all() else np.where(alone, -1, number),
            repeats_by="group",
        )

    def logged(self, rows: Ints) -> LoggedTasks:
        """Some of the tasks to learn from, each tool at a cost of 1; they must have a ranking."""
        found = []
        for row in rows.tolist():
            listed = self.ranked.entries(row)
            names = [self.catalogue[tool] for tool in self.ranked.tools[listed]]
            found.append(
                {
                    "task_id": row,
                    "group": self.groups[row],
                    "scores": dict(zip(names, self.scores[listed].tolist(), strict=True)),
                    "required": [self.catalogue[tool] for tool in self.called.tools[self.called.entries(row)]],
                }
            )
        return LoggedTasks.from_records(found)

    def codes(self, lists: Lists) -> Ints:
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
        """(n,): whether a ranked candidate was cut."""
        lacked = np.zeros(len(self), dtype=bool)
        lacked[self.ranked.task[self.cut]] = True
        return lacked


def within(codes: Ints, others: Ints) -> Bools:
    """Which codes are among the others. Both come nearly sorted, by task, which makes this several times np.isin."""
    if not len(others):
        return np.zeros(len(codes), dtype=bool)
    known = np.sort(others, kind="stable")
    found: Bools = known[np.minimum(np.searchsorted(known, codes), len(known) - 1)] == codes
    return found


def read_tasks(path: File) -> FlatTasks:
    """What `camdf mine` wrote, or logged tasks of one's own (camdf.datasets.own): .parquet or .jsonl."""
    if Path(path).suffix == ".parquet":
        pyarrow, _ = _pyarrow()
        if is_mined(path):
            read_table = import_module("pyarrow.parquet").read_table
            return FlatTasks.from_table(pyarrow.concat_tables(map(read_table, parquet_parts(path))).combine_chunks())
    return FlatTasks.from_logged(read(path))


def _digests(texts: list[str | None]) -> list[str]:
    known = {text: text_group(text) for text in set(texts) if text}
    return [known.get(text, "") if text else "" for text in texts]


def _numbered(names: list[str]) -> Ints:
    """A number for each name; -1 for ""."""
    _, number = np.unique(np.array(names, dtype=np.str_), return_inverse=True)
    return np.where(np.array([name == "" for name in names]), -1, number)


def _pyarrow() -> tuple[Any, Any]:
    try:
        return import_module("pyarrow"), import_module("pyarrow.compute")
    except ImportError as error:
        raise MissingExtraError("Parquet needs pyarrow. Install it with: pip install 'camdf[mining]'") from error

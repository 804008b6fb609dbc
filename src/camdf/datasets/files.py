"""Logged tasks of your own: JSON Lines, Parquet or CSV in, checked to the line and field, and out again to the bit.

One record a task:

    task_id      a string, different for every task
    scores       tool -> score, finite and not negative: these tools are the candidates
    required     the tools that the task turned out to need; one that has no score was missing from the list
    n_required   optional: how many tools were needed in all, where some have no name; else the length of `required`
    costs        optional: tool -> price above 0, for every candidate of this task; every tool costs 1 without it.
                 Prices may differ from task to task. Give them in every record or in none
    group        optional: near-copies share one, and no split parts them; else every task is its own
    vector       optional: the task's text as numbers, whose direction counts, equally many in every record. The default
                 learns from it which tools such tasks need. Give it in every record or in none

In JSON Lines `scores` and `costs` are objects. In Parquet every field is a column of that name, and those two are lists
of structs, (tool, score) and (tool, cost); null stands for an optional field left out. In CSV the cells hold JSON, but
for `task_id` and `group`. Parquet and CSV may have one row a candidate: `camdf.datasets.rows`.

Other fields are left out, and a warning counts them in one line. One that looks like a misspelling of an optional field
that is not there is refused, because it would change the result without a word.

Tables of mined tasks have other columns: `camdf.examples.mined.read_logged` reads those.
"""

from __future__ import annotations

import csv
import json
import logging
import os
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from io import TextIOWrapper
from itertools import chain, starmap
from math import inf
from operator import itemgetter
from pathlib import Path
from typing import Any, TypeAlias

from camdf.core.rankings import LoggedTasks
from camdf.datasets import parquet, rows
from camdf.datasets.gather import Gathered
from camdf.datasets.records import (
    FOR_COSTS,
    FOR_SCORES,
    NUMBERS,
    dict_or_pairs,
    fields,
    ignored_fields,
    json_object,
    list_of_names,
    misspelt,
    numbers,
    refuse,
    text,
    whole,
)
from camdf.errors import DataError, require
from camdf.runtime.files import whole_file
from camdf.runtime.progress import Progress, in_megabytes, silent

REQUIRED = ("task_id", "scores", "required")
OPTIONAL = ("n_required", "costs", "group", "vector", "user")
ALL_OR_NONE = ("costs", "vector")
"""Fields that are in every record or in none."""

REPORTED = 4096
"""Rows of CSV between two reports."""

File: TypeAlias = str | os.PathLike[str]


def read(path: File, *, keep_order: bool = False, progress: Progress = silent) -> LoggedTasks:
    """Logged tasks from a .jsonl, .parquet or .csv file. `keep_order` is that of `LoggedTasks.from_records`.

    `progress` is called with the megabytes that were read, and those of the file.
    """
    suffix = Path(path).suffix
    readers = {".jsonl": read_jsonl, ".parquet": read_parquet, ".csv": read_csv}
    if suffix not in readers:
        raise DataError(
            f"{path}: must end in .jsonl, .parquet or .csv. Rename it, or call read_jsonl, read_parquet or read_csv."
        )
    return readers[suffix](path, keep_order=keep_order, progress=progress)


def read_jsonl(path: File, *, keep_order: bool = False, progress: Progress = silent) -> LoggedTasks:
    """Logged tasks from JSON Lines, one record a line as this module describes them."""
    tasks = _Tasks(Path(path), "line")
    with Path(path).open("rb") as file:
        report = in_megabytes(os.fstat(file.fileno()).st_size, progress)
        done = 0
        for number, line in enumerate(file, start=1):
            if line.strip():
                tasks.add_line(number, line)
            done += len(line)
            report(done)
    return tasks.logged(keep_order)


def read_parquet(path: File, *, keep_order: bool = False, progress: Progress = silent) -> LoggedTasks:
    """Logged tasks from one Parquet file, or from a folder of them in the order of their names. Needs pyarrow."""
    columns = parquet.columns_of(path)
    place = Path(path)
    if {"ranked", "called"} <= set(columns):
        raise DataError(
            f"{path}: is a table of mined tasks, as `camdf mine` writes it. "
            "Read it with camdf.examples.mined.read_logged."
        )
    if rows.is_rows(columns):
        known, others = _columns_to_read(place, columns, rows.NEEDED, rows.OPTIONAL_COLUMNS)
        batches = parquet.batches(place, known, progress)
        candidates = chain.from_iterable(_rows_of_batch(batch, known) for batch in batches)
        return _tasks_of_candidates(place, known, others, candidates, keep_order)
    known, others = _columns_to_read(place, columns, REQUIRED, OPTIONAL)
    tasks = _Tasks(place, "row", others)
    for batch in parquet.batches(place, known, progress):
        for record in parquet.records(place, batch, len(tasks) + 1, OPTIONAL):
            tasks.add(len(tasks) + 1, record)
    return tasks.logged(keep_order)


def read_csv(path: File, *, keep_order: bool = False, progress: Progress = silent) -> LoggedTasks:
    """Logged tasks from CSV in UTF-8 with a head: one row a candidate, or one row a task with JSON in its cells."""
    place = Path(path)
    lines = _csv_rows(place, progress)
    head = next(lines, [])
    if rows.is_rows(head):
        known, others = _columns_to_read(place, head, rows.NEEDED, rows.OPTIONAL_COLUMNS)
        candidates = map(itemgetter(*map(head.index, known)), lines)
        return _tasks_of_candidates(place, known, others, candidates, keep_order)
    if not set(REQUIRED) <= set(head):
        raise DataError(
            f"{path}: must have a head with the columns {', '.join(rows.NEEDED)}, one row a candidate, or "
            f"{', '.join(REQUIRED)}, one row a task. Got {', '.join(head)[:200] or 'nothing'} instead. Rename them."
        )
    known, others = _columns_to_read(place, head, REQUIRED, OPTIONAL)
    tasks = _Tasks(place, "row", others)
    for number, row in enumerate(lines, start=1):
        cells = {name: cell for name, cell in zip(head, row, strict=True) if name in known}
        tasks.add(number, {name: _value_of_cell(place, number, name, cell) for name, cell in cells.items() if cell})
    return tasks.logged(keep_order)


def write_jsonl(logged: LoggedTasks, path: File) -> None:
    """Write logged tasks as JSON Lines; `read_jsonl(path, keep_order=True)` gives every number back to the bit.

    A new file is its owner's alone.
    """
    with whole_file(path, private=True) as new, open(new, "w", encoding="utf-8", newline="\n") as file:
        for record in _records_of_tasks(logged):
            file.write(json.dumps(record, ensure_ascii=False, allow_nan=False) + "\n")


def write_parquet(logged: LoggedTasks, path: File) -> None:
    """Write logged tasks as Parquet; `read_parquet(path, keep_order=True)` gives every number back to the bit.

    A new file is its owner's alone.
    """
    pyarrow = require("pyarrow", "mining")
    writer = require("pyarrow.parquet", "mining")

    def per_tool(value: str) -> Any:
        return pyarrow.list_(pyarrow.struct([("tool", pyarrow.string()), (value, pyarrow.float64())]))

    columns = [
        ("task_id", pyarrow.string()),
        ("scores", per_tool("score")),
        ("required", pyarrow.list_(pyarrow.string())),
        ("n_required", pyarrow.int64()),
        ("costs", per_tool("cost")),
        ("group", pyarrow.string()),
    ]
    if logged.rankings.vectors is not None:
        columns.append(("vector", pyarrow.list_(pyarrow.float64())))
    if logged.rankings.users is not None:
        columns.append(("user", pyarrow.string()))
    rows = list(map(_with_lists_of_structs, _records_of_tasks(logged)))
    with whole_file(path, private=True) as new:
        writer.write_table(pyarrow.Table.from_pylist(rows, schema=pyarrow.schema(columns)), new)


def _with_lists_of_structs(record: dict[str, Any]) -> dict[str, Any]:
    """A record as a row of Parquet has it."""
    return {
        **record,
        "scores": [{"tool": tool, "score": score} for tool, score in record["scores"].items()],
        "costs": [{"tool": tool, "cost": cost} for tool, cost in record["costs"].items()],
    }


def _records_of_tasks(logged: LoggedTasks) -> Iterator[dict[str, Any]]:
    rankings = logged.rankings
    for row, length in enumerate(rankings.lengths.tolist()):
        tools = rankings.names(row)
        record: dict[str, Any] = {
            "task_id": str(logged.task_ids[row]),
            "scores": dict(zip(tools, rankings.scores[row, :length].tolist(), strict=True)),
            "required": [tool for tool, needed in zip(tools, logged.required[row, :length], strict=True) if needed],
            "costs": dict(zip(tools, rankings.costs[row, :length].tolist(), strict=True)),
            "group": str(logged.groups[row]),
        }
        if logged.n_required[row] > len(record["required"]):
            record["n_required"] = int(logged.n_required[row])
        if rankings.vectors is not None:
            record["vector"] = rankings.vectors[row].tolist()
        if rankings.users is not None:
            record["user"] = str(rankings.users[row])
        yield record


class _Tasks:
    """The records of a file, checked one by one and kept as columns."""

    def __init__(self, path: Path, unit: str, others: Iterable[str] = ()) -> None:
        self.path = path
        self.unit = unit
        self.others = others
        self.gathered = Gathered()
        self.number: dict[str, int] = {}
        self.first: dict[str, Any] | None = None
        self.ignored: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self.number)

    def add_line(self, number: int, line: bytes) -> None:
        """The record in a line of JSON Lines."""
        self.add(number, json_object(self._where(number), line))

    def add(self, number: int, record: dict[str, Any]) -> None:
        """A record, which is checked field by field."""
        where = self._where(number)
        given = fields(where, record, REQUIRED, OPTIONAL, self.ignored)
        self._gather(number, _with_fields_checked(where, given, self.gathered.number))

    def _gather(self, number: int, record: dict[str, Any]) -> None:
        task_id = record["task_id"]
        if task_id in self.number:
            remedy = f"It stands in {self._where(self.number[task_id])} too; rename or remove one."
            refuse(self._where(number), "task_id", "be different for every task", task_id, remedy)
        first = self.first or record
        self.first = first
        for name in ALL_OR_NONE:
            if (name in first) != (name in record):
                raise DataError(
                    f"{self._where(number)}, field {name!r}: must be in every record or in none, and only some have "
                    "it. Add it where it is missing, or remove it."
                )
        vector = record.get("vector", ())
        if len(vector) != self.gathered.dimensions and first is not record:
            many = f"have {self.gathered.dimensions} numbers, as those before it"
            refuse(self._where(number), "vector", many, vector, "Make all vectors with one model.")
        self.number[task_id] = number
        required = record["required"]
        count = record.get("n_required", len(required))
        group = record.get("group", task_id)
        user = record.get("user", "")
        self.gathered.add(task_id, group, record["scores"], required, count, record.get("costs"), vector, user)

    def logged(self, keep_order: bool) -> LoggedTasks:
        """All of them as one table."""
        if not self.number:
            raise DataError(f"{self.path}: must hold at least one task, and is empty. Write one record a task.")
        _warn_of_ignored(self.ignored + Counter(dict.fromkeys(self.others, len(self))), "records")
        assert self.first is not None
        return self.gathered.logged(priced="costs" in self.first, keep_order=keep_order)

    def _where(self, number: int) -> str:
        return f"{self.path}, {self.unit} {number}"


def _rows_of_batch(batch: Any, columns: list[str]) -> Iterator[tuple[Any, ...]]:
    return zip(*(batch.column(name).to_pylist() for name in columns), strict=True)


def _is_vector(value: object) -> bool:
    """A list of finite numbers, and no larger ones than a square can be taken of."""
    if type(value) is not list or not value or not NUMBERS.issuperset(map(type, value)):
        return False
    return min(value) > -1e150 and max(value) < 1e150 and sum(value) < inf


def _warn_of_ignored(ignored: Counter[str], unit: str) -> None:
    if ignored:
        logging.getLogger("camdf.datasets").warning("%s", ignored_fields(ignored, unit))


def _with_fields_checked(where: str, given: dict[str, Any], known: Collection[str]) -> dict[str, Any]:
    """The record with every field checked, and `n_required` filled in. Names that are `known` were checked before."""
    scores = numbers(where, "scores", given["scores"], positive=False, remedy=FOR_SCORES, known=known)
    required = list_of_names(where, "required", given["required"])
    record = {
        "task_id": text(where, "task_id", given["task_id"]),
        "scores": scores,
        "required": required,
        "n_required": len(required),
    }
    if "n_required" in given:
        n_required = whole(where, "n_required", given["n_required"])
        record["n_required"] = n_required
        if n_required < len(required):
            least = f"be at least {len(required)}, the number of names in 'required'"
            refuse(where, "n_required", least, n_required, "Raise it, or leave it out.")
    if "costs" in given:
        prices = numbers(where, "costs", given["costs"], positive=True, remedy=FOR_COSTS, known=known)
        record["costs"] = prices
        unpriced = [tool for tool in scores if tool not in prices]
        if unpriced:
            refuse(where, "costs", f"price every candidate, {unpriced[0]!r} too", list(prices), "Add its price.")
    if "group" in given:
        record["group"] = text(where, "group", given["group"])
    if given.get("user"):
        record["user"] = text(where, "user", given["user"])
    if "vector" in given:
        record["vector"] = given["vector"]
        if not _is_vector(given["vector"]):
            remedy = "Write what an embedding model gives for the task's text."
            refuse(where, "vector", "be a list of finite numbers", given["vector"], remedy)
    return record


def _columns_to_read(
    path: Path, columns: Iterable[str], needed: tuple[str, ...], optional: tuple[str, ...]
) -> tuple[list[str], list[str]]:
    """The columns to read, and those to leave out; one that looks misspelt is refused."""
    there = list(columns)
    known = (*needed, *optional)
    absent = tuple(name for name in known if name not in there)
    others = [name for name in there if name not in known]
    for name in there:
        if there.count(name) > 1 or (name in others and misspelt(name, absent)):
            refuse(str(path), name, f"be one of {', '.join(known)}, once", name, "Rename or remove it.")
    return [name for name in known if name in there], others


def _tasks_of_candidates(
    path: Path, known: list[str], others: list[str], candidates: Iterable[tuple[Any, ...]], keep_order: bool
) -> LoggedTasks:
    """One row a candidate, whose values come in the order of `known`."""
    if "group" in known and "cost" not in known:
        candidates = ((*row[:-1], None, row[-1]) for row in candidates)
    logged = rows.read_rows(path, starmap(rows.Row, candidates), priced="cost" in known, keep_order=keep_order)
    _warn_of_ignored(Counter(dict.fromkeys(others, len(logged))), "tasks")
    return logged


def _csv_rows(path: Path, progress: Progress) -> Iterator[list[str]]:
    """The head, if there is one, and then every row that is not blank, as wide as the head."""
    with path.open("rb") as raw, TextIOWrapper(raw, encoding="utf-8-sig", newline="") as file:
        report = in_megabytes(os.fstat(raw.fileno()).st_size, progress)
        width = 0
        reader = csv.reader(file)
        try:
            for number, row in enumerate(filter(None, reader)):
                width = width or len(row)
                if len(row) != width:
                    raise DataError(
                        f"{path}, row {number}: must have {width} cells, as the head has. Got {len(row)} instead. "
                        "Put cells that hold commas between quotes."
                    )
                yield row
                if number % REPORTED == 0:
                    report(raw.tell())
            report(raw.tell())
        except (UnicodeDecodeError, csv.Error) as error:
            raise DataError(f"{path}, line {reader.line_num + 1}: must be CSV in UTF-8. {error}. Mend it.") from None


def _value_of_cell(path: Path, number: int, field: str, cell: str) -> Any:
    if field in ("task_id", "group", "user"):
        return cell
    try:
        return json.loads(cell, object_pairs_hook=dict_or_pairs)
    except (ValueError, RecursionError):
        refuse(f"{path}, row {number}", field, "hold JSON", cell, 'Write {"tool": 0.5}, or ["tool"].')

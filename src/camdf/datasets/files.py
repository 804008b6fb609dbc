"""Logged tasks of your own: JSON Lines or Parquet in, checked to the line and field, and out again to the bit.

One record a task:

    task_id      a string, different for every task
    scores       tool -> score, finite and not negative: these tools are the candidates
    required     the tools that the task turned out to need; one that has no score was missing from the list
    n_required   optional: how many tools were needed in all, where some have no name; else the length of `required`
    costs        optional: tool -> price above 0, for every candidate of this task; every tool costs 1 without it.
                 Prices may differ from task to task. Give them in every record or in none
    group        optional: near-copies share one, and no split parts them; else every task is its own

In JSON Lines `scores` and `costs` are objects. In Parquet every field is a column of that name, and those two are lists
of structs, (tool, score) and (tool, cost); null stands for an optional field left out. Unknown fields are refused,
because a misspelt optional field would otherwise change the result without a word.

Tables of mined tasks have other columns: `camdf.mining.logged.read_logged` reads those.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from camdf.core.rankings import LoggedTasks
from camdf.datasets.records import FOR_SCORES, Pairs, fields, json_lines, names, numbers, refuse, text, whole
from camdf.errors import DataError, UsageError, require

if TYPE_CHECKING:
    import pyarrow as pa

REQUIRED = ("task_id", "scores", "required")
OPTIONAL = ("n_required", "costs", "group")

File: TypeAlias = str | PathLike[str]


def read(path: File, *, keep_order: bool = False) -> LoggedTasks:
    """Logged tasks from a .jsonl or .parquet file. `keep_order` is that of `LoggedTasks.from_records`."""
    suffix = Path(path).suffix
    if suffix == ".jsonl":
        return read_jsonl(path, keep_order=keep_order)
    if suffix == ".parquet":
        return read_parquet(path, keep_order=keep_order)
    raise DataError(f"{path}: must end in .jsonl or .parquet. Rename it, or call read_jsonl or read_parquet.")


def read_jsonl(path: File, *, keep_order: bool = False) -> LoggedTasks:
    """Logged tasks from JSON Lines, one record a line as this module describes them."""
    return _logged(Path(path), json_lines(Path(path)), keep_order)


def read_parquet(path: File, *, keep_order: bool = False) -> LoggedTasks:
    """Logged tasks from one Parquet file, or from a folder of them in the order of their names. Needs pyarrow."""
    if {"ranked", "called"} <= set(parquet_columns(path)):
        raise DataError(
            f"{path}: is a table of mined tasks, as `camdf mine` writes it. Read it with "
            "camdf.mining.logged.read_logged."
        )
    rows = [row for table in parquet_tables(path) for row in table.to_pylist()]
    return _logged(Path(path), _parquet_records(Path(path), rows), keep_order)


def parquet_columns(path: File) -> list[str]:
    """The names of the columns of a Parquet file, or of the first file of a folder."""
    with _parquet_of(path) as parquet:
        return list(parquet.read_schema(_parquet_files(path)[0]).names)


def parquet_tables(path: File) -> list[pa.Table]:
    """A Parquet file, or each file of a folder in the order of their names, which is how Spark writes one table."""
    tables = []
    with _parquet_of(path) as parquet:
        for part in _parquet_files(path):
            with parquet.ParquetFile(part) as file:
                tables.append(file.read())
    return tables


def write_jsonl(logged: LoggedTasks, path: File) -> None:
    """Write logged tasks as JSON Lines; `read_jsonl(path, keep_order=True)` gives every number back to the bit."""
    with Path(path).open("w", encoding="utf-8", newline="\n") as file:
        for record in _records(logged):
            file.write(json.dumps(record, ensure_ascii=False, allow_nan=False) + "\n")


def write_parquet(logged: LoggedTasks, path: File) -> None:
    """Write logged tasks as Parquet; `read_parquet(path, keep_order=True)` gives every number back to the bit."""
    pyarrow, parquet = require("pyarrow", "mining"), require("pyarrow.parquet", "mining")

    def per_tool(value: str) -> Any:
        return pyarrow.list_(pyarrow.struct([("tool", pyarrow.string()), (value, pyarrow.float64())]))

    schema = pyarrow.schema(
        [
            ("task_id", pyarrow.string()),
            ("scores", per_tool("score")),
            ("required", pyarrow.list_(pyarrow.string())),
            ("n_required", pyarrow.int64()),
            ("costs", per_tool("cost")),
            ("group", pyarrow.string()),
        ]
    )
    rows = [
        {
            **record,
            "scores": [{"tool": tool, "score": score} for tool, score in record["scores"].items()],
            "costs": [{"tool": tool, "cost": cost} for tool, cost in record["costs"].items()],
        }
        for record in _records(logged)
    ]
    parquet.write_table(pyarrow.Table.from_pylist(rows, schema=schema), path)


def _records(logged: LoggedTasks) -> Iterator[dict[str, Any]]:
    rankings = logged.rankings
    if rankings.preselected is not None:
        raise UsageError("The 'preselected' marks have no place in a data file. Write the tasks without them.")
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
        yield record


def _logged(path: Path, source: Iterable[tuple[str, Pairs]], keep_order: bool) -> LoggedTasks:
    first: dict[str, str] = {}
    records: list[dict[str, Any]] = []
    for where, pairs in source:
        record = _checked(where, fields(where, pairs, REQUIRED, OPTIONAL))
        if record["task_id"] in first:
            remedy = f"It stands in {first[record['task_id']]} too; rename or remove one."
            refuse(where, "task_id", "be different for every task", record["task_id"], remedy)
        if records and ("costs" in record) != ("costs" in records[0]):
            raise DataError(
                f"{where}, field 'costs': must be in every record or in none, and only some have it. "
                "Add it where it is missing, or remove it."
            )
        first[record["task_id"]] = where
        records.append(record)
    if not records:
        raise DataError(f"{path}: must hold at least one task, and is empty. Write one record a task.")
    logged = LoggedTasks.from_records(records, keep_order=keep_order)
    logged = replace(logged, n_required=np.array([record["n_required"] for record in records], dtype=np.int64))
    if "costs" not in records[0]:
        return logged
    prices = np.zeros(logged.rankings.scores.shape)
    prices[logged.rankings.listed] = [
        record["costs"][tool] for row, record in enumerate(records) for tool in logged.rankings.names(row)
    ]
    return logged.with_costs(prices)


def _checked(where: str, found: dict[str, Any]) -> dict[str, Any]:
    """The record with every field checked, and `n_required` filled in."""
    scores = numbers(where, "scores", found["scores"], positive=False, remedy=FOR_SCORES)
    required = names(where, "required", found["required"])
    record = {
        "task_id": text(where, "task_id", found["task_id"]),
        "scores": scores,
        "required": required,
        "n_required": len(required),
    }
    if "n_required" in found:
        record["n_required"] = n_required = whole(where, "n_required", found["n_required"])
        if n_required < len(required):
            least = f"be at least {len(required)}, the number of names in 'required'"
            refuse(where, "n_required", least, n_required, "Raise it, or leave it out.")
    if "costs" in found:
        remedy = "Give a free tool a small price, such as 0.01."
        record["costs"] = prices = numbers(where, "costs", found["costs"], positive=True, remedy=remedy)
        unpriced = [tool for tool in scores if tool not in prices]
        if unpriced:
            refuse(where, "costs", f"price every candidate, {unpriced[0]!r} too", list(prices), "Add its price.")
    if "group" in found:
        record["group"] = text(where, "group", found["group"])
    return record


def _parquet_records(path: Path, rows: list[dict[str, Any]]) -> Iterator[tuple[str, Pairs]]:
    for number, row in enumerate(rows, start=1):
        where = f"{path}, row {number}"
        found = {name: value for name, value in row.items() if value is not None or name not in OPTIONAL}
        for name, part in (("scores", "score"), ("costs", "cost")):
            if name in found:
                found[name] = _pairs(where, name, part, found[name])
        yield where, Pairs(found.items())


def _pairs(where: str, field: str, part: str, value: object) -> Pairs:
    if not isinstance(value, list) or not all(isinstance(i, dict) and i.keys() == {"tool", part} for i in value):
        refuse(where, field, f"be a list of structs (tool, {part})", value, "write_parquet shows the layout.")
    return Pairs((item["tool"], item[part]) for item in value)


def _parquet_files(path: File) -> list[Path]:
    files = sorted(Path(path).glob("*.parquet")) if Path(path).is_dir() else [Path(path)]
    if not files:
        raise DataError(f"{path}: must be a Parquet file or a folder of them, and is a folder without. Name another.")
    return files


@contextmanager
def _parquet_of(path: File) -> Iterator[Any]:
    """The module that reads Parquet; a path to a file of another kind raises an error that says so."""
    arrow, parquet = require("pyarrow", "mining"), require("pyarrow.parquet", "mining")
    try:
        yield parquet
    except arrow.ArrowInvalid as error:
        raise DataError(f"{path}: must be a Parquet file. {error}. Write it with write_parquet.") from None

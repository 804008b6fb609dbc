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

A table that `camdf mine` wrote is read too, known by its column `ranked` (camdf.mining.tasks has all of them): `ranked`
and `scores` side by side are the scores, `called` are the required tools, and tasks without a ranking are left out.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from importlib import import_module
from os import PathLike
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from camdf.core.rankings import LoggedTasks
from camdf.datasets.records import DataError, Pairs, fields, json_lines, names, numbers, refuse, text, whole
from camdf.policies.linear import MissingExtraError

REQUIRED = ("task_id", "scores", "required")
OPTIONAL = ("n_required", "costs", "group")

File: TypeAlias = str | PathLike[str]


def read(path: File, *, keep_order: bool = False, explored_only: bool = False) -> LoggedTasks:
    """Logged tasks from a .jsonl or .parquet file. `keep_order` is that of `LoggedTasks.from_records`.

    `explored_only` leaves out mined tasks of runs that did not explore, whose labels a gate may have censored.
    """
    suffix = Path(path).suffix
    if suffix == ".jsonl" and explored_only:
        raise DataError(f"{path}: does not say which runs explored. Name a table that `camdf mine` wrote.")
    if suffix == ".jsonl":
        return read_jsonl(path, keep_order=keep_order)
    if suffix == ".parquet":
        return read_parquet(path, keep_order=keep_order, explored_only=explored_only)
    raise DataError(f"{path}: must end in .jsonl or .parquet. Rename it, or call read_jsonl or read_parquet.")


def read_jsonl(path: File, *, keep_order: bool = False) -> LoggedTasks:
    """Logged tasks from JSON Lines, one record a line as this module describes them."""
    return _logged(Path(path), json_lines(Path(path)), keep_order)


def read_parquet(path: File, *, keep_order: bool = False, explored_only: bool = False) -> LoggedTasks:
    """Logged tasks from one Parquet file, or from a folder of them in the order of their names. Needs pyarrow."""
    pyarrow, parquet = _pyarrow()
    rows: list[dict[str, Any]] = []
    try:
        for part in parquet_parts(path):
            with parquet.ParquetFile(part) as file:
                rows += file.read().to_pylist()
    except pyarrow.ArrowInvalid as error:
        raise DataError(f"{path}: must be a Parquet file. {error}. Write it with write_parquet.") from None
    if explored_only:
        rows = [row for row in rows if row.get("explored")]
        if not rows:
            raise DataError(f"{path}: holds no run that explored. Give the gate a share: Gate(..., explore=0.1).")
    return _logged(Path(path), _parquet_records(Path(path), rows), keep_order)


def is_mined(path: File) -> bool:
    """Whether a Parquet file, or a folder of them, is a table that `camdf mine` wrote."""
    _, parquet = _pyarrow()
    return {"ranked", "called"} <= set(parquet.read_schema(parquet_parts(path)[0]).names)


def parquet_parts(path: File) -> list[Path]:
    """The file, or those of a folder in the order of their names, which is how Spark writes one table."""
    parts = sorted(Path(path).glob("*.parquet")) if Path(path).is_dir() else [Path(path)]
    if not parts:
        raise DataError(f"{path}: must be a Parquet file or a folder of them, and is a folder without. Name another.")
    return parts


def write_jsonl(logged: LoggedTasks, path: File) -> None:
    """Write logged tasks as JSON Lines; `read_jsonl(path, keep_order=True)` gives every number back to the bit."""
    with Path(path).open("w", encoding="utf-8", newline="\n") as file:
        for record in _records(logged):
            file.write(json.dumps(record, ensure_ascii=False, allow_nan=False) + "\n")


def write_parquet(logged: LoggedTasks, path: File) -> None:
    """Write logged tasks as Parquet; `read_parquet(path, keep_order=True)` gives every number back to the bit."""
    pyarrow, parquet = _pyarrow()

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
        raise ValueError("The 'preselected' marks have no place in a data file. Write the tasks without them.")
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
    advice = "Clip cosine similarities at 0, and pass logits through a sigmoid."
    scores = numbers(where, "scores", found["scores"], positive=False, remedy=advice)
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
        advice = "Give a free tool a small price, such as 0.01."
        record["costs"] = prices = numbers(where, "costs", found["costs"], positive=True, remedy=advice)
        unpriced = [tool for tool in scores if tool not in prices]
        if unpriced:
            refuse(where, "costs", f"price every candidate, {unpriced[0]!r} too", list(prices), "Add its price.")
    if "group" in found:
        record["group"] = text(where, "group", found["group"])
    return record


def _parquet_records(path: Path, rows: list[dict[str, Any]]) -> Iterator[tuple[str, Pairs]]:
    if rows and "ranked" in rows[0] and not any(row["ranked"] for row in rows):
        raise DataError(
            f"{path}: must hold tasks with a ranking, and none of its {len(rows)} mined tasks has one. "
            "Rank them with `camdf score`, or run a gate in shadow mode, which records its ranking."
        )
    for number, row in enumerate(rows, start=1):
        where = f"{path}, row {number}"
        if "ranked" in row:
            if row["ranked"]:
                yield where, _mined(row)
            continue
        found = {name: value for name, value in row.items() if value is not None or name not in OPTIONAL}
        for name, part in (("scores", "score"), ("costs", "cost")):
            if name in found:
                found[name] = _pairs(where, name, part, found[name])
        yield where, Pairs(found.items())


def _mined(row: dict[str, Any]) -> Pairs:
    scores = Pairs(zip(row["ranked"], row["scores"], strict=True))
    return Pairs(
        {**{name: row[name] for name in ("task_id", "group")}, "scores": scores, "required": row["called"]}.items()
    )


def _pairs(where: str, field: str, part: str, value: object) -> Pairs:
    if not isinstance(value, list) or not all(isinstance(i, dict) and i.keys() == {"tool", part} for i in value):
        refuse(where, field, f"be a list of structs (tool, {part})", value, "write_parquet shows the layout.")
    return Pairs((item["tool"], item[part]) for item in value)


def _pyarrow() -> tuple[Any, Any]:
    try:
        return import_module("pyarrow"), import_module("pyarrow.parquet")
    except ImportError as error:
        raise MissingExtraError("Parquet needs pyarrow. Install it with: pip install 'camdf[mining]'") from error

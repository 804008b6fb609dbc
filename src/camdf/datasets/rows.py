"""Logged tasks with one row a candidate, as databases export them: CSV, or a Parquet table of the same columns.

task_id    a string, the same in all rows of a task; they need not stand together
tool       the candidate
score      finite and not negative; empty where the task required a tool that was missing from its list
required   whether the task turned out to need the tool: 0, 1, true or false
cost       optional: the tool's price above 0, in every row or in none; every tool costs 1 without it
group      optional: near-copies share one, and no split parts them
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from math import inf, nan
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from camdf.core.rankings import Ints, LoggedTasks
from camdf.datasets.gather import Candidates, as_logged
from camdf.datasets.records import FOR_COSTS, FOR_SCORES, refuse, text
from camdf.errors import DataError

NEEDED = ("task_id", "tool", "score", "required")
OPTIONAL_COLUMNS = ("cost", "group")
MISSING = -1.0
"""Stands for the score of a tool that was required and missing from the list."""

FLAGS: dict[Any, bool] = {"0": False, "1": True, "false": False, "true": True, 0: False, 1: True}


class Row(NamedTuple):
    """One candidate as a file has it: texts from CSV, typed values from Parquet, None or "" where there is nothing."""

    task_id: Any
    tool: Any
    score: Any
    required: Any
    cost: Any = None
    group: Any = None


def is_rows(columns: Iterable[str]) -> bool:
    """Whether a table with these columns has one row a candidate."""
    return set(NEEDED) <= set(columns)


def read_rows(path: Path, rows: Iterable[Row], *, priced: bool, keep_order: bool) -> LoggedTasks:
    """The tasks of these rows; errors name the row, of which the first after the head is row 1."""
    tasks: dict[str, int] = {}
    tools: dict[str, int] = {}
    groups: list[str] = []
    task = array("q")
    tool = array("q")
    score = array("d")
    cost = array("d")
    required = array("b")
    for number, row in enumerate(rows, start=1):
        its_task = tasks.get(row.task_id)
        its_tool = tools.get(row.tool)
        if its_task is None:
            its_task = len(tasks)
            tasks[text(f"{path}, row {number}", "task_id", row.task_id)] = its_task
            groups.append(text(f"{path}, row {number}", "group", row.group or row.task_id))
        elif (row.group or row.task_id) != groups[its_task]:
            remedy = f"It has {groups[its_task]!r} above; give all rows of a task one group."
            refuse(f"{path}, row {number}", "group", "be the same in all rows of a task", row.group, remedy)
        if its_tool is None:
            its_tool = len(tools)
            tools[text(f"{path}, row {number}", "tool", row.tool)] = its_tool
        needed = FLAGS.get(row.required)
        if needed is None:
            needed = _is_required(f"{path}, row {number}", row.required)
        its_score = MISSING
        its_cost = 1.0
        if row.score is not None and row.score != "":
            its_score = _score_of_row(path, number, row.score)
            if priced:
                its_cost = _cost_of_row(path, number, row.cost)
        elif not needed:
            refuse(
                f"{path}, row {number}", "score", "be there unless the tool is required", row.score, "Remove the row."
            )
        task.append(its_task)
        tool.append(its_tool)
        required.append(needed)
        score.append(its_score)
        cost.append(its_cost)
    if not tasks:
        raise DataError(f"{path}: must hold at least one task, and is empty. Write one row a candidate.")
    in_task = np.array(task)
    of_tool = np.array(tool)
    needed_by = np.array(required, dtype=bool)
    _refuse_repeats(path, in_task, of_tool, tuple(tools))
    scored = np.array(score)
    listed_at = np.flatnonzero(scored != MISSING)
    at = listed_at[np.argsort(in_task[listed_at], kind="stable")]
    prices = np.array(cost)[at] if priced else None
    candidates = Candidates(of_tool[at], scored[at], needed_by[at], prices)
    lengths = np.bincount(in_task[at], minlength=len(tasks)).astype(np.int64)
    n_required = np.bincount(in_task[needed_by], minlength=len(tasks)).astype(np.int64)
    return as_logged(tuple(tools), lengths, n_required, candidates, list(tasks), groups, keep_order=keep_order)


def _is_required(where: str, value: Any) -> bool:
    flag = FLAGS.get(str(value).strip().lower())
    if flag is None:
        refuse(where, "required", "be 0, 1, true or false", value, "Write 1 where the task needed the tool, else 0.")
    return flag


def _score_of_row(path: Path, number: int, value: Any) -> float:
    score = _float_or_nan(value)
    if not 0 <= score < inf:
        refuse(f"{path}, row {number}", "score", "be a finite number of at least 0", value, FOR_SCORES)
    return score


def _cost_of_row(path: Path, number: int, value: Any) -> float:
    cost = _float_or_nan(value)
    if not 0 < cost < inf:
        refuse(f"{path}, row {number}", "cost", "be a finite number of more than 0", value, FOR_COSTS)
    return cost


def _float_or_nan(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        return nan


def _refuse_repeats(path: Path, task: Ints, tool: Ints, names: tuple[str, ...]) -> None:
    order = np.lexsort((tool, task))
    same = (np.diff(task[order]) == 0) & (np.diff(tool[order]) == 0)
    if same.any():
        row = int(order[1:][same].min())
        refuse(f"{path}, row {row + 1}", "tool", "occur once in a task", names[tool[row]], "Remove one of the rows.")

"""Score a folder of tasks: one line a task, in the layout of the data that ships; interrupted work is taken up again.

FOLDER/tasks.jsonl   {"task_id", "text", "tools"?} a line; a task without "tools" has the whole catalogue
FOLDER/tools.json    tool name -> description
the output           {"task_id", "scores": {name: number}} a line, best first; on request "vector" too, the direction of
                     the text in whole numbers, for policies that learn from it

The scores of a folder have four decimals, and its ranks come from those before rounding. Those of a log, and of mined
tasks, are written as they are: a policy learns from the very scores by which a gate then decides. Equal ones are
ordered by the SHA-1 of "task_id|tool", which favors none.
Beside OUTPUT.jsonl stands OUTPUT.settings.json, so that a later run with other settings cannot mix two rankings.
"""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from camdf.datasets.texts import TaskText, texts_from_folder
from camdf.errors import DataError, ScorerError, UsageError
from camdf.runtime.files import clear_unfinished, private_opener, write_whole
from camdf.runtime.progress import Progress, silent
from camdf.scorers.base import Scorer, checked, vector_of
from camdf.scorers.with_examples import examples_digest_of
from camdf.tools import Tool

DECIMALS = 4
"""Of the scores of a folder."""

IN_A_ROW = 3
"""How many tasks refused one after another end the run: then the endpoint is down, not the task odd."""


@dataclass(frozen=True)
class Scored:
    """What a run did: tasks scored now, tasks found finished, and why some could not be scored."""

    now: int
    before: int
    refused: Mapping[str, str]


def score_folder(
    folder: Path,
    scorer: Scorer,
    output: Path,
    *,
    top: int | None = None,
    vectors: bool = False,
    settings: Mapping[str, Any] | None = None,
    progress: Progress = silent,
) -> Scored:
    """Score every task that `output` does not hold yet, and append it there.

    `top` is how many of a task's best tools are kept; `vectors` keeps the direction of every text, under a scorer that
    embeds texts. A task that its scorer refuses is left out and tried again by the next run. `settings` is whatever
    determines the scores, to which the digest of the scorer's examples is added; a run that finds others beside the
    output raises.
    """
    texts = texts_from_folder(folder.parent, folder.name)
    tools = {name: Tool(name, description) for name, description in texts.descriptions.items()}
    choices: dict[str, Any] = {"top": top, "vectors": vectors, "settings": settings, "progress": progress}
    choices["decimals"] = DECIMALS
    return score_tasks(texts.tasks, tools, scorer, output, **choices)


def score_tasks(
    tasks: Sequence[TaskText],
    tools: Mapping[str, Tool],
    scorer: Scorer,
    output: Path,
    *,
    top: int | None = None,
    vectors: bool = False,
    settings: Mapping[str, Any] | None = None,
    decimals: int | None = None,
    progress: Progress = silent,
) -> Scored:
    """What `score_folder` does, for tasks and tools that are at hand: `tools` has every name that a task has.

    Scores are rounded to so many `decimals`; None writes them as they are.
    """
    determined_by: dict[str, Any] = {**(settings or {}), "top": top}
    if vectors:
        determined_by["vectors"] = True
    examples = examples_digest_of(scorer)
    if examples:
        determined_by["examples"] = examples
    _check_settings(output, determined_by)
    finished = _finished(output)
    left = [task for task in tasks if task.task_id not in finished]
    start = time.monotonic()
    refused: dict[str, str] = {}
    in_a_row = 0
    with open(output, "a", encoding="utf-8", newline="\n", opener=private_opener) as file:
        for number, task in enumerate(left, start=1):
            try:
                record = _scored_record(task, scorer, [tools[name] for name in task.tools], top, decimals)
                if vectors:
                    record["vector"] = _vector_in_numbers(scorer, task.text)
                in_a_row = 0
                file.write(json.dumps(record, ensure_ascii=False) + "\n")
                file.flush()
            except ScorerError as error:
                refused[task.task_id] = str(error)
                in_a_row += 1
                if in_a_row == IN_A_ROW:
                    raise ScorerError(f"{in_a_row} tasks in a row failed; the last said: {error}") from None
            if number == 1:  # the first task also loads the model and indexes the tools: no guide to the others
                start = time.monotonic()
            else:
                a_task = (time.monotonic() - start) / (number - 1)
                progress(len(tasks) - len(left) + number, len(tasks), a_task * (len(left) - number))
    _in_order(output, tasks)
    return Scored(len(left) - len(refused), len(tasks) - len(left), refused)


def scored_records(output: Path) -> list[dict[str, Any]]:
    """The records that an output holds: `task_id`, `scores` by tool, best first, and perhaps `vector`."""
    return [record for _, record in _scored_lines(output, output.read_bytes())]


def _scored_record(
    task: TaskText, scorer: Scorer, tools: Sequence[Tool], top: int | None, decimals: int | None
) -> dict[str, Any]:
    answer = scorer(task.text, tools)
    if inspect.isawaitable(answer):
        answer = asyncio.run(_answer_awaited(answer))
    scores = checked(answer, tools)

    def place(at: int) -> tuple[float, str]:
        return -scores[at], hashlib.sha1(f"{task.task_id}|{tools[at].name}".encode()).hexdigest()

    ranked = sorted(range(len(tools)), key=place)[:top]
    written = scores.tolist() if decimals is None else [round(score, decimals) for score in scores.tolist()]
    return {"task_id": task.task_id, "scores": {tools[at].name: written[at] for at in ranked}}


def _vector_in_numbers(scorer: Scorer, task: str) -> list[int]:
    vector = vector_of(scorer, task)
    if not vector:
        raise UsageError("This scorer embeds no texts, so it has no vectors. Score with 'start' or 'minilm'.")
    numbers: list[int] = np.frombuffer(vector, np.int8).tolist()
    return numbers


async def _answer_awaited(answer: Any) -> Any:
    return await answer


def _check_settings(output: Path, settings: Mapping[str, Any]) -> None:
    beside = output.with_suffix(".settings.json")
    if not output.exists():
        output.parent.mkdir(parents=True, exist_ok=True)
        write_whole(beside, (json.dumps(settings, indent=1) + "\n").encode(), private=True)
        return
    try:
        held = json.loads(beside.read_bytes())
    except (OSError, ValueError):
        held = None
    if held != json.loads(json.dumps(settings)):
        raise DataError(
            f"{output}: was written with other settings (see {beside.name}). Name another file, or remove both."
        )


def _finished(output: Path) -> set[str]:
    """The tasks that the output holds; what a run that was killed left, a line cut short and a file, goes."""
    clear_unfinished(*os.path.split(os.path.realpath(output)))
    if not output.exists():
        return set()
    content = output.read_bytes()
    whole = content[: content.rfind(b"\n") + 1]
    if whole != content:
        os.truncate(output, len(whole))
    return {record["task_id"] for _, record in _scored_lines(output, whole)}


def _scored_lines(output: Path, content: bytes) -> Iterator[tuple[bytes, dict[str, Any]]]:
    for number, line in enumerate(content.splitlines(keepends=True), start=1):
        try:
            record = json.loads(line)
            record["task_id"], record["scores"]
        except (ValueError, TypeError, KeyError):
            raise DataError(f"{output}, line {number}: must be a task_id and its scores. Remove the line.") from None
        yield line, record


def _in_order(output: Path, tasks: Sequence[TaskText]) -> None:
    """Put lines that a later run added where their tasks stand."""
    lines = {record["task_id"]: line for line, record in _scored_lines(output, output.read_bytes())}
    wanted = [task.task_id for task in tasks if task.task_id in lines]
    placed = set(wanted)
    others = [task_id for task_id in lines if task_id not in placed]
    if [*wanted, *others] != list(lines):
        write_whole(output, b"".join(lines[task_id] for task_id in [*wanted, *others]))

"""Request texts and tool descriptions, which a scorer reads: a folder with `tasks.jsonl` and `tools.json`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

from camdf.datasets.records import fields, json_lines, list_of_names, refuse, text
from camdf.errors import DataError


@dataclass(frozen=True)
class TaskText:
    """One request, and the tools that a scorer must score for it."""

    task_id: str
    text: str
    tools: tuple[str, ...]


@dataclass(frozen=True)
class Texts:
    """What a scorer reads: the requests, and a description of every tool."""

    tasks: tuple[TaskText, ...]
    descriptions: Mapping[str, str]


def texts_from_folder(folder: str | PathLike[str], domain: str) -> Texts:
    """Texts from the files `tasks.jsonl` and `tools.json` in `folder/domain`.

    A line of the first has `task_id`, `text` and, where candidates differ from task to task, `tools`; a task without
    has the whole catalogue. The second maps tool names to descriptions.
    """
    path = Path(folder) / domain / "tools.json"
    try:
        descriptions = json.loads(path.read_bytes())
    except ValueError as error:
        raise DataError(f"{path}: must be JSON in UTF-8. {error}. Fetch the file again.") from None
    if not isinstance(descriptions, dict) or not all(isinstance(value, str) for value in descriptions.values()):
        raise DataError(f"{path}: must be one JSON object from tool name to description, all strings. Mend it.")
    catalogue = tuple(descriptions)
    tasks = []
    for where, record in json_lines(Path(folder) / domain / "tasks.jsonl"):
        task = fields(where, record, ("task_id", "text"), ("tools",))
        listed = catalogue
        if "tools" in task:
            listed = tuple(list_of_names(where, "tools", task["tools"]))
        unknown = [name for name in listed if name not in descriptions]
        if unknown:
            refuse(where, "tools", "name tools of tools.json", unknown[0], "Describe it there, or remove it.")
        tasks.append(TaskText(text(where, "task_id", task["task_id"]), text(where, "text", task["text"]), listed))
    return Texts(tuple(tasks), descriptions)

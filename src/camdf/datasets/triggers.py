"""Trigger tests of skills as labels: files of `[{"query": ..., "should_trigger": true}]`, one for each skill.

A file names its skill in a field `skill` or `skill_name`, or by its place: the file up to its first dot, or a folder
above it, the nearest first, has the name of a skill. A query that some files want a skill for needs these skills. One
that no file wants any for needs none.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from itertools import islice
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

from camdf.datasets.records import refuse
from camdf.datasets.tables import LooseTable, TableRow
from camdf.errors import DataError

MARK = b'"should_trigger"'
GLANCE = 65_536
"""How many bytes of a file show whether it is one."""

MOST_FILES = 10_000
QUERIES = ("query", "prompt")
SKILLS = ("skill", "skill_name")
ROWS = ("evals", "queries")
"""Under which names files have the query, the skill, and their rows where they are objects."""


class Trigger(NamedTuple):
    """Whether a request should start a skill."""

    query: str
    skill: str
    wanted: bool


def trigger_files(path: str | PathLike[str]) -> list[Path]:
    """The files with trigger tests: the one that is named, or those below a folder."""
    place = Path(path)
    if place.is_dir():
        return [file for file in sorted(islice(place.rglob("*.json"), MOST_FILES)) if _is_trigger_file(file)]
    return [place] if _is_trigger_file(place) else []


def is_triggers(path: str | PathLike[str]) -> bool:
    """Whether there are trigger tests."""
    return bool(trigger_files(path))


def read_triggers(path: str | PathLike[str], skills: Collection[str]) -> list[Trigger]:
    """The trigger tests of a file or folder; a DataError names the file and the row that is not as it should be."""
    triggers: list[Trigger] = []
    for file in trigger_files(path):
        try:
            document = json.loads(file.read_bytes())
        except (ValueError, RecursionError):
            raise DataError(f"{file}: must be JSON in UTF-8. Mend it.") from None
        rows, named = _rows_and_skill(document)
        by_place = _skill_of_place(file, skills)
        for number, row in enumerate(rows, start=1):
            where = f"{file}, row {number}"
            if not isinstance(row, dict):
                refuse(where, "query", "be in an object", row, 'Write {"query": "...", "should_trigger": true}.')
            query = _first_text(row, QUERIES)
            wanted = row.get("should_trigger")
            skill = _first_text(row, SKILLS) or named or by_place
            if not query:
                refuse(where, "query", "be a text", row.get("query"), "Write what a user would say.")
            if not isinstance(wanted, bool):
                refuse(where, "should_trigger", "be true or false", wanted, "Say whether the query needs the skill.")
            if not skill:
                remedy = "Name the file or its folder after the skill, or add the field."
                refuse(where, "skill", "be known", None, remedy)
            triggers.append(Trigger(query, skill, wanted))
    return triggers


def needed_by_query(triggers: Iterable[Trigger]) -> dict[str, list[str]]:
    """The skills that each query needs.

    >>> needed_by_query([Trigger("merge a.pdf", "pdf", True), Trigger("merge a.pdf", "git", False)])
    {'merge a.pdf': ['pdf']}
    """
    needed: dict[str, list[str]] = {}
    for query, skill, wanted in triggers:
        skills = needed.setdefault(query, [])
        if wanted and skill not in skills:
            skills.append(skill)
    return needed


def table_of_triggers(path: str | PathLike[str], skills: Collection[str]) -> LooseTable:
    """Trigger tests as the table of a log: a row a query."""
    needed = needed_by_query(read_triggers(path, skills))
    rows = [{"text": query, "required": names} for query, names in needed.items()]
    return LooseTable("trigger tests", list(map(TableRow, range(1, len(rows) + 1), rows)), {}, "row")


def _is_trigger_file(file: Path) -> bool:
    if file.suffix != ".json" or not file.is_file():
        return False
    with file.open("rb") as opened:
        return MARK in opened.read(GLANCE)


def _rows_and_skill(document: Any) -> tuple[list[Any], str]:
    """The rows of a file, and the skill that it names for all of them."""
    if isinstance(document, list):
        return document, ""
    if not isinstance(document, dict):
        return [document], ""
    lists = [document[name] for name in ROWS if isinstance(document.get(name), list)]
    return lists[0] if lists else [document], _first_text(document, SKILLS)


def _first_text(row: dict[str, Any], names: Iterable[str]) -> str:
    texts = (row[name].strip() for name in names if isinstance(row.get(name), str))
    return next(filter(None, texts), "")


def _skill_of_place(file: Path, skills: Collection[str]) -> str:
    """The skill after which a file or a folder above it is named; "" where none is."""
    places = (file.name.partition(".")[0], *(folder.name for folder in file.absolute().parents))
    return next((name for name in places if name in skills), "")

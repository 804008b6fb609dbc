"""The rows of any table of one's own: JSON Lines, JSON, CSV, TSV or Parquet, told by its content, not by its name.

A row that cannot be read is left out with the reason, and the others are read: a log of a year has a broken line.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator
from io import StringIO
from itertools import islice
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

from camdf.datasets import parquet
from camdf.errors import DataError
from camdf.runtime.progress import silent

SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
"""What may stand between two cells, and its name."""


NO_OBJECT = "is no JSON object"
GLANCE = 65_536
"""How many bytes show what the columns are."""


class TableRow(NamedTuple):
    """A row, and where it stands: the line on which it ends, or its number where rows are no lines."""

    place: int
    fields: dict[str, Any]


class LooseTable(NamedTuple):
    """All rows that could be read, and why the others could not, by their places."""

    kind: str
    """What the file is, in words."""

    rows: list[TableRow]
    unread: dict[int, str]
    unit: str = "line"
    """What places count: lines, as an editor numbers them, or rows, the first being 1."""

    @property
    def columns(self) -> list[str]:
        """Every field that some row has, in the order in which they come."""
        return list(dict.fromkeys(name for row in self.rows for name in row.fields))


def read_table(path: str | PathLike[str]) -> LooseTable:
    """The rows of a file, or of a folder of Parquet files; a DataError where it is no table at all."""
    place = Path(path)
    if place.is_dir() or _first_bytes(place) == b"PAR1":
        columns = parquet.columns_of(place)
        records = (row for batch in parquet.batches(place, columns, silent) for row in batch.to_pylist())
        return LooseTable("Parquet", [TableRow(*row) for row in enumerate(records, start=1)], {}, "row")
    text, encoding = _decoded_text(place.read_bytes())
    if not text.strip():
        raise DataError(f"{path}: must have at least one row, and is empty. Name another file.")
    is_json = text.lstrip()[0] in "[{"
    table = _json_table(text) if is_json else _delimited_table(text)
    if encoding == "UTF-8":
        return table
    return table._replace(kind=f"{table.kind} in {encoding}")


def columns_at_a_glance(path: str | PathLike[str]) -> set[str]:
    """The columns of a table, in small letters, by its head or its first line alone, however large the file is."""
    place = Path(path)
    if place.is_dir() or _first_bytes(place) == b"PAR1":
        return {name.lower() for name in parquet.columns_of(place)}
    with place.open("rb") as file:
        text, _ = _decoded_text(file.read(GLANCE))
    line = text.strip().partition("\n")[0]
    if line[:1] in ("[", "{"):
        first_object = line if '"' in line else text
        return {name.lower() for name in re.findall(r'"(\w+)"\s*:', first_object)}
    return {name.lower() for mark in SEPARATORS for name in _head_cells(line, mark)}


def _first_bytes(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(4)


def _decoded_text(content: bytes) -> tuple[str, str]:
    """The text and its encoding. Spreadsheets write UTF-16 with a byte order mark, and old ones Windows-1252."""
    if content[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return content.decode("utf-16", errors="replace"), "UTF-16"
    try:
        return content.decode("utf-8-sig"), "UTF-8"
    except UnicodeDecodeError:
        return content.decode("cp1252", errors="replace"), "Windows-1252"


def _json_table(text: str) -> LooseTable:
    """One document with a list of objects in it, or an object a line."""
    try:
        return _table_in_document(json.loads(text))
    except ValueError:
        pass
    rows: list[TableRow] = []
    unread: dict[int, str] = {}
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            value = None
        if isinstance(value, dict):
            rows.append(TableRow(number, value))
        else:
            unread[number] = NO_OBJECT
    return LooseTable("JSON Lines", rows, unread)


def _table_in_document(document: Any) -> LooseTable:
    """The objects of a list; of the one list of rows that an object holds; or the object itself, as the only row."""
    kind = "JSON array" if isinstance(document, list) else "JSON"
    if isinstance(document, dict):
        lists = [value for value in document.values() if _are_rows(value)]
        document = lists[0] if len(lists) == 1 else [document]
    rows = [TableRow(number, value) for number, value in enumerate(document, start=1) if isinstance(value, dict)]
    others = set(range(1, len(document) + 1)) - {row.place for row in rows}
    return LooseTable(kind, rows, dict.fromkeys(sorted(others), NO_OBJECT), "row")


def _are_rows(value: Any) -> bool:
    """Whether it is a list of objects that are neither messages nor definitions of tools."""
    if not isinstance(value, list) or not value:
        return False
    return all(isinstance(row, dict) and "role" not in row and "type" not in row for row in value)


def _delimited_table(text: str) -> LooseTable:
    """CSV and its like: the separator is the one that parts the head into most cells."""
    separator = max(SEPARATORS, key=lambda mark: len(_head_cells(text, mark)))
    head = _head_cells(text, separator)
    rows: list[TableRow] = []
    unread: dict[int, str] = {}
    for line, cells in islice(_rows_of_cells(text, separator), 1, None):
        if len(cells) == len(head):
            rows.append(TableRow(line, dict(zip(head, cells, strict=True))))
        else:
            unread[line] = f"has {len(cells)} cells instead of the {len(head)} of the head"
    kinds = {",": "CSV", "\t": "TSV"}
    return LooseTable(kinds.get(separator, f"CSV with {SEPARATORS[separator]}"), rows, unread)


def _head_cells(text: str, separator: str) -> list[str]:
    _, cells = next(_rows_of_cells(text, separator), (0, []))
    return [name.strip() for name in cells]


def _rows_of_cells(text: str, separator: str) -> Iterator[tuple[int, list[str]]]:
    """The rows that are not blank, with the lines on which they end; a row of empty cells is blank too."""
    reader = csv.reader(StringIO(text, newline=""), delimiter=separator)
    try:
        for cells in reader:
            if any(cell.strip() for cell in cells):
                yield reader.line_num, cells
    except csv.Error as error:
        raise DataError(f"Line {reader.line_num}: must be a row of a table. {error}. Mend or remove it.") from None

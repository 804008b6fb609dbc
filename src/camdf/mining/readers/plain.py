"""The span table itself, a row a line: JSON with the columns of `camdf.mining.spans.COLUMNS`, all optional but two."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from camdf.mining.readers.values import mapping
from camdf.mining.readers.values import span as checked
from camdf.mining.spans import COLUMNS, Span


def parts(record: Any) -> Iterator[Any]:
    """A row, or the rows of a list."""
    if isinstance(record, list):
        yield from record
    else:
        yield record


def span(part: Any) -> Span:
    """One row."""
    row = mapping(part)
    return checked(**{name: row.get(name) for name in COLUMNS})

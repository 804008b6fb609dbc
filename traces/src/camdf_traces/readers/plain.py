"""The span table itself as JSON, a row a line, with the columns of `camdf_traces.spans.SPAN_COLUMNS`.

Only `trace_id` and `span_id` are needed; a record is recognized by these and `kind`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from camdf_traces.readers.values import as_mapping, checked_span
from camdf_traces.spans import SPAN_COLUMNS, Span


def parts(record: Any) -> Iterator[Any]:
    """A row, or the rows of a list."""
    if isinstance(record, list):
        yield from record
    else:
        yield record


def span(part: Any, with_text: bool = True) -> Span:
    """One row."""
    row = as_mapping(part)
    return checked_span(**{name: row.get(name) for name in SPAN_COLUMNS if with_text or name != "text"})

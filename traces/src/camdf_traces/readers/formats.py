"""The trace formats: a reader for each, and which one a record is in."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

from camdf_traces.readers import langfuse, langsmith, mlflow, otel, plain
from camdf_traces.readers.values import as_mapping, as_text
from camdf_traces.spans import SPAN_COLUMNS, Span


class Reader(Protocol):
    """A trace format: the parts of a record, and each part as a span."""

    def parts(self, record: Any) -> Iterator[Any]:
        """The parts of a record that may be spans."""

    def span(self, part: Any, with_text: bool = True) -> Span:
        """One part as a span; raises where it is none. Without `with_text` no message is read for its words."""


FORMATS: dict[str, Reader] = {
    "otel": otel,
    "openinference": otel,
    "langsmith": langsmith,
    "langfuse": langfuse,
    "mlflow": mlflow,
    "plain": plain,
}
"""OpenInference spans are OpenTelemetry spans with attributes of their own, so one reader reads both."""


def guess(record: Any) -> str:
    """The format of a record by the keys that only it has; "" where none is known."""
    if isinstance(record, list):
        return next(filter(None, map(guess, record[:10])), "")
    if callable(record):
        return "otel"
    fields = as_mapping(record)
    if fields.keys() & {"resourceSpans", "resource_spans", "scopeSpans", "scope_spans"}:
        return "otel"
    if "run_type" in fields or isinstance(fields.get("runs"), list):
        return "langsmith"
    if "observations" in fields or (
        fields.keys() & {"traceId", "trace_id"} and as_text(fields.get("type")).upper() in langfuse.OBSERVATION_TYPES
    ):
        return "langfuse"
    if "info" in fields and fields.keys() & {"data", "spans"}:
        return "mlflow"
    if fields.keys() >= {"trace_id", "span_id", "kind"} and fields.keys() <= SPAN_COLUMNS.keys():
        return "plain"
    if fields.keys() & {"spanId", "span_id", "SpanId", "context", "context.span_id"}:
        return "otel"
    inner = fields.get("data") or fields.get("spans")
    return guess(inner) if isinstance(inner, list) else ""

"""OTLP as protobuf: the form in which spans travel, and in which collectors store many of them."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from functools import partial
from typing import Any

from opentelemetry.proto.trace.v1.trace_pb2 import TracesData

from camdf_traces.readers.otlp import OtelSpan, TypedSpan, typed_span
from camdf_traces.readers.values import Unreadable, as_text

TRACE_BYTES = (0, 16)
SPAN_BYTES = (0, 8)
"""How long ids are. Metrics and logs have other fields in these places, and nothing else tells them from spans."""


def typed_message(message: bytes) -> list[TypedSpan]:
    """The spans of a message; `Unreadable` where the bytes are none."""
    try:
        resources = TracesData.FromString(message).resource_spans
    except Exception:
        raise Unreadable("not OTLP") from None
    return [
        partial(_otel_span, span, service)
        for part in resources
        for service in [_service_of_proto(part.resource)]
        for scope in part.scope_spans
        for span in scope.spans
    ]


def _service_of_proto(resource: Any) -> str:
    values = (_proto_value(pair.value) for pair in resource.attributes if pair.key == "service.name")
    return as_text(next(values, ""))


def _otel_span(record: Any, service: str, with_text: bool) -> OtelSpan:
    if len(record.trace_id) not in TRACE_BYTES or len(record.span_id) not in SPAN_BYTES:
        raise Unreadable("no span: its ids have other lengths")
    span = typed_span(record, service, with_text, _proto_values, _last_proto_message)
    return span._replace(start=span.start or None, end=span.end or None)  # 0 is a time that nobody recorded


def _proto_values(pairs: Sequence[Any]) -> dict[str, Any]:
    return {pair.key: _proto_value(pair.value) for pair in pairs}


def _proto_value(value: Any) -> Any:
    """A typed value as a plain one: what OTLP JSON says of it."""
    if text := value.string_value:  # what most of them are
        return text
    kind = value.WhichOneof("value")
    if kind is None:
        return {}
    inner = getattr(value, kind)
    if kind == "array_value":
        return list(map(_proto_value, inner.values))
    if kind == "kvlist_value":
        return _proto_values(inner.values)
    if kind == "bytes_value":
        return base64.b64encode(inner).decode()
    return inner


def _last_proto_message(value: Any) -> Any:
    messages = value.string_value
    if not messages:
        return _proto_value(value)
    place = messages.rfind('"role"')
    if place < 0:
        return ""
    return messages[place:]

"""OTLP JSON by the letter of its schema: the form that most traces come in, so the one that must be read fast.

A document is taken apart without making a Python value of all that it holds. One that holds anything which the schema
does not know is read as any other JSON. The spans are the same; they only take longer.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache, partial
from typing import Any

from msgspec import Raw, Struct
from msgspec.json import Decoder

from camdf_traces.readers.otlp import LONG, OtelSpan, TypedSpan, attribute_value, service_of, typed_span

BEGINNING = re.compile(rb'\s*\{\s*"resourceSpans"')
ABSENT = Raw(b"null")


class Pair(Struct, gc=False, forbid_unknown_fields=True):
    """One attribute."""

    key: str
    value: Raw


class Event(Struct, gc=False, forbid_unknown_fields=True, rename="camel"):
    """One event of a span."""

    name: str = ""
    attributes: list[Pair] = []
    time_unix_nano: Raw = ABSENT
    dropped_attributes_count: Raw = ABSENT


class SpanStatus(Struct, gc=False, forbid_unknown_fields=True):
    """How a span ended."""

    code: int | str | None = None
    message: Raw = ABSENT


class SpanRecord(Struct, gc=False, forbid_unknown_fields=True, rename="camel"):
    """One span. The fields at the end are known and not read."""

    trace_id: str
    span_id: str
    parent_span_id: str = ""
    name: str = ""
    start_time_unix_nano: str | int = ""
    end_time_unix_nano: str | int = ""
    attributes: list[Pair] = []
    events: list[Event] = []
    status: SpanStatus | None = None
    kind: Raw = ABSENT
    flags: Raw = ABSENT
    links: Raw = ABSENT
    trace_state: Raw = ABSENT
    dropped_attributes_count: int = 0
    dropped_events_count: int = 0
    dropped_links_count: int = 0

    def otel_span(self, service: str, with_text: bool) -> OtelSpan:
        """The span of a service, with those of its attributes that its convention reads."""
        return typed_span(self, service, with_text, _json_values, _last_json_message)


class Scope(Struct, gc=False, forbid_unknown_fields=True, rename="camel"):
    """The spans of one instrumentation."""

    spans: list[SpanRecord]
    scope: Raw = ABSENT
    schema_url: Raw = ABSENT


class Resource(Struct, gc=False, forbid_unknown_fields=True, rename="camel"):
    """The spans of one program."""

    scope_spans: list[Scope]
    resource: Raw = ABSENT
    schema_url: Raw = ABSENT


class Document(Struct, gc=False, forbid_unknown_fields=True, rename="camel"):
    """What an exporter sends at once."""

    resource_spans: list[Resource]


_decode_document = Decoder(Document).decode
_decode = Decoder().decode


def typed_document(text: bytes) -> list[TypedSpan] | None:
    """The spans of a document of OTLP JSON; None where the text is not one by the letter."""
    if not BEGINNING.match(text):
        return None
    try:
        if not text.isascii():
            text.decode()  # what is passed over is looked at for its structure, not for its encoding
        return [
            partial(span.otel_span, service)
            for part in _decode_document(text).resource_spans
            for service in [_service_of_json(bytes(part.resource))]
            for scope in part.scope_spans
            for span in scope.spans
        ]
    except Exception:
        return None


@lru_cache(maxsize=256)
def _service_of_json(resource: bytes) -> str:
    return service_of(_decode(resource))


def _json_values(pairs: Sequence[Pair]) -> dict[str, Any]:
    values = {}
    for pair in pairs:
        if pair.key.startswith(LONG):
            values[pair.key] = _long_value(bytes(pair.value))
        else:
            values[pair.key] = attribute_value(_decode(pair.value))
    return values


@lru_cache(maxsize=256)
def _long_value(raw: bytes) -> Any:
    return attribute_value(_decode(raw))


def _last_json_message(value: Raw) -> Any:
    raw = bytes(value)
    if b'"stringValue"' not in raw[:20]:
        return attribute_value(_decode(raw))
    place = raw.rfind(rb"\"role\"")
    if place < 0:
        return ""
    return raw[place:].decode().replace('\\"', '"')

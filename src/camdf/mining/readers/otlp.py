"""OpenTelemetry spans in whatever form they are stored: OTLP JSON, the Python SDK's JSON, Phoenix, MLflow, Parquet."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from camdf.mining.readers.names import OPENINFERENCE_KINDS, OPENINFERENCE_MARK, OTEL_SPAN
from camdf.mining.readers.values import as_list, as_mapping, as_text, gate_decision, lookup, nanoseconds, structured


class OtelSpan(NamedTuple):
    """One OpenTelemetry span, before any convention is applied to its attributes."""

    trace_id: str
    span_id: str
    parent_id: str
    name: str
    start: int | None
    end: int | None
    error: str
    attributes: dict[str, Any]
    events: list[tuple[str, dict[str, Any]]]
    """Names and attributes, first one first."""


def parts(record: Any) -> Iterator[Any]:
    """The spans of an OTLP export, of a list or of a page of an API; a span by itself."""
    if isinstance(record, list):
        for each in record:
            yield from parts(each)
        return
    found = as_mapping(record)
    for key in ("resourceSpans", "resource_spans", "scopeSpans", "scope_spans", "spans", "data"):
        if isinstance(found.get(key), list):
            for each in found[key]:
                yield from parts(each) if key not in ("spans", "data") else [each]
            return
    yield record


def otel_span(part: Any) -> OtelSpan:
    """One span, under whichever names its record has for the fields."""
    record = as_mapping(part)
    columns = {key[11:]: each for key, each in record.items() if key.startswith("attributes.") and each is not None}
    attributes = {**_attributes(lookup(record, OTEL_SPAN, "attributes")), **columns}
    if as_text(lookup(record, OTEL_SPAN, "span_kind")) in OPENINFERENCE_KINDS:  # Phoenix keeps it beside the attributes
        attributes.setdefault(OPENINFERENCE_MARK, lookup(record, OTEL_SPAN, "span_kind"))
    events = _events(lookup(record, OTEL_SPAN, "events"), record)
    start, end = (nanoseconds(lookup(record, OTEL_SPAN, name)) for name in ("start", "end"))
    lasted = nanoseconds(lookup(record, OTEL_SPAN, "duration"))
    if end is None and start is not None and lasted is not None:
        end = start + lasted
    failed = re.search(r"^2$|error", as_text(lookup(record, OTEL_SPAN, "status")), flags=re.IGNORECASE)
    raised = next((as_text(event.get("exception.type")) for name, event in events if name == "exception"), "")
    return OtelSpan(
        trace_id=_hex(lookup(record, OTEL_SPAN, "trace_id")),
        span_id=_hex(lookup(record, OTEL_SPAN, "span_id")),
        parent_id=_hex(lookup(record, OTEL_SPAN, "parent_id")),
        name=as_text(lookup(record, OTEL_SPAN, "name")),
        start=start,
        end=end,
        error=(raised or "error") if failed else "",
        attributes=attributes,
        events=events,
    )


def common_columns(otel: OtelSpan) -> dict[str, Any]:
    """The columns that every convention leaves to OpenTelemetry, and a gate's decision."""
    decisions = [attributes for name, attributes in otel.events if name == "camdf.decision"]
    ids = {"trace_id": otel.trace_id, "span_id": otel.span_id, "parent_id": otel.parent_id}
    return {**ids, "start": otel.start, "end": otel.end, **gate_decision([*decisions, otel.attributes])}


def _events(value: Any, record: Mapping[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    if "Events.Name" in record:  # ClickHouse keeps a column for each part of the events
        pairs = zip(as_list(record["Events.Name"]), as_list(record.get("Events.Attributes")), strict=False)
        return [(as_text(name), _attributes(attributes)) for name, attributes in pairs]
    events = [as_mapping(event) for event in as_list(value)]
    names = ("name", "Name"), ("attributes", "Attributes")
    found = [tuple(event.get(low, event.get(high)) for low, high in names) for event in events]
    return [(as_text(name), _attributes(attributes)) for name, attributes in found]


def _attributes(value: Any) -> dict[str, Any]:
    pairs = structured(value)
    if isinstance(pairs, list) and all(isinstance(each, Mapping) and "key" in each for each in pairs):
        return {as_text(each["key"]): _native(each.get("value")) for each in pairs}
    return as_mapping(pairs)


def _native(value: Any) -> Any:
    """A typed value of OTLP JSON, `{"stringValue": ..}` and its kin, as a plain one."""
    if not isinstance(value, Mapping) or len(value) != 1:
        return value
    kind, inner = next(iter(value.items()))
    kind = str(kind).replace("_", "").lower()
    if kind == "arrayvalue":
        return [_native(each) for each in as_list(as_mapping(inner).get("values"))]
    if kind == "kvlistvalue":
        return _attributes(as_mapping(inner).get("values"))
    return int(inner) if kind == "intvalue" and re.fullmatch(r"-?\d{1,19}", str(inner)) else inner


def _hex(value: Any) -> str:
    """An id in hex: plain, with 0x before it, or in base64, as protobuf's JSON has it."""
    written = as_text(value)
    if written.endswith("="):  # first, as base64 too may begin with 0x
        try:
            written = base64.b64decode(written, validate=True).hex()
        except (binascii.Error, ValueError):
            return written
    written = written.removeprefix("0x")
    return "" if set(written) == {"0"} else written

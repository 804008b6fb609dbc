"""OpenTelemetry spans however they are kept: OTLP JSON, the Python SDK's JSON, Phoenix, MLflow, Parquet tables."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from camdf.mining.readers.names import OPENINFERENCE_KINDS, OPENINFERENCE_MARK, SPAN
from camdf.mining.readers.values import listed, lookup, mapping, nanoseconds, structured, text


class Step(NamedTuple):
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
    found = mapping(record)
    for key in ("resourceSpans", "resource_spans", "scopeSpans", "scope_spans", "spans", "data"):
        if isinstance(found.get(key), list):
            for each in found[key]:
                yield from parts(each) if key not in ("spans", "data") else [each]
            return
    yield record


def step(part: Any) -> Step:
    """The parts of a span, whatever their names."""
    record = mapping(part)
    columns = {key[11:]: each for key, each in record.items() if key.startswith("attributes.") and each is not None}
    attributes = {**_attributes(lookup(record, SPAN, "attributes")), **columns}
    if text(lookup(record, SPAN, "span_kind")) in OPENINFERENCE_KINDS:  # Phoenix keeps it beside the attributes
        attributes.setdefault(OPENINFERENCE_MARK, lookup(record, SPAN, "span_kind"))
    events = _events(lookup(record, SPAN, "events"), record)
    start, end = (nanoseconds(lookup(record, SPAN, name)) for name in ("start", "end"))
    lasted = nanoseconds(lookup(record, SPAN, "duration"))
    if end is None and start is not None and lasted is not None:
        end = start + lasted
    failed = re.search(r"^2$|error", text(lookup(record, SPAN, "status")), flags=re.IGNORECASE)
    raised = next((text(told.get("exception.type")) for name, told in events if name == "exception"), "")
    trace_id, span_id, parent_id = (_hex(lookup(record, SPAN, name)) for name in ("trace_id", "span_id", "parent_id"))
    name = text(lookup(record, SPAN, "name"))
    return Step(
        trace_id, span_id, parent_id, name, start, end, (raised or "error") if failed else "", attributes, events
    )


def _events(value: Any, record: Mapping[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    if "Events.Name" in record:  # ClickHouse keeps a column for each part of the events
        told = zip(listed(record["Events.Name"]), listed(record.get("Events.Attributes")), strict=False)
        return [(text(name), _attributes(attributes)) for name, attributes in told]
    events = [mapping(event) for event in listed(value)]
    names = ("name", "Name"), ("attributes", "Attributes")
    found = [tuple(event.get(low, event.get(high)) for low, high in names) for event in events]
    return [(text(name), _attributes(attributes)) for name, attributes in found]


def _attributes(value: Any) -> dict[str, Any]:
    pairs = structured(value)
    if isinstance(pairs, list) and all(isinstance(each, Mapping) and "key" in each for each in pairs):
        return {text(each["key"]): _native(each.get("value")) for each in pairs}
    return mapping(pairs)


def _native(value: Any) -> Any:
    """A typed value of OTLP JSON, `{"stringValue": ..}` and its kin, as a plain one."""
    if not isinstance(value, Mapping) or len(value) != 1:
        return value
    kind, inner = next(iter(value.items()))
    kind = str(kind).replace("_", "").lower()
    if kind == "arrayvalue":
        return [_native(each) for each in listed(mapping(inner).get("values"))]
    if kind == "kvlistvalue":
        return _attributes(mapping(inner).get("values"))
    return int(inner) if kind == "intvalue" and re.fullmatch(r"-?\d{1,19}", str(inner)) else inner


def _hex(value: Any) -> str:
    """An id in hex: as such, with 0x before it, or in base64, as protobuf's JSON has it."""
    told = text(value).removeprefix("0x")
    if told.endswith("="):
        try:
            told = base64.b64decode(told, validate=True).hex()
        except (binascii.Error, ValueError):
            return told
    return "" if set(told) == {"0"} else told

"""OpenTelemetry spans in whatever form they are stored: OTLP, the Python SDK's JSON, Phoenix, MLflow, Parquet.

OTLP comes as JSON (`otlp_json`) or as protobuf (`otlp_proto`), and both say the same of a span. Of its attributes only
those become values that its convention reads: what users and models wrote is passed over as bytes.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from camdf.gate.telemetry import EVENT
from camdf_traces.readers.names import (
    DECISION,
    OPENINFERENCE,
    OPENINFERENCE_KINDS,
    OPENINFERENCE_MARK,
    OTEL,
    OTEL_SPAN,
    PIECES,
    STEP,
    FieldNames,
)
from camdf_traces.readers.values import (
    Fields,
    as_list,
    as_mapping,
    as_text,
    as_whole,
    gate_decision,
    hands_over,
    nanoseconds,
    structured,
)

SPAN = Fields(OTEL_SPAN)
FAILED = re.compile(r"^2$|error", flags=re.IGNORECASE)
MARKS: FieldNames = {
    mark: (mark,)
    for mark in (OPENINFERENCE_MARK, "mlflow.spanType", "langfuse.observation.type", "langsmith.trace.name")
}
"""The attributes whose presence says that not the GenAI conventions hold but another."""

LONG = (*OTEL["offered"], *OPENINFERENCE["offered"])
"""How attributes begin that are long and the same in every call of an agent: the definitions of its tools."""

ASKED = f"{OPENINFERENCE['text'][0]}."
"""How attributes begin that hold nothing but text under a convention which is not GenAI's."""

ROLES = (".message.role", ".message.tool_call_id")
"""How those of them end that say who wrote a message."""

WITH_TEXT = Fields({**OTEL, **DECISION, **MARKS}).keys
TEXT = OTEL["text"]
WITHOUT_TEXT = {name: column for name, column in WITH_TEXT.items() if name not in TEXT}
"""The attributes that the GenAI conventions read, and those that show that another convention holds."""

OTHER_CONVENTIONS = Fields(MARKS).keys.keys()


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

    cut: bool = False
    """Whether the exporter left out attributes or events, so that a list may lack its end."""

    service: str = ""
    """The program that recorded it."""


TypedSpan: TypeAlias = Callable[[bool], OtelSpan]
"""A span of OTLP that was decoded by its schema: told whether text is wanted, it reads what its convention reads."""


def typed_span(
    record: Any,
    service: str,
    with_text: bool,
    values: Callable[[Sequence[Any]], dict[str, Any]],
    last_message: Callable[[Any], Any],
) -> OtelSpan:
    """A span of a service by the fields of OTLP's schema.

    `values` gives the values of some of its attributes by their names, and `last_message` of one with all messages of a
    request the last, which is all that says whether the request goes on with the result of a tool.
    """
    pairs = list(record.attributes)
    wanted = WITH_TEXT if with_text else WITHOUT_TEXT
    attributes = values([pair for pair in pairs if pair.key in wanted])
    if not with_text:
        attributes |= {pair.key: last_message(pair.value) for pair in pairs if pair.key in TEXT}
    if record.name == EVENT or not OTHER_CONVENTIONS.isdisjoint(attributes):
        # other conventions know attributes by their beginnings; that a message is there says where a request ends
        words = set() if with_text else {pair.key for pair in pairs if _is_words(pair.key)}
        attributes = dict.fromkeys(words, "") | values([pair for pair in pairs if pair.key not in words])
    span = otel_span_of(
        record.trace_id,
        record.span_id,
        record.parent_span_id,
        record.name,
        record.start_time_unix_nano,
        record.end_time_unix_nano,
        record.status and record.status.code,
        attributes,
        [(event.name, values(event.attributes)) for event in record.events],
    )
    dropped = record.dropped_attributes_count or record.dropped_events_count or record.dropped_links_count
    return span._replace(cut=bool(dropped), service=service)


def _is_words(key: str) -> bool:
    """Whether an attribute holds what was asked, and not who asked it."""
    return key.startswith(ASKED) and not key.endswith(ROLES)


DROPPED = ("dropped_attributes", "dropped_events", "dropped_links")


def parts(record: Any, resource: Any = None) -> Iterator[Any]:
    """The spans of an OTLP export, of a list or of a page of an API, each with its resource; a span by itself."""
    if isinstance(record, list):
        for part in record:
            if callable(part):
                yield part
            else:
                yield from parts(part)
        return
    fields = as_mapping(record)
    resource = fields.get("resource", resource)
    for key in ("resourceSpans", "resource_spans", "scopeSpans", "scope_spans", "spans", "data"):
        if isinstance(fields.get(key), list):
            for part in fields[key]:
                if key not in ("spans", "data"):
                    yield from parts(part, resource)
                elif resource and isinstance(part, dict):
                    yield {"resource": resource, **part}
                else:
                    yield part
            return
    yield record


def otel_span(part: Any, with_text: bool = True) -> OtelSpan:
    """One span, under whichever names its record has for the fields."""
    if callable(part):
        typed: TypedSpan = part
        return typed(with_text)
    record = as_mapping(part)
    fields = SPAN.values_in(record)
    columns = {key[11:]: value for key, value in record.items() if key.startswith("attributes.") and value is not None}
    attributes = {**_plain_attributes(fields["attributes"]), **columns}
    if as_text(fields["span_kind"]) in OPENINFERENCE_KINDS:  # Phoenix keeps it beside the attributes
        attributes.setdefault(OPENINFERENCE_MARK, fields["span_kind"])
    span = otel_span_of(
        fields["trace_id"],
        fields["span_id"],
        fields["parent_id"],
        fields["name"],
        fields["start"],
        fields["end"],
        fields["status"],
        attributes,
        _named_events(fields["events"], record),
    )
    service = as_text(fields["service"]) or service_of(fields["resource"])
    span = span._replace(cut=any(as_whole(fields[name]) for name in DROPPED), service=service)
    lasted = nanoseconds(fields["duration"])
    if span.end is None and span.start is not None and lasted is not None:
        return span._replace(end=span.start + lasted)
    return span


def otel_span_of(
    trace_id: Any,
    span_id: Any,
    parent_id: Any,
    name: Any,
    start: Any,
    end: Any,
    status: Any,
    attributes: dict[str, Any],
    events: list[tuple[str, dict[str, Any]]],
) -> OtelSpan:
    """A span from the values of its fields, as they are written."""
    error = ""
    if status is not None and FAILED.search(as_text(status)):
        raised = (as_text(event.get("exception.type")) for name, event in events if name == "exception")
        error = next(raised, "") or "error"
        if hands_over(error):
            error = ""
    return OtelSpan(
        _id_in_hex(trace_id),
        _id_in_hex(span_id),
        _id_in_hex(parent_id),
        as_text(name),
        nanoseconds(start),
        nanoseconds(end),
        error,
        attributes,
        events,
    )


def common_columns(otel: OtelSpan) -> dict[str, Any]:
    """The columns that every convention leaves to OpenTelemetry, and a gate's decision."""
    decisions = [attributes for name, attributes in otel.events if name == EVENT]
    if otel.name == EVENT:
        decisions += _told_by_a_step(otel.attributes)
    return {
        "trace_id": otel.trace_id,
        "span_id": otel.span_id,
        "parent_id": otel.parent_id,
        "start": otel.start,
        "end": otel.end,
        "service": otel.service,
        **gate_decision([*decisions, otel.attributes]),
    }


def service_of(resource: Any) -> str:
    """The name of the program that a resource of OpenTelemetry describes; "" where it has none."""
    return as_text(_plain_attributes(as_mapping(resource).get("attributes")).get("service.name"))


def _told_by_a_step(attributes: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What the attributes of a step that is a decision hold: as a whole under one name, or in pieces."""
    pieces = {name.removeprefix(PIECES): value for name, value in attributes.items() if name.startswith(PIECES)}
    return [pieces, *(as_mapping(attributes.get(name)) for name in STEP)]


def _named_events(value: Any, record: Mapping[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    if "Events.Name" in record:  # ClickHouse keeps a column for each part of the events
        pairs = zip(as_list(record["Events.Name"]), as_list(record.get("Events.Attributes")), strict=False)
        return [(as_text(name), _plain_attributes(attributes)) for name, attributes in pairs]
    events = [as_mapping(event) for event in as_list(value)]
    return [
        (
            as_text(event.get("name", event.get("Name"))),
            _plain_attributes(event.get("attributes", event.get("Attributes"))),
        )
        for event in events
    ]


def _plain_attributes(value: Any) -> dict[str, Any]:
    pairs = structured(value)
    if isinstance(pairs, list) and all(isinstance(pair, dict) and "key" in pair for pair in pairs):
        return {as_text(pair["key"]): attribute_value(pair.get("value")) for pair in pairs}
    return as_mapping(pairs)


def attribute_value(value: Any) -> Any:
    """A typed value of OTLP JSON, `{"stringValue": ..}` and its kin, as a plain one."""
    if type(value) is not dict or len(value) != 1:
        return value
    ((kind, inner),) = value.items()
    if kind == "stringValue":
        return inner
    if kind == "intValue" and type(inner) is str and inner.isdigit() and inner.isascii() and len(inner) < 20:
        return int(inner)
    kind = str(kind).replace("_", "").lower()
    if kind == "arrayvalue":
        return [attribute_value(item) for item in as_list(as_mapping(inner).get("values"))]
    if kind == "kvlistvalue":
        return _plain_attributes(as_mapping(inner).get("values"))
    if kind == "intvalue" and re.fullmatch(r"-?\d{1,19}", str(inner)):
        return int(inner)
    return inner


def _id_in_hex(value: Any) -> str:
    """An id in hex: plain, as bytes, with 0x before it, or in base64, as protobuf's JSON has it."""
    if type(value) is str and value.isalnum() and value.isascii() and value[0] != "0":
        return value
    written = value.hex() if isinstance(value, bytes) else as_text(value)
    if written.endswith("="):  # first, as base64 too may begin with 0x
        try:
            written = base64.b64decode(written, validate=True).hex()
        except (binascii.Error, ValueError):
            return written
    written = written.removeprefix("0x")
    if not written.strip("0"):
        return ""
    return written

"""What the Collector's ClickHouse exporter and Langfuse make of traces: rows of their tables.

The tables are those of the exporter in opentelemetry-collector-contrib and of the migrations of Langfuse, both as of
September 2026, with the columns that hold spans and without their indexes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any

from camdf_traces.readers.otlp import attribute_value

STATUS = ("Unset", "Ok", "Error")

OTEL_TRACES = """
CREATE TABLE {database}.{table} (
  Timestamp DateTime64(9), TraceId String, SpanId String, ParentSpanId String, TraceState String,
  SpanName LowCardinality(String), SpanKind LowCardinality(String), ServiceName LowCardinality(String),
  ResourceAttributes Map(LowCardinality(String), String), ScopeName String, ScopeVersion String,
  SpanAttributes Map(LowCardinality(String), String), Duration UInt64,
  StatusCode LowCardinality(String), StatusMessage String,
  Events Nested (
    Timestamp DateTime64(9), Name LowCardinality(String), Attributes Map(LowCardinality(String), String)
  )
) ENGINE = MergeTree PARTITION BY toDate(Timestamp)
ORDER BY (ServiceName, SpanName, toDateTime(Timestamp), Timestamp)
"""


def rows_of(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The rows of a document of OTLP JSON, to be inserted as JSON lines."""
    for resource in document["resourceSpans"]:
        of_resource = plain(resource.get("resource", {}).get("attributes", []))
        for scope in resource["scopeSpans"]:
            for span in scope["spans"]:
                start = int(span["startTimeUnixNano"])
                events = span.get("events", [])
                yield {
                    "Timestamp": in_nanoseconds(start),
                    "TraceId": span["traceId"],
                    "SpanId": span["spanId"],
                    "ParentSpanId": span.get("parentSpanId", ""),
                    "SpanName": span["name"],
                    "ServiceName": of_resource.get("service.name", ""),
                    "ResourceAttributes": in_words(of_resource),
                    "ScopeName": scope.get("scope", {}).get("name", ""),
                    "SpanAttributes": in_words(plain(span.get("attributes", []))),
                    "Duration": int(span.get("endTimeUnixNano", start)) - start,
                    "StatusCode": STATUS[status_of(span)],
                    "StatusMessage": span.get("status", {}).get("message", ""),
                    "Events.Timestamp": [in_nanoseconds(int(event.get("timeUnixNano", 0))) for event in events],
                    "Events.Name": [event["name"] for event in events],
                    "Events.Attributes": [in_words(plain(event.get("attributes", []))) for event in events],
                }


def status_of(span: dict[str, Any]) -> int:
    """A status is a number or, in the JSON of some libraries, its name."""
    code = span.get("status", {}).get("code", 0)
    return {"STATUS_CODE_OK": 1, "STATUS_CODE_ERROR": 2}.get(code, 0) if isinstance(code, str) else int(code)


def plain(attributes: list[dict[str, Any]]) -> dict[str, Any]:
    return {pair["key"]: attribute_value(pair.get("value")) for pair in attributes}


def in_words(attributes: dict[str, Any]) -> dict[str, str]:
    """Every value as a string, as the Collector writes it into a map; a value that says nothing is empty."""
    given = {key: "" if value == {} else value for key, value in attributes.items()}
    return {key: value if isinstance(value, str) else json.dumps(value) for key, value in given.items()}


def in_nanoseconds(time: int) -> str:
    """A time as ClickHouse reads it, to the nanosecond."""
    return f"{datetime.fromtimestamp(time // 10**9, UTC):%Y-%m-%d %H:%M:%S}.{time % 10**9:09}"


LANGFUSE_TABLES = {
    "observations": """
CREATE TABLE {database}.observations (
  id String, trace_id String, project_id String, type LowCardinality(String), parent_observation_id Nullable(String),
  start_time DateTime64(3), end_time Nullable(DateTime64(3)), name String,
  metadata Map(LowCardinality(String), String), level LowCardinality(String), status_message Nullable(String),
  input Nullable(String), output Nullable(String), provided_model_name Nullable(String),
  usage_details Map(LowCardinality(String), UInt64), event_ts DateTime64(3), is_deleted UInt8,
  tool_definitions Map(String, String) DEFAULT map(), tool_calls Array(String) DEFAULT [],
  tool_call_names Array(String) DEFAULT []
) ENGINE = ReplacingMergeTree(event_ts, is_deleted) PARTITION BY toYYYYMM(start_time)
PRIMARY KEY (project_id, `type`, toDate(start_time)) ORDER BY (project_id, `type`, toDate(start_time), id)
""",
    "traces": """
CREATE TABLE {database}.traces (
  id String, timestamp DateTime64(3), name String, user_id Nullable(String), project_id String,
  session_id Nullable(String), event_ts DateTime64(3), is_deleted UInt8
) ENGINE = ReplacingMergeTree(event_ts, is_deleted) PARTITION BY toYYYYMM(timestamp)
PRIMARY KEY (project_id, toDate(timestamp)) ORDER BY (project_id, toDate(timestamp), id)
""",
    "scores": """
CREATE TABLE {database}.scores (
  id String, timestamp DateTime64(3), project_id String, trace_id Nullable(String), observation_id Nullable(String),
  name String, value Float64, source String, data_type String, string_value Nullable(String),
  event_ts DateTime64(3), is_deleted UInt8
) ENGINE = ReplacingMergeTree(event_ts, is_deleted) PARTITION BY toYYYYMM(timestamp)
PRIMARY KEY (project_id, toDate(timestamp), name) ORDER BY (project_id, toDate(timestamp), name, id)
""",
    "events_full": """
CREATE TABLE {database}.events_full (
  project_id String, trace_id String, span_id String, parent_span_id String, start_time DateTime64(6),
  end_time Nullable(DateTime64(6)), name String, type LowCardinality(String), user_id String, session_id String,
  level LowCardinality(String), status_message String, provided_model_name String,
  usage_details Map(LowCardinality(String), UInt64), tool_definitions Map(String, String), tool_calls Array(String),
  tool_call_names Array(String), input String, output String, metadata_names Array(String),
  metadata_values Array(String), service_name String, event_ts DateTime64(6), is_deleted UInt8
) ENGINE = ReplacingMergeTree(event_ts, is_deleted) PARTITION BY toYYYYMM(start_time)
PRIMARY KEY (project_id, toStartOfMinute(start_time), xxHash32(trace_id))
ORDER BY (project_id, toStartOfMinute(start_time), xxHash32(trace_id), span_id, start_time)
""",
}


def inserted(table: str, rows: Iterable[dict[str, Any]]) -> str:
    """The statement that puts rows into a table."""
    lines = "\n".join(json.dumps(row) for row in rows)
    return f"INSERT INTO {table} FORMAT JSONEachRow\n{lines}"

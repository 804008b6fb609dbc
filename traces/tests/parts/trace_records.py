"""Records of traces as OpenTelemetry, LangSmith and Langfuse write them."""

from __future__ import annotations

from typing import Any

TRACE, AGENT, MODEL, TOOL = (
    "5b8efff798038103d269b633813fc60c",
    "aaaaaaaaaaaaaaaa",
    "bbbbbbbbbbbbbbbb",
    "cccccccccccccccc",
)


def typed(value: Any) -> dict[str, Any]:
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, float):
        return {"doubleValue": value}
    if isinstance(value, list):
        return {"arrayValue": {"values": list(map(typed, value))}}
    if isinstance(value, dict):
        return {"kvlistValue": {"values": attributes(value)}}
    return {"stringValue": value}


def attributes(told: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"key": key, "value": typed(value)} for key, value in told.items()]


def otlp_span(span_id: str, told: dict[str, Any], **more: Any) -> dict[str, Any]:
    times = {"startTimeUnixNano": "1700000000000000001", "endTimeUnixNano": "1700000001000000001"}
    return {"traceId": TRACE, "spanId": span_id, "name": "a span", **times, "attributes": attributes(told), **more}


def otlp(*found: dict[str, Any]) -> dict[str, Any]:
    return {"resourceSpans": [{"resource": {}, "scopeSpans": [{"scope": {"name": "x"}, "spans": list(found)}]}]}


def run(run_type: str, name: str, **more: Any) -> dict[str, Any]:
    """A run in LangSmith's documented data format. `session_id` is the project."""
    ids = {"id": f"{run_type}-1", "trace_id": "chain-1", "parent_run_id": "chain-1", "session_id": "project-1"}
    times = {"start_time": "2026-01-01T00:00:00", "end_time": "2026-01-01T00:00:01.5+00:00"}
    return {**ids, "name": name, "run_type": run_type, **times, "inputs": {}, "outputs": {}, "error": None, **more}


def langchain_message(kind: str, **told: Any) -> dict[str, Any]:
    return {"lc": 1, "type": "constructor", "id": ["langchain", "schema", kind], "kwargs": {"type": kind, **told}}


def observation(kind: str, name: str, **more: Any) -> dict[str, Any]:
    """An observation with the fields of Langfuse's API."""
    ids = {"id": f"{kind}-1", "traceId": "trace-1", "parentObservationId": "AGENT-1"}
    times = {"startTime": "2026-01-01T00:00:00.000Z", "endTime": "2026-01-01T00:00:01.500Z"}
    return {**ids, "type": kind, "name": name, **times, "level": "DEFAULT", "input": None, "output": None, **more}

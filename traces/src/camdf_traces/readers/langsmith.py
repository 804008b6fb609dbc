"""LangSmith runs: of its API, its SDK and its bulk export, a dict or a row of Parquet, and as OpenTelemetry spans."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from camdf_traces.readers.messages import ends_with_a_result, requested_columns, tool_names, user_text
from camdf_traces.readers.names import LANGSMITH, LANGSMITH_SPAN
from camdf_traces.readers.otlp import OtelSpan
from camdf_traces.readers.steps import kind_of_chain, reported_error, tool_that_ran
from camdf_traces.readers.values import (
    Fields,
    as_list,
    as_mapping,
    as_text,
    checked_span,
    error_type,
    gate_decision,
    hands_over,
    lookup,
    nanoseconds,
    outcome,
    structured,
)
from camdf_traces.spans import Span

MARK = "langsmith.trace.name"
KINDS = {"llm": "model", "tool": "tool"}
MILLISECOND = 1_000_000
COLUMNS = Fields(LANGSMITH)
SPAN = Fields(LANGSMITH_SPAN)
PIECE = "langsmith.metadata."
"""What its OpenTelemetry writes before each piece of the metadata."""


def parts(record: Any) -> Iterator[Any]:
    """Runs: of a list, of a page of the API, and the children that a run may hold."""
    if isinstance(record, list):
        for part in record:
            yield from parts(part)
        return
    fields = as_mapping(record)
    if isinstance(fields.get("runs"), list):
        yield from parts(fields["runs"])
        return
    yield record
    for child in as_list(fields.get("child_runs")):
        yield from parts(child)


def span(part: Any, with_text: bool = True) -> Span:
    """One run."""
    record = as_mapping(part)
    fields = COLUMNS.values_in(record)
    return checked_span(
        trace_id=fields["trace_id"] or fields["span_id"],
        span_id=fields["span_id"],
        parent_id=fields["parent_id"],
        start=nanoseconds(fields["start"], MILLISECOND),
        end=nanoseconds(fields["end"], MILLISECOND),
        success=outcome(
            (name, as_mapping(rating).get("avg")) for name, rating in as_mapping(fields["success"]).items()
        ),
        **_run_columns(record, fields, with_text),
    )


def convention_columns(otel: OtelSpan, with_text: bool) -> dict[str, Any]:
    """The columns that a span of LangSmith's own OpenTelemetry gives: it is a run under other names."""
    run = SPAN.values_in(otel.attributes)
    run |= {name: _inputs_or_outputs(run[name]) for name in ("inputs", "outputs")}
    pieces = {name: value for name, value in otel.attributes.items() if name.startswith(PIECE)}
    run["extra"] = {
        "metadata": {name.removeprefix(PIECE): value for name, value in pieces.items()},
        "invocation_params": {"tools": run.pop("tools")},
        "tool_call_id": run.pop("tool_call_id"),
    }
    # LangSmith sets the status OK when a run begins, and OpenTelemetry keeps it if the run fails.
    raised = [event.get("exception.message") for name, event in otel.events if name == "exception"]
    run |= {"parent_run_id": otel.parent_id, "error": next(filter(None, raised), otel.error)}
    return _run_columns(run, COLUMNS.values_in(run), with_text)


def _inputs_or_outputs(value: Any) -> Any:
    """An object. LangSmith before 0.14.3 wrote JSON as bytes, which every export has in base64."""
    if isinstance(value, str) and value.startswith("e"):  # as the brace of an object does
        with suppress(ValueError):
            return structured(b64decode(value, validate=True).decode())
    return structured(value)


def _run_columns(record: dict[str, Any], fields: dict[str, Any], with_text: bool) -> dict[str, Any]:
    """The columns that a run gives by itself, without its ids, its times and its ratings."""
    kind = KINDS.get(as_text(fields["kind"])) or ("agent" if _is_agent(record) else "other")
    columns: dict[str, Any] = {
        "kind": kind,
        "name": as_text(fields["name"]),
        "conversation": fields["conversation"],
        "user": fields["user"],
        "error": _error_of_run(record, kind, fields["error"]),
        **gate_decision([as_mapping(as_mapping(record.get("extra")).get("metadata"))]),
    }
    if kind == "model":
        columns["name"] = as_text(fields["model"]) or columns["name"]
        columns["offered"] = tool_names(fields["offered"])
        columns |= requested_columns(fields["requested"])
        columns["continues"] = ends_with_a_result(structured(fields["text"]))
        columns |= {name: fields[name] for name in ("input_tokens", "cached_tokens", "output_tokens")}
    elif kind == "tool":
        columns["name"] = tool_that_ran(fields["name"], fields["text"])
        columns["call_id"] = fields["call_id"]
    if with_text and kind in ("agent", "model"):
        columns["text"] = user_text(fields["text"])
    return columns


def _is_agent(record: dict[str, Any]) -> bool:
    """The top of a trace, or a chain below it that LangChain or OpenAI Agents made for an agent."""
    extra = as_mapping(record.get("extra"))
    metadata = as_mapping(extra.get("metadata"))
    described = as_mapping(extra.get("invocation_params"))
    if "handoffs" in described or described.get("tools"):  # so OpenAI Agents describe an agent
        return True
    is_top = not lookup(record, LANGSMITH, "parent_id")
    return is_top or kind_of_chain("other", record.get("name"), metadata) == "agent"


def _error_of_run(record: dict[str, Any], kind: str, error: Any) -> str:
    if hands_over(error):
        return ""
    if error:
        return error_type(error)
    if record.get("status") == "error":
        return "error"
    if kind == "tool":
        return reported_error(record.get("outputs"))
    return ""

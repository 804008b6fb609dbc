"""MLflow traces, the output of `Trace.to_json`: an info and spans whose attributes are JSON strings."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from camdf_traces.readers.messages import ends_with_a_result, requested_columns, tool_names, user_text
from camdf_traces.readers.names import MLFLOW
from camdf_traces.readers.otlp import OtelSpan, common_columns, otel_span
from camdf_traces.readers.steps import kind_of_chain, reported_error, tool_that_ran
from camdf_traces.readers.values import Fields, as_list, as_mapping, as_text, checked_span, lookup, outcome, parsed_json
from camdf_traces.spans import Span

MARK = "mlflow.spanType"
COLUMNS = Fields(MLFLOW)
KINDS = {"AGENT": "agent", "CHAT_MODEL": "model", "LLM": "model", "TOOL": "tool"}


def parts(record: Any) -> Iterator[Any]:
    """The spans of one trace or a list of them, each with the info of its trace."""
    if isinstance(record, list):
        for part in record:
            yield from parts(part)
        return
    fields = as_mapping(record)
    bare = {key: fields.get(key) for key in ("trace_id", "trace_metadata", "assessments")}
    info = as_mapping(fields.get("info") or bare)
    spans = as_list(as_mapping(fields.get("data")).get("spans")) or as_list(fields.get("spans"))
    for part in spans:
        yield {"span": part, "info": info}
    if not spans:
        yield {"span": record, "info": {}}


def span(part: Any, with_text: bool = True) -> Span:
    """One span of a trace; the outcome of the trace is that of its agents and of its top."""
    info = as_mapping(part["info"])
    otel = otel_span(part["span"])
    columns = common_columns(otel) | convention_columns(otel, with_text)
    columns["trace_id"] = as_text(info.get("trace_id") or info.get("request_id")).removeprefix("tr-") or otel.trace_id
    for name in ("conversation", "user"):
        columns[name] = lookup(as_mapping(info.get("trace_metadata")), MLFLOW, name) or columns[name]
    if columns["kind"] == "agent" or not otel.parent_id:
        columns["success"] = outcome(map(_assessment, as_list(lookup(info, MLFLOW, "success"))))
    return checked_span(**columns)


def convention_columns(otel: OtelSpan, with_text: bool) -> dict[str, Any]:
    """The columns that MLflow's attributes give."""
    attributes = {name: parsed_json(value) for name, value in otel.attributes.items()}
    fields = COLUMNS.values_in(attributes)
    kind = KINDS.get(as_text(fields["kind"]).upper(), "other")
    kind = kind_of_chain(kind, otel.name, fields["metadata"])
    columns: dict[str, Any] = {
        "kind": kind,
        "name": otel.name,
        "conversation": fields["conversation"],
        "user": fields["user"],
        "error": otel.error,
        "call_id": fields["call_id"],
    }
    if kind == "model":
        columns["name"] = as_text(fields["model"]) or otel.name
        columns["offered"] = tool_names(_offered_definitions(fields["offered"]))
        columns |= requested_columns(fields["requested"])
        columns["continues"] = ends_with_a_result(fields["text"])
        columns |= {name: fields[name] for name in ("input_tokens", "cached_tokens", "output_tokens")}
    elif kind == "tool":
        columns["name"] = tool_that_ran(as_text(fields["tool"]) or otel.name, fields["text"])
        columns["error"] = otel.error or reported_error(fields["requested"])
    if with_text and kind in ("agent", "model"):
        columns["text"] = user_text(fields["text"])
    return columns


def _offered_definitions(offered: Any) -> Any:
    """A list, or the tools among the arguments of a model's call; pydantic-ai keeps them one level down."""
    if isinstance(offered, list):
        return offered
    inputs = as_mapping(offered)
    return inputs.get("tools") or as_mapping(inputs.get("model_request_parameters")).get("function_tools")


def _assessment(value: Any) -> tuple[Any, Any]:
    assessment = as_mapping(value)
    name = assessment.get("assessment_name") or assessment.get("name")
    return name, as_mapping(assessment.get("feedback")).get("value")

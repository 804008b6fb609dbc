"""OpenTelemetry spans under the GenAI conventions: their newer attributes and their older events.

Spans that carry the attributes of OpenInference, MLflow, Langfuse or LangSmith are read by those conventions.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from camdf_traces.readers import langfuse, langsmith, mlflow, openinference
from camdf_traces.readers.messages import ends_with_a_result, requested_columns, tool_names, user_text
from camdf_traces.readers.names import OTEL
from camdf_traces.readers.otlp import MARKS, OtelSpan, common_columns, otel_span, parts
from camdf_traces.readers.steps import kind_of_chain, reported_error, tool_that_ran
from camdf_traces.readers.values import Fields, as_mapping, as_text, checked_span, hands_over, outcome, structured
from camdf_traces.spans import Span

__all__ = ["convention_columns", "parts", "span"]

KINDS = {
    "invoke_agent": "agent",
    "execute_tool": "tool",
    "tools/call": "tool",
    "chat": "model",
    "text_completion": "model",
    "generate_content": "model",
}
COLUMNS = Fields(OTEL)
OTHERS = Fields(MARKS)
CONVENTIONS = {convention.MARK: convention for convention in (openinference, mlflow, langfuse, langsmith)}


def span(part: Any, with_text: bool = True) -> Span:
    """One span, by the convention whose mark it carries, else by the GenAI conventions."""
    otel = otel_span(part, with_text)
    columns = common_columns(otel) | _columns_by_its_convention(otel, with_text)
    if otel.cut:
        columns["offered"] = ()  # a part of an offer is none
    return checked_span(**columns)


def _columns_by_its_convention(otel: OtelSpan, with_text: bool) -> dict[str, Any]:
    if not OTHERS.keys.keys().isdisjoint(otel.attributes):
        for mark, value in OTHERS.values_in(otel.attributes).items():
            if value:
                columns: dict[str, Any] = CONVENTIONS[mark].convention_columns(otel, with_text)
                return columns
    return convention_columns(otel, with_text)


def convention_columns(otel: OtelSpan, with_text: bool) -> dict[str, Any]:
    """The columns that the GenAI conventions give."""
    attributes = otel.attributes
    for name, details in otel.events:
        if name == "gen_ai.client.inference.operation.details":
            attributes = {**details, **attributes}
    fields = COLUMNS.values_in(attributes)
    kind = KINDS.get(as_text(fields["kind"]), "other")
    if fields["chain"] is not None:
        kind = kind_of_chain(kind, fields["chain"], fields)
        if kind == "other":
            return _step_of_a_chain(otel, fields)
    columns: dict[str, Any] = {
        "kind": kind,
        "name": tool_that_ran(fields.get(kind), fields["arguments"]) or otel.name,
        "conversation": fields["conversation"],
        "user": fields["user"],
        "call_id": fields["call_id"],
        "error": otel.error,
        "success": outcome(_grades(otel.events)),
    }
    if fields["error"] is not None and not hands_over(fields["error"]):
        columns["error"] = as_text(fields["error"]) or otel.error
    if kind == "tool":
        columns["error"] = columns["error"] or reported_error(fields["answer"])
    answers = tool_names(fields["answers"])
    if kind == "model":
        columns |= requested_columns(fields["requested"], _choices(otel.events), without=answers)
        columns["continues"] = ends_with_a_result(fields["text"])
        columns |= {name: fields[name] for name in ("input_tokens", "cached_tokens", "output_tokens")}
    if kind in ("agent", "model"):
        columns["offered"] = tuple(name for name in tool_names(fields["offered"]) if name not in answers)
        if with_text:
            columns["text"] = user_text(fields["text"]) or _text_of_events(otel.events)
    return columns


def _step_of_a_chain(otel: OtelSpan, fields: dict[str, Any]) -> dict[str, Any]:
    """A step that Traceloop records without the GenAI conventions: of LlamaIndex, its tools and its requests."""
    output = as_mapping(fields["chain_output"])
    if output.keys() >= {"tool_name", "raw_output"}:
        return {"kind": "tool", "name": output["tool_name"], "error": otel.error or reported_error(output)}
    return {"kind": "other", "name": otel.name, "error": otel.error, "offered": tool_names(output.get("tools"))}


def _grades(events: list[tuple[str, dict[str, Any]]]) -> Iterator[tuple[Any, Any]]:
    """The names of evaluations, with what each says: a label, else a number."""
    for name, event in events:
        if name == "gen_ai.evaluation.result":
            number = event.get("gen_ai.evaluation.score.value")
            label = event.get("gen_ai.evaluation.score.label")
            yield event.get("gen_ai.evaluation.name"), number if label is None else label


def _choices(events: list[tuple[str, dict[str, Any]]]) -> list[dict[str, Any]]:
    return [_with_body(event) for name, event in events if name == "gen_ai.choice"]


def _text_of_events(events: list[tuple[str, dict[str, Any]]]) -> str:
    messages = [{"role": "user", **_with_body(event)} for name, event in events if name == "gen_ai.user.message"]
    return user_text(messages)


def _with_body(event: dict[str, Any]) -> dict[str, Any]:
    body = as_mapping(event.get("body") or event.get("event_body"))
    return {**event, **body, "message": structured(event.get("message"))}

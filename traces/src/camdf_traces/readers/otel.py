"""OpenTelemetry spans under the GenAI conventions: their newer attributes and their older events.

Spans that carry the attributes of OpenInference, MLflow, Langfuse or LangSmith are read by those conventions.
"""

from __future__ import annotations

from collections.abc import Mapping
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
    columns = common_columns(otel) | _convention(otel, with_text)
    return checked_span(**columns | ({"offered": ()} if otel.cut else {}))  # a part of an offer is none


def _convention(otel: OtelSpan, with_text: bool) -> dict[str, Any]:
    if not OTHERS.keys.keys().isdisjoint(otel.attributes):
        for mark, value in OTHERS.of(otel.attributes).items():
            if value:
                columns: dict[str, Any] = CONVENTIONS[mark].convention_columns(otel, with_text)
                return columns
    return convention_columns(otel, with_text)


def convention_columns(otel: OtelSpan, with_text: bool) -> dict[str, Any]:
    """The columns that the GenAI conventions give."""
    attributes, events = otel.attributes, otel.events
    for name, details in events:
        if name == "gen_ai.client.inference.operation.details":
            attributes = {**details, **attributes}
    fields = COLUMNS.of(attributes)
    kind = KINDS.get(as_text(fields["kind"]), "other")
    if fields["chain"] is not None:
        kind = kind_of_chain(kind, fields["chain"], fields)
        if kind == "other":
            return _step_of_a_chain(otel, fields)
    answers = tool_names(fields["answers"]) if fields["answers"] else ()
    if kind == "model":
        fields |= requested_columns(fields["requested"], _choices(events), without=answers)
    else:
        fields |= dict.fromkeys(("requested", "request_ids", "input_tokens", "cached_tokens", "output_tokens"))
    offered = tool_names(fields["offered"]) if kind in ("agent", "model") else ()
    error = "" if fields["error"] is None or hands_over(fields["error"]) else as_text(fields["error"])
    graded = [event for name, event in events if name == "gen_ai.evaluation.result"]
    return {
        "conversation": fields["conversation"],
        "user": fields["user"],
        "call_id": fields["call_id"],
        "continues": ends_with_a_result(fields["text"]) if kind == "model" else None,
        "requested": fields["requested"],
        "request_ids": fields["request_ids"],
        "input_tokens": fields["input_tokens"],
        "cached_tokens": fields["cached_tokens"],
        "output_tokens": fields["output_tokens"],
        "kind": kind,
        "name": tool_that_ran(fields.get(kind), fields["arguments"]) or otel.name,
        "error": error or otel.error or (reported_error(fields["answer"]) if kind == "tool" else ""),
        "offered": tuple(name for name in offered if name not in answers) if answers else offered,
        "text": user_text(fields["text"]) or _prompt(events) if with_text and kind in ("agent", "model") else "",
        "success": outcome((event.get("gen_ai.evaluation.name"), _score(event)) for event in graded)
        if graded
        else None,
    }


def _step_of_a_chain(otel: OtelSpan, fields: dict[str, Any]) -> dict[str, Any]:
    """A step that Traceloop records without the GenAI conventions: of LlamaIndex, its tools and its requests."""
    output = as_mapping(fields["chain_output"])
    if output.keys() >= {"tool_name", "raw_output"}:
        return {"kind": "tool", "name": output["tool_name"], "error": otel.error or reported_error(output)}
    return {"kind": "other", "name": otel.name, "error": otel.error, "offered": tool_names(output.get("tools"))}


def _score(event: Mapping[str, Any]) -> Any:
    label = event.get("gen_ai.evaluation.score.label")
    return event.get("gen_ai.evaluation.score.value") if label is None else label


def _choices(events: list[tuple[str, dict[str, Any]]]) -> list[dict[str, Any]]:
    return [_body(event) for name, event in events if name == "gen_ai.choice"]


def _prompt(events: list[tuple[str, dict[str, Any]]]) -> str:
    messages = [{"role": "user", **_body(event)} for name, event in events if name == "gen_ai.user.message"]
    return user_text(messages)


def _body(event: dict[str, Any]) -> dict[str, Any]:
    body = as_mapping(event.get("body") or event.get("event_body"))
    return {**event, **body, "message": structured(event.get("message"))}

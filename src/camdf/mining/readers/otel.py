"""OpenTelemetry spans under the GenAI conventions: their newer attributes and their older events.

Spans that carry the attributes of OpenInference, MLflow or Langfuse are read by those conventions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from camdf.mining.readers.messages import asked, requested, tool_names
from camdf.mining.readers.names import OTEL
from camdf.mining.readers.otlp import Step, parts, step
from camdf.mining.readers.values import decision, lookup, mapping, outcome, structured, text
from camdf.mining.readers.values import span as checked
from camdf.mining.spans import Span

__all__ = ["common", "fields", "parts", "span"]

KINDS = {
    "invoke_agent": "agent",
    "execute_tool": "tool",
    "chat": "model",
    "text_completion": "model",
    "generate_content": "model",
}


def span(part: Any) -> Span:
    """One span."""
    from camdf.mining.readers import langfuse, mlflow, openinference

    taken = step(part)
    for convention in (openinference, mlflow, langfuse):
        if lookup(taken.attributes, {"mark": (convention.MARK,)}, "mark"):
            return checked(**common(taken), **convention.fields(taken))
    return checked(**common(taken), **fields(taken))


def common(taken: Step) -> dict[str, Any]:
    """What every convention leaves to OpenTelemetry, and a gate's decision."""
    told = [attributes for name, attributes in taken.events if name == "camdf.decision"]
    ids = {"trace_id": taken.trace_id, "span_id": taken.span_id, "parent_id": taken.parent_id}
    return {**ids, "start": taken.start, "end": taken.end, **decision([*told, taken.attributes])}


def fields(taken: Step) -> dict[str, Any]:
    """The GenAI conventions."""
    attributes, events = taken.attributes, taken.events
    for name, told in events:
        if name == "gen_ai.client.inference.operation.details":
            attributes = {**told, **attributes}
    found = {column: lookup(attributes, OTEL, column) for column in OTEL}
    kind = KINDS.get(text(found["kind"]), "other")
    if kind == "model":
        found["offered"] = tool_names(mapping(found["offered"]).get("function_tools") or found["offered"])
        found["requested"] = requested(found["requested"]) or _choices(events)
    else:
        found |= dict.fromkeys(("offered", "requested", "input_tokens", "cached_tokens", "output_tokens"))
    graded = [told for name, told in events if name == "gen_ai.evaluation.result"]
    return {
        **{column: each for column, each in found.items() if column not in ("tool", "agent", "model")},
        "kind": kind,
        "name": text(found.get(kind)) or taken.name,
        "error": text(found["error"]) or taken.error,
        "text": asked(structured(found["text"])) or _prompt(events) if kind in ("agent", "model") else "",
        "success": outcome((told.get("gen_ai.evaluation.name"), _score(told)) for told in graded),
    }


def _score(told: Mapping[str, Any]) -> Any:
    label = told.get("gen_ai.evaluation.score.label")
    return told.get("gen_ai.evaluation.score.value") if label is None else label


def _choices(events: list[tuple[str, dict[str, Any]]]) -> tuple[str, ...]:
    return requested([_body(told) for name, told in events if name == "gen_ai.choice"])


def _prompt(events: list[tuple[str, dict[str, Any]]]) -> str:
    messages = [{"role": "user", **_body(told)} for name, told in events if name == "gen_ai.user.message"]
    return asked(messages)


def _body(told: dict[str, Any]) -> dict[str, Any]:
    return {**told, **mapping(told.get("body") or told.get("event_body")), "message": structured(told.get("message"))}

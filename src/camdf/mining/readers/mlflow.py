"""MLflow traces as `Trace.to_json` writes them: an info and spans whose attributes are JSON strings."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from camdf.mining.readers import otel
from camdf.mining.readers.messages import asked, requested, tool_names
from camdf.mining.readers.names import MLFLOW
from camdf.mining.readers.otlp import Step, step
from camdf.mining.readers.values import listed, lookup, mapping, outcome, text
from camdf.mining.readers.values import span as checked
from camdf.mining.spans import Span

MARK = "mlflow.spanType"
KINDS = {"AGENT": "agent", "CHAT_MODEL": "model", "LLM": "model", "TOOL": "tool"}


def parts(record: Any) -> Iterator[Any]:
    """The spans of one trace or a list of them, each with the info of its trace."""
    if isinstance(record, list):
        for each in record:
            yield from parts(each)
        return
    found = mapping(record)
    info = mapping(found.get("info") or {key: found.get(key) for key in ("trace_id", "trace_metadata", "assessments")})
    spans = listed(mapping(found.get("data")).get("spans")) or listed(found.get("spans"))
    for each in spans:
        yield {"span": each, "info": info}
    if not spans:
        yield {"span": record, "info": {}}


def span(part: Any) -> Span:
    """One span of a trace; the outcome of the trace is that of its agents and of its top."""
    info, taken = mapping(part["info"]), step(part["span"])
    found = otel.common(taken) | fields(taken)
    found["trace_id"] = text(info.get("trace_id") or info.get("request_id")).removeprefix("tr-") or taken.trace_id
    found["conversation"] = lookup(mapping(info.get("trace_metadata")), MLFLOW, "conversation") or found["conversation"]
    if found["kind"] == "agent" or not taken.parent_id:
        found["success"] = outcome(map(_assessment, listed(lookup(info, MLFLOW, "success"))))
    return checked(**found)


def fields(taken: Step) -> dict[str, Any]:
    """The attributes that MLflow sets."""
    attributes = {name: _decoded(each) for name, each in taken.attributes.items()}
    found = {column: lookup(attributes, MLFLOW, column) for column in MLFLOW}
    kind = KINDS.get(text(found["kind"]).upper(), "other")
    model = kind == "model"
    offered = found["offered"] if isinstance(found["offered"], list) else mapping(found["offered"]).get("tools")
    return {
        "kind": kind,
        "name": (text(found["model"]) if model else "") or taken.name,
        "conversation": found["conversation"],
        "error": taken.error,
        "text": asked(found["text"]) if kind in ("agent", "model") else "",
        "offered": tool_names(offered) if model else (),
        "requested": requested(found["requested"]) if model else (),
        "call_id": found["call_id"],
        **{name: found[name] if model else None for name in ("input_tokens", "cached_tokens", "output_tokens")},
    }


def _assessment(said: Any) -> tuple[Any, Any]:
    told: Mapping[str, Any] = mapping(said)
    return told.get("assessment_name") or told.get("name"), mapping(told.get("feedback")).get("value")


def _decoded(value: Any) -> Any:
    try:
        return json.loads(value) if isinstance(value, str) else value
    except (ValueError, RecursionError):
        return value

"""Langfuse observations: of the API (a trace with its observations and scores, or a page) and of blob storage."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from camdf.mining.readers.messages import asked, requested, tool_names
from camdf.mining.readers.names import LANGFUSE
from camdf.mining.readers.values import (
    Unreadable,
    decision,
    listed,
    lookup,
    mapping,
    nanoseconds,
    outcome,
    structured,
    text,
)
from camdf.mining.readers.values import span as checked
from camdf.mining.spans import Span

if TYPE_CHECKING:
    from camdf.mining.readers.otlp import Step

MARK = "langfuse.observation.type"
KINDS = {"AGENT": "agent", "GENERATION": "model", "TOOL": "tool"}
TYPES = frozenset({*KINDS, "SPAN", "EVENT", "CHAIN", "RETRIEVER", "EVALUATOR", "EMBEDDING", "GUARDRAIL"})


def parts(record: Any) -> Iterator[Any]:
    """Observations: of a list, of a page of the API, or of a trace, with what the trace knows of them."""
    if isinstance(record, list):
        for each in record:
            yield from parts(each)
        return
    found = mapping(record)
    if isinstance(found.get("observations"), list):
        trace = {key: found.get(key) for key in ("id", "sessionId", "scores")}
        for each in found["observations"]:
            yield {"traceId": trace["id"], **mapping(each), "trace": trace}
    elif isinstance(found.get("data"), list):
        yield from parts(found["data"])
    else:
        yield record


def span(part: Any) -> Span:
    """One observation; a score of the whole trace is the outcome of its agents and of its top."""
    record = mapping(part)
    if text(record.get("type")).upper() not in TYPES:
        raise Unreadable("not an observation: traces and scores are read where a trace holds its observations")
    found = fields_of(record)
    whole = found["kind"] == "agent" or not lookup(record, LANGFUSE, "parent_id")
    ids = {column: lookup(record, LANGFUSE, column) for column in ("trace_id", "span_id", "parent_id")}
    times = {column: nanoseconds(lookup(record, LANGFUSE, column), 1_000_000) for column in ("start", "end")}
    known = decision([mapping(record.get("metadata"))])
    return checked(**ids, **times, **known, **found, success=outcome(_scores(record, whole)))


def fields(taken: Step) -> dict[str, Any]:
    """The attributes that Langfuse's SDK sets on OpenTelemetry spans."""
    told = {name.removeprefix("langfuse.observation."): each for name, each in taken.attributes.items()}
    told |= {"model": told.get("model.name"), "name": taken.name, "sessionId": taken.attributes.get("session.id")}
    found = fields_of(told)
    return {**found, "error": found["error"] or taken.error}


def fields_of(record: Mapping[str, Any]) -> dict[str, Any]:
    """What an observation says of itself."""
    found = {column: lookup(record, LANGFUSE, column) for column in LANGFUSE}
    kind = KINDS.get(text(found["kind"]).upper(), "other")
    model = kind == "model"
    return {
        "kind": kind,
        "name": (text(found["model"]) if model else "") or found["name"],
        "conversation": found["conversation"],
        "error": "error" if text(found["error"]).upper() == "ERROR" else "",
        "text": asked(_conversation(found["text"])) if kind in ("agent", "model") else "",
        "offered": (tool_names(found["offered"]) or _appended(record.get("input"))) if model else (),
        "requested": _requested(record) if model else (),
        "call_id": found["call_id"] if kind == "tool" else "",
        **{name: found[name] if model else None for name in ("input_tokens", "cached_tokens", "output_tokens")},
    }


def _appended(value: Any) -> tuple[str, ...]:
    """The tools that the LangChain handler appends to the messages, each as one of role `tool`.

    A tool's result has that role too, but it answers a call and its content is no definition.
    """
    found = structured(value)
    messages = listed(mapping(found).get("messages") if isinstance(found, Mapping) else found)
    return tool_names([mapping(each)["content"] for each in messages if _is_definition(each)])


def _is_definition(message: Any) -> bool:
    told = mapping(message)
    content = mapping(told.get("content"))
    named = mapping(content.get("function")).get("name") or (
        content.get("name") and content.keys() & {"parameters", "input_schema", "inputSchema", "description"}
    )
    return told.get("role") == "tool" and not told.get("tool_call_id") and bool(named)


def _conversation(value: Any) -> Any:
    found = structured(value)
    return [each for each in found if not _is_definition(each)] if isinstance(found, list) else found


def _requested(record: Mapping[str, Any]) -> tuple[str, ...]:
    named = tool_names(lookup(record, {"names": LANGFUSE["requested"][:2]}, "names"))
    return named or requested(record.get("output"))


def _scores(record: Mapping[str, Any], of_trace: bool) -> Iterator[tuple[Any, Any]]:
    """The scores of an observation, and with `of_trace` those of its trace as a whole."""
    trace = map(mapping, listed(mapping(record.get("trace")).get("scores")))
    for told in [*map(mapping, listed(record.get("scores"))), *trace]:
        owner = told.get("observationId") or told.get("observation_id")
        if owner == record.get("id") or (of_trace and not owner):
            worded = told.get("stringValue") or told.get("string_value")
            yield told.get("name"), told.get("value") if worded is None else worded

"""Langfuse observations: of the API (a trace with its observations and scores, or a page) and of blob storage."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from camdf_traces.readers.messages import ends_with_a_result, requested_columns, tool_names, user_text
from camdf_traces.readers.names import LANGFUSE
from camdf_traces.readers.otlp import OtelSpan
from camdf_traces.readers.steps import kind_of_chain, reported_error, tool_that_ran
from camdf_traces.readers.values import (
    Fields,
    Unreadable,
    as_list,
    as_mapping,
    as_text,
    as_whole,
    checked_span,
    gate_decision,
    lookup,
    nanoseconds,
    outcome,
    parsed_json,
    structured,
)
from camdf_traces.spans import Span

MARK = "langfuse.observation.type"
COLUMNS = Fields(LANGFUSE)
KINDS = {"AGENT": "agent", "GENERATION": "model", "TOOL": "tool"}
PIECE = "metadata."
"""What the SDK writes before each piece of the metadata, which is JSON by itself."""

OBSERVATION_TYPES = frozenset({*KINDS, "SPAN", "EVENT", "CHAIN", "RETRIEVER", "EVALUATOR", "EMBEDDING", "GUARDRAIL"})


def parts(record: Any) -> Iterator[Any]:
    """Observations: of a list, of a page of the API, or of a trace, with the trace's own id, session and scores."""
    if isinstance(record, list):
        for part in record:
            yield from parts(part)
        return
    fields = as_mapping(record)
    if isinstance(fields.get("observations"), list):
        trace = {key: fields.get(key) for key in ("id", "sessionId", "userId", "scores")}
        for part in fields["observations"]:
            yield {"traceId": trace["id"], **as_mapping(part), "trace": trace}
    elif isinstance(fields.get("data"), list):
        yield from parts(fields["data"])
    else:
        yield record


def span(part: Any, with_text: bool = True) -> Span:
    """One observation; a score of the whole trace is the outcome of its agents and of its top."""
    record = as_mapping(part)
    if as_text(record.get("type")).upper() not in OBSERVATION_TYPES:
        raise Unreadable("not an observation: traces and scores are read where a trace holds its observations")
    columns = _observation_columns(record, with_text)
    whole = columns["kind"] == "agent" or not lookup(record, LANGFUSE, "parent_id")
    ids = {column: lookup(record, LANGFUSE, column) for column in ("trace_id", "span_id", "parent_id")}
    times = {column: nanoseconds(lookup(record, LANGFUSE, column), 1_000_000) for column in ("start", "end")}
    decision = gate_decision([as_mapping(record.get("metadata"))])
    service, success = lookup(record, LANGFUSE, "service"), outcome(_scores(record, whole))
    return checked_span(**ids, **times, **decision, **columns, service=service, success=success)


def convention_columns(otel: OtelSpan, with_text: bool) -> dict[str, Any]:
    """The columns that the attributes of Langfuse's SDK give."""
    record = {name.removeprefix("langfuse.observation."): value for name, value in otel.attributes.items()}
    record |= {"model": record.get("model.name"), "name": otel.name, "sessionId": otel.attributes.get("session.id")}
    pieces = {name: parsed_json(record.pop(name)) for name in list(record) if name.startswith(PIECE)}
    metadata = {name.removeprefix(PIECE): value for name, value in pieces.items()}
    record["metadata"] = {**as_mapping(record.get("metadata")), **metadata}
    columns = _observation_columns(record, with_text)
    return {**columns, "error": columns["error"] or otel.error}


def _observation_columns(record: Mapping[str, Any], with_text: bool) -> dict[str, Any]:
    """The columns that an observation gives by itself, without its trace."""
    fields = COLUMNS.of(record)
    kind = KINDS.get(as_text(fields["kind"]).upper(), "other")
    kind = kind_of_chain(kind, fields["name"], record.get("metadata"))
    model, tool = kind == "model", kind == "tool"
    failed = as_text(fields["error"]).upper() == "ERROR"
    return {
        "kind": kind,
        "name": (as_text(fields["model"]) if model else "")
        or (tool_that_ran(fields["name"], fields["text"]) if tool else fields["name"]),
        "conversation": fields["conversation"],
        "user": fields["user"],
        "error": "error" if failed else (reported_error(record.get("output")) if tool else ""),
        "text": user_text(_conversation(fields["text"])) if with_text and kind in ("agent", "model") else "",
        "offered": (tool_names(fields["offered"]) or _appended(record.get("input"))) if model else (),
        **(_requested(record) if model else {}),
        "continues": ends_with_a_result(_conversation(fields["text"])) if model else None,
        "call_id": fields["call_id"] if tool else "",
        **(_spent(fields) if model else {}),
    }


def _spent(fields: Mapping[str, Any]) -> dict[str, int | None]:
    """Tokens of the request, those of them read from a cache, which Langfuse counts apart, and of the answer."""
    new, cached, output = (as_whole(fields[f"{name}_tokens"]) for name in ("input", "cached", "output"))
    whole = new if new is None or cached is None else new + cached
    return {"input_tokens": whole, "cached_tokens": cached, "output_tokens": output}


def _appended(value: Any) -> tuple[str, ...]:
    """The tools that the LangChain handler appends to the messages, each as a message of role `tool`.

    A tool's result has that role too, but it answers a call and its content is no definition.
    """
    input = structured(value)
    messages = as_list(as_mapping(input).get("messages") if isinstance(input, Mapping) else input)
    return tool_names([as_mapping(message)["content"] for message in messages if _is_definition(message)])


def _is_definition(message: Any) -> bool:
    fields = as_mapping(message)
    content = as_mapping(fields.get("content"))
    named = as_mapping(content.get("function")).get("name") or (
        content.get("name") and content.keys() & {"parameters", "input_schema", "inputSchema", "description"}
    )
    return fields.get("role") == "tool" and not fields.get("tool_call_id") and bool(named)


def _conversation(value: Any) -> Any:
    messages = structured(value)
    return [message for message in messages if not _is_definition(message)] if isinstance(messages, list) else messages


def _requested(record: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """The calls of an answer, which has their ids; else the names that Langfuse keeps beside it."""
    calls = requested_columns(record.get("output"))
    named = tool_names(lookup(record, {"names": LANGFUSE["requested"][:2]}, "names"))
    return calls if calls["requested"] else {"requested": named, "request_ids": ()}


def _scores(record: Mapping[str, Any], of_trace: bool) -> Iterator[tuple[Any, Any]]:
    """The scores of an observation, and with `of_trace` those of its trace as a whole."""
    trace = map(as_mapping, as_list(as_mapping(record.get("trace")).get("scores")))
    for score in [*map(as_mapping, as_list(record.get("scores"))), *trace]:
        owner = score.get("observationId") or score.get("observation_id")
        if owner == record.get("id") or (of_trace and not owner):
            worded = score.get("stringValue") or score.get("string_value")
            yield score.get("name"), score.get("value") if worded is None else worded

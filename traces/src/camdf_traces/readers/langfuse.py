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
    service = lookup(record, LANGFUSE, "service")
    success = outcome(_scores(record, whole))
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
    fields = COLUMNS.values_in(record)
    kind = KINDS.get(as_text(fields["kind"]).upper(), "other")
    kind = kind_of_chain(kind, fields["name"], record.get("metadata"))
    columns: dict[str, Any] = {
        "kind": kind,
        "name": fields["name"],
        "conversation": fields["conversation"],
        "user": fields["user"],
        "error": "",
    }
    if kind == "model":
        columns |= _model_call_columns(record, fields)
    elif kind == "tool":
        columns["name"] = tool_that_ran(fields["name"], fields["text"])
        columns["error"] = reported_error(record.get("output"))
        columns["call_id"] = fields["call_id"]
    if as_text(fields["error"]).upper() == "ERROR":
        columns["error"] = "error"
    if with_text and kind in ("agent", "model"):
        columns["text"] = user_text(_without_definitions(fields["text"]))
    return columns


def _model_call_columns(record: Mapping[str, Any], fields: Mapping[str, Any]) -> dict[str, Any]:
    """The columns that only a call of a model has. Langfuse counts tokens read from a cache apart."""
    input_tokens, cached_tokens, output_tokens = (
        as_whole(fields[name]) for name in ("input_tokens", "cached_tokens", "output_tokens")
    )
    if input_tokens is not None and cached_tokens is not None:
        input_tokens += cached_tokens
    return {
        "name": as_text(fields["model"]) or fields["name"],
        "offered": tool_names(fields["offered"]) or _definitions_in_messages(record.get("input")),
        **_requested_in_observation(record),
        "continues": ends_with_a_result(_without_definitions(fields["text"])),
        "input_tokens": input_tokens,
        "cached_tokens": cached_tokens,
        "output_tokens": output_tokens,
    }


def _definitions_in_messages(value: Any) -> tuple[str, ...]:
    """The tools that the LangChain handler appends to the messages, each as a message of role `tool`.

    A tool's result has that role too, but it answers a call and its content is no definition.
    """
    messages = structured(value)
    if isinstance(messages, Mapping):
        messages = messages.get("messages")
    return tool_names([as_mapping(message)["content"] for message in as_list(messages) if _is_definition(message)])


def _is_definition(message: Any) -> bool:
    fields = as_mapping(message)
    content = as_mapping(fields.get("content"))
    named = as_mapping(content.get("function")).get("name") or (
        content.get("name") and content.keys() & {"parameters", "input_schema", "inputSchema", "description"}
    )
    return fields.get("role") == "tool" and not fields.get("tool_call_id") and bool(named)


def _without_definitions(value: Any) -> Any:
    """The messages of a request, without those that the LangChain handler appends to them."""
    messages = structured(value)
    if not isinstance(messages, list):
        return messages
    return [message for message in messages if not _is_definition(message)]


def _requested_in_observation(record: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """The calls of an answer, which has their ids; else the names that Langfuse keeps beside it."""
    calls = requested_columns(record.get("output"))
    if calls["requested"]:
        return calls
    named = tool_names(lookup(record, {"names": LANGFUSE["requested"][:2]}, "names"))
    return {"requested": named, "request_ids": ()}


def _scores(record: Mapping[str, Any], of_trace: bool) -> Iterator[tuple[Any, Any]]:
    """The scores of an observation, and with `of_trace` those of its trace as a whole."""
    trace = map(as_mapping, as_list(as_mapping(record.get("trace")).get("scores")))
    for score in [*map(as_mapping, as_list(record.get("scores"))), *trace]:
        owner = score.get("observationId") or score.get("observation_id")
        if owner == record.get("id") or (of_trace and not owner):
            worded = score.get("stringValue") or score.get("string_value")
            yield score.get("name"), score.get("value") if worded is None else worded

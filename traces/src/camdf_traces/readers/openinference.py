"""OpenInference spans: OTLP exports of any collector, and Phoenix's own exports as JSON, JSONL or Parquet.

Attributes are flat (`llm.tools.0.tool.json_schema`) where OpenTelemetry carries them and nested where Phoenix has
unpacked them. Both are read flat.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from camdf_traces.readers.messages import ends_with_a_result, requested_columns, tool_names, user_text
from camdf_traces.readers.names import OPENINFERENCE, OPENINFERENCE_KINDS, OPENINFERENCE_MARK
from camdf_traces.readers.otlp import OtelSpan
from camdf_traces.readers.steps import kind_of_chain, reported_error, tool_that_ran
from camdf_traces.readers.values import Fields, as_text, structured
from camdf_traces.spans import SPAN_COLUMNS

MARK = OPENINFERENCE_MARK
COLUMNS = Fields(OPENINFERENCE)
PLACE = re.compile(r"\.(\d{1,6})\.(.+)", flags=re.ASCII)
REDACTED = "__REDACTED__"
"""The instrumentors write this in place of hidden inputs and outputs."""


def convention_columns(otel: OtelSpan, with_text: bool) -> dict[str, Any]:
    """The columns that the OpenInference conventions give."""
    flat = _flat_attributes(otel.attributes)
    fields = COLUMNS.values_in(flat)
    kind = OPENINFERENCE_KINDS.get(as_text(fields["kind"]).upper(), "other")
    kind = kind_of_chain(kind, otel.name, fields["metadata"])
    if kind == "model":
        fields["offered"] = _offered_names(_by_place(flat, "llm.tools"))
        answers = _chat_messages(flat, "llm.output_messages")
        fields |= requested_columns(answers, flat.get("output.value"))
        fields["continues"] = _continues(flat)
    else:
        fields |= dict.fromkeys(("offered", "requested", "input_tokens", "cached_tokens", "output_tokens"))
    columns = {column: value for column, value in fields.items() if column in SPAN_COLUMNS}
    columns["kind"] = kind
    columns["name"] = tool_that_ran(fields.get(kind), fields["arguments"]) or otel.name
    columns["error"] = otel.error
    if kind == "tool":
        columns["error"] = otel.error or reported_error(fields["answer"])
    columns["text"] = ""
    if with_text and kind in ("agent", "model"):
        columns["text"] = _text_of_request(flat)
    return columns


def _continues(flat: Mapping[str, Any]) -> bool | None:
    """Whether the last message of a request holds the result of a tool."""
    if messages := _by_place(flat, "llm.input_messages"):
        last = messages[max(messages)]
        return last.get("message.role") == "tool" or "message.tool_call_id" in last
    return ends_with_a_result(flat.get("input.value"))


def _text_of_request(flat: Mapping[str, Any]) -> str:
    return user_text(_chat_messages(flat, "llm.input_messages")) or user_text(structured(flat.get("input.value")))


def _offered_names(tools: Mapping[int, dict[str, Any]]) -> tuple[str, ...]:
    """The name where it stands by itself: then the schema beside it may be that of the parameters alone."""
    definitions = [tools[place].get("tool.name") or tools[place].get("tool.json_schema") for place in sorted(tools)]
    return tool_names([definition for definition in definitions if definition])


def _chat_messages(flat: Mapping[str, Any], prefix: str) -> list[dict[str, Any]]:
    by_place = _by_place(flat, prefix)
    return [_chat_message(by_place[place]) for place in sorted(by_place)]


def _chat_message(flat: dict[str, Any]) -> dict[str, Any]:
    """The keys under `message.` as one message of a chat API."""
    calls = _by_place(flat, "message.tool_calls")
    parts = _by_place(flat, "message.contents")
    words = [
        {"type": part.get("message_content.type"), "text": part.get("message_content.text")}
        for _, part in sorted(parts.items())
    ]
    return {
        "role": flat.get("message.role"),
        "content": flat.get("message.content") or words,
        "tool_calls": [
            {"id": call.get("tool_call.id"), "function": {"name": call.get("tool_call.function.name")}}
            for _, call in sorted(calls.items())
        ],
    }


def _by_place(flat: Mapping[str, Any], prefix: str) -> dict[int, dict[str, Any]]:
    """The keys under a prefix by the number that follows it: `llm.tools.0.tool.name` is `tool.name` of 0."""
    places: dict[int, dict[str, Any]] = {}
    for key, value in flat.items():
        if key.startswith(prefix) and (match := PLACE.fullmatch(key, len(prefix))):
            places.setdefault(int(match[1]), {})[match[2]] = value
    return places


def _flat_attributes(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """The attributes under dotted keys, without those that were hidden."""
    flat: dict[str, Any] = {}
    for key, value in attributes.items():
        if isinstance(value, (dict, list, tuple)):
            flat |= {inner: leaf for inner, leaf in _flat_leaves(value, f"{key}.") if leaf != REDACTED}
        elif value != REDACTED:
            flat[key] = value
    return flat


def _flat_leaves(value: Any, prefix: str) -> Iterator[tuple[str, Any]]:
    """Nested attributes under dotted keys; a list of objects counts its places, a list of plain values is a value."""
    pairs: Iterable[tuple[Any, Any]]
    if isinstance(value, (list, tuple)) and any(isinstance(inner, dict) for inner in value):
        pairs = enumerate(value)
    elif isinstance(value, dict) and not prefix.endswith(("json_schema.", "metadata.")):
        pairs = value.items()
    else:
        yield prefix[:-1], value
        return
    for key, inner in pairs:
        yield from _flat_leaves(inner, f"{prefix}{key}.")

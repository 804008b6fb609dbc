"""OpenInference spans: OTLP exports of any collector, and Phoenix's own exports as JSON, JSONL or Parquet.

Attributes are flat (`llm.tools.0.tool.json_schema`) where OpenTelemetry carries them and nested where Phoenix has
unpacked them. Both are read flat.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from camdf.mining.readers.messages import requested_tools, tool_names, user_text
from camdf.mining.readers.names import OPENINFERENCE, OPENINFERENCE_KINDS, OPENINFERENCE_MARK
from camdf.mining.readers.otlp import OtelSpan
from camdf.mining.readers.steps import kind_of_chain, reported_error, tool_that_ran
from camdf.mining.readers.values import Fields, as_text, structured
from camdf.mining.spans import SPAN_COLUMNS

MARK = OPENINFERENCE_MARK
COLUMNS = Fields(OPENINFERENCE)
PLACE = re.compile(r"\.(\d{1,6})\.(.+)", flags=re.ASCII)
REDACTED = "__REDACTED__"
"""The instrumentors write this in place of hidden inputs and outputs."""


def convention_columns(otel: OtelSpan, with_text: bool) -> dict[str, Any]:
    """The columns that the OpenInference conventions give."""
    flat = _flat_attributes(otel.attributes)
    found = COLUMNS.of(flat)
    kind = OPENINFERENCE_KINDS.get(as_text(found["kind"]).upper(), "other")
    kind = kind_of_chain(kind, otel.name, found["metadata"])
    if kind == "model":
        found["offered"] = _offered(_by_place(flat, "llm.tools"))
        answers = _messages(flat, "llm.output_messages")
        found["requested"] = requested_tools(answers) or requested_tools(flat.get("output.value"))
    else:
        found |= dict.fromkeys(("offered", "requested", "input_tokens", "cached_tokens", "output_tokens"))
    return {
        **{column: each for column, each in found.items() if column in SPAN_COLUMNS},
        "kind": kind,
        "name": tool_that_ran(found.get(kind), found["arguments"]) or otel.name,
        "error": otel.error or (reported_error(found["answer"]) if kind == "tool" else ""),
        "text": _text(flat) if with_text and kind in ("agent", "model") else "",
    }


def _text(flat: Mapping[str, Any]) -> str:
    return user_text(_messages(flat, "llm.input_messages")) or user_text(structured(flat.get("input.value")))


def _offered(tools: Mapping[int, dict[str, Any]]) -> tuple[str, ...]:
    """The name where it stands by itself: then the schema beside it may be that of the parameters alone."""
    definitions = [tools[place].get("tool.name") or tools[place].get("tool.json_schema") for place in sorted(tools)]
    return tool_names([each for each in definitions if each])


def _messages(flat: Mapping[str, Any], prefix: str) -> list[dict[str, Any]]:
    found = _by_place(flat, prefix)
    return [_message(found[place]) for place in sorted(found)]


def _message(flat: dict[str, Any]) -> dict[str, Any]:
    """The keys under `message.` as one message of a chat API."""
    calls, parts = _by_place(flat, "message.tool_calls"), _by_place(flat, "message.contents")
    words = [
        {"type": part.get("message_content.type"), "text": part.get("message_content.text")}
        for _, part in sorted(parts.items())
    ]
    functions = [
        {"name": call.get("tool_call.function.name"), "arguments": call.get("tool_call.function.arguments")}
        for _, call in sorted(calls.items())
    ]
    return {
        "role": flat.get("message.role"),
        "content": flat.get("message.content") or words,
        "tool_calls": [{"function": function} for function in functions],
    }


def _by_place(flat: Mapping[str, Any], prefix: str) -> dict[int, dict[str, Any]]:
    """The keys under a prefix by the number that follows it: `llm.tools.0.tool.name` is `tool.name` of 0."""
    found: dict[int, dict[str, Any]] = {}
    for key, value in flat.items():
        if key.startswith(prefix) and (match := PLACE.fullmatch(key, len(prefix))):
            found.setdefault(int(match[1]), {})[match[2]] = value
    return found


def _flat_attributes(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """The attributes under dotted keys, without those that were hidden."""
    found: dict[str, Any] = {}
    for key, value in attributes.items():
        if isinstance(value, (dict, list, tuple)):
            found |= {inner: each for inner, each in _flat(value, f"{key}.") if each != REDACTED}
        elif value != REDACTED:
            found[key] = value
    return found


def _flat(value: Any, prefix: str) -> Iterator[tuple[str, Any]]:
    """Nested attributes under dotted keys; a list of objects counts its places, a list of plain values is a value."""
    nested = isinstance(value, (list, tuple)) and any(isinstance(each, dict) for each in value)
    if nested or (isinstance(value, dict) and not prefix.endswith(("json_schema.", "metadata."))):
        pairs = enumerate(value) if nested else value.items()
        for key, each in pairs:
            yield from _flat(each, f"{prefix}{key}.")
    else:
        yield prefix[:-1], value

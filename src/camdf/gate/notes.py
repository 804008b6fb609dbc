"""A note: text at the end of a user's turn that tells a model of more tools, which it runs by `call_tool`.

One line a tool: its name, its parameters as a signature, what it does. Where a signature cannot say what a parameter
takes, its JSON schema stands there.

A note grants nothing: what may run is decided by the gate, whatever a text says. A note that is read in a history is
known by its form alone, so anybody may have written it (`camdf.gate.append.AuthorizedTools` writes its lines anew).

>>> mail = Tool("send_mail", "Send a mail.", {"properties": {"to": {"type": "string"}}, "required": ["to"]})
>>> print(with_note({"role": "user", "content": "Write to Ada."}, [line(mail)])["content"])
Write to Ada.
<BLANKLINE>
<camdf_tools>
More tools, through call_tool:
- send_mail(to: string): Send a mail.
</camdf_tools>
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from camdf.gate.tool_search import FIND, description_for_the_model, schema_for_the_model
from camdf.tools import Tool

TAG = "camdf_tools"
BEGINS = "More tools, through call_tool:"

OPENING = f"<{TAG}>\n{BEGINS}\n"
CLOSING = f"\n</{TAG}>"
APART = "\n\n"
"""Between the user's words and the note."""

PLAIN_SCHEMA = frozenset({"$schema", "additionalProperties", "description", "properties", "required", "title", "type"})
"""What the schema of a tool may hold besides its parameters and still be written as a signature."""

PLAIN_PARAMETER = frozenset({"default", "description", "enum", "items", "title", "type"})
"""What the schema of a parameter may hold and still be written as a type."""

_LINES = re.compile(r"- [^\n<]+(?:\n- [^\n<]+)*")
_PARAMETER = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*")


def line(tool: Tool, *, described: bool = True) -> str:
    """What a note says of a tool; its name alone where its own words may not be told, or are too long."""
    schema = schema_for_the_model(tool) if described else None
    if schema is None:
        return f"- {tool.name}: {FIND.name} describes it."
    told = f"- {tool.name}({_signature(schema)})"
    description = _in_one_line(description_for_the_model(tool))
    if description:
        told = f"{told}: {description}"
    return told.replace("<", "&lt;")


def name_in(line: str) -> str:
    """The name of the tool that a line of a note is about."""
    return re.split(r"[(:]", line.removeprefix("- "), maxsplit=1)[0]


def note(lines: Iterable[str]) -> str:
    """The note of some lines."""
    return OPENING + "\n".join(lines) + CLOSING


class Noted(NamedTuple):
    """A message taken apart: what was said, and the lines of the note after it."""

    message: Any
    lines: tuple[str, ...] = ()


def without_note(message: Any) -> Noted:
    """A message of the user without the note at its end: what `with_note` was given, whatever that was.

    The same object where it has no note.
    """
    if not isinstance(message, Mapping) or message.get("role") != "user":
        return Noted(message)
    content = message.get("content")
    if isinstance(content, str):
        begins = content.rfind(APART + OPENING) if content.endswith(CLOSING) else -1
        lines = _lines_of(content[begins + len(APART) :]) if begins >= 0 else ()
        return Noted({**message, "content": content[:begins]}, lines) if lines else Noted(message)
    if isinstance(content, list) and content and isinstance(content[-1], Mapping):
        last = content[-1]
        lines = _lines_of(last.get("text")) if last.keys() == {"type", "text"} else ()
        return Noted({**message, "content": content[:-1]}, lines) if lines else Noted(message)
    return Noted(message)


def with_note(message: Mapping[str, Any], lines: Sequence[str]) -> Mapping[str, Any]:
    """A message of the user with a note at its end; the same object where the note has no lines."""
    if not lines:
        return message
    content = message.get("content")
    if isinstance(content, str):
        return {**message, "content": f"{content}{APART}{note(lines)}"}
    parts = list(content) if isinstance(content, (list, tuple)) else []
    kinds = [part.get("type") for part in parts if isinstance(part, Mapping)]
    of_responses = any(isinstance(kind, str) and kind.startswith("input_") for kind in kinds)
    return {**message, "content": [*parts, {"type": "input_text" if of_responses else "text", "text": note(lines)}]}


def _lines_of(text: Any) -> tuple[str, ...]:
    """The lines of a note; none where a text is anything else."""
    if not isinstance(text, str) or not (text.startswith(OPENING) and text.endswith(CLOSING)):
        return ()
    lines = text[len(OPENING) : -len(CLOSING)]
    return tuple(lines.split("\n")) if _LINES.fullmatch(lines) else ()


def _signature(schema: Mapping[str, Any]) -> str:
    """The parameters of a tool as a signature, or its schema as JSON where that says more."""
    try:
        properties = schema.get("properties", {})
        is_plain = schema.keys() <= PLAIN_SCHEMA and not schema.get("additionalProperties")
        if not is_plain or schema.get("type", "object") != "object" or not isinstance(properties, Mapping):
            return _json(schema)
        required = schema.get("required", ())
        if not set(required) <= properties.keys():
            return _json(schema)
        return ", ".join(_parameter(name, spec, name in required) for name, spec in properties.items())
    except Exception:  # whatever a server wrote there
        return _json(schema)


def _parameter(name: str, spec: Mapping[str, Any], is_required: bool) -> str:
    told = name if _PARAMETER.fullmatch(name) else _json(name)
    if not is_required:
        told += "?"
    kind = _type(spec)
    if kind is None:
        return f"{told}: {_json(spec)}"
    told = f"{told}: {kind}"
    if "default" in spec:
        told = f"{told} = {_json(spec['default'])}"
    if spec.get("description"):
        told = f"{told} /* {_in_one_line(spec['description'])} */"
    return told


def _type(spec: Mapping[str, Any]) -> str | None:
    """What a parameter takes, as a type; None where a type cannot say it."""
    if not spec.keys() <= PLAIN_PARAMETER:
        return None
    if "enum" in spec:
        return " | ".join(map(_json, spec["enum"]))
    kind = spec.get("type")
    if isinstance(kind, list):
        return " | ".join(kind) if "items" not in spec and all(map(_is_simple, kind)) else None
    if kind == "array" and isinstance(spec.get("items"), Mapping):
        inner = spec["items"]
        return f"{inner['type']}[]" if inner.keys() == {"type"} and _is_simple(inner["type"]) else None
    return kind if _is_simple(kind) and "items" not in spec else None


def _is_simple(kind: Any) -> bool:
    return kind in ("string", "number", "integer", "boolean", "object", "null")


def _json(value: Any) -> str:
    return _in_one_line(json.dumps(value, default=str, ensure_ascii=False))


def _in_one_line(text: str) -> str:
    return " ".join(str(text).split())

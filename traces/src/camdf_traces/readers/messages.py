"""Tool definitions and messages in the shapes of all model clients: tools offered, tools requested, the user's text."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from functools import lru_cache
from typing import Any

from camdf.errors import needs
from camdf.tools import name_of
from camdf_traces.readers.steps import tool_that_ran
from camdf_traces.readers.values import as_list, as_mapping, as_text, structured

USERS = frozenset({"user", "human"})
CALLS = frozenset({"tool_call", "tool_use", "function_call", "mcp_call"})
ANSWERS = ("generations", "choices", "message", "messages", "output", "outputs", "kwargs", "additional_kwargs")
DEEPER = frozenset({*ANSWERS, "parts", "content"})
QUESTIONS = ("messages", "input", "query", "question", "prompt", "task", "text", "content")


def tool_names(value: Any) -> tuple[str, ...]:
    """The names of tool definitions: a list of definitions or names, or an object of definitions by name."""
    if isinstance(value, str):
        return _names_in_text(value)
    return _names_in_definitions(value)


@lru_cache(maxsize=64)
def _names_in_text(definitions: str) -> tuple[str, ...]:
    """An agent sends the same definitions with every call; they are long, and developers wrote them, no users."""
    with needs("mining"):
        from camdf_traces.readers.definitions import bare_definitions
    bare = bare_definitions(definitions)
    return _names_in_definitions(definitions if bare is None else bare)


@lru_cache(maxsize=256)
def _name_in_text(definition: str) -> str:
    """The same for tracers that write each definition by itself."""
    with needs("mining"):
        from camdf_traces.readers.definitions import bare_definition
    parsed = bare_definition(definition)
    if parsed is None:
        parsed = structured(definition)
    if isinstance(parsed, str):
        return as_text(parsed)
    return _tool_name(parsed)


def _names_in_definitions(value: Any) -> tuple[str, ...]:
    definitions = structured(value)
    if by_name := as_mapping(definitions):
        definitions = [by_name] if _tool_name(by_name) else list(by_name)
    if not isinstance(definitions, (list, tuple)):
        return ()
    return tuple(dict.fromkeys(filter(None, map(_tool_name, definitions))))


def _tool_name(definition: Any) -> str:
    if isinstance(definition, str) and definition.startswith("{"):
        return _name_in_text(definition)
    definition = structured(definition)
    if isinstance(definition, dict):
        known = map(definition.get, ("name", "type", "function"))
        if not any(isinstance(candidate, (str, dict)) and candidate for candidate in known):
            return ""
        return as_text(name_of(definition))
    name = as_text(definition)
    if name.startswith("<") and " object at 0x" in name:  # as Python shows LlamaIndex's to MLflow
        return ""
    return name


def requested_columns(*answers: Any, without: Collection[str] = ()) -> dict[str, tuple[str, ...]]:
    """The columns `requested` and `request_ids` from the first of some answers that calls a tool.

    Structured answers are left out by their names. Where a call has no id, no id is told.
    """
    calls = next(filter(None, map(requested_calls, answers)), [])
    calls = [call for call in calls if call[0] not in without]
    if all(call_id for _, call_id in calls):
        return {"requested": tuple(name for name, _ in calls), "request_ids": tuple(call_id for _, call_id in calls)}
    return {"requested": tuple(dict.fromkeys(name for name, _ in calls)), "request_ids": ()}


def requested_calls(value: Any) -> list[tuple[str, str]]:
    """The tools that a model's answer calls, each with the id of the call, "" where there is none."""
    calls: dict[tuple[str, str], None] = {}
    _add_called(structured(value), 8, calls)
    return list(calls)


def _add_called(value: Any, depth: int, calls: dict[tuple[str, str], None]) -> None:
    if not depth:
        return
    if isinstance(value, (list, tuple)):
        for part in value:
            _add_called(structured(part), depth - 1, calls)
    elif isinstance(value, dict):
        if value.get("type") in CALLS and (
            name := tool_that_ran(value.get("name"), value.get("arguments") or value.get("input"))
        ):
            calls[name, as_text(value.get("call_id") or value.get("id"))] = None
        if value.get("part_kind") == "tool-call" and (name := tool_that_ran(value.get("tool_name"), value.get("args"))):
            calls[name, as_text(value.get("tool_call_id"))] = None  # pydantic-ai's own messages
        for call in as_list(value.get("tool_calls")):
            inner = as_mapping(call)
            named = {**inner, **as_mapping(inner.get("function"))}
            if name := tool_that_ran(named.get("name"), named.get("arguments") or named.get("args")):
                calls[name, as_text(inner.get("id"))] = None
        if not DEEPER.isdisjoint(value):
            for key in (*ANSWERS, "parts", "content"):
                deeper = value.get(key)
                if isinstance(deeper, (list, dict)) or (key == "message" and deeper):
                    _add_called(structured(deeper), depth - 1, calls)


RESULT = re.compile(
    r'"role":\s*"(tool|function)"|"type":\s*"(tool|tool_call_response|tool_result|function_call_output)"'
    r'|"part_kind":\s*"tool-return"'
)
"""A message that holds the result of a tool; within a text of JSON the quotes would be escaped."""


def ends_with_a_result(value: Any) -> bool | None:
    """Whether the last of a model's messages holds the result of a tool; None where there is none.

    >>> ends_with_a_result('[{"role": "user", "content": "Bern?"}, {"role": "tool", "content": "sun"}]')
    True
    """
    if isinstance(value, str):
        place = value.rfind('"role"')
        if place < 0:
            return None
        return RESULT.search(value, place) is not None
    if isinstance(value, Mapping) and not value.keys() & {"role", "type"}:
        value = value.get("messages") or value.get("input") or value
    while isinstance(value, (list, tuple)) and value:
        value = value[-1]
    if not isinstance(value, Mapping):
        return None
    return RESULT.search(json.dumps(value, default=str)) is not None


def user_text(value: Any) -> str:
    """The user's last request, from messages, from a function's arguments or from a bare string."""
    messages = structured(value)
    if isinstance(messages, str):
        return as_text(messages)
    if isinstance(messages, Mapping):
        for key in QUESTIONS:
            if messages.get(key):
                return user_text(messages[key])
        words = [field for field in messages.values() if isinstance(field, str)]
        return as_text(words[0]) if len(words) == 1 else ""
    return next(filter(None, map(_text_of_message, reversed(as_list(messages)))), "")


def _text_of_message(message: Any) -> str:
    if isinstance(message, (list, tuple)):  # a batch of one, or a pair of role and text
        if len(message) == 2 and message[0] in ("user", "human"):
            return _words_of_content(message[1])
        return user_text(list(message))
    outer = as_mapping(message)
    inner = as_mapping(outer.get("message") or outer.get("kwargs") or outer)
    role = inner.get("role") or inner.get("type")
    if not isinstance(role, str) or role not in USERS:
        return ""
    return _words_of_content(inner.get("content") or inner.get("contents") or inner.get("parts"))


def _words_of_content(content: Any) -> str:
    if isinstance(content, str):
        return as_text(content).strip()
    parts = [as_mapping(as_mapping(part).get("message_content") or part) for part in as_list(content)]
    texts = [part.get("text") or part.get("content") for part in parts if part.get("type") in ("text", "input_text")]
    return "\n".join(as_text(text) for text in texts if isinstance(text, str)).strip()

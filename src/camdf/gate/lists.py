"""The list that a model is sent: which tools are on it, by the gate's mode, and how a request writes each.

- drop: the tools that are kept;
- append: those of every request; what turns bring stands among the messages (`camdf.gate.append`), and tools
  that the harness declares with `defer_loading` stay declared;
- defer: those, and the others marked for the provider's tool search, where the request has one;
- allow: the whole list as it came, so that a cached prompt stands; `tool_choice` names what may be called;
- shadow: the whole list as it came.

A tool that has the shape of the request already is sent as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

from camdf.errors import UsageError
from camdf.tools import Tool, view

Mode: TypeAlias = Literal["drop", "append", "defer", "allow", "shadow"]

MARK = "cache_control"
"""Where an Anthropic request says that its prompt up to here may be cached."""

EMPTY = {"type": "object", "properties": {}}
"""The schema of a tool without arguments, where one is required."""


def list_for_the_model(
    mode: Mode, natives: Mapping[str, Any], kept: Sequence[str], cut: Sequence[str], marked: str | None = None
) -> list[Any]:
    """The tools for the model; `natives` are those that may be offered, in the order of the request.

    `marked` is the key of the last of them that says where a cached prompt ends (`last_marked`).
    """
    mark = None if marked is None else natives[marked]
    if mode == "drop":
        return _with_mark_on_last([natives[key] for key in kept], mark)
    if mode == "append":
        loaded_first = _with_mark_on_last([undeferred(natives[key]) for key in kept], mark)
        return loaded_first + [natives[key] for key in cut if is_deferred(natives[key])]
    if mode == "defer" and has_search(natives[key] for key in kept):
        kept_loaded = _with_mark_on_last([natives[key] for key in kept], mark)
        return kept_loaded + [_deferred(natives[key]) for key in cut]
    return list(natives.values())


def allowed_choice(tools: Iterable[str | Mapping[str, Any]], choice: Any, *, responses: bool) -> Any:
    """OpenAI's `tool_choice` that allows only these tools, of Responses or of Chat Completions; "none" without any.

    Functions may be given by name; all others as the request has them. A stricter choice of the request's own stands.

    >>> allowed_choice(["search"], "auto", responses=True)
    {'type': 'allowed_tools', 'mode': 'auto', 'tools': [{'type': 'function', 'name': 'search'}]}
    """
    if choice not in (None, "auto", "required"):
        return choice
    named = [_named_in_choice(tool, responses) for tool in tools]
    if not named and choice != "required":
        return "none"
    allowed = {"mode": choice or "auto", "tools": named}
    if responses:
        return {"type": "allowed_tools", **allowed}
    return {"type": "allowed_tools", "allowed_tools": allowed}


def _named_in_choice(tool: str | Mapping[str, Any], responses: bool) -> dict[str, Any]:
    """A tool as a choice names it: the provider's own by its type, a server of tools by its label."""
    if isinstance(tool, str):
        tool = {"type": "function", "name": tool}
    kind = tool.get("type", "function")
    inner = tool.get(kind)
    name = inner["name"] if isinstance(inner, Mapping) else tool.get("name")
    if not responses:
        return {"type": kind, kind: {"name": name}}
    named = {"name": name, "server_label": tool.get("server_label")}
    return {"type": kind, **{key: value for key, value in named.items() if value}}


def has_search(natives: Iterable[Any]) -> bool:
    """Whether a request has its provider's tool search: Anthropic's and OpenAI's types begin alike."""
    kinds = (_field_or_none(native, "type") for native in natives if isinstance(native, Mapping))
    return any(isinstance(kind, str) and kind.startswith("tool_search") for kind in kinds)


def is_deferred(native: Any) -> bool:
    """Whether a request declares a tool without loading it."""
    return isinstance(native, Mapping) and _field_or_none(native, "defer_loading") is True


def undeferred(native: Any) -> Any:
    """A tool as a request loads it."""
    if not is_deferred(native):
        return native
    return {key: value for key, value in native.items() if key != "defer_loading"}


def _deferred(native: Any) -> Any:
    try:
        if isinstance(native, Mapping):
            return {**_unmarked(native), "defer_loading": True}
        return native
    except Exception:  # it cannot be read, so it is handed over as it is
        return native


def _with_mark_on_last(loaded: list[Any], marked: Any) -> list[Any]:
    """The last mark of the request stands on the last tool that is loaded, wherever it stood."""
    if marked is None or not loaded or not isinstance(loaded[-1], Mapping):
        return loaded
    moved = [_unmarked(native) if native is marked else native for native in loaded]
    return [*moved[:-1], {**moved[-1], MARK: _cache_mark(marked)}]


def last_marked(natives: Mapping[str, Any]) -> str | None:
    """The key of the last tool of a request that says where a cached prompt ends; None where none does."""
    for key in reversed(list(natives)):
        native = natives[key]
        if isinstance(native, (dict, Mapping)) and _cache_mark(native):
            return key
    return None


def _cache_mark(native: Mapping[str, Any]) -> Any:
    """On the tool itself or, as LiteLLM has it too, in its function."""
    mark = _field_or_none(native, MARK)
    if mark:
        return mark
    inner = _field_or_none(native, "function")
    return _field_or_none(inner, MARK) if isinstance(inner, (dict, Mapping)) else None


def _field_or_none(native: Mapping[str, Any], key: str) -> Any:
    """A field of a tool, None where the tool raises."""
    try:
        return native.get(key)
    except Exception:
        return None


def _unmarked(native: Mapping[str, Any]) -> dict[str, Any]:
    inner = _field_or_none(native, "function")
    bare = {key: value for key, value in native.items() if key != MARK}
    if isinstance(inner, Mapping) and MARK in inner:
        bare["function"] = {key: value for key, value in inner.items() if key != MARK}
    return bare


def openai(native: Any) -> Any:
    """For OpenAI's chat completions, and for all who speak that protocol."""
    if isinstance(native, Mapping) and ("function" in native or "custom" in native):
        return native
    return _written_unless_hosted(
        native, lambda tool: {"type": "function", "function": _told_parts(tool, parameters=dict(tool.schema))}
    )


def openai_responses(native: Any) -> Any:
    """For OpenAI's Responses."""
    if isinstance(native, Mapping) and native.get("type") in ("function", "custom") and "name" in native:
        return native
    return _written_unless_hosted(
        native, lambda tool: {"type": "function", **_told_parts(tool, parameters=dict(tool.schema))}
    )


def anthropic(native: Any) -> Any:
    """For Anthropic's messages."""
    if isinstance(native, Mapping) and "input_schema" in native:
        return native
    return _written_unless_hosted(native, lambda tool: _told_parts(tool, input_schema=dict(tool.schema) or EMPTY))


def mcp(native: Any) -> Any:
    """For a client of MCP."""
    if isinstance(native, Mapping) and "inputSchema" in native:
        return native
    return _written_unless_hosted(native, lambda tool: _told_parts(tool, inputSchema=dict(tool.schema) or EMPTY))


def written_like(native: Any) -> Callable[[Any], Any]:
    """What writes a tool in the shape that another one has; in OpenAI's chat shape where it has none."""
    if isinstance(native, Mapping) and "function" not in native:
        if "input_schema" in native:
            return anthropic
        if "inputSchema" in native:
            return mcp
        if native.get("type") == "function":
            return openai_responses
    return openai


def _written_unless_hosted(native: Any, write: Callable[[Tool], dict[str, Any]]) -> Any:
    """The definition of a tool; what the provider runs itself has one already."""
    tool = view(native)
    if not tool.foreign:
        return write(tool)
    if isinstance(native, Mapping):
        return native
    raise UsageError(f"{tool.name} has no name, description and schema that a request could hold. Send it by yourself.")


def _told_parts(tool: Tool, **schema: dict[str, Any]) -> dict[str, Any]:
    """Name, description and schema, as far as the tool has them."""
    parts = {"name": tool.name, "description": tool.description, **schema}
    return {key: value for key, value in parts.items() if value}

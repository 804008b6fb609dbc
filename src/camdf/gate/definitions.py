"""A tool as a request to a model has it, or as an MCP client gets it. What has that shape already is sent as it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from camdf.errors import UsageError
from camdf.tools import Tool, view

EMPTY = {"type": "object", "properties": {}}
"""The schema of a tool without arguments, where one is required."""


def openai(native: Any) -> Any:
    """For OpenAI's chat completions, and for all who speak that protocol."""
    if isinstance(native, Mapping) and ("function" in native or "custom" in native):
        return native
    return _written(native, lambda tool: {"type": "function", "function": _parts(tool, parameters=dict(tool.schema))})


def openai_responses(native: Any) -> Any:
    """For OpenAI's Responses."""
    if isinstance(native, Mapping) and native.get("type") in ("function", "custom") and "name" in native:
        return native
    return _written(native, lambda tool: {"type": "function", **_parts(tool, parameters=dict(tool.schema))})


def anthropic(native: Any) -> Any:
    """For Anthropic's messages."""
    if isinstance(native, Mapping) and "input_schema" in native:
        return native
    return _written(native, lambda tool: _parts(tool, input_schema=dict(tool.schema) or EMPTY))


def mcp(native: Any) -> Any:
    """For a client of MCP."""
    if isinstance(native, Mapping) and "inputSchema" in native:
        return native
    return _written(native, lambda tool: _parts(tool, inputSchema=dict(tool.schema) or EMPTY))


def _written(native: Any, write: Callable[[Tool], dict[str, Any]]) -> Any:
    """The definition of a tool; what the provider runs itself has one already."""
    tool = view(native)
    if not tool.foreign:
        return write(tool)
    if isinstance(native, Mapping):
        return native
    raise UsageError(f"{tool.name} has no name, description and schema that a request could hold. Send it by yourself.")


def _parts(tool: Tool, **schema: dict[str, Any]) -> dict[str, Any]:
    """Name, description and schema, as far as the tool has them."""
    parts = {"name": tool.name, "description": tool.description, **schema}
    return {key: value for key, value in parts.items() if value}

"""A tool as a request to a model has it, or as an MCP client gets it. What has that shape already is sent as it is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from camdf.errors import UsageError
from camdf.tools import Tool, view


def openai(native: Any) -> Any:
    """For OpenAI's chat completions, and for all who speak that protocol."""
    if isinstance(native, Mapping) and ("function" in native or "custom" in native):
        return native
    tool = _to_write(native)
    if tool is None:
        return native
    return {"type": "function", "function": {"name": tool.name, "description": tool.description, **_schema(tool)}}


def openai_responses(native: Any) -> Any:
    """For OpenAI's Responses."""
    if isinstance(native, Mapping) and native.get("type") in ("function", "custom") and "name" in native:
        return native
    tool = _to_write(native)
    if tool is None:
        return native
    return {"type": "function", "name": tool.name, "description": tool.description, **_schema(tool)}


def anthropic(native: Any) -> Any:
    """For Anthropic's messages."""
    if isinstance(native, Mapping) and "input_schema" in native:
        return native
    tool = _to_write(native)
    return native if tool is None else _with_schema(tool, "input_schema")


def mcp(native: Any) -> Any:
    """For a client of MCP."""
    if isinstance(native, Mapping) and "inputSchema" in native:
        return native
    tool = _to_write(native)
    return native if tool is None else _with_schema(tool, "inputSchema")


def _to_write(native: Any) -> Tool | None:
    """A tool whose definition has to be written; None for one that the provider runs itself."""
    tool = view(native)
    if not tool.foreign:
        return tool
    if isinstance(native, Mapping):
        return None
    raise UsageError(f"{tool.name} has no name, description and schema that a request could hold. Send it by yourself.")


def _with_schema(tool: Tool, key: str) -> dict[str, Any]:
    empty = {"type": "object", "properties": {}}
    return {"name": tool.name, "description": tool.description, key: dict(tool.schema) or empty}


def _schema(tool: Tool) -> dict[str, Any]:
    return {"parameters": dict(tool.schema)} if tool.schema else {}

"""Tools as harnesses hold them, seen one way: OpenAI, Anthropic and MCP dicts, and the objects of agent frameworks.

A tool that the provider runs itself (web search, a code sandbox, tool search), and anything of a shape that is not
known here, is `foreign`: it has no description to score, so it is never scored, priced or cut.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

_encode = json.JSONEncoder(default=str).encode
"""Made once: `json.dumps` with arguments makes an encoder for every call."""


@dataclass(frozen=True)
class Tool:
    """One tool: what a scorer reads, and what a model is sent."""

    name: str
    description: str = ""
    parameters: Mapping[str, Any] | Callable[[], Mapping[str, Any]] = field(default_factory=dict, repr=False)
    """The JSON schema of its arguments, or a function that builds it when it is priced."""

    server: str = ""
    """Where it comes from, so that two servers may have a tool of one name."""

    foreign: bool = False

    @property
    def text(self) -> str:
        """What a scorer reads: the name in words, then the description."""
        return f"{self.name.replace('_', ' ').replace('.', ' ').replace('-', ' ')}. {self.description}"

    @property
    def schema(self) -> Mapping[str, Any]:
        """The JSON schema of its arguments."""
        return self.parameters() if callable(self.parameters) else self.parameters

    def definition(self) -> str:
        """Name, description and schema as one line of JSON: about what the model is sent."""
        return _encode({"name": self.name, "description": self.description, "parameters": self.schema})

    def digest(self) -> str:
        """SHA-256 of the definition: changes with any byte of description or schema, but not with the order of keys.

        A server and the client or proxy that reads it hold the keys of one schema in different orders.
        """
        import hashlib

        definition = {"name": self.name, "description": self.description, "parameters": self.schema}
        return hashlib.sha256(json.dumps(definition, sort_keys=True, default=str).encode()).hexdigest()


def view(native: Any) -> Tool:
    """Any tool of any harness as a `Tool`; what is not known is foreign, under its type's name."""
    if isinstance(native, Tool):
        return native
    plain = isinstance(native, (dict, Mapping))  # dict first: asking an abstract class is slow
    found = _mapping(native) if plain else _object(native)
    if found is None:
        kind = native.get("name") or native.get("type") if plain else None
        name = kind or getattr(native, "name", None) or type(native).__name__
        return Tool(str(name), foreign=True)
    name, description, parameters = found
    return Tool(str(name), str(description or ""), parameters or {}, _server(native))


def _mapping(native: Mapping[str, Any]) -> tuple[Any, Any, Any] | None:
    inner = native.get("function")
    if isinstance(inner, (dict, Mapping)) and inner.get("name"):  # OpenAI chat completions
        return inner["name"], inner.get("description"), inner.get("parameters")
    kind, name = native.get("type", "function"), native.get("name")
    if not name or kind not in ("function", "custom"):  # the provider's own, or a toolset
        return None
    for key in ("parameters", "input_schema", "inputSchema"):  # OpenAI responses, Anthropic, MCP
        if key in native:
            return name, native.get("description"), native[key]
    return (name, native.get("description"), {}) if kind == "custom" or "description" in native else None


def _object(native: Any) -> tuple[Any, Any, Any] | None:
    inner: Any = getattr(native, "metadata", None)
    if hasattr(inner, "get_parameters_dict"):  # LlamaIndex
        return inner.name, inner.description, inner.get_parameters_dict
    name, description = getattr(native, "name", None), getattr(native, "description", None)
    if isinstance(name, str) and hasattr(
        type(native), "tool_call_schema"
    ):  # LangChain, whose schemas take long to build
        return name, description, lambda: _pydantic_schema(native.tool_call_schema)
    for key in ("parameters_json_schema", "params_json_schema", "input_schema", "inputSchema", "parameters"):
        # pydantic-ai, OpenAI Agents, MCP (2, then 1), FastMCP
        if isinstance(name, str) and isinstance(getattr(native, key, None), Mapping):
            return name, description, getattr(native, key)
    if callable(native) and hasattr(native, "__name__") and not isinstance(native, type):  # a plain function
        return native.__name__, native.__doc__, {}
    return None


def _pydantic_schema(model: Any) -> Mapping[str, Any]:
    schema: Mapping[str, Any] = model if isinstance(model, Mapping) else model.model_json_schema()
    return schema


def _server(native: Any) -> str:
    held = native.get("server") if isinstance(native, (dict, Mapping)) else getattr(native, "server", None)
    return held if isinstance(held, str) else ""


def keyed(tools: Iterable[Tool]) -> dict[str, Tool]:
    """Tools by a key of their own: the name, which logs know too; where names collide, server and name, or a count."""
    found: dict[str, Tool] = {}
    seen: dict[str, int] = {}
    for tool in tools:
        key = tool.name
        if key in found and tool.server:
            key = f"{tool.server}/{tool.name}"
        while key in found:
            seen[tool.name] = seen.get(tool.name, 1) + 1  # not counted from the start: six thousand may be called alike
            key = f"{tool.name}#{seen[tool.name]}"
        found[key] = tool
    return found


def forced_tools(tool_choice: Any) -> list[str]:
    """The tools that a request insists on or allows, if any: OpenAI's and Anthropic's `tool_choice`."""
    if not isinstance(tool_choice, Mapping):
        return []
    inner, within = tool_choice.get("function"), tool_choice.get("allowed_tools")
    name = inner.get("name") if isinstance(inner, Mapping) else tool_choice.get("name")
    allowed = (within if isinstance(within, Mapping) else tool_choice).get("tools") or ()
    return [str(name)] if name else [named for each in allowed for named in forced_tools(each)]

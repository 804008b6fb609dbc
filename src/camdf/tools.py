"""Tools as harnesses hold them, seen one way: OpenAI, Anthropic and MCP dicts, and the objects of agent frameworks.

A tool that the provider runs itself (web search, a code sandbox, tool search), and anything of a shape that is not
known here, is `foreign`: it has no description to score, so it is never scored, priced or cut.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

_encode = json.JSONEncoder(default=str).encode
"""Made once: `json.dumps` with arguments makes an encoder for every call."""

NO_TOOLS = (
    "There is no tool with a name and a description in that list. Give definitions as a request to a model has them, "
    "or an object from name to description."
)
"""Said of a list that holds nothing to decide on."""


@dataclass(frozen=True)
class Tool:
    """One tool: what a scorer reads, and what a model is sent."""

    name: str
    description: str = ""
    parameters: Mapping[str, Any] | Callable[[], Mapping[str, Any]] = field(default_factory=dict, repr=False)
    """The JSON schema of its arguments, or a function that builds it when it is priced."""

    server: str = ""
    """Where it comes from: a tool is the same tool where server and name are the same."""

    foreign: bool = False

    further: Callable[[], Mapping[str, Any]] = field(default=dict, repr=False, compare=False)
    """Builds what else a model or a user may be told of it: a title, annotations; of a foreign tool, all there is."""

    @property
    def full_name(self) -> str:
        """Server and name, as "mail/send"; the name alone where no server is known."""
        return f"{self.server}/{self.name}" if self.server else self.name

    @property
    def text(self) -> str:
        """What a scorer reads: the name in words, then the description."""
        return f"{self.name.replace('_', ' ').replace('.', ' ').replace('-', ' ')}. {self.description}"

    @property
    def as_read(self) -> tuple[str, ...]:
        """Server, name, description and, where they are at hand, the names of its arguments: what scorers read.

        What a scorer said of a tool stands as long as this is the same.
        """
        properties = self.parameters.get("properties") if isinstance(self.parameters, dict) else None
        arguments = map(str, properties) if isinstance(properties, dict) else ()
        return self.server, self.name, self.description, *arguments

    @property
    def schema(self) -> Mapping[str, Any]:
        """The JSON schema of its arguments."""
        return self.parameters() if callable(self.parameters) else self.parameters

    def definition(self) -> str:
        """Name, description and schema as one line of JSON: about what the model is sent."""
        return _encode({"name": self.name, "description": self.description, "parameters": self.schema})

    def digest(self) -> str:
        """SHA-256 of the definition: changes with any byte of description, schema, title or annotations.

        The order of keys is no part of it: a server and the client or proxy that reads it hold the keys of one schema
        in different orders. Of a tool that the provider runs itself, all that the request says of it is covered.
        """
        import hashlib

        definition = {"name": self.name, "description": self.description, "parameters": self.schema}
        if further := self.further():
            definition["further"] = further
        return hashlib.sha256(json.dumps(definition, sort_keys=True, default=str).encode()).hexdigest()


def view(native: Any) -> Tool:
    """Any tool of any harness as a `Tool`; what is not known is foreign, under its type's name."""
    if isinstance(native, Tool):
        return native
    plain = isinstance(native, (dict, Mapping))  # dict first: asking an abstract class is slow
    found = _mapping(native) if plain else _object(native)
    if found is None:
        kind = _hosted_name(native) if plain else None
        name = kind or getattr(native, "name", None) or type(native).__name__
        hosted = native if plain else getattr(native, "tool_config", None)  # OpenAI Agents keeps the request's own
        server = hosted.get("server_label") or hosted.get("mcp_server_name") if isinstance(hosted, Mapping) else None
        return Tool(str(name), server=str(server or ""), foreign=True, further=partial(_all_of, native))
    name, description, parameters = found
    server = native.get("server") if plain else _server(native)
    server = server if isinstance(server, str) else ""
    bare = plain and "title" not in native and "annotations" not in native
    further = dict if bare else partial(_further, native)
    return Tool(str(name), str(description or ""), parameters or {}, server, False, further)


def name_of(definition: Mapping[str, Any]) -> str:
    """The name that `view` gives to a tool of a request, without looking at the rest of it."""
    found = _mapping(definition)
    return str(found[0] if found else _hosted_name(definition) or type(definition).__name__)


def _hosted_name(native: Mapping[str, Any]) -> Any:
    """A whole server of tools goes by its type and its label, whatever else it calls itself."""
    kind = native.get("type")
    return kind if isinstance(kind, str) and kind.startswith("mcp") else native.get("name") or kind


def _mapping(native: Mapping[str, Any]) -> tuple[Any, Any, Any] | None:
    inner = native.get("function") or native.get("custom")
    if isinstance(inner, (dict, Mapping)) and inner.get("name"):  # OpenAI chat completions
        return inner["name"], inner.get("description"), inner.get("parameters")
    kind, name = native.get("type", "function"), native.get("name")
    if not name or kind not in ("function", "custom"):  # the provider's own, or a toolset
        return None
    for key in ("parameters", "input_schema", "inputSchema"):  # OpenAI responses, Anthropic, MCP
        if key in native:
            return name, native.get("description"), native[key]
    if isinstance(schema := native.get("args_schema"), (dict, Mapping)):  # LangChain, written out
        return name, native.get("description"), schema
    if kind != "custom" and "description" not in native:
        return None
    return name, native.get("description"), _of_arguments(native.get("args"))


def _of_arguments(properties: Any) -> Mapping[str, Any]:
    """The schema of LangChain's `args`: the property of each argument by its name; empty where these are no such."""
    known = isinstance(properties, (dict, Mapping)) and all(isinstance(each, Mapping) for each in properties.values())
    return {"type": "object", "properties": properties} if known and properties else {}


def _object(native: Any) -> tuple[Any, Any, Any] | None:
    inner: Any = getattr(native, "metadata", None)
    if hasattr(inner, "get_parameters_dict"):  # LlamaIndex
        return inner.name, inner.description, inner.get_parameters_dict
    name, description = getattr(native, "name", None), getattr(native, "description", None)
    if isinstance(name, str) and hasattr(type(native), "tool_call_schema"):  # LangChain, whose schemas take long
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


def _server(native: Any) -> Any:
    """The server that a framework's tool says it comes from."""
    if isinstance(named := getattr(native, "server", None), str):
        return named
    toolset = getattr(native, "toolset_id", None)  # pydantic-ai, which calls the agent's own tools "<agent>"
    if isinstance(toolset, str):
        return "" if toolset.startswith("<") else toolset
    origin = getattr(native, "_tool_origin", None)  # OpenAI Agents
    if origin is not None:
        return getattr(origin, "mcp_server_name", None)
    mounted = getattr(native, "_server", None)  # FastMCP
    if mounted is not None:
        return getattr(mounted, "name", None)
    metadata = getattr(native, "metadata", None)  # LangChain
    return metadata.get("server") if isinstance(metadata, dict) else None


def _further(native: Any) -> Mapping[str, Any]:
    """Title and annotations of a tool, where its server gave it any."""
    if isinstance(native, (dict, Mapping)):
        found = {"title": native.get("title"), "annotations": native.get("annotations")}
    else:
        metadata = getattr(native, "metadata", None)  # pydantic-ai keeps annotations there
        held = metadata.get("annotations") if isinstance(metadata, dict) else None
        title, annotations = getattr(native, "title", None), getattr(native, "annotations", None)
        found = {
            "title": title if isinstance(title, str) else getattr(native, "_mcp_title", None),
            "annotations": annotations or held or getattr(native, "mcp_annotations", None),
        }
    hints: Any = found["annotations"]
    if hasattr(hints, "model_dump"):
        hints = hints.model_dump(by_alias=True)
    if isinstance(hints, Mapping):
        found["annotations"] = {key: value for key, value in hints.items() if value is not None}
    return {key: value for key, value in found.items() if value}


def _all_of(native: Any) -> Mapping[str, Any]:
    """Everything that a request says of a foreign tool, except where its prompt is cached."""
    held = native if isinstance(native, Mapping) else getattr(native, "__dict__", {})
    plain = (str, int, float, bool, list, dict, Mapping)
    return {str(key): value for key, value in held.items() if key != "cache_control" and isinstance(value, plain)}


def keyed(tools: Iterable[Tool]) -> dict[str, Tool]:
    """Tools by a key of their own: the name, which logs know too; where servers share one, server and name.

    Tools that are the same in both are counted: "search#2".
    """
    listed = list(tools)
    servers: dict[str, str] = {}
    shared = {tool.name for tool in listed if servers.setdefault(tool.name, tool.server) != tool.server}
    found: dict[str, Tool] = {}
    seen: dict[str, int] = {}
    for tool in listed:
        name = key = tool.full_name if tool.name in shared else tool.name
        while key in found:
            seen[name] = seen.get(name, 1) + 1  # not counted from the start: six thousand may be called alike
            key = f"{name}#{seen[name]}"
        found[key] = tool
    return found


def forced_tools(tool_choice: Any) -> list[str]:
    """The tools that a request insists on or allows, if any: OpenAI's and Anthropic's `tool_choice`."""
    if not isinstance(tool_choice, Mapping):
        return []
    inner, within = tool_choice.get("function") or tool_choice.get("custom"), tool_choice.get("allowed_tools")
    name = inner.get("name") if isinstance(inner, Mapping) else tool_choice.get("name")
    allowed = (within if isinstance(within, Mapping) else tool_choice).get("tools") or ()
    return [str(name)] if name else [named for each in allowed for named in forced_tools(each)]

"""Tools as harnesses hold them, seen one way: OpenAI, Anthropic and MCP dicts, and the objects of agent frameworks.

A tool that the provider runs itself (web search, a code sandbox, tool search), and anything of a shape that is not
known here, is `foreign`: it has no description to score, so it is never scored, priced or cut. So is a tool that can be
read in two ways, since nobody knows which of them the model is sent.

What a tool says of itself is not believed. The server that it comes from is told by the harness: by `FromServer`, by
the `server` of a `Tool` or of a definition that the harness wrote, or by what a framework itself notes on its tools.
"""

from __future__ import annotations

import json
import marshal
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

from camdf.errors import UsageError

Effect: TypeAlias = Literal["read", "write", "egress"]
"""The worst that a tool can do: read, change something, or send something to others."""

EFFECTS: tuple[Effect, ...] = get_args(Effect)
WORST: Effect = EFFECTS[-1]

_encode = json.JSONEncoder(default=str).encode
"""Made once: `json.dumps` with arguments makes an encoder for every call."""

NO_TOOLS = (
    "There is no tool with a name and a description in that list. Give definitions as a request to a model has them, "
    "or an object from name to description."
)
"""Said of a list that holds nothing to decide on."""

READ = 4_000
"""How many characters of a description scorers read: what a server writes beyond that costs nobody time."""

PARAMETERS = 200
"""The names of how many parameters they read."""

UNTOLD = frozenset({"_meta", "cache_control", "defer_loading", "execution", "icons", "meta", "server"})
"""Fields of a definition that no model is told: where a prompt is cached, when a tool is loaded, what clients show."""


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

    readable: bool = True
    """Whether it can be read in one way only. If not, it may not be what it seems: `allow` and `digests` refuse it."""

    further: Callable[[], Mapping[str, Any]] = field(default=dict, repr=False, compare=False)
    """Builds what else a model or a user may be told of it: a title, examples, a grammar; of a foreign tool, all there
    is."""

    @property
    def full_name(self) -> str:
        """Server and name, as "mail/send"; the name alone where no server is known."""
        if not self.server:
            return self.name
        return f"{self.server}/{self.name}"

    @property
    def described(self) -> str:
        """What a scorer reads beside the name. It is the description, where a kind of tool has no more to read."""
        return self.description[:READ]

    @property
    def text(self) -> str:
        """What a scorer reads: the name in words, then the description."""
        return f"{self.name.replace('_', ' ').replace('.', ' ').replace('-', ' ')}. {self.described}"

    @property
    def as_read(self) -> tuple[str, ...]:
        """Server, name, description and, where they are at hand, the names of its arguments: what scorers read.

        What a scorer said of a tool stands as long as this is the same.
        """
        of_itself = self.server, self.name, self.described
        if isinstance(self.parameters, dict):
            properties = self.parameters.get("properties")
            if isinstance(properties, dict):
                return *of_itself, *map(str, islice(properties, PARAMETERS))
        return of_itself

    @property
    def schema(self) -> Mapping[str, Any]:
        """The JSON schema of its arguments."""
        if callable(self.parameters):
            return self.parameters()
        return self.parameters

    @property
    def packed(self) -> bytes | None:
        """The schema in bytes, made ten times as fast as JSON; None where it has other than plain values.

        Kept once it is made. Not by `cached_property`, whose lock in Python 3.11 is that of all tools: one whose schema
        takes long would hold up every other.
        """
        if "_packed" not in self.__dict__:
            schema: Any = self.schema
            try:
                self.__dict__["_packed"] = marshal.dumps(schema, 2)
            except ValueError:
                self.__dict__["_packed"] = None
        packed: bytes | None = self.__dict__["_packed"]
        return packed

    def is_longer_than(self, characters: int) -> bool:
        """Whether its name, its description or, unless it is built when it is priced, its schema is."""
        if len(self.description) > characters or len(self.name) > characters:
            return True
        if not isinstance(self.parameters, dict):
            return False
        with suppress(Exception):  # a schema that cannot be written at all has no price
            packed = self.packed
            if packed is None:
                return len(self.definition()) > characters
            return len(packed) > characters
        return False

    def definition(self) -> str:
        """Name, description and schema as one line of JSON: about what the model is sent."""
        return _encode({"name": self.name, "description": self.description, "parameters": self.schema})

    def digest(self) -> str:
        """SHA-256 of the definition: changes with any byte that a model is told.

        The order of keys is no part of it: a server and the client or proxy that reads it hold the keys of one schema
        in different orders. Of a tool that the provider runs itself, all that the request says of it is covered.
        """
        import hashlib

        definition = {"name": self.name, "description": self.description, "parameters": self.schema}
        further = self.further()
        if further:
            definition["further"] = further
        return hashlib.sha256(json.dumps(definition, sort_keys=True, default=str).encode()).hexdigest()


class FromServer(NamedTuple):
    """A tool, and the server that it comes from as the harness knows it: a gate takes it in the place of the tool."""

    server: str
    tool: Any


def from_servers(tools: Mapping[str, Iterable[Any]]) -> list[FromServer]:
    """The tools of some servers, by the names that the harness has for them."""
    for server, theirs in tools.items():
        if not isinstance(server, str) or not isinstance(theirs, (list, tuple)):
            raise UsageError(
                f"Tools by server must map names of servers to lists of tools. Got {server!r}: {theirs!r} instead."
            )
    return [FromServer(server, tool) for server, theirs in tools.items() for tool in theirs]


def view(native: Any) -> Tool:
    """A tool as a `Tool`; `native` is of any harness. What is not known is foreign, under its type's name."""
    if isinstance(native, Tool):
        return native
    if isinstance(native, FromServer):
        return replace(view(native.tool), server=native.server)
    is_mapping = isinstance(native, (dict, Mapping))  # dict first: asking an abstract class is slow
    try:
        parts = _parts_of_mapping(native) if is_mapping else _parts_of_object(native)
    except _TwoReadingsError:
        return Tool(type(native).__name__, foreign=True, readable=False)
    if parts is None:
        return _foreign_mapping(native) if is_mapping else _foreign_object(native)
    name, description, parameters, server, further = parts
    return Tool(str(name), str(description or ""), parameters or {}, server, further=further)


def name_of(definition: Mapping[str, Any]) -> str:
    """The name that `view` gives to a tool of a request, without looking at the rest of it."""
    try:
        parts = _parts_of_mapping(definition)
    except _TwoReadingsError:
        return type(definition).__name__
    if parts is None:
        return _foreign_name(definition)
    return str(parts[0])


class _TwoReadingsError(Exception):
    """A tool has two shapes, so what is read of it may not be what a model is sent."""


Further: TypeAlias = Callable[[], Mapping[str, Any]]
_Parts: TypeAlias = tuple[Any, Any, Any, str, Further]
"""Name, description and schema of a tool, its server if the harness or its framework tells, and what else is told."""

SCHEMAS = ("parameters", "input_schema", "inputSchema", "args_schema")
"""Where OpenAI Responses, Anthropic, MCP and LangChain, written out, have the schema of a tool."""

INNER = ("function", "custom")
BESIDE = frozenset({"name", "description", *SCHEMAS})
"""What a definition that holds another one must not have: it would be a second reading."""

HELD_FIELDS = UNTOLD | {"name", "description", "parameters"}
"""Fields that are read or that no model is told, of a definition that another one holds."""

AROUND_FIELDS = UNTOLD | {"type", *INNER}
"""The same of the one that holds it."""

FLAT_FIELDS = UNTOLD | BESIDE | {"type", "args"}
"""The same of a definition that holds no other."""


def _parts_of_mapping(native: Mapping[str, Any]) -> _Parts | None:
    """A tool of a request, in which chat completions hold its definition in a field; None for the provider's own."""
    server = native.get("server")
    if not isinstance(server, str):
        server = ""
    inner = [key for key in INNER if key in native and _is_named(native[key])]
    if inner:
        if len(inner) > 1 or not BESIDE.isdisjoint(native):
            raise _TwoReadingsError
        held = native[inner[0]]
        further = _further_fields(held, HELD_FIELDS, native)
        return held["name"], held.get("description"), held.get("parameters"), server, further
    kind = native.get("type", "function")
    name = native.get("name")
    schemas = [key for key in SCHEMAS if key in native]
    if "args_schema" in schemas and not isinstance(native["args_schema"], (dict, Mapping)):  # it names a class
        schemas.remove("args_schema")
    if len(schemas) > 1 or (schemas and name and kind not in INNER):
        raise _TwoReadingsError
    if not name or kind not in INNER or not (schemas or kind == "custom" or "description" in native):
        return None
    if schemas == ["inputSchema"]:  # MCP's: a server wrote it, so it does not tell where it comes from
        server = ""
    schema = native[schemas[0]] if schemas else _schema_of_arguments(native.get("args"))
    return name, native.get("description"), schema, server, _further_fields(native, FLAT_FIELDS)


def _is_named(inner: Any) -> bool:
    return isinstance(inner, (dict, Mapping)) and bool(inner.get("name"))


def _further_fields(
    native: Mapping[str, Any], known: frozenset[str], around: Mapping[str, Any] | None = None
) -> Further:
    """All fields of a definition that a model may be told and that are not known, and of what stands around it."""
    fields = [(native, key) for key in native if key not in known]
    if around is not None:
        fields += [(around, key) for key in around if key not in AROUND_FIELDS]
    if not fields:
        return dict
    return lambda: _telling({key: held[key] for held, key in fields})


def _schema_of_arguments(properties: Any) -> Mapping[str, Any]:
    """The schema of LangChain's `args`: the property of each argument by its name; empty where these are no such."""
    if not isinstance(properties, (dict, Mapping)) or not properties:
        return {}
    if not all(isinstance(one, Mapping) for one in properties.values()):
        return {}
    return {"type": "object", "properties": properties}


def _parts_of_object(native: Any) -> _Parts | None:
    """A framework's tool.

    Fields that its class does not declare are not read: an object of MCP 1 has all that a server cares to send.
    """
    inner: Any = getattr(native, "metadata", None)
    if hasattr(inner, "get_parameters_dict"):  # LlamaIndex
        return inner.name, inner.description, inner.get_parameters_dict, "", dict
    name = getattr(native, "name", None)
    description = getattr(native, "description", None)
    if isinstance(name, str):
        if hasattr(type(native), "tool_call_schema"):  # LangChain, whose schemas take long
            schema = partial(_pydantic_schema, native)
            return name, description, schema, "", lambda: _telling(getattr(native, "extras", None) or {})
        sent = getattr(native, "model_extra", None) or ()
        shapes: list[str] = []
        for key in OBJECTS:
            known = key not in sent and not (key == "inputSchema" and "input_schema" in shapes)  # FastMCP has both
            if known and isinstance(getattr(native, key, None), (dict, Mapping)):
                shapes.append(key)
        if len(shapes) > 1:
            raise _TwoReadingsError
        if shapes:
            noted_server, told_by_framework = OBJECTS[shapes[0]]
            server = noted_server(native)
            if not isinstance(server, str):
                server = ""
            return name, description, getattr(native, shapes[0]), server, partial(told_by_framework, native)
    if callable(native) and hasattr(native, "__name__") and not isinstance(native, type):  # a plain function
        return native.__name__, native.__doc__, {}, "", dict
    return None


def _server_of_pydantic_ai(native: Any) -> Any:
    toolset = getattr(native, "toolset_id", None)
    if isinstance(toolset, str) and toolset.startswith("<"):  # the agent's own tools are those of "<agent>"
        return None
    return toolset


def _told_by_pydantic_ai(native: Any) -> Mapping[str, Any]:
    noted = getattr(native, "metadata", None) or {}
    fields = {
        "strict": getattr(native, "strict", None),
        "annotations": noted.get("annotations"),
        "outputSchema": getattr(native, "return_schema", None),
    }
    return _telling(fields)


def _server_of_openai_agents(native: Any) -> Any:
    return getattr(getattr(native, "_tool_origin", None), "mcp_server_name", None)


def _told_by_openai_agents(native: Any) -> Mapping[str, Any]:
    fields = {
        "strict": getattr(native, "strict_json_schema", None),
        "title": getattr(native, "_mcp_title", None),
        "annotations": getattr(native, "mcp_annotations", None),
    }
    return _telling(fields)


def _no_server(native: Any) -> Any:
    return None


def _server_of_fastmcp(native: Any) -> Any:
    return getattr(getattr(native, "_server", None), "name", None)


def _told_by_mcp(native: Any) -> Mapping[str, Any]:
    fields = {
        "title": getattr(native, "title", None),
        "annotations": getattr(native, "annotations", None),
        "outputSchema": getattr(native, "output_schema", None) or getattr(native, "outputSchema", None),
    }
    return _telling(fields)


OBJECTS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Mapping[str, Any]]]] = {
    "parameters_json_schema": (_server_of_pydantic_ai, _told_by_pydantic_ai),
    "params_json_schema": (_server_of_openai_agents, _told_by_openai_agents),
    "input_schema": (_no_server, _told_by_mcp),
    "inputSchema": (_no_server, _told_by_mcp),
    "parameters": (_server_of_fastmcp, _told_by_mcp),
}
"""By the field that holds a schema: the server that the framework has noted, and what else a model may be told."""


def _pydantic_schema(native: Any) -> Mapping[str, Any]:
    model = native.tool_call_schema
    if isinstance(model, Mapping):
        return model
    schema: Mapping[str, Any] = model.model_json_schema()
    return schema


def _telling(fields: Mapping[str, Any]) -> Mapping[str, Any]:
    """Fields of a definition that say something; of annotations, those that do."""
    telling = {key: value for key, value in fields.items() if value not in (None, "", {}, []) and key not in UNTOLD}
    hints: Any = telling.get("annotations")
    if hasattr(hints, "model_dump"):
        hints = hints.model_dump(by_alias=True)
    if isinstance(hints, Mapping):
        telling["annotations"] = {key: value for key, value in hints.items() if value is not None}
    return {key: value for key, value in telling.items() if key != "annotations" or value}


def _foreign_mapping(native: Mapping[str, Any]) -> Tool:
    """A tool of a request that the provider runs itself, or of a shape that is not known here."""
    name = _foreign_name(native)
    return Tool(name, server=_labeled_server(native), foreign=True, further=partial(_plain_fields, native))


def _foreign_object(native: Any) -> Tool:
    """The same of a framework."""
    name = getattr(native, "name", None) or type(native).__name__
    server = _labeled_server(getattr(native, "tool_config", None))  # OpenAI Agents keeps what it sends
    return Tool(str(name), server=server, foreign=True, further=partial(_plain_fields, native))


def _foreign_name(native: Mapping[str, Any]) -> str:
    """A whole server of tools goes by its type and its label, whatever else it calls itself."""
    kind = native.get("type")
    if isinstance(kind, str) and kind.startswith("mcp"):
        return kind
    return str(native.get("name") or kind or type(native).__name__)


def _labeled_server(request: Any) -> str:
    """What a request calls a whole server of tools."""
    if not isinstance(request, Mapping):
        return ""
    return str(request.get("server_label") or request.get("mcp_server_name") or "")


def _plain_fields(native: Any) -> Mapping[str, Any]:
    """Everything that a request says of a foreign tool, except where its prompt is cached."""
    held = native if isinstance(native, Mapping) else getattr(native, "__dict__", {})
    plain = (str, int, float, bool, list, dict, Mapping)
    return {str(key): value for key, value in held.items() if key != "cache_control" and isinstance(value, plain)}


def tools_by_key(
    tools: Iterable[Any], trusted: Collection[str] | None = None
) -> tuple[dict[str, Tool], dict[str, Any]]:
    """Tools by key: as we view them, and as the harness holds them. They come in a sequence, or by server."""
    listed = tools_as_given(tools)
    viewed = keyed(map(viewed_tool, listed), trusted)
    return viewed, dict(zip(viewed, map(native_of, listed), strict=True))


def tools_as_given(tools: Iterable[Any]) -> list[Any]:
    """Tools in a list, as they come in a sequence or by server."""
    if isinstance(tools, (str, bytes)):
        raise TypeError("Tools come as a sequence.")
    if isinstance(tools, Mapping):
        return list(from_servers(tools))
    return list(tools)


def viewed_tool(native: Any) -> Tool:
    """A tool as we view it; foreign where its own attributes raise, or its name is no text."""
    try:
        tool = view(native)
        if type(tool.name) is type(tool.description) is type(tool.server) is str:
            return tool
        plain = str.__str__  # a subclass may raise when it is compared
        return replace(tool, name=plain(tool.name), description=plain(tool.description), server=plain(tool.server))
    except Exception:
        return unread_tool(native)


def unread_tool(native: Any) -> Tool:
    """A tool that nobody has looked at: it is foreign, and not readable."""
    return Tool(type(native).__name__, foreign=True, readable=False)


def native_of(given: Any) -> Any:
    """A tool as the harness has it, without the server that it is from."""
    return given.tool if isinstance(given, FromServer) else given


def keyed(tools: Iterable[Tool], trusted: Collection[str] | None = None) -> dict[str, Tool]:
    """Tools by a key of their own: the name, which logs know too; where servers share one, server and name.

    Tools that are the same in both are counted: "search#2". The keys of `trusted` servers' tools, None for all, are
    those that they have without the others.
    """
    listed = dict(enumerate(tools))
    keys: dict[int, str] = {}
    if trusted is None:
        _give_keys(keys, set(), listed)
    else:
        first = {place: tool for place, tool in listed.items() if tool.server in trusted}
        others = {place: tool for place, tool in listed.items() if place not in first}
        taken: set[str] = set()
        _give_keys(keys, taken, first)
        _give_keys(keys, taken, others)
    return {keys[place]: tool for place, tool in listed.items()}


def keys_beside(known: Collection[str], tools: Iterable[Tool]) -> tuple[str, ...]:
    """Keys of further tools beside those that are `known`."""
    keys: dict[int, str] = {}
    _give_keys(keys, set(known), dict(enumerate(tools)))
    return tuple(keys.values())


def _give_keys(keys: dict[int, str], taken: set[str], tools: Mapping[int, Tool]) -> None:
    servers: dict[str, str] = {}
    shared = {tool.name for tool in tools.values() if servers.setdefault(tool.name, tool.server) != tool.server} | taken
    seen: dict[str, int] = {}
    for place, tool in tools.items():
        name = key = tool.full_name if tool.name in shared else tool.name
        while key in taken:
            seen[name] = seen.get(name, 1) + 1  # not counted from the start: six thousand may be called alike
            key = f"{name}#{seen[name]}"
        taken.add(key)
        keys[place] = key


def forced_tools(tool_choice: Any) -> list[str]:
    """The tools that a request insists on or allows, if any: OpenAI's and Anthropic's `tool_choice`."""
    if not isinstance(tool_choice, Mapping):
        return []
    inner = tool_choice.get("function") or tool_choice.get("custom")
    name = inner.get("name") if isinstance(inner, Mapping) else tool_choice.get("name")
    if name:
        return [str(name)]
    allowed = tool_choice.get("allowed_tools")
    if not isinstance(allowed, Mapping):
        allowed = tool_choice
    return [named for tool in allowed.get("tools") or () for named in forced_tools(tool)]

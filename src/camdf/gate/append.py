"""Tools that join a conversation at its end, so that the cached prompt before them stands: mode "append".

`tools` comes first in a prompt, so a tool that is added there makes a provider read the whole prompt anew. Two
providers also take tools among the messages: Anthropic in `tool_addition` blocks of a system message, OpenAI Responses
in `additional_tools` items. What a history has of these is read as loaded. So a harness may keep them in its history or
leave them out: the same messages with the same additions are sent either way.

Whatever a history brings to the model is authorized as the list is, in every mode (`AuthorizedTools`): a definition
stays where it is that of a tool which may be offered now, and a name where it is such a tool's. All else is left out,
and counts as not loaded. Anybody may have written a history.

No provider is reached from the tests of this file: shapes are checked against the types of the official clients.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, Literal, NamedTuple, TypeAlias

from camdf.gate import lists
from camdf.gate.tool_search import field_of
from camdf.tools import UNTOLD, Tool, keys_beside, name_of, view, viewed_tool

Channel: TypeAlias = Literal["anthropic", "openai_responses"]
Channels: TypeAlias = Mapping[str, Channel | None]

CHANNELS: Channels = {
    "claude-fable-5": "anthropic",
    "claude-haiku-5-5": "anthropic",
    "claude-mythos-5": "anthropic",
    "claude-opus-4-8": "anthropic",
    "claude-opus-5": "anthropic",
    "claude-sonnet-5-5": "anthropic",
    "gpt-": "openai_responses",
}
"""Where a model takes tools in the middle of a conversation, by how its name begins, in November 2026. The longest
beginning counts. Models on Bedrock, Vertex or Azure are none of these: their names begin with the platform's."""

OWN_PLATFORMS = ("anthropic/", "openai/")
"""What proxies write before the name of a model that its own provider serves."""

BETAS = ("mid-conversation-tool-changes-2026-07-01", "inline-tools-2026-09-15")
"""What Anthropic is told in `betas`: the second where a definition is in the block itself."""


class Addition(NamedTuple):
    """Tools that join a conversation after one of its messages."""

    after: int
    """The place of that message: a turn of the user."""

    tools: tuple[Any, ...]


def channel_of(model: str, channels: Channels = CHANNELS) -> Channel | None:
    """Where a model takes tools in the middle of a conversation; None where it does not.

    >>> channel_of("claude-opus-5"), channel_of("openai/gpt-5.6"), channel_of("claude-sonnet-5"), channel_of("")
    ('anthropic', 'openai_responses', None, None)
    """
    for platform in OWN_PLATFORMS:
        model = model.removeprefix(platform)
    beginnings = [beginning for beginning in channels if model.startswith(beginning)]
    if not beginnings:
        return None
    return channels[max(beginnings, key=len)]


def joining_message(tools: Iterable[Any], channel: Channel) -> dict[str, Any]:
    """The message or item by which tools join.

    To Anthropic, a tool that the request declares with `defer_loading` is named, and any other is written out.
    """
    if channel == "openai_responses":
        written = [lists.openai_responses(lists.undeferred(native)) for native in tools]
        return {"type": "additional_tools", "role": "developer", "tools": written}
    additions = [{"type": "tool_addition", "tool": _named_or_defined(native)} for native in tools]
    return {"role": "system", "content": additions}


def _named_or_defined(native: Any) -> dict[str, Any]:
    if lists.is_deferred(native):
        return {"type": "tool_reference", "name": view(native).name}
    return {"type": "tool_definition", "definition": lists.anthropic(native)}


def with_additions(messages: Sequence[Any], additions: Sequence[Addition], channel: Channel | None) -> list[Any]:
    """A history (`SendableHistory.messages`) with the tools that join it, unless it has them, each after its turn."""
    stay = [message for message in messages if message is not GONE]
    if channel is None or not additions:
        return stay
    had = {name for message in stay if isinstance(message, Mapping) for name in names_added(message)}
    joining: dict[int, Sequence[Any]] = {}
    for addition in additions:
        joining[addition.after] = [native for native in addition.tools if view(native).name not in had]
    sent: list[Any] = []
    for place, message in enumerate(messages):
        if message is not GONE:
            sent.append(message)
        if joining.get(place):
            sent.append(joining_message(joining[place], channel))
    return sent


def names_added(message: Mapping[str, Any]) -> Iterator[str]:
    """The tools that join by a message of a history."""
    if message.get("type") == "additional_tools":
        yield from (name_of(tool) for tool in message.get("tools") or () if isinstance(tool, Mapping))
    for tool in _added_by_blocks(message):
        named = tool.get("definition") if tool.get("type") == "tool_definition" else tool
        if isinstance(named, Mapping) and isinstance(named.get("name"), str):
            yield named["name"]


def betas_of(messages: Iterable[Any]) -> list[str]:
    """The betas that Anthropic has to be told for a history: none where no tool joins it."""
    tools = [tool for message in messages if isinstance(message, Mapping) for tool in _added_by_blocks(message)]
    inline = any(tool.get("type") == "tool_definition" for tool in tools)
    return [beta for beta, is_needed in zip(BETAS, (tools, inline), strict=True) if is_needed]


def _added_by_blocks(message: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """What the `tool_addition` blocks of a message name or define; a harness may have written anything there."""
    content = message.get("content")
    if message.get("role") != "system" or not isinstance(content, list):
        return
    for block in content:
        if isinstance(block, Mapping) and block.get("type") == "tool_addition":
            tool = block.get("tool")
            if isinstance(tool, Mapping):
                yield tool


GONE: Any = object()
"""Stands in a history for a message of which nothing may be sent, so that the others keep their places."""

DEFINING = frozenset({"additional_tools", "tool_search_output"})
"""Items of OpenAI Responses that define the tools in their `tools`."""

CHANGING = frozenset({"tool_addition", "tool_removal"})
"""Blocks of Anthropic that define or name the tool in their `tool`."""

LISTING = {"mcp_list_tools": "server_label", "mcp_tool_listing": "mcp_server_name"}
"""What lists the tools of a server that the provider asks by itself, and where it names that server."""

HOLDING = ("content", "tool_changes", "tool_references")
"""Fields of messages and blocks in which such blocks stand."""

CARRYING = ("tool_calls", "function_call", "tool_call_id", "output_config")
"""Fields for which a message is sent even where its content is empty."""


class SendableHistory(NamedTuple):
    """What may be sent of a history."""

    messages: list[Any]
    """One for each that came, `GONE` where nothing of it stays."""

    refused: tuple[str, ...]
    """The tools that it would have brought to the model, by names beside those of the request's own tools."""


@dataclass(frozen=True, eq=False)
class AuthorizedTools:
    """The tools that a request may offer now; by default none.

    A server of tools that the provider asks by itself is authorized as one: what it lists is not read.
    """

    natives: Mapping[str, Any] = field(default_factory=dict)
    """Those that may be offered, by key."""

    tools: Mapping[str, Tool] = field(default_factory=dict)
    """All tools of the request, by key."""

    def sendable(self, messages: Sequence[Any]) -> SendableHistory:
        """What may be sent of a history. What cannot be read may not."""
        refused: list[str] = []
        stays = [self._sendable_message(message, refused) for message in messages]
        if not refused:
            return SendableHistory(stays, ())
        known = {key for key in self.tools if key not in self.natives}
        known |= {self.tools[key].name for key in known}
        new = dict.fromkeys(name for name in refused if name not in known)
        return SendableHistory(stays, keys_beside(self.tools, map(Tool, new)))

    def _sendable_message(self, message: Any, refused: list[str]) -> Any:
        part = self._sendable_part(message, refused)
        if part is message or part is GONE or field_of(part, "role") is None or not field_of(message, "content"):
            return part
        if any(field_of(part, name) for name in ("content", *CARRYING)):
            return part
        return GONE

    def _sendable_part(self, part: Any, refused: list[str]) -> Any:
        """A message, an item or a block without what may not be offered, the same object where that is all of it."""
        try:
            kind = field_of(part, "type")
            if not isinstance(kind, str):
                kind = ""
            if kind in DEFINING:
                return self._sendable_definitions(part, refused)
            if kind in CHANGING:
                change = self._sendable_change(field_of(part, "tool"), refused)
                return GONE if change is GONE else part
            if kind in LISTING:
                server = field_of(part, LISTING[kind])
                return _part_if(server in self._hosted_servers, part, server, refused)
            if kind == "tool_reference":
                name = field_of(part, "tool_name")
                return _part_if(name in self._keys_by_name, part, name, refused)
            for name in HOLDING:
                part = _with_what_stays(part, name, partial(self._sendable_part, refused=refused))
            return part
        except Exception:
            refused.append(type(part).__name__)
            return GONE

    def _sendable_definitions(self, item: Any, refused: list[str]) -> Any:
        """An item with the definitions that stay; one of a search answers its call, so it stays without any too."""
        is_search = field_of(item, "type") == "tool_search_output"
        definition = partial(self._sendable_definition, refused=refused, is_found=is_search)
        changed = _with_what_stays(item, "tools", definition)
        if is_search or changed is item or field_of(changed, "tools"):
            return changed
        return GONE

    def _sendable_change(self, tool: Any, refused: list[str]) -> Any:
        """What a block defines or names, if that may be offered."""
        kind = field_of(tool, "type")
        name = field_of(tool, "name")
        if kind == "tool_definition":
            return self._sendable_definition(field_of(tool, "definition"), refused)
        if kind == "tool_reference":
            return _part_if(name in self._keys_by_name, tool, name, refused)
        if kind in ("mcp_tool_reference", "mcp_toolset_reference"):
            server = field_of(tool, "server_name")
            return _part_if(server in self._hosted_servers, tool, server, refused)
        return _part_if(False, tool, name if isinstance(name, str) else tool, refused)

    def _sendable_definition(self, native: Any, refused: list[str], is_found: bool = False) -> Any:
        """A definition that is an authorized tool's; of one that a search found, that tool's own where it differs."""
        try:
            tool = viewed_tool(_written_out(native))
            keys = self._keys_by_name.get(tool.name, []) if tool.readable else []
            if any(self._is_of(key, tool, native) for key in keys):
                return native
            if is_found and keys:
                return lists.openai_responses(self.natives[keys[0]])
            return _part_if(False, native, tool.name, refused)
        except Exception:
            refused.append(type(native).__name__)
            return GONE

    def _is_of(self, key: str, tool: Tool, native: Any) -> bool:
        """Whether a definition is that of an authorized tool, or of a part of it."""
        return tool.digest() in self._digests_of(key) or _is_part(native, self.natives[key])

    @cached_property
    def _keys_by_name(self) -> dict[str, list[str]]:
        """Keys by the names that models know."""
        named: dict[str, list[str]] = {}
        for key in self.natives:
            named.setdefault(self.tools[key].name, []).append(key)
        return named

    @cached_property
    def _hosted_servers(self) -> frozenset[str]:
        """Servers of tools that the provider asks by itself."""
        hosted = [tool for key in self.natives if (tool := self.tools[key]).foreign and tool.name.startswith("mcp")]
        return frozenset(tool.server for tool in hosted if tool.server)

    def _digests_of(self, key: str) -> frozenset[str]:
        """Of a tool as the harness has it, and as it is written among messages."""
        known: dict[str, frozenset[str]] = self.__dict__.setdefault("_known_digests", {})
        if key not in known:
            native = self.natives[key]
            digests = {self.tools[key].digest()}
            for written in (lists.openai_responses, lists.anthropic):
                with suppress(Exception):  # what a request cannot hold is in none
                    digests.add(viewed_tool(written(native)).digest())
            known[key] = frozenset(digests)
        return known[key]


def _part_if(is_authorized: bool, part: Any, name: Any, refused: list[str]) -> Any:
    if is_authorized:
        return part
    refused.append(name if isinstance(name, str) else type(name).__name__)
    return GONE


def _with_what_stays(part: Any, name: str, stays: Callable[[Any], Any]) -> Any:
    """A part with what stays of one of its fields, the same object where that is all of it."""
    held = field_of(part, name)
    if held is None or isinstance(held, (str, bytes, int, float)):
        return part
    if isinstance(held, (list, tuple)):
        kept = [inner for inner in map(stays, held) if inner is not GONE]
        if len(kept) == len(held) and all(one is other for one, other in zip(kept, held, strict=True)):
            return part
        return _with_value(part, name, kept)
    if isinstance(held, Iterable) and not isinstance(held, Mapping):
        raise TypeError("It could be read only once.")
    changed = stays(held)
    if changed is held:
        return part
    if changed is GONE:
        changed = []
    return _with_value(part, name, changed)


def _with_value(part: Any, name: str, value: Any) -> Any:
    if isinstance(part, Mapping):
        return {**part, name: value}
    return part.model_copy(update={name: value})


def _written_out(native: Any) -> Any:
    """A definition as a request has it, where a client's object holds it."""
    if hasattr(native, "model_dump"):
        return native.model_dump(mode="json", exclude_unset=True)
    return native


def _is_part(result: Any, declared: Any) -> bool:
    """Whether a namespace of OpenAI's is one that is declared, with some of its tools: what a search answers with."""
    part = _written_out(result)
    if not (field_of(part, "type") == field_of(declared, "type") == "namespace"):
        return False
    known = {viewed_tool(tool).digest() for tool in declared["tools"]}
    others = {*part, *declared} - {"tools", *UNTOLD}
    same = all(part.get(name) == declared.get(name) for name in others)
    return same and all(viewed_tool(tool).digest() in known for tool in part["tools"])

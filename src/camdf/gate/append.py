"""Tools that join a conversation at the end of a turn, so that the cached prompt before them stands: mode "append".

`tools` comes first in a prompt, so a tool that is added there makes a provider read the whole prompt anew. Two
providers also take tools among the messages: Anthropic in `tool_addition` blocks of a system message, OpenAI Responses
in `additional_tools` items. For every other model a note says it (`camdf.gate.notes`). What a history has of these is
read as loaded. So a harness may keep them in its history or leave them out: the same messages with the same additions
are sent either way.

Whatever a history brings to the model is authorized as the list is, in every mode (`AuthorizedTools`): a definition
stays where it is that of a tool which may be offered now, a name where it is such a tool's, and a line of a note is
written anew. All else is left out, and counts as not loaded. Anybody may have written a history.

No provider is reached from the tests of this file: shapes are checked against the types of the official clients.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, Literal, NamedTuple, TypeAlias

from camdf.gate import lists
from camdf.gate.notes import line, name_in, note, with_note, without_note
from camdf.gate.tool_search import field_of, may_be_told
from camdf.tools import UNTOLD, Tool, keys_beside, name_of, view, viewed_tool

NativeChannel: TypeAlias = Literal["anthropic", "openai_responses"]
Channel: TypeAlias = NativeChannel | Literal["note"]
Channels: TypeAlias = Mapping[str, NativeChannel | None]

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

    keys: tuple[str, ...]
    """The tools, by key, in the order in which they join."""


def channel_of(model: str, channels: Channels = CHANNELS) -> Channel:
    """Where a model takes tools in the middle of a conversation: in a note, unless it has a channel of its own.

    >>> channel_of("claude-opus-5"), channel_of("openai/gpt-5.6"), channel_of("claude-sonnet-5"), channel_of("")
    ('anthropic', 'openai_responses', 'note', 'note')
    """
    for platform in OWN_PLATFORMS:
        model = model.removeprefix(platform)
    beginnings = [beginning for beginning in channels if model.startswith(beginning)]
    if not beginnings:
        return "note"
    return channels[max(beginnings, key=len)] or "note"


def joining_message(tools: Iterable[Any], channel: NativeChannel) -> dict[str, Any]:
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


def _names_in(history: Iterable[Any]) -> set[str]:
    """The tools that join by the messages of a history."""
    return {name for message in history if isinstance(message, Mapping) for name in names_added(message)}


def names_added(message: Mapping[str, Any]) -> Iterator[str]:
    """The tools that join by a message of a history."""
    yield from map(name_in, without_note(message).lines)
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

    undescribed: frozenset[str] = frozenset()
    """Keys of those whose own words no note may have: of servers that nobody vouches for."""

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

    def with_additions(
        self, messages: Sequence[Any], additions: Sequence[Addition], channel: Channel | None
    ) -> list[Any]:
        """A history as it may be sent, with the tools that join it, unless it has them, each after its turn."""
        changed = self.changed(messages, additions, channel)
        joining: dict[int, Any] = {}
        if channel is not None and channel != "note":
            had = _names_in(changed)
            for addition in additions:
                new = [key for key in addition.keys if self.tools[key].name not in had]
                if new:
                    joining[addition.after] = self.joining(Addition(addition.after, tuple(new)), channel)
        sent: list[Any] = []
        for place, message in enumerate(changed):
            if message is not GONE:
                sent.append(message)
            if place in joining:
                sent.append(joining[place])
        return sent

    def changed(self, messages: Sequence[Any], additions: Sequence[Addition], channel: Channel | None) -> list[Any]:
        """Each message of a history as it may be sent, `GONE` where nothing of it stays, with the notes that join."""
        history = self.sendable(messages).messages
        if channel != "note":
            return history
        had = _names_in(history)
        for addition in additions:
            new = [self.note_line(key) for key in addition.keys if self.tools[key].name not in had]
            message = history[addition.after] if addition.after < len(history) else GONE
            if message is not GONE and new:
                said, lines = without_note(message)
                history[addition.after] = with_note(said, [*lines, *new])
        return history

    def note(self, addition: Addition) -> str:
        """The note by which tools join."""
        return note(map(self.note_line, addition.keys))

    def joining(self, addition: Addition, channel: NativeChannel) -> dict[str, Any]:
        """The message or item by which tools join in a channel of the model's provider."""
        return joining_message([self.natives[key] for key in addition.keys], channel)

    def note_line(self, key: str) -> str:
        """What a note says of a tool; "" where it may not even have its name, or `call_tool` means another by it."""
        tool = self.tools[key]
        described = key not in self.undescribed
        if not may_be_told(tool.name, untrusted=not described) or self._keys_by_name[tool.name][0] != key:
            return ""
        lines: dict[str, str] = self.__dict__.setdefault("_lines", {})
        if key not in lines:
            lines[key] = line(tool, described=described)
        return lines[key]

    def can_join(self, key: str, channel: Channel) -> bool:
        """Whether a tool that may be offered can join by a channel."""
        if key not in self.natives or self.tools[key].foreign:
            return False
        return channel != "note" or bool(self.note_line(key))

    def _with_own_words(self, message: Any, refused: list[str]) -> Any:
        """A message with each line of its note as the gate writes it, the same object where that is all of it."""
        try:
            said, lines = without_note(message)
        except Exception:  # it says why where its parts are read
            return message
        written: dict[str, str] = {}
        for told in lines:
            name = name_in(told)
            keys = self._keys_by_name.get(name, [])
            own = self.note_line(keys[0]) if keys else ""
            if own:
                written[name] = own
            else:
                refused.append(name)
        if not lines or tuple(written.values()) == lines:
            return message
        return with_note(said, list(written.values()))

    def _sendable_message(self, message: Any, refused: list[str]) -> Any:
        part = self._sendable_part(self._with_own_words(message, refused), refused)
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

"""Tools that join a conversation at its end, so that the cached prompt before them stands: mode "append".

`tools` comes first in a prompt, so a tool that is added there makes a provider read the whole prompt anew. Two
providers also take tools among the messages: Anthropic in `tool_addition` blocks of a system message, OpenAI Responses
in `additional_tools` items. What a history has of these is read as loaded. So a harness may keep them in its history or
leave them out: the same messages with the same additions are sent either way.

No provider is reached from the tests of this file: shapes are checked against the types of the official clients.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

from camdf.gate import lists
from camdf.tools import name_of, view

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
    return channels[max(beginnings, key=len)] if beginnings else None


def joining_message(tools: Iterable[Any], channel: Channel) -> dict[str, Any]:
    """The message or item by which tools join.

    To Anthropic, a tool that the request declares with `defer_loading` is named, and any other is written out.
    """
    if channel == "openai_responses":
        written = [lists.openai_responses(lists.undeferred(native)) for native in tools]
        return {"type": "additional_tools", "role": "developer", "tools": written}
    return {"role": "system", "content": [{"type": "tool_addition", "tool": _named(native)} for native in tools]}


def _named(native: Any) -> dict[str, Any]:
    if lists.is_deferred(native):
        return {"type": "tool_reference", "name": view(native).name}
    return {"type": "tool_definition", "definition": lists.anthropic(native)}


def with_additions(messages: Sequence[Any], additions: Sequence[Addition], channel: Channel) -> list[Any]:
    """A history with the tools that joined it, each after its turn."""
    joining = {addition.after: joining_message(addition.tools, channel) for addition in additions}
    pairs = ((message, joining.get(place)) for place, message in enumerate(messages))
    return [part for pair in pairs for part in pair if part is not None]


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
    content = message.get("content") if message.get("role") == "system" else None
    for block in content if isinstance(content, list) else ():
        tool = block.get("tool") if isinstance(block, Mapping) and block.get("type") == "tool_addition" else None
        if isinstance(tool, Mapping):
            yield tool

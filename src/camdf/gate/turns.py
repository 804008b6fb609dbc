"""A conversation as its user's turns and the tools that it has called: all that a gate reads of a history.

Four shapes of history are read: OpenAI chat messages, OpenAI Responses items, Anthropic messages and those of the
Vercel AI SDK, all as mappings. An adapter of a framework with message objects of its own turns them into one of these.

A user turn is a message of the user. One that only carries tool results is none, though Anthropic files it under the
user. Text that a harness puts between a user's words (`INJECTED`) is left out.

A turn is short where it has at most `SHORT` words ("and tomorrow?", "yes please"). By itself it says little about the
tools it needs, so it is read together with the turns before it, back to the last one that is not short. Where all of
that is but greetings and thanks ("Good morning!"), it says nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from camdf.gate.append import names_added
from camdf.gate.greetings import greets
from camdf.scorers.base import ends

Messages: TypeAlias = Sequence[Mapping[str, Any]]

INJECTED = (
    "system-reminder",
    "system_reminder",
    "environment_details",
    "environment_context",
    "local-command-stdout",
    "ide_opened_file",
    "ide_selection",
)
"""Tags around what a harness adds to a user's message: reminders, the state of an editor, the output of a command."""

SHORT = 6
"""A turn of at most this many words is read together with the turns before it."""

MOST_BEFORE = 3
"""How many turns before a short one are read with it at most."""

LOOKED_AT = 10_000
"""How many characters of a turn are looked at to see whether it is short."""

READ = 10_000
"""How many characters are read of each end of a long turn: what is asked stands there, and pasted text between."""

INJECTED_IN = 100_000
"""In how many characters of each end of a message what a harness added is looked for."""

CALLS = frozenset({"tool_use", "function_call", "custom_tool_call", "mcp_call", "mcp_tool_use", "tool-call"})
"""Types of the parts that call a tool by `name`, in the AI SDK by `toolName`; chat messages have `tool_calls` instead,
of old `function_call`."""

_INJECTED = re.compile(rf"<({'|'.join(INJECTED)})\b[^<>]*>.*?(?:</\1>|\Z)", re.DOTALL)
_WORDS = re.compile(r"[^\W_]+")
_UNSPACED = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")


class Turn(NamedTuple):
    """A turn of the user."""

    subject: str
    """What it is about: its own words, after those of earlier turns where it is short; "" without any."""

    before: int = 0
    """Characters of the conversation before it: what a changed tool list makes a provider read again."""

    place: int = 0
    """Which message of the history it is."""

    greets: bool = False
    """Whether it only greets or thanks, with none before it that says what it wants."""

    keys: tuple[str, ...] = ()
    """The tools of the request whose name it is: some harnesses look a tool up that way."""


class Call(NamedTuple):
    """A tool that the assistant called."""

    tool: str
    server: str = ""
    """Where it stands, if the call says so."""

    joins: bool = False
    """Whether the history has it as a tool that joined the conversation, and not as a call."""

    keys: tuple[str, ...] = ()
    """The tools of the request that it may mean."""


Event: TypeAlias = Turn | Call


def events(messages: Messages, most: int | None = None) -> tuple[Event, ...]:
    """The user's turns and the assistant's calls, in order; an OverflowError beyond `most` characters.

    >>> first, second = events([
    ...     {"role": "user", "content": "Book a flight"}, {"role": "assistant", "content": "Which date?"},
    ...     {"role": "user", "content": "Tomorrow please"}])
    >>> second.subject
    'Book a flight\\nTomorrow please'
    """
    events: list[Event] = []
    said: list[str] = []
    before = 0
    for place, message in enumerate(messages):
        size = _characters(message)
        if most is not None and before + size > most:
            raise OverflowError
        if is_turn(message):
            said.append(ends(own_words(ends(text_of(message.get("content")), INJECTED_IN)), READ))
            about = subject(said)
            events.append(Turn(about, before, place, greets(about)))
        elif isinstance(message, Mapping):
            events += _calls(message)
            events += (Call(name, joins=True) for name in names_added(message))
        before += size
    return tuple(events)


def subject(turns: Sequence[str]) -> str:
    """What the last of some turns is about.

    >>> subject(["What is the weather in Graz?", "and tomorrow?"])
    'What is the weather in Graz?\\nand tomorrow?'
    >>> subject(["Book a flight", "Now play some quiet jazz on the living room speaker"])
    'Now play some quiet jazz on the living room speaker'
    """
    if not turns or not turns[-1]:
        return ""
    first = len(turns) - 1
    while first > 0 and len(turns) - first <= MOST_BEFORE and words_in(turns[first]) <= SHORT:
        first -= 1
    return "\n".join(filter(None, turns[first:]))


def words_in(text: str) -> int:
    """How many words a text begins with; two characters of a script without spaces count as one."""
    text = text[:LOOKED_AT]
    unspaced = len(_UNSPACED.findall(text))
    return len(_WORDS.findall(_UNSPACED.sub(" ", text))) + (unspaced + 1) // 2


def is_turn(message: Any) -> bool:
    """Whether a message is the user's own, and not a carrier of tool results."""
    if not isinstance(message, Mapping) or message.get("role") != "user":
        return False
    content = message.get("content")
    parts = content if isinstance(content, (list, tuple)) else ()
    results = [isinstance(part, Mapping) and part.get("type") == "tool_result" for part in parts]
    return not (results and all(results))


def own_words(text: str) -> str:
    """A user's words without what a harness put between them.

    >>> own_words("hi\\n<system-reminder>Available skills have changed.</system-reminder>")
    'hi'
    """
    return _INJECTED.sub("", text).strip()


def text_of(content: Any) -> str:
    """The text of a message's content: a string, or the text parts of a list."""
    if isinstance(content, str):
        return content.strip()
    parts = content if isinstance(content, (list, tuple)) else ()
    kinds = ("text", "input_text")
    texts = (str(part.get("text", "")) for part in parts if isinstance(part, Mapping) and part.get("type") in kinds)
    return "\n".join(filter(None, texts)).strip()


def _characters(part: Any) -> int:
    """How much text a message holds, at any depth."""
    if isinstance(part, str):
        return len(part)
    if isinstance(part, Mapping):
        return sum(_characters(inner) for key, inner in part.items() if key not in ("role", "type"))
    return sum(map(_characters, part)) if isinstance(part, (list, tuple)) else 0


def _calls(message: Mapping[str, Any]) -> Iterator[Call]:
    content = message.get("content")
    parts = [*(message.get("tool_calls") or ()), *(content if isinstance(content, list) else ()), message]
    for part in parts:
        if isinstance(part, Mapping):
            inner = part.get("function") or part.get("custom") or part.get("function_call")
            if part.get("type") in CALLS and (name := part.get("name") or part.get("toolName")):
                yield Call(str(name), str(part.get("server_label") or part.get("server_name") or ""))
            elif isinstance(inner, Mapping) and inner.get("name"):
                yield Call(str(inner["name"]))

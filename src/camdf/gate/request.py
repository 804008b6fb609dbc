"""One call of the gate, read: its tools, as we view them and as the harness holds them, what was said and called."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from os import urandom
from time import monotonic
from typing import Any, TypeAlias

from camdf.gate.conversation_terms import Terms
from camdf.gate.judge import Said
from camdf.gate.memory import Identity
from camdf.gate.turns import READ, Call, Event, Messages, Turn, events
from camdf.scorers.base import ends
from camdf.tools import FromServer, Tool, from_servers, keyed, view

Scores: TypeAlias = Mapping[str, float] | Sequence[float]


@dataclass
class Question:
    """One call of the gate, as it came, and the seconds that its answer may take."""

    task: str | Messages
    tools: Iterable[Any]
    budget: float | None
    conversation: str | None = None
    keep: Iterable[str] = ()
    forced: Iterable[str] = ()
    scores: Scores | None = None
    tool_search: bool = False
    request: Request | None = None
    """What was read of it, once its tools are."""

    terms: Terms | None = None
    """Who decides on it, once that is known."""

    asks_scorer: bool = False
    """Whether a scorer is being waited for, or was."""

    began: float = field(default_factory=monotonic)

    def name(self) -> str:
        """The conversation's name; one of the gate's making where the harness asks for it by an empty one."""
        self.conversation = readable(self.conversation) or urandom(16).hex()
        return self.conversation

    def left(self) -> float | None:
        """How many of the seconds are left."""
        return None if self.budget is None else max(self.began + self.budget - monotonic(), 0.0)


@dataclass
class Request:
    """What there is to decide on."""

    events: tuple[Event, ...]
    tools: dict[str, Tool]
    natives: dict[str, Any]
    offered: tuple[str, ...]
    """Keys of the tools that may be offered, in the order of the request."""

    guarded: dict[str, str]
    """Key and why it must stay, in every request of the conversation."""

    untrusted: frozenset[str]
    """Keys of the tools of servers that nobody vouches for, where some are trusted."""

    forced: tuple[str, ...]
    """Keys that this request alone insists on."""

    costs: dict[str, float]
    """Of the tools that can be scored and cut."""

    tool_search: bool
    """Whether the agent can reach a tool that is not on its list."""

    found_by_name: bool
    """Whether it then calls that tool by its own name, as after a provider's search."""

    conversation: str | None
    shown: bool
    """Whether the events are the conversation's whole history; if not, a memory has to know what came before."""

    tenant: str = ""

    whole: bool = False
    """Whether all of it is read: tools, history and prices."""

    before: tuple[str, ...] = ()
    """What a memory knows the conversation to have."""

    explored: bool = False
    """Whether it then explores."""

    said: dict[str, Said] = field(default_factory=dict)
    """The scores of its turns by their text, once they are at hand: no other call drops or replaces them here."""

    @cached_property
    def catalogue(self) -> int:
        """Equal for requests whose candidates neither a scorer nor a policy can tell apart."""
        tools = self.tools
        return hash(tuple((key, tools[key].as_read, cost) for key, cost in self.costs.items()))

    @cached_property
    def own_catalogue(self) -> int:
        """`catalogue`, of this conversation alone; of one without a name, of this tenant alone."""
        return hash((self.tenant, self.conversation, self.catalogue))

    @property
    def goes_on(self) -> bool:
        """Whether it belongs to a conversation, and is not one text and no more."""
        return self.shown or self.conversation is not None

    @property
    def began_before(self) -> bool:
        """Whether it is not the first of its conversation, as far as its history shows."""
        return self.shown and len(self.events) > 1

    @cached_property
    def called(self) -> frozenset[str]:
        """Keys of the tools that the history has called."""
        return frozenset(key for event in self.events if isinstance(event, Call) for key in self.keys_of(event))

    @cached_property
    def turns(self) -> list[Turn]:
        return [event for event in self.events if isinstance(event, Turn)]

    @cached_property
    def identities(self) -> dict[Identity, str]:
        """Keys by what a tool is in every request: its server, its name, and how many of these came before it."""
        found: dict[Identity, str] = {}
        seen: dict[tuple[str, str], int] = {}
        for key, tool in self.tools.items():
            which = tool.server, tool.name
            seen[which] = seen.get(which, 0) + 1
            found[(*which, seen[which])] = key
        return found

    def asks(self, turn: Turn) -> bool:
        """Whether a turn says enough to be scored: it has words, and more than a greeting, or is a tool's name."""
        return bool(turn.subject and (not turn.greets or self.named(turn.subject)))

    def named(self, subject: str) -> list[str]:
        """The tools whose name a turn is: some harnesses look a tool up that way."""
        own = [subject] if subject in self.natives and self.tools[subject].name == subject else []
        return own + self._keyed_otherwise.get(subject, [])

    def keys_of(self, call: Call) -> list[str]:
        """The tools that a call may have meant: one name may stand on two servers, and a call may say on which."""
        keys = self.named(call.tool) or ([call.tool] if call.tool in self.natives else [])
        there = [key for key in keys if call.server and self.tools[key].server == call.server]
        return there or [key for key in keys if key not in self.untrusted] or keys

    @cached_property
    def _keyed_otherwise(self) -> dict[str, list[str]]:
        """Names and keys of the tools whose key is not their name."""
        found: dict[str, list[str]] = {}
        for key in self.offered:
            if (name := self.tools[key].name) != key:
                found.setdefault(name, []).append(key)
        return found

    def aligned(self, scores: Scores) -> list[float]:
        """The harness's own scores, one for every candidate."""
        if isinstance(scores, Mapping):
            return [scores[key] if key in scores else scores[self.tools[key].name] for key in self.costs]
        by_key = dict(zip(self.tools, scores, strict=True)) if self.costs else {}
        return [by_key[key] for key in self.costs]


def tools_by_key(
    tools: Iterable[Any], trusted: Collection[str] | None = None
) -> tuple[dict[str, Tool], dict[str, Any]]:
    """Tools by key: as we view them, and as the harness holds them. They come in a sequence, or by server."""
    if isinstance(tools, (str, bytes)):
        raise TypeError("Tools come as a sequence.")
    listed = from_servers(tools) if isinstance(tools, Mapping) else list(tools)
    viewed = keyed(map(viewed_tool, listed), trusted)
    natives = (native.tool if isinstance(native, FromServer) else native for native in listed)
    return viewed, dict(zip(viewed, natives, strict=True))


def viewed_tool(native: Any) -> Tool:
    """A tool as we view it; foreign where its own attributes raise, or its name is no text."""
    try:
        tool = view(native)
        if type(tool.name) is type(tool.description) is type(tool.server) is str:
            return tool
        plain = str.__str__  # a subclass may raise when it is compared
        return replace(tool, name=plain(tool.name), description=plain(tool.description), server=plain(tool.server))
    except Exception:
        return _unread_tool(native)


def unread(question: Question, *, nothing: bool) -> Request:
    """A request whose tools could not be read in time, or at all: all of them as they came, or `nothing`."""
    listed = list(question.tools) if isinstance(question.tools, (list, tuple)) else []
    listed = [native.tool if isinstance(native, FromServer) else native for native in listed]
    viewed = keyed(map(_unread_tool, listed))
    natives = {} if nothing else dict(zip(viewed, listed, strict=True))
    guarded = dict.fromkeys(natives, "not read")
    offered = tuple(natives)
    return Request(
        (), viewed, natives, offered, guarded, frozenset(), (), {}, question.tool_search, False, None, shown=True
    )


def _unread_tool(native: Any) -> Tool:
    return Tool(type(native).__name__, foreign=True, readable=False)


def read_task(task: str | Messages, most: int | None = None) -> tuple[Event, ...]:
    """The turns and calls of a history; of a text, one turn. What cannot be read says nothing.

    An OverflowError where it has more than `most` characters.
    """
    try:
        if isinstance(task, (list, tuple)):
            return events(task, most)
        text = readable(task)
    except OverflowError:
        raise
    except Exception:
        return ()
    if most is not None and len(text) > most:
        raise OverflowError
    return (Turn(ends(text, READ)),)


def readable(text: object) -> str:
    """Any object as text, "" where it has none."""
    try:
        return str(text).strip() if text is not None else ""
    except Exception:
        return ""


def names_in(given: Iterable[str]) -> frozenset[str]:
    """The names in what a harness hands over, which may be one of them, or anything."""
    try:
        found = (given,) if isinstance(given, str) else given
        return frozenset(str.__str__(name) for name in found if isinstance(name, str))
    except Exception:
        return frozenset()

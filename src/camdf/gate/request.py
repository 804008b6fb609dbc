"""One call of the gate, read: its tools, as we view them and as the harness holds them, what was said and called."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

from camdf.gate.turns import Call, Event, Messages, Turn, events
from camdf.tools import Tool, keyed, view

Scores: TypeAlias = Mapping[str, float] | Sequence[float]


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

    forced: tuple[str, ...]
    """Keys that this request alone insists on."""

    costs: dict[str, float]
    """Of the tools that can be scored and cut."""

    door: bool
    """Whether the agent can reach a tool that is not on its list."""

    found_by_name: bool
    """Whether it then calls that tool by its own name, as after a provider's search."""

    conversation: str | None
    shown: bool
    """Whether the events are the conversation's whole history; if not, a memory has to know what came before."""

    before: tuple[str, ...] = ()
    """What a memory knows the conversation to have."""

    @cached_property
    def catalogue(self) -> int:
        """Equal for requests whose candidates neither a scorer nor a policy can tell apart."""
        return hash(tuple((key, self.tools[key].description, cost) for key, cost in self.costs.items()))

    @cached_property
    def turns(self) -> list[Turn]:
        return [event for event in self.events if isinstance(event, Turn)]

    def asks(self, turn: Turn) -> bool:
        """Whether a turn says enough to be scored: it has words, and more than a greeting, or is a tool's name."""
        return bool(turn.subject and (not turn.greets or self.named(turn.subject)))

    def named(self, subject: str) -> list[str]:
        """The tools whose name a turn is: some harnesses look a tool up that way."""
        return [key for key in self.offered if self.tools[key].name == subject]

    def keys_of(self, call: Call) -> list[str]:
        """The tools that a call may have meant: one name may stand on two servers."""
        return [key for key in self.offered if call.tool in (key, self.tools[key].name)]

    def aligned(self, scores: Scores) -> list[float]:
        """The harness's own scores, one for every candidate."""
        if isinstance(scores, Mapping):
            return [scores[key] if key in scores else scores[self.tools[key].name] for key in self.costs]
        by_key = dict(zip(self.tools, scores, strict=True)) if self.costs else {}
        return [by_key[key] for key in self.costs]


def read_tools(tools: Iterable[Any]) -> tuple[dict[str, Tool], dict[str, Any]]:
    """Tools by key: as we view them, and as the harness holds them."""
    if isinstance(tools, (str, bytes, Mapping)):
        raise TypeError("Tools come as a sequence.")
    listed = list(tools)
    viewed = keyed(viewed_tool(native) for native in listed)
    return viewed, dict(zip(viewed, listed, strict=True))


def viewed_tool(native: Any) -> Tool:
    """A tool as we view it; foreign where its own attributes raise."""
    try:
        return view(native)
    except Exception:
        return Tool(type(native).__name__, foreign=True)


def read_task(task: str | Messages) -> tuple[Event, ...]:
    """The turns and calls of a history; of a text, one turn. What cannot be read says nothing."""
    try:
        if isinstance(task, (list, tuple)):
            return events(task)
        return (Turn(readable(task)),)
    except Exception:
        return ()


def readable(text: object) -> str:
    """Any object as text, "" where it has none."""
    try:
        return str(text).strip() if text is not None else ""
    except Exception:
        return ""


def names(given: Iterable[str]) -> tuple[str, ...]:
    """The names in what a harness hands over, which may be one of them, or anything."""
    try:
        return (given,) if isinstance(given, str) else tuple(name for name in given if isinstance(name, str))
    except Exception:
        return ()

"""One call of the gate, as it came and as it is read: its tools, viewed, authorized, guarded and priced; its turns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import sha256
from math import inf
from os import urandom
from time import monotonic
from typing import Any, Protocol, TypeAlias

from camdf.errors import UsageError
from camdf.gate.append import CHANNELS, Channel, Channels, channel_of
from camdf.gate.decision import Reason
from camdf.gate.judge import ScoredTurn
from camdf.gate.lists import Mode, has_search
from camdf.gate.memory import Identity, Memory, Terms
from camdf.gate.settings import Dealt, Guards, Limits
from camdf.gate.turns import READ, Call, Event, Messages, Turn, events
from camdf.scorers.base import ends
from camdf.tools import Tool, tools_by_key, unread_by_key

Scores: TypeAlias = Mapping[str, float] | Sequence[float]

LONGEST_NAME = 200
"""Longer names of conversations are remembered by their digest."""


class Priced(Protocol):
    """What says the cost of a tool, as `camdf.prices.Prices` does."""

    def of(self, tool: Tool) -> float:
        """The cost of offering this tool to one task."""
        ...


PriceList: TypeAlias = Priced | Mapping[str, float] | Callable[[Tool], float]


class UndecidedError(Exception):
    """There is nothing to decide on; the list stays as it is."""

    def __init__(self, reason: Reason, error: str = "") -> None:
        super().__init__(reason)
        self.reason, self.error = reason, error


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
    model: str = ""
    """The model that gets the tools, where the harness says."""

    request: Request | None = None
    """What was read of it, once its tools are."""

    terms: tuple[Terms, Dealt] | None = None
    """Who decides on it, and what chance and switches say of it, once that is known."""

    asks_scorer: bool = False
    """Whether a scorer is being waited for, or was."""

    began: float = field(default_factory=monotonic)

    def __post_init__(self) -> None:
        if self.conversation is not None:  # an empty name asks for one of the gate's making
            self.conversation = readable(self.conversation) or urandom(16).hex()

    def left(self) -> float | None:
        """How many of the seconds are left."""
        return None if self.budget is None else max(self.began + self.budget - monotonic(), 0.0)


@dataclass(frozen=True, eq=False)
class Request:
    """What there is to decide on."""

    tools: dict[str, Tool]
    natives: dict[str, Any]
    offered: tuple[str, ...]
    """Keys of the tools that may be offered, in the order of the request."""

    guarded: dict[str, str]
    """Key and why it must stay, in every request of the conversation."""

    untrusted: frozenset[str] = frozenset()
    """Keys of the tools of servers that nobody vouches for, where some are trusted."""

    forced: tuple[str, ...] = ()
    """Keys that this request alone insists on."""

    tool_search: bool = False
    """Whether the agent can reach a tool that is not on its list."""

    found_by_name: bool = False
    """Whether it then calls that tool by its own name, as after a provider's search."""

    channel: Channel | None = None
    """Where the model takes tools that join later: None where it does not, or the gate's mode is another."""

    conversation: str | None = None
    shown: bool = True
    """Whether the events are the conversation's whole history; if not, a memory has to know what came before."""

    tenant: str = ""

    events: tuple[Event, ...] = ()
    turns: tuple[Turn, ...] = ()
    """Those of the events."""

    costs: dict[str, float] = field(default_factory=dict)
    """Of the tools that can be scored and cut."""

    whole: bool = False
    """Whether all of it is read: tools, history and prices."""

    before: tuple[str, ...] = ()
    """What a memory knows the conversation to have."""

    explored: bool = False
    """Whether it then explores."""

    scored_turns: dict[str, ScoredTurn] = field(default_factory=dict)
    """The scores of its turns by their text, once they are at hand: no other call drops or replaces them here."""

    @cached_property
    def catalogue(self) -> int:
        """Equal for requests whose candidates neither a scorer nor a policy can tell apart."""
        tools = self.tools
        return hash(tuple((key, tools[key].as_read, cost) for key, cost in self.costs.items()))

    @cached_property
    def own_catalogue(self) -> int | None:
        """`catalogue`, of this conversation alone, or this tenant without a name; None for one text and no more."""
        goes_on = self.shown or self.conversation is not None
        return hash((self.tenant, self.conversation, self.catalogue)) if goes_on else None

    @property
    def settled(self) -> bool:
        """Whether the first decision stands: a tool that it missed is a search away, and adding one is not free."""
        return self.tool_search and self.channel is None

    @cached_property
    def joined_before(self) -> frozenset[str]:
        """Keys of the tools that the history has among its messages."""
        return frozenset(key for event in self.events if isinstance(event, Call) and event.joins for key in event.keys)

    @cached_property
    def called(self) -> frozenset[str]:
        """Keys of the tools that the history has called."""
        return frozenset(key for event in self.events if isinstance(event, Call) for key in event.keys)

    @cached_property
    def identities(self) -> dict[Identity, str]:
        """Keys by what a tool is in every request: its server, its name, and how many of these came before it."""
        keys: dict[Identity, str] = {}
        seen = Counter[tuple[str, str]]()
        for key, tool in self.tools.items():
            which = tool.server, tool.name
            seen[which] += 1
            keys[(*which, seen[which])] = key
        return keys

    def meant_by(self, events: Iterable[Event]) -> tuple[Event, ...]:
        """Turns and calls with the tools that they name.

        One name may stand on two servers, and a call may say on which. A greeting that is the name of a tool is none.
        """
        named: dict[str, list[str]] = {}
        for key in self.offered:
            if (name := self.tools[key].name) != key:
                named.setdefault(name, []).append(key)

        def meant(event: Event) -> Event:
            name = event.subject if isinstance(event, Turn) else event.tool
            own = [name] if name in self.natives and self.tools[name].name == name else []
            keys = own + named.get(name, [])
            if isinstance(event, Turn):
                return event._replace(keys=tuple(keys), greets=False) if keys else event
            keys = keys or ([name] if name in self.natives else [])
            there = [key for key in keys if event.server and self.tools[key].server == event.server]
            return event._replace(keys=tuple(there or [key for key in keys if key not in self.untrusted] or keys))

        return tuple(map(meant, events))

    def aligned(self, scores: Scores) -> list[float]:
        """The harness's own scores, one for every candidate."""
        if isinstance(scores, Mapping):
            return [scores[key] if key in scores else scores[self.tools[key].name] for key in self.costs]
        by_key = dict(zip(self.tools, scores, strict=True)) if self.costs else {}
        return [by_key[key] for key in self.costs]


def unread(question: Question, *, nothing: bool) -> Request:
    """A request whose tools could not be read in time, or at all: all of them as they came, or `nothing`."""
    viewed, natives = unread_by_key(question.tools)
    natives = {} if nothing else natives
    return Request(
        tools=viewed,
        natives=natives,
        offered=tuple(natives),
        guarded=dict.fromkeys(natives, "not read"),
        tool_search=question.tool_search,
    )


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
        names = (given,) if isinstance(given, str) else given
        return frozenset(str.__str__(name) for name in names if isinstance(name, str))
    except Exception:
        return frozenset()


@dataclass(frozen=True)
class RequestReader:
    """Reads calls: by these guards, prices and bounds, and with what a memory knows."""

    guards: Guards
    prices: PriceList | None
    memory: Memory
    limits: Limits
    tenant: str = ""
    channels: Channels = field(default_factory=lambda: CHANNELS)

    def read(self, question: Question, mode: Mode) -> Request:
        """The request, which also stands in `question` once its tools are read."""
        guards, limits, keep, insisted = self.guards, self.limits, names_in(question.keep), names_in(question.forced)
        name, shown = question.conversation, isinstance(question.task, (list, tuple))
        tools, natives = tools_by_key(question.tools, guards.trusted)
        authorized = guards.offered(tools)
        untrusted = guards.untrusted_among(tools, authorized)
        offered, sizes = limits.within(tools, authorized, untrusted)
        request = question.request = Request(
            tools=tools,
            natives={key: natives[key] for key in offered},
            offered=offered,
            guarded=guards.guarded(tools, offered, keep),
            untrusted=untrusted.intersection(offered),
            forced=tuple(key for key in offered if guards.called(key, tools[key], insisted)) if insisted else (),
            tool_search=question.tool_search or (mode == "defer" and has_search(natives[key] for key in offered)),
            found_by_name=mode == "defer",
            channel=channel_of(readable(question.model), self.channels) if mode == "append" and shown else None,
            conversation=None if name is None else self._name(name),
            shown=shown,
            tenant=self.tenant,
        )
        if not shown and request.conversation is not None:
            request = question.request = self._recalled(request, request.conversation, question.left())
        texts = sum(sizes.values())
        if len(offered) > limits.tools or texts > limits.characters:
            raise UndecidedError("request too large")
        try:
            events = request.meant_by(read_task(question.task, limits.characters - texts))
        except OverflowError:
            raise UndecidedError("request too large") from None
        costs, unknown = self._costs(request, sizes)
        turns = tuple(event for event in events if isinstance(event, Turn))
        guarded = {**unknown, **request.guarded}
        request = replace(request, events=events, turns=turns, costs=costs, guarded=guarded, whole=True)
        question.request = request
        return request

    def _recalled(self, request: Request, conversation: str, seconds: float | None) -> Request:
        """The request with what a memory knows of its conversation."""
        remembered = self.memory.recall(conversation, seconds)
        if remembered is None:
            return request
        known = (request.identities.get(identity) for identity in remembered.kept)
        before = tuple(key for key in known if key in request.natives)
        return replace(request, before=before, explored=remembered.explored)

    def _name(self, conversation: str) -> str:
        """What a conversation is remembered by: no tenant's is another's, whatever they are called."""
        if not self.tenant and len(conversation) <= LONGEST_NAME:
            return conversation
        whole = f"{len(self.tenant)} {self.tenant}{conversation}" if self.tenant else conversation
        return sha256(whole.encode(errors="surrogatepass")).hexdigest()

    def _costs(self, request: Request, ranked: Container[str]) -> tuple[dict[str, float], dict[str, str]]:
        """Costs of all that can be scored and cut. A tool whose definition is broken has none, and stays if trusted."""
        problem = ""
        costs: dict[str, float] = {}
        unknown: dict[str, str] = {}
        cost_of = _cost_function(self.prices)
        for key in request.offered:
            if not (tool := request.tools[key]).foreign and key in ranked:
                try:
                    cost = cost_of(key, tool)
                    if not 0 < cost < inf:
                        raise UsageError(f"The cost of a tool must be finite and positive. Got {cost!r} instead.")
                    costs[key] = cost
                except Exception as error:
                    problem = type(error).__name__
                    if key not in request.untrusted:
                        unknown[key] = "its cost is not known"
        if problem and not costs:
            raise UndecidedError("policy failed", problem)
        return costs, unknown


def _cost_function(prices: PriceList | None) -> Callable[[str, Tool], float]:
    if prices is None:
        return lambda key, tool: 1.0
    if isinstance(prices, Mapping):
        return lambda key, tool: float(
            prices[name] if (name := tool.full_name) in prices or (name := key) in prices else prices[tool.name]
        )
    of: Callable[[Tool], float] = prices if callable(prices) else prices.of
    return lambda key, tool: float(of(tool))

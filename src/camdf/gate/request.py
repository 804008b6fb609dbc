"""One call of the gate, as it came and as it is read: its tools, viewed, authorised, guarded and priced; its turns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import sha256
from math import inf
from os import urandom
from time import monotonic
from typing import Any, Protocol, TypeAlias

from camdf.errors import UsageError
from camdf.gate import turns
from camdf.gate.append import CHANNELS, Channel, Channels, channel_of
from camdf.gate.decision import Reason
from camdf.gate.judge import ScoredTurn
from camdf.gate.lists import Mode, has_search
from camdf.gate.memory import Identity, JudgeAndMode, Memory
from camdf.gate.settings import Guards, Limits
from camdf.gate.turns import Call, Event, Messages, Turn, events
from camdf.scorers.base import ends
from camdf.tools import READ, FromServer, Tool, from_servers, keyed, view

Scores: TypeAlias = Mapping[str, float] | Sequence[float]

LONGEST_NAME = 200
"""Longer names of conversations are remembered by their digest."""

TOOL_CHARACTERS = 200_000
"""A tool whose name, description or schema is longer is refused: no model is sent so much for one tool."""

SERVER_TOOLS = 2_000
"""So many tools of one server may be offered: more are refused."""

SERVER_CHARACTERS, UNTRUSTED_CHARACTERS = 400_000, 100_000
"""How many characters scorers read of one server's tools, and of all untrusted servers' together. Tools beyond that are
not ranked: they are cut, and found by their names."""


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

    terms: JudgeAndMode | None = None
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


@dataclass(frozen=True, eq=False)
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

    channel: Channel | None
    """Where the model takes tools that join later: None where it does not, or the gate's mode is another."""

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

    scored_turns: dict[str, ScoredTurn] = field(default_factory=dict)
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
    def settled(self) -> bool:
        """Whether the first decision stands: a tool that it missed is a search away, and adding one is not free."""
        return self.tool_search and self.channel is None

    @cached_property
    def joined_before(self) -> frozenset[str]:
        """Keys of the tools that the history has among its messages."""
        joining = (event for event in self.events if isinstance(event, Call) and event.joins)
        return frozenset(key for event in joining for key in self.keys_of(event))

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
        keys: dict[Identity, str] = {}
        seen: dict[tuple[str, str], int] = {}
        for key, tool in self.tools.items():
            which = tool.server, tool.name
            seen[which] = seen.get(which, 0) + 1
            keys[(*which, seen[which])] = key
        return keys

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
        keys: dict[str, list[str]] = {}
        for key in self.offered:
            if (name := self.tools[key].name) != key:
                keys.setdefault(name, []).append(key)
        return keys

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
        (), viewed, natives, offered, guarded, frozenset(), (), {}, question.tool_search, False, None, None, shown=True
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
    return (Turn(ends(text, turns.READ)),)


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
        viewed, natives = tools_by_key(question.tools, self.guards.trusted)
        authorised = self.guards.offered(viewed)
        untrusted = frozenset(key for key in authorised if self.guards.untrusted(viewed[key]))
        offered, sizes = self._within_limits(viewed, authorised, untrusted)
        keep, insisted = names_in(question.keep), names_in(question.forced)
        shown = isinstance(question.task, (list, tuple))
        request = question.request = Request(
            events=(),
            tools=viewed,
            natives={key: natives[key] for key in offered},
            offered=offered,
            guarded=self.guards.guarded(viewed, offered, keep),
            untrusted=untrusted.intersection(offered),
            forced=tuple(key for key in offered if self.guards.called(key, viewed[key], insisted)) if insisted else (),
            costs={},
            tool_search=question.tool_search or (mode == "defer" and has_search(natives[key] for key in offered)),
            found_by_name=mode == "defer",
            channel=channel_of(readable(question.model), self.channels) if mode == "append" and shown else None,
            conversation=None if question.conversation is None else self._name(question.name()),
            shown=shown,
            tenant=self.tenant,
        )
        if not request.shown and (remembered := self.memory.recall(request.conversation, question.left())):
            known = (request.identities.get(identity) for identity in remembered.kept)
            before = tuple(key for key in known if key in request.natives)
            request = question.request = replace(request, before=before, explored=remembered.explored)
        texts = sum(sizes.values())
        if len(offered) > self.limits.tools or texts > self.limits.characters:
            raise UndecidedError("request too large")
        try:
            said = read_task(question.task, self.limits.characters - texts)
        except OverflowError:
            raise UndecidedError("request too large") from None
        costs, unknown = self._costs(request, sizes)
        guarded = {**unknown, **request.guarded}
        question.request = replace(request, events=said, costs=costs, guarded=guarded, whole=True)
        return question.request

    def _within_limits(
        self, viewed: Mapping[str, Tool], authorised: Sequence[str], untrusted: Collection[str]
    ) -> tuple[tuple[str, ...], dict[str, int]]:
        """The tools that may be offered, and the characters that scorers read of those that are ranked.

        A tool that is too large, or of a server that has too many or writes too much, costs itself alone. Where some
        servers are trusted, the others share the room that those leave.
        """
        room = max(self.limits.tools - (len(authorised) - len(untrusted)), 0)
        share = 1 / max(len({viewed[key].server for key in untrusted}), 1)
        of_untrusted = (min(SERVER_TOOLS, room * share), min(SERVER_CHARACTERS, UNTRUSTED_CHARACTERS * share))
        tools, characters = Counter[str](), Counter[str]()
        within: list[str] = []
        sizes: dict[str, int] = {}
        for key in authorised:
            tool, ranked = viewed[key], True
            size = len(tool.name) + min(len(tool.description), READ)
            if not tool.foreign:
                if _is_too_large(tool):
                    continue
                if tool.server or key in untrusted:  # where nobody knows the server, the request's own limits hold
                    limits = of_untrusted if key in untrusted else (SERVER_TOOLS, SERVER_CHARACTERS)
                    tools[tool.server] += 1
                    characters[tool.server] += size
                    if tools[tool.server] > limits[0]:
                        continue
                    ranked = characters[tool.server] <= limits[1]
            within.append(key)
            if ranked:
                sizes[key] = size
        return tuple(within), sizes

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


def _is_too_large(tool: Tool) -> bool:
    if len(tool.description) > TOOL_CHARACTERS or len(tool.name) > TOOL_CHARACTERS:
        return True
    if not isinstance(tool.parameters, dict):  # it is built when it is priced
        return False
    if tool.packed is not None:
        return len(tool.packed) > TOOL_CHARACTERS
    with suppress(Exception):  # a schema that cannot be written at all has no price
        return len(tool.definition()) > TOOL_CHARACTERS
    return False


def _cost_function(prices: PriceList | None) -> Callable[[str, Tool], float]:
    if prices is None:
        return lambda key, tool: 1.0
    if isinstance(prices, Mapping):
        return lambda key, tool: float(
            prices[name] if (name := tool.full_name) in prices or (name := key) in prices else prices[tool.name]
        )
    of: Callable[[Tool], float] = prices if callable(prices) else prices.of
    return lambda key, tool: float(of(tool))

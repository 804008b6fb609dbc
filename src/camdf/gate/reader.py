"""From a call as it came to what there is to decide on: tools viewed, authorised, guarded and priced."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Container, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from math import inf
from typing import Protocol, TypeAlias

from camdf.errors import UsageError
from camdf.gate.decision import Mode, Reason
from camdf.gate.guards import Guards
from camdf.gate.memory import Memory
from camdf.gate.modes import has_search
from camdf.gate.request import Question, Request, names_in, read_task, tools_by_key
from camdf.tools import READ, Tool

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


@dataclass(frozen=True)
class RequestReader:
    """Reads calls: by these guards, prices and bounds, and with what a memory knows."""

    guards: Guards
    prices: PriceList | None
    memory: Memory
    most_tools: int
    most_characters: int
    tenant: str = ""

    def read(self, question: Question, mode: Mode) -> Request:
        """The request, which also stands in `question` once its tools are read."""
        viewed, natives = tools_by_key(question.tools, self.guards.trusted)
        authorised = self.guards.offered(viewed)
        untrusted = frozenset(key for key in authorised if self.guards.untrusted(viewed[key]))
        offered, sizes = self._within_limits(viewed, authorised, untrusted)
        keep, insisted = names_in(question.keep), names_in(question.forced)
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
            conversation=None if question.conversation is None else self._name(question.name()),
            shown=isinstance(question.task, (list, tuple)),
            tenant=self.tenant,
        )
        if not request.shown and (remembered := self.memory.recall(request.conversation, question.left())):
            known = (request.identities.get(each) for each in remembered.kept)
            request.before = tuple(key for key in known if key in request.natives)
            request.explored = remembered.explored
        texts = sum(sizes.values())
        if len(offered) > self.most_tools or texts > self.most_characters:
            raise UndecidedError("request too large")
        try:
            request.events = read_task(question.task, self.most_characters - texts)
        except OverflowError:
            raise UndecidedError("request too large") from None
        self._price(request, sizes)
        request.whole = True
        return request

    def _within_limits(
        self, viewed: Mapping[str, Tool], authorised: Sequence[str], untrusted: Collection[str]
    ) -> tuple[tuple[str, ...], dict[str, int]]:
        """The tools that may be offered, and the characters that scorers read of those that are ranked.

        A tool that is too large, or of a server that has too many or writes too much, costs itself alone. Where some
        servers are trusted, the others share the room that those leave.
        """
        room = max(self.most_tools - (len(authorised) - len(untrusted)), 0)
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

    def _price(self, request: Request, ranked: Container[str]) -> None:
        """Costs of all that can be scored and cut; a tool whose definition is broken has none, and stays if trusted."""
        tools, problem = request.tools, ""
        costs: dict[str, float] = {}
        unknown: dict[str, str] = {}
        cost_of = _cost_function(self.prices)
        for key in request.offered:
            if not (tool := tools[key]).foreign and key in ranked:
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
        request.costs, request.guarded = costs, {**unknown, **request.guarded}


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

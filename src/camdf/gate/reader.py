"""From a call as it came to what there is to decide on: tools viewed, authorised, guarded and priced."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from math import inf
from typing import Protocol, TypeAlias

from camdf.errors import UsageError
from camdf.gate.decision import Mode, Reason
from camdf.gate.guards import Guards, called
from camdf.gate.memory import Memory
from camdf.gate.modes import has_search
from camdf.gate.request import Question, Request, names_in, read_task, readable, tools_by_key
from camdf.tools import Tool

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
        viewed, natives = tools_by_key(question.tools)
        offered = self.guards.offered(viewed)
        keep, insisted = names_in(question.keep), names_in(question.forced)
        request = question.request = Request(
            events=(),
            tools=viewed,
            natives={key: natives[key] for key in offered},
            offered=offered,
            guarded=self.guards.guarded(viewed, offered, keep),
            forced=tuple(key for key in offered if called(key, viewed[key], insisted)) if insisted else (),
            costs={},
            door=question.door or (mode == "defer" and has_search(natives[key] for key in offered)),
            found_by_name=mode == "defer",
            conversation=None if question.conversation is None else self._name(readable(question.conversation)),
            shown=isinstance(question.task, (list, tuple)),
            tenant=self.tenant,
        )
        if not request.shown and (remembered := self.memory.recall(request.conversation, question.left())):
            known = (request.identities.get(each) for each in remembered.kept)
            request.before = tuple(key for key in known if key in request.natives)
            request.explored = remembered.explored
        texts = sum(len(tool.name) + len(tool.description) for tool in viewed.values())
        if len(viewed) > self.most_tools or texts > self.most_characters:
            raise UndecidedError("request too large")
        try:
            request.events = read_task(question.task, self.most_characters - texts)
        except OverflowError:
            raise UndecidedError("request too large") from None
        self._price(request)
        request.whole = True
        return request

    def _name(self, conversation: str) -> str:
        """What a conversation is remembered by: no tenant's is another's, whatever they are called."""
        if not self.tenant and len(conversation) <= LONGEST_NAME:
            return conversation
        whole = f"{len(self.tenant)} {self.tenant}{conversation}" if self.tenant else conversation
        return sha256(whole.encode(errors="surrogatepass")).hexdigest()

    def _price(self, request: Request) -> None:
        """Costs of all that can be scored and cut; a tool whose definition is broken has none, and stays."""
        tools, problem = request.tools, ""
        costs: dict[str, float] = {}
        unknown: dict[str, str] = {}
        cost_of = _cost_function(self.prices)
        for key in request.offered:
            if not (tool := tools[key]).foreign:
                try:
                    cost = cost_of(key, tool)
                    if not 0 < cost < inf:
                        raise UsageError(f"The cost of a tool must be finite and positive. Got {cost!r} instead.")
                    costs[key] = cost
                except Exception as error:
                    problem = type(error).__name__
                    unknown[key] = "its cost is not known"
        if problem and not costs:
            raise UndecidedError("policy failed", problem)
        request.costs, request.guarded = costs, {**unknown, **request.guarded}


def _cost_function(prices: PriceList | None) -> Callable[[str, Tool], float]:
    if prices is None:
        return lambda key, tool: 1.0
    if isinstance(prices, Mapping):
        return lambda key, tool: float(
            prices[name] if (name := tool.full_name) in prices or (name := key) in prices else prices[tool.name]
        )
    of: Callable[[Tool], float] = prices if callable(prices) else prices.of
    return lambda key, tool: float(of(tool))

"""Decide which tools a conversation gets, inside a harness: never raise, never add one, never narrow what was decided.

The conversation is its own memory: where a harness hands over the messages, the tools are a fold over the user's turns
(`fold`), and no worker needs to know what another one said.

A failure decides nothing, as a turn without signal does: the list stays as it is, or open where nothing was decided,
and neither is remembered.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from functools import partial
from threading import Lock
from typing import Any, Protocol, TypeAlias, get_args
from zlib import crc32

from camdf.core.payoff import Payoff
from camdf.errors import UsageError
from camdf.gate.budget import BusyError
from camdf.gate.decision import GateDecision, Mode, Ranked, Reason
from camdf.gate.door import FOUND
from camdf.gate.fold import Fold, Folding, UnscoredError
from camdf.gate.memory import Memory
from camdf.gate.modes import handed_over, has_search
from camdf.gate.opinions import Opinions, RefusedError, says_nothing
from camdf.gate.request import Request, Scores, names, read_task, read_tools, readable, viewed_tool
from camdf.gate.telemetry import Sink, add_to_span
from camdf.gate.turns import Messages
from camdf.policies.base import Policy
from camdf.scorers.base import Scorer
from camdf.tools import Tool


class Priced(Protocol):
    """What says the cost of a tool, as `camdf.prices.Prices` does."""

    def of(self, tool: Tool) -> float:
        """The cost of offering this tool to one task."""
        ...


PriceList: TypeAlias = Priced | Mapping[str, float] | Callable[[Tool], float]
Allow: TypeAlias = Collection[str] | Callable[[Tool], bool]


class Gate:
    """A policy at work: scores and prices the tools of a conversation, decides, and keeps a harness's promises.

    - `decide` never raises. What goes wrong leaves the list as it is, or open where nothing was decided (the whole
      authorised list, or `fallback`), and the reason says so.
    - The answer is a subset of the request's tools and of those authorised: `allow` names them, or is called for each;
      `digests` pins definitions (`Tool.digest`). A tool that fails either is refused, also where `allow` raises.
    - Pinned tools, tools named in `keep`, tools that the history has called, tools of a shape not known here and the
      provider's own are never cut.
    - Once decided, a conversation only widens, at the end of its list; with a door to the other tools it stays.
    - The same history and tools give the same answer on every worker. An `explore` share of conversations sees every
      tool, and is flagged.

    `mode` is "drop" (cut), "defer" (mark what is cut for the provider's tool search), "allow" (leave the list, and say
    in `tool_choice` what may be called) or "shadow" (only say what would be cut). `budget` is what scoring may take, in
    seconds. `at_least` and `at_most` bound how many tools are kept; guarded and earlier tools count, and are kept even
    beyond `at_most`. `prices` in dollars (`Prices`) also price the cached prompt that a later widening rewrites.
    `conversations` is how many conversations are remembered whose history is not shown. `on_decision` receives every
    decision on a thread of its own; the current OpenTelemetry span gets an event either way.
    """

    def __init__(
        self,
        policy: Policy,
        scorer: Scorer | None = None,
        payoff: Payoff | None = None,
        *,
        prices: PriceList | None = None,
        pinned: Collection[str] = (),
        allow: Allow | None = None,
        digests: Mapping[str, str] | None = None,
        mode: Mode = "drop",
        explore: float = 0.0,
        fallback: Collection[str] | None = None,
        budget: float | None = 5.0,
        at_least: int = 0,
        at_most: int | None = None,
        conversations: int = 10_000,
        on_decision: Callable[[GateDecision], object] | None = None,
    ) -> None:
        self._settings = {name: value for name, value in locals().items() if name not in ("self", "__class__")}
        known = payoff or getattr(policy, "payoff_", None)
        if not isinstance(known, Payoff):
            raise UsageError("This policy serves any payoff. Give the gate one, as Payoff(0.12).")
        if mode not in get_args(Mode):
            raise UsageError(f"The 'mode' of Gate must be one of {', '.join(get_args(Mode))}. Got {mode!r} instead.")
        if not 0 <= explore <= 1:
            raise UsageError(f"The 'explore' share of Gate must lie between 0 and 1. Got {explore!r} instead.")
        self.prices = prices
        self.pinned, self.allow, self.digests = frozenset(pinned), allow, digests
        self.mode, self.explore, self.budget = mode, explore, budget
        self.fallback = None if fallback is None else frozenset(fallback)
        self.at_least, self.at_most = at_least, at_most
        self._cost = _cost_function(prices)
        self.memory = Memory(conversations)
        self.sink = None if on_decision is None else Sink(on_decision)
        self.counts: Counter[Reason] = Counter()
        self._opinions = Opinions(policy, scorer, known)
        rewritten = getattr(prices, "of_rewriting", _nothing) if mode in ("drop", "shadow") else _nothing
        self._folding = Folding(self._opinions, at_least, at_most, rewritten)
        self._lock = Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy in another process, or a deep copy, has the same settings; conversations and threads stay behind."""
        return partial(type(self), **self._settings), ()

    @property
    def policy(self) -> Policy:
        """What decides."""
        return self._opinions.policy

    @property
    def scorer(self) -> Scorer | None:
        """What ranks; None where every task brings its own scores."""
        return self._opinions.scorer

    @property
    def payoff(self) -> Payoff:
        """What a set of tools is worth."""
        return self._opinions.payoff

    def decide(
        self,
        task: str | Messages,
        tools: Iterable[Any],
        *,
        conversation: str | None = None,
        keep: Iterable[str] = (),
        forced: Iterable[str] = (),
        scores: Scores | None = None,
        door: bool = False,
    ) -> GateDecision:
        """The tools that a conversation gets.

        `task` is the history of the conversation as messages (OpenAI chat, OpenAI Responses or Anthropic), or the text
        of one task. `conversation` names a thread or a session: where only texts are shown, the gate remembers what it
        has; a history needs no name. `keep` names tools that stay in every request, such as handoffs; `forced` those
        that this request's `tool_choice` names. `scores`, by name or in the order of the tools, stand in for the
        scorer's on the last turn. `door` says that the agent can search for tools that it was not given.
        """
        request = self._read(task, tools, conversation, keep, forced, scores, door)
        if isinstance(request, GateDecision):
            return self._reported(request)
        return self._reported(self._decided(request, *self._scored(request)))

    async def adecide(
        self,
        task: str | Messages,
        tools: Iterable[Any],
        *,
        conversation: str | None = None,
        keep: Iterable[str] = (),
        forced: Iterable[str] = (),
        scores: Scores | None = None,
        door: bool = False,
    ) -> GateDecision:
        """`decide`, with the scorer waited for, so that an event loop goes on."""
        request = self._read(task, tools, conversation, keep, forced, scores, door)
        if isinstance(request, GateDecision):
            return self._reported(request)
        return self._reported(self._decided(request, *await self._ascored(request)))

    def find(self, query: str, tools: Iterable[Any], most: int = FOUND) -> list[Any]:
        """The tools that a query finds, the best first, of those that may be offered; none where it prefers none.

        A query that is a tool's name finds that tool alone. For a search that an agent runs to reach tools which it was
        not given (`camdf.gate.door`). Never raises.
        """
        request = self._read(query, tools, None, (), (), None, False)
        if isinstance(request, GateDecision):
            return []
        self._scored(request)
        return self._found(request, most)

    async def afind(self, query: str, tools: Iterable[Any], most: int = FOUND) -> list[Any]:
        """`find`, with the scorer waited for, so that an event loop goes on."""
        request = self._read(query, tools, None, (), (), None, False)
        if isinstance(request, GateDecision):
            return []
        await self._ascored(request)
        return self._found(request, most)

    def authorised(self, native: Any) -> bool:
        """Whether a tool may be offered at all, as `allow` and `digests` say: for a harness that is about to run it."""
        return self._authorised(viewed_tool(native))

    def _read(
        self,
        task: str | Messages,
        tools: Iterable[Any],
        conversation: str | None,
        keep: Iterable[str],
        forced: Iterable[str],
        scores: Scores | None,
        door: bool,
    ) -> Request | GateDecision:
        """What there is to decide on; a decision where there is nothing."""
        try:
            viewed, natives = read_tools(tools)
        except Exception as error:
            error_type = type(error).__name__
            return GateDecision([], (), reason="tools not readable", mode=self.mode, error=error_type, open=True)
        offered = tuple(key for key, tool in viewed.items() if self._authorised(tool))
        named, insisted = {*names(keep)}, names(forced)
        request = Request(
            events=read_task(task),
            tools=viewed,
            natives={key: natives[key] for key in offered},
            offered=offered,
            guarded={key: why for key in offered if (why := self._guarded(key, viewed[key], named))},
            forced=tuple(key for key in offered if key in insisted or viewed[key].name in insisted),
            costs={},
            door=door or (self.mode == "defer" and has_search(natives[key] for key in offered)),
            found_by_name=self.mode == "defer",
            conversation=None if conversation is None else readable(conversation),
            shown=isinstance(task, (list, tuple)),
        )
        if not request.shown and (remembered := self.memory.recall(request.conversation)):
            request.before = tuple(key for key in remembered.kept if key in request.natives)
        try:
            request.costs = {key: self._cost(key, viewed[key]) for key in offered if not viewed[key].foreign}
        except Exception as error:
            return self._open(request, "policy failed", type(error).__name__)
        try:
            if scores is not None and request.turns and request.turns[-1].subject:
                self._opinions.take(request, request.turns[-1].subject, request.aligned(scores))
        except Exception as error:
            return self._open(request, "scores refused", _refused(error))
        return request

    def _scored(self, request: Request) -> tuple[Collection[str], Exception | None]:
        """Have the turns scored that are not: which of them will get no scores, and what went wrong."""
        try:
            missing = self._opinions.missing(request)
            return (self._opinions.ask(request, missing).result(self.budget) if missing else ()), None
        except Exception as error:
            return (), error

    async def _ascored(self, request: Request) -> tuple[Collection[str], Exception | None]:
        """`_scored`, with the scorer waited for."""
        try:
            missing = self._opinions.missing(request)
            if not missing:
                return (), None
            return await asyncio.wait_for(asyncio.wrap_future(self._opinions.ask(request, missing)), self.budget), None
        except Exception as error:
            return (), error

    def _found(self, request: Request, most: int) -> list[Any]:
        query = request.turns[0].subject
        named = [key for key in request.offered if query in (key, request.tools[key].name)]
        if named:
            return [request.natives[key] for key in named][:most]
        try:
            ranking = self._opinions.ranking(request, query)
        except Exception:  # it could not be scored
            ranking = ()
        scored = () if says_nothing([each.score for each in ranking]) else ranking
        return [request.natives[each.name] for each in scored if each.score > 0][:most]

    def _authorised(self, tool: Tool) -> bool:
        try:
            if self.digests is not None and not tool.foreign and tool.digest() != self.digests.get(tool.name):
                return False
            if self.allow is None:
                return True
            return bool(self.allow(tool)) if callable(self.allow) else tool.name in self.allow
        except Exception:
            return False

    def _guarded(self, key: str, tool: Tool, keep: set[str]) -> str:
        if tool.foreign:
            return "the provider's own"
        if tool.name in self.pinned or key in self.pinned:
            return "pinned"
        return "required by the harness" if tool.name in keep or key in keep else ""

    def _decided(self, request: Request, silent: Collection[str], failure: Exception | None) -> GateDecision:
        """The decision, once the turns are scored, or as many as could be."""
        reason, error = _failure(failure)
        try:
            fold = self._folding.of(request, silent, reason)
        except UnscoredError:
            return self._open(request, reason, error)
        except Exception as raised:
            return self._open(request, "policy failed", type(raised).__name__)
        if not fold.first:
            return self._open(request, fold.reason, error, fold)
        explores, kept = self._explores(request, fold), fold.kept
        if not request.shown:
            kept = self.memory.widen(request.conversation, request.offered if explores else kept, explores)
        if explores:
            return self._answer(request, request.offered, "explored", ranking=fold.ranking, explored=True)
        return self._answer(request, kept, fold.reason, error, fold.ranking)

    def _explores(self, request: Request, fold: Fold) -> bool:
        """By the conversation's name or its first turn with signal, so that it is always on the same side."""
        if request.before and (remembered := self.memory.recall(request.conversation)):
            return remembered.explored
        text = request.conversation or fold.first
        return crc32(text.encode(errors="surrogatepass")) < self.explore * 2**32

    def _open(self, request: Request, reason: Reason, error: str = "", fold: Fold | None = None) -> GateDecision:
        """Nothing is decided: what the conversation has, else the whole authorised list or the named fallback.

        Nothing is remembered either, so that one failure does not open a conversation for good.
        """
        fold = fold or Fold()
        stays = {*request.guarded, *fold.called, *request.forced}
        if request.before:
            kept = list(dict.fromkeys((*request.before, *request.guarded)))
        elif self.fallback is None:
            kept = list(request.offered)
        else:
            named = self.fallback
            kept = [key for key in request.offered if key in stays or {key, request.tools[key].name} & named]
        return self._answer(request, kept, reason, error, fold.ranking, is_open=not request.before)

    def _answer(
        self,
        request: Request,
        kept: Iterable[str],
        reason: Reason,
        error: str = "",
        ranking: tuple[Ranked, ...] = (),
        is_open: bool = False,
        explored: bool = False,
    ) -> GateDecision:
        """What the harness gets, by the mode."""
        stay = tuple(dict.fromkeys(key for key in (*kept, *request.forced) if key in request.natives))
        known = set(stay)
        cut = tuple(key for key in request.offered if key not in known)
        refused = tuple(key for key in request.tools if key not in request.natives)
        tools = handed_over(self.mode, request.natives, stay, cut)
        return GateDecision(tools, stay, cut, refused, reason, self.mode, explored, ranking, error, is_open)

    def _reported(self, decision: GateDecision) -> GateDecision:
        with self._lock:
            self.counts[decision.reason] += 1
        with suppress(Exception):  # a broken exporter is no reason to fail
            add_to_span(decision)
        if self.sink is not None:
            self.sink.put(decision)
        return decision


def _cost_function(prices: PriceList | None) -> Callable[[str, Tool], float]:
    if prices is None:
        return lambda key, tool: 1.0
    if isinstance(prices, Mapping):
        return lambda key, tool: float(prices[key] if key in prices else prices[tool.name])
    of: Callable[[Tool], float] = prices if callable(prices) else prices.of
    return lambda key, tool: float(of(tool))


def _nothing(characters: int) -> float:
    """What rewriting a cached prompt costs where prices do not say."""
    return 0.0


def _failure(error: Exception | None) -> tuple[Reason, str]:
    """Why turns have no scores, and the type of what was raised."""
    if isinstance(error, RefusedError):
        return "scores refused", _refused(error)
    name = type(error).__name__ if error else ""
    if isinstance(error, BusyError):
        return "scorer busy", name
    return ("scorer too slow" if isinstance(error, TimeoutError) else "scorer failed"), name


def _refused(error: Exception) -> str:
    return str(error) if isinstance(error, RefusedError) else type(error).__name__

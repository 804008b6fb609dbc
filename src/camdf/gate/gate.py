"""Decide which tools a task gets, inside a harness: never raise, never add a tool, never narrow a conversation."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial
from threading import Lock
from typing import Any, Protocol, TypeAlias, get_args
from zlib import crc32

from camdf.core.payoff import Payoff
from camdf.core.rankings import Rankings
from camdf.errors import UsageError
from camdf.gate.budget import BusyError, Workers
from camdf.gate.decision import GateDecision, Mode, Ranked, Reason
from camdf.gate.memory import Memory, Remembered
from camdf.gate.telemetry import Sink, add_to_span
from camdf.policies.base import Policy
from camdf.scorers.base import Scorer, checked
from camdf.tools import Tool, keyed, view


class Priced(Protocol):
    """What says the cost of a tool, as `camdf.prices.Prices` does."""

    def of(self, tool: Tool) -> float:
        """The cost of offering this tool to one task."""
        ...


PriceList: TypeAlias = Priced | Mapping[str, float] | Callable[[Tool], float]
Scores: TypeAlias = Mapping[str, float] | Sequence[float]
Allow: TypeAlias = Collection[str] | Callable[[Tool], bool]


NAMED = "named by the task"


@dataclass
class _Request:
    """One call of `decide`: its tools, as we view them and as the harness holds them, and which may be offered."""

    task: str
    tools: dict[str, Tool]
    natives: dict[str, Any]
    offered: tuple[str, ...]
    guarded: dict[str, str]
    """Key and why it must stay."""

    conversation: str | None
    remembered: Remembered | None
    question: int
    explores: bool

    @cached_property
    def candidates(self) -> list[str]:
        """What can be scored and cut."""
        return [key for key in self.offered if not self.tools[key].foreign]


class Gate:
    """A policy at work: scores and prices the tools of a task, decides, and keeps the promises that a harness needs.

    - `decide` never raises. What goes wrong leaves the list as it is, and so does a task that prefers no tool: what the
      conversation has, or else the whole authorised list or `fallback`. The reason says so, and nothing remembers it.
    - The answer is a subset of the request's tools and of those authorised: `allow` names them, or is called for each;
      `digests` pins definitions (`Tool.digest`). A tool that fails either is refused, also where `allow` raises.
    - Pinned tools, tools named in `keep`, tools of a shape not known here and the provider's own are never cut.
    - A conversation is decided once; a later turn may add tools, at the end, and never takes one away.
    - The same input gives the same answer. An `explore` share of conversations sees every tool, and is flagged.

    `mode` "drop" cuts, "shadow" only says what it would cut, "defer" marks what it would cut for the provider's tool
    search. `budget` is what scoring may take, in seconds. `at_least` and `at_most` bound how many tools are kept;
    guarded and earlier tools count, and are kept even beyond `at_most`. `on_decision` receives every decision on a
    thread of its own; the current OpenTelemetry span gets an event either way.
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
            raise UsageError(f"A {type(policy).__name__} serves any payoff. Give the gate one, as Payoff(0.12).")
        if mode not in get_args(Mode):
            raise UsageError(f"The 'mode' of Gate must be 'drop', 'shadow' or 'defer'. Got {mode!r} instead.")
        if not 0 <= explore <= 1:
            raise UsageError(f"The 'explore' share of Gate must lie between 0 and 1. Got {explore!r} instead.")
        self.policy, self.scorer, self.payoff, self.prices = policy, scorer, known, prices
        self.pinned, self.allow, self.digests = frozenset(pinned), allow, digests
        self.mode, self.explore, self.budget = mode, explore, budget
        self.fallback = None if fallback is None else frozenset(fallback)
        self.at_least, self.at_most = at_least, at_most
        self._cost = _cost_function(prices)
        self.memory = Memory(conversations)
        self.sink = None if on_decision is None else Sink(on_decision)
        self.counts: Counter[Reason] = Counter()
        self._workers, self._lock = Workers(64), Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy in another process, or a deep copy, has the same settings; conversations and threads stay behind."""
        return partial(type(self), **self._settings), ()

    def decide(
        self,
        task: str,
        tools: Iterable[Any],
        *,
        conversation: str | None = None,
        keep: Iterable[str] = (),
        scores: Scores | None = None,
    ) -> GateDecision:
        """The tools that this task gets.

        `conversation` names what must only widen: a run, a thread, a session. `keep` names tools that must stay: those
        that the history has called, a forced `tool_choice`, handoffs. `scores`, by name or in the order of the tools,
        stand in for the scorer's.
        """
        request = self._read(task, tools, conversation, keep, scores)
        if isinstance(request, GateDecision):
            return self._reported(request)
        try:
            found = self._score(request).result(self.budget)
        except Exception as error:
            return self._reported(self._open(request, _failure(error), error))
        return self._reported(self._close(request, found))

    async def adecide(
        self,
        task: str,
        tools: Iterable[Any],
        *,
        conversation: str | None = None,
        keep: Iterable[str] = (),
        scores: Scores | None = None,
    ) -> GateDecision:
        """`decide`, with the scorer waited for, so that an event loop goes on."""
        request = self._read(task, tools, conversation, keep, scores)
        if isinstance(request, GateDecision):
            return self._reported(request)
        try:
            found = await asyncio.wait_for(asyncio.wrap_future(self._score(request)), self.budget)
        except Exception as error:
            return self._reported(self._open(request, _failure(error), error))
        return self._reported(self._close(request, found))

    def authorised(self, native: Any) -> bool:
        """Whether a tool may be offered at all, as `allow` and `digests` say: for a harness that is about to run it."""
        return self._authorised(_viewed(native))

    def _read(
        self, task: str, tools: Iterable[Any], conversation: str | None, keep: Iterable[str], scores: Scores | None
    ) -> _Request | GateDecision:
        """What there is to decide, or the decision where no scorer is needed."""
        try:
            if isinstance(tools, (str, bytes, Mapping)):
                raise TypeError("Tools come as a sequence.")
            listed = list(tools)
            viewed = keyed(_viewed(native) for native in listed)
        except Exception as error:
            error_type = type(error).__name__
            return GateDecision([], (), reason="tools not readable", mode=self.mode, error=error_type, open=True)
        text, thread = _readable(task), None if conversation is None else _readable(conversation)
        offered = tuple(key for key, tool in viewed.items() if self._authorised(tool))
        named = _names(keep)
        guarded = {key: why for key in offered if (why := self._guarded(key, viewed[key], text, named))}
        remembered = self.memory.recall(thread)
        explores = remembered.explored if remembered else self._explores(thread or text)
        natives = dict(zip(viewed, listed, strict=True))
        request = _Request(text, viewed, natives, offered, guarded, thread, remembered, hash((text, offered)), explores)
        if remembered is not None and remembered.question == request.question:
            return self._answer(request, (), "decided before")
        if not text:
            return self._open(request, "empty task")
        if scores is None and request.candidates:
            return request
        try:
            found = _aligned(request, scores or ())
        except Exception as error:
            return self._open(request, "scores refused", error)
        return self._close(request, found)

    def _explores(self, text: str) -> bool:
        """By the text alone, so that the same conversation is always on the same side."""
        return crc32(text.encode(errors="surrogatepass")) < self.explore * 2**32

    def _authorised(self, tool: Tool) -> bool:
        try:
            if self.digests is not None and not tool.foreign and tool.digest() != self.digests.get(tool.name):
                return False
            if self.allow is None:
                return True
            return bool(self.allow(tool)) if callable(self.allow) else tool.name in self.allow
        except Exception:
            return False

    def _guarded(self, key: str, tool: Tool, task: str, keep: set[str]) -> str:
        if tool.foreign:
            return "the provider's own"
        if tool.name in self.pinned or key in self.pinned:
            return "pinned"
        if tool.name in keep or key in keep:
            return "called or required by the harness"
        return NAMED if tool.name == task else ""

    def _score(self, request: _Request) -> Future[Sequence[float]]:
        if self.scorer is None:
            raise UsageError("This gate has no scorer. Give it one, or pass scores= with every task.")
        return self._workers.start(self.scorer, request.task, [request.tools[key] for key in request.candidates])

    def _close(self, request: _Request, scores: Sequence[float]) -> GateDecision:
        """The decision, once there are scores."""
        keys = request.candidates
        try:
            sound = checked(scores, [request.tools[key] for key in keys]).tolist()
        except Exception as error:
            return self._open(request, "scores refused", error)
        if _says_nothing(sound):
            return self._open(request, "no signal")
        try:
            ranking, chosen = self._ranked(request, dict(zip(keys, sound, strict=True)))
        except Exception as error:
            return self._open(request, "policy failed", error)
        if request.explores:
            return self._answer(request, request.offered, "explored", ranking)
        if not chosen:
            return self._open(request, "no signal", ranking=ranking)
        return self._answer(request, [each.name for each in ranking if each.kept], "decided", ranking)

    def _ranked(self, request: _Request, scores: dict[str, float]) -> tuple[list[Ranked], bool]:
        """The candidates in rank order, with what the policy and the bounds say of each; and whether any was chosen."""
        if not scores:
            return [], True
        costs = {key: self._cost(key, request.tools[key]) for key in scores}
        rankings = Rankings.from_scores(scores, costs)
        decisions = self.policy.decide(rankings, self.payoff)
        names, worth = rankings.names(0), decisions.acquired[0].tolist()
        evidence = [None] * len(names) if decisions.evidence is None else decisions.evidence[0].tolist()
        stays = {
            **dict.fromkeys(request.remembered.kept if request.remembered else (), "kept before"),
            **request.guarded,
        }
        why = [stays.get(name) or ("worth its cost" if good else "") for name, good in zip(names, worth, strict=True)]
        self._bound(names, why, stays)
        pressure = self.payoff.cost_pressure
        ranking = [
            Ranked(name, scores[name], pressure * costs[name], seen, bool(kept), kept or "not worth it")
            for name, seen, kept in zip(names, evidence, why, strict=True)
        ]
        return ranking, any(worth) or self.at_least > 0 or NAMED in request.guarded.values()

    def _bound(self, names: Sequence[str], why: list[str], stays: Mapping[str, str]) -> None:
        """Keep the best of the rest where too few are kept, drop the last that nothing guards where too many are."""
        kept = sum(map(bool, why))
        rest = [place for place, reason in enumerate(why) if not reason]
        for place in rest[: max(self.at_least - kept, 0)]:
            why[place] = f"at least {self.at_least}"
        if self.at_most is not None and kept > self.at_most:
            loose = [place for place, name in enumerate(names) if why[place] and name not in stays]
            for place in loose[::-1][: kept - self.at_most]:
                why[place] = ""

    def _open(
        self, request: _Request, reason: Reason, error: Exception | None = None, ranking: Iterable[Ranked] = ()
    ) -> GateDecision:
        """Nothing to decide on: what the conversation has, else the whole authorised list or the named fallback.

        The next turn finds the memory as this one found it, so that one failure does not open a conversation for good.
        """
        named, guarded = self.fallback, request.guarded  # which stand in the order of the request
        if request.remembered is not None:
            kept = list(dict.fromkeys((*request.remembered.kept, *guarded)))
        elif named is None:
            kept = list(request.offered)
        else:
            kept = [key for key in request.offered if key in guarded or {key, request.tools[key].name} & named]
        raised = type(error).__name__ if error else ""
        return self._handed_over(request, kept, reason, ranking, raised, is_open=request.remembered is None)

    def _answer(
        self, request: _Request, kept: Iterable[str], reason: Reason, ranking: Iterable[Ranked] = ()
    ) -> GateDecision:
        """A decision, which the conversation remembers."""
        wanted = {*kept, *request.guarded}
        in_order = [key for key in request.offered if key in wanted]
        had = self.memory.widen(request.conversation, in_order, request.question, request.explores)
        return self._handed_over(request, had, reason, ranking)

    def _handed_over(
        self,
        request: _Request,
        kept: Iterable[str],
        reason: Reason,
        ranking: Iterable[Ranked] = (),
        error: str = "",
        is_open: bool = False,
    ) -> GateDecision:
        """What the harness gets, by the mode."""
        offered = set(request.offered)
        names = tuple(key for key in kept if key in offered)
        kept_now = set(names)
        cut = tuple(key for key in request.offered if key not in kept_now)
        natives = request.natives
        if self.mode == "drop":
            tools = [natives[key] for key in names]
        elif self.mode == "defer" and any(_is_tool_search(natives[key]) for key in names):
            tools = [natives[key] for key in names] + [_deferred(natives[key]) for key in cut]
        else:
            tools = [natives[key] for key in request.offered]
        refused = tuple(key for key in request.tools if key not in offered)
        return GateDecision(
            tools, names, cut, refused, reason, self.mode, request.explores, tuple(ranking), error, is_open
        )

    def _reported(self, decision: GateDecision) -> GateDecision:
        with self._lock:
            self.counts[decision.reason] += 1
        with suppress(Exception):  # a broken exporter is no reason to fail
            add_to_span(decision)
        if self.sink is not None:
            self.sink.put(decision)
        return decision


def _viewed(native: Any) -> Tool:
    try:
        return view(native)
    except Exception:  # an object whose own attributes raise
        return Tool(type(native).__name__, foreign=True)


def _cost_function(prices: PriceList | None) -> Callable[[str, Tool], float]:
    if prices is None:
        return lambda key, tool: 1.0
    if isinstance(prices, Mapping):
        return lambda key, tool: float(prices[key] if key in prices else prices[tool.name])
    of: Callable[[Tool], float] = prices if callable(prices) else prices.of
    return lambda key, tool: float(of(tool))


def _readable(text: object) -> str:
    try:
        return str(text).strip() if text is not None else ""
    except Exception:
        return ""


def _names(keep: Iterable[str]) -> set[str]:
    try:
        return {keep} if isinstance(keep, str) else {name for name in keep if isinstance(name, str)}
    except Exception:
        return set()


def _aligned(request: _Request, scores: Scores) -> list[float]:
    """The harness's own scores, one for every candidate."""
    if isinstance(scores, Mapping):
        return [scores[key] if key in scores else scores[request.tools[key].name] for key in request.candidates]
    if not request.candidates:
        return []
    by_key = dict(zip(request.tools, scores, strict=True))
    return [by_key[key] for key in request.candidates]


def _says_nothing(scores: Sequence[float]) -> bool:
    """Whether scores prefer no tool: all are equal, as where BM25 finds no word of the task in any description."""
    return len(scores) > 0 and min(scores) == max(scores) and (len(scores) > 1 or scores[0] == 0)


def _failure(error: Exception) -> Reason:
    if isinstance(error, BusyError):
        return "scorer busy"
    return "scorer too slow" if isinstance(error, TimeoutError) else "scorer failed"


def _is_tool_search(native: Any) -> bool:
    kind = native.get("type") if isinstance(native, Mapping) else None
    return isinstance(kind, str) and kind.startswith("tool_search")


def _deferred(native: Any) -> Any:
    return {**native, "defer_loading": True} if isinstance(native, Mapping) else native

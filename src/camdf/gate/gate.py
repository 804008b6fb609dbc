"""Decide which tools a conversation gets, inside a harness: never raise, never add one, never narrow what was decided.

The conversation is its own memory: where a harness hands over the messages, the tools are a fold over the user's turns
(`fold`), and no worker needs to know what another one said.

A failure decides nothing, as a turn without signal does: the list stays as it is, or open where nothing was decided,
and neither is remembered. Reading, scoring, pricing and deciding run on a thread, within one budget.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from threading import TIMEOUT_MAX, Lock
from typing import Any, Self, get_args
from zlib import crc32

from camdf.core.payoff import Payoff, ValueFunction
from camdf.errors import UsageError
from camdf.gate.aim import Aim
from camdf.gate.budget import BusyError, Work, Workers
from camdf.gate.decision import GateDecision, Mode, Reason
from camdf.gate.door import FOUND
from camdf.gate.fold import Fold, Folding, Outcome, UnscoredError
from camdf.gate.forks import renewed_in_forks
from camdf.gate.guards import Allow, Guards, called, named
from camdf.gate.memory import Memory
from camdf.gate.modes import handed_over
from camdf.gate.opinions import Opinions, RefusedError, says_nothing
from camdf.gate.reader import PriceList, Reader, UndecidedError
from camdf.gate.request import Question, Request, Scores, read_tools, readable, unread, viewed_tool
from camdf.gate.telemetry import Sink, add_to_span
from camdf.gate.turns import Messages
from camdf.policies.base import Policy
from camdf.scorers.base import Scorer
from camdf.scorers.wary import LEAST, Wary

READERS = 8
"""How many requests a gate reads at a time: this is work of the processor."""

SCORERS = 64
"""How many decisions a gate scores at a time: this is mostly waiting. More wait in line, within their budgets."""


class Gate:
    """A policy at work: scores and prices the tools of a conversation, decides, and keeps a harness's promises.

    - `decide` never raises. What goes wrong leaves the list as it is, or open where nothing was decided (the whole
      authorised list, or `fallback`), and the reason says so.
    - The answer is a subset of the request's tools and of those authorised: `allow` names them, or is called for each;
      `digests` pins definitions (`Tool.digest`). A tool that fails either is refused, also where `allow` raises, and
      so is one whose name may not be what it looks like. A name means one tool: "mail/send" where two servers have it.
    - Pinned tools, tools named in `keep`, tools that the history has called, tools of a shape not known here and the
      provider's own are never cut.
    - Once decided, a conversation only widens, at the end of its list; with a door to the other tools it stays.
    - The same history and tools give the same answer on every worker. An `explore` share of conversations sees every
      tool, and is flagged; with `explore_pressure` it gets what is worth its cost at that lower cost pressure instead.

    `trusted` names the servers whose descriptions are believed: those of all others are read warily (`scorers.Wary`),
    and under `at_most` each of them takes at most one place from the others. By default all are believed.

    `mode` is "drop" (cut), "defer" (mark what is cut for the provider's tool search), "allow" (leave the list, and say
    in `tool_choice` what may be called) or "shadow" (only say what would be cut). `budget` is what a decision may take,
    in seconds; None sets no limit. Requests of more than `most_tools` tools, or of more than `most_characters` in
    names, descriptions and history, are not scored: the list stays as it is. `at_least` and `at_most` bound how many
    tools are kept; guarded and earlier tools count, and are kept even beyond `at_most`. `prices` in dollars (`Prices`)
    also price the cached prompt that a later widening rewrites. `conversations` is how many conversations are
    remembered whose history is not shown. `on_decision` receives every decision on a thread of its own; the current
    OpenTelemetry span gets an event either way.
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
        trusted: Collection[str] | None = None,
        mode: Mode = "drop",
        explore: float = 0.0,
        explore_pressure: float | None = None,
        fallback: Collection[str] | None = None,
        budget: float | None = 5.0,
        at_least: int = 0,
        at_most: int | None = None,
        conversations: int = 10_000,
        most_tools: int = 10_000,
        most_characters: int = 20_000_000,
        on_decision: Callable[[GateDecision], object] | None = None,
    ) -> None:
        self._settings = {name: value for name, value in locals().items() if name not in ("self", "__class__")}
        known = payoff or getattr(policy, "payoff_", None)
        if not isinstance(known, Payoff):
            raise UsageError("This policy serves any payoff. Give the gate one, as Payoff(0.12).")
        if mode not in get_args(Mode):
            raise UsageError(f"The 'mode' of Gate must be one of {', '.join(get_args(Mode))}. Got {mode!r} instead.")
        _check_numbers(self._settings)
        self.prices, self.mode, self.explore, self.budget = prices, mode, explore, budget
        self.explore_pressure = explore_pressure
        self.at_least, self.at_most = at_least, at_most
        self.guards = Guards(
            allow if allow is None or callable(allow) else named("allow", allow),
            digests,
            named("pinned", pinned),
            None if fallback is None else named("fallback", fallback),
        )
        self.memory = Memory(conversations)
        self.sink = None if on_decision is None else Sink(on_decision)
        self.counts: Counter[Reason] = Counter()
        self._reader = Reader(self.guards, prices, self.memory, most_tools, most_characters)
        believed = None if trusted is None else named("trusted", trusted)
        if believed is not None and scorer is not None:
            scorer = Wary(scorer, believed)
        self._opinions = Opinions(policy, scorer, known)
        rewritten = getattr(prices, "of_rewriting", _nothing) if mode in ("drop", "shadow") else _nothing
        self._folding = Folding(self._opinions, known, at_least, at_most, rewritten, believed)
        self._exploring: Folding | None = None
        if explore_pressure is not None:
            self._exploring = replace(self._folding, payoff=_lower(policy, known, explore_pressure))
        self._readers, self._scorers = Workers(READERS), Workers(SCORERS)
        self.renew()
        renewed_in_forks(self)

    @classmethod
    def aiming(
        cls,
        policy: Policy,
        scorer: Scorer,
        *,
        over: Iterable[str | Messages],
        among: Sequence[Any],
        tools: float | None = None,
        sufficiency: float | None = None,
        dollars_per_task: float | None = None,
        value: str | ValueFunction = "partial",
        recourse: float = 0.0,
        **settings: Any,
    ) -> Self:
        """A gate that hands over so many `tools` on average, what a `sufficiency` takes, or what a budget allows.

        `over` is a sample of requests without labels (fifty do), and `among` the tools that they choose from. The cost
        pressure is found there. `dollars_per_task` is in the unit of `prices`. What is pinned comes on top. The value
        is the partial one, under which sets grow tool by tool: under the exact one a long list of much alike scores
        goes from none to all at a single pressure. `settings` are those of `Gate`.
        """
        aim, unit = Aim(tools, sufficiency, dollars_per_task), Payoff(1.0, value, recourse)
        probe = cls(policy, scorer, unit, **{**settings, "budget": None, "on_decision": None, "explore": 0.0})
        found = [probe.decide(request, among) for request in over]
        scored = [each.ranking for each in found if not says_nothing([one.score for one in each.ranking])]
        if found and not any(scored):
            why = found[-1].error or found[-1].reason
            raise UsageError(f"None of these {len(found)} requests could be scored: {why}. Try the scorer by itself.")
        return cls(policy, scorer, aim.payoff(policy, scored, unit), **settings)

    def aimed(
        self, *, tools: float | None = None, sufficiency: float | None = None, dollars_per_task: float | None = None
    ) -> Self:
        """A gate like this one, at the cost pressure that the requests of late ask for; see `aiming`.

        Publish it for new conversations and let this one serve those that it began: a conversation whose cost pressure
        changed would get other tools in the middle.
        """
        payoff = Aim(tools, sufficiency, dollars_per_task).payoff(self.policy, self._opinions.of_late(), self.payoff)
        return type(self)(**{**self._settings, "payoff": payoff})

    def renew(self) -> None:
        """A lock of its own, in a process of its own."""
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
        question = Question(task, tools, self.budget, conversation, keep, forced, scores, door)
        try:
            outcome = self._reading(question).wait() or self._scoring(question).wait()
        except Exception as error:
            outcome = self._unfinished(question, error)
        return self._reported(self._decided(question, outcome))

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
        """`decide`, for an event loop, which goes on in the meantime."""
        question = Question(task, tools, self.budget, conversation, keep, forced, scores, door)
        try:
            outcome = await self._reading(question).wait_async() or await self._scoring(question).wait_async()
        except Exception as error:
            outcome = self._unfinished(question, error)
        return self._reported(self._decided(question, outcome))

    def find(self, query: str, tools: Iterable[Any], most: int = FOUND) -> list[Any]:
        """The tools that a query finds, the best first, of those that may be offered; none where it prefers none.

        A query that is a tool's name finds that tool alone. For a search that an agent runs to reach tools which it was
        not given (`camdf.gate.door`). Never raises.
        """
        question = Question(query, tools, self.budget)
        with suppress(Exception):  # what could not be scored is found by its name alone
            self._reading(question).wait() or self._scoring(question).wait()
        return self._found(question, most)

    async def afind(self, query: str, tools: Iterable[Any], most: int = FOUND) -> list[Any]:
        """`find`, for an event loop, which goes on in the meantime."""
        question = Question(query, tools, self.budget)
        with suppress(Exception):
            await self._reading(question).wait_async() or await self._scoring(question).wait_async()
        return self._found(question, most)

    def authorised(self, native: Any) -> bool:
        """Whether a tool may be offered at all, as `allow` and `digests` say: for a harness that is about to run it."""
        return self.guards.authorised(viewed_tool(native))

    def may_be_offered(self, tools: Iterable[Any]) -> list[Any]:
        """The tools of a list that are authorised, where a name that two servers share authorises neither."""
        viewed, natives = read_tools(tools)
        return [natives[key] for key in self.guards.offered(viewed)]

    def _reading(self, question: Question) -> Work[Outcome | None]:
        """Read a call; the outcome, or None where turns are still to be scored."""

        def work(_: Work[Outcome | None]) -> Outcome | None:
            try:
                request = self._reader.read(question, self.mode)
                self._take_scores(question, request)
                return None if self._opinions.missing(request) else self._folded(request)
            except UndecidedError as error:
                return Outcome(Fold(reason=error.reason), error.error)

        return self._readers.start(work, question.left())

    def _scoring(self, question: Question) -> Work[Outcome]:
        """Score the turns that have no scores yet, then decide."""
        request = question.request
        assert request is not None

        def work(under_way: Work[Outcome]) -> Outcome:
            try:
                silent = self._opinions.score(request, self._opinions.missing(request), under_way)
            except Exception as error:
                return self._folded(request, failure=error)
            return self._folded(request, silent)

        return self._scorers.start(work, question.left())

    def _take_scores(self, question: Question, request: Request) -> None:
        """Scores that the harness has already stand in for the scorer's on the last turn."""
        if question.scores is not None and request.turns and (subject := request.turns[-1].subject):
            try:
                self._opinions.take(request, subject, request.aligned(question.scores))
            except Exception as error:
                raise UndecidedError("scores refused", _refused(error)) from None

    def _folded(
        self, request: Request, silent: Collection[str] = (), failure: Exception | None = None, *, late: bool = False
    ) -> Outcome:
        """What the turns make of the tools, once they are scored, or as many as could be."""
        reason, error = _failure(failure)
        try:
            fold = self._folding.of(request, silent, reason, late=late)
            explores = bool(fold.first) and self._explores(request, fold)
            if explores and self._exploring is not None:
                fold = self._exploring.of(request, silent, reason, late=late)
            return Outcome(fold, error, explores)
        except UnscoredError:
            return Outcome(Fold(reason=reason), error)
        except Exception as raised:
            return Outcome(Fold(reason="policy failed"), type(raised).__name__)

    def _unfinished(self, question: Question, error: Exception) -> Outcome:
        """What is known where time was up, no thread was free, or the tools could not be read."""
        if question.request is None:
            question.request = unread(question, nothing=self.guards.refuse)
        elif question.request.whole:
            return self._folded(question.request, failure=error, late=True)
        return Outcome(Fold(reason="tools not readable"), type(error).__name__)

    def _decided(self, question: Question, outcome: Outcome) -> GateDecision:
        """The decision; what it gives a conversation whose history is not shown is remembered."""
        request, (fold, error, explores) = question.request, outcome
        assert request is not None
        if not fold.first:
            return self._open(request, fold, error)
        sees_all = explores and self._exploring is None
        kept = request.offered if sees_all else fold.kept
        if not request.shown:
            kept = self._remembered(request, kept, explores)
        if sees_all:
            return self._answer(request, request.offered, fold._replace(reason="explored"), explored=True)
        payoff = self._exploring.payoff if explores and self._exploring is not None else self.payoff
        return self._answer(request, kept, fold, error, pressure=payoff.cost_pressure)

    def _remembered(self, request: Request, kept: Collection[str], explores: bool) -> tuple[str, ...]:
        """All that a conversation has now, of the tools that may be offered."""
        if request.conversation is None:
            return tuple(kept)
        known = {key: identity for identity, key in request.identities.items()}
        now = self.memory.widen(request.conversation, [known[key] for key in kept], explores)
        return tuple(key for each in now if (key := request.identities.get(each)) in request.natives)

    def _explores(self, request: Request, fold: Fold) -> bool:
        """By the conversation's name or its first turn with signal, so that it is always on the same side."""
        if request.before and (remembered := self.memory.recall(request.conversation)):
            return remembered.explored
        text = request.conversation or fold.first
        return crc32(text.encode(errors="surrogatepass")) < self.explore * 2**32

    def _open(self, request: Request, fold: Fold, error: str) -> GateDecision:
        """Nothing is decided: what the conversation has, else the whole authorised list or the named fallback.

        Nothing is remembered either, so that one failure does not open a conversation for good.
        """
        stays, fallback = {*request.guarded, *fold.called}, self.guards.fallback
        if request.before:
            kept: Iterable[str] = (*request.before, *request.guarded)
        elif fallback is None:
            kept = request.offered
        else:
            kept = [key for key in request.offered if key in stays or called(key, request.tools[key], fallback)]
        return self._answer(request, kept, fold, error, is_open=not request.before)

    def _answer(
        self,
        request: Request,
        kept: Iterable[str],
        fold: Fold,
        error: str = "",
        is_open: bool = False,
        explored: bool = False,
        pressure: float | None = None,
    ) -> GateDecision:
        """What the harness gets, by the mode."""
        stay = tuple(dict.fromkeys(key for key in (*kept, *request.forced) if key in request.natives))
        known = set(stay)
        cut = tuple(key for key in request.offered if key not in known)
        refused = tuple(key for key in request.tools if key not in request.natives)
        tools = handed_over(self.mode, request.natives, stay, cut)
        servers = {key: tool.server for key, tool in request.tools.items() if tool.server}
        return GateDecision(
            tools, stay, cut, refused, fold.reason, self.mode, explored, fold.ranking, error, is_open, servers, pressure
        )

    def _found(self, question: Question, most: int) -> list[Any]:
        request, query = question.request, readable(question.task)
        if request is None:
            return []
        named = [key for key in request.offered if called(key, request.tools[key], (query,))]
        if named:
            return [request.natives[key] for key in named][:most]
        ranking = self._opinions.ranking(request, query) if self._opinions.scored(request, query, ranked=True) else ()
        scored = () if says_nothing([each.score for each in ranking]) else ranking
        return [request.natives[each.name] for each in scored if each.score > 2 * LEAST][:most]

    def _reported(self, decision: GateDecision) -> GateDecision:
        with self._lock:
            self.counts[decision.reason] += 1
        with suppress(Exception):  # a broken exporter is no reason to fail
            add_to_span(decision)
        if self.sink is not None:
            self.sink.put(decision)
        return decision


def _lower(policy: Policy, payoff: Payoff, pressure: float) -> Payoff:
    """The payoff at which a conversation explores."""
    if not 0 <= pressure < payoff.cost_pressure:
        raise UsageError(
            f"The 'explore_pressure' of Gate must be at least 0 and below its cost pressure, {payoff.cost_pressure:g}. "
            f"Got {pressure!r} instead."
        )
    if policy.fitted_for == "a payoff":
        raise UsageError(
            f"A {type(policy).__name__} decides at the one cost pressure it was fitted for, so 'explore_pressure' says "
            "nothing to it. Use a policy that serves any payoff, such as ExpectedPayoffBySet."
        )
    return replace(payoff, cost_pressure=pressure)


def _check_numbers(settings: Mapping[str, Any]) -> None:
    """Refuse numbers that make no sense."""
    for name, least, most, what in (
        ("explore", 0, 1, "a share between 0 and 1"),
        ("budget", 1e-3, TIMEOUT_MAX, "at least 0.001 seconds, or None for no limit"),
        ("at_least", 0, None, "a whole number, 0 or more"),
        ("at_most", 0, None, "a whole number, 0 or more, or None for no bound"),
        ("conversations", 0, None, "a whole number, 0 or more"),
        ("most_tools", 1, None, "a whole number, 1 or more"),
        ("most_characters", 1, None, "a whole number, 1 or more"),
    ):
        value = settings[name]
        kinds = (int,) if most is None else (int, float)
        sound = isinstance(value, kinds) and not isinstance(value, bool) and value >= least and value <= (most or value)
        if not sound and not (value is None and "None" in what):
            raise UsageError(f"The {name!r} of Gate must be {what}. Got {value!r} instead.")
    least, most = settings["at_least"], settings["at_most"]
    if most is not None and least > most:
        raise UsageError(f"The 'at_least' of Gate must not be above its 'at_most', {most}. Got {least} instead.")


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

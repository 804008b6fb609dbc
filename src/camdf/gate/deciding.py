"""The steps of a decision, top to bottom: read, score, decide and fold, guard.

Reading and scoring run on threads, each with some of its own: a scorer that hangs on every thread of its pool must not
keep a request from being read, since what is not read cannot be authorized either.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from os import urandom
from time import monotonic
from typing import Any

from camdf.gate.append import Addition
from camdf.gate.decision import GateDecision, Reason
from camdf.gate.fold import Fold, Folding, Outcome, UnscoredError
from camdf.gate.lists import Mode, list_for_the_model
from camdf.gate.memory import ConversationTerms, Memory, SharedMemory, Terms
from camdf.gate.request import Question, Request, RequestReader, UndecidedError, unread
from camdf.gate.settings import Dealt, Guards, Limits, Records, Rollout
from camdf.gate.telemetry import Sink
from camdf.gate.tool_search import by_server, names_by_server, sharing_words
from camdf.gate.turn_scores import RefusedScoresError, TurnScores, deciding
from camdf.policies.rules import AcquireAll
from camdf.runtime.breaker import RestingError
from camdf.runtime.workers import BusyError, Work, Workers
from camdf.scorers.base import Scorer, says_nothing
from camdf.scorers.with_examples import examples_digest_of

READERS = 8
"""How many requests are read at a time: this is work of the processor."""

SCORERS = 64
"""How many decisions are scored at a time: this is mostly waiting. More wait in line, within their time limits."""


@dataclass(frozen=True)
class SharedByTenants:
    """What the gates of many tenants share: threads, scores, conversations, and who is told of decisions.

    No thread is begun before there is work.
    """

    turn_scores: TurnScores
    memory: Memory
    sink: Sink | None
    readers: Workers = field(default_factory=lambda: Workers(READERS))
    scorers: Workers = field(default_factory=lambda: Workers(SCORERS))

    @classmethod
    def of(cls, scorer: Scorer | None, records: Records) -> SharedByTenants:
        """A set for a gate, and for those that will be made from it."""
        size, store = records.conversations, records.store
        memory = Memory(size) if store is None else SharedMemory(store, size)
        return cls(TurnScores(scorer), memory, None if records.on_decision is None else Sink(records.on_decision))


@dataclass(frozen=True)
class Decider:
    """Decides on questions; never raises out of `unfinished` and `decision`, whatever a scorer or a policy does."""

    mode: Mode
    guards: Guards
    limits: Limits
    rollout: Rollout
    terms: ConversationTerms
    reader: RequestReader
    folding: Folding
    shared: SharedByTenants

    def outcome(self, question: Question) -> Outcome:
        """What comes of a question, or what is known of it where something goes wrong."""
        try:
            return self.reading(question).wait() or self.scoring(question).wait()
        except Exception as error:
            return self.unfinished(question, error)

    async def outcome_async(self, question: Question) -> Outcome:
        """`outcome`, for an event loop."""
        try:
            return await self.reading(question).wait_async() or await self.scoring(question).wait_async()
        except Exception as error:
            return self.unfinished(question, error)

    # Read.

    def reading(self, question: Question) -> Work[Outcome | None]:
        """Read a question on a thread; the outcome, or None where turns are still to be scored."""

        def work(_: Work[Outcome | None]) -> Outcome | None:
            return self.read(question) or self.folded_if_scored(question)

        return self.shared.readers.start(work, question.left())

    def read(self, question: Question) -> Outcome | None:
        """Read a question and take the scores that it brings; an outcome only where there is nothing to decide on."""
        try:
            self.rollout.look(question.left())
            request = self.reader.read(question, self.mode)
            terms, dealt = self.terms_of(question)
            _ = terms.judges[-1].digest  # here, since an event loop should not wait for it
            if dealt.off:
                return Outcome(Fold(reason="switched off"))
            self._take_scores(question, request)
            return None
        except UndecidedError as error:
            return Outcome(Fold(reason=error.reason), error.error)

    def _take_scores(self, question: Question, request: Request) -> None:
        """Scores that the harness has already stand in for the scorer's on the last turn."""
        if question.scores is not None and request.turns and (subject := request.turns[-1].subject):
            try:
                self.shared.turn_scores.take(request, subject, request.aligned(question.scores), own=True)
            except Exception as error:
                raise UndecidedError("scores refused", _refused(error)) from None

    def terms_of(self, question: Question) -> tuple[Terms, Dealt]:
        """Those that the conversation began with, else those of today: one answer for the whole of a question."""
        if question.terms is None:
            request = question.request
            assert request is not None
            dealt = self.rollout.dealt(request.conversation, is_history=request.shown)
            question.terms = self._terms(request, dealt), dealt
        return question.terms

    def _terms(self, request: Request, dealt: Dealt) -> Terms:
        known, name = self.terms, request.conversation
        began = None if name is None else known.recall(name)
        if dealt.off:
            terms = Terms(began.judges[-1:] if began else (known.judge,), "shadow")
            if name is not None:  # for good: switched on again, it would narrow what it saw
                known.keep(name, terms)
            return terms
        if began is not None:
            return began
        earlier = known.earlier() if request.shown and len(request.events) > 1 else ()
        return Terms((*earlier, known.judge), self.mode if dealt.cuts else "shadow")

    # Score.

    def scoring(self, question: Question) -> Work[Outcome]:
        """Score the turns that have no scores yet on a thread, then decide and fold."""
        request, breaker, turn_scores = question.request, self.limits.breaker, self.shared.turn_scores
        assert request is not None
        if breaker is not None:
            breaker.check()

        def work(under_way: Work[Outcome]) -> Outcome:
            judges = self.terms_of(question)[0].judges
            missing = turn_scores.missing(request, judges)
            try:
                silent = turn_scores.score(request, judges, missing, under_way)
            except Exception as error:
                if breaker is not None and not under_way.given_up:
                    breaker.failed()
                return self.folded(question, failure=error)
            if breaker is not None and missing and not under_way.given_up:
                breaker.succeeded()
            return self.folded(question, silent)

        question.asks_scorer = True
        return self.shared.scorers.start(work, question.left())

    # Decide and fold.

    def folded_if_scored(self, question: Question) -> Outcome | None:
        """What the turns make of the tools where all of them are scored, else None."""
        assert question.request is not None
        missing = self.shared.turn_scores.missing(question.request, self.terms_of(question)[0].judges)
        return None if missing else self.folded(question)

    def folded(
        self, question: Question, silent: Collection[str] = (), failure: Exception | None = None, *, late: bool = False
    ) -> Outcome:
        """What the turns make of the tools, once they are scored, or as many as could be."""
        request, (terms, dealt), (reason, error) = question.request, self.terms_of(question), _failure(failure)
        assert request is not None
        try:
            fold = self.folding.under(request, terms.judges, silent, reason, late=late)
            explores = bool(fold.first) and (request.explored if request.before else dealt.explores)
            if explores and (exploring := terms.judges[-1].exploring) is not None:
                fold = self.folding.of(request, exploring, silent, reason)
            return Outcome(fold, error, explores)
        except UnscoredError:
            return Outcome(Fold(reason=reason), error)
        except Exception as raised:
            return Outcome(Fold(reason="policy failed"), type(raised).__name__)

    def tried(self, step: Callable[[Question], Outcome | None], question: Question) -> Outcome | None:
        """A step, or what is known where it raises."""
        try:
            return step(question)
        except Exception as error:
            return self.unfinished(question, error)

    def unfinished(self, question: Question, error: Exception) -> Outcome:
        """What is known where time was up, no thread was free, the scorer rests, or the tools could not be read."""
        breaker = self.limits.breaker
        if breaker is not None and question.asks_scorer and isinstance(error, TimeoutError):  # no answer in time
            breaker.failed()
        if question.request is None:
            question.request = unread(question, nothing=self.guards.refuse)
        elif question.request.whole:
            return self.folded(question, failure=error, late=True)
        return Outcome(Fold(reason="tools not readable"), type(error).__name__)

    # Guard.

    def decision(self, question: Question, outcome: Outcome) -> GateDecision:
        """The decision; what it gives a conversation whose history is not shown is remembered."""
        request, (terms, _), (fold, error, explores) = question.request, self.terms_of(question), outcome
        assert request is not None
        if not fold.first:
            searches = request.tool_search and not isinstance(terms.judges[-1].policy, AcquireAll)
            kept = self._undecided(request, searches)
            return self._answer(question, request, kept, fold, error, is_open=not request.before)
        judge = terms.judges[-1].exploring if explores else terms.judges[-1]
        kept = fold.kept if judge else request.offered
        if request.conversation is not None:
            self.terms.keep(request.conversation, terms)
            if not request.shown:
                kept = self._remembered(request, request.conversation, kept, explores)
        if judge is None:
            fold = fold._replace(reason="explored")
            return self._answer(question, request, request.offered, fold, explored=True)
        return self._answer(question, request, kept, fold, error, pressure=judge.payoff.cost_pressure)

    def _remembered(self, request: Request, name: str, kept: Collection[str], explores: bool) -> tuple[str, ...]:
        """All that a conversation has now, of the tools that may be offered."""
        known = {key: identity for identity, key in request.identities.items()}
        now = self.shared.memory.widen(name, [known[key] for key in kept], explores)
        return tuple(key for identity in now if (key := request.identities.get(identity)) in request.natives)

    def _undecided(self, request: Request, searches: bool) -> Iterable[str]:
        """What the conversation has, else the tool search, or the whole authorized list without.

        A policy that gives every tool to the next turn gives it now: a list that changes rewrites the prompt. A named
        fallback goes before all of these. Nothing is remembered, so that one failure does not open a conversation for
        good.
        """
        stays, fallback = {**request.guarded, **dict.fromkeys(request.called)}, self.guards.fallback
        if request.before:
            return (*request.before, *stays)
        if fallback is None and not searches:
            return request.offered
        named = {key for key in request.offered if self.guards.called(key, request.tools[key], fallback or ())}
        return [key for key in request.offered if key in stays or key in named]

    def _answer(
        self,
        question: Question,
        request: Request,
        kept: Iterable[str],
        fold: Fold,
        error: str = "",
        is_open: bool = False,
        explored: bool = False,
        pressure: float | None = None,
    ) -> GateDecision:
        """What the harness gets, by the mode."""
        terms, dealt = self.terms_of(question)
        mode = "drop" if terms.mode == "append" and request.channel is None else terms.mode
        stay = tuple(dict.fromkeys(key for key in (*kept, *request.forced) if key in request.natives))
        joined = () if mode != "append" or explored or is_open else fold.joined
        later = {key for _, keys in joined for key in keys}.union(request.joined_before) if mode == "append" else set()
        listed = [key for key in stay if key not in later or key in request.forced]  # a choice names what is declared
        unlisted = _others(request.offered, listed)
        return GateDecision(
            tools=list_for_the_model(mode, request.natives, listed, unlisted),
            kept=stay,
            cut=_others(request.offered, stay),
            refused=tuple(key for key in request.tools if key not in request.natives),
            reason=fold.reason,
            mode=mode,
            channel=request.channel if mode == "append" else None,
            appended=_additions(request, joined, listed) if joined else (),
            joined=_others(stay, listed),
            explored=explored,
            ranking=fold.ranking,
            vector=fold.vector,
            error=error,
            open=is_open,
            tool_search=request.tool_search,
            hidden=self._hidden(request, mode, fold, unlisted),
            conversation=question.conversation or "",
            needs_name=dealt.needs_name,
            servers={key: tool.server for key, tool in request.tools.items() if tool.server},
            cost_pressure=pressure,
            id=urandom(16).hex(),
            policy_digest=terms.judges[-1].digest,
            examples_digest=examples_digest_of(self.shared.turn_scores.scorer),
            latency=monotonic() - question.began,
        )

    def _hidden(self, request: Request, mode: Mode, fold: Fold, unlisted: Sequence[str]) -> str:
        """The names of what is not on the list, for the description of the tool search."""
        if not request.tool_search or mode not in ("drop", "append") or not unlisted:
            return ""
        # Where a memory knows what a conversation has, later turns have no ranking, and names must stay as they are.
        ranking = fold.ranking if request.shown or request.conversation is None else ()
        likely = [(request.tools[tool.name].server, request.tools[tool.name].name) for tool in ranking]
        untrusted = {request.tools[key].server for key in request.untrusted}
        hidden = by_server(request.tools[key] for key in unlisted)
        return names_by_server(hidden, self.limits.search_names, untrusted=untrusted, likely=likely)

    def searched(self, question: Question, most: int) -> list[Any]:
        """The tools that a search finds: the one of that name, else the best ranked, trusted servers' first.

        Where no scorer answered in time, those that share words with the query: the agent must not be told that no tool
        matches.
        """
        request = question.request
        if request is None or not request.turns:
            return []
        query, tools = request.turns[-1].subject, request.tools
        named = [key for key in request.offered if query in (key, tools[key].name, tools[key].full_name)]
        if named:
            named.sort(key=lambda key: key in request.untrusted)
            return [request.natives[key] for key in named][:most]
        judge = self.terms_of(question)[0].judges[-1]
        scored = self.shared.turn_scores.ranked(request, query, judge, late=True)
        if scored is None:
            matching = sharing_words(query, {key: tools[key] for key in request.costs})
        elif says_nothing([candidate.score for candidate in deciding(scored[0])]):
            return []
        else:
            matching = [candidate.name for candidate in scored[0] if candidate.score > 0]
        trusted = [key for key in matching if key not in request.untrusted][:most]
        others = [key for key in matching if key in request.untrusted][: min(self.guards.untrusted_places, most)]
        return [request.natives[key] for key in (*trusted, *others)]


def _others(keys: Iterable[str], known: Iterable[str]) -> tuple[str, ...]:
    """The keys that are not known, in their order."""
    left_out = frozenset(known)
    return tuple(key for key in keys if key not in left_out)


def _additions(
    request: Request, joined: Iterable[tuple[int, Sequence[str]]], listed: Collection[str]
) -> tuple[Addition, ...]:
    """What joins the messages: all that joined, less what the history has already and what is on the list."""
    known = {*listed, *request.joined_before}
    additions = (
        Addition(place, tuple(request.natives[key] for key in keys if key not in known and key in request.natives))
        for place, keys in joined
    )
    return tuple(addition for addition in additions if addition.tools)


def _failure(error: Exception | None) -> tuple[Reason, str]:
    """Why turns have no scores, and the type of what was raised."""
    if isinstance(error, RefusedScoresError):
        return "scores refused", _refused(error)
    name = type(error).__name__ if error else ""
    if isinstance(error, RestingError):
        return "scorer resting", name
    if isinstance(error, BusyError):
        return "scorer busy", name
    return ("scorer too slow" if isinstance(error, TimeoutError) else "scorer failed"), name


def _refused(error: Exception) -> str:
    return str(error) if isinstance(error, RefusedScoresError) else type(error).__name__

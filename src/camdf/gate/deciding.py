"""The steps of a decision, top to bottom: read, scored, folded, answered. Each makes a new value of the one before.

A scorer that has a time limit runs on a thread, since it may hang. All else runs where the caller is, within bounds on
the size of a request. For an event loop, requests are read on threads of their own: scorers that hang on all of theirs
must not keep a request from being read, since what is not read cannot be authorized either.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from os import urandom
from time import monotonic
from typing import Any, TypeVar
from warnings import warn

from camdf.gate.append import AuthorizedTools, Channels, channel_of
from camdf.gate.catalogue import Catalogue, CatalogueReader, unread_catalogue
from camdf.gate.decision import GateDecision, Reason
from camdf.gate.finding import found
from camdf.gate.fold import Fold, Folding, Outcome, UnscoredError
from camdf.gate.lists import Mode, has_search, list_for_the_model
from camdf.gate.ranking import trusted_part
from camdf.gate.request import (
    SWAPPED,
    TAKEN,
    Question,
    Request,
    aligned,
    conversation_named,
    meant_by,
    names_in,
    read_task,
    readable,
    remembered_by,
    turned_round,
)
from camdf.gate.scoring import KnownScores, ScoredTurn, failure_reason, failure_type
from camdf.gate.settings import Guards, Limits, Rollout
from camdf.gate.shared import SharedByTenants
from camdf.gate.terms import ConversationTerms
from camdf.gate.tool_search import by_server, names_by_server
from camdf.gate.turns import Event, Messages, Turn
from camdf.policies.rules import AcquireAll
from camdf.runtime.workers import Work

T = TypeVar("T")


@dataclass(frozen=True)
class Decider:
    """Decides on questions, and never raises, whatever a scorer, a policy or a tool does."""

    mode: Mode
    guards: Guards
    limits: Limits
    rollout: Rollout
    terms: ConversationTerms
    catalogues: CatalogueReader
    folding: Folding
    shared: SharedByTenants
    tenant: str
    channels: Channels

    def decide(self, question: Question) -> GateDecision:
        """The decision on a question."""
        request = self.read(question)
        scored = self.scored(request, question.left())
        return self.answered(request, self.folded(request, scored))

    async def decide_async(self, question: Question) -> GateDecision:
        """`decide`, for an event loop."""
        request, outcome = await self._off_the_loop(question, self.folded)
        return self.answered(request, outcome)

    def decide_together(self, questions: Sequence[Question]) -> list[GateDecision]:
        """The decisions on questions that bring their scores: a policy is asked once for all that it decides on."""
        requests = [self.read(question) for question in questions]
        self.shared.turn_scores.rank_together(
            (request.given, request.catalogue, request.terms.judges[-1])
            for request in requests
            if request.given is not None and not request.stopped
        )
        decisions = []
        for request in requests:
            known = self.known(request)
            unscored = Outcome(Fold(reason="scorer failed"))
            outcome = unscored if self.missing(request, known) else self.folded(request, known)
            decisions.append(self.answered(request, outcome))
        return decisions

    def find(self, question: Question, most: int) -> list[Any]:
        """The tools that a search finds."""
        request = self.read(question)
        _warn_if_swapped(request)
        return found(request, self.scored(request, question.left()), self.folding, most)

    async def find_async(self, question: Question, most: int) -> list[Any]:
        """`find`, for an event loop."""
        request, tools = await self._off_the_loop(
            question, lambda request, scored: found(request, scored, self.folding, most)
        )
        _warn_if_swapped(request)
        return tools

    async def _off_the_loop(self, question: Question, then: Callable[[Request, KnownScores], T]) -> tuple[Request, T]:
        """A question as it is read, and what comes of it once it is scored, on threads within its time limit."""

        def read(_: Work[Any]) -> tuple[Request, T | None]:
            request = self.read(question)
            known = self.known(request)
            return request, None if self.missing(request, known) else then(request, known)

        try:
            request, result = await self.shared.readers.start(read, question.left()).wait_async()
        except Exception as error:
            request = self._unread(question, error)
            return request, then(request, KnownScores({}))
        if result is not None:
            return request, result
        try:
            self._check_breaker()
            begun = self.shared.scorers.start(lambda work: then(request, self._ask(request, work)), question.left())
            return request, await begun.wait_async()
        except Exception as error:
            return request, then(request, self._without_answer(request, error))

    # Read.

    def read(self, question: Question) -> Request:
        """A question with its tools, its history and who decides; where it cannot be read, the request says so."""
        try:
            self.rollout.look(question.left())
            request = self._request(question)
            _ = request.terms.judges[-1].digest  # here, since an event loop should not wait for it
            return request
        except Exception as error:
            return self._unread(question, error)

    def _request(self, question: Question) -> Request:
        stopped: Reason | None = None
        error = ""
        turned = turned_round(question)
        if turned is not None:
            question = turned
            stopped = "arguments swapped"
            error = SWAPPED
        catalogue, natives = self.catalogues.read(question.tools)
        searches = question.tool_search and stopped is None
        if searches and self.mode in ("drop", "append") and catalogue.search_names:
            searches = False
            stopped = "name taken"
            error = TAKEN.format(" and ".join(map(repr, catalogue.search_names)))
        is_misunderstood = stopped is not None
        name = conversation_named(question.conversation)
        conversation = None if name is None else remembered_by(name, self.tenant)
        shown = isinstance(question.task, (list, tuple))
        authorized = AuthorizedTools(natives, catalogue.tools)
        task = question.task
        withheld: tuple[str, ...] = ()
        if shown:
            history = authorized.sendable(task)
            task = history.messages
            withheld = history.refused
        events: tuple[Event, ...] = ()
        if not is_misunderstood:
            stopped, error, events = self._history(task, catalogue, natives)
        dealt = self.rollout.dealt(conversation, is_history=shown)
        if dealt.off and stopped is None:
            stopped = "switched off"
        guards = self.guards
        insisted = names_in(question.forced)
        forced: tuple[str, ...] = ()
        if insisted:
            tools = catalogue.tools
            forced = tuple([key for key in catalogue.offered if guards.called(key, tools[key], insisted)])
        guarded = dict.fromkeys(catalogue.unpriced, "its cost is not known")
        guarded |= guards.guarded(catalogue.tools, catalogue.offered, names_in(question.keep))
        request = Request(
            catalogue=catalogue,
            natives=natives,
            guarded=guarded,
            terms=self.terms.of(conversation, dealt, self.mode, is_under_way=shown and len(events) > 1),
            dealt=dealt,
            began=question.began,
            authorized=authorized,
            withheld=withheld,
            forced=forced,
            tool_search=searches or (self.mode == "defer" and has_search(natives.values())),
            found_by_name=self.mode == "defer",
            channel=channel_of(readable(question.model), self.channels) if self.mode == "append" and shown else None,
            name=name,
            conversation=conversation,
            tenant=self.tenant,
            shown=shown,
            events=events,
            turns=tuple([event for event in events if isinstance(event, Turn)]),
            stopped=stopped,
            error=error,
        )
        if conversation is not None and not shown and not is_misunderstood:
            request = self._recalled(request, conversation, question.left())
        return request if question.scores is None else self._with_scores(request, question.scores)

    def _history(
        self, task: str | Messages, catalogue: Catalogue, natives: Mapping[str, Any]
    ) -> tuple[Reason | None, str, tuple[Event, ...]]:
        """Why there is nothing to score, the type of what was raised, and the turns and calls of a history."""
        limits = self.limits
        left = limits.characters - catalogue.characters
        if len(catalogue.offered) > limits.tools or left < 0:
            return "request too large", "", ()
        try:
            events = meant_by(read_task(task, left), catalogue, natives)
        except OverflowError:
            return "request too large", "", ()
        if catalogue.problem and not catalogue.costs:
            return "policy failed", catalogue.problem, events
        return None, "", events

    def _recalled(self, request: Request, conversation: str, seconds: float | None) -> Request:
        """A request with what a memory knows of its conversation."""
        remembered = self.shared.memory.recall(conversation, seconds)
        if remembered is None:
            return request
        known = map(request.catalogue.identities.get, remembered.kept)
        before = tuple([key for key in known if key in request.natives])
        return replace(request, before=before, explored=remembered.explored)

    def _with_scores(self, request: Request, scores: Any) -> Request:
        """A request with scores that the harness has already: they stand in for the scorer's on the last turn."""
        subject = request.turns[-1].subject if request.turns else ""
        if request.stopped or not subject:
            return request
        try:
            named = request.conversation is not None
            given = aligned(scores, request.catalogue)
            turn = self.shared.turn_scores.given(subject, request.catalogue, given, request.own, is_named=named)
        except Exception as error:
            return replace(request, stopped="scores refused", error=failure_type(error))
        return replace(request, given=turn)

    def _unread(self, question: Question, error: Exception) -> Request:
        """A request whose tools could not be read, or not in time: all of them as they came, or none to be safe."""
        catalogue, natives = unread_catalogue(question.tools, refuse=self.guards.refuse)
        dealt = self.rollout.dealt(None, is_history=True)
        return Request(
            catalogue=catalogue,
            natives=natives,
            guarded=dict.fromkeys(natives, "not read"),
            terms=self.terms.of(None, dealt, self.mode, is_under_way=False),
            dealt=dealt,
            began=question.began,
            tool_search=question.tool_search,
            name=conversation_named(question.conversation),
            stopped="tools not readable",
            error=type(error).__name__,
        )

    # KnownScores.

    def scored(self, request: Request, seconds: float | None) -> KnownScores:
        """The scores of a request's turns: those at hand, and the scorer's for all others that the decision needs."""
        known = self.known(request)
        if not self.missing(request, known):
            return known
        try:
            self._check_breaker()
            if seconds is None:
                return self._ask(request)
            begun: Work[KnownScores] = self.shared.scorers.start(partial(self._ask, request), seconds)
            return begun.wait()
        except Exception as error:
            return self._without_answer(request, error)

    def known(self, request: Request) -> KnownScores:
        """The scores that are at hand."""
        if request.stopped:
            return KnownScores({})
        turns = self.shared.turn_scores.known(request.subjects, request.catalogue, request.own)
        if request.given is not None:
            turns[request.turns[-1].subject] = request.given
        return KnownScores(turns)

    def missing(self, request: Request, known: KnownScores) -> list[str]:
        """The turns that have no scores yet, each once, the oldest first: those that the decision needs."""
        if request.stopped or not request.catalogue.costs:
            return []
        unscored: list[str] = []
        for subject in request.subjects:
            turn = known.turns.get(subject)
            if turn is None:
                unscored.append(subject)
            elif request.settled and not unscored and self._settles(request, turn):
                break
        return unscored

    def _settles(self, request: Request, turn: ScoredTurn) -> bool:
        """Whether a turn decides for good where there is a tool search: the first with signal does."""
        ranking = self.shared.turn_scores.ranking
        try:
            rankings = [ranking(turn, request.catalogue, judge) for judge in request.terms.judges]
        except Exception:  # a policy that breaks says so when it decides
            return False
        return all(any(tool.kept for tool in trusted_part(ranking)) for ranking in rankings)

    def _ask(self, request: Request, work: Work[Any] | None = None) -> KnownScores:
        """The scorer's word on the turns that have none, if nobody else has asked for it in the meantime.

        `work` is that of the thread that asks; None on the caller's own, where there is no time limit.
        """
        known = self.known(request)
        missing = self.missing(request, known)
        if not missing:
            return known
        breaker = self.limits.breaker
        judges = request.terms.judges
        try:
            scored = self.shared.turn_scores.score(missing, request.catalogue, judges, work, known.turns)
        except Exception as error:
            if breaker is not None and not (work and work.given_up):
                breaker.failed()
            return replace(known, failure=error)
        if breaker is not None and not (work and work.given_up):
            breaker.succeeded()
        return scored

    def _check_breaker(self) -> None:
        """Raise where the scorer is left alone for a while."""
        if self.limits.breaker is not None:
            self.limits.breaker.check()

    def _without_answer(self, request: Request, error: Exception) -> KnownScores:
        """What is at hand where time was up, no thread was free, or the scorer rests."""
        if self.limits.breaker is not None and isinstance(error, TimeoutError):
            self.limits.breaker.failed()
        return replace(self.known(request), failure=error, late=True)

    # Folded.

    def folded(self, request: Request, scored: KnownScores) -> Outcome:
        """What the turns make of the tools, once they are scored, or as many as could be."""
        if request.stopped:
            return Outcome(Fold(reason=request.stopped), request.error)
        reason: Reason = "scorer failed"
        error = ""
        if scored.failure is not None:
            reason = failure_reason(scored.failure)
            error = failure_type(scored.failure)
        judges = request.terms.judges
        try:
            fold = self.folding.under(request, judges, scored, reason)
            explores = bool(fold.first) and (request.explored if request.before else request.dealt.explores)
            if explores and judges[-1].exploring is not None:
                fold = self.folding.of(request, judges[-1].exploring, scored, reason)
            return Outcome(fold, error, explores)
        except UnscoredError:
            return Outcome(Fold(reason=reason), error)
        except Exception as raised:
            return Outcome(Fold(reason="policy failed"), type(raised).__name__)

    # Answered.

    def answered(self, request: Request, outcome: Outcome) -> GateDecision:
        """The decision; what it gives a conversation whose history is not shown is remembered."""
        fold = outcome.fold
        judge = request.terms.judges[-1]
        if not fold.first:
            searches = request.tool_search and not isinstance(judge.policy, AcquireAll)
            kept = self._undecided(request, searches=searches)
            return self._decision(request, kept, fold, outcome.error, is_open=not request.before)
        exploring = judge.exploring if outcome.explores else judge
        kept = fold.kept if exploring else request.catalogue.offered
        if request.conversation is not None:
            self.terms.keep(request.conversation, request.terms)
            if not request.shown:
                kept = self._remembered(request, request.conversation, kept, explores=outcome.explores)
        if exploring is None:
            everything = fold._replace(reason="explored")
            return self._decision(request, request.catalogue.offered, everything, explored=True)
        return self._decision(request, kept, fold, outcome.error, pressure=exploring.payoff.cost_pressure)

    def _remembered(self, request: Request, name: str, kept: Collection[str], *, explores: bool) -> tuple[str, ...]:
        """All that a conversation has now, of the tools that may be offered."""
        identities = request.catalogue.identities
        known = {key: identity for identity, key in identities.items()}
        now = self.shared.memory.widen(name, [known[key] for key in kept], explores)
        keys = map(identities.get, now)
        return tuple([key for key in keys if key is not None and key in request.natives])

    def _undecided(self, request: Request, *, searches: bool) -> Iterable[str]:
        """What the conversation has, else the tool search, or the whole authorized list without.

        A policy that gives every tool to the next turn gives it now: a list that changes rewrites the prompt. A named
        fallback goes before all of these. Nothing is remembered, so that one failure does not open a conversation for
        good.
        """
        stays = {**request.guarded, **dict.fromkeys(request.called)}
        if request.before:
            return (*request.before, *stays)
        fallback = self.guards.fallback
        offered = request.catalogue.offered
        if fallback is None:
            return [key for key in offered if key in stays] if searches else offered
        tools = request.catalogue.tools
        return [key for key in offered if key in stays or self.guards.called(key, tools[key], fallback)]

    def _decision(
        self,
        request: Request,
        kept: Iterable[str],
        fold: Fold,
        error: str = "",
        *,
        is_open: bool = False,
        explored: bool = False,
        pressure: float | None = None,
    ) -> GateDecision:
        """What the harness gets, by the mode."""
        catalogue = request.catalogue
        natives = request.natives
        mode = request.terms.mode
        if mode == "append" and request.channel is None:
            mode = "drop"
        stay = tuple(dict.fromkeys([key for key in (*kept, *request.forced) if key in natives]))
        joined = () if mode != "append" or explored or is_open else fold.joined
        later = {key for _, keys in joined for key in keys}
        if mode == "append":
            later |= request.joined_before
        listed = [key for key in stay if key not in later or key in request.forced]  # a choice names what is declared
        cut = _others(catalogue.offered, stay)
        unlisted = _others(catalogue.offered, listed) if later else cut
        return GateDecision(
            tools=list_for_the_model(mode, natives, listed, unlisted),
            kept=stay,
            cut=cut,
            refused=(*_others(catalogue.tools, natives), *request.withheld),
            reason=fold.reason,
            mode=mode,
            channel=request.channel if mode == "append" else None,
            authorized=request.authorized,
            appended=request.additions(joined, listed) if joined else (),
            joined=_others(stay, listed) if later else (),
            explored=explored,
            ranking=fold.ranking,
            vector=fold.vector,
            error=error,
            open=is_open,
            tool_search=request.tool_search,
            hidden=self._hidden(request, mode, fold, unlisted),
            conversation=request.name or "",
            needs_name=request.dealt.needs_name,
            servers=catalogue.servers,
            cost_pressure=pressure,
            id=urandom(16).hex(),
            policy_digest=request.terms.judges[-1].digest,
            catalogue=request.terms.judges[-1].catalogue,
            examples_digest=getattr(self.shared.turn_scores.scorer, "examples_digest", ""),
            latency=monotonic() - request.began,
        )

    def _hidden(self, request: Request, mode: Mode, fold: Fold, unlisted: Sequence[str]) -> str:
        """The names of what is not on the list, for the description of the tool search."""
        if not request.tool_search or mode not in ("drop", "append") or not unlisted:
            return ""
        tools = request.catalogue.tools
        # Where a memory knows what a conversation has, later turns have no ranking, and names must stay as they are.
        ranking = fold.ranking if request.shown or request.conversation is None else ()
        likely = [(tools[tool.name].server, tools[tool.name].name) for tool in ranking]
        untrusted = {tools[key].server for key in request.catalogue.untrusted}
        hidden = by_server(tools[key] for key in unlisted)
        return names_by_server(hidden, self.limits.search_names, untrusted=untrusted, likely=likely)


def _warn_if_swapped(request: Request) -> None:
    """Tell whoever called `Gate.find` that query and tools are swapped: its answer has no place for it."""
    if request.stopped == "arguments swapped":
        warn(request.error, stacklevel=4)


def _others(keys: Iterable[str], known: Iterable[str]) -> tuple[str, ...]:
    """The keys that are not known, in their order."""
    left_out = frozenset(known)
    return tuple([key for key in keys if key not in left_out])

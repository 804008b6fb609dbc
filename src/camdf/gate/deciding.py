"""The steps of a decision, top to bottom: read, scored, folded, answered. Each makes a new value of the one before.

A scorer that has a time limit runs on a thread, since it may hang. All else runs where the caller is, within bounds on
the size of a request. For an event loop, requests are read on threads of their own: scorers that hang on all of theirs
must not keep a request from being read, since what is not read cannot be authorized either.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from os import urandom
from time import monotonic
from typing import Any, NamedTuple, TypeVar
from warnings import warn

from camdf.gate.append import Addition
from camdf.gate.decision import GateDecision, Reason
from camdf.gate.finding import found
from camdf.gate.fold import Fold, Folding, Outcome, UnscoredError, trusted_part, without_shut
from camdf.gate.lists import Mode, list_for_the_model
from camdf.gate.ranking import Ranking
from camdf.gate.request import Question, Request, RequestReader
from camdf.gate.scoring import KnownScores, ScoredTurn, failure_reason, failure_type
from camdf.gate.settings import Guards, Limits
from camdf.gate.shared import SharedByTenants
from camdf.gate.terms import ConversationTerms
from camdf.runtime.workers import Work

T = TypeVar("T")


class Parts(NamedTuple):
    """Where the tools of a decision stand, by key."""

    kept: tuple[str, ...]
    """All that the agent has."""

    head: tuple[str, ...]
    """Those that the request declares where the harness sends the decision's messages too."""

    alone: tuple[str, ...]
    """Those that it declares where the harness takes tools alone."""

    joined: tuple[str, ...] = ()
    """Those that are among the messages, or join there."""

    appended: tuple[Addition, ...] = ()
    """What joins there, by turn."""


@dataclass(frozen=True)
class Decider:
    """Decides on questions, and never raises, whatever a scorer, a policy or a tool does."""

    reader: RequestReader
    guards: Guards
    limits: Limits
    terms: ConversationTerms
    folding: Folding
    shared: SharedByTenants
    binds: bool = False
    """Whether a decision says what may run."""

    def decide(self, question: Question) -> GateDecision:
        """The decision on a question."""
        request = self.reader.read(question)
        scored = self.scored(request, question.left())
        return self.answered(request, self.folded(request, scored))

    async def decide_async(self, question: Question) -> GateDecision:
        """`decide`, for an event loop."""
        request, outcome = await self._off_the_loop(question, self.folded)
        return self.answered(request, outcome)

    def decide_together(self, questions: Sequence[Question]) -> list[GateDecision]:
        """The decisions on questions that bring their scores: a policy is asked once for all that it decides on."""
        requests = [self.reader.read(question) for question in questions]
        self.shared.turn_scores.rank_together(
            (request.given, request.catalogue, request.judges[-1])
            for request in requests
            if request.given is not None and not request.stopped
        )
        decisions = []
        for request in requests:
            known = self.known(request)
            outcome = Outcome(Fold(reason="scorer failed"))
            if not self.missing(request, known):
                outcome = self.folded(request, known)
            decisions.append(self.answered(request, outcome))
        return decisions

    def find(self, question: Question, most: int) -> list[Any]:
        """The tools that a search finds."""
        request = self.reader.read(question)
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
            request = self.reader.read(question)
            known = self.known(request)
            if self.missing(request, known):
                return request, None
            return request, then(request, known)

        try:
            request, result = await self.shared.readers.start(read, question.left()).wait_async()
        except Exception as error:
            request = self.reader.unread(question, error)
            return request, then(request, KnownScores({}))
        if result is not None:
            return request, result
        try:
            self._check_breaker()
            begun = self.shared.scorers.start(lambda work: then(request, self._ask(request, work)), question.left())
            return request, await begun.wait_async()
        except Exception as error:
            return request, then(request, self._without_answer(request, error))

    # Scored.

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
            elif request.settled and not request.asking and not unscored and self._settles(request, turn):
                break
        return unscored

    def _settles(self, request: Request, turn: ScoredTurn) -> bool:
        """Whether a turn decides for good where there is a tool search: the first with signal does."""
        ranking = self.shared.turn_scores.ranking
        try:
            rankings = [ranking(turn, request.catalogue, judge) for judge in request.judges]
        except Exception:  # a policy that breaks says so when it decides
            return False
        return all(map(_keeps_a_trusted_tool, rankings))

    def _ask(self, request: Request, work: Work[Any] | None = None) -> KnownScores:
        """The scorer's word on the turns that have none, if nobody else has asked for it in the meantime.

        `work` is that of the thread that asks; None on the caller's own, where there is no time limit.
        """
        known = self.known(request)
        missing = self.missing(request, known)
        if not missing:
            return known
        breaker = self.limits.breaker
        judges = request.judges
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
        outcome = self._outcome(request, scored)
        if not request.bound:
            return outcome
        brought = self.folding.brought(request, scored)
        return outcome._replace(fold=without_shut(outcome.fold, request.bound - brought), brought=brought)

    def _outcome(self, request: Request, scored: KnownScores) -> Outcome:
        """What came of the turns, and what was raised on the way."""
        reason: Reason = "scorer failed"
        error = ""
        if scored.failure is not None:
            reason = failure_reason(scored.failure)
            error = failure_type(scored.failure)
        judges = request.judges
        try:
            fold = self.folding.by_judges(request, judges, scored, reason)
            explores = request.explores and bool(fold.first)
            if explores and judges[-1].exploring is not None:
                fold = self.folding.by_judge(request, judges[-1].exploring, scored, reason)
            return Outcome(fold, error, explores)
        except UnscoredError:
            return Outcome(Fold(reason=reason), error)
        except Exception as raised:
            return Outcome(Fold(reason="policy failed"), type(raised).__name__)

    # Answered.

    def answered(self, request: Request, outcome: Outcome) -> GateDecision:
        """The decision; what it gives a conversation whose history is not shown is remembered."""
        fold = outcome.fold
        judge = request.judges[-1]
        if not fold.first:
            searches = request.tool_search and not request.terms.load_all
            nothing = fold.reason == "nothing needed"
            kept = self._kept_undecided(request, searches=searches, nothing=nothing)
            return self._decision(request, kept, outcome, is_open=not (request.before or nothing))
        offered = request.catalogue.offered
        followed = judge.exploring if outcome.explores else judge
        kept = offered if followed is None else fold.kept
        if request.conversation is not None:
            self.terms.keep(request.conversation, request.terms)
            if not request.shown:
                kept = self._with_remembered(request, request.conversation, kept, explores=outcome.explores)
        if followed is None:
            seen = outcome._replace(fold=fold._replace(reason="explored"), error="")
            return self._decision(request, offered, seen, explored=True)
        return self._decision(request, kept, outcome, pressure=followed.payoff.cost_pressure)

    def _with_remembered(
        self, request: Request, name: str, kept: Collection[str], *, explores: bool
    ) -> tuple[str, ...]:
        """All that a conversation has now, of the tools that may be offered."""
        identity_of = request.catalogue.identity_of
        known = tuple([identity_of[key] for key in kept])
        now = self.shared.memory.widen(name, known, explores)
        if now == known:
            return tuple(kept)
        keys = map(request.catalogue.identities.get, now)
        return tuple([key for key in keys if key is not None and key in request.natives])

    def _kept_undecided(self, request: Request, *, searches: bool, nothing: bool) -> Iterable[str]:
        """What the conversation has, else the tool search, or the whole authorized list without.

        Where `nothing` is needed, that is what it gets, but for what must stay. A policy that gives every tool to the
        next turn gives it now: a list that changes rewrites the prompt. A named fallback goes before all of these.
        Nothing is remembered, so that one failure does not open a conversation for good.
        """
        stays = {**request.guarded, **dict.fromkeys(request.called)}
        if request.before:
            return (*request.before, *stays)
        fallback = self.guards.fallback
        offered = request.catalogue.offered
        if nothing:
            return [key for key in offered if key in stays]
        if fallback is None and not searches:
            return offered
        if fallback is None:
            return [key for key in offered if key in stays]
        tools = request.catalogue.tools
        return [key for key in offered if key in stays or self.guards.called(key, tools[key], fallback)]

    def _decision(
        self,
        request: Request,
        kept: Iterable[str],
        outcome: Outcome,
        *,
        is_open: bool = False,
        explored: bool = False,
        pressure: float | None = None,
    ) -> GateDecision:
        """What the harness gets, by the mode."""
        catalogue = request.catalogue
        natives = request.natives
        fold = outcome.fold
        shut = request.bound - outcome.brought
        stays = tuple(dict.fromkeys([key for key in (*kept, *request.forced) if key in natives and key not in shut]))
        parts = Parts(stays, stays, stays)
        mode = request.terms.mode
        if mode == "append" and (request.channel is None or explored):
            mode = "drop"
        if mode == "append":
            parts = self._parts_where_tools_join(request, stays, fold, is_open=is_open)
        unlisted = _keys_beside(catalogue.offered, parts.head)
        head = list_for_the_model(mode, natives, parts.head, unlisted, catalogue.marked)
        tools = head
        if mode == "append":
            tools = list_for_the_model("drop", natives, parts.alone, (), catalogue.marked)
        return GateDecision(
            tools=tools,
            head=head,
            kept=parts.kept,
            cut=_keys_beside(catalogue.offered, parts.kept),
            refused=(*_keys_beside(catalogue.tools, natives), *request.withheld),
            reason=fold.reason,
            mode=mode,
            channel=request.channel if mode == "append" else None,
            authorized=request.authorized,
            appended=parts.appended,
            joined=parts.joined,
            explored=explored,
            ranking=fold.ranking,
            none=fold.none,
            vector=fold.vector,
            error=outcome.error,
            open=is_open,
            may_run=catalogue.full_names(natives.keys() - shut) if self.binds else None,
            brought=tuple(sorted([catalogue.tools[key].full_name for key in outcome.brought])),
            tool_search=request.tool_search,
            hidden=self._names_of_hidden(request, mode, fold, unlisted),
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

    def _parts_where_tools_join(self, request: Request, stays: tuple[str, ...], fold: Fold, *, is_open: bool) -> Parts:
        """The head is the same in every request; what turns bring joins the messages.

        Where nothing is decided, a fallback is declared beside the head: it is asked for where something failed.
        """
        head = [key for key in request.catalogue.offered if key in request.always_listed]
        appended: tuple[Addition, ...] = ()
        if is_open:
            head += _keys_beside(stays, {*request.always_listed, *request.joined_before, *request.called})
        else:
            appended = _additions(request, fold.joined)
        new = [key for addition in appended for key in addition.keys]
        before = [key for key in stays if key in request.joined_before]
        joined = _keys_beside(dict.fromkeys([*before, *new]), head)
        kept = (*head, *joined)
        alone = tuple([key for key in stays if key in set(kept)])
        return Parts(kept, tuple(head), alone, joined, appended)

    def _names_of_hidden(self, request: Request, mode: Mode, fold: Fold, unlisted: Sequence[str]) -> str:
        """The names of what is not on the list, for the description of the tool search."""
        if not request.tool_search or mode not in ("drop", "append") or not unlisted:
            return ""
        likely: list[str] = []
        # Where a memory knows what a conversation has, later turns have no ranking, and names must stay as they are. So
        # must those in a head, which follow from the tools alone.
        if mode == "drop" and (request.shown or request.conversation is None):
            likely = [tool.name for tool in fold.ranking]
        return request.catalogue.names(unlisted, self.limits.search_names, likely)


def _warn_if_swapped(request: Request) -> None:
    """Tell whoever called `Gate.find` that query and tools are swapped: its answer has no place for it."""
    if request.stopped == "arguments swapped":
        warn(request.error, stacklevel=4)


def _additions(request: Request, joined: Iterable[tuple[int, Sequence[str]]]) -> tuple[Addition, ...]:
    """What joins the messages: what turns bring, less what the history has already and what is on the list."""
    if request.channel is None:
        return ()
    known = {*request.always_listed, *request.joined_before}
    additions: list[Addition] = []
    for place, keys in joined:
        new = [key for key in keys if key not in known and request.authorized.can_join(key, request.channel)]
        known.update(new)
        if new:
            additions.append(Addition(place, tuple(new)))
    return tuple(additions)


def _keeps_a_trusted_tool(ranking: Ranking) -> bool:
    return any(tool.kept for tool in trusted_part(ranking.tools))


def _keys_beside(keys: Iterable[str], known: Iterable[str]) -> tuple[str, ...]:
    """The keys that are not known, in their order."""
    left_out = frozenset(known)
    return tuple([key for key in keys if key not in left_out])

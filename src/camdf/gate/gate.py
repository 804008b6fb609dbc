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
from os import PathLike, urandom
from threading import TIMEOUT_MAX, Lock
from time import monotonic
from typing import Any, Self, get_args

from camdf._renamed import renamed, warn_of
from camdf.core.payoff import Payoff, ValueFunction
from camdf.errors import ArtifactError, UsageError
from camdf.gate.breaker import Breaker, RestingError
from camdf.gate.budget import BusyError, Work
from camdf.gate.conversation_terms import ConversationTerms, Terms
from camdf.gate.decision import GateDecision, Mode, Reason
from camdf.gate.fold import Fold, Folding, Outcome, UnscoredError
from camdf.gate.forks import renewed_in_forks
from camdf.gate.guards import Allow, Guards, setting_of_names
from camdf.gate.judge import Judge
from camdf.gate.memory import Memory
from camdf.gate.modes import list_for_the_model
from camdf.gate.reader import PriceList, RequestReader, UndecidedError
from camdf.gate.request import Question, Request, Scores, readable, tools_by_key, unread, viewed_tool
from camdf.gate.rollout import Rollout, dealt
from camdf.gate.shared_by_tenants import SharedByTenants
from camdf.gate.shared_memory import ConversationStore
from camdf.gate.target import Target
from camdf.gate.telemetry import Sink, add_to_span
from camdf.gate.tool_search import FIND, FOUND, Answer, WrittenCall, listing, query_of
from camdf.gate.turn_scores import RefusedScoresError, TurnScores, deciding
from camdf.gate.turns import Messages
from camdf.gate.worth import cutting_pays
from camdf.policies.base import Policy
from camdf.policies.rules import AcquireAll, TopK
from camdf.scorers.base import Scorer, says_nothing
from camdf.scorers.trust_aware import TrustAware
from camdf.tools import Tool

SHARED = ("scorer", "trusted", "breaker", "conversations", "memory", "on_decision")
"""Settings that all tenants of a gate have in common."""


USUAL_TOOLS = 8
"""How many tools a gate loads where nobody says how many: docs/first-day.md has what they reach."""


class Gate:
    """A policy at work: scores and prices the tools of a conversation, decides, and keeps a harness's promises.

    - `decide` never raises. What goes wrong leaves the list as it is, and the reason says so. Where nothing was decided
      before, the list is `fallback`; without one, what must stay if there is a tool search, else the whole authorised
      list.
    - The answer is a subset of the request's tools and of those authorised: `allow` names them, or is called for each;
      `digests` pins definitions (`Tool.digest`). A tool that fails either is refused, also where `allow` raises, and
      so is one whose name may not be what it looks like. A name means one tool: "mail/send" where two servers have it.
    - Pinned tools, tools named in `keep`, tools that the history has called, tools of a shape not known here and the
      provider's own are never cut.
    - Once decided, a conversation only widens, at the end of its list; with a tool search the list does not change at
      all.
    - The same history and tools give the same answer on every worker. An `explore` share of named conversations sees
      every tool, and is flagged; with `explore_pressure` it gets what is worth its cost at that lower cost pressure
      instead. Names are dealt by `explore_key`, which is the same on all workers and known to nobody else.

    `trusted` names the servers whose descriptions are believed. Their tools are scored and decided as if no others were
    there; the others then get at most `untrusted_places`, by scores of their own (`scorers.TrustAware`). By default all
    servers are trusted.

    `tool_search` says that the agent can search for tools that it was not given, unless a call of `decide` says
    otherwise. `mode` is "drop" (cut), "defer" (mark what is cut for the provider's tool search), "allow" (leave the
    list, and say in `tool_choice` what may be called) or "shadow" (only say what would be cut). `rollout` cuts for a
    share of conversations, and is what switches the gate off (`Rollout`). `budget` is what a decision may take, in
    seconds; None sets no limit. `breaker` leaves a scorer alone that fails again and again (`Breaker`). Requests of
    more than `most_tools` tools, or of more than `most_characters` in names, descriptions and history, are not scored:
    the list stays as it is. `at_least` and `at_most` bound how many tools are kept; guarded and earlier tools count,
    and are kept even beyond `at_most`. `prices` in dollars (`Prices`) also price the cached prompt that a later
    widening rewrites. `conversations` is how many conversations are remembered here, `memory` is where workers share
    those whose history is not shown (`RedisMemory`), and `tenant` whose they are (`for_tenant`). `on_decision` receives
    every decision on a thread of its own; the current span of OpenTelemetry or MLflow gets it either way.
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
        untrusted_places: int = 2,
        mode: Mode = "drop",
        rollout: Rollout | None = None,
        breaker: Breaker | None = None,
        explore: float = 0.0,
        explore_pressure: float | None = None,
        explore_key: str = "",
        tool_search: bool = False,
        fallback: Collection[str] | None = None,
        budget: float | None = 5.0,
        at_least: int = 0,
        at_most: int | None = None,
        conversations: int = 10_000,
        memory: ConversationStore | None = None,
        tenant: str = "",
        most_tools: int = 10_000,
        most_characters: int = 20_000_000,
        on_decision: Callable[[GateDecision], object] | None = None,
    ) -> None:
        self._settings = {name: value for name, value in locals().items() if name not in ("self", "__class__")}
        if mode not in get_args(Mode):
            raise UsageError(f"The 'mode' of Gate must be one of {', '.join(get_args(Mode))}. Got {mode!r} instead.")
        if rollout is not None and (mode == "shadow" or not isinstance(rollout, Rollout)):
            raise UsageError(
                "The 'rollout' of Gate must be a Rollout, with the mode of those who are cut for: "
                f"{', '.join(each for each in get_args(Mode) if each != 'shadow')}. "
                f"Got {rollout!r} and mode={mode!r} instead."
            )
        _check_kinds(self._settings)
        _check_numbers(self._settings)
        judge = Judge.of(policy, payoff, explore_pressure)
        self.prices, self.mode, self.explore, self.budget = prices, mode, explore, budget
        self.rollout, self.breaker, self.untrusted_places = rollout, breaker, untrusted_places
        self.explore_pressure, self.explore_key, self.tool_search = explore_pressure, explore_key, tool_search
        self.at_least, self.at_most = at_least, at_most
        believed = None if trusted is None else setting_of_names("trusted", trusted)
        self.guards = Guards(
            allow if allow is None or callable(allow) else setting_of_names("allow", allow),
            digests,
            setting_of_names("pinned", pinned),
            None if fallback is None else setting_of_names("fallback", fallback),
            believed,
        )
        self.counts: Counter[Reason] = Counter()
        reads = scorer if believed is None or scorer is None else TrustAware(scorer, believed)
        self._shared = SharedByTenants.of(reads, conversations, memory, on_decision)
        self._conversation_terms = ConversationTerms(judge, conversations)
        self._reader = RequestReader(self.guards, prices, self.memory, most_tools, most_characters, tenant)
        rewritten = getattr(prices, "of_rewriting", _nothing) if mode in ("drop", "shadow") else _nothing
        self._folding = Folding(self._turn_scores, at_least, at_most, rewritten, untrusted_places)
        self._follows = False
        self.renew()
        renewed_in_forks(self)

    @classmethod
    def start(
        cls,
        tools: Sequence[Any] | Mapping[str, Sequence[Any]],
        *,
        mean_tools: int | None = None,
        policy: Policy | None = None,
        scorer: Scorer | None = None,
        **settings: Any,
    ) -> Self:
        """A gate that needs nothing but the tools: it loads the best eight for a conversation, and searches for others.

        `mean_tools` is how many instead of eight. Where it is left out and the list is so short that cutting costs more
        than it saves (`camdf worth` has the rule), all are loaded. `policy` decides instead, at the payoff that it was
        fitted for. `scorer` is `Start()` unless given. `settings` are those of `Gate`; the agent has a tool search.

        >>> scorer = lambda task, tools: [1 / (1 + place) for place, _ in enumerate(tools)]
        >>> tools = [Tool(f"tool_{number}", f"Does thing {number}.") for number in range(40)]
        >>> gate = Gate.start(tools, mean_tools=2, scorer=scorer)
        >>> [tool["function"]["name"] for tool in gate.decide("Do a thing for me", tools).openai()]
        ['tool_0', 'tool_1', 'find_tool', 'call_tool']
        """
        if policy is not None and mean_tools is not None:
            raise UsageError("For a policy of yours and a number of tools, take Gate.for_target, with some requests.")
        payoff = settings.pop("payoff", None)
        if policy is None:
            payoff = payoff or Payoff(0.0)
            listed = tools_by_key(tools)[0].values()
            pays = mean_tools is not None or cutting_pays(listed, USUAL_TOOLS, settings.get("prices"))
            policy = TopK(USUAL_TOOLS if mean_tools is None else mean_tools) if pays else AcquireAll()
        return cls(policy, scorer or _start(), payoff, **{"tool_search": True, **settings})

    @classmethod
    def for_target(
        cls,
        policy: Policy,
        scorer: Scorer,
        *,
        requests: Iterable[str | Messages],
        tools: Sequence[Any],
        mean_tools: float | None = None,
        sufficiency: float | None = None,
        dollars_per_task: float | None = None,
        value: str | ValueFunction = "partial",
        recourse: float = 0.0,
        **settings: Any,
    ) -> Self:
        """A gate that hands over `mean_tools` on average, what a `sufficiency` takes, or what a budget allows.

        `requests` is a sample without labels (fifty do), and `tools` what they choose from. The cost pressure is found
        there. `dollars_per_task` is in the unit of `prices`, and needs them. What is pinned comes on
        top. The value is the partial one, under which sets grow tool by tool: under the exact one a long list of much
        alike scores goes from none to all at a single pressure. `settings` are those of `Gate`.
        """
        if isinstance(requests, str) or not tools:
            raise UsageError("Give 'requests' as a list, and at least one of the 'tools' that they choose from.")
        target = _target(settings.get("prices"), mean_tools, sufficiency, dollars_per_task)
        unit = Payoff(1.0, value, recourse)
        apart = dict.fromkeys(("budget", "on_decision", "rollout", "breaker", "memory"))
        probe = cls(policy, scorer, unit, **{**settings, **apart, "explore": 0.0})
        found = [probe.decide(request, tools) for request in requests]
        trusted = [(tuple(one for one in each.ranking if one.trusted), each.vector) for each in found]
        scored = [each for each in trusted if each[0] and not says_nothing([one.score for one in each[0]])]
        if found and not scored:
            why = found[-1].error or found[-1].reason
            raise UsageError(f"None of these {len(found)} requests could be scored: {why}. Try the scorer by itself.")
        return cls(policy, scorer, target.payoff(policy, scored, unit), **settings)

    @classmethod
    def aiming(cls, *args: Any, over: Any, among: Any, tools: float | None = None, **settings: Any) -> Self:
        """The old name of `for_target`."""
        warn_of("Gate.aiming(over=, among=, tools=)", "Gate.for_target(requests=, tools=, mean_tools=)")
        return cls.for_target(*args, requests=over, tools=among, mean_tools=tools, **settings)

    def retargeted(
        self,
        *,
        mean_tools: float | None = None,
        sufficiency: float | None = None,
        dollars_per_task: float | None = None,
    ) -> Self:
        """A gate like this one, at the cost pressure that the requests of late ask for; see `for_target`.

        Publish it for new conversations and let this one serve those that it began: a conversation whose cost pressure
        changed would get other tools in the middle.
        """
        target = _target(self.prices, mean_tools, sufficiency, dollars_per_task)
        payoff = target.payoff(self.policy, self._turn_scores.of_late(self._conversation_terms.judge), self.payoff)
        return type(self)(**{**self._settings, "policy": self.policy, "payoff": payoff})

    def aimed(self, *, tools: float | None = None, **target: Any) -> Self:
        """The old name of `retargeted`."""
        warn_of("Gate.aimed(tools=)", "Gate.retargeted(mean_tools=)")
        return self.retargeted(mean_tools=tools, **target)

    def reload(self, path: str | PathLike[str]) -> str:
        """Take the policy of a file that `camdf.save` wrote for conversations that begin; returns its SHA-256.

        Conversations in which something was decided go on under the policy that decided it. A file that is not a policy
        which can decide under this gate's settings raises an ArtifactError, and the gate goes on with the one it has.
        """
        if self._follows:
            raise UsageError(
                "This tenant has the policy of the gate that it was made from. Reload that one, or give the tenant its "
                "own: for_tenant(name, policy=...)."
            )
        try:
            judge = Judge.from_file(path, self._settings["payoff"], self.explore_pressure)
        except ArtifactError as error:
            raise ArtifactError(f"{error} The gate goes on with the policy that it has.") from error
        self._conversation_terms.replace(judge)
        return judge.digest

    def for_tenant(self, tenant: str, **settings: Any) -> Self:
        """A gate like this one for the conversations of one tenant, with settings of its own.

        It shares threads, scorer and scores, memory and `on_decision` with this gate and its other tenants, so that a
        thousand of them cost little more than one. Conversations of one name are different ones for each. Without a
        policy, payoff or `explore_pressure` of its own it has this gate's policy, also when that is reloaded.
        """
        if not isinstance(tenant, str) or not tenant:
            raise UsageError(f"The 'tenant' of Gate must be a name. Got {tenant!r} instead.")
        if common := [name for name in settings if name in SHARED]:
            raise UsageError(
                f"All tenants share {', '.join(SHARED)}. Make a Gate for what needs another {common[0]!r}."
            )
        gate = type(self)(**{**self._settings, "policy": self.policy, **settings, "tenant": tenant})
        gate._shared = self._shared
        gate._reader = replace(gate._reader, memory=self.memory)
        gate._folding = replace(gate._folding, turn_scores=self._turn_scores)
        if not settings.keys() & {"policy", "payoff", "explore_pressure"}:
            gate._conversation_terms, gate._follows = self._conversation_terms, True
        return gate

    def renew(self) -> None:
        """A lock of its own, in a process of its own."""
        self._lock = Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy in another process, or a deep copy, has the same settings; conversations and threads stay behind."""
        return partial(type(self), **{**self._settings, "policy": self.policy}), ()

    @property
    def policy(self) -> Policy:
        """What decides on conversations that begin."""
        return self._conversation_terms.judge.policy

    @property
    def memory(self) -> Memory:
        """The tools of conversations whose history is not shown."""
        return self._shared.memory

    @property
    def sink(self) -> Sink | None:
        """Who is told of decisions."""
        return self._shared.sink

    @property
    def _turn_scores(self) -> TurnScores:
        return self._shared.turn_scores

    @property
    def scorer(self) -> Scorer | None:
        """What ranks; None where every task brings its own scores."""
        return self._turn_scores.scorer

    @property
    def payoff(self) -> Payoff:
        """What a set of tools is worth."""
        return self._conversation_terms.judge.payoff

    @renamed(door="tool_search")
    def decide(
        self,
        task: str | Messages,
        tools: Iterable[Any],
        *,
        conversation: str | None = None,
        keep: Iterable[str] = (),
        forced: Iterable[str] = (),
        scores: Scores | None = None,
        tool_search: bool | None = None,
    ) -> GateDecision:
        """The tools that a conversation gets.

        `task` is the history of the conversation as messages (OpenAI chat, OpenAI Responses, Anthropic or Vercel AI
        SDK), or the text of one task. `tools` come in a list, or by server as `{"mail": [...]}`. `conversation` names a
        thread or a session: chance is dealt by it and, where only texts are shown, the gate remembers what it has. An
        empty name asks for one: hand back `decision.conversation` from then on. `keep` names tools that stay in every
        request, such as handoffs;
        `forced` those that this request's `tool_choice` names. `scores`, by name or in the order of the tools, stand in
        for the scorer's on the last turn. `tool_search` says whether the agent can search for tools that it was not
        given; left out, the gate's own setting does.
        """
        searches = self.tool_search if tool_search is None else tool_search
        question = Question(task, tools, self.budget, conversation, keep, forced, scores, searches)
        try:
            outcome = self._reading(question).wait() or self._scoring(question).wait()
        except Exception as error:
            outcome = self._unfinished(question, error)
        return self._reported(question, self._decided(question, outcome))

    @renamed(door="tool_search")
    async def adecide(
        self,
        task: str | Messages,
        tools: Iterable[Any],
        *,
        conversation: str | None = None,
        keep: Iterable[str] = (),
        forced: Iterable[str] = (),
        scores: Scores | None = None,
        tool_search: bool | None = None,
    ) -> GateDecision:
        """`decide`, for an event loop, which goes on in the meantime."""
        searches = self.tool_search if tool_search is None else tool_search
        question = Question(task, tools, self.budget, conversation, keep, forced, scores, searches)
        try:
            outcome = await self._reading(question).wait_async() or await self._scoring(question).wait_async()
        except Exception as error:
            outcome = self._unfinished(question, error)
        return self._reported(question, self._decided(question, outcome))

    def decide_scored(
        self, task: str, tools: Iterable[Any], scores: Scores, *, keep: Iterable[str] = (), forced: Iterable[str] = ()
    ) -> GateDecision:
        """`decide` on the calling thread, for scores that are at hand: nothing is asked or waited for."""
        (decision,) = self.decide_together([Question(task, tools, 0.0, None, keep, forced, scores)])
        return decision

    def decide_together(self, questions: Sequence[Question]) -> list[GateDecision]:
        """`decide_scored` for several tasks: each gets the decision that it would get alone, for less work in all."""
        taken = [self._tried(self._taken, question) for question in questions]
        self._turn_scores.rank_together(
            (question.request, self._terms(question).judge)
            for question, outcome in zip(questions, taken, strict=True)
            if outcome is None and question.request is not None and not question.request.untrusted
        )
        found = []
        for question, outcome in zip(questions, taken, strict=True):
            outcome = outcome or self._tried(self._folded_if_scored, question) or Outcome(Fold(reason="scorer failed"))
            found.append(self._reported(question, self._decided(question, outcome)))
        return found

    def find(self, query: str, tools: Iterable[Any], most: int = FOUND) -> list[Any]:
        """The tools that a query finds, the best first, of those that may be offered; none where it prefers none.

        A query that is a tool's name finds that tool alone. For a search that an agent runs to reach tools which it was
        not given (`camdf.gate.tool_search`). Never raises.
        """
        question = Question(query, tools, self.budget)
        try:
            self._reading(question).wait() or self._scoring(question).wait()
        except Exception as error:  # what could not be scored is found by its name alone
            self._note(question, error)
        return self._found(question, most)

    def answer(self, call: Any, tools: Iterable[Any]) -> Answer:
        """What to do with a call that the model wrote: run which tool with which arguments, or answer with words.

        `call` is one of OpenAI chat or Responses, Anthropic or MCP, as the client has it; `tools` are all that there
        are. It answers `find_tool`, and reads what `call_tool` means. Nothing is run here. Never raises.
        """
        written = WrittenCall.of(call)
        try:
            viewed, natives = tools_by_key(tools, self.guards.trusted)
            offered = {viewed[key].name: natives[key] for key in reversed(self.guards.offered(viewed))}
        except Exception:
            offered = {}
        if written.name == FIND.name and FIND.name not in offered:
            found = self.find(query_of(written.arguments), tools)
            return Answer(written.id, None, listing(found, offered.values()))
        return written.answer(offered)

    async def afind(self, query: str, tools: Iterable[Any], most: int = FOUND) -> list[Any]:
        """`find`, for an event loop, which goes on in the meantime."""
        question = Question(query, tools, self.budget)
        try:
            await self._reading(question).wait_async() or await self._scoring(question).wait_async()
        except Exception as error:
            self._note(question, error)
        return self._found(question, most)

    def authorised(self, native: Any) -> bool:
        """Whether a tool may be offered at all, as `allow` and `digests` say: for a harness that is about to run it."""
        return self.guards.authorised(viewed_tool(native))

    def may_be_offered(self, tools: Iterable[Any]) -> list[Any]:
        """The tools of a list that are authorised, where a name that two servers share authorises neither."""
        viewed, natives = self.by_key(tools)
        return [natives[key] for key in self.guards.offered(viewed)]

    def by_key(self, tools: Iterable[Any]) -> tuple[dict[str, Tool], dict[str, Any]]:
        """Tools by the names that a decision gives them: as the gate views them, and as the harness holds them."""
        return tools_by_key(tools, self.guards.trusted)

    def _reading(self, question: Question) -> Work[Outcome | None]:
        return self._shared.readers.start(lambda _: self._read(question), question.left())

    def _read(self, question: Question) -> Outcome | None:
        """Read a call; the outcome, or None where turns are still to be scored."""
        return self._taken(question) or self._folded_if_scored(question)

    def _tried(self, step: Callable[[Question], Outcome | None], question: Question) -> Outcome | None:
        try:
            return step(question)
        except Exception as error:
            return self._unfinished(question, error)

    def _folded_if_scored(self, question: Question) -> Outcome | None:
        assert question.request is not None
        missing = self._turn_scores.missing(question.request, self._terms(question).judges)
        return None if missing else self._folded(question)

    def _taken(self, question: Question) -> Outcome | None:
        """Read a call and take the scores that it brings; an outcome only where there is nothing to decide on."""
        try:
            if self.rollout is not None:
                self.rollout.look(question.left())
            request = self._reader.read(question, self.mode)
            _ = self._terms(question).judge.digest  # here, since an event loop should not wait for it
            if self.rollout is not None and self.rollout.off:
                return Outcome(Fold(reason="switched off"))
            self._take_scores(question, request)
            return None
        except UndecidedError as error:
            return Outcome(Fold(reason=error.reason), error.error)

    def _scoring(self, question: Question) -> Work[Outcome]:
        """Score the turns that have no scores yet, then decide."""
        request, breaker = question.request, self.breaker
        assert request is not None
        if breaker is not None:
            breaker.check()

        def work(under_way: Work[Outcome]) -> Outcome:
            judges = self._terms(question).judges
            missing = self._turn_scores.missing(request, judges)
            try:
                silent = self._turn_scores.score(request, judges, missing, under_way)
            except Exception as error:
                if breaker is not None and not under_way.given_up:
                    breaker.failed()
                return self._folded(question, failure=error)
            if breaker is not None and missing and not under_way.given_up:
                breaker.succeeded()
            return self._folded(question, silent)

        question.asks_scorer = True
        return self._shared.scorers.start(work, question.left())

    def _note(self, question: Question, error: Exception) -> None:
        """A scorer that has no answer in time has failed."""
        if self.breaker is not None and question.asks_scorer and isinstance(error, TimeoutError):
            self.breaker.failed()

    def _take_scores(self, question: Question, request: Request) -> None:
        """Scores that the harness has already stand in for the scorer's on the last turn."""
        if question.scores is not None and request.turns and (subject := request.turns[-1].subject):
            try:
                self._turn_scores.take(request, subject, request.aligned(question.scores), own=True)
            except Exception as error:
                raise UndecidedError("scores refused", _refused(error)) from None

    def _terms(self, question: Question) -> Terms:
        """Those that the conversation began with, else those of today: one answer for the whole of a call."""
        if question.terms is None:
            assert question.request is not None
            question.terms = self._terms_of(question.request)
        return question.terms

    def _terms_of(self, request: Request) -> Terms:
        known, rollout, name = self._conversation_terms, self.rollout, request.conversation
        began = known.recall(name)
        if rollout is not None and rollout.off:  # for good: switched on again, it would narrow what it saw
            terms = Terms(began.judge if began else known.judge, "shadow")
            known.keep(name, terms)
            return terms
        if began is not None:
            return began
        if rollout is None:
            cuts = True
        elif name is None:  # one text has no middle; of a history nobody knows how it began
            cuts = rollout.share >= 1 and not request.goes_on
        else:
            cuts = rollout.cuts(name)
        earlier = known.earlier() if request.began_before else ()
        return Terms(known.judge, self.mode if cuts else "shadow", earlier)

    def _folded(
        self, question: Question, silent: Collection[str] = (), failure: Exception | None = None, *, late: bool = False
    ) -> Outcome:
        """What the turns make of the tools, once they are scored, or as many as could be."""
        request, terms, (reason, error) = question.request, self._terms(question), _failure(failure)
        assert request is not None
        try:
            fold = self._folding.under(request, terms.judges, silent, reason, late=late)
            explores = bool(fold.first) and self._explores(request)
            if explores and terms.judge.exploring is not None:
                fold = self._folding.of(request, terms.judge.exploring, silent, reason)
            return Outcome(fold, error, explores)
        except UnscoredError:
            return Outcome(Fold(reason=reason), error)
        except Exception as raised:
            return Outcome(Fold(reason="policy failed"), type(raised).__name__)

    def _unfinished(self, question: Question, error: Exception) -> Outcome:
        """What is known where time was up, no thread was free, the scorer rests, or the tools could not be read."""
        self._note(question, error)
        if question.request is None:
            question.request = unread(question, nothing=self.guards.refuse)
        elif question.request.whole:
            return self._folded(question, failure=error, late=True)
        return Outcome(Fold(reason="tools not readable"), type(error).__name__)

    def _decided(self, question: Question, outcome: Outcome) -> GateDecision:
        """The decision; what it gives a conversation whose history is not shown is remembered."""
        request, terms, (fold, error, explores) = question.request, self._terms(question), outcome
        assert request is not None
        if not fold.first:
            return self._open(request, terms, fold, error)
        self._conversation_terms.keep(request.conversation, terms)
        exploring = terms.judge.exploring if explores else None
        sees_all = explores and exploring is None
        kept = request.offered if sees_all else fold.kept
        if not request.shown:
            kept = self._remembered(request, kept, explores)
        if sees_all:
            return self._answer(request, terms, request.offered, fold._replace(reason="explored"), explored=True)
        pressure = (exploring or terms.judge).payoff.cost_pressure
        return self._answer(request, terms, kept, fold, error, pressure=pressure)

    def _remembered(self, request: Request, kept: Collection[str], explores: bool) -> tuple[str, ...]:
        """All that a conversation has now, of the tools that may be offered."""
        if request.conversation is None:
            return tuple(kept)
        known = {key: identity for identity, key in request.identities.items()}
        now = self.memory.widen(request.conversation, [known[key] for key in kept], explores)
        return tuple(key for each in now if (key := request.identities.get(each)) in request.natives)

    def _explores(self, request: Request) -> bool:
        """Whether the conversation of this name is in the share that explores; without a name, none is."""
        if request.before:
            return request.explored
        name = request.conversation
        return name is not None and dealt(name, self.explore_key, "explore") < self.explore

    def _open(self, request: Request, terms: Terms, fold: Fold, error: str) -> GateDecision:
        """Nothing is decided: what the conversation has, else the tool search, or the whole authorised list without.

        A named fallback goes before both. Nothing is remembered, so that one failure does not open a conversation for
        good.
        """
        stays, fallback = {**request.guarded, **dict.fromkeys(request.called)}, self.guards.fallback
        if request.before:
            kept: Iterable[str] = (*request.before, *stays)
        elif fallback is not None:
            named = {key for key in request.offered if self.guards.called(key, request.tools[key], fallback)}
            kept = [key for key in request.offered if key in stays or key in named]
        else:
            kept = [key for key in request.offered if key in stays] if request.tool_search else request.offered
        return self._answer(request, terms, kept, fold, error, is_open=not request.before)

    def _answer(
        self,
        request: Request,
        terms: Terms,
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
        tools = list_for_the_model(terms.mode, request.natives, stay, cut)
        servers = {key: tool.server for key, tool in request.tools.items() if tool.server}
        return GateDecision(
            tools=tools,
            kept=stay,
            cut=cut,
            refused=refused,
            reason=fold.reason,
            mode=terms.mode,
            explored=explored,
            ranking=fold.ranking,
            vector=fold.vector,
            error=error,
            open=is_open,
            tool_search=request.tool_search,
            servers=servers,
            cost_pressure=pressure,
            policy_digest=terms.judge.digest,
            needs_name=request.conversation is None and (self.explore > 0 or self.rollout is not None),
        )

    def _found(self, question: Question, most: int) -> list[Any]:
        request = question.request
        if request is None or not request.turns:
            return []
        query, tools = request.turns[-1].subject, request.tools
        named = [key for key in request.offered if query in (key, tools[key].name, tools[key].full_name)]
        if named:
            named.sort(key=lambda key: key in request.untrusted)  # trusted ones first
            return [request.natives[key] for key in named][:most]
        judge = self._terms(question).judge
        known = self._turn_scores.scored(request, query, ranked_by=judge)
        ranking = self._turn_scores.ranking(request, query, judge) if known else ()
        if says_nothing([each.score for each in deciding(ranking)]):
            return []
        found = [each for each in ranking if each.score > 0]
        trusted = [each for each in found if each.trusted][:most]
        others = [each for each in found if not each.trusted][: min(self.untrusted_places, most)]
        return [request.natives[each.name] for each in (*trusted, *others)]

    def _reported(self, question: Question, decision: GateDecision) -> GateDecision:
        decision = replace(
            decision,
            id=urandom(16).hex(),
            latency=monotonic() - question.began,
            conversation=readable(question.conversation),
        )
        with self._lock:
            self.counts[decision.reason] += 1
        with suppress(Exception):  # a broken exporter is no reason to fail
            add_to_span(decision)
        if self.sink is not None:
            self.sink.put(decision)
        return decision


def _check_kinds(settings: Mapping[str, Any]) -> None:
    """Refuse what cannot do its part; None stands for nothing at all."""
    given = {name: value for name, value in settings.items() if value is not None}
    scorer, prices, memory = (given.get(name) for name in ("scorer", "prices", "memory"))
    for name, sound, what in (
        ("scorer", callable(scorer) and not isinstance(scorer, type), "be one that can be called, as Start()"),
        (
            "prices",
            isinstance(prices, Mapping) or _has("of", prices) or callable(prices),
            "be Prices, a mapping or a function",
        ),
        ("digests", isinstance(given.get("digests"), Mapping), "map names of tools to digests"),
        ("breaker", isinstance(given.get("breaker"), Breaker), "be a Breaker"),
        ("memory", _has("recall", memory) and _has("add", memory), "have recall and add, as RedisMemory has"),
        ("on_decision", callable(given.get("on_decision")), "be a function"),
    ):
        if name in given and not sound:
            raise UsageError(f"The {name!r} of Gate must {what}. Got {given[name]!r} instead.")
    if not isinstance(settings["tool_search"], bool):
        raise UsageError(f"The 'tool_search' of Gate must be True or False. Got {settings['tool_search']!r} instead.")
    for name in ("tenant", "explore_key"):
        if not isinstance(settings[name], str):
            raise UsageError(f"The {name!r} of Gate must be a string. Got {settings[name]!r} instead.")


def _has(method: str, value: object) -> bool:
    return callable(getattr(value, method, None))


def _check_numbers(settings: Mapping[str, Any]) -> None:
    """Refuse numbers that make no sense."""
    for name, least, most, what in (
        ("explore", 0, 1, "a share between 0 and 1"),
        ("budget", 1e-3, TIMEOUT_MAX, "at least 0.001 seconds, or None for no limit"),
        ("at_least", 0, None, "a whole number, 0 or more"),
        ("at_most", 0, None, "a whole number, 0 or more, or None for no bound"),
        ("untrusted_places", 0, None, "a whole number, 0 or more"),
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


def _target(prices: PriceList | None, mean: float | None, sufficiency: float | None, dollars: float | None) -> Target:
    if dollars is not None and prices is None:
        raise UsageError("A target in 'dollars_per_task' needs what tools cost: prices=camdf.Prices(turns=6).")
    return Target(mean, sufficiency, dollars)


def _start() -> Scorer:
    from camdf.scorers.start import Start

    return Start()


def _nothing(characters: int) -> float:
    """What rewriting a cached prompt costs where prices do not say."""
    return 0.0


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

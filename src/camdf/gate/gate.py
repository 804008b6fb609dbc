"""Decide which tools a conversation gets, inside a harness: never raise, never add one, never narrow what was decided.

The conversation is its own memory: where a harness hands over the messages, the tools are a fold over the user's turns
(`fold`), and no worker needs to know what another one said.

A failure decides nothing, as a turn without signal does: the list stays as it is, or open where nothing was decided,
and neither is remembered. Reading, scoring, pricing and deciding run on threads, within one time limit (`deciding`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from os import PathLike
from typing import Any, Self, get_args

from camdf.core.payoff import Payoff, ValueFunction
from camdf.datasets.examples import past_tasks, read_examples
from camdf.errors import ArtifactError, UsageError
from camdf.gate.append import CHANNELS, Channels
from camdf.gate.catalogue import Catalogue, CatalogueReader, PriceList, cost_of_rewriting
from camdf.gate.deciding import Decider
from camdf.gate.decision import GateDecision, Reason
from camdf.gate.fold import Folding
from camdf.gate.lists import Mode
from camdf.gate.memory import Memory
from camdf.gate.privilege import Privilege, check_binding, check_effects
from camdf.gate.request import Question, RequestReader, Scores
from camdf.gate.scoring import Judge
from camdf.gate.settings import GATE_CHECKS, Guards, Limits, Records, Rollout
from camdf.gate.shared import SharedByTenants, settings_of_tenant
from camdf.gate.start import settings_to_start
from camdf.gate.target import Target, scored_among
from camdf.gate.telemetry import Sink, add_to_span
from camdf.gate.terms import ConversationTerms
from camdf.gate.tool_search import FIND, FOUND, Answer, WrittenCall, listing, query_of
from camdf.gate.turns import Messages
from camdf.policies.base import Policy
from camdf.policies.models.past_tasks import PastTasks
from camdf.runtime.forks import Locked
from camdf.runtime.settings import checked_setting
from camdf.scorers.base import Scorer
from camdf.scorers.named import ScorerMismatch, check_scorer
from camdf.scorers.trust_aware import TrustAware
from camdf.scorers.with_examples import GivenExamples
from camdf.tools import Tool, tools_by_key, viewed_tool


class Gate(Locked):
    """A policy at work: scores and prices the tools of a conversation, decides, and keeps a harness's promises.

    - `decide` never raises. What goes wrong leaves the list as it is, and the reason says so. Where nothing was decided
      before, the list is `Guards.fallback`; without one, what must stay if there is a tool search, else the whole
      authorized list.
    - The answer is a subset of the request's tools and of those authorized (`Guards`). A tool whose name may not be
      what it looks like is refused. A name means one tool: "mail/send" where two servers have it.
    - Pinned tools, tools named in `keep`, tools that the history has called, tools of a shape not known here and the
      provider's own are never cut.
    - Once decided, a conversation only widens, at the end of its list; with a tool search the list does not change at
      all. In mode "append" every turn is decided by itself, and what it brings joins at its end.
    - The same history and tools give the same answer on every worker, and a conversation's name deals it the same side
      of every share (`Rollout`).

    Args:
        policy: What decides, as `camdf.load(path)` and `camdf.cold_start()` give it.
        scorer: What ranks the tools for a turn, as `Start()`; the scorer that the policy was fitted with, where its
            file names one. None where every call of `decide` brings its scores.
        payoff: What a set of tools is worth. None takes the one that the policy was fitted for.
        prices: What each tool costs: `Prices` in dollars, which also price the cached prompt that a later widening
            rewrites, a mapping by name, or a function. None gives each tool the cost 1.
        tool_search: Whether the agent can search for tools that it was not given, unless a call of `decide` says
            otherwise.
        mode: "drop" (cut), "append" (the list never changes, and what a turn needs joins at its end; "drop" where the
            agent has no tool search, or the harness does not send the decision's messages), "defer" (mark what is cut
            for the provider's tool search), "allow" (leave the list, and say in `tool_choice` what may be called) or
            "shadow" (only say what would be cut).
        channels: Which models take tools in the middle of a conversation, for mode "append": by how their names begin
            (`camdf.gate.append.CHANNELS`). All others get a note. Give your own where a proxy has other names.
        scorer_mismatch: "allow" takes another scorer than the policy was fitted with, which "refuse" does not.
        guards: Which tools may be offered, which must stay, and which servers are believed.
        privilege: Which tools may run only where the user's own words brought them. None lets every tool run that may
            be offered.
        limits: How much a decision may take, and how many tools it may keep.
        rollout: For which conversations the gate cuts, which of them explore, and what switches it off.
        records: What is kept of conversations, and who is told of decisions.
    """

    def __init__(
        self,
        policy: Policy,
        scorer: Scorer | None = None,
        payoff: Payoff | None = None,
        *,
        prices: PriceList | None = None,
        tool_search: bool = False,
        mode: Mode = "drop",
        channels: Channels = CHANNELS,
        scorer_mismatch: ScorerMismatch = "refuse",
        guards: Guards = Guards(),
        privilege: Privilege | None = None,
        limits: Limits = Limits(),
        rollout: Rollout = Rollout(),
        records: Records = Records(),
    ) -> None:
        self._settings = {name: value for name, value in locals().items() if name not in ("self", "__class__")}
        for name, check in GATE_CHECKS.items():
            checked_setting("Gate", name, self._settings[name], check)
        if mode == "shadow" and not rollout.everyone:
            raise UsageError(
                "The 'mode' of Gate must be that of the conversations which are cut for, where there is a rollout: "
                f"{', '.join(word for word in get_args(Mode) if word != 'shadow')}. Got {mode!r} instead."
            )
        explores_all = rollout.explore > 0 and rollout.explore_pressure is None
        check_binding(privilege, mode, everyone=rollout.everyone, explores_all=explores_all)
        self.mode = mode
        self.prices = prices
        self.tool_search = tool_search
        self.channels = channels
        self.scorer_mismatch: ScorerMismatch = scorer_mismatch
        self.guards = guards
        self.privilege = privilege
        self.limits = limits
        self.rollout = rollout
        self.records = records
        self.counts: Counter[Reason] = Counter()
        asked = scorer
        if scorer is not None and guards.trusted is not None:
            asked = TrustAware(scorer, guards.trusted)
        judge = Judge.at_work(policy, payoff, rollout.explore_pressure)
        self._check_fit(policy)
        terms = ConversationTerms(judge, records.conversations)
        self._build(SharedByTenants.from_records(asked, records), terms)
        self._follows = False
        super().__init__()

    def _build(self, shared: SharedByTenants, terms: ConversationTerms) -> None:
        """The parts that decide."""
        reader = RequestReader(
            self.mode,
            self.channels,
            self.guards,
            self.privilege,
            self.limits,
            self.rollout,
            terms,
            CatalogueReader(self.guards, self.privilege, self.limits, self.prices, shared.catalogues),
            shared,
            self.records.tenant,
            self.records.id_key,
        )
        of_rewriting = cost_of_rewriting(self.prices, self.mode)
        places = self.guards.untrusted_places
        folding = Folding(shared.turn_scores, self.limits.at_least, self.limits.at_most, of_rewriting, places)
        binds = self.privilege is not None
        self._decider = Decider(reader, self.guards, self.limits, terms, folding, shared, binds)

    @classmethod
    def start(
        cls,
        tools: Sequence[Any] | Mapping[str, Sequence[Any]],
        *,
        mean_tools: int | None = None,
        policy: Policy | None = None,
        scorer: Scorer | None = None,
        examples: GivenExamples | None = None,
        **settings: Any,
    ) -> Self:
        """A gate that needs nothing but the tools: it gives every turn those near its best, and searches for others.

        That is mode "append". Where tools cannot join the messages, a conversation gets the best eight.

        Args:
            tools: All that an agent may have, in a list or by server, as `decide` takes them.
            mean_tools: So many of the best instead. Where it is left out and the list is so short that cutting costs
                more than it saves (`camdf worth` has the rule), all are loaded.
            policy: Decides instead, at the payoff that it was fitted for.
            scorer: Ranks the tools; unless given, the one that the policy was fitted with, or `Start()`.
            examples: What people ask the tools for, a file or a list (`Start(examples=...)`), read here so that the
                first decision is not late. Of a file that `camdf fit --remember` wrote, a policy that was fitted so
                recalls what similar requests needed. Where no tool has a server, "mail/send" in them means `send`.
            settings: Those of `Gate`; the agent has a tool search.

        >>> scorer = lambda task, tools: [1 / (1 + place) for place, _ in enumerate(tools)]
        >>> tools = [Tool(f"tool_{number}", f"Does thing {number}.") for number in range(40)]
        >>> gate = Gate.start(tools, mean_tools=2, scorer=scorer)
        >>> [tool["function"]["name"] for tool in gate.decide("Do a thing for me", tools).openai()]
        ['tool_0', 'tool_1', 'find_tool', 'call_tool']
        """
        return cls(**settings_to_start(tools, mean_tools, policy, scorer, examples, settings))

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

        Name one of the three targets. What is pinned comes on top.

        Args:
            policy: What decides.
            scorer: What ranks the tools.
            requests: A sample without labels (fifty do), on which the cost pressure is found.
            tools: What the requests choose from.
            mean_tools: Tools a request, on average.
            sufficiency: The share of requests for which the policy expects the tools to be enough.
            dollars_per_task: What the tools of a request may cost, in the unit of `prices`, which it needs.
            value: What a set is worth that lacks a tool. Under "partial", sets grow tool by tool; under "exact" a long
                list of much alike scores goes from none to all at a single pressure.
            recourse: The share of a task that a search leaves for each tool that was missed.
            settings: Those of `Gate`.
        """
        if isinstance(requests, str) or not tools:
            raise UsageError("Give 'requests' as a list, and at least one of the 'tools' that they choose from.")
        if dollars_per_task is not None and settings.get("prices") is None:
            raise UsageError("A target in 'dollars_per_task' needs what tools cost: prices=camdf.Prices(turns=6).")
        target = Target(mean_tools, sufficiency, dollars_per_task)
        unit = Payoff(1.0, value, recourse)
        gate = cls(policy, scorer, unit, **settings)
        unlimited = replace(gate.limits, seconds=None, breaker=None)
        probe = gate._with_settings(limits=unlimited, rollout=Rollout(), records=Records())
        decisions = [probe.decide(request, tools) for request in requests]
        return gate._with_settings(payoff=target.payoff(policy, scored_among(decisions), unit))

    def _with_settings(self, **settings: Any) -> Self:
        """A gate like this one, with other settings."""
        return type(self)(**{**self._settings, "policy": self.policy, **settings})

    def reload(self, path: str | PathLike[str], examples: str | PathLike[str] | None = None) -> str:
        """Take the policy of `path`, which `camdf.save` wrote, for conversations that begin; returns its SHA-256.

        It recalls the past requests of a file of `examples`, or those that the policy before it recalled.
        Conversations in which something was decided go on under the policy that decided it. A file that is not a policy
        which can decide under this gate's settings, or that was fitted with another scorer, raises an ArtifactError,
        and the gate goes on with the one it has.
        """
        if self._follows:
            raise UsageError(
                "This tenant has the policy of the gate that it was made from. Reload that one, or give the tenant its "
                "own: for_tenant(name, policy=...)."
            )
        try:
            past = getattr(self.policy, "past_", None)
            if examples is not None:
                past = past_tasks(read_examples(examples))
            lower = self.rollout.explore_pressure
            judge = Judge.from_file(path, self._settings["payoff"], lower, past, self._check_fit)
        except ArtifactError as error:
            raise ArtifactError(f"{error} The gate goes on with the policy that it has.") from error
        self._decider.terms.replace(judge)
        return judge.digest

    def _check_fit(self, policy: Policy) -> None:
        """A UsageError where a policy was not fitted with what this gate ranks and prices by."""
        check_scorer(policy, self._settings["scorer"], self.scorer_mismatch)
        check_effects(policy, self.prices, self.privilege)

    def for_tenant(self, tenant: str, **settings: Any) -> Self:
        """A gate like this one for the conversations of one `tenant`, with `settings` of its own.

        It shares threads, scorer and scores, trusted servers, breaker and records with this gate and its other tenants,
        so that a thousand of them cost little more than one. Conversations of one name are different ones for each.
        Without a policy, payoff or `Rollout.explore_pressure` of its own it has this gate's policy, also when that is
        reloaded.
        """
        if not isinstance(tenant, str) or not tenant:
            raise UsageError(f"The 'tenant' of Gate must be a name. Got {tenant!r} instead.")
        past: PastTasks | None = getattr(self.policy, "past_", None)
        if "policy" not in settings and past is not None and (past.texts or any(map(self.policy.knows, past.users))):
            raise UsageError(
                "The past requests that this gate explains decisions by are one tenant's own. Give the tenant its own: "
                "for_tenant(name, policy=...)."
            )
        settings = settings_of_tenant(settings, self.guards, self.limits)
        gate = self._with_settings(**settings, records=replace(self.records, tenant=tenant))
        own = settings.keys() & {"policy", "payoff"} or gate.rollout.explore_pressure != self.rollout.explore_pressure
        gate._build(self._decider.shared, gate._decider.terms if own else self._decider.terms)
        gate._follows = not own
        return gate

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy in another process, or a deep copy, has the same settings; conversations and threads stay behind."""
        return partial(type(self), **{**self._settings, "policy": self.policy}), ()

    @property
    def policy(self) -> Policy:
        """What decides on conversations that begin."""
        return self._decider.terms.judge.policy

    @property
    def memory(self) -> Memory:
        """The tools of conversations whose history is not shown."""
        return self._decider.shared.memory

    @property
    def sink(self) -> Sink | None:
        """Who is told of decisions."""
        return self._decider.shared.sink

    @property
    def scorer(self) -> Scorer | None:
        """What ranks; None where every task brings its own scores."""
        return self._decider.shared.turn_scores.scorer

    @property
    def payoff(self) -> Payoff:
        """What a set of tools is worth."""
        return self._decider.terms.judge.payoff

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
        model: str = "",
        takes_messages: bool = True,
        permitted: Collection[str] | None = None,
        user: str = "",
    ) -> GateDecision:
        """The tools that a conversation gets.

        Args:
            task: The history of the conversation as messages (OpenAI chat, OpenAI Responses, Anthropic or Vercel AI
                SDK), or the text of one task.
            tools: All that there are, in a list, or by server as `{"mail": [...]}`.
            conversation: The name of a thread or a session: chance is dealt by it and, where only texts are shown, the
                gate remembers what it has. An empty name asks for one: hand back `decision.conversation` from then on.
            keep: Names of tools that stay in every request, such as handoffs.
            forced: Names of tools that this request's `tool_choice` names.
            scores: By name or in the order of the tools; they stand in for the scorer's on the last turn.
            tool_search: Whether the agent can search for tools that it was not given; left out, the gate's own setting
                does.
            model: The model that gets the tools, for mode "append".
            takes_messages: Whether the harness sends the decision's messages, for mode "append": where it takes tools
                alone, give False, and the first decision stands.
            permitted: Where the task is another agent's words and not the user's: what may run beside what is free,
                as `may_run` of that agent's decision. For a gate with a privilege. An adapter hands it on where a
                tool starts an agent.
            user: The id of whoever asks: a policy that was fitted so knows what this user has needed before.
        """
        searches = self.tool_search if tool_search is None else tool_search
        asked = (task, tools, self.limits.seconds, conversation, keep, forced, scores, searches, model, takes_messages)
        return self._counted_and_reported(self._decider.decide(Question(*asked, permitted, user)))

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
        model: str = "",
        takes_messages: bool = True,
        permitted: Collection[str] | None = None,
        user: str = "",
    ) -> GateDecision:
        """`decide`, for an event loop, which goes on in the meantime."""
        searches = self.tool_search if tool_search is None else tool_search
        asked = (task, tools, self.limits.seconds, conversation, keep, forced, scores, searches, model, takes_messages)
        return self._counted_and_reported(await self._decider.decide_async(Question(*asked, permitted, user)))

    def decide_scored(
        self, task: str, tools: Iterable[Any], scores: Scores, *, keep: Iterable[str] = (), forced: Iterable[str] = ()
    ) -> GateDecision:
        """`decide` on the calling thread, for `scores` that are at hand: nothing is asked or waited for."""
        (decision,) = self.decide_together([Question(task, tools, 0.0, None, keep, forced, scores)])
        return decision

    def decide_together(self, questions: Sequence[Question]) -> list[GateDecision]:
        """`decide_scored` for several `questions`: each gets the decision that it would get alone, for less work."""
        return [self._counted_and_reported(decision) for decision in self._decider.decide_together(questions)]

    def find(self, query: str, tools: Iterable[Any], most: int = FOUND) -> list[Any]:
        """The tools that a query finds, the best first, of those that may be offered; none where it prefers none.

        For a search that an agent runs to reach tools which it was not given (`camdf.gate.tool_search`). Never raises;
        where query and tools are swapped, it finds nothing and warns.

        Args:
            query: What is wanted, in words. One that is a tool's name finds that tool alone.
            tools: All that there are.
            most: How many it finds at most.
        """
        return self._decider.find(Question(query, tools, self.limits.seconds), most)

    def answer(self, call: Any, tools: Iterable[Any], may_run: Collection[str] | None = None) -> Answer:
        """What to do with a call that the model wrote: run which tool with which arguments, or answer with words.

        It answers `find_tool`, and reads what `call_tool` means. Nothing is run here. Never raises.

        Args:
            call: One of OpenAI chat or Responses, Anthropic or MCP, as the client has it.
            tools: All that there are.
            may_run: That of the decision, where the gate has a privilege; without it, what is free may run.
        """
        written = WrittenCall.from_client(call)
        try:
            catalogue, natives = self._offered_tools(tools)
            offered = {catalogue.tools[key].name: natives[key] for key in reversed(natives)}
        except Exception:
            catalogue = Catalogue({})
            offered = {}
        if written.name == FIND.name and FIND.name not in offered:
            matches = self.find(query_of(written.arguments), tools)
            return Answer(written.id, None, listing(matches, offered.values()))
        answer = written.answer(offered)
        if answer.run is None:
            return answer
        if may_run is None:
            may_run = catalogue.full_names({*catalogue.offered} - catalogue.bound)
        key = next(key for key in catalogue.offered if catalogue.tools[key].name == answer.run.name)
        words = self.refusal(catalogue.tools[key], may_run, answer.run.arguments)
        return Answer(written.id, None, words) if words else answer

    def refusal(self, native: Any, may_run: Collection[str] | None, arguments: Mapping[str, Any] | None = None) -> str:
        """What a model is told of a call that may not run; "" where it may. For a harness that is about to run it.

        Args:
            native: The tool, as its framework has it.
            may_run: That of the latest decision of the conversation. Only where the gate has a privilege, it counts,
                and None lets nothing run.
            arguments: Those of the call, for `Privilege.ask`.
        """
        tool = viewed_tool(native)
        if not self.guards.authorized(tool):
            return f"{tool.name[:200]} may not be used."
        if self.privilege is None:
            return ""
        return self.privilege.refusal(tool, may_run or (), arguments or {})

    async def afind(self, query: str, tools: Iterable[Any], most: int = FOUND) -> list[Any]:
        """`find`, for an event loop, which goes on in the meantime."""
        return await self._decider.find_async(Question(query, tools, self.limits.seconds), most)

    def may_be_offered(self, tools: Iterable[Any]) -> list[Any]:
        """Those of the `tools` that are authorized, where a name that two servers share authorizes neither."""
        _, natives = self._offered_tools(tools)
        return list(natives.values())

    def names(self, tools: Iterable[Any], loaded: Collection[str] = ()) -> str:
        """The names of those `tools` that may be offered and are not `loaded`, as `GateDecision.hidden` has them.

        For a harness that lists a search without a conversation, as an MCP gateway does.
        """
        catalogue, _ = self._offered_tools(tools)
        hidden = [key for key in catalogue.offered if catalogue.tools[key].name not in loaded]
        return catalogue.names(hidden, self.limits.search_names)

    def by_key(self, tools: Iterable[Any]) -> tuple[dict[str, Tool], dict[str, Any]]:
        """The `tools` by the names that a decision gives them: as the gate views them, and as the harness has them."""
        return tools_by_key(tools, self.guards.trusted)

    def _offered_tools(self, tools: Iterable[Any]) -> tuple[Catalogue, dict[str, Any]]:
        """The tools that a decision would not refuse: as the gate reads them, and as the harness has them."""
        return self._decider.reader.catalogues.read(tools)

    def _counted_and_reported(self, decision: GateDecision) -> GateDecision:
        with self._lock:
            self.counts[decision.reason] += 1
        with suppress(Exception):  # a broken exporter is no reason to fail
            add_to_span(decision)
        if self.privilege is not None:
            with suppress(Exception):  # a call that has effects is refused where nothing can be written
                self.privilege.note(decision.journal_entry())
        if (sink := self._decider.shared.sink) is not None:
            sink.put(decision)
        return decision

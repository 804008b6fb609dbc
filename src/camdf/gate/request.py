"""One call of the gate, as it came (`Question`) and as it is read (`Request`): its tools, its history, who decides."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from time import monotonic
from typing import Any, TypeAlias

from camdf.gate.append import AuthorizedTools, Channel, Channels, channel_of
from camdf.gate.catalogue import Catalogue, CatalogueReader, unread_catalogue
from camdf.gate.decision import Reason
from camdf.gate.head import core, often_needed
from camdf.gate.lists import Mode, has_search
from camdf.gate.privilege import CALLERS, Privilege
from camdf.gate.scoring import Judge, ScoredTurn, failure_type
from camdf.gate.settings import Dealt, Guards, Limits, Rollout
from camdf.gate.shared import SharedByTenants
from camdf.gate.terms import ConversationTerms, Terms, conversation_named, names_in, readable, remembered_by
from camdf.gate.turns import (
    READ,
    Call,
    Event,
    Messages,
    OwnWords,
    Turn,
    are_messages,
    events,
    only_agrees,
    standing_turns,
)
from camdf.scorers.base import ends
from camdf.tools import tools_by_key

Scores: TypeAlias = Mapping[str, float] | Sequence[float]

SWAPPED = "The task and the tools are swapped. Call decide(task, tools) and find(query, tools)."
TAKEN = "The tool search has the name of a tool of yours: {}. Rename yours, or give tool_search=False."
"""What is said of calls on which nothing is decided, so that nothing is cut."""


@dataclass(frozen=True)
class Question:
    """One call of the gate, as it came, and the seconds that its answer may take."""

    task: str | Messages
    tools: Iterable[Any]
    seconds: float | None
    conversation: str | None = None
    keep: Iterable[str] = ()
    forced: Iterable[str] = ()
    scores: Scores | None = None
    tool_search: bool = False
    model: str = ""
    """The model that gets the tools, where the harness says."""

    takes_messages: bool = True
    """Whether the harness sends the messages of the decision, in which tools join."""

    permitted: Collection[str] | None = None
    """Where the task is another agent's words: the tools that may run beside those that are free."""

    user: str = ""
    """The id of whoever asks, as it is or hashed; "" where nobody says."""

    callers: Collection[str] | None = field(default_factory=CALLERS.get)
    """`permitted`, as the adapter knows it that runs a tool, within which this is asked."""

    began: float = field(default_factory=monotonic)

    def left(self) -> float | None:
        """How many of the seconds are left."""
        if self.seconds is None:
            return None
        return max(self.began + self.seconds - monotonic(), 0.0)


@dataclass(frozen=True, eq=False)
class Request:
    """What there is to decide on."""

    catalogue: Catalogue
    natives: dict[str, Any]
    """The tools that may be offered, as the harness has them."""

    guarded: dict[str, str]
    """Key and why it must stay, in every request of the conversation."""

    terms: Terms
    """Of its conversation."""

    judges: tuple[Judge, ...]
    """Who decides on its turns: the last one; those before it may have decided on earlier ones."""

    dealt: Dealt
    """What chance and switches say of the conversation."""

    began: float
    """When the question came, by the clock of `monotonic`."""

    forced: tuple[str, ...] = ()
    """Keys that this request alone insists on."""

    bound: frozenset[str] = frozenset()
    """Keys of the tools that run only where the user's own words bring them (`camdf.gate.privilege`)."""

    asking: bool = False
    """Whether the user's own words can bring any of these."""

    tool_search: bool = False
    """Whether the agent can reach a tool that is not on its list."""

    found_by_name: bool = False
    """Whether it then calls that tool by its own name, as after a provider's search."""

    authorized: AuthorizedTools = field(default_factory=AuthorizedTools)
    """What says which tools a history may bring to the model: none where the request's own could not be read."""

    withheld: tuple[str, ...] = ()
    """Tools that the history would bring to the model and that may not be offered, by names beside the keys."""

    channel: Channel | None = None
    """Where tools join the conversation; None where they do not, and all that is kept is on the list."""

    core: tuple[str, ...] = ()
    """Keys of the tools in the head of every request where tools join (`camdf.gate.head`)."""

    name: str | None = None
    """The conversation's, as it was given or made up; None where it has none."""

    conversation: str | None = None
    """What the conversation is remembered by."""

    tenant: str = ""
    shown: bool = True
    """Whether the events are the conversation's whole history; if not, a memory has to know what came before."""

    before: tuple[str, ...] = ()
    """What a memory knows the conversation to have."""

    explores: bool = False
    """Whether the conversation explores once something is decided: by chance, or as a memory knows."""

    events: tuple[Event, ...] = ()
    turns: tuple[Turn, ...] = ()
    """Those of the events."""

    standing: tuple[Turn, ...] = ()
    """Those of which the history keeps what they brought: they are not decided on again."""

    given: ScoredTurn | None = None
    """Scores of the last turn that the harness has already."""

    stopped: Reason | None = None
    """Why there is nothing to score, where there is not."""

    error: str = ""
    """The type of what was raised then."""

    @cached_property
    def own(self) -> int | None:
        """What scores of this conversation are known by, or of a tenant's without a name; None for one text alone."""
        if not self.shown and self.conversation is None:
            return None
        return hash((self.tenant, self.conversation, self.catalogue.content))

    @property
    def settled(self) -> bool:
        """Whether the first decision stands: a tool that it missed is a search away, and adding one is not free."""
        return self.tool_search and self.channel is None

    @cached_property
    def always_listed(self) -> frozenset[str]:
        """Keys of the tools that every request declares where others join."""
        return frozenset((*self.guarded, *self.core, *self.forced))

    @cached_property
    def joined_before(self) -> frozenset[str]:
        """Keys of the tools that the history has among its messages."""
        return frozenset(key for event in self.events if isinstance(event, Call) and event.joins for key in event.keys)

    @cached_property
    def called(self) -> frozenset[str]:
        """Keys of the tools that the history has called."""
        return frozenset(key for event in self.events if isinstance(event, Call) for key in event.keys)

    @property
    def subjects(self) -> list[str]:
        """What the turns that are decided on are about, each once, the oldest first, without those that say nothing."""
        said = [turn.subject for turn in self.turns if not turn.greets and turn not in self.standing]
        if self.asking:
            said = [*[turn.asks for turn in self.asked if turn.asks not in said], *said]
        return list(dict.fromkeys(filter(None, said)))

    @cached_property
    def asked(self) -> tuple[Turn, ...]:
        """The turns in which the user's own words ask for something."""
        return tuple([turn for turn in self.turns if turn.asks and not only_agrees(turn.asks)])


def read_task(task: str | Messages, most: int | None = None, are_own: OwnWords | None = None) -> tuple[Event, ...]:
    """The turns and calls of a history; of a text, one turn. What cannot be read says nothing.

    An OverflowError where it has more than `most` characters.
    """
    try:
        if isinstance(task, (list, tuple)):
            return events(task, most, are_own)
        text = readable(task)
    except OverflowError:
        raise
    except Exception:
        return ()
    if most is not None and len(text) > most:
        raise OverflowError
    said = ends(text, READ)
    return (Turn(said, asks=said),)


def meant_by(events: Iterable[Event], catalogue: Catalogue, natives: Mapping[str, Any]) -> tuple[Event, ...]:
    """Turns and calls with the tools that they name.

    One name may stand on two servers, and a call may say on which. A greeting that is the name of a tool is none.
    """
    meant: list[Event] = []
    for event in events:
        if isinstance(event, Turn):
            meant.append(_meant_turn(event, catalogue))
        else:
            meant.append(_meant_call(event, catalogue, natives))
    return tuple(meant)


def _meant_turn(turn: Turn, catalogue: Catalogue) -> Turn:
    keys = catalogue.keys_by_name.get(turn.subject, [])
    if not keys:
        return turn
    return turn._replace(keys=tuple(keys), greets=False)


def _meant_call(call: Call, catalogue: Catalogue, natives: Mapping[str, Any]) -> Call:
    keys = catalogue.keys_by_name.get(call.tool, [])
    if not keys and call.tool in natives:
        keys = [call.tool]
    there = [key for key in keys if call.server and catalogue.tools[key].server == call.server]
    trusted = [key for key in keys if key not in catalogue.untrusted]
    return call._replace(keys=tuple(there or trusted or keys))


def turned_round(question: Question) -> Question | None:
    """The same call the right way round, where it has tools for a task and a task for tools; None where it has not."""
    task: Any = question.task
    if isinstance(task, str) or not isinstance(task, Collection):
        return None
    given = question.tools
    if not isinstance(given, str) and not are_messages(given):
        return None
    try:
        viewed, _ = tools_by_key(task)
    except Exception:
        return None
    if all(tool.foreign for tool in viewed.values()):
        return None
    asked: Any = given
    return replace(question, task=asked, tools=task)


@dataclass(frozen=True)
class RequestReader:
    """Reads questions, and never raises, whatever a harness hands over."""

    mode: Mode
    channels: Channels
    guards: Guards
    privilege: Privilege | None
    limits: Limits
    rollout: Rollout
    terms: ConversationTerms
    catalogues: CatalogueReader
    shared: SharedByTenants
    tenant: str
    id_key: bytes | None

    def read(self, question: Question) -> Request:
        """A question with its tools, its history and who decides; where it cannot be read, the request says so."""
        try:
            self.rollout.look(question.left())
            request = self._request(question)
            _ = request.terms.judges[-1].digest  # here, since an event loop should not wait for it
            return request
        except Exception as error:
            return self.unread(question, error)

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
        name: str | None = None
        conversation: str | None = None
        if question.conversation is not None:
            name = conversation_named(question.conversation)
            conversation = remembered_by(name, self.tenant)
        shown = isinstance(question.task, (list, tuple))
        undescribed = catalogue.untrusted if self.guards.digests is None else frozenset[str]()
        authorized = AuthorizedTools(natives, catalogue.tools, undescribed)
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
        insisted = names_in(question.forced)
        forced: tuple[str, ...] = ()
        if insisted:
            tools = catalogue.tools
            forced = tuple([key for key in catalogue.offered if self.guards.called(key, tools[key], insisted)])
        guarded = dict.fromkeys(catalogue.unpriced, "its cost is not known")
        keep = names_in(question.keep)
        guarded |= self.guards.guarded(catalogue.tools, catalogue.offered, keep)
        bound = frozenset[str]()
        passed_on = question.callers if question.permitted is None else question.permitted
        if catalogue.bound:
            permitted = {key for key, tool in catalogue.tools.items() if tool.full_name in (passed_on or ())}
            named = self.guards.named(catalogue.tools, catalogue.offered, keep)
            bound = catalogue.bound.difference(named, forced, permitted)
            guarded = {key: why for key, why in guarded.items() if key not in bound}
        terms = self.terms.terms_for(conversation, dealt, self.mode, is_under_way=shown and len(events) > 1)
        channel: Channel | None = None
        filling: tuple[str, ...] = ()
        standing: tuple[Turn, ...] = ()
        judges = terms.judges
        if terms.mode == "append" and searches and shown and question.takes_messages and not terms.load_all:
            channel = channel_of(readable(question.model), self.channels)
            needed = [judge.needed(catalogue) for judge in terms.judges]
            often = often_needed(catalogue, needed, self.catalogues.prices, self.limits)
            filling = (*often, *core(catalogue, {*guarded, *forced, *often}, self.limits, task))
            judges = tuple([judge.by_turn for judge in terms.judges])
            standing = () if withheld else standing_turns(events)
        if question.user:
            user = readable(question.user)
            judges = tuple([judge.for_user(user, self.id_key) for judge in judges])
        request = Request(
            catalogue=catalogue,
            natives=natives,
            guarded=guarded,
            terms=terms,
            judges=judges,
            dealt=dealt,
            began=question.began,
            authorized=authorized,
            withheld=withheld,
            forced=forced,
            bound=bound,
            asking=bool(bound) and passed_on is None,
            tool_search=searches or (self.mode == "defer" and has_search(natives.values())),
            found_by_name=self.mode == "defer",
            channel=channel,
            core=filling,
            name=name,
            conversation=conversation,
            tenant=self.tenant,
            shown=shown,
            explores=dealt.explores,
            events=events,
            turns=tuple([event for event in events if isinstance(event, Turn)]),
            standing=standing,
            stopped=stopped,
            error=error,
        )
        if conversation is not None and not shown and not is_misunderstood:
            request = self._recalled(request, conversation, question.left())
        if question.scores is not None:
            request = self._with_scores(request, question.scores)
        return request

    def _history(
        self, task: str | Messages, catalogue: Catalogue, natives: Mapping[str, Any]
    ) -> tuple[Reason | None, str, tuple[Event, ...]]:
        """Why there is nothing to score, the type of what was raised, and the turns and calls of a history."""
        limits = self.limits
        left = limits.characters - catalogue.characters
        if len(catalogue.offered) > limits.tools or left < 0:
            return "request too large", "", ()
        try:
            own_words = None if self.privilege is None else self.privilege.own_words
            events = meant_by(read_task(task, left, own_words), catalogue, natives)
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
        if not before:
            return request
        return replace(request, before=before, explores=remembered.explored)

    def _with_scores(self, request: Request, scores: Any) -> Request:
        """A request with scores that the harness has already: they stand in for the scorer's on the last turn."""
        if request.stopped or not request.turns or not request.turns[-1].subject:
            return request
        subject = request.turns[-1].subject
        try:
            named = request.conversation is not None
            given = request.catalogue.aligned(scores)
            turn = self.shared.turn_scores.given(subject, request.catalogue, given, request.own, is_named=named)
        except Exception as error:
            return replace(request, stopped="scores refused", error=failure_type(error))
        return replace(request, given=turn)

    def unread(self, question: Question, error: Exception) -> Request:
        """A request whose tools could not be read, or not in time: all of them as they came, or none to be safe."""
        binds = self.privilege is not None
        catalogue, natives = unread_catalogue(question.tools, refuse=self.guards.refuse, binds=binds)
        dealt = self.rollout.dealt(None, is_history=True)
        terms = self.terms.terms_for(None, dealt, self.mode, is_under_way=False)
        return Request(
            catalogue=catalogue,
            natives=natives,
            guarded={} if binds else dict.fromkeys(natives, "not read"),
            bound=catalogue.bound,
            terms=terms,
            judges=terms.judges,
            dealt=dealt,
            began=question.began,
            tool_search=question.tool_search,
            name=None if question.conversation is None else conversation_named(question.conversation),
            explores=dealt.explores,
            stopped="tools not readable",
            error=type(error).__name__,
        )

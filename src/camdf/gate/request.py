"""One call of the gate, as it came (`Question`) and as it is read (`Request`): its tools, its history, who decides."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import sha256
from os import urandom
from time import monotonic
from typing import Any, TypeAlias

from camdf.gate.append import Addition, AuthorizedTools, Channel
from camdf.gate.catalogue import Catalogue
from camdf.gate.decision import Reason
from camdf.gate.scoring import ScoredTurn
from camdf.gate.settings import Dealt
from camdf.gate.terms import Terms
from camdf.gate.turns import READ, Call, Event, Messages, Turn, events
from camdf.scorers.base import ends
from camdf.tools import tools_by_key, viewed_tool

Scores: TypeAlias = Mapping[str, float] | Sequence[float]

SWAPPED = "The task and the tools are swapped. Call decide(task, tools) and find(query, tools)."
TAKEN = "The tool search has the name of a tool of yours: {}. Rename yours, or give tool_search=False."
"""What is said of calls on which nothing is decided, so that nothing is cut."""

LONGEST_NAME = 200
"""Longer names of conversations are remembered by their digest."""


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

    began: float = field(default_factory=monotonic)

    def left(self) -> float | None:
        """How many of the seconds are left."""
        return None if self.seconds is None else max(self.began + self.seconds - monotonic(), 0.0)


@dataclass(frozen=True, eq=False)
class Request:
    """What there is to decide on."""

    catalogue: Catalogue
    natives: dict[str, Any]
    """The tools that may be offered, as the harness has them."""

    guarded: dict[str, str]
    """Key and why it must stay, in every request of the conversation."""

    terms: Terms
    """Who decides."""

    dealt: Dealt
    """What chance and switches say of the conversation."""

    began: float
    """When the question came, by the clock of `monotonic`."""

    forced: tuple[str, ...] = ()
    """Keys that this request alone insists on."""

    tool_search: bool = False
    """Whether the agent can reach a tool that is not on its list."""

    found_by_name: bool = False
    """Whether it then calls that tool by its own name, as after a provider's search."""

    authorized: AuthorizedTools = field(default_factory=AuthorizedTools)
    """What says which tools a history may bring to the model: none where the request's own could not be read."""

    withheld: tuple[str, ...] = ()
    """Tools that the history would bring to the model and that may not be offered, by names beside the keys."""

    channel: Channel | None = None
    """Where the model takes tools that join later: None where it does not, or the gate's mode is another."""

    name: str | None = None
    """The conversation's, as it was given or made up; None where it has none."""

    conversation: str | None = None
    """What the conversation is remembered by."""

    tenant: str = ""
    shown: bool = True
    """Whether the events are the conversation's whole history; if not, a memory has to know what came before."""

    before: tuple[str, ...] = ()
    """What a memory knows the conversation to have."""

    explored: bool = False
    """Whether it then explores."""

    events: tuple[Event, ...] = ()
    turns: tuple[Turn, ...] = ()
    """Those of the events."""

    given: ScoredTurn | None = None
    """Scores of the last turn that the harness has already."""

    stopped: Reason | None = None
    """Why there is nothing to score, where there is not."""

    error: str = ""
    """The type of what was raised then."""

    @cached_property
    def own(self) -> int | None:
        """What scores of this conversation are known by, or of a tenant's without a name; None for one text alone."""
        goes_on = self.shown or self.conversation is not None
        return hash((self.tenant, self.conversation, self.catalogue.content)) if goes_on else None

    @property
    def settled(self) -> bool:
        """Whether the first decision stands: a tool that it missed is a search away, and adding one is not free."""
        return self.tool_search and self.channel is None

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
        """What its turns are about, each once, the oldest first; those that say nothing left out."""
        return list(dict.fromkeys([turn.subject for turn in self.turns if turn.subject and not turn.greets]))

    def additions(self, joined: Iterable[tuple[int, Sequence[str]]], listed: Iterable[str]) -> tuple[Addition, ...]:
        """What joins the messages: all that joined, less what the history has already and what is on the list."""
        known = {*listed, *self.joined_before}
        additions: list[Addition] = []
        for place, keys in joined:
            tools = tuple([self.natives[key] for key in keys if key not in known and key in self.natives])
            if tools:
                additions.append(Addition(place, tools))
        return tuple(additions)


def aligned(scores: Scores, catalogue: Catalogue) -> list[float]:
    """The harness's own scores, one for every candidate."""
    tools = catalogue.tools
    if isinstance(scores, Mapping):
        return [scores[key] if key in scores else scores[tools[key].name] for key in catalogue.costs]
    by_key = dict(zip(tools, scores, strict=True)) if catalogue.costs else {}
    return [by_key[key] for key in catalogue.costs]


def conversation_named(given: object) -> str | None:
    """The name of a conversation: as it was given, or made up where it is empty, which asks for one."""
    return None if given is None else readable(given) or urandom(16).hex()


def remembered_by(name: str, tenant: str) -> str:
    """What a conversation is remembered by: no tenant's is another's, whatever they are called."""
    if not tenant and len(name) <= LONGEST_NAME:
        return name
    whole = f"{len(tenant)} {tenant}{name}" if tenant else name
    return sha256(whole.encode(errors="surrogatepass")).hexdigest()


def meant_by(events: Iterable[Event], catalogue: Catalogue, natives: Mapping[str, Any]) -> tuple[Event, ...]:
    """Turns and calls with the tools that they name.

    One name may stand on two servers, and a call may say on which. A greeting that is the name of a tool is none.
    """
    meant: list[Event] = []
    for event in events:
        if isinstance(event, Turn):
            meant.append(_meant_turn(event, catalogue, natives))
        else:
            meant.append(_meant_call(event, catalogue, natives))
    return tuple(meant)


def _keys_of_name(name: str, catalogue: Catalogue, natives: Mapping[str, Any]) -> list[str]:
    own = [name] if name in natives and catalogue.tools[name].name == name else []
    return own + catalogue.keys_by_name.get(name, [])


def _meant_turn(turn: Turn, catalogue: Catalogue, natives: Mapping[str, Any]) -> Turn:
    keys = _keys_of_name(turn.subject, catalogue, natives)
    return turn._replace(keys=tuple(keys), greets=False) if keys else turn


def _meant_call(call: Call, catalogue: Catalogue, natives: Mapping[str, Any]) -> Call:
    keys = _keys_of_name(call.tool, catalogue, natives)
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
    if not isinstance(given, str) and not _are_messages(given):
        return None
    try:
        viewed, _ = tools_by_key(task)
    except Exception:
        return None
    if all(tool.foreign for tool in viewed.values()):
        return None
    asked: Any = given
    return replace(question, task=asked, tools=task)


def _are_messages(given: Any) -> bool:
    """Whether what was given as tools are messages of a conversation."""
    try:
        if not isinstance(given, (list, tuple)) or not any(map(_has_role, given)):
            return False
        return all(isinstance(message, Mapping) and viewed_tool(message).foreign for message in given)
    except Exception:
        return False


def _has_role(part: Any) -> bool:
    return isinstance(part, (dict, Mapping)) and "role" in part


def read_task(task: str | Messages, most: int | None = None) -> tuple[Event, ...]:
    """The turns and calls of a history; of a text, one turn. What cannot be read says nothing.

    An OverflowError where it has more than `most` characters.
    """
    try:
        if isinstance(task, (list, tuple)):
            return events(task, most)
        text = readable(task)
    except OverflowError:
        raise
    except Exception:
        return ()
    if most is not None and len(text) > most:
        raise OverflowError
    return (Turn(ends(text, READ)),)


def readable(text: object) -> str:
    """Any object as text, "" where it has none."""
    try:
        return str(text).strip() if text is not None else ""
    except Exception:
        return ""


def names_in(given: Iterable[str]) -> frozenset[str]:
    """The names in what a harness hands over, which may be one of them, or anything."""
    try:
        names = (given,) if isinstance(given, str) else given
        return frozenset(str.__str__(name) for name in names if isinstance(name, str))
    except Exception:
        return frozenset()

"""What may be set of a gate, in groups: what may be offered, how much it may take, for whom it cuts, what is kept.

A tool is named by its name, or by server and name as "mail/send". Where tools of two servers share a name, the name
alone means neither of them to `allow` and `digests`, which fail closed, and both to `pinned`, `keep` and `fallback`. To
these three the name alone never means a tool of an untrusted server.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from hashlib import blake2b
from threading import TIMEOUT_MAX
from typing import Annotated, Any, NamedTuple, TypeAlias, get_args

from camdf.errors import UsageError
from camdf.gate.append import NativeChannel
from camdf.gate.decision import GateDecision
from camdf.gate.lists import Mode
from camdf.gate.memory import ConversationStore
from camdf.gate.privilege import Privilege
from camdf.gate.tool_search import NAME_TOKENS
from camdf.runtime import settings as checks
from camdf.runtime.breaker import Breaker
from camdf.runtime.settings import Settings
from camdf.runtime.switch import Source, Switch, source_of
from camdf.scorers.named import ScorerMismatch
from camdf.tools import Tool

Allow: TypeAlias = Collection[str] | Callable[[Tool], bool]

LOOK_ALIKE = frozenset({"ARMENIAN", "CHEROKEE", "CYRILLIC", "GREEK", "LATIN"})
"""Scripts whose letters are taken for one another: no honest name has letters of two."""

TOOL_CHARACTERS = 200_000
"""A tool whose name, description or schema is longer is refused: no model is sent so much for one tool."""

SERVER_TOOLS = 2_000
"""So many tools of one server may be offered: more are refused."""

SERVER_CHARACTERS = 400_000
"""How many characters scorers read of one server's tools. Tools beyond that are not ranked: they are cut, and found by
their names."""

UNTRUSTED_CHARACTERS = 100_000
"""The same of all untrusted servers' tools together."""


def _names_or_function(value: Any) -> Any:
    if callable(value):
        return value
    return checks.names(value)


@dataclass(frozen=True)
class Guards(Settings):
    """Which tools may be offered at all, which of those must stay, and which servers are believed."""

    allow: Annotated[Allow | None, checks.or_none(_names_or_function, "all")] = None
    """The tools that may be offered, by name, or a function that says of each `Tool` whether it may. One that raises
    refuses. None allows all. Set it where a tenant or a user may have some tools only."""

    digests: Annotated[Mapping[str, str] | None, checks.or_none(checks.by_name(checks.string, "digests"))] = None
    """The definitions that were reviewed, as `Tool.digest` names them: a tool of another digest, or of none here, is
    refused. Set it where a server could change a tool behind your back."""

    pinned: Annotated[Collection[str], checks.names] = ()
    """Tools that are in every list. Name those that an agent needs in every task."""

    fallback: Annotated[Collection[str] | None, checks.or_none(checks.names)] = None
    """The tools that a conversation gets where nothing could be decided. None gives what must stay if there is a tool
    search, else the whole authorized list."""

    trusted: Annotated[Collection[str] | None, checks.or_none(checks.names, "all")] = None
    """The servers whose descriptions are believed. Their tools are scored and decided on as if no others were there.
    None trusts all. Set it as soon as one server is not yours (docs/poison.md)."""

    untrusted_places: Annotated[int, checks.whole_number(0)] = 2
    """How many tools of untrusted servers a conversation gets at most, by scores of their own."""

    def unvouched(self, tools: Iterable[Tool]) -> list[str]:
        """The servers whose word is believed only since nobody said which are trusted, and which tools are reviewed."""
        if self.trusted is not None or self.digests is not None:
            return []
        return sorted({tool.server for tool in tools if tool.server})

    @property
    def refuse(self) -> bool:
        """Whether a tool has to be read before it may be offered."""
        return self.allow is not None or self.digests is not None

    def offered(self, tools: Mapping[str, Tool]) -> tuple[str, ...]:
        """Keys of the tools that may be offered, in their order."""
        if not self.refuse:
            return tuple([key for key, tool in tools.items() if not deceptive(tool.name)])
        own_names = names_of_one(tools)
        return tuple([key for key, tool in tools.items() if self.authorized(tool, own_names[key])])

    def named(self, tools: Mapping[str, Tool], offered: Iterable[str], keep: Collection[str]) -> frozenset[str]:
        """Keys of the tools that the harness names itself: pinned ones, and those to `keep`.

        What these run is not asked for, so the name alone means no tool of a server, unless that is named as trusted.
        """
        named = {*self.pinned, *keep}
        if not named:
            return frozenset()
        own = {"", *(self.trusted or ())}
        return frozenset(
            key
            for key in offered
            if tools[key].full_name in named or (tools[key].server in own and self.called(key, tools[key], named))
        )

    def authorized(self, tool: Tool, called: Sequence[str] | None = None) -> bool:
        """Whether a tool may be offered, by the names that mean it and no other tool of its list."""
        try:
            if deceptive(tool.name) or (self.refuse and not tool.readable):
                return False
            called = _names_of(tool) if called is None else called
            if self.digests is not None:
                reviewed = [self.digests[name] for name in called if name in self.digests]
                if not reviewed or tool.digest() != reviewed[0]:
                    return False
            if self.allow is None:
                return True
            if callable(self.allow):
                return bool(self.allow(tool))
            return any(name in self.allow for name in called)
        except Exception:
            return False

    def guarded(self, tools: Mapping[str, Tool], offered: Iterable[str], keep: Collection[str]) -> dict[str, str]:
        """Which tools must stay in every request, and why."""
        if not keep and not self.pinned:  # most often
            offered = [key for key in offered if tools[key].foreign]
        return {key: why for key in offered if (why := self._why_kept(key, tools[key], keep))}

    def _why_kept(self, key: str, tool: Tool, keep: Collection[str]) -> str:
        if tool.foreign and (tool.readable or not self.untrusted(tool)):
            return "the provider's own"
        if self.pinned and self.called(key, tool, self.pinned):
            return "pinned"
        return "required by the harness" if keep and self.called(key, tool, keep) else ""

    def untrusted_among(self, tools: Mapping[str, Tool], offered: Iterable[str]) -> frozenset[str]:
        """Keys of the tools of servers that nobody vouches for, where some are trusted."""
        trusted = self.trusted
        if trusted is None:
            return frozenset()
        return frozenset(key for key in offered if tools[key].server not in trusted)

    def untrusted(self, tool: Tool) -> bool:
        """Whether nobody vouches for the server of a tool."""
        return self.trusted is not None and tool.server not in self.trusted

    def called(self, key: str, tool: Tool, named: Collection[str]) -> bool:
        """Whether a tool is among some that are named; one of an untrusted server only by server and name."""
        return tool.full_name in named or ((tool.name in named or key in named) and not self.untrusted(tool))


@dataclass(frozen=True)
class Limits(Settings):
    """How much a decision may take, and how many tools it may keep."""

    seconds: Annotated[float | None, checks.or_none(checks.number(1e-3, TIMEOUT_MAX, unit="seconds"), "no limit")] = 5.0
    """How long a decision may take. Past it the list stays as it is. Lower it where a user waits for the answer."""

    tools: Annotated[int, checks.whole_number(1)] = 10_000
    """A request of more tools is not scored: the list stays as it is."""

    characters: Annotated[int, checks.whole_number(1)] = 20_000_000
    """A request of more characters in names, descriptions and history is not scored either."""

    at_least: Annotated[int, checks.whole_number(0)] = 0
    """The fewest tools that are kept. Guarded tools and those of earlier turns count."""

    at_most: Annotated[int | None, checks.or_none(checks.whole_number(0), "no bound")] = None
    """The most tools that are kept. Guarded tools and those of earlier turns count, and are kept even beyond it."""

    search_names: Annotated[int, checks.whole_number(0)] = NAME_TOKENS
    """How many tokens the names of the tools that are not loaded may take in the description of the tool search. Beyond
    them it has the servers with their numbers of tools, and the likeliest names; 0 lists none."""

    cached_prefix: Annotated[int, checks.whole_number(0)] = 1_024
    """From how many tokens on a provider caches a prompt. In mode "append" the shortest tools are loaded until the part
    that all requests share is so long, with the system prompt that a history begins with; 0 loads none."""

    breaker: Annotated[Breaker | None, checks.or_none(checks.instance_of(Breaker))] = None
    """Leaves a scorer alone that fails again and again (`Breaker`). Set it where the scorer is another program."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.at_most is not None and self.at_least > self.at_most:
            raise UsageError(
                f"The 'at_least' of Limits must be at most its 'at_most', {self.at_most}. Got {self.at_least} instead."
            )

    def within(
        self, tools: Mapping[str, Tool], authorized: Sequence[str], untrusted: Collection[str]
    ) -> tuple[tuple[str, ...], dict[str, int]]:
        """The tools that may be offered, and the characters that scorers read of those that are ranked.

        A tool that is too large, or of a server that has too many or writes too much, costs itself alone. Where some
        servers are trusted, the others share the room that those leave.
        """
        room = max(self.tools - (len(authorized) - len(untrusted)), 0)
        share = 1 / max(len({tools[key].server for key in untrusted}), 1)
        of_untrusted = (min(SERVER_TOOLS, room * share), min(SERVER_CHARACTERS, UNTRUSTED_CHARACTERS * share))
        counts = Counter[str]()
        characters = Counter[str]()
        within: list[str] = []
        sizes: dict[str, int] = {}
        for key in authorized:
            tool = tools[key]
            ranked = True
            size = len(tool.name) + len(tool.described)
            if not tool.foreign:
                if tool.is_longer_than(TOOL_CHARACTERS):
                    continue
                if tool.server or key in untrusted:  # where nobody knows the server, the request's own limits hold
                    limits = of_untrusted if key in untrusted else (SERVER_TOOLS, SERVER_CHARACTERS)
                    counts[tool.server] += 1
                    characters[tool.server] += size
                    if counts[tool.server] > limits[0]:
                        continue
                    ranked = characters[tool.server] <= limits[1]
            within.append(key)
            if ranked:
                sizes[key] = size
        return tuple(within), sizes


class Dealt(NamedTuple):
    """What a rollout says of one conversation, once for the whole of a decision."""

    off: bool
    """Whether nothing is cut for anybody."""

    cuts: bool
    explores: bool
    needs_name: bool = False
    """Whether it is left alone since it has no name."""


@dataclass(frozen=True, eq=False)
class Rollout(Settings):
    """Cut for a share of conversations and only watch the others, explore in a share, and switch all of it off.

    Chance is dealt by a conversation's name: on the same side in every process that has the same key, and never by what
    is said in it. A larger share takes conversations in and puts none out. One that began stays as it began
    (`ConversationTerms`), so that no list narrows in the middle. One without a name is left alone.

    `share` and `off` are values, or functions that return them: `value_in_file(path)` reads a file that holds `0.2` or
    `true`. Where a function fails the last good value stands; until there is one, nothing is cut. Only conversations
    with a name are cut for, once the share may change: one without could not be told from another.
    """

    share: Annotated[Source[float], source_of(checks.share, "a share from 0 to 1")] = 1.0
    """Of the conversations that are cut for; the others are watched as in shadow mode. Raise it step by step."""

    off: Annotated[Source[bool], source_of(checks.truth, "true or false")] = False
    """Whether nothing is cut for anybody: the switch for the night when something goes wrong."""

    salt: Annotated[str, checks.string] = ""
    """Another one picks other conversations."""

    every: Annotated[float, checks.number(0, TIMEOUT_MAX, unit="seconds")] = 1.0
    """How old a value may be before it is read again."""

    explore: Annotated[float, checks.share] = 0.0
    """The share of named conversations that see every tool, and are flagged: what a policy learns from without bias.
    A few in a hundred do."""

    explore_pressure: Annotated[float | None, checks.or_none(checks.number(0))] = None
    """A cost pressure below the gate's. With it, conversations that explore get what is worth its cost at that pressure
    instead of every tool: cheaper, and it teaches less."""

    explore_key: Annotated[str, checks.string] = ""
    """By which conversations are dealt, the same on all workers. Who knows it and a name knows who explores."""

    _switches: tuple[Switch[float], Switch[bool]] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        share = Switch(self.share, 0.0, checks.share, self.every)
        off = Switch(self.off, True, checks.truth, self.every)
        object.__setattr__(self, "_switches", (share, off))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), tuple(getattr(self, part.name) for part in fields(self) if part.init)

    @property
    def everyone(self) -> bool:
        """Whether it cuts for all conversations, and that cannot change."""
        return all(switch.stays for switch in self._switches) and self.share_now >= 1 and not self.is_off

    @property
    def due(self) -> bool:
        """Whether it is time to read something."""
        return any(switch.due for switch in self._switches)

    def look(self, within: float | None = None) -> None:
        """Read again what it is time to read, for a decision that has so many seconds."""
        for switch in self._switches:
            if not switch.stays:
                switch.look(within)

    def dealt(self, conversation: str | None, *, is_history: bool) -> Dealt:
        """What a decision has to know of its conversation, as last read."""
        if conversation is not None:
            return Dealt(self.is_off, self.cuts(conversation), self.explores(conversation))
        everyone = self.everyone
        # One text has no middle; of a history nobody knows how it began.
        cuts = everyone or (self.share_now >= 1 and not is_history)
        return Dealt(self.is_off, cuts, False, needs_name=self.explore > 0 or not everyone)

    @property
    def share_now(self) -> float:
        """Of conversations that are cut for, as last read; 0 before that."""
        return self._switches[0].value

    @property
    def is_off(self) -> bool:
        """Whether nothing is cut for anybody, as last read; true before that."""
        return self._switches[1].value

    @property
    def error(self) -> str:
        """The type of what went wrong when a value was last read; "" where nothing did."""
        return self._switches[0].error or self._switches[1].error

    def cuts(self, conversation: str) -> bool:
        """Whether the conversation of this name is in the share.

        >>> some = Rollout(0.3, salt="first")
        >>> [number for number in range(10) if some.cuts(f"conversation {number}")]
        [1, 4, 7]
        """
        share = self.share_now
        return share >= 1 or _number_of(conversation, self.salt) < share

    def explores(self, conversation: str) -> bool:
        """Whether the conversation of this name is in the share that explores."""
        return self.explore > 0 and _number_of(conversation, self.explore_key, "explore") < self.explore


def _is_key(value: Any) -> bool:
    return isinstance(value, bytes) and 16 <= len(value) <= 64


def _is_store(value: Any) -> bool:
    return all(callable(getattr(value, method, None)) for method in ("recall", "add"))


@dataclass(frozen=True)
class Records(Settings):
    """What a gate keeps of conversations, and whom it tells of decisions."""

    conversations: Annotated[int, checks.whole_number(0)] = 10_000
    """How many conversations are remembered in this process, the latest."""

    store: Annotated[
        ConversationStore | None,
        checks.or_none(checks.check_that("a store that has recall and add, as RedisMemory has", _is_store)),
    ] = None
    """Where workers share the conversations whose history is not shown (`RedisMemory`). Set it where there is more than
    one worker and you call `decide` with texts, not with messages."""

    on_decision: Annotated[Callable[[GateDecision], object] | None, checks.or_none(checks.function)] = None
    """Receives every decision, on a thread of its own. The current span of OpenTelemetry or MLflow gets it either
    way."""

    tenant: Annotated[str, checks.string] = ""
    """Whose conversations they are; `Gate.for_tenant` sets it."""

    id_key: Annotated[bytes | None, checks.or_none(checks.check_that("a key of 16 to 64 bytes", _is_key))] = None
    """The key by which the ids of users are hashed in the file of past requests (`camdf fit --remember`)."""


def _number_of(conversation: str, key: str, purpose: str = "") -> float:
    """A number from 0 to 1 that a conversation's name is dealt: by chance to whoever does not know the key.

    The number for one `purpose` says nothing of that for another.
    """
    keyed = blake2b(key.encode(errors="surrogatepass"), digest_size=32).digest()
    said = blake2b(conversation.encode(errors="surrogatepass"), digest_size=8, key=keyed, person=purpose.encode())
    return int.from_bytes(said.digest()) / 2**64


def deceptive(name: str) -> bool:
    """Whether a name may not be what it looks like: signs that cannot be seen, compatibility forms, mixed alphabets.

    >>> deceptive("send"), deceptive("s\\N{CYRILLIC SMALL LETTER IE}nd"), deceptive("send\\N{ZERO WIDTH SPACE}")
    (False, True, True)
    """
    if not name.isprintable():
        return True
    if name.isascii():
        return False
    scripts = {unicodedata.name(letter, "").partition(" ")[0] for letter in name if letter.isalpha()}
    return len(scripts & LOOK_ALIKE) > 1 or unicodedata.normalize("NFKC", name) != name


def _names_of(tool: Tool) -> tuple[str, ...]:
    if tool.server:
        return tool.full_name, tool.name
    return (tool.name,)


def names_of_one(tools: Mapping[str, Tool]) -> dict[str, list[str]]:
    """The names that mean a tool of a list and no other, by key."""
    meant = _tools_by_name(tools.values())
    return {
        key: [name for name in _names_of(tool) if meant[name] == {(tool.server, tool.name)}]
        for key, tool in tools.items()
    }


def _tools_by_name(tools: Iterable[Tool]) -> dict[str, set[tuple[str, str]]]:
    """Which tools a name means: those that have it as their full name, else those that have it as their name."""
    full: dict[str, set[tuple[str, str]]] = {}
    short: dict[str, set[tuple[str, str]]] = {}
    for tool in tools:
        full.setdefault(tool.full_name, set()).add((tool.server, tool.name))
        short.setdefault(tool.name, set()).add((tool.server, tool.name))
    return short | full


GATE_CHECKS: dict[str, checks.Check] = {
    "mode": checks.one_of(*get_args(Mode)),
    "tool_search": checks.truth,
    "scorer_mismatch": checks.one_of(*get_args(ScorerMismatch)),
    "channels": checks.check_that(
        "a mapping from how names of models begin to 'anthropic', 'openai_responses' or None",
        lambda value: isinstance(value, Mapping) and set(value.values()) <= {*get_args(NativeChannel), None},
    ),
    "scorer": checks.or_none(
        checks.check_that(
            "one that can be called, as Start()", lambda value: callable(value) and not isinstance(value, type)
        )
    ),
    "prices": checks.or_none(
        checks.check_that(
            "Prices, a mapping or a function",
            lambda value: isinstance(value, Mapping) or callable(getattr(value, "of", value)),
        )
    ),
    "guards": checks.instance_of(Guards),
    "privilege": checks.or_none(checks.instance_of(Privilege), "a list that is advice"),
    "limits": checks.instance_of(Limits),
    "rollout": checks.instance_of(Rollout),
    "records": checks.instance_of(Records),
}
"""What the other settings of `Gate` must be."""

"""What each session paid for the tools and skills that its prompts held.

    dollars of a tool = tokens of its definition * (new * uncached + again * cached) / 1,000,000

`new` and `again` count the model calls whose prompts held the definition: those that read nothing from a cache, and
those that did. A tool of which prompts held the name alone costs its name, and its definition from the call on in which
a search brought it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from statistics import fmean
from typing import NamedTuple, TypeAlias

from camdf.integrations.transcripts.thread import Thread, server_of
from camdf.prices import Prices, estimated_tokens

TYPICAL_TOKENS = 150
"""Of a definition, where not one definition of a server's tools is known."""

PricesOfModel: TypeAlias = Callable[[str], Prices]


class Charge(NamedTuple):
    """What one tool or skill cost one session."""

    dollars: float
    is_deferred: bool = False
    """Whether prompts held its name alone."""


@dataclass
class Session:
    """The threads of one session: the user's, and those of sub-agents."""

    client: str
    threads: list[Thread] = field(default_factory=list)

    @cached_property
    def folder(self) -> str:
        """Where it was."""
        own = [thread.project for thread in self.threads if not thread.is_side]
        return next(iter([*own, *(thread.project for thread in self.threads)]))

    @cached_property
    def day(self) -> str:
        """When it was last written to."""
        return max(thread.day for thread in self.threads)

    @cached_property
    def tools(self) -> Counter[str]:
        """How often it called each tool of a server."""
        return self._added_up(lambda thread: {name: n for name, n in thread.tools_called.items() if server_of(name)})

    @cached_property
    def own_tools(self) -> Counter[str]:
        """And each tool of the client itself."""
        return self._added_up(
            lambda thread: {name: n for name, n in thread.tools_called.items() if not server_of(name)}
        )

    @cached_property
    def skills(self) -> Counter[str]:
        """How often it used each skill, and whatever else is called by a slash."""
        return self._added_up(lambda thread: thread.skills_used)

    @cached_property
    def model_calls(self) -> Counter[str]:
        """By model."""
        calls: Counter[str] = Counter()
        for thread in self.threads:
            for (model, _), count in thread.model_calls.items():
                calls[model] += count
        return calls

    def _added_up(self, counts: Callable[[Thread], Mapping[str, int]]) -> Counter[str]:
        total: Counter[str] = Counter()
        for thread in self.threads:
            total.update(counts(thread))
        return total


class Sizes:
    """Tokens of definitions, as far as they are known; others are estimated at the mean of those of all servers."""

    def __init__(self, known: Mapping[str, int]) -> None:
        self.known = known
        of_servers = [tokens for name, tokens in known.items() if server_of(name)]
        self.usual = round(fmean(of_servers)) if of_servers else TYPICAL_TOKENS

    def of(self, name: str) -> int:
        """The tokens of a tool's definition."""
        return self.known.get(name, self.usual)


def sessions_in(threads: Iterable[Thread]) -> list[Session]:
    """The sessions that threads belong to."""
    sessions: dict[tuple[str, str], Session] = {}
    for thread in threads:
        sessions.setdefault((thread.client, thread.session), Session(thread.client)).threads.append(thread)
    return list(sessions.values())


def rate_of(thread: Thread, prices_of: PricesOfModel) -> float:
    """Dollars that one token costs a thread that all of its prompts hold."""
    rate = 0.0
    for (model, is_cached), count in thread.model_calls.items():
        prices = prices_of(model)
        rate += count * (prices.of_request(new=0, again=1) if is_cached else prices.of_request(new=1))
    return rate


def tool_charges(
    session: Session, sizes: Sizes, servers: Collection[str], prices_of: PricesOfModel
) -> dict[str, Charge]:
    """What each tool of a server cost a session.

    Prompts held the tools that the transcript of the thread says, or that of the session. Where neither says any,
    they held those that are known of the `servers` that are configured now, and those that were called.
    """
    in_session = next((thread.loaded for thread in session.threads if thread.loaded), {})
    charges: dict[str, Charge] = {}
    for thread in session.threads:
        rate = rate_of(thread, prices_of)
        loaded: set[str] = set(thread.loaded or in_session)
        if not loaded:
            known = (name for name in sizes.known if server_of(name) in servers)
            loaded = {*known, *thread.tools_called} - thread.deferred - thread.brought.keys()
        for name in filter(server_of, loaded):
            _add(charges, name, Charge(rate * sizes.of(name)))
        by_name = {*thread.deferred, *thread.brought, *thread.tools_called} - loaded
        for name in filter(server_of, by_name):
            _add(charges, name, Charge(rate * _tokens_of_name(thread, name), is_deferred=True))
    return charges


def skill_charges(session: Session, tokens: Mapping[str, int], prices_of: PricesOfModel) -> dict[str, Charge]:
    """What each skill's part of the list of skills cost a session; `tokens` are those of the skills installed here."""
    charges: dict[str, Charge] = {}
    for thread in session.threads:
        rate = rate_of(thread, prices_of)
        listed = thread.skills_listed or tokens
        for name, count in listed.items():
            _add(charges, name, Charge(rate * count))
        for name in thread.skills_used.keys() & tokens.keys() - listed.keys():
            _add(charges, name, Charge(0.0, is_deferred=True))
    return charges


def _add(charges: dict[str, Charge], name: str, charge: Charge) -> None:
    """One more thread of a session."""
    before = charges.get(name, Charge(0.0, is_deferred=True))
    charges[name] = Charge(before.dollars + charge.dollars, before.is_deferred and charge.is_deferred)


def _tokens_of_name(thread: Thread, name: str) -> float:
    """Tokens in every prompt, on average, of a tool of which prompts held the name alone until a search brought it."""
    tool = thread.brought.get(name)
    calls = thread.model_calls.total()
    if tool is None or not calls:
        return estimated_tokens(name)
    return estimated_tokens(name) + tool.tokens * (1 - tool.calls_before / calls)

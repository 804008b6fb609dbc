"""What every tool and skill cost in each project, how often it was used, and whether to go on loading it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, NamedTuple, TypeAlias

from camdf.gate.tool_search import CALL, find_tool, names_by_server
from camdf.integrations.gateway.config import GATEWAY
from camdf.integrations.gateway.working_set import (
    OTHERS,
    SEARCH,
    called_shares,
    cheaper_to_have,
    connection_weight,
)
from camdf.integrations.transcripts.charges import (
    Charge,
    PricesOfModel,
    Session,
    Sizes,
    rate_of,
    sessions_in,
    skill_charges,
    tool_charges,
)
from camdf.integrations.transcripts.installed import accepted_definitions, configured_servers, listed_skills
from camdf.integrations.transcripts.thread import Thread, server_of
from camdf.prices import Prices

Verdict: TypeAlias = Literal["keep loaded", "leave to the search", "take away", "too early"]

KEEP: Verdict = "keep loaded"
LEAVE: Verdict = "leave to the search"
TAKE_AWAY: Verdict = "take away"
TOO_EARLY: Verdict = "too early"

ENOUGH_SESSIONS = 20
"""What none of so many sessions used is taken away: with 95% confidence fewer than 0.14 of all sessions use it."""


class Account(NamedTuple):
    """One tool or skill in one project."""

    name: str
    """Tools as "server/tool"."""

    tokens: int
    """Of its definition, or of its part of the list of skills."""

    is_estimated: bool
    """Whether no definition of it is known."""

    sessions: int
    """Whose prompts held it, whole or by its name."""

    deferred: int
    """Those of them that held its name alone."""

    uses: int
    used_in: int
    """Sessions."""

    dollars: float
    verdict: Verdict


@dataclass(frozen=True)
class Project:
    """What one client cost in one folder."""

    client: str
    folder: str
    sessions: int
    model_calls: Counter[str]
    """By model."""

    tools: list[Account]
    skills: list[Account]
    own_tools: Counter[str]
    """How often each of the client's own tools was called."""

    idle_servers: list[str]
    """Configured here, and their tools are neither known nor called."""

    with_camdf: float
    """Dollars that the tools of servers would have cost behind `camdf mcp`."""

    @property
    def dollars(self) -> float:
        """What the tools of servers cost."""
        return sum(tool.dollars for tool in self.tools)


def projects_of(threads: Iterable[Thread], prices_of: PricesOfModel) -> list[Project]:
    """Every project of every client, those first whose tools cost most."""
    sessions = sessions_in(threads)
    known = accepted_definitions()
    for session in sessions:
        for thread in session.threads:
            known |= {name: tool.tokens for name, tool in thread.brought.items()} | thread.loaded
    sizes = Sizes(known)
    places = dict.fromkeys((session.client, session.folder) for session in sessions)
    days = _days_before_the_last(sessions)
    projects = [_project(client, folder, sessions, days, sizes, prices_of) for client, folder in places]
    return sorted(projects, key=lambda project: (-project.dollars, -project.sessions, project.folder))


def _project(
    client: str,
    folder: str,
    sessions: Sequence[Session],
    days: Sequence[float],
    sizes: Sizes,
    prices_of: PricesOfModel,
) -> Project:
    """One project; the other sessions of the same client say, too, what is likely to be used here."""
    alike = [(session, ago) for session, ago in zip(sessions, days, strict=True) if session.client == client]
    weights = [connection_weight(ago, is_own=session.folder == folder) for session, ago in alike]
    own = [session for session, _ in alike if session.folder == folder]
    model_calls = sum((session.model_calls for session in own), Counter[str]())
    prices = _usual_prices(model_calls, len(own), prices_of)
    servers = configured_servers(client, folder)
    tools = _accounts(
        [(tool_charges(session, sizes, servers, prices_of), session.tools) for session in own],
        [(weight, session.tools) for weight, (session, _) in zip(weights, alike, strict=True)],
        prices,
        sizes.of,
        sizes.known,
    )
    installed = listed_skills(client, folder)
    skill_tokens = dict(installed)
    for session in own:
        for thread in session.threads:
            skill_tokens |= thread.skills_listed
    skills = _accounts(
        [(skill_charges(session, installed, prices_of), session.skills) for session in own],
        [(weight, session.skills) for weight, (session, _) in zip(weights, alike, strict=True)],
        prices,
        skill_tokens.__getitem__,
        skill_tokens,
    )
    named = {server_of(tool.name) for tool in tools}
    return Project(
        client=client,
        folder=folder,
        sessions=len(own),
        model_calls=model_calls,
        tools=tools,
        skills=skills,
        own_tools=sum((session.own_tools for session in own), Counter[str]()),
        idle_servers=[server for server in servers if server not in named],
        with_camdf=_dollars_with_camdf(tools, own, prices, prices_of),
    )


def _usual_prices(model_calls: Counter[str], sessions: int, prices_of: PricesOfModel) -> Prices:
    """Those of the model that was asked most, for as many model calls as a session has."""
    usual = next((model for model, _ in model_calls.most_common(1)), "")
    prices = prices_of(usual)
    return Prices(uncached=prices.uncached, cached=prices.cached, turns=max(1.0, model_calls.total() / sessions))


def _accounts(
    charged: Sequence[tuple[Mapping[str, Charge], Counter[str]]],
    connections: Sequence[tuple[float, Counter[str]]],
    prices: Prices,
    tokens_of: Callable[[str], int],
    known: Mapping[str, int],
) -> list[Account]:
    """An account of everything that sessions were charged for, those first that cost most.

    `charged` has for each session here what it was charged and what it used, and `connections` what every session of
    the client used, with its weight here.
    """
    names = list(dict.fromkeys(name for charges, _ in charged for name in charges))
    chance = called_shares(dict.fromkeys(names, OTHERS), connections)
    cheaper = set(cheaper_to_have({name: prices.of_tokens(tokens_of(name)) for name in names}, chance, prices))
    accounts: list[Account] = []
    for name in names:
        holding = [(charges[name], used[name]) for charges, used in charged if name in charges]
        used_in = sum(uses > 0 for _, uses in holding)
        accounts.append(
            Account(
                name=name,
                tokens=tokens_of(name),
                is_estimated=name not in known,
                sessions=len(holding),
                deferred=sum(charge.is_deferred for charge, _ in holding),
                uses=sum(uses for _, uses in holding),
                used_in=used_in,
                dollars=sum(charge.dollars for charge, _ in holding),
                verdict=_verdict(len(holding), used_in, is_cheaper=name in cheaper),
            )
        )
    return sorted(accounts, key=lambda account: (-account.dollars, account.name))


def _verdict(sessions: int, used_in: int, *, is_cheaper: bool) -> Verdict:
    if used_in:
        return KEEP if is_cheaper else LEAVE
    return TAKE_AWAY if sessions >= ENOUGH_SESSIONS else TOO_EARLY


def _dollars_with_camdf(
    tools: Sequence[Account], sessions: Sequence[Session], prices: Prices, prices_of: PricesOfModel
) -> float:
    """What the tools of servers would have cost with those loaded that are to be kept, and a search for the others."""
    if any(server_of(tool.name) == GATEWAY for tool in tools):  # they are behind one
        return sum(tool.dollars for tool in tools)
    if not tools:
        return 0.0
    kept = {tool.name: tool.tokens for tool in tools if tool.verdict == KEEP}
    hidden: dict[str, list[str]] = {}
    for tool in tools:
        if tool.name not in kept:
            server, _, name = tool.name.partition("/")
            hidden.setdefault(server, []).append(name)
    searching = (find_tool(names_by_server(hidden)), CALL)
    listed = sum(kept.values()) + sum(prices.count(tool) for tool in searching)
    searches = sum(len(session.tools.keys() - kept.keys()) for session in sessions)
    rate = sum(rate_of(thread, prices_of) for session in sessions for thread in session.threads)
    return rate * listed + searches * prices.of_search(**SEARCH)


def _days_before_the_last(sessions: Iterable[Session]) -> list[float]:
    """How many days before the last of them each was; 0 for one that does not say when."""
    times = [_time_of(session.day) for session in sessions]
    last = max(times, default=0.0)
    return [(last - time) / 86_400 if time else 0.0 for time in times]


def _time_of(day: str) -> float:
    """Seconds of a time that a transcript has; 0 for what is none."""
    try:
        return datetime.fromisoformat(day).timestamp()
    except (ValueError, OverflowError, OSError):
        return 0.0

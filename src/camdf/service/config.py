"""What may be configured: the server, its limits, and gates by tenant and by route.

Settings of a gate stand in `[gate]`; `[routes.NAME]`, `[tenants.NAME]` and `[tenants.NAME.routes.NAME]` say what
differs there. The most special one that has a setting decides it, except for `guards.allow`: a tool must be on every
list that applies. Of `guards`, `privilege`, `limits` and `rollout` each key is decided by itself, so that a share on a
route leaves the kill switch of all in place. `unset = ["prices"]` takes nothing over of what tables above say of it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from hashlib import sha256
from typing import Annotated, Any, TypeAlias, get_args

from camdf.errors import UsageError
from camdf.gate.append import NativeChannel
from camdf.gate.privilege import WrittenPrivilege
from camdf.gate.settings import Guards, Limits, Rollout
from camdf.prices import Prices
from camdf.runtime.settings import (
    Check,
    Settings,
    by_name,
    check_that,
    instance_of,
    is_accepted,
    names,
    number,
    one_of,
    or_none,
    share,
    string,
    truth,
    whole_number,
)

COLD_STARTS = {"cold-start": "similarity", "cold-start-probability": "probability"}
"""Names in place of a policy's file, and the kind of scores that each is for."""

START = "start"
"""The name of the policy that needs nothing but the tools."""

SHIPPED = (START, *COLD_STARTS)
"""Names of policies that are no files."""

NAME = "[A-Za-z0-9_.-]{1,64}"
"""Of a tenant or a route."""

SHA256 = re.compile("(?:[0-9a-f]{64})?")

Table: TypeAlias = Mapping[str, Any]

positive = number(most=1e12, above=0)
not_negative = number(0, 1e12)
seconds = number(most=3600, above=0, unit="seconds")
count = whole_number(1, 10**9)
channels = by_name(one_of(*get_args(NativeChannel), "none"), "'anthropic', 'openai_responses' or 'none'")
named = by_name(string, "names")
renames = check_that(
    "a table from old names of tools to new ones, no name in both",
    lambda value: is_accepted(named, value) and not value.keys() & set(value.values()),
)
sha = check_that("64 hexadecimal digits", lambda value: isinstance(value, str) and bool(SHA256.fullmatch(value)))


@dataclass(frozen=True)
class ScorerSettings(Settings):
    """What ranks the tools of a conversation, where it takes more than a name."""

    kind: Annotated[str, one_of("bm25", "start", "llm")]
    """"start" (words and what they mean), "bm25" (words) or "llm" (a language model that is asked)."""

    url: Annotated[str, string] = ""
    """Of an endpoint that speaks OpenAI's chat completions, for "llm". Only the operator can name one."""

    model: Annotated[str, string] = ""
    """The language model, as that endpoint calls it."""

    key_variable: Annotated[str | None, or_none(string)] = None
    """The environment variable that holds the key for it."""

    timeout: Annotated[float, seconds] = 30.0
    """How long it may take to answer."""

    structured: Annotated[bool, truth] = True
    """Whether the endpoint holds answers to a JSON schema."""


def _is_flag(value: Any) -> bool:
    if not isinstance(value, dict) or value.keys() != {"flag"}:
        return False
    return isinstance(value["flag"], str) and value["flag"] != ""


def _or_source(check: Check, what: str) -> Check:
    """A value, the path of a file that holds one, or a flag."""

    def holds(value: Any) -> bool:
        return isinstance(value, str) or _is_flag(value) or is_accepted(check, value)

    return check_that(f'{what}, a file that holds it, or {{ flag = "name" }}', holds)


@dataclass(frozen=True, eq=False)
class RolloutOfFile(Rollout):
    """A `Rollout` as a file can say it: it names a flag, whose client is the process's own, and has no functions."""

    share: Annotated[Any, _or_source(share, "a share from 0 to 1")] = 1.0
    off: Annotated[Any, _or_source(truth, "true or false")] = False
    every: Annotated[float, seconds] = 1.0


def _scorer(value: Any) -> Any:
    if isinstance(value, ScorerSettings):
        return value
    return one_of("start", "bm25", "none")(value)


@dataclass(frozen=True)
class GateSettings(Settings):
    """One gate; what is left out is as in the table above it."""

    policy: Annotated[str, string] = START
    """"start" (the best `mean_tools`), a file or an fsspec URL of a saved policy, "cold-start" or
    "cold-start-probability"."""

    sha256: Annotated[str, sha] = ""
    """Of the policy's file: any other content is refused."""

    mean_tools: Annotated[int | None, or_none(whole_number(1))] = None
    """How many tools the policy "start" loads; 8 where it is left out."""

    tool_search: Annotated[bool | None, or_none(truth)] = None
    """Whether the agents can run the tool search, where a request does not say. Left out: for the policy "start"."""

    allow_cuts_without_search: Annotated[bool, truth] = False
    """Whether a policy that learned from no labels may cut where there is no search for what it cuts."""

    cost_pressure: Annotated[float | None, or_none(not_negative)] = None
    """What a tool costs next to what a task is worth, where the policy's file does not say."""

    task_worth: Annotated[float | None, or_none(positive)] = None
    """The same, in the unit of the prices."""

    value: Annotated[str | None, or_none(one_of("exact", "partial"))] = None
    """What a set is worth that lacks a tool: nothing, or a part."""

    recourse: Annotated[float | None, or_none(share)] = None
    """The share of a task's worth that is left where a search has to find a tool."""

    scorer: Annotated[Any, or_none(_scorer)] = None
    """What ranks the tools of a conversation: "start", "bm25", "none" or a table. Left out: the scorer that the policy
    was fitted with, as its file says; else "start" for the policy "start", and "bm25" for others."""

    scorer_mismatch: Annotated[str, one_of("refuse", "allow")] = "refuse"
    """Whether another scorer than the policy was fitted with may rank, or the same with other examples."""

    examples: Annotated[str, string] = ""
    """A file of what people ask the tools for, which `camdf examples` writes; for the scorers "start" and "bm25". Or of
    past requests that the policy recalls, which `camdf fit --remember` writes; for the scorer "start"."""

    id_key: Annotated[str, string] = ""
    """The file of the key that hashes the ids of users in the past requests; without it they are hashed without one."""

    renamed: Annotated[Mapping[str, str] | None, or_none(renames)] = None
    """The new names of tools, where the policy, the past requests and what is learned from have the old ones."""

    prices: Annotated[Prices | None, or_none(instance_of(Prices))] = None
    """What tools cost. Without it every tool costs 1."""

    mode: Annotated[str, one_of("drop", "append", "defer", "allow", "shadow")] = "drop"
    """What becomes of what is cut."""

    channels: Annotated[Mapping[str, str] | None, or_none(channels)] = None
    """For the mode "append", where your models have other names than their providers give them: how a name begins, and
    which messages take tools there. Joined to the table of `camdf.gate.append`; "none" takes a model out of it."""

    guards: Guards = Guards()
    privilege: WrittenPrivilege | None = None
    limits: Limits = Limits(seconds=2.0)
    # The settings of a `Rollout` that are not left out: a rollout itself reads files and flags.
    rollout: Table = field(default_factory=dict)

    @property
    def asks_a_model(self) -> bool:
        """Whether a language model ranks them."""
        return isinstance(self.scorer, ScorerSettings) and self.scorer.kind == "llm"

    @property
    def searches(self) -> bool:
        """Whether agents can run the tool search, where a request does not say."""
        if self.tool_search is None:
            return self.policy == START
        return self.tool_search

    def may_guess(self, searches: bool) -> bool:
        """Whether a policy that learned from nothing real may cut, where agents can search or cannot."""
        cuts = self.mode in ("drop", "append") and not self.asks_a_model
        return searches or self.allow_cuts_without_search or not cuts


GROUPS: dict[str, type[Any]] = {
    "guards": Guards,
    "privilege": WrittenPrivilege,
    "limits": Limits,
    "rollout": RolloutOfFile,
    "prices": Prices,
    "scorer": ScorerSettings,
}
"""Tables inside of a gate's."""

MADE = ("guards", "privilege", "limits", "prices", "scorer")
"""Those that are values, made at once."""

OWN = ("guards", "privilege", "limits", "rollout")
"""Those of which each key is decided by itself."""


def _sorted_names(value: Any) -> tuple[str, ...]:
    return tuple(sorted(names(value)))


@dataclass(frozen=True)
class ServerSettings(Settings):
    """Where the service listens. A change of host, port or playground needs a restart."""

    host: Annotated[str, string] = "127.0.0.1"
    """The address to listen on."""

    port: Annotated[int, whole_number(0, 65535)] = 8080
    """The port; 0 takes any that is free."""

    token_variable: Annotated[str, string] = ""
    """The environment variable that holds the token which clients must send."""

    token_sha256: Annotated[str, sha] = ""
    """The SHA-256 of that token, where it is not in the environment."""

    allowed_hosts: Annotated[tuple[str, ...], _sorted_names] = ()
    """Names besides those of this machine by which browsers and clients may call a service that asks for no token."""

    reload_seconds: Annotated[float, seconds] = 2.0
    """How often the files are read again."""

    drain_seconds: Annotated[float, number(0, 3600, unit="seconds")] = 5.0
    """How long requests under way may take when the process is told to end."""

    log_decisions: Annotated[bool, truth] = False
    """Whether every decision is a line of JSON on standard output."""

    log_texts: Annotated[bool, truth] = False
    """Whether such a line also holds the messages."""

    playground: Annotated[bool, truth] = True
    """Whether there is a page at /."""


@dataclass(frozen=True)
class LimitSettings(Settings):
    """What one request may be, and what all of them together; tenants divide the latter."""

    body_bytes: Annotated[int, count] = 2_000_000
    """How many bytes a body may have."""

    depth: Annotated[int, whole_number(4, 200)] = 64
    """How deep its JSON may be."""

    tools: Annotated[int, count] = 10_000
    """How many tools, messages or candidates it may have."""

    batch: Annotated[int, count] = 1_000
    """How many requests a list may have."""

    waiting: Annotated[int, count] = 64
    """How many requests may be under way; more are told to come back (503)."""

    candidates: Annotated[int, count] = 30_000
    """How many candidates they may have: the tools of rankings, and those of conversations once for every turn."""

    held_bytes: Annotated[int, count] = 32_000_000
    """How many bytes of bodies may be here, of requests that arrive and of those under way."""

    connections: Annotated[int, count] = 1_000
    """How many connections may be open."""

    read_seconds: Annotated[float, seconds] = 5.0
    """In which a request has to be there whole."""

    retry_seconds: Annotated[int, count] = 1
    """When those who are told to come back should."""


@dataclass(frozen=True)
class LearnSettings(Settings):
    """How policies are fitted again on what the service sees, and replaced where that is worth it."""

    every_hours: Annotated[float, not_negative] = 0.0
    """How often the service looks by itself; 0 leaves it to `camdf learn`."""

    join_tenants: Annotated[bool, truth] = False
    """Whether tenants that have one policy's file teach it together."""

    tasks: Annotated[int, count] = 5_000
    """A challenger learns from so many, the newest."""

    fewest: Annotated[int, count] = 100
    """With fewer tasks there is no challenger."""

    patience: Annotated[int, count] = 2_000
    """After so many newer tasks, a challenger that was not shown to be better makes room for the next one. Where the
    evidence speaks for it, it has three times as many."""


@dataclass(frozen=True)
class Configuration:
    """The whole file. Tables of gates are as they stand there, since what they leave out is in the one above."""

    server: ServerSettings = ServerSettings()
    limits: LimitSettings = LimitSettings()
    learn: LearnSettings | None = None
    gate: Table = field(default_factory=dict)
    routes: Mapping[str, Table] = field(default_factory=dict)
    tenants: Mapping[str, Table] = field(default_factory=dict)

    def settings(self, tenant: str, route: str) -> GateSettings:
        """What holds for one route of one tenant; "" is neither."""
        merged: dict[str, Any] = {}
        for table in self._tables(tenant, route).values():
            inherited = {key: value for key, value in merged.items() if key not in table.get("unset", ())}
            merged = _over(inherited, {key: value for key, value in table.items() if key in GATE_KEYS})
        made = {name: GROUPS[name](**merged[name]) for name in MADE if isinstance(merged.get(name), dict)}
        if "limits" in merged:
            made["limits"] = Limits(**{"seconds": GateSettings.limits.seconds, **merged["limits"]})
        return GateSettings(**{**merged, **made})

    def table_of(self, tenant: str, route: str, *keys: str) -> str:
        """The most special table with one of these keys that holds for a route of a tenant, as "routes.chat"."""
        named = ["gate"]
        for name, table in self._tables(tenant, route).items():
            if any(_has(table, key) for key in keys):
                named.append(name)
        return named[-1]

    def _tables(self, tenant: str, route: str) -> dict[str, Table]:
        """By name, the tables that hold for a route of a tenant, the most special one last."""
        tables = {"gate": self.gate}
        if route in self.routes:
            tables[f"routes.{route}"] = self.routes[route]
        if tenant:
            own = self.tenants[tenant]
            tables[f"tenants.{tenant}"] = own
            if route in own.get("routes", {}):
                tables[f"tenants.{tenant}.routes.{route}"] = own["routes"][route]
        return tables

    def holders(self) -> list[str]:
        """Every tenant; "" where there are none."""
        return list(self.tenants) or [""]

    def routes_of(self, tenant: str) -> list[str]:
        """Every route that a tenant has; "" is the one without a name."""
        own = self.tenants[tenant].get("routes", {}) if tenant else {}
        return ["", *dict.fromkeys([*self.routes, *own])]

    def places(self) -> list[tuple[str, str]]:
        """Every tenant with every route that it has."""
        return [(tenant, route) for tenant in self.holders() for route in self.routes_of(tenant)]

    def policies(self) -> dict[str, list[tuple[str, str]]]:
        """Every policy that a place names, each under one spelling, and those places."""
        by_policy: dict[str, list[tuple[str, str]]] = {}
        for place in self.places():
            source = self.settings(*place).policy
            by_policy.setdefault(source if "://" in source else os.path.normpath(source), []).append(place)
        return by_policy

    def tokens(self) -> dict[str, str]:
        """SHA-256 of each token, and whose it is; empty where anybody may ask."""
        holders: dict[str, tuple[str, Table]] = {
            name: (f"tenants.{name}", table) for name, table in self.tenants.items()
        }
        holders = holders or {"": ("server", vars(self.server))}
        known: dict[str, str] = {}
        for tenant, (place, holder) in holders.items():
            token_sha256 = holder.get("token_sha256", "")
            variable = holder.get("token_variable", "")
            if variable:
                token = os.environ.get(variable, "")
                if len(token) < 16:
                    raise UsageError(
                        f"[{place}] token_variable is {variable!r}, and that environment variable must hold a token of "
                        f"at least 16 characters. It holds {len(token)}. Set it, for instance to the output of: "
                        "openssl rand -hex 32"
                    )
                token_sha256 = sha256(token.encode()).hexdigest()
            if token_sha256 in known:
                raise UsageError(f"[{place}] has the token of another tenant. Give each tenant a token of its own.")
            if token_sha256:
                known[token_sha256] = tenant
            elif tenant:
                raise UsageError(
                    f"[{place}] has no token, so nobody could be known to be that tenant. Set token_variable or "
                    "token_sha256 there."
                )
        return known


GATE_KEYS = tuple(part.name for part in fields(GateSettings))

UNSETTABLE = tuple(key for key in GATE_KEYS if key not in ("guards", "privilege"))
"""What a table need not take over. A list of allowed tools and a privilege hold for all tables below."""

INSTEAD = (("cost_pressure", "task_worth"), ("task_worth", "cost_pressure"), ("policy", "sha256"))
"""A setting, and one of tables above that means nothing beside it."""


def _has(table: Table, key: str) -> bool:
    """Whether a table has a key, as "rollout.share"."""
    first, _, rest = key.partition(".")
    return first in table and (not rest or _has(table[first], rest))


def _over(above: Table, below: Table) -> dict[str, Any]:
    """What a table says, and for what it leaves out, what the table above it says."""
    merged = dict(above)
    for one, other in INSTEAD:
        if one in below:
            merged.pop(other, None)
    if below.get("policy", START) != START:
        merged.pop("mean_tools", None)
    if below.get("mode") == "shadow" and "rollout" in merged:  # it is not cut, whoever else is
        merged["rollout"] = {key: value for key, value in merged["rollout"].items() if key not in ("share", "off")}
    for key, value in below.items():
        merged[key] = {**merged.get(key, {}), **value} if key in OWN else value
    allowed = [table["guards"]["allow"] for table in (above, below) if _has(table, "guards.allow")]
    if len(allowed) == 2:
        merged["guards"]["allow"] = [name for name in allowed[1] if name in allowed[0]]
    return merged

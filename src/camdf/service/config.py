"""What may be configured: the server, its limits, and gates by tenant and by route.

Settings of a gate stand in `[gate]`; `[routes.NAME]`, `[tenants.NAME]` and `[tenants.NAME.routes.NAME]` say what
differs there. The most special one that has a setting decides it, except for `allow`: a tool must be on every list that
applies. Of `rollout` each key is decided by itself, so that a share on a route leaves the kill switch of all in place.
"""

from __future__ import annotations

import os
from hashlib import sha256
from typing import Annotated, Any, Literal

from camdf.errors import UsageError, needs

with needs("serve"):
    from msgspec import UNSET, Meta, Struct, UnsetType, structs

COLD_STARTS = {"cold-start": "similarity", "cold-start-probability": "probability"}
"""Names in place of a policy's file, and the kind of scores that each is for."""

NAME = "[A-Za-z0-9_.-]{1,64}"
"""Of a tenant or a route."""

Name = Annotated[str, Meta(pattern=f"^{NAME}$")]
Digest = Annotated[str, Meta(pattern=r"^[0-9a-f]{64}$")]
Positive = Annotated[float, Meta(gt=0, le=1e12)]
NotNegative = Annotated[float, Meta(ge=0, le=1e12)]
Share = Annotated[float, Meta(ge=0, le=1)]
Count = Annotated[int, Meta(ge=1, le=10**9)]
Seconds = Annotated[float, Meta(gt=0, le=3600)]


class ConfigTable(Struct, forbid_unknown_fields=True, frozen=True, kw_only=True, omit_defaults=True):
    """A table of the file."""

    def said(self) -> dict[str, Any]:
        """The keys that are not left out, and their values."""
        return {name: value for name, value in structs.asdict(self).items() if value is not UNSET}


class ScorerSettings(ConfigTable, frozen=True):
    """What ranks the tools of a conversation."""

    kind: Literal["bm25", "start", "llm"]
    url: str = ""
    """Of an endpoint that speaks OpenAI's chat completions, for "llm". Only the operator can name one."""

    model: str = ""
    key_variable: str | None = None
    timeout: Seconds = 30.0
    structured: bool = True


class PriceSettings(ConfigTable, frozen=True):
    """What tools cost, as `camdf.Prices` says, which also has the values of what is left out."""

    uncached: Positive | UnsetType = UNSET
    cached: NotNegative | UnsetType = UNSET
    turns: Annotated[float, Meta(ge=1, le=1e6)] | UnsetType = UNSET
    misuse: NotNegative | UnsetType = UNSET
    seconds: NotNegative | UnsetType = UNSET
    dollars_per_second: NotNegative | UnsetType = UNSET
    failure_rate: Share | UnsetType = UNSET
    dollars_per_failure: NotNegative | UnsetType = UNSET
    privacy: dict[str, NotNegative] | UnsetType = UNSET


class FlagSettings(ConfigTable, frozen=True):
    """A flag of the OpenFeature client that the process has."""

    flag: Annotated[str, Meta(min_length=1)]


class RolloutSettings(ConfigTable, frozen=True):
    """For which share of conversations the gate cuts, and whether it works at all, as `camdf.gate.Rollout` says.

    Each is a value, the path of a file that holds it, or a flag. What is left out is as in the table above it.
    """

    share: Share | str | FlagSettings | UnsetType = UNSET
    off: bool | str | FlagSettings | UnsetType = UNSET
    salt: str | UnsetType = UNSET
    every_seconds: Seconds | UnsetType = UNSET
    """How old a value may be before a file or a flag is read again."""

    def over(self, above: RolloutSettings) -> RolloutSettings:
        """These, and for what they leave out, those of the table above."""
        return structs.replace(above, **self.said())


class GateSettings(ConfigTable, frozen=True):
    """One gate; what is left out is as in the table above it."""

    policy: str | UnsetType = UNSET
    """A file or an fsspec URL of a saved policy, or one of `COLD_STARTS`."""

    sha256: Digest | UnsetType = UNSET
    """Of the policy's file: any other content is refused."""

    cost_pressure: NotNegative | UnsetType = UNSET
    task_worth: Positive | UnsetType = UNSET
    value: Literal["exact", "partial"] | UnsetType = UNSET
    recourse: Share | UnsetType = UNSET
    scorer: Literal["bm25", "start", "none"] | ScorerSettings | UnsetType = UNSET
    prices: PriceSettings | UnsetType = UNSET
    allow: list[str] | UnsetType = UNSET
    pinned: list[str] | UnsetType = UNSET
    fallback: list[str] | UnsetType = UNSET
    mode: Literal["drop", "defer", "allow", "shadow"] | UnsetType = UNSET
    at_least: Annotated[int, Meta(ge=0)] | UnsetType = UNSET
    at_most: Annotated[int, Meta(ge=0)] | UnsetType = UNSET
    explore: Share | UnsetType = UNSET
    explore_key: str | UnsetType = UNSET
    """By which conversations are dealt, the same on all workers: who knows it and a name knows who explores."""

    rollout: RolloutSettings | UnsetType = UNSET
    budget_seconds: Seconds | UnsetType = UNSET


class TenantSettings(GateSettings, frozen=True):
    """Somebody who calls the service with a token of their own."""

    token_variable: str = ""
    token_sha256: Digest | Literal[""] = ""
    routes: dict[Name, GateSettings] = {}


class ServerSettings(ConfigTable, frozen=True):
    """Where the service listens. A change of host, port or playground needs a restart."""

    host: str = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=65535)] = 8080
    token_variable: str = ""
    token_sha256: Digest | Literal[""] = ""
    allowed_hosts: tuple[str, ...] = ()
    """Names besides those of this machine by which browsers and clients may call a service that asks for no token."""

    reload_seconds: Seconds = 2.0
    drain_seconds: Annotated[float, Meta(ge=0, le=3600)] = 5.0
    log_decisions: bool = False
    """Whether every decision is a line of JSON on standard output."""

    log_texts: bool = False
    """Whether such a line also holds the messages."""

    playground: bool = True


class LimitSettings(ConfigTable, frozen=True):
    """What one request may be, and what all of them together; tenants divide the latter."""

    body_bytes: Count = 2_000_000
    depth: Annotated[int, Meta(ge=4, le=200)] = 64
    tools: Count = 10_000
    batch: Count = 1_000
    waiting: Count = 64
    """How many requests may be under way; more are told to come back (503)."""

    candidates: Count = 30_000
    """How many candidates they may have: the tools of rankings, and those of conversations once for every turn."""

    held_bytes: Count = 32_000_000
    """How many bytes of bodies may be here, of requests that arrive and of those under way."""

    connections: Count = 1_000
    read_seconds: Seconds = 5.0
    """In which a request has to be there whole."""

    retry_seconds: Count = 1


class LearnSettings(ConfigTable, frozen=True):
    """How policies are fitted again on what the service sees, and replaced where that pays."""

    every_hours: NotNegative = 0.0
    """How often the service looks by itself; 0 leaves it to `camdf learn`."""

    join_tenants: bool = False
    """Whether tenants that have one policy's file teach it together."""

    tasks: Count = 5_000
    """A challenger learns from so many, the newest."""

    fewest: Count = 100
    """With fewer tasks there is no challenger."""

    patience: Count = 2_000
    """After so many newer tasks, a challenger that was not shown to pay makes room for the next one. Where the evidence
    speaks for it, it has three times as many."""


class Configuration(ConfigTable, frozen=True):
    """The whole file."""

    server: ServerSettings = ServerSettings()
    limits: LimitSettings = LimitSettings()
    gate: GateSettings = GateSettings()
    learn: LearnSettings | UnsetType = UNSET
    routes: dict[Name, GateSettings] = {}
    tenants: dict[Name, TenantSettings] = {}

    def settings(self, tenant: str, route: str) -> GateSettings:
        """What holds for one route of one tenant; "" is neither."""
        layers: list[GateSettings] = [self.gate]
        if route in self.routes:
            layers.append(self.routes[route])
        if tenant:
            layers.append(own := self.tenants[tenant])
            layers += [own.routes[route]] if route in own.routes else []
        found: dict[str, Any] = {}
        for layer in layers:
            said = {
                name: value for name in GateSettings.__struct_fields__ if (value := getattr(layer, name)) is not UNSET
            }
            if "allow" in said and "allow" in found:
                said["allow"] = [name for name in said["allow"] if name in found["allow"]]
            if "rollout" in said and "rollout" in found:
                said["rollout"] = said["rollout"].over(found["rollout"])
            for one, other in (("cost_pressure", "task_worth"), ("task_worth", "cost_pressure"), ("policy", "sha256")):
                if one in said:
                    found.pop(other, None)
            found |= said
        return GateSettings(**found)

    def places(self) -> list[tuple[str, str]]:
        """Every tenant with every route that it has."""
        tenants = list(self.tenants) or [""]
        return [
            (tenant, route)
            for tenant in tenants
            for route in ("", *dict.fromkeys([*self.routes, *(self.tenants[tenant].routes if tenant else ())]))
        ]

    def policies(self) -> dict[str, list[tuple[str, str]]]:
        """Every policy that a place names, each under one spelling, and those places."""
        found: dict[str, list[tuple[str, str]]] = {}
        for place in self.places():
            source = str(self.settings(*place).policy)
            found.setdefault(source if "://" in source else os.path.normpath(source), []).append(place)
        return found

    def tokens(self) -> dict[str, str]:
        """SHA-256 of each token, and whose it is; empty where anybody may ask."""
        holders: dict[str, tuple[str, TenantSettings | ServerSettings]] = {
            name: (f"tenants.{name}", each) for name, each in self.tenants.items()
        }
        holders = holders or {"": ("server", self.server)}
        found: dict[str, str] = {}
        for tenant, (place, holder) in holders.items():
            digest = holder.token_sha256
            if holder.token_variable:
                token = os.environ.get(holder.token_variable, "")
                if len(token) < 16:
                    raise UsageError(
                        f"{place}.token_variable is {holder.token_variable!r}, and that environment variable must hold "
                        f"a token of at least 16 characters. It holds {len(token)}. Set it, for instance to the output "
                        "of: openssl rand -hex 32"
                    )
                digest = sha256(token.encode()).hexdigest()
            if digest in found:
                raise UsageError(f"{place} has the token of another tenant. Give each tenant a token of its own.")
            if digest:
                found[digest] = tenant
            elif tenant:
                raise UsageError(
                    f"{place} has no token, so nobody could be known to be that tenant. Set {place}.token_variable or "
                    f"{place}.token_sha256."
                )
        return found

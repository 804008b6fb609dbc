"""The configuration file, read and checked before anything of it is used.

An error names the key, its value and the remedy.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Sequence
from dataclasses import fields
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from camdf.errors import UsageError
from camdf.runtime.settings import checks_of
from camdf.service.config import (
    GROUPS,
    NAME,
    SHIPPED,
    START,
    UNSETTABLE,
    Configuration,
    GateSettings,
    LearnSettings,
    LimitSettings,
    ServerSettings,
)
from camdf.service.limits import is_loopback

HTTP = re.compile("https?://")

TENANT = ("token_variable", "token_sha256", "routes")
"""What a tenant's table has besides the settings of a gate."""

TOP: dict[str, type[Any]] = {"server": ServerSettings, "limits": LimitSettings, "learn": LearnSettings}


class TableOf(Protocol):
    """Names the table in which keys stand, as `Configuration.table_of` does."""

    def __call__(self, *keys: str) -> str:
        """The most special one with any of these keys."""


def parsed(text: str, name: str) -> Configuration:
    """The configuration in a file's text, or an error that names every key that is wrong, its value and the remedy."""
    configuration = tables_in(text, name)
    check_configuration(configuration, name)
    return configuration


def tables_in(text: str, name: str) -> Configuration:
    """The same, of which it is not checked that the keys make sense together, and that the tokens are there."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{name} is not TOML: {error}. Correct that line.") from None
    known = (*TOP, "gate", "routes", "tenants")
    problems = [_unknown(key, key, known) for key in document if key not in known]
    for key, kind in TOP.items():
        problems += problems_in(document.get(key, {}), kind, key)
    routes, tenants = (_tables(document.get(key, {}), key, problems) for key in ("routes", "tenants"))
    gates = {"gate": document.get("gate", {}), **{f"routes.{key}": table for key, table in routes.items()}}
    for key, table in tenants.items():
        place = f"tenants.{key}"
        token = {part: value for part, value in table.items() if part in ("token_variable", "token_sha256")}
        problems += problems_in(token, ServerSettings, place)
        gates[place] = {part: value for part, value in table.items() if part not in TENANT}
        own = _tables(table.get("routes", {}), f"{place}.routes", problems)
        gates |= {f"{place}.routes.{route}": theirs for route, theirs in own.items()}
    for place, table in gates.items():
        problems += _problems_of_gate(table, place)
    for key, table in tenants.items():
        tenants[key] = {**table, **gates[f"tenants.{key}"]}
    if problems:
        raise UsageError("\n".join(f"{name}: {problem}" for problem in problems))
    tops = {key: kind(**document[key]) for key, kind in TOP.items() if key in document}
    return Configuration(**tops, gate=gates["gate"], routes=routes, tenants=tenants)


def _problems_of_gate(table: Any, place: str) -> list[str]:
    """What is wrong with a table of a gate, where `unset` may name what the tables above it say."""
    if place == "gate" or not isinstance(table, dict) or "unset" not in table:
        return problems_in(table, GateSettings, place)
    unset = table["unset"]
    problems = problems_in({key: value for key, value in table.items() if key != "unset"}, GateSettings, place)
    if not isinstance(unset, list) or not all(key in UNSETTABLE for key in unset):
        problems.append(
            f"the key {place}.unset must be a list of keys to take nothing over of, of {', '.join(UNSETTABLE)}. Got "
            f"{unset!r} instead."
        )
    return problems


def problems_in(table: Any, kind: type[Any], place: str) -> list[str]:
    """What is wrong with a table: keys that are not known, and values that are not what they must be."""
    if not isinstance(table, dict):
        return [f"{place} must be a table, as [{place}]. Got {table!r} instead."]
    known: Any = kind
    groups = GROUPS if kind is GateSettings else {}
    names = [part.name for part in fields(kind) if part.init]
    checks = checks_of(known)
    problems = []
    for key, value in table.items():
        where = f"{place}.{key}"
        if key not in names:
            problems.append(_unknown(where, key, names))
        elif key in groups and (isinstance(value, dict) or key not in checks):
            problems += problems_in(value, groups[key], where)
        elif key in checks:
            try:
                checks[key](value)
            except ValueError as error:
                shown = "(not shown)" if key.startswith("token") else repr(value)  # somebody may have put a token there
                problems.append(f"the key {where} must be {error}. Got {shown} instead.")
    return problems


def _unknown(where: str, key: str, known: Sequence[str]) -> str:
    near = get_close_matches(key, known, n=1)
    remedy = f"Did you mean {near[0]}?" if near else f"Known there: {', '.join(sorted(known))}."
    return f"the key {where} is not known. {remedy}"


def check_configuration(configuration: Configuration, name: str) -> None:
    """Refuse what is well-formed key by key and makes no sense together."""
    tokens = configuration.tokens()
    host = configuration.server.host
    if not tokens and not is_loopback(host):
        raise UsageError(
            f"{name}: server.host is {host!r}, where others can reach the service, and there is no token. Set "
            "server.token_variable to the name of an environment variable that holds one, or leave the host out."
        )
    if configuration.tenants and (configuration.server.token_variable or configuration.server.token_sha256):
        raise UsageError(f"{name}: server has a token and so have the tenants. Leave the server's out.")
    for place in configuration.places():
        try:
            settings = configuration.settings(*place)
        except UsageError as error:
            raise UsageError(f"{name}: [{table_of_route(*place)}] {error}") from None
        problem = _contradiction(settings, partial(configuration.table_of, *place))
        if problem:
            raise UsageError(f"{name}: {problem}")
    if configuration.learn is not None and not configuration.learn.join_tenants:
        for policy, places in configuration.policies().items():
            tenants = list(dict.fromkeys(tenant for tenant, _ in places))
            if len(tenants) > 1 and policy not in SHIPPED:
                raise UsageError(
                    f"{name}: the tenants {', '.join(tenants)} have one policy, {policy}, so what one of them reports "
                    "would change what the others get. Give each a file of its own, or set learn.join_tenants = true."
                )


def _contradiction(settings: GateSettings, table_of: TableOf) -> str:
    """What makes no sense together in the settings of one place, and in which table; "" where all does."""
    if settings.cost_pressure is not None and settings.task_worth is not None:
        where = table_of("cost_pressure", "task_worth")
        return f"[{where}] has both cost_pressure and task_worth, which say the same. Leave one out."
    cuts_for_all = settings.rollout.get("share", 1.0) == 1.0 and settings.rollout.get("off", False) is False
    if settings.mode == "shadow" and not cuts_for_all:
        where = table_of("mode", "rollout.share", "rollout.off")
        return (
            f"[{where}] has a rollout, which says for whom to cut, where the mode is 'shadow', which cuts for nobody. "
            "Leave one of them out."
        )
    if settings.mean_tools is not None and settings.policy != START:
        where = table_of("mean_tools", "policy")
        return (
            f"[{where}] has mean_tools, which is for the policy {START!r}, where the policy is {settings.policy!r}. "
            f"Leave it out, or set policy = {START!r} there."
        )
    if settings.asks_a_model and not (settings.scorer.model and HTTP.match(settings.scorer.url)):
        where = table_of("scorer")
        return (
            f"[{where}.scorer] asks a language model at url {settings.scorer.url!r} and model "
            f"{settings.scorer.model!r}. Name both; the url begins with http:// or https:// and ends in /v1."
        )
    if settings.examples and (settings.asks_a_model or settings.scorer == "none"):
        where = table_of("scorer", "examples")
        return (
            f"[{where}] has examples, which are for the scorers 'start' and 'bm25', and another scorer. Leave one of "
            'them out, or set unset = ["examples"] there.'
        )
    return blind_cut(settings, table_of, "no labels") if settings.policy in SHIPPED else ""


def blind_cut(settings: GateSettings, table_of: TableOf, learned_from: str) -> str:
    """Why a policy that learned from nothing real may not cut at one place; "" where it may."""
    if settings.may_guess(settings.searches):
        return ""
    where = table_of("policy", "mode", "tool_search", "allow_cuts_without_search")
    return (
        f"[{where}] cuts tools by the policy {settings.policy!r}, which learned from {learned_from}, and there is no "
        "search for what it cuts. Set tool_search = true where your agents can run one, or mode = 'shadow' to watch "
        "first, or allow_cuts_without_search = true."
    )


def table_of_route(tenant: str, route: str) -> str:
    """The table of one route of one tenant, as errors call it."""
    return ".".join(filter(None, [f"tenants.{tenant}" if tenant else "", f"routes.{route}" if route else ""])) or "gate"


def _tables(tables: Any, key: str, problems: list[str]) -> dict[str, Any]:
    """The tables of routes or tenants, by name."""
    strange = (
        [name for name, table in tables.items() if not isinstance(table, dict)] if isinstance(tables, dict) else [key]
    )
    if strange:
        problems.append(f"{key} must hold tables, as [{key}.support]. {strange[0]!r} is none.")
        return {}
    problems += [
        f"{key} has the name {name!r}. Names have 1 to 64 letters, digits, '_', '.' or '-'."
        for name in tables
        if not re.fullmatch(NAME, name)
    ]
    return dict(tables)


def read_configuration(path: Path) -> tuple[str, str]:
    """The text of a configuration file, and its folder; for a policy alone, a configuration that names it."""
    if path.suffix == ".json":
        if not path.is_file():
            raise UsageError(f"There is no file {path}. Name a policy that camdf fit wrote, or a .toml file.")
        return f"[gate]\npolicy = {json.dumps(path.name, ensure_ascii=False)}\n", str(path.parent)
    try:
        return path.read_text(encoding="utf-8"), str(path.parent)
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8"
        raise UsageError(
            f"Cannot read {path}: {reason}. Name a .toml file, or a policy that camdf fit wrote."
        ) from None

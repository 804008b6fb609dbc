"""The configuration file, read and checked before anything of it is used.

An error names the key, its value and the remedy.
"""

from __future__ import annotations

import re
import tomllib
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from camdf.errors import UsageError, needs
from camdf.service.config import (
    COLD_STARTS,
    NAME,
    Configuration,
    GateSettings,
    LearnSettings,
    LimitSettings,
    PriceSettings,
    RolloutSettings,
    ScorerSettings,
    ServerSettings,
    TenantSettings,
)
from camdf.service.limits import is_loopback

with needs("serve"):
    import msgspec
    from msgspec import UNSET

T = TypeVar("T")

HTTP = re.compile("https?://")


def parsed(text: str, name: str) -> Configuration:
    """The configuration in a file's text, or an error that names the key, its value and the remedy."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{name} is not TOML: {error}. Correct that line.") from None
    routes, tenants = (_tables(document.pop(key, {}), key, name) for key in ("routes", "tenants"))
    found = msgspec.structs.replace(
        _converted(document, Configuration, "", name),
        routes={key: _converted(table, GateSettings, f"routes.{key}", name) for key, table in routes.items()},
        tenants={key: _tenant(table, f"tenants.{key}", name) for key, table in tenants.items()},
    )
    check_configuration(found, name)
    return found


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
    for tenant, route in configuration.places():
        settings = configuration.settings(tenant, route)
        where = table_of_route(tenant, route)
        if settings.policy is UNSET:
            raise UsageError(
                f'{name}: {where} has no policy. Set gate.policy to a file that camdf fit wrote, or to "cold-start".'
            )
        if settings.cost_pressure is not UNSET and settings.task_worth is not UNSET:
            raise UsageError(
                f"{name}: {where} has both cost_pressure and task_worth, which say the same. Leave one out."
            )
        if settings.mode == "shadow" and settings.rollout is not UNSET:
            raise UsageError(
                f"{name}: {where} has mode 'shadow', which cuts for nobody, and a rollout, which says for whom. "
                "Leave one of them out."
            )
        scorer = settings.scorer
        llm = scorer if isinstance(scorer, ScorerSettings) and scorer.kind == "llm" else None
        if llm is not None and not (llm.model and HTTP.match(llm.url)):
            raise UsageError(
                f"{name}: {where}.scorer asks a language model at url {llm.url!r} and model {llm.model!r}. "
                "Name both; the url begins with http:// or https:// and ends in /v1."
            )

    if configuration.learn is not UNSET and not configuration.learn.join_tenants:
        for policy, places in configuration.policies().items():
            tenants = list(dict.fromkeys(tenant for tenant, _ in places))
            if len(tenants) > 1 and policy not in COLD_STARTS:
                raise UsageError(
                    f"{name}: the tenants {', '.join(tenants)} have one policy, {policy}, so what one of them reports "
                    "would change what the others get. Give each a file of its own, or set learn.join_tenants = true."
                )


def table_of_route(tenant: str, route: str) -> str:
    """The table of one route of one tenant, as errors call it."""
    return ".".join(filter(None, [f"tenants.{tenant}" if tenant else "", f"routes.{route}" if route else ""])) or "gate"


def _tables(found: Any, key: str, name: str) -> dict[str, dict[str, Any]]:
    strange = (
        [each for each, table in found.items() if not isinstance(table, dict)] if isinstance(found, dict) else [key]
    )
    if strange:
        raise UsageError(f"{name}: {key} must hold tables, as [{key}.support]. {strange[0]!r} is none.")
    for each in found:
        if not re.fullmatch(NAME, each):
            raise UsageError(
                f"{name}: {key} has the name {each!r}. Names have 1 to 64 letters, digits, '_', '.' or '-'."
            )
    return dict(found)


def _tenant(table: dict[str, Any], place: str, name: str) -> TenantSettings:
    own = dict(table)
    routes = _tables(own.pop("routes", {}), f"{place}.routes", name)
    found = _converted(own, TenantSettings, place, name)
    return msgspec.structs.replace(
        found,
        routes={key: _converted(each, GateSettings, f"{place}.routes.{key}", name) for key, each in routes.items()},
    )


def _converted(table: dict[str, Any], kind: type[T], place: str, name: str) -> T:
    try:
        return msgspec.convert(table, kind)
    except msgspec.ValidationError as error:
        raise UsageError(f"{name}: {_told(str(error), table, kind, place)}") from None


def _told(problem: str, table: dict[str, Any], kind: Any, place: str) -> str:
    """What msgspec found, with the key, its value and what to do."""
    what, _, where = problem.partition(" - at `$")
    path = [part for part in re.split(r"[.\[]", where.rstrip("`")) if part and part not in ("...]",)]
    key = ".".join([*([place] if place else []), *path])
    if unknown := re.search(r"unknown field `(.+)`", what):
        known = sorted(_fields(kind, path))
        near = get_close_matches(unknown[1], known, n=1)
        remedy = f"Did you mean {near[0]}?" if near else f"Known there: {', '.join(known)}."
        return f"the key {'.'.join(filter(None, [key, unknown[1]]))} is not known. {remedy}"
    value: Any = table
    for part in path:
        value = value.get(part) if isinstance(value, dict) else value
    if path and path[-1].startswith("token"):
        value = "(not shown)"  # somebody may have put a token there
    said = what[0].lower() + what[1:]
    if what.startswith("Invalid enum value"):
        said = f"it must be one of {', '.join(map(repr, _choices(kind, path)))}"
    return f"the key {key or 'at the top'} is {value!r}: {said}. Correct it, or leave it out for the default."


def _choices(kind: Any, path: list[str]) -> list[str]:
    """The words that a key takes, which stands at a path inside a table."""
    table = _table_at(kind, path[:-1])
    annotated = get_type_hints(table)[path[-1]]
    return [
        word for part in (annotated, *get_args(annotated)) if get_origin(part) is Literal for word in get_args(part)
    ]


def _fields(kind: Any, path: list[str]) -> tuple[str, ...]:
    """The keys of a table, which stands at a path inside another."""
    fields: tuple[str, ...] = _table_at(kind, path).__struct_fields__
    return fields


def _table_at(kind: Any, path: list[str]) -> Any:
    """The kind of table that stands at a path inside another."""
    inner = {
        "server": ServerSettings,
        "limits": LimitSettings,
        "learn": LearnSettings,
        "gate": GateSettings,
        "prices": PriceSettings,
        "scorer": ScorerSettings,
        "rollout": RolloutSettings,
    }
    for part in path:
        kind = inner.get(part, kind)
    return kind


def read_configuration(path: Path) -> tuple[str, str]:
    """The text of a configuration file, and its folder; for a policy alone, a configuration that names it."""
    if path.suffix == ".json":
        if not path.is_file():
            raise UsageError(f"There is no file {path}. Name a policy that camdf fit wrote, or a .toml file.")
        return f"[gate]\npolicy = {_quoted(path.name)}\n", str(path.parent)
    try:
        return path.read_text(encoding="utf-8"), str(path.parent)
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8"
        raise UsageError(
            f"Cannot read {path}: {reason}. Name a .toml file, or a policy that camdf fit wrote."
        ) from None


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'

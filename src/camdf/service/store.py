"""What serves now: a configuration and its gates, made whole, tried, and only then put in the place of the old ones.

A request takes `VersionStore.current` once and decides by it to the end, so no decision mixes two versions. What cannot
be used changes nothing for those who would use it: a configuration leaves all as it was, and a file of one tenant
leaves that tenant's settings and files as they last were good, while the others go on to the new ones. The last good
version of each tenant is kept on disk for the next start.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from hashlib import sha256
from pathlib import Path
from typing import Any

from camdf.datasets.examples import examples_in, past_tasks
from camdf.errors import CamdfError, UsageError, require
from camdf.gate import Gate
from camdf.gate.privilege import effects_in
from camdf.policies.artifact import LARGEST_FILE
from camdf.runtime.files import locked, write_whole
from camdf.service import config_file, rollouts
from camdf.service.config import SHIPPED, Configuration, GateSettings
from camdf.service.config_file import TableOf
from camdf.service.gates import gate_of, is_made_up, policy_of, warm

LOG = logging.getLogger("camdf.service")
LARGEST = {"policy": LARGEST_FILE, "examples": 32_000_000, "privilege.file": 4_000_000}
"""How many bytes a file may have that one of these keys names."""

LOCK = "write.lock"
"""The file of a state folder that its writers lock."""

LAST_GOOD = "last-good-{}.json"
"""Its file with the last good version of a configuration, by the hash of the configuration's path."""


@contextmanager
def writing(state: Path) -> Iterator[None]:
    """Write to a state folder: either the service that has it does, or `camdf forget`."""
    lock = state / LOCK
    if not lock.exists():
        lock.touch()
    with locked(lock, wait=True):
        yield


@dataclass(frozen=True)
class TenantTexts:
    """The texts that the gates of one tenant are made of."""

    configuration: str
    policies: Mapping[str, str]
    """By what the configuration calls them."""

    examples: Mapping[str, str]
    """The same, of files of examples."""

    effects: Mapping[str, str] = field(default_factory=dict)
    """The same, of files of effects. No last good version has them: what may run is read anew at every start."""


@dataclass(frozen=True)
class ConfigurationTexts:
    """The texts that a version is made of."""

    name: str
    """What the configuration's file is called, for errors."""

    folder: str
    """Where paths of policies and switches begin."""

    configuration: str
    tenants: Mapping[str, TenantTexts]
    unreadable: Mapping[str, str] = field(default_factory=dict)
    """Why the files of other tenants cannot be read."""


@dataclass(frozen=True)
class RouteGate:
    """One gate and what it was made of."""

    gate: Gate
    settings: GateSettings
    policy_sha256: str
    examples: str

    def may_cut(self, searches: bool) -> bool:
        """Whether it may cut for agents that can search, or cannot: a policy that learned from nothing real may not."""
        learned = self.settings.policy not in SHIPPED and not is_made_up(self.gate.policy)
        return learned or self.settings.may_guess(searches)


@dataclass(frozen=True)
class TenantVersion:
    """What serves one tenant."""

    texts: TenantTexts
    routes: Mapping[str, RouteGate]


NOTHING_BEFORE = TenantVersion(TenantTexts("", {}, {}), {})
"""Of a tenant that had no version."""


@dataclass(frozen=True)
class ServedVersion:
    """One version, whole: nothing in it ever changes."""

    name: str
    text: str
    configuration: Configuration
    tokens: Mapping[str, str]
    """SHA-256 of a token to its tenant."""

    tenants: Mapping[str, TenantVersion]
    """What serves each tenant that has a good version, made of its files as they are now or as they were."""

    refused: Mapping[str, str]
    """Why the files of a tenant as they are now are not used."""

    @cached_property
    def places(self) -> Mapping[tuple[str, str], RouteGate]:
        """By tenant and route."""
        return {(tenant, route): gate for tenant, own in self.tenants.items() for route, gate in own.routes.items()}

    @cached_property
    def digest(self) -> str:
        """SHA-256 over all texts that serve."""
        by_tenant = {tenant: own.texts for tenant, own in self.tenants.items()}
        digests = dict[str, str]()

        def digest_of(text: str) -> str:
            if text not in digests:
                digests[text] = sha256(text.encode()).hexdigest()
            return digests[text]

        parts = [digest_of(self.text)]
        for tenant, texts in sorted(by_tenant.items()):
            parts += [tenant, digest_of(texts.configuration)]
            for files in (texts.policies, texts.examples, texts.effects):
                parts += [f"{source} {digest_of(text)}" for source, text in sorted(files.items())]
        return sha256("\n".join(parts).encode()).hexdigest()

    def routes_of(self, tenant: str) -> Mapping[str, RouteGate]:
        """What serves a tenant, by route; nothing where none of its versions was good."""
        if tenant not in self.tenants:
            return {}
        return self.tenants[tenant].routes

    def number_of(self, tenant: str) -> int:
        """The place of a tenant in the configuration, by which metrics know it; from 1."""
        return self.configuration.holders().index(tenant) + 1


class SourceFiles:
    """The files that a configuration names, each read once for all tenants that name it."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._known = dict[tuple[str, str], str]()

    def text(self, source: str, key: str, table: str) -> str:
        """The text of a file that a key of a table names; of one that is too large, more than the largest has."""
        if (source, key) not in self._known:
            try:
                self._known[source, key] = self._content_of(source, LARGEST[key])
            except Exception as error:  # a file system of fsspec raises what it likes
                reason = getattr(error, "strerror", None) or type(error).__name__
                raise UsageError(
                    f"Cannot read the {key} {source}: {reason}. Correct {table}.{key}, or put the file there."
                ) from None
        return self._known[source, key]

    def _content_of(self, source: str, largest: int) -> str:
        if "://" in source:
            with require("fsspec", "serve").open(source, "rb") as file:
                content = file.read(largest + 1)
        else:
            with open(os.path.join(self._folder, source), "rb") as file:
                content = file.read(largest + 1)
        return str(content.decode("utf-8"))


def sources_of(path: Path) -> ConfigurationTexts:
    """Read a configuration and every file that it names."""
    text, folder = config_file.read_configuration(path)
    configuration = config_file.parsed(text, path.name)
    files = SourceFiles(folder)
    tenants = dict[str, TenantTexts]()
    unreadable = dict[str, str]()
    for tenant in configuration.holders():
        try:
            tenants[tenant] = _texts_of_tenant(configuration, tenant, text, folder, files)
        except Exception as error:
            unreadable[tenant] = f"{path.name}: {_safe_words(error)}"
    return ConfigurationTexts(path.name, folder, text, tenants, unreadable)


def _texts_of_tenant(
    configuration: Configuration, tenant: str, text: str, folder: str, files: SourceFiles
) -> TenantTexts:
    policies = dict[str, str]()
    examples = dict[str, str]()
    effects = dict[str, str]()
    for route in configuration.routes_of(tenant):
        settings = configuration.settings(tenant, route)
        table_of = partial(configuration.table_of, tenant, route)
        if settings.privilege is not None and (file := settings.privilege.file):
            effects[file] = files.text(file, "privilege.file", table_of("privilege"))
        rollouts.check_rollout(settings.rollout, table_of, folder)
        if settings.policy not in SHIPPED:
            policies[settings.policy] = files.text(settings.policy, "policy", table_of("policy"))
        if settings.examples:
            examples[settings.examples] = files.text(settings.examples, "examples", table_of("examples"))
    return TenantTexts(text, policies, examples, effects)


def _safe_words(error: Exception) -> str:
    """What an error says; of one that is not ours, only its type, since its words may hold what users wrote."""
    return str(error) if isinstance(error, CamdfError) else type(error).__name__


def made(found: ConfigurationTexts, before: ServedVersion | None = None) -> ServedVersion:
    """A version from its texts; a tenant whose texts cannot be used has what `before` has, if anything.

    Gates whose settings and files did not change are those of `before`. An error is one of the configuration.
    """
    configuration = config_file.parsed(found.configuration, found.name)
    earlier = {} if before is None else before.tenants
    shared = _shared_past_requests(found, earlier)
    tenants = dict[str, TenantVersion]()
    refused = dict(found.unreadable)
    for tenant in configuration.holders():
        texts = found.tenants.get(tenant)
        if texts is not None:
            own = configuration
            try:
                if texts.configuration != found.configuration:
                    own = config_file.tables_in(texts.configuration, found.name)
                served_before = earlier.get(tenant, NOTHING_BEFORE)
                tenants[tenant] = _tenant_version(own, tenant, texts, found.folder, served_before, shared)
            except Exception as error:
                refused[tenant] = f"{found.name}: {_safe_words(error)}"
        if tenant in refused and tenant in earlier:
            tenants[tenant] = earlier[tenant]
    return ServedVersion(found.name, found.configuration, configuration, configuration.tokens(), tenants, refused)


def _tenant_version(
    configuration: Configuration,
    tenant: str,
    texts: TenantTexts,
    folder: str,
    before: TenantVersion,
    shared: frozenset[str],
) -> TenantVersion:
    routes = dict[str, RouteGate]()
    for route in configuration.routes_of(tenant):
        settings = configuration.settings(tenant, route)
        examples = texts.examples.get(settings.examples, "")
        table_of = partial(configuration.table_of, tenant, route)
        settings = _with_effects(settings, texts, folder, table_of)
        if examples in shared and examples not in before.texts.examples.values():
            raise UsageError(
                f"[{table_of('examples')}] names a file of past requests, {settings.examples}, that another tenant has "
                "too, and what one of them asked is not for the other. Give each its own."
            )
        content = texts.policies.get(settings.policy, settings.policy)
        digest = sha256(content.encode()).hexdigest()
        old = before.routes.get(route)
        if old is not None and (old.settings, old.policy_sha256, old.examples) == (settings, digest, examples):
            routes[route] = old
        else:
            gate = _tried_gate(settings, content, digest, examples, folder, table_of)
            routes[route] = RouteGate(gate, settings, digest, examples)
    return TenantVersion(texts, routes)


def _with_effects(settings: GateSettings, texts: TenantTexts, folder: str, table_of: TableOf) -> GateSettings:
    """The settings with the effects in the file that their privilege names."""
    privilege = settings.privilege
    if privilege is None or not privilege.file:
        return settings
    content = texts.effects.get(privilege.file)
    if content is None:
        content = SourceFiles(folder).text(privilege.file, "privilege.file", table_of("privilege"))
    effects = {**effects_in(content.encode(), privilege.file), **privilege.effects}
    return replace(settings, privilege=replace(privilege, effects=effects, file=""))


def _tried_gate(
    settings: GateSettings, content: str, digest: str, examples: str, folder: str, table_of: TableOf
) -> Gate:
    """A gate from the texts of its policy and its examples, or an error that names the table."""
    source = settings.policy
    if settings.sha256 and settings.sha256 != digest:
        raise UsageError(
            f"[{table_of('policy', 'sha256')}] The policy {source} has the SHA-256 {digest}, and sha256 says "
            f"{settings.sha256}. Put the file there that was meant, or correct sha256."
        )
    if settings.examples and not examples:  # it may be half written
        raise UsageError(
            f"[{table_of('examples')}] The file of examples {settings.examples} is empty. Write it with camdf "
            "examples, or leave examples out."
        )
    try:
        policy = policy_of(source, content, settings)
    except CamdfError as error:
        raise UsageError(f"[{table_of('policy')}] policy = {source!r}: {error}") from None
    if is_made_up(policy) and (problem := config_file.blind_cut(settings, table_of, "made-up labels alone")):
        raise UsageError(problem)
    try:
        gate = gate_of(settings, policy, folder, examples)
    except CamdfError as error:
        raise UsageError(f"[{table_of('policy', 'scorer', 'examples', 'privilege')}] {error}") from None
    warm(gate)
    return gate


def _shared_past_requests(found: ConfigurationTexts, earlier: Mapping[str, TenantVersion]) -> frozenset[str]:
    """Files of past requests that two tenants have, now or before: what one of them asked is not for the other."""
    owners = dict[str, set[str]]()
    by_tenant = [*found.tenants.items(), *((tenant, own.texts) for tenant, own in earlier.items())]
    for tenant, texts in by_tenant:
        for content in texts.examples.values():
            owners.setdefault(content, set()).add(tenant)
    twice = [content for content, tenants in owners.items() if len(tenants) > 1]
    return frozenset(content for content in twice if _holds_past_requests(content))


def _holds_past_requests(content: str) -> bool:
    try:
        return past_tasks(examples_in(content, "the examples")) is not None
    except CamdfError:
        return False  # it is refused for that


def kept_as(texts: ConfigurationTexts) -> dict[str, Any]:
    """What is kept of a version: the texts of all tenants once, and by tenant those that differ from them."""
    policies = dict[str, str]()
    examples = dict[str, str]()
    behind = dict[str, dict[str, Any]]()
    for tenant, own in texts.tenants.items():
        is_same = own.configuration == texts.configuration
        if is_same and _agree(own.policies, policies) and _agree(own.examples, examples):
            policies |= own.policies
            examples |= own.examples
        else:
            behind[tenant] = vars(own)
    head = {"name": texts.name, "folder": texts.folder, "configuration": texts.configuration}
    return {**head, "policies": policies, "examples": examples, "behind": behind}


def _agree(one: Mapping[str, str], other: Mapping[str, str]) -> bool:
    return all(other.get(source, text) == text for source, text in one.items())


def texts_kept(kept: Mapping[str, Any]) -> ConfigurationTexts:
    """The same, read back."""
    name = kept["name"]
    text = kept["configuration"]
    configuration = config_file.tables_in(text, name)
    tenants = dict[str, TenantTexts]()
    for tenant in configuration.holders():
        if tenant in kept["behind"]:
            tenants[tenant] = TenantTexts(**kept["behind"][tenant])
            continue
        settings = [configuration.settings(tenant, route) for route in configuration.routes_of(tenant)]
        policies = {own.policy for own in settings if own.policy not in SHIPPED}
        examples = {own.examples for own in settings if own.examples}
        if policies <= kept["policies"].keys() and examples <= kept["examples"].keys():
            tenants[tenant] = TenantTexts(
                text,
                {source: kept["policies"][source] for source in policies},
                {source: kept["examples"][source] for source in examples},
            )
    return ConfigurationTexts(name, kept["folder"], text, tenants)


class VersionStore:
    """The version that serves, and the files it is read from."""

    def __init__(self, path: Path, state: Path) -> None:
        self.path = path
        self.state = state
        whose = sha256(str(path.resolve()).encode()).hexdigest()[:16]
        self.last_good = state / LAST_GOOD.format(whose)
        """The last version of this very file that worked: another configuration may share the folder."""

        self.refused = ""
        """Why the configuration as it is now is not used."""

        self.swaps = self.refusals = 0
        self._last_read: ConfigurationTexts | None = None
        self._refused_before: Mapping[str, str] = {}
        state.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.current = self._first_version()
        self._log_refused(self.current)

    @property
    def refusing(self) -> bool:
        """Whether anything of the files as they are now is not used."""
        return bool(self.refused or self.current.refused)

    def why_refused(self, tenant: str) -> str:
        """Why the files as they are now are not used, as a tenant may know it: not in words about another one."""
        if self.refused and tenant:
            return "The configuration as it is now is refused; the service's log says why."
        return self.refused or self.current.refused.get(tenant, "")

    def refresh(self) -> bool:
        """Read the files again; a good change serves from now on, a bad one is refused. True where one serves."""
        try:
            texts = sources_of(self.path)
            if texts == self._last_read and not self.refusing:
                return False
            self._check_whole(texts, self.current.text)
            serving = made(texts, self.current)
            if self.current.tokens and not serving.tokens:
                raise UsageError(
                    f"{self.path.name}: there is no token, and the service that runs asks for one. Put it back, or "
                    "start the service again, to answer without a token."
                )
        except Exception as error:
            self._refuse_files(error)
            return False
        self._log_refused(serving)
        is_new = serving.digest != self.current.digest
        if is_new:
            self._keep_last_good(texts, serving)
            self._log_swap(serving)
            self.swaps += 1
        self.current = serving
        self.refused = ""
        self._last_read = texts
        return is_new

    def _log_swap(self, serving: ServedVersion) -> None:
        old = self.current.configuration.server
        new = serving.configuration.server
        if (old.host, old.port, old.playground) != (new.host, new.port, new.playground):
            LOG.warning("server.host, server.port and server.playground are read at the start: restart to change them")
        LOG.info("Serving %s, %s", serving.name, serving.digest[:12])

    def _first_version(self) -> ServedVersion:
        """The version to begin with: of the files as they are now, and of what was kept where those cannot be used."""
        try:
            texts = sources_of(self.path)
            if not texts.configuration:
                kept = self._kept_texts()
                if kept is not None:
                    self._check_whole(texts, kept.configuration)
            serving = made(texts)
        except CamdfError as error:
            serving = self._last_good(error)
            self._refuse_files(error)
            return serving
        if serving.refused:
            problem = UsageError("\n".join(dict.fromkeys(serving.refused.values())))
            try:
                serving = made(texts, self._last_good(problem))
            except CamdfError as error:
                problem = UsageError(str(error))
            if not serving.tenants:
                raise problem
        self._last_read = texts
        self._keep_last_good(texts, serving)
        return serving

    def _check_whole(self, texts: ConfigurationTexts, before: str) -> None:
        """Refuse a file that is empty where it was not: somebody may be writing it, and empty means the defaults."""
        if before and not texts.configuration:
            raise UsageError(
                f"{texts.name} is empty, and was not before, so it may be half written. Put back what it said, or "
                "write [gate] into it for the defaults."
            )

    def _refuse_files(self, error: Exception) -> None:
        words = _safe_words(error)
        if words != self.refused:
            self.refusals += 1
            LOG.error("Refused, and the last good version goes on: %s", words)
        self.refused = words

    def _log_refused(self, serving: ServedVersion) -> None:
        """Log what is refused of which tenants, once."""
        news = dict[str, list[str]]()
        for tenant, words in serving.refused.items():
            if self._refused_before.get(tenant) != words:
                news.setdefault(words, []).append(tenant)
        for words, tenants in news.items():
            self.refusals += 1
            if tenants == [""]:
                LOG.error("Refused, and the last good version goes on: %s", words)
                continue
            named = [f"{tenant} (number {serving.number_of(tenant)})" for tenant in tenants]
            without = [tenant for tenant in tenants if tenant not in serving.tenants]
            then = f" Nothing serves {', '.join(without)}, which had none." if without else ""
            LOG.error("Refused, and the last good version goes on, of %s: %s%s", ", ".join(named), words, then)
        self._refused_before = serving.refused

    def _last_good(self, error: CamdfError) -> ServedVersion:
        """The version that served before this process began; where there is none that can be used, the error."""
        try:
            kept = self._kept_texts()
            serving = None if kept is None else made(kept)
        except CamdfError as another:
            raise UsageError(f"{error}\n{another}") from None
        if serving is None or not serving.tenants:
            raise error
        return serving

    def _kept_texts(self) -> ConfigurationTexts | None:
        """What is kept of the last good version; None where nothing was."""
        try:
            content = self.last_good.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise UsageError(f"Cannot read the last good version {self.last_good}: {error.strerror}.") from None
        try:
            return texts_kept(json.loads(content))
        except (CamdfError, ValueError, TypeError, KeyError, AttributeError):
            raise UsageError(
                f"The last good version {self.last_good} is not as the service writes it. Delete it."
            ) from None

    def _keep_last_good(self, texts: ConfigurationTexts, serving: ServedVersion) -> None:
        """Write what is good to disk in one step. A full disk costs the next start, not this one.

        Of a tenant that is refused, and of one whose examples are no longer as they were read, what was kept stays:
        `camdf forget` may have deleted some of it. The next version, which is without them, is kept.
        """
        try:
            with writing(self.state):
                before = self._kept_texts_or_none()
                files = SourceFiles(texts.folder)
                tenants = dict[str, TenantTexts]()
                for tenant, own in serving.tenants.items():
                    if tenant not in serving.refused and _are_as_read(own.texts, files):
                        tenants[tenant] = own.texts
                    elif before is not None and tenant in before.tenants:
                        tenants[tenant] = before.tenants[tenant]
                kept = kept_as(ConfigurationTexts(texts.name, texts.folder, texts.configuration, tenants))
                write_whole(self.last_good, json.dumps(kept).encode(), private=True)
        except OSError as error:
            LOG.warning("The last good version could not be kept on disk: %s", error.strerror)

    def _kept_texts_or_none(self) -> ConfigurationTexts | None:
        try:
            return self._kept_texts()
        except UsageError:
            return None


def _are_as_read(texts: TenantTexts, files: SourceFiles) -> bool:
    """Whether the files of examples are still as they were read."""
    try:
        return all(files.text(source, "examples", "") == text for source, text in texts.examples.items())
    except UsageError:
        return False

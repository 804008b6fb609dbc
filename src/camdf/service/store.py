"""What serves now: a configuration and its gates, made whole, tried, and only then put in the place of the old ones.

A request takes `VersionStore.current` once and decides by it to the end, so no decision mixes two versions. A
configuration or a policy that cannot be used changes nothing: the last good one goes on, and is kept on disk for the
next start.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

from camdf._files import locked, write_whole
from camdf.datasets.examples import examples_in, past_tasks
from camdf.errors import CamdfError, UsageError, require
from camdf.gate import Gate
from camdf.policies.artifact import LARGEST_FILE
from camdf.service import config_file, rollouts
from camdf.service.config import SHIPPED, Configuration, GateSettings
from camdf.service.gates import gate_of, is_made_up, policy_of, warm

LOG = logging.getLogger("camdf.service")
LARGEST_EXAMPLES = 32_000_000
"""Bytes."""


LOCK, LAST_GOOD = "write.lock", "last-good-{}.json"
"""Files of a state folder: the one that its writers lock, and the last good version of a configuration, by its path."""


@contextmanager
def writing(state: Path) -> Iterator[None]:
    """Write to a state folder: either the service that has it does, or `camdf forget`."""
    lock = state / LOCK
    if not lock.exists():
        lock.touch()
    with locked(lock, wait=True):
        yield


@dataclass(frozen=True)
class ConfigurationTexts:
    """The texts that a version is made of."""

    name: str
    """What the configuration's file is called, for errors."""

    folder: str
    """Where paths of policies and switches begin."""

    configuration: str
    policies: Mapping[str, str]
    """By what the configuration calls them."""

    examples: Mapping[str, str] = field(default_factory=dict)
    """The same, of files of examples."""

    @property
    def digest(self) -> str:
        """SHA-256 over all of it."""
        parts = [self.configuration, dict(self.policies), dict(self.examples)]
        return sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True)
class RouteGate:
    """One gate and what it was made of."""

    gate: Gate
    policy_sha256: str
    made_of: tuple[GateSettings, str, str]


@dataclass(frozen=True)
class ServedVersion:
    """One version, whole: nothing in it ever changes."""

    configuration: Configuration
    tokens: Mapping[str, str]
    """SHA-256 of a token to its tenant."""

    places: Mapping[tuple[str, str], RouteGate]
    """By tenant and route."""

    digest: str


def sources_of(path: Path) -> ConfigurationTexts:
    """Read a configuration and every policy that it names."""
    text, folder = config_file.read_configuration(path)
    configuration = config_file.parsed(text, path.name)
    settings = [configuration.settings(*place) for place in configuration.places()]
    for own, place in zip(settings, configuration.places(), strict=True):
        rollouts.check_rollout(own.rollout, f"{path.name}: {config_file.table_of_route(*place)}", folder)
    named = dict.fromkeys(own.policy for own in settings if own.policy not in SHIPPED)
    examples = dict.fromkeys(own.examples for own in settings if own.examples)
    return ConfigurationTexts(
        path.name,
        folder,
        text,
        {source: _content(source, folder, "policy", LARGEST_FILE) for source in named},
        _examples(examples, folder),
    )


def made(sources: ConfigurationTexts, before: ServedVersion | None = None) -> ServedVersion:
    """A version from its texts, or an error; gates whose settings did not change are those of `before`."""
    configuration = config_file.parsed(sources.configuration, sources.name)
    _check_owners(configuration, sources)
    places = {}
    for place in configuration.places():
        settings = configuration.settings(*place)
        source = settings.policy
        content = sources.policies.get(source, source)
        digest = sha256(content.encode()).hexdigest()
        if settings.sha256 and settings.sha256 != digest:
            raise UsageError(
                f"{sources.name}: the policy {source} has the SHA-256 {digest}, and sha256 says {settings.sha256}. "
                "Put the file there that was meant, or correct sha256."
            )
        examples = sources.examples.get(settings.examples, "")
        if settings.examples and not examples:  # it may be half written
            raise UsageError(
                f"{sources.name}: the file of examples {settings.examples} is empty. Write it with camdf examples, or "
                "leave gate.examples out."
            )
        made_of = (settings, digest, examples)
        old = before.places.get(place) if before is not None else None
        if old is None or old.made_of != made_of:
            policy = policy_of(source, content, settings)
            where = config_file.table_of_route(*place)
            if is_made_up(policy) and (problem := config_file.blind_cut(settings, where, "made-up labels alone")):
                raise UsageError(f"{sources.name}: {problem}")
            gate = gate_of(settings, policy, sources.folder, examples)
            warm(gate)
            old = RouteGate(gate, digest, made_of)
        places[place] = old
    return ServedVersion(configuration, configuration.tokens(), places, sources.digest)


def _check_owners(configuration: Configuration, sources: ConfigurationTexts) -> None:
    """Refuse past requests that two tenants would share: what one of them asked is not for the other."""
    owners: dict[str, dict[str, str]] = {}
    for tenant, route in configuration.places():
        source = configuration.settings(tenant, route).examples
        owners.setdefault(sources.examples.get(source, ""), {}).setdefault(tenant, source)
    for content, tenants in owners.items():
        if len(tenants) > 1 and past_tasks(examples_in(content, "the examples")) is not None:
            raise UsageError(
                f"{sources.name}: the tenants {', '.join(tenants)} have one file of past requests, "
                f"{next(iter(tenants.values()))}, and what one of them asked is not for the others. Give each its own."
            )


def _examples(sources: Iterable[str], folder: str) -> dict[str, str]:
    return {source: _content(source, folder, "examples", LARGEST_EXAMPLES) for source in sources}


def _content(source: str, folder: str, key: str, largest: int) -> str:
    """The text of a file that the configuration names; of one that is too large, more than the largest has."""
    try:
        if "://" in source:
            with require("fsspec", "serve").open(source, "rb") as file:
                content = file.read(largest + 1)
        else:
            with open(os.path.join(folder, source), "rb") as file:
                content = file.read(largest + 1)
        return str(content.decode("utf-8"))
    except Exception as error:  # a file system of fsspec raises what it likes
        reason = getattr(error, "strerror", None) or type(error).__name__
        raise UsageError(
            f"Cannot read the {key} {source}: {reason}. Correct gate.{key}, or put the file there."
        ) from None


class VersionStore:
    """The version that serves, and the files it is read from."""

    def __init__(self, path: Path, state: Path) -> None:
        self.path, self.state = path, state
        whose = sha256(str(path.resolve()).encode()).hexdigest()[:16]
        self.last_good = state / LAST_GOOD.format(whose)
        """The last version of this very file that worked: another configuration may share the folder."""

        self.refused = ""
        """Why the files as they are now are not used."""

        self.swaps = self.refusals = 0
        self._seen = ""
        state.mkdir(parents=True, exist_ok=True)
        try:
            sources = sources_of(path)
            self.current = made(sources)
        except CamdfError as error:
            self.current = self._last_good(error)
            self._refuse(error)
        else:
            self._seen = sources.digest
            self._keep(sources)

    def refresh(self) -> bool:
        """Read the files again; a good change serves from now on, a bad one is refused. True where one serves."""
        try:
            sources = sources_of(self.path)
            if sources.digest == self._seen and not self.refused:
                return False
            if sources.digest == self.current.digest:
                self.refused, self._seen = "", sources.digest
                return False
            serving = made(sources, self.current)
        except Exception as error:
            self._refuse(error)
            return False
        self._keep(sources)
        old, new = self.current.configuration.server, serving.configuration.server
        if (old.host, old.port, old.playground) != (new.host, new.port, new.playground):
            LOG.warning("server.host, server.port and server.playground are read at the start: restart to change them")
        self.current, self.refused, self._seen = serving, "", sources.digest
        self.swaps += 1
        LOG.info("Serving %s, %s", sources.name, sources.digest[:12])
        return True

    def _refuse(self, error: Exception) -> None:
        words = str(error) if isinstance(error, CamdfError) else type(error).__name__
        if words != self.refused:
            self.refusals += 1
            LOG.error("Refused, and the last good version goes on: %s", words)
        self.refused = words

    def _last_good(self, error: CamdfError) -> ServedVersion:
        """The version that served before this process began; where there is none, the error."""
        try:
            kept = json.loads(self.last_good.read_text(encoding="utf-8"))
            return made(ConfigurationTexts(**kept))
        except (OSError, ValueError, TypeError):
            raise error from None

    def _keep(self, sources: ConfigurationTexts) -> None:
        """Write a good version to disk in one step. A full disk costs the next start, not this one.

        Examples that are no longer as they were read are not written back: `camdf forget` deleted some. The next
        version, which is without them, is kept.
        """
        try:
            with writing(self.state):
                if sources.examples == _examples(sources.examples, sources.folder):
                    write_whole(self.last_good, json.dumps(vars(sources)).encode())
        except (OSError, UsageError) as error:
            LOG.warning("The last good version could not be kept on disk: %s", getattr(error, "strerror", error))

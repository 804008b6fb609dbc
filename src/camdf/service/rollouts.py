"""From settings to a `Rollout`: a share of conversations and a kill switch, each a value, a file or a flag.

Files and flags are read while the service runs, so a change needs no new version. That they say something which can be
used is checked with the rest of the configuration.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from camdf.errors import UsageError
from camdf.gate import Rollout, value_in_file
from camdf.runtime.settings import Check, share, truth
from camdf.runtime.switch import LONGEST, PATIENCE
from camdf.runtime.workers import BusyError, Workers
from camdf.service.config import Table

SOURCES: dict[str, tuple[Check, str]] = {"share": (share, "0.2"), "off": (truth, "false")}
"""What a file or a flag may say: how it is checked, and an example."""

FLAG_READER = Workers(1)
"""A client may hang, and must not hold up what else is read again."""


def rollout_of(table: Table, folder: str) -> Rollout:
    """One for all gates that ask for the same, so that a file is read once for a thousand tenants."""
    return _rollout(json.dumps(dict(table), sort_keys=True), folder)


@lru_cache(maxsize=1024)
def _rollout(written: str, folder: str) -> Rollout:
    settings = json.loads(written)
    for name in SOURCES:
        if name in settings:
            settings[name] = _source(name, settings[name], folder)
    return Rollout(**settings)


def check_rollout(table: Table, table_of: Callable[[str], str], folder: str) -> None:
    """Refuse files and flags that say nothing which can be used, with the key, the value and the remedy."""
    for name, (checked, example) in SOURCES.items():
        source = table.get(name)
        key = f"{table_of(f'rollout.{name}')}.rollout.{name}"
        if isinstance(source, str):
            _check_file(Path(folder, source), checked, f"{key} is the file {source!r}", example)
        elif isinstance(source, dict):
            _check_flag(source["flag"], name, f"{key} is the flag {source['flag']!r}")


def _source(name: str, value: Any, folder: str) -> Any:
    if isinstance(value, dict):
        flag = value["flag"]
        return partial(_value_of_flag, _client(f"rollout names the flag {flag!r}"), flag, name)
    if isinstance(value, str):
        return value_in_file(os.path.join(folder, value))
    return value


def _value_of_flag(client: Any, flag: str, name: str) -> Any:
    """What a flag says; a LookupError where a client has only its default, so that the last good value stands."""
    details = _details_of_flag(client, flag, name)
    if details.error_code:
        raise LookupError(details.error_code)
    return details.value


def _details_of_flag(client: Any, flag: str, name: str) -> Any:
    if name == "share":
        return client.get_float_details(flag, 0.0)
    return client.get_boolean_details(flag, True)


def _check_file(path: Path, checked: Callable[[Any], Any], said: str, example: str) -> None:
    remedy = f"Write for instance {example} into it, or give the value itself, without quotes."
    try:
        value = value_in_file(path)()
    except OSError as error:
        raise UsageError(f"{said}, which cannot be read: {error.strerror}. {remedy}") from None
    except ValueError:
        value = None  # which is neither a share nor a truth
    try:
        checked(value)
    except ValueError as error:
        holds = _beginning_of(path).decode(errors="replace").strip()
        raise UsageError(f"{said}, which must hold {error}. It holds {holds!r}. {remedy}") from None


def _beginning_of(path: Path) -> bytes:
    """What a file begins with; nothing where it is gone meanwhile, or its name can be none."""
    try:
        with open(path, "rb") as file:
            return file.read(LONGEST)
    except (OSError, ValueError):
        return b""


def _check_flag(flag: str, name: str, said: str) -> None:
    client = _client(said)
    try:
        details = FLAG_READER.start(lambda _: _details_of_flag(client, flag, name), PATIENCE).wait()
    except (TimeoutError, BusyError):
        return  # a client that is away is no mistake in the file: nothing is cut until it answers
    if details.error_code in ("FLAG_NOT_FOUND", "TYPE_MISMATCH"):
        kind = "float" if name == "share" else "boolean"
        raise UsageError(
            f"{said}, and the OpenFeature provider says {details.error_code.value}. Make it a {kind} flag there, or "
            "correct its name."
        )


def _client(said: str) -> Any:
    """The OpenFeature client of this process, which has one where its program has set a provider."""
    api = sys.modules.get("openfeature.api")
    client = None if api is None else api.get_client()
    if client is None or type(client.provider).__name__ == "NoOpProvider":
        raise UsageError(
            f"{said}, and this process has no OpenFeature provider. Start the service from a program that calls "
            "openfeature.api.set_provider first, as docs/service.md shows, or name a file."
        )
    return client

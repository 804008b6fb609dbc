"""Tools under new names: what a policy learned of a tool under its old name holds for it under its new one."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import is_dataclass, replace
from types import MappingProxyType
from typing import Any, TypeAlias, TypeVar

from camdf.errors import UsageError
from camdf.policies.base import Policy
from camdf.policies.models import stored
from camdf.policies.training import FittedCatalogue, Training
from camdf.runtime.settings import checks_of

AnyPolicy = TypeVar("AnyPolicy", bound=Policy)

Renames: TypeAlias = Mapping[str, str]
"""The new name of a tool, by its old one. A tool that had several names has a line for each."""

NO_RENAMES: Renames = MappingProxyType({})


def check_renames(renames: Renames) -> None:
    """Raise a UsageError where a name is both an old and a new one, so that a file could mean either tool by it."""
    both = sorted(renames.keys() & set(renames.values()))
    if both:
        raise UsageError(
            f"A name must be old or new in the renames. Got {both[0]!r} as both. Where a tool was renamed twice, give "
            "each of its old names the newest one; where two tools swapped names, rename them in the file itself."
        )


def renamed_policy(policy: AnyPolicy, renames: Renames) -> AnyPolicy:
    """A policy that decides on tools under their new names as it did on them under the old ones."""
    if not renames:
        return policy
    check_renames(renames)
    known = copy(policy)
    vars(known).update(_renamed_parts(policy, renames))
    if policy.training_ is not None:
        known.training_ = _renamed_training(policy.training_, renames)
    return known


def _renamed_training(training: Training, renames: Renames) -> Training:
    copies = [(renames.get(copy, copy), renames.get(tool, tool)) for copy, tool in training.copies]
    catalogue = training.catalogue and _renamed_catalogue(training.catalogue, renames)
    return replace(training, copies=tuple(sorted(copies)), catalogue=catalogue)


def _renamed_parts(holder: Any, renames: Renames) -> dict[str, Any]:
    """Those attributes that a file has of a policy, or of a part of it, in which names of tools stand."""
    parts: dict[str, Any] = {}
    for name, check in checks_of(type(holder)).items():
        value = getattr(holder, name)
        if check is stored.names:
            parts[name] = _renamed_names(value, renames)
        elif is_dataclass(value) and not isinstance(value, type):
            parts[name] = replace(value, **_renamed_parts(value, renames))
    return parts


def _renamed_catalogue(catalogue: FittedCatalogue, renames: Renames) -> FittedCatalogue:
    names = _renamed_names(catalogue.names, renames)
    if len(names) == catalogue.tools:
        return FittedCatalogue.of(names, catalogue.lists)
    # Of one that does not name all of its tools, nobody knows the digest under new names.
    return replace(catalogue, names=tuple(sorted(names)), sha256="")


def _renamed_names(names: tuple[str, ...], renames: Renames) -> tuple[str, ...]:
    known: dict[str, str] = {}
    for name in names:
        new = renames.get(name, name)
        if new in known:
            raise UsageError(
                f"The policy knows {known[new]!r} and {name!r} as two tools, so both cannot be {new!r}. Fit it again, "
                "with the renames for its log, or leave this one out."
            )
        known[new] = name
    return tuple(known)

"""A fitted policy as a JSON document: readable in a diff, refused unless every part of it is as it should be.

The digest is the SHA-256 of the document as compact JSON with sorted keys, without the digest itself. A file may be at
most 4 MB, with at most 1,000 brackets; reading one never executes anything and never takes more than 256 MB.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from os import PathLike
from typing import Any, NoReturn

from camdf._version import __version__
from camdf.core.payoff import VALUES
from camdf.errors import ArtifactError, NotFittedError
from camdf.policies.base import FittedPolicy, Policy
from camdf.policies.models import stored
from camdf.policies.models.stored import json_value, object_of, read_object, written_object
from camdf.policies.registry import IN_THE_LAB, LIBRARY, added_policy, by_kind
from camdf.policies.renames import Renames, renamed_policy
from camdf.policies.training import ScorerRecord, Training, stored_payoff
from camdf.runtime.files import write_whole
from camdf.runtime.loose_json import without_repeats
from camdf.runtime.settings import Check, checks_of, or_none

SCHEMA = 3
"""What is written, and all that is read."""

LARGEST_FILE = 4_000_000
"""Bytes: thousands of tools, and what texts say of each."""

MOST_BRACKETS = 1000
"""Of [ and {, those in names included. Counted before anything is parsed, because the parser descends into nested lists
on the C stack, which overflows and ends the process wherever a program has raised the recursion limit."""

_ENVELOPE: dict[str, Check] = {
    "schema": stored.count,
    "kind": stored.short_text,
    "package": stored.short_text,
    "payoff": stored_payoff,
    "policy": dict,  # each kind has its own
    "training": or_none(object_of(Training)),
    "sha256": stored.short_text,
}


def save(policy: Policy, path: str | PathLike[str], training: Training | None = None) -> None:
    """Write a policy, and what is known of its training, as one JSON document.

    The file is written beside its place and moved there whole, so that whoever reads it meanwhile, or after a power
    cut, finds the old policy or the new one and never a part of either.
    """
    write_whole(path, to_json(policy, training).encode())


def load(
    path: str | PathLike[str], policies: Iterable[type[Policy]] = LIBRARY, *, renamed: Renames | None = None
) -> Policy:
    """Read a policy that decides bit for bit as the one saved; `training_` tells what it was fitted on.

    `renamed` has the new names of tools by their old ones: what was learned of a tool holds for it under its new name.
    """
    return renamed_policy(from_json(content_of(path), policies), renamed or {})


def content_of(path: str | PathLike[str]) -> bytes:
    """What a policy's file holds, or more bytes than any policy has; an ArtifactError where it cannot be read."""
    try:
        with open(path, "rb") as file:
            return file.read(LARGEST_FILE + 1)
    except (OSError, ValueError) as error:  # ValueError: a path that no file can have
        reason = getattr(error, "strerror", None) or error
        raise ArtifactError(f"Cannot read {str(path)!r}: {reason}. Name a file that camdf.save wrote.") from None


def to_json(policy: Policy, training: Training | None = None) -> str:
    """The document of a policy, indented for people to read."""
    payoff = getattr(policy, "payoff_", None)
    if isinstance(policy, FittedPolicy) and payoff is None:
        raise NotFittedError(f"This {type(policy).__name__} has not been fitted. Call fit before save.")
    if payoff is not None and not isinstance(payoff.value, str):
        raise ArtifactError(
            "A policy fitted for a value function of your own cannot be saved, because code is never stored. "
            f"Use one of the values {sorted(VALUES)}."
        )
    kind = vars(type(policy)).get("kind")
    if not kind:
        raise ArtifactError(
            f"{type(policy).__name__} cannot be saved without a 'kind' of its own, which tells load what to make. "
            "Give the class a kind, and fields for its attributes."
        )
    try:
        content = {
            "schema": SCHEMA,
            "kind": kind,
            "package": __version__,
            "payoff": json_value(payoff),
            "policy": written_object(policy),
            "training": json_value(training),
            "sha256": "",
        }
        read = _parts(type(policy), json.loads(json.dumps(content)))
        # Written once more as it was read: a whole number where a file has floats is one of them.
        document = {**content, "payoff": json_value(read["payoff"]), "training": json_value(read["training"])}
        document["policy"] = written_object(_policy_of(type(policy), read))
        document["sha256"] = digest(document)
        text = json.dumps(document, indent=1)
    except (AttributeError, TypeError, ValueError) as error:
        raise ArtifactError(
            f"This {type(policy).__name__} cannot be saved: {error}. Correct the attribute, or fit the policy again."
        ) from None
    if len(text) > LARGEST_FILE:
        raise ArtifactError(
            f"This {type(policy).__name__} cannot be saved: it would take {len(text)} bytes, and {LARGEST_FILE} is the "
            "most. Fit on fewer tools, or on rankings without vectors."
        )
    from_json(text.encode(), (type(policy),))  # nothing is written that could not be read
    return text


def from_json(content: bytes, policies: Iterable[type[Policy]] = LIBRARY) -> Policy:
    """The policy in a document, or an ArtifactError; nothing else is ever raised."""
    document = _document(content)
    kinds = by_kind(policies)
    kind = document["kind"]
    known = kinds.get(kind) or added_policy(kind)
    if known is None:
        ours = sorted({policy.kind for policy in kinds.values()})
        remedy = f"Known kinds: {ours}. Upgrade camdf, or pass your own class to load."
        if kind in IN_THE_LAB:
            remedy = "It is part of the lab. Install it with: pip install camdf-lab."
        _refuse(f"it holds a policy of the unknown kind {kind[:80]!r}", remedy)
    try:
        return _policy(known, document)
    except ValueError as error:
        _refuse(f"its content is wrong: {error}", "Save the policy again with this package.")


def scorer_as_text(record: ScorerRecord) -> str:
    """What gave some scores, for a file of other things that holds texts."""
    return json.dumps(json_value(record), sort_keys=True)


def scorer_in_text(text: str) -> ScorerRecord:
    """The inverse of `scorer_as_text`; a ValueError where a text is none."""
    record: ScorerRecord = object_of(ScorerRecord)(json.loads(text))
    return record


def digest(document: dict[str, Any]) -> str:
    """SHA-256 of compact JSON with sorted keys, without the digest itself."""
    import hashlib  # loads OpenSSL, which a decision never needs

    content = {name: value for name, value in document.items() if name != "sha256"}
    return hashlib.sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _policy(kind: type[Policy], document: dict[str, Any]) -> Policy:
    return _policy_of(kind, _parts(kind, document))


def _parts(kind: type[Policy], document: dict[str, Any]) -> dict[str, Any]:
    """The document with every part as it is kept; the policy's are its attributes."""

    def attributes(value: Any) -> dict[str, Any]:
        return read_object(value, checks_of(kind), stored.defaults_left_out(kind))

    parts = read_object(document, {**_ENVELOPE, "policy": attributes}, {})
    if issubclass(kind, FittedPolicy) != (parts["payoff"] is not None):
        raise ValueError("payoff: must be there for a fitted policy, and only there")
    return parts


def _policy_of(kind: type[Policy], parts: dict[str, Any]) -> Policy:
    policy = object.__new__(kind)
    policy.__dict__.update(parts["policy"], training_=parts["training"])
    if parts["payoff"] is not None:
        policy.__dict__["payoff_"] = parts["payoff"]
    policy.verify()
    return policy


def _parsed(content: bytes) -> Any:
    if len(content) > LARGEST_FILE:
        _refuse(f"it is larger than {LARGEST_FILE} bytes", "No policy is; check the path.")
    if content.count(b"[") + content.count(b"{") > MOST_BRACKETS:
        _refuse(f"it has more than {MOST_BRACKETS} lists and objects", "No policy has; check the path.")
    try:
        return json.loads(content.decode("utf-8"), parse_constant=_no_constant, object_pairs_hook=without_repeats)
    except RecursionError:
        _refuse("it is nested too deeply", "No policy is; check the path.")
    except ValueError as error:
        _refuse(f"it is not JSON: {error}"[:200], "Copy it again in case it was truncated, or save the policy again.")


def _document(content: bytes) -> dict[str, Any]:
    """The document, once its envelope is as it should be and its digest matches."""
    document = _parsed(content)
    if not isinstance(document, dict):
        _refuse("it is not a JSON object", "Name a file that camdf.save wrote.")
    schema = document.get("schema")
    if type(schema) is int and schema != SCHEMA:
        remedy = "Upgrade camdf." if schema > SCHEMA else "Fit the policy again."
        _refuse(f"it has schema {str(schema)[:24]}, and this package reads schema {SCHEMA}", remedy)
    if document.keys() != _ENVELOPE.keys() or type(schema) is not int:
        _refuse(
            f"it does not have the schema {SCHEMA} and exactly the fields {', '.join(_ENVELOPE)}",
            "Name a file that camdf.save wrote.",
        )
    if not isinstance(document["kind"], str):
        _refuse("its kind is not a string", "Save the policy again.")
    try:
        matches = document["sha256"] == digest(document)
    except RecursionError:
        matches = False
    if not matches:
        _refuse("its digest does not match its content", "It was changed or damaged; copy it or save the policy again.")
    return document


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


def _refuse(reason: str, remedy: str) -> NoReturn:
    raise ArtifactError(f"This file is not a usable policy: {reason}. {remedy}") from None

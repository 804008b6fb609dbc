"""A fitted policy as a JSON document: readable in a diff, refused unless every part of it is as it should be.

The digest is the SHA-256 of the document as compact JSON with sorted keys, without the digest itself. A file may be at
most 4 MB, with at most 1,000 brackets; reading one never executes anything and never takes more than 256 MB.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from os import PathLike
from typing import Any, NoReturn

from camdf._files import write_whole
from camdf._json import without_repeats
from camdf._version import __version__
from camdf.core.payoff import VALUES, Payoff
from camdf.errors import ArtifactError, NotFittedError
from camdf.policies import fields
from camdf.policies.base import FittedPolicy, Policy
from camdf.policies.fields import SCHEMA, Field
from camdf.policies.registry import ALIASES, IN_THE_LAB, LIBRARY, added_policy, by_kind
from camdf.policies.training import NAMES_KEPT, FittedCatalogue, ScorerRecord, Training

LARGEST_FILE = 4_000_000
"""Bytes: thousands of tools, and what texts say of each."""

MOST_BRACKETS = 1000
"""Of [ and {, those in names included. Counted before anything is parsed, because the parser descends into nested lists
on the C stack, which overflows and ends the process wherever a program has raised the recursion limit."""


def save(policy: Policy, path: str | PathLike[str], training: Training | None = None) -> None:
    """Write a policy, and what is known of its training, as one JSON document.

    The file is written beside its place and moved there whole, so that whoever reads it meanwhile, or after a power
    cut, finds the old policy or the new one and never a part of either.
    """
    write_whole(path, to_json(policy, training).encode())


def load(path: str | PathLike[str], policies: Iterable[type[Policy]] = LIBRARY) -> Policy:
    """Read a policy that decides bit for bit as the one saved; `training_` tells what it was fitted on."""
    return from_json(content_of(path), policies)


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
        document = {
            "schema": SCHEMA,
            "kind": kind,
            "package": __version__,
            "payoff": _ENVELOPE["payoff"].write(payoff),
            "policy": fields.written_fields(policy.fields, policy),
            "training": _ENVELOPE["training"].write(training),
        }
        document["sha256"] = digest(document)
        text = json.dumps(document, indent=1)
        _policy(type(policy), json.loads(text))
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
    kinds, kind = by_kind(policies), document["kind"]
    known = kinds.get(kind) or added_policy(ALIASES.get(kind, kind))
    if known is None:
        ours = sorted({policy.kind for policy in kinds.values()})
        _refuse(
            f"it holds a policy of the unknown kind {kind[:80]!r}",
            "It is part of the lab. Install it with: pip install camdf-lab."
            if ALIASES.get(kind, kind) in IN_THE_LAB
            else f"Known kinds: {ours}. Upgrade camdf, or pass your own class to load.",
        )
    try:
        return _policy(known, document)
    except ValueError as error:
        _refuse(f"its content is wrong: {error}", "Save the policy again with this package.")


def scorer_as_text(record: ScorerRecord) -> str:
    """What gave some scores, for a file of other things that holds texts."""
    return json.dumps(_SCORER.write(record), sort_keys=True)


def scorer_in_text(text: str) -> ScorerRecord:
    """The inverse of `scorer_as_text`; a ValueError where a text is none."""
    record: ScorerRecord = _SCORER.read(json.loads(text))
    return record


def digest(document: dict[str, Any]) -> str:
    """SHA-256 of compact JSON with sorted keys, without the digest itself."""
    import hashlib  # loads OpenSSL, which a decision never needs

    content = {name: value for name, value in document.items() if name != "sha256"}
    return hashlib.sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _payoffs(value: Any) -> dict[str, float]:
    if not isinstance(value, dict) or len(value) > 100:
        raise ValueError("must be an object of at most 100 numbers")
    return {fields.text.read(name): fields.number.read(number) for name, number in value.items()}


def _settings(value: Any) -> tuple[tuple[str, str], ...]:
    if not isinstance(value, dict) or len(value) > 100:
        raise ValueError("must be an object of at most 100 strings")
    return tuple(sorted((fields.text.read(name), fields.text.read(said)) for name, said in value.items()))


def _some_names(value: Any) -> tuple[str, ...]:
    names: tuple[str, ...] = fields.names.read(value)
    if len(names) > NAMES_KEPT:
        raise ValueError(f"must be a list of at most {NAMES_KEPT} names")
    return names


def _short_names(names: Iterable[str]) -> list[str]:
    return [name for name in names if len(name) <= fields.LONGEST_NAME]


_PAYOFF = fields.record(
    Payoff,
    {
        "cost_pressure": fields.number,
        "value": fields.choice(*sorted(VALUES)),
        "recourse": replace(fields.share, unwritten=0.0),
    },
)

_SCORER = fields.record(
    ScorerRecord,
    {
        "kind": fields.text,
        "settings": Field(_settings, dict),
        "model": fields.text,
        "examples_sha256": fields.text,
    },
)

_CATALOGUE = fields.record(
    FittedCatalogue, {"tools": fields.whole, "sha256": fields.text, "names": Field(_some_names, _short_names)}
)

_TRAINING = fields.record(
    Training,
    {
        "data_sha256": fields.text,
        "tasks": fields.whole,
        "groups": fields.whole,
        "validation_tasks": fields.whole,
        "label_noise": fields.optional(fields.number),
        "validation_payoff": Field(_payoffs, dict),
        "payoff": fields.optional(_PAYOFF),
        "made_up": fields.whole,
        "scorer": fields.optional(_SCORER),
        "catalogue": fields.optional(_CATALOGUE),
    },
)

_ENVELOPE: dict[str, Field] = {
    "schema": fields.whole,
    "kind": fields.text,
    "package": fields.text,
    "payoff": fields.optional(_PAYOFF),
    "policy": fields.record(dict, {}),  # each kind has its own
    "training": fields.optional(_TRAINING),
    "sha256": fields.text,
}


def _policy(kind: type[Policy], document: dict[str, Any]) -> Policy:
    parts = fields.mapping({**_ENVELOPE, "policy": fields.record(dict, kind.fields)}, document)
    if issubclass(kind, FittedPolicy) != (parts["payoff"] is not None):
        raise ValueError("payoff: must be there for a fitted policy, and only there")
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

"""A fitted policy as a JSON document: readable in a diff, refused unless every part of it is as it should be.

The digest is the SHA-256 of the document as compact JSON with sorted keys, without the digest itself. A file may be at
most 1 MB; reading one never executes anything and never takes more than 64 MB.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any, NoReturn

from camdf._version import __version__
from camdf.core.payoff import VALUES, Payoff
from camdf.core.rankings import LoggedTasks
from camdf.policies import fields
from camdf.policies.base import FittedPolicy, NotFittedError, Policy
from camdf.policies.camdf import CAMDF, AggregateOnlyDF, CAMDFLite, GapRegression
from camdf.policies.fields import Field
from camdf.policies.predicates import LargestGap, PlugIn, ScoreAtLeast, ScoreMass
from camdf.policies.simple import AcquireAll, ConstantSet, FixedK, KeywordRule, ScorePerCostThreshold, ScoreThreshold
from camdf.policies.sufficiency import PredictThenThreshold, ResidualCorrected

SCHEMA = 1
LARGEST_FILE = 1_000_000
"""Bytes."""

LIBRARY: tuple[type[Policy], ...] = (
    AcquireAll,
    AggregateOnlyDF,
    CAMDF,
    CAMDFLite,
    ConstantSet,
    FixedK,
    GapRegression,
    KeywordRule,
    LargestGap,
    PlugIn,
    PredictThenThreshold,
    ResidualCorrected,
    ScoreAtLeast,
    ScoreMass,
    ScorePerCostThreshold,
    ScoreThreshold,
)
"""Every policy of this package; pass `(*LIBRARY, MyPolicy)` to `load` to read one of your own."""


class ArtifactError(ValueError):
    """A file is not a policy that may be used. The message says what is wrong and what to do."""


@dataclass(frozen=True)
class Training:
    """What a policy was fitted on, and how it did: travels inside the artifact."""

    data_sha256: str = ""
    tasks: int = 0
    groups: int = 0
    validation_tasks: int = 0
    label_noise: float | None = None
    validation_payoff: dict[str, float] = field(default_factory=dict)
    """Mean payoff on the validation tasks: this policy's, and that of each baseline it was compared with, by kind."""

    @classmethod
    def of(
        cls,
        policy: Policy,
        logged: LoggedTasks,
        payoff: Payoff,
        validation: LoggedTasks,
        baselines: Iterable[Policy] = (),
    ) -> Training:
        """Measure a fitted policy, and fitted baselines beside it, on the validation tasks."""
        measured = {
            each.kind: float(payoff.of(validation, each.decide(validation.rankings, payoff).acquired).mean())
            for each in (policy, *baselines)
        }
        return cls(logged.digest(), len(logged), len(set(logged.groups.tolist())), len(validation), None, measured)


def save(policy: Policy, path: str | PathLike[str], training: Training | None = None) -> None:
    """Write a policy, and what is known of its training, as one JSON document."""
    Path(path).write_text(to_json(policy, training), encoding="utf-8")


def load(path: str | PathLike[str], policies: Iterable[type[Policy]] = LIBRARY) -> Policy:
    """Read a policy that decides bit for bit as the one saved; `training_` tells what it was fitted on."""
    try:
        with open(path, "rb") as file:
            content = file.read(LARGEST_FILE + 1)
    except OSError as error:
        raise ArtifactError(f"Cannot read {path}: {error.strerror}. Name a file that camdf.save wrote.") from None
    return from_json(content, policies)


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
    if not policy.kind:
        raise ArtifactError(f"{type(policy).__name__} has no 'kind'. Give the class a kind and fields to save it.")
    document = {
        "schema": SCHEMA,
        "kind": policy.kind,
        "package": __version__,
        "payoff": None if payoff is None else asdict(payoff),
        "policy": {name: each.write(getattr(policy, name)) for name, each in policy.fields.items()},
        "training": None if training is None else asdict(training),
    }
    document["sha256"] = digest(document)
    text = json.dumps(document, indent=1, allow_nan=False)
    from_json(text.encode(), (type(policy),))
    return text


def from_json(content: bytes, policies: Iterable[type[Policy]] = LIBRARY) -> Policy:
    """The policy in a document, or an ArtifactError; nothing else is ever raised."""
    document = _parsed(content)
    _check_envelope(document)
    kinds = {each.kind: each for each in policies}
    if document["kind"] not in kinds:
        _refuse(f"it holds a policy of the unknown kind {document['kind'][:80]!r}", f"Known kinds: {sorted(kinds)}.")
    kind = kinds[document["kind"]]
    try:
        attributes = fields.mapping(kind.fields, document["policy"])
        payoff = None if document["payoff"] is None else Payoff(**fields.mapping(_PAYOFF, document["payoff"]))
        training = None if document["training"] is None else Training(**fields.mapping(_TRAINING, document["training"]))
        if issubclass(kind, FittedPolicy) != (payoff is not None):
            raise ValueError("payoff: must be there for a fitted policy, and only there")
        policy = object.__new__(kind)
        policy.__dict__.update(attributes, training_=training)
        if payoff is not None:
            policy.__dict__["payoff_"] = payoff
        policy.verify()
    except ValueError as error:
        _refuse(f"its content is wrong: {error}", "Save the policy again with this package.")
    return policy


def digest(document: dict[str, Any]) -> str:
    """SHA-256 of compact JSON with sorted keys, without the digest itself."""
    content = {name: value for name, value in document.items() if name != "sha256"}
    return hashlib.sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


_ENVELOPE = frozenset({"schema", "kind", "package", "payoff", "policy", "training", "sha256"})

_PAYOFF: dict[str, Field] = {"cost_pressure": fields.number, "value": fields.choice(*sorted(VALUES))}


def _payoffs(value: Any) -> dict[str, float]:
    if not isinstance(value, dict) or len(value) > 100:
        raise ValueError("must be an object of at most 100 numbers")
    return {fields.text.read(name): fields.number.read(number) for name, number in value.items()}


_TRAINING: dict[str, Field] = {
    "data_sha256": fields.text,
    "tasks": fields.whole,
    "groups": fields.whole,
    "validation_tasks": fields.whole,
    "label_noise": fields.optional(fields.number),
    "validation_payoff": Field(_payoffs),
}


def _parsed(content: bytes) -> Any:
    if len(content) > LARGEST_FILE:
        _refuse(f"it is larger than {LARGEST_FILE} bytes", "No policy is; check the path.")
    try:
        return json.loads(content.decode("utf-8"), parse_constant=_no_constant, object_pairs_hook=_no_repeats)
    except (ValueError, RecursionError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else f"it is not JSON: {error}"[:200]
        _refuse(reason, "The file may be truncated; copy it again.")


def _check_envelope(document: Any) -> None:
    if not isinstance(document, dict):
        _refuse("it is not a JSON object", "Name a file that camdf.save wrote.")
    schema = document.get("schema")
    if type(schema) is int and schema > SCHEMA:
        _refuse(f"it has schema {schema}, and this package reads up to {SCHEMA}", "Upgrade camdf.")
    if document.keys() != _ENVELOPE or type(schema) is not int or schema != SCHEMA:
        _refuse("it does not have the fields of an artifact", "Name a file that camdf.save wrote.")
    if not isinstance(document["kind"], str) or not isinstance(document["package"], str):
        _refuse("its kind or package is not a string", "Save the policy again.")
    try:
        expected = digest(document)
    except (ValueError, RecursionError):
        expected = ""
    if document["sha256"] != expected:
        _refuse("its digest does not match its content", "Somebody changed it; save the policy again.")


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


def _no_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    document = dict(pairs)
    if len(document) != len(pairs):
        raise ValueError("a field stands twice")
    return document


def _refuse(reason: str, remedy: str) -> NoReturn:
    raise ArtifactError(f"This file is not a usable policy: {reason}. {remedy}")

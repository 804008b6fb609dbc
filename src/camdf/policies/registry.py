"""Every policy by its one name: what a file calls it, what `--policy` takes, and what tables show.

A policy's name is its class's name in lower case, with hyphens between the words: `ScorePerCostThreshold` is
"score-per-cost-threshold", `CAMDF` is "cam-df". A variant's name adds what it sets: "cam-df, cost-blind".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING

from camdf.core.features import COST_AUGMENTED, COST_FREE, SCORE_AGGREGATES
from camdf.errors import UsageError
from camdf.policies.base import Policy
from camdf.policies.by_depth import ExpectedPayoffByDepth
from camdf.policies.by_set import ExpectedPayoffBySet
from camdf.policies.camdf import CAMDF, CAMDFLite
from camdf.policies.predict import PredictThenThreshold
from camdf.policies.rules import (
    AcquireAll,
    ConstantSet,
    FirstDay,
    FixedK,
    LargestGap,
    NearBest,
    PlugIn,
    ScoreAtLeast,
    ScoreMass,
    ScorePerCostThreshold,
    ScoreThreshold,
    TopK,
    TopShare,
)

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

LIBRARY: tuple[type[Policy], ...] = (
    AcquireAll,
    CAMDF,
    CAMDFLite,
    ConstantSet,
    ExpectedPayoffByDepth,
    ExpectedPayoffBySet,
    FirstDay,
    FixedK,
    LargestGap,
    NearBest,
    PlugIn,
    PredictThenThreshold,
    ScoreAtLeast,
    ScoreMass,
    ScorePerCostThreshold,
    ScoreThreshold,
    TopK,
    TopShare,
)
"""Every policy of this package; pass `(*LIBRARY, MyPolicy)` to `load` to read one of your own."""

GROUP = "camdf.policies"
"""The entry points by which another distribution adds policies: the name of each is a kind, and names its class."""

IN_THE_LAB = ("aggregate-only-df", "gap-regression", "keyword-rule", "residual-corrected")
"""What camdf-lab adds: policies that only the paper's tables compare."""

POLICIES: Mapping[str, Callable[[], Policy]] = {
    **{policy.kind: policy for policy in LIBRARY},
    "cam-df, cost-blind": lambda: CAMDF(cost_blind=True),
    "cam-df, no identity": lambda: CAMDF(identity=False),
    "cam-df, no identity, cost-blind": lambda: CAMDF(identity=False, cost_blind=True),
    "cam-df, on-policy": lambda: CAMDF(target="on-policy"),
    "cam-df, tuned": lambda: CAMDF(threshold=None),
    "cam-df, uniform weights": lambda: CAMDF(weights="uniform"),
    "cam-df-lite, cost-augmented": lambda: CAMDFLite(COST_AUGMENTED),
    "cam-df-lite, cost-free": lambda: CAMDFLite(COST_FREE),
    "expected-payoff-by-set, trusting": lambda: ExpectedPayoffBySet(trust_labels=True),
    "predict-then-threshold, cost-augmented": lambda: PredictThenThreshold(COST_AUGMENTED),
    "predict-then-threshold, cost-free": lambda: PredictThenThreshold(COST_FREE),
    "predict-then-threshold, fixed 0.5": lambda: PredictThenThreshold(threshold=0.5),
    "predict-then-threshold, scores only": lambda: PredictThenThreshold(SCORE_AGGREGATES),
    "predict-then-threshold, scores only, fixed 0.5": lambda: PredictThenThreshold(SCORE_AGGREGATES, threshold=0.5),
}
"""Every policy, and the variants that the paper and the lab compare, by name: each makes a new, unfitted one."""

DEFAULT = ExpectedPayoffBySet.kind
"""What `camdf fit` fits unless another is named."""


def policy_name(name: str) -> str:
    """The same name, where there is such a policy, and else a UsageError. One of your own is named `module:Class`."""
    policy_maker(name)
    return name


def policy_maker(name: str) -> Callable[[], Policy]:
    """What makes a new, unfitted policy of this name (`policy_name`)."""
    if name in POLICIES:
        return POLICIES[name]
    if ":" in name:
        return own_policy(name)
    if added := added_policy(name):
        return added
    if name in IN_THE_LAB:
        raise UsageError(f"The policy {name!r} is part of the lab. Install it with: pip install camdf-lab")
    known = "; ".join(POLICIES)
    raise UsageError(f"The policy must be one of: {known}; or module:Class for one of your own. Got {name!r} instead.")


def own_policy(place: str) -> type[Policy]:
    """The policy class that `module:Class` names."""
    module, _, name = place.partition(":")
    try:
        policy = getattr(import_module(module), name)
    except (AttributeError, ImportError, ValueError) as error:
        raise UsageError(f"The policy {place!r} must be importable as module:Class. {error}.") from error
    if not (isinstance(policy, type) and issubclass(policy, Policy)):
        raise UsageError(f"The policy {place!r} must be a class that extends camdf.Policy. Got {policy!r} instead.")
    return policy


def added_policy(kind: str) -> type[Policy] | None:
    """The class of this kind that another installed distribution adds; None where none does."""
    added = _added()
    return added[kind].load() if kind in added else None


@cache
def _added() -> dict[str, EntryPoint]:
    from importlib.metadata import entry_points  # which most decisions never need

    return {entry.name: entry for entry in entry_points(group=GROUP)}


def by_kind(policies: Iterable[type[Policy]] = LIBRARY) -> dict[str, type[Policy]]:
    """Classes by the name that a saved policy carries."""
    return {policy.kind: policy for policy in policies if policy.kind}

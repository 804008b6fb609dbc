"""Decide, before an LLM agent runs, which of the ranked candidate tools are worth giving to it."""

from typing import TYPE_CHECKING, Any

from camdf._version import __version__
from camdf.core.decisions import Decisions
from camdf.core.payoff import Payoff
from camdf.core.rankings import LoggedTasks, Rankings
from camdf.errors import (
    ArtifactError,
    CamdfError,
    DataError,
    MissingExtraError,
    NotFittedError,
    ScorerError,
    UsageError,
)
from camdf.policies.artifact import load, save
from camdf.policies.base import Policy
from camdf.policies.by_depth import ExpectedPayoffByDepth
from camdf.policies.by_set import ExpectedPayoffBySet
from camdf.policies.camdf import CAMDF, CAMDFLite
from camdf.policies.cold_start import cold_start
from camdf.policies.predict import PredictThenThreshold
from camdf.policies.pressure import pressure_for_budget, pressure_for_sufficiency
from camdf.policies.rules import (
    AcquireAll,
    ConstantSet,
    FixedK,
    LargestGap,
    PlugIn,
    ScoreAtLeast,
    ScorePerCostThreshold,
    ScoreThreshold,
    TopK,
    TopShare,
)

if TYPE_CHECKING:
    from camdf.gate import Gate
    from camdf.policies.models.label_noise import estimate_label_noise
    from camdf.prices import Prices
    from camdf.scorers.start import Start
    from camdf.tools import Tool

__all__ = [
    "AcquireAll",
    "ArtifactError",
    "CAMDF",
    "CAMDFLite",
    "CamdfError",
    "ConstantSet",
    "DataError",
    "Decisions",
    "ExpectedPayoffByDepth",
    "ExpectedPayoffBySet",
    "FixedK",
    "Gate",
    "LargestGap",
    "LoggedTasks",
    "MissingExtraError",
    "NotFittedError",
    "Payoff",
    "PlugIn",
    "Policy",
    "PredictThenThreshold",
    "Prices",
    "Rankings",
    "ScoreAtLeast",
    "ScorePerCostThreshold",
    "ScoreThreshold",
    "ScorerError",
    "Start",
    "Tool",
    "TopK",
    "TopShare",
    "UsageError",
    "__version__",
    "cold_start",
    "estimate_label_noise",
    "load",
    "pressure_for_budget",
    "pressure_for_sufficiency",
    "save",
]

_LATER = {
    "Gate": "camdf.gate",
    "Prices": "camdf.prices",
    "Start": "camdf.scorers.start",
    "Tool": "camdf.tools",
    "estimate_label_noise": "camdf.policies.models.label_noise",
}
"""Loaded when they are first used: a policy that only decides needs none of them."""


def __getattr__(name: str) -> Any:
    """The names of `_LATER`."""
    if name in _LATER:
        from importlib import import_module

        return getattr(import_module(_LATER[name]), name)
    raise AttributeError(f"module 'camdf' has no attribute {name!r}")

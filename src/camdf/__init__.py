"""Decide, before an LLM agent runs, which of the ranked candidate tools are worth giving to it."""

from typing import TYPE_CHECKING, Any

from camdf._version import __version__
from camdf.core.costs import RETAIL_BASE_COSTS, dispersed, md5_base_costs
from camdf.core.decisions import Decisions
from camdf.core.payoff import Payoff
from camdf.core.rankings import LoggedTasks, Rankings
from camdf.core.resampling import Interval, paired_bootstrap
from camdf.policies.artifact import ArtifactError, load, save
from camdf.policies.base import NotFittedError, Policy
from camdf.policies.by_depth import ExpectedPayoffByDepth
from camdf.policies.by_set import ExpectedPayoffBySet
from camdf.policies.camdf import CAMDF, AggregateOnlyDF, CAMDFLite, GapRegression
from camdf.policies.cold_start import cold_start
from camdf.policies.control import pressure_for_budget, pressure_for_sufficiency
from camdf.policies.label_noise import LabelNoise, estimate_label_noise
from camdf.policies.linear import MissingExtraError
from camdf.policies.oracle import prefix_oracle
from camdf.policies.predicates import LargestGap, PlugIn, ScoreAtLeast, ScoreMass
from camdf.policies.simple import (
    AcquireAll,
    ConstantSet,
    FixedK,
    KeywordRule,
    ScorePerCostThreshold,
    ScoreThreshold,
    preselect_keywords,
)
from camdf.policies.sufficiency import PredictThenThreshold, ResidualCorrected
from camdf.policies.training import Training

if TYPE_CHECKING:
    from camdf.prices import Prices, ToolStatistics

__all__ = [
    "AcquireAll",
    "AggregateOnlyDF",
    "ArtifactError",
    "CAMDF",
    "CAMDFLite",
    "ConstantSet",
    "Decisions",
    "ExpectedPayoffByDepth",
    "ExpectedPayoffBySet",
    "FixedK",
    "GapRegression",
    "Interval",
    "KeywordRule",
    "LabelNoise",
    "LargestGap",
    "LoggedTasks",
    "MissingExtraError",
    "NotFittedError",
    "Payoff",
    "PlugIn",
    "Policy",
    "PredictThenThreshold",
    "Prices",
    "RETAIL_BASE_COSTS",
    "Rankings",
    "ResidualCorrected",
    "ScoreAtLeast",
    "ScoreMass",
    "ScorePerCostThreshold",
    "ScoreThreshold",
    "ToolStatistics",
    "Training",
    "__version__",
    "cold_start",
    "dispersed",
    "estimate_label_noise",
    "load",
    "md5_base_costs",
    "paired_bootstrap",
    "prefix_oracle",
    "preselect_keywords",
    "pressure_for_budget",
    "pressure_for_sufficiency",
    "save",
]


def __getattr__(name: str) -> Any:
    """Prices are loaded when they are asked for: most decisions have costs already."""
    if name in ("Prices", "ToolStatistics"):
        from camdf import prices

        return getattr(prices, name)
    raise AttributeError(f"module 'camdf' has no attribute {name!r}")

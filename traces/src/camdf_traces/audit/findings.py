"""What an audit finds: the numbers behind each question, with an interval where one makes sense.

`camdf_traces.audit.measures` computes them, `camdf_traces.audit.report` puts them into words.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TypeAlias, get_args

from camdf.core.resampling import Interval


@dataclass(frozen=True)
class Unknown:
    """A question that these data cannot answer."""

    sentence: str
    """Why not: which column is missing, or what there is too little of."""


@dataclass(frozen=True)
class RepeatedRuns:
    """How far runs of the same task agree."""

    tasks: int
    runs: int
    agreement: Interval
    """Of pairs of runs: tools that both called, of those that either called and both could."""

    flips: Interval
    """The share of labels that independent flips would have to change to explain the differences."""

    by: str
    """How the runs of one task were recognized: by their "text" or by their "group"."""


@dataclass(frozen=True)
class Noise:
    """The share of labels that contradict a model that is sure of them (camdf.policies.models.label_noise)."""

    rate: float
    at_most: float
    labels: int
    tasks: int


@dataclass(frozen=True)
class Censoring:
    """The tools that a gate kept from runs that did not explore: a tool that was cut cannot have been called."""

    runs: int
    cut_runs: Interval
    cut_candidates: float
    never_offered: tuple[str, ...]


@dataclass(frozen=True)
class Surfacing:
    """How deep the ranking reaches, and how deep anything was required or offered. The first position is 1."""

    tasks: int
    missed: Interval
    """Tasks that required a tool which the ranking lacks."""

    longest: int
    deepest_required: int
    deepest_offered: int | None


@dataclass(frozen=True)
class Shift:
    """The largest distance between two distribution functions, and the chance of at least that much without drift."""

    distance: float
    chance: float


@dataclass(frozen=True)
class Drift:
    """The differences between two periods."""

    since: str
    earlier: int
    later: int
    added: tuple[str, ...]
    removed: tuple[str, ...]
    shared: float
    """Tools of both periods, of all tools."""

    scores: Shift
    top_scores: Shift
    required: Interval
    """Mean number of required tools, later minus earlier."""


@dataclass(frozen=True)
class Exploration:
    """The runs that saw every tool, whatever the gate's policy chose: their labels are unbiased."""

    share: Interval
    unbiased: int
    """Explored runs with a ranking that saw all of it."""

    incomplete: int
    """Explored runs that lacked a ranked tool all the same."""

    extra_tools: float | None = None
    """How many tools more an explored run was offered than another, on average: times the cost pressure, the payoff
    that it gave up."""


@dataclass(frozen=True)
class Untraced:
    """The calls that only the model's request shows, because the tool has no span."""

    calls: int
    share: float
    tools: dict[str, float]
    """The share of its calls for each tool that has such calls, the largest first."""

    services: dict[str, float]
    """The same for each service whose runs have such calls; "" for runs that name none. Empty where no run does."""


@dataclass(frozen=True)
class NoTool:
    """The tasks that needed no tool. Where a gate had cut tools, a run without a call says nothing of that."""

    tasks: int
    """Ranked tasks whose agent saw all of the ranking."""

    share: Interval
    """Those of them that needed none."""

    of_all: float
    """The share of all ranked tasks whose agent called none."""


Finding: TypeAlias = RepeatedRuns | Noise | Censoring | Surfacing | Drift | Exploration | Untraced | NoTool | Unknown


@dataclass(frozen=True)
class Audit:
    """The findings on one table of tasks."""

    tasks: int
    ranked: int
    tools: int
    repeated_runs: RepeatedRuns | Unknown
    label_noise: Noise | Unknown
    censoring: Censoring | Unknown
    surfacing: Surfacing | Unknown
    drift: Drift | Unknown
    exploration: Exploration | Unknown
    untraced: Untraced | None = None
    no_tool: NoTool | None = None

    @property
    def sums(self) -> dict[str, dict[str, int]]:
        """What adds up: tasks read are those with a ranking and those without."""
        return {
            "tasks": {"read": self.tasks, "with a ranking": self.ranked, "without a ranking": self.tasks - self.ranked}
        }

    @property
    def findings(self) -> dict[str, Finding]:
        """The findings by name, in the order of a report."""
        named = {column.name: getattr(self, column.name) for column in fields(self)}
        return {name: finding for name, finding in named.items() if isinstance(finding, get_args(Finding))}

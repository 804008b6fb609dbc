"""Whether to learn from the audited tasks, from which of them, and what to do: thresholds on the findings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from camdf_traces.audit.findings import (
    Audit,
    Censoring,
    Drift,
    Exploration,
    Noise,
    RepeatedRuns,
    Shift,
    Surfacing,
    Unknown,
)

ENOUGH_TASKS = 100
"""Fewer tasks with labels that count are not enough to learn from: a judgment, which `camdf curve` can measure."""

NOISY = 0.05
TOO_NOISY = 0.10
"""Shares of wrong labels: the paper's edge survives the first and is gone by the second."""

CENSORED = 0.05
"""Where a gate cut candidates in a larger share of the runs, only explored runs show what a task needs."""

MISSED = 0.2
"""Where the ranking lacks a required tool in a larger share of the tasks, mend the ranking first."""

UNTRACED = 0.2
"""Where a larger share of the required tools is known by requests alone, trace those tools first."""

MOVED = 0.15
CHANCE = 0.01
"""Scores have moved where their distributions lie this far apart and chance does not explain it."""

SAME_CATALOGUE = 0.9
"""Two periods have the same tools where they share at least this much of all."""


@dataclass(frozen=True)
class Verdict:
    """Whether to learn, from what, and what to do."""

    fit: Literal["yes", "explored only", "not yet"]
    sentence: str


def verdict_of(audit: Audit) -> Verdict:
    """The verdict that follows from the findings and the thresholds above."""
    if audit.ranked == 0:
        return Verdict(
            "not yet", "Not yet: no task has a ranking. Run a gate in shadow mode, or rank with camdf score."
        )
    censored = isinstance(audit.censoring, Censoring) and audit.censoring.cut_runs.mean > CENSORED
    if censored:
        count = audit.exploration.unbiased if isinstance(audit.exploration, Exploration) else 0
        which = "explored runs"
        more = "explore with a larger share of the traffic, or run in shadow mode"
    else:
        count = audit.ranked
        which = "tasks"
        more = "log more tasks"
    noise = _share_of_wrong_labels(audit)
    if noise > TOO_NOISY:
        return Verdict(
            "not yet",
            f"Not yet: {noise:.0%} of the labels look wrong, and past {TOO_NOISY:.0%} learning does worse than a tuned "
            "threshold. Leave out runs without a recorded outcome (camdf mine --require-outcome).",
        )
    if count < ENOUGH_TASKS:
        return Verdict(
            "not yet",
            f"Not yet: {count:,} {which} are too few, {ENOUGH_TASKS} are enough: {ENOUGH_TASKS - count} are missing. "
            f"Until then {more}.",
        )
    words = [f"Fit to learn from: {count:,} tasks."]
    if censored:
        words = [f"Fit to learn from: {count:,} explored runs. The gate cut tools of the others."]
        words.append("From those camdf fit learns what became of the tools that they were offered.")
    if noise > NOISY:
        words.append(f"Expect little: {noise:.0%} of the labels look wrong.")
    if isinstance(audit.censoring, Unknown):
        words.append("What a gate may have cut is not known.")
    if isinstance(audit.surfacing, Surfacing) and audit.surfacing.missed.mean > MISSED:
        words.append("Mend the ranking first: no cut brings back a tool that it lacks.")
    if audit.untraced is not None and audit.untraced.share > UNTRACED:
        words.append("Trace the tools without spans: whether their calls failed is not known.")
    if isinstance(audit.drift, Drift) and has_drifted(audit.drift):
        words.append(f"Things changed: check the fitted policy on tasks since {audit.drift.since}.")
    return Verdict("explored only" if censored else "yes", " ".join(words))


def has_moved(shift: Shift) -> bool:
    """Whether a distribution moved far, and not by chance."""
    return shift.distance >= MOVED and shift.chance <= CHANCE


def has_drifted(drift: Drift) -> bool:
    """Whether a policy learned from the earlier period may be wrong in the later one."""
    return has_moved(drift.scores) or has_moved(drift.top_scores) or drift.shared < SAME_CATALOGUE


def _share_of_wrong_labels(audit: Audit) -> float:
    """The larger of both estimates. Near-copies may truly need different tools; runs of the same text should not."""
    noise = audit.label_noise.rate if isinstance(audit.label_noise, Noise) else 0.0
    if isinstance(audit.repeated_runs, RepeatedRuns) and audit.repeated_runs.by == "text":
        noise = max(noise, audit.repeated_runs.flips.mean)
    return noise

"""Before the first cut: what a policy would have saved on tasks that saw every tool, and what it would have missed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from camdf.core.payoff import Payoff
from camdf.core.rankings import Bools, Floats, LoggedTasks, Rankings
from camdf.core.resampling import Interval, paired_bootstrap
from camdf.evaluation.replay import all_handed_over
from camdf.policies.base import Policy

TOOLS_SHOWN = 10


@dataclass(frozen=True)
class ToolCut:
    """A tool that tasks called, and how often it would have been cut then."""

    name: str
    called: int
    cut: int


@dataclass(frozen=True)
class ShadowReport:
    """What would have been. Tools and tokens are those of one task's list."""

    tasks: int
    offered: float
    kept: float
    tokens_offered: float | None
    tokens_kept: float | None
    missed: Interval
    """The share of tasks that called a tool which would have been cut."""

    cut: tuple[ToolCut, ...]
    """Tools that were called when they would have been cut, the most frequent first."""

    @property
    def verdict(self) -> str:
        """One sentence."""
        saved = f"{self.offered - self.kept:.1f} of {self.offered:.1f} tools"
        if self.tokens_offered and self.tokens_kept is not None:
            less = self.tokens_offered - self.tokens_kept
            saved += f" and {less:,.0f} of {self.tokens_offered:,.0f} tokens of definitions"
        return (
            f"On {self.tasks:,} tasks it would have cut {saved} a request, and a tool that was called in "
            f"{self.missed.mean:.1%} of them ({self.missed.low:.1%} to {self.missed.high:.1%})."
        )

    def table(self) -> str:
        """The tools that were missed most."""
        if not self.cut:
            return "No tool that was called would have been cut."
        width = max(4, *(len(tool.name) for tool in self.cut[:TOOLS_SHOWN]))
        lines = [f"{'tool':<{width}}  {'called':>7}  {'would have been cut':>19}"]
        lines += [
            f"{e.name:<{width}}  {e.called:>7,}  {e.cut:>13,} ({e.cut / e.called:.0%})" for e in self.cut[:TOOLS_SHOWN]
        ]
        if len(self.cut) > TOOLS_SHOWN:
            lines.append(f"and {len(self.cut) - TOOLS_SHOWN} more")
        return "\n".join(lines)

    def record(self) -> dict[str, Any]:
        """As JSON."""
        interval = {"missed": self.missed.mean, "missed_low": self.missed.low, "missed_high": self.missed.high}
        return {**vars(self), **interval, "cut": [vars(tool) for tool in self.cut], "verdict": self.verdict}


def shadow_report(
    policy: Policy, logged: LoggedTasks, payoff: Payoff, tokens: Mapping[str, float] | None = None
) -> ShadowReport:
    """Let a `policy` decide, at a `payoff`, on `logged` tasks of runs that saw every tool; the called were required.

    As in a gate, a task whose scores prefer no tool would have got all of them, or with a tool search the search alone.
    So would one for which the policy chooses no tool, unless it says that most likely none is needed.
    `tokens` maps tools to the tokens of their definitions; tools that it lacks count as none.
    """
    rankings = logged.rankings
    acquired = all_handed_over(rankings, policy.decide(rankings, payoff), searches=payoff.recourse > 0)
    count = len(rankings.catalogue)
    ids = rankings.tool_ids
    called = np.bincount(ids[logged.required], minlength=count)
    cut = np.bincount(ids[logged.required & ~acquired], minlength=count)
    order = sorted(np.flatnonzero(cut).tolist(), key=lambda tool: (-cut[tool], rankings.catalogue[tool]))
    missed: Floats = np.any(logged.required & ~acquired, axis=1).astype(np.float64)
    return ShadowReport(
        tasks=len(logged),
        offered=float(rankings.lengths.mean()),
        kept=float(acquired.sum(axis=1).mean()),
        tokens_offered=_tokens_a_task(rankings, rankings.listed, tokens),
        tokens_kept=_tokens_a_task(rankings, acquired, tokens),
        missed=paired_bootstrap(missed, groups=logged.groups),
        cut=tuple(ToolCut(rankings.catalogue[tool], int(called[tool]), int(cut[tool])) for tool in order),
    )


def _tokens_a_task(rankings: Rankings, given: Bools, tokens: Mapping[str, float] | None) -> float | None:
    """The mean over tasks of the tokens of the tools that are given; None where the tokens of tools are not known."""
    if tokens is None:
        return None
    sizes = np.array([*(tokens.get(name, 0.0) for name in rankings.catalogue), 0.0])
    return float((sizes[rankings.tool_ids] * given).sum(axis=1).mean())

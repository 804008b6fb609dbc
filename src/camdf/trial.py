"""One request tried on a list of tools, without labels: which tools it would get, why, and what that saves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from camdf.core.payoff import Payoff
from camdf.core.rankings import Rankings
from camdf.errors import ScorerError, UsageError
from camdf.gate import Gate, Limits
from camdf.gate.decision import GateDecision
from camdf.gate.target import Target
from camdf.gate.waterfall import waterfall_lines
from camdf.policies.by_set import ExpectedPayoffBySet
from camdf.policies.cold_start import cold_start
from camdf.prices import Prices
from camdf.scorers.base import Scorer
from camdf.tools import NO_TOOLS, keyed, view


@dataclass(frozen=True)
class Tried:
    """What one request got, and what it would have got without a gate."""

    decision: GateDecision
    target: Target
    tool_search: bool
    sufficiency: float
    """How likely the policy itself thinks it that no tool is needed which was cut; no label has confirmed it."""

    tokens: dict[str, int]
    """Of each tool's definition, by the names of the decision."""

    loaded: int
    """Tokens of the definitions in every model call, those of the tool search included."""

    every: int
    """The same without a gate."""

    def lines(self, width: int = 80, *, whole: bool = False, block: str = "█") -> list[str]:
        """The whole explanation, for a terminal."""
        kept, total = len(self.decision.kept), len(self.tokens)
        if self.decision.reason != "decided":
            every = f"all {total} tools" if total > 1 else "its one tool"
            got = "the tool search alone" if self.tool_search else every
            return [f"{self._no_decision()}, so the agent gets {got}."]
        told = [f"{kept} of {total} tools kept: {self._aimed()}.", ""]
        told += [*waterfall_lines(self.decision.ranking, self.tokens, width, whole=whole, block=block), ""]
        if apart := sorted(self.tokens.keys() - {tool.name for tool in self.decision.ranking}):
            told.append(f"Besides   {', '.join(apart)}: without a description to score, never cut")
        tool_search = ", the tool search included" if self.tool_search and self.decision.cut else ""
        told.append(f"Tokens    {self.loaded:,} of {self.every:,} in every model call{tool_search}: {self._saved()}")
        if not self.decision.cut:
            why = (
                "without labels, fewer are not expected to be enough that often"
                if self.target.sufficiency
                else "nothing is cut"
            )
            return [*told, f"Enough?   all there is; {why}"]
        told.append(f"Enough?   in {self.sufficiency:.0%} of such requests, the policy expects; no label has shown it")
        within = (
            "one search away: find_tool, then call_tool"
            if self.tool_search
            else "out of reach; a tool search would change that"
        )
        return [*told, f"Missed?   a tool that was cut is {within}"]

    def summary(self) -> dict[str, Any]:
        """The same for machines."""
        return {
            "kept": list(self.decision.kept),
            "cut": list(self.decision.cut),
            "reason": self.decision.reason,
            "target": {name: value for name, value in vars(self.target).items() if value is not None},
            "cost_pressure": self.decision.cost_pressure,
            "tool_search": self.tool_search,
            "expected_sufficiency": self.sufficiency,
            "tokens": self.loaded,
            "tokens_of_all": self.every,
            "ranking": [
                {
                    "tool": tool.name,
                    "score": tool.score,
                    "needed": tool.evidence,
                    "tokens": self.tokens[tool.name],
                    "kept": tool.name in self.decision.kept,
                }
                for tool in self.decision.ranking
            ],
        }

    def _no_decision(self) -> str:
        if self.decision.reason == "empty task":
            return "The request is empty"
        if self.decision.ranking:
            return f"No tool stands out for this request ({self.decision.reason})"
        return f"The request is a mere greeting ({self.decision.reason})"

    def _saved(self) -> str:
        part = self.loaded / self.every if self.every else 1.0
        if part > 1:
            return f"{part:.1f} times as many, so with so few tools a tool search costs more than it saves"
        return f"{1 - part:.0%} less" if part < 1 else "nothing saved"

    def _aimed(self) -> str:
        if self.target.mean_tools is not None:
            return f"at most {self.target.mean_tools:g} {'was' if self.target.mean_tools == 1 else 'were'} asked for"
        if self.target.sufficiency is not None:
            return f"the fewest that the policy expects to be enough in {self.target.sufficiency:.0%} of such requests"
        return f"what ${self.target.dollars_per_task:g} a task buys"


def trial(
    request: str,
    tools: Sequence[Any],
    scorer: Scorer,
    target: Target,
    *,
    tool_search: bool = False,
    prices: Prices | None = None,
) -> Tried:
    """Decide on one request as a gate would on its first day.

    The target is met on this request alone; a gate meets it on average over the requests that it is shown
    (`Gate.for_target`). `scorer` gives similarities. `prices` count tokens, and say what a task's tools cost where the
    target is in dollars.
    """
    viewed, priced = keyed(view(tool) for tool in tools), prices or Prices()
    if all(tool.foreign for tool in viewed.values()):
        raise UsageError(NO_TOOLS)
    policy = cold_start()
    settings: dict[str, Any] = {"limits": Limits(seconds=None)}
    if target.dollars_per_task is not None:
        settings["prices"] = priced
    asked = [{"role": "user", "content": request}]
    decision = Gate(policy, scorer, Payoff(0.0, "partial"), **settings).decide(asked, tools, tool_search=tool_search)
    if decision.error:
        raise ScorerError(f"The request could not be scored: {decision.reason}, {decision.error}.")
    if decision.reason == "decided":
        gate = Gate.for_target(policy, scorer, requests=[asked], tools=tools, **vars(target), **settings)
        decision = gate.decide(asked, tools, tool_search=tool_search)
    tokens = {key: priced.count(tool) for key, tool in viewed.items()}
    loaded = sum(tokens[name] for name in decision.kept)
    loaded += sum(map(priced.count, decision.search))
    return Tried(decision, target, tool_search, _enough(policy, decision), tokens, loaded, sum(tokens.values()))


def _enough(policy: ExpectedPayoffBySet, decision: GateDecision) -> float:
    if not decision.cut or not decision.ranking:
        return 1.0
    rankings = Rankings.from_scores({tool.name: tool.score for tool in decision.ranking})
    kept = {tool.name for tool in decision.ranking if tool.kept}
    acquired = np.array([[name in kept for name in rankings.names(0)]])
    return float(policy.estimated_sufficiency(rankings, acquired)[0])

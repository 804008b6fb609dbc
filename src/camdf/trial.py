"""One request tried on a list of tools, without labels: which tools it would get, why, and what that saves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from camdf.errors import ScorerError, UsageError
from camdf.gate import Gate, Limits
from camdf.gate.decision import GateDecision
from camdf.gate.ranking import Ranked, waterfall_lines
from camdf.gate.scoring import recalling
from camdf.gate.target import Target
from camdf.policies.base import Policy
from camdf.policies.cold_start import cold_start
from camdf.policies.models.past_tasks import PastTasks
from camdf.prices import Prices
from camdf.scorers.base import Scorer
from camdf.scorers.named import ScorerMismatch
from camdf.tools import NO_TOOLS, keyed, view

ENOUGH_BY_FIT = {
    False: "Enough?   no label says how often yet; camdf fit learns it from logs",
    True: "Enough?   camdf evaluate says how often, on logs",
}
"""By whether a policy that was fitted decided."""

MISSED_BY_SEARCH = {
    False: "Missed?   a tool that was cut is out of reach; a tool search would change that",
    True: "Missed?   a tool that was cut is one search away",
}
"""By whether there is a tool search."""


@dataclass(frozen=True)
class Tried:
    """What one request got, and what it would have got without a gate."""

    decision: GateDecision
    target: Target | None
    """None for the usual number of tools (`Gate.start`)."""

    tool_search: bool
    tokens: dict[str, int]
    """Of each tool's definition, by the names of the decision."""

    loaded: int
    """Tokens of the definitions in every model call, those of the tool search included."""

    every: int
    """The same without a gate."""

    prices: Prices
    fitted: bool = False
    """Whether a policy that was fitted decided."""

    @property
    def dollars(self) -> tuple[float, float]:
        """What those tokens cost a task, and what they cost without a gate."""
        return self.prices.of_tokens(self.loaded), self.prices.of_tokens(self.every)

    def lines(self, width: int = 80, *, whole: bool = False, block: str = "█") -> list[str]:
        """The whole explanation, for a terminal."""
        if self.decision.reason != "decided":
            return [f"{self._no_decision()}, so the agent gets {self._got_without_decision()}."]
        lines = [f"{len(self.decision.kept)} of {len(self.tokens)} tools kept: {self._aimed()}.", ""]
        lines += [*waterfall_lines(self.decision.ranking, self.tokens, width, whole=whole, block=block), ""]
        never_cut = sorted(self.tokens.keys() - {tool.name for tool in self.decision.ranking})
        if never_cut:
            lines.append(f"Besides   {', '.join(never_cut)}: without a description to score, never cut")
        tool_search = ", the tool search included" if self.tool_search and self.decision.cut else ""
        lines.append(f"Tokens    {self.loaded:,} of {self.every:,} in every model call{tool_search}: {self._saved()}")
        dollars, usual = self.dollars
        lines.append(
            f"Dollars   ${dollars:.4f} instead of ${usual:.4f} for a task of {self.prices.turns:g} model calls"
        )
        lines += [f"Because   {tool.name}: {tool.why}" for tool in self.decision.ranking if tool.kept and self.fitted]
        if not self.decision.cut:
            return [*lines, "Enough?   all there is: nothing is cut"]
        return [*lines, ENOUGH_BY_FIT[self.fitted], MISSED_BY_SEARCH[self.tool_search]]

    def summary(self) -> dict[str, Any]:
        """The same for machines."""
        target: dict[str, Any] = {}
        if self.target is not None:
            target = {name: value for name, value in vars(self.target).items() if value is not None}
        return {
            "kept": list(self.decision.kept),
            "cut": list(self.decision.cut),
            "reason": self.decision.reason,
            "target": target,
            "cost_pressure": self.decision.cost_pressure,
            "tool_search": self.tool_search,
            "tokens": self.loaded,
            "tokens_of_all": self.every,
            "dollars": self.dollars[0],
            "dollars_of_all": self.dollars[1],
            "ranking": list(map(self._in_summary, self.decision.ranking)),
        }

    def _in_summary(self, tool: Ranked) -> dict[str, Any]:
        ranked: dict[str, Any] = {
            "tool": tool.name,
            "score": tool.score,
            "needed": tool.evidence,
            "tokens": self.tokens[tool.name],
            "kept": tool.name in self.decision.kept,
        }
        if self.fitted:
            ranked["why"] = tool.why
        return ranked

    def _got_without_decision(self) -> str:
        if self.decision.tool_search:
            return "the tool search alone"
        if len(self.tokens) == 1:
            return "its one tool"
        return f"all {len(self.tokens)} tools"

    def _no_decision(self) -> str:
        if self.decision.reason == "name taken":
            return self.decision.error.removesuffix(".")
        if self.decision.reason == "empty task":
            return "The request is empty"
        if self.decision.ranking:
            return f"No tool stands out for this request ({self.decision.reason})"
        return f"The request is a mere greeting ({self.decision.reason})"

    def _saved(self) -> str:
        if self.loaded < self.every:
            return f"{1 - self.loaded / self.every:.0%} less"
        if self.loaded == self.every or not self.every:
            return "nothing saved"
        times = self.loaded / self.every
        return f"{times:.1f} times as many, so with so few tools a tool search costs more than it saves"

    def _aimed(self) -> str:
        if self.fitted:
            return "those that are worth their cost"
        if self.target is None or self.target.mean_tools is not None:
            if self.decision.cut:
                return "the best for this request"
            if self.target is None:
                return "cutting so short a list costs more than it saves"
            return "there are no more"
        if self.target.sufficiency is not None:
            expected = f"enough in {self.target.sufficiency:.0%} of such requests"
            return f"the fewest that the cold start expects to be {expected}, which no label has shown"
        return f"what ${self.target.dollars_per_task:g} a task buys"


def trial(
    request: str,
    tools: Sequence[Any],
    scorer: Scorer,
    target: Target | None = None,
    *,
    tool_search: bool = True,
    prices: Prices | None = None,
    policy: Policy | None = None,
    past: PastTasks | None = None,
    scorer_mismatch: ScorerMismatch = "refuse",
) -> Tried:
    """Decide on one request as a gate would on its first day (`Gate.start`), or by a `policy` with its `past` tasks.

    A target of a number of tools is for `Gate.start`, too. Another one is met by the cold start, on this request alone;
    a gate meets it on average over the requests that it is shown (`Gate.for_target`). `scorer` gives similarities.
    `prices` count tokens, and say what a task's tools cost; without them each costs a policy 1. `scorer_mismatch` is
    that of `Gate`.
    """
    viewed = keyed(view(tool) for tool in tools)
    priced = prices or Prices()
    if all(tool.foreign for tool in viewed.values()):
        raise UsageError(NO_TOOLS)
    asked = [{"role": "user", "content": request}]
    settings: dict[str, Any] = {"limits": Limits(seconds=None), "prices": priced, "tool_search": tool_search}
    most = None if target is None or target.mean_tools is None else int(target.mean_tools)
    if policy is None:
        gate = Gate.start(tools, mean_tools=most, scorer=scorer, mode="drop", **settings)
    else:
        gate = Gate(
            recalling(policy, past, scorer), scorer, scorer_mismatch=scorer_mismatch, **{**settings, "prices": prices}
        )
    decision = gate.decide(asked, tools)
    if decision.error and decision.reason != "name taken":
        raise ScorerError(f"The request could not be scored: {decision.reason}, {decision.error}.")
    if decision.reason == "decided" and target is not None and target.mean_tools is None:
        gate = Gate.for_target(cold_start(), scorer, requests=[asked], tools=tools, **vars(target), **settings)
        decision = gate.decide(asked, tools)
    tokens = {key: priced.count(tool) for key, tool in viewed.items()}
    loaded = sum(tokens[name] for name in decision.kept)
    loaded += sum(map(priced.count, decision.search))
    return Tried(decision, target, tool_search, tokens, loaded, sum(tokens.values()), priced, policy is not None)

"""One cell of the paper's tables: a domain, a ranking, a payoff, costs, splits and policies, all of it plain data."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Literal

import numpy as np

from camdf.core.payoff import Payoff
from camdf.core.rankings import LoggedTasks
from camdf.evaluation.replay import Outcomes, replay
from camdf.evaluation.splits import Split, draw_splits
from camdf.policies.registry import policy_maker
from camdf_lab import domains
from camdf_lab.domains.costs import RETAIL_BASE_COSTS, dispersed
from camdf_lab.flips import noisy
from camdf_lab.paper.contestants import CONTESTANTS


@dataclass(frozen=True)
class BaseCosts:
    """Where the costs of tools come from, before they are dispersed.

    "rule" is the paper's: Retail's table, and md5 vector 0 in the other domains. "vector" is the md5 vector of this
    number. "permutation" shuffles Retail's table over its tools, with the number as seed. "random" draws costs
    uniformly from [0.5, 2.0], anew for every split; it and "rule" need no number.
    """

    source: Literal["rule", "vector", "permutation", "random"] = "rule"
    number: int = 0


PAPER_COSTS = BaseCosts()
"""The paper's rule."""


@dataclass(frozen=True)
class Cell:
    """What one replay measures.

    `noise` flips each listed tool's membership in the training and validation labels with that probability; tests keep
    the true labels.
    """

    domain: str
    scorer: str
    policies: tuple[str, ...]
    value: str = "exact"
    cost_pressure: float = 0.12
    dispersion: float = 0.0
    costs: BaseCosts = PAPER_COSTS
    noise: float = 0.0
    splits: int = 30
    grouped: bool = False
    shares: tuple[float, float] = (0.55, 0.20)
    seed: int = 0

    @property
    def key(self) -> str:
        """Everything that determines the outcome, as one line of JSON."""
        return json.dumps(asdict(self), sort_keys=True)

    @property
    def payoff(self) -> Payoff:
        """The payoff rule."""
        return Payoff(self.cost_pressure, self.value)

    def logged(self) -> LoggedTasks:
        """The tasks at their costs; random costs are drawn by each split, and here every tool costs 1."""
        match self.costs.source:
            case "rule":
                return domains.load(self.domain, self.scorer, dispersion=self.dispersion)
            case "vector":
                vector = self.costs.number
                return domains.load(self.domain, self.scorer, dispersion=self.dispersion, cost_vector=vector)
            case "permutation":
                shuffled = np.random.default_rng(self.costs.number).permutation(list(RETAIL_BASE_COSTS.values()))
                base = dict(zip(RETAIL_BASE_COSTS, shuffled.tolist(), strict=True))
                return domains.load(self.domain, self.scorer).with_costs(dispersed(base, self.dispersion))
            case "random":
                return domains.load(self.domain, self.scorer)

    def drawn_splits(self, logged: LoggedTasks) -> Iterator[Split]:
        """The splits of this cell: the same for every policy, payoff and cost of a domain."""
        return draw_splits(logged, self.splits, self.seed, grouped=self.grouped, shares=self.shares)

    def run(self) -> Outcomes:
        """Fit and test the policies on every split. The outcome depends on the cell alone."""
        logged = self.logged()
        policies = {name: CONTESTANTS.get(name) or policy_maker(name) for name in self.policies}
        return replay(
            policies,
            logged,
            self.payoff,
            self.drawn_splits(logged),
            training=self._with_noise if self.noise else None,
            pricing=self._at_random_costs if self.costs.source == "random" else None,
            gated=False,
        )

    def _with_noise(self, logged: LoggedTasks, split: int) -> LoggedTasks:
        return noisy(logged, self.noise, self.seed, split)

    def _at_random_costs(self, logged: LoggedTasks, split: int) -> LoggedTasks:
        tools = domains.tools(self.domain)
        base = np.random.default_rng([self.seed, split, 2]).uniform(0.5, 2.0, size=len(tools))
        return logged.with_costs(dispersed(dict(zip(tools, base.tolist(), strict=True)), self.dispersion))

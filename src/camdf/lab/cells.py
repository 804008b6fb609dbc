"""One cell of the lab: a domain, a ranking, a payoff, prices, splits and policies, all of it plain data."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace

import numpy as np

from camdf import datasets
from camdf.core.costs import RETAIL_BASE_COSTS, dispersed
from camdf.core.payoff import Payoff
from camdf.core.rankings import LoggedTasks
from camdf.lab.contestants import CONTESTANTS
from camdf.lab.replay import Outcomes, replay
from camdf.lab.splits import Split, draw_splits


@dataclass(frozen=True)
class Cell:
    """What to replay.

    `costs` names how tools are priced before dispersion: "rule" (the paper's table or md5 vector 0), "vector 3"
    (another md5 vector), "permutation 7" (Retail's base costs shuffled over its tools), or "random" (base costs drawn
    uniformly from [0.5, 2.0] anew for every split). `noise` flips each listed tool's membership in the training and
    validation labels with that probability; tests keep the true ones.
    """

    domain: str
    scorer: str
    policies: tuple[str, ...]
    value: str = "exact"
    cost_pressure: float = 0.12
    dispersion: float = 0.0
    costs: str = "rule"
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
        """The tasks, priced; at random prices they stand at cost 1 until a split draws them."""
        if self.costs == "random":
            return datasets.load(self.domain, self.scorer)
        kind, _, number = self.costs.partition(" ")
        if kind == "permutation":
            base = RETAIL_BASE_COSTS
            shuffled = np.random.default_rng(int(number)).permutation(list(base.values()))
            prices = dispersed(dict(zip(base, shuffled.tolist(), strict=True)), self.dispersion)
            return datasets.load(self.domain, self.scorer).with_costs(prices)
        vector = int(number) if kind == "vector" else 0
        return datasets.load(self.domain, self.scorer, dispersion=self.dispersion, cost_vector=vector)

    def drawn_splits(self, logged: LoggedTasks) -> Iterator[Split]:
        """The splits of this cell: the same for every policy, payoff and price of a domain."""
        return draw_splits(logged, self.splits, self.seed, grouped=self.grouped, shares=self.shares)

    def run(self) -> Outcomes:
        """Replay the cell. The same cell gives the same outcome, whoever runs it beside what else."""
        logged = self.logged()
        policies = {name: CONTESTANTS[name] for name in self.policies}
        return replay(
            policies,
            logged,
            self.payoff,
            self.drawn_splits(logged),
            training=self._with_noise if self.noise else None,
            pricing=self._at_random_costs if self.costs == "random" else None,
        )

    def _with_noise(self, logged: LoggedTasks, split: int) -> LoggedTasks:
        return noisy(logged, self.noise, self.seed, split)

    def _at_random_costs(self, logged: LoggedTasks, split: int) -> LoggedTasks:
        tools = datasets.tools(self.domain)
        base = np.random.default_rng([self.seed, split, 2]).uniform(0.5, 2.0, size=len(tools))
        return logged.with_costs(dispersed(dict(zip(tools, base.tolist(), strict=True)), self.dispersion))


def noisy(logged: LoggedTasks, probability: float, seed: int, split: int) -> LoggedTasks:
    """The labels that one split learns from: the same flips at every price and payoff."""
    return flipped(logged, probability, np.random.default_rng([seed, split, 1])) if probability else logged


def flipped(logged: LoggedTasks, probability: float, rng: np.random.Generator) -> LoggedTasks:
    """Label noise: every listed tool's membership in the required set is flipped independently."""
    flips = (rng.random(logged.required.shape) < probability) & logged.rankings.listed
    required = logged.required ^ flips
    return replace(logged, required=required, n_required=required.sum(axis=1) + logged.missing)

"""Policies under many payoffs and prices at once, where a fit that does not depend on them is made once for all."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import NamedTuple

from camdf.core.payoff import Payoff
from camdf.core.rankings import LoggedTasks
from camdf.core.stopping import prefix_oracle
from camdf.evaluation.replay import ORACLE, Outcomes, Tally
from camdf.evaluation.splits import Split
from camdf.policies.base import Policy


class Regime(NamedTuple):
    """Under which value, cost pressure and cost dispersion policies are measured."""

    value: str
    cost_pressure: float
    dispersion: float

    def name(self, policy: str) -> str:
        """The name under which a policy's outcome in this regime is kept."""
        return f"{self.value} {self.cost_pressure:g} {self.dispersion:g}: {policy}"


def replay_regimes(
    policies: Mapping[str, Callable[[], Policy]],
    priced: Mapping[float, LoggedTasks],
    regimes: Sequence[Regime],
    splits: Iterable[Split],
    *,
    training: Callable[[LoggedTasks, int], LoggedTasks],
    ways: Mapping[str, Callable[[Policy], Mapping[str, Policy]]] = MappingProxyType({}),
) -> Outcomes:
    """What every policy paid in every regime, by `Regime.name`; `priced` maps a dispersion to the tasks at its prices.

    A policy is fitted once a split for all that one fit serves (`Policy.fitted_for`). `training` changes what is
    learned from, by the split's number; tests are always measured on true labels. `ways` are for policies of which
    one fit decides in several ways, each under a name of its own.
    """
    tally = Tally(next(iter(priced.values())))
    for number, split in enumerate(splits):
        tally.appearances[split.test] += 1
        taught = {dispersion: training(logged, number) for dispersion, logged in priced.items()}
        fitted: dict[tuple[object, ...], Policy] = {}
        for regime in regimes:
            payoff = Payoff(regime.cost_pressure, regime.value)
            train = taught[regime.dispersion].take(split.train)
            validation = None
            if len(split.validation):
                validation = taught[regime.dispersion].take(split.validation)
            test = priced[regime.dispersion].take(split.test)
            for name, make in policies.items():
                policy = make()
                serves = {"anything": (), "a value": (regime.value,), "a payoff": regime}[policy.fitted_for]
                if (name, *serves) not in fitted:
                    fitted[name, *serves] = policy.fit(train, payoff, validation)
                fit = fitted[name, *serves]
                deciders = ways[name](fit) if name in ways else {name: fit}
                for way, decider in deciders.items():
                    tally.add(regime.name(way), split.test, test, payoff, decider.decide(test.rankings, payoff))
            tally.add(regime.name(ORACLE), split.test, test, payoff, prefix_oracle(test, payoff))
    return replace(tally.outcomes(), by_split={})

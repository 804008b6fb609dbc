"""Choose the set, not the depth: the tools that maximise expected payoff at the prices of this very request."""

from __future__ import annotations

from typing import Self

import numpy as np

from camdf.core.decisions import Decisions
from camdf.core.payoff import Payoff, ValueFunction
from camdf.core.rankings import Bools, Floats, Ints, LoggedTasks, Rankings, joined
from camdf.core.sets import (
    SMALLEST,
    expected_shares,
    leaving_cuts,
    sufficiency_by_cut,
    value_order,
    worth_by_cut,
)
from camdf.core.sums import before_each
from camdf.errors import NotFittedError, UsageError
from camdf.models.label_noise import noise_of
from camdf.models.membership import HeldOut, MembershipModel, fit_membership
from camdf.policies import fields
from camdf.policies.base import Policy

FEWEST_TASKS = 15
"""With fewer tasks, labels are trusted: what a model does not know yet would look like noise."""

MOST_NOISE = 0.4
"""A larger estimate is taken as this one: at a half, labels say nothing and nothing can be corrected."""

LEAST = 1e-4
"""Corrected probabilities stay this far from 0 and 1."""


class ExpectedPayoffBySet(Policy):
    """Learns once how likely each candidate is to be required; then decides under any payoff, at any prices.

    Under the exact payoff it keeps the best cut of the order by -log(1 - p_j) / c_j; under the partial payoff it keeps
    j where E[1{j required} / number required] >= lambda * c_j. With recourse r, (1 - r) * p_j stands for p_j in the
    first, and lambda / (1 - r) for lambda in the second. It may skip an expensive tool in the middle of the ranking,
    and needs no new fit when prices change. `identity` lets tools of a shared catalogue of at most 64 differ.

    Labels of which a share e is flipped at random turn the probability p that a tool is required into e + (1 - 2e) p,
    for every tool, so that no set seems to suffice. The fit estimates e (`estimate_label_noise`) and decisions rest on
    (learned - e) / (1 - 2e). A hard task looks like a wrong label, so clean labels are corrected a little too much;
    where they are known to be clean, `trust_labels` switches the correction off.
    """

    kind = "expected-payoff-by-set"
    fields = {
        "identity": fields.flag,
        "trust_labels": fields.flag,
        "model_": fields.membership_model,
        "label_noise_": fields.number,
    }
    identity: bool
    trust_labels: bool
    model_: MembershipModel
    label_noise_: float = 0.0

    def __init__(self, identity: bool = True, *, trust_labels: bool = False) -> None:
        self.store(identity=identity, trust_labels=trust_labels)

    def fit(self, logged: LoggedTasks, payoff: Payoff, validation: LoggedTasks | None = None) -> Self:
        self.learn(logged if validation is None else joined(logged, validation))
        return self

    def learn(self, logged: LoggedTasks) -> HeldOut:
        """Fit, and return what models that had not seen each task's group say about it."""
        self.model_, held = fit_membership(logged, self.identity)
        doubted = len(logged) >= FEWEST_TASKS and not self.trust_labels
        self.label_noise_ = min(noise_of(logged, held).rate, MOST_NOISE) if doubted else 0.0
        return held

    def decide(self, rankings: Rankings, payoff: Payoff) -> Decisions:
        probability, holds = self.probabilities(rankings)
        return Decisions(self.choose(rankings, payoff, probability, holds), evidence=probability)

    def probabilities(self, rankings: Rankings) -> tuple[Floats, Floats]:
        """(n, m): that each candidate is required; (n,): that the list holds all required tools."""
        if "model_" not in self.__dict__:
            raise NotFittedError(f"This {type(self).__name__} has not been fitted. Call fit, or load a saved policy.")
        learned, holds = self.model_.probabilities(rankings)
        noise = self.label_noise_
        if noise == 0:
            return learned, holds
        corrected = np.minimum(np.maximum((learned - noise) / (1.0 - 2.0 * noise), LEAST), 1.0 - LEAST)
        return corrected * rankings.listed, holds

    def verify(self) -> None:
        if not 0 <= self.label_noise_ <= MOST_NOISE:
            raise ValueError(f"label_noise_: must lie between 0 and {MOST_NOISE}. Got {self.label_noise_!r} instead")

    def choose(self, rankings: Rankings, payoff: Payoff, probability: Floats, holds: Floats) -> Bools:
        """(n, m): the best set of each task, given the probabilities."""
        if payoff.value == "exact":
            return self._exact(rankings, payoff, probability, holds)
        if payoff.value == "partial":
            gain = self._gains(rankings, probability, payoff.recourse)
            return (gain >= payoff.cost_pressure * rankings.costs) & rankings.listed
        raise UsageError("ExpectedPayoffBySet knows the values 'exact' and 'partial'. Use CAMDF for one of your own.")

    def cuts(
        self, rankings: Rankings, probability: Floats, holds: Floats, recourse: float = 0.0
    ) -> tuple[Ints, Floats, Floats]:
        """The order of the exact payoff (n, m); each cut's expected value and its cost (n, m + 1).

        Without recourse the value is the chance to suffice: h * s, with s the independent chance q, calibrated. With
        it, a set that does not suffice is worth what it is under independence: h * (s + (1 - s) * (R - q) / (1 - q)),
        where R = E[recourse^missed]. Uncalibrated that is h * R.
        """
        order, log_not = value_order(probability, rankings.costs, rankings.listed, recourse)
        independent = sufficiency_by_cut(log_not)
        value = self.model_.calibrated(independent)
        if recourse:
            missing_some = np.maximum(worth_by_cut(log_not, recourse) - independent, 0.0)
            value = value + (1.0 - value) * missing_some / np.maximum(1.0 - independent, SMALLEST)
        return order, value * holds[:, None], before_each(rankings.costs[np.arange(len(rankings))[:, None], order])

    def leaving_pressures(self, rankings: Rankings, value: str | ValueFunction, recourse: float) -> Floats:
        """(n, m): the cost pressure at which each candidate leaves, as `camdf.policies.pressure` needs it."""
        probability, holds = self.probabilities(rankings)
        if value == "partial":
            gain = self._gains(rankings, probability, recourse)
            return np.where(rankings.listed, gain / np.where(rankings.listed, rankings.costs, 1.0), 0.0)
        order, worth, cost = self.cuts(rankings, probability, holds, recourse)
        leaving = np.zeros(rankings.scores.shape)
        np.put_along_axis(leaving, order, leaving_cuts(worth, cost, rankings.lengths), axis=1)
        return leaving

    def _gains(self, rankings: Rankings, probability: Floats, recourse: float) -> Floats:
        """(n, m): what each candidate adds to the expected partial value, whatever else is in the set."""
        share = expected_shares(probability, rankings.listed, self.model_.missing)
        return (1.0 - recourse) * share if recourse else share

    def _exact(self, rankings: Rankings, payoff: Payoff, probability: Floats, holds: Floats) -> Bools:
        order, value, cost = self.cuts(rankings, probability, holds, payoff.recourse)
        rows = np.arange(len(rankings))[:, None]
        depth = (value - payoff.cost_pressure * cost).argmax(axis=1)
        acquired = np.zeros(rankings.scores.shape, dtype=bool)
        acquired[rows, order] = np.arange(rankings.width) < np.minimum(depth, rankings.lengths)[:, None]
        return acquired

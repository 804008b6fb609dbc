"""Choose the set, not the depth: the tools that maximize expected payoff at the prices of this very request."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from itertools import chain
from typing import TYPE_CHECKING, Annotated, Any, Self

import numpy as np

from camdf.core.decisions import Decisions
from camdf.core.groups import numbered
from camdf.core.payoff import Payoff, ValueFunction
from camdf.core.rankings import Bools, Floats, GatedTasks, Ints, LoggedTasks, Rankings, joined
from camdf.core.sets import (
    SMALLEST,
    expected_shares,
    leaving_cuts,
    log_not_required,
    sufficiency_by_cut,
    value_order,
    worth_by_cut,
)
from camdf.core.sums import before_each
from camdf.errors import NotFittedError, UsageError
from camdf.policies.base import Policy
from camdf.policies.models.company import Company
from camdf.policies.models.membership import HeldOut, MembershipModel
from camdf.policies.models.own_past import fit_own, own_column, with_own
from camdf.policies.models.past_tasks import TOLD, PastTasks, quoted
from camdf.policies.models.prior import KINDS, Prior, prior_of, shipped_prior
from camdf.policies.models.set_law import sharpened
from camdf.policies.models.stored import Written, number, number_within, object_of
from camdf.runtime.settings import LEFT_OUT, one_of, or_none, truth

if TYPE_CHECKING:
    from camdf.policies.models.warm_start import WarmFit

MOST_NOISE = 0.4
"""At a half, labels say nothing and nothing can be corrected."""

LEAST = 1e-4
"""Probabilities that are corrected afterwards stay this far from 0 and 1."""

FEWEST_GROUPS = 10
"""With tasks of fewer, what is held out says too little of new groups to recall past tasks for them."""

_kind_of_prior = one_of("either", *KINDS)


def _prior(value: Any) -> str | ExpectedPayoffBySet:
    """The kind of a prior, or a policy to start from."""
    if not isinstance(value, ExpectedPayoffBySet):
        kind: str = _kind_of_prior(value)
        return kind
    if "model_" not in vars(value):
        raise ValueError("fitted where it is a policy")
    return value


def _written_prior(prior: str | ExpectedPayoffBySet) -> str:
    """A file says what the scores are taken to be, and not what it started from."""
    if isinstance(prior, str):
        return prior
    return _written_prior(prior.prior)


class ExpectedPayoffBySet(Policy):
    """Learns once how likely each candidate is to be required; then decides under any payoff, at any prices.

    Under the exact payoff it keeps the best cut of the order by -log(1 - p_j) / c_j; under the partial payoff it keeps
    j where E[1{j required} / number required] >= lambda * c_j. With recourse r, (1 - r) * p_j stands for p_j in the
    first, and lambda / (1 - r) for lambda in the second. It may skip an expensive tool in the middle of the ranking,
    and needs no new fit when prices change. Where enough tasks that it learned from need no tool, it says how likely a
    task is to need none; else it takes every task to need one. `identity` lets tools of a shared catalogue of at most
    64 differ.

    It starts from what other domains say and learns from the first label on (`camdf.policies.models.warm_start`).
    `prior` says what the scores are, as for `cold_start`: "similarity", "probability", or "either", which lets the
    labels tell; or it is a policy of this kind that was fitted before for the same tools, on made-up tasks say, and
    starts there. It learns how many tools tasks require, and reads tasks' vectors where the rankings have them. Labels
    of which a share is flipped make every tool look required now and then, so that no set seems to suffice; it tells
    them from hard tasks by how well each explains held-out labels. Where labels are known to be clean, `trust_labels`
    takes them so.

    With `remember` it keeps the tasks that it learned from (`past_`: their vectors and tools) and learns how much
    similar ones count, if they are of ten groups or more and that clearly lowers its held-out loss; and likewise how
    much a user's own ones do, where the rankings say who asks. A policy's file does not hold them: `recalling` gives a
    loaded policy its past tasks, and without them it decides as one that has none. So it does for whoever has none.
    """

    kind = "expected-payoff-by-set"
    has_reasons = True
    identity: Annotated[bool, truth]
    trust_labels: Annotated[bool, truth]
    prior: Annotated[str | ExpectedPayoffBySet, _prior, Written(_written_prior)]
    model_: Annotated[MembershipModel, object_of(MembershipModel)]
    with_text_: Annotated[MembershipModel | None, or_none(object_of(MembershipModel))] = None
    label_noise_: Annotated[float, number_within(0, MOST_NOISE, f"a share from 0 to {MOST_NOISE}")] = 0.0
    remember: Annotated[bool, truth, LEFT_OUT] = False
    with_past_: Annotated[MembershipModel | None, or_none(object_of(MembershipModel)), LEFT_OUT] = None
    own_multiple_: Annotated[float, number, LEFT_OUT] = 0.0
    past_: PastTasks | None = None

    def __init__(
        self,
        identity: bool = True,
        *,
        trust_labels: bool = False,
        prior: str | ExpectedPayoffBySet = "either",
        remember: bool = False,
    ) -> None:
        self.store(identity=identity, trust_labels=trust_labels, prior=prior, remember=remember)

    def fit(
        self,
        logged: LoggedTasks,
        payoff: Payoff,
        validation: LoggedTasks | None = None,
        gated: GatedTasks | None = None,
    ) -> Self:
        """Learn from logged tasks, and then from `gated` ones, as far as they were offered what they list."""
        if validation is not None:
            logged = joined(logged, validation)
        self.learn(logged, gated)
        return self

    def learn(self, logged: LoggedTasks, gated: GatedTasks | None = None) -> HeldOut:
        """Fit, and return what models that had not seen each task's group say about it."""
        from camdf.policies.models.warm_start import fit_warm  # which a decision never needs, as those below

        best = fit_warm(logged, self.priors(), self.identity, trust_labels=self.trust_labels, gated=gated)
        self.model_ = best.model
        self.with_text_ = None
        self.with_past_ = None
        vars(self).pop("past_", None)  # a policy's file does not hold it either
        with_text = self._fit_with_texts(logged, best, gated)
        if with_text is not None:
            self.with_text_ = with_text.model
            best = with_text
        with_past = self._fit_with_past(logged, best, gated)
        if with_past is not None:
            self.with_past_ = with_past.model
            best = with_past
        self.own_multiple_ = 0.0
        if self._may_remember(logged) and logged.rankings.users is not None:
            self.own_multiple_ = fit_own(logged, best.held.probability, best.model.flips)
        if self.recalls:
            self.past_ = PastTasks.all_of(logged).bounded()
        self.label_noise_ = best.model.flips
        return best.held

    def _may_remember(self, logged: LoggedTasks) -> bool:
        return self.remember and numbered(logged.groups)[1] >= FEWEST_GROUPS

    def _fit_with_texts(self, logged: LoggedTasks, alone: WarmFit, gated: GatedTasks | None) -> WarmFit | None:
        """The fit that reads the tasks' vectors, where it is clearly better than the one from the ranking alone.

        One that goes on from a prior that reads them stays, unless the one from the ranking alone is clearly better.
        """
        from camdf.policies.models.task_text import fit_text
        from camdf.policies.models.warm_start import fit_warm

        priors = self.priors(logged.rankings)
        before = priors[0].text
        if fit_text(logged, before) is None:  # cheap, compared with a fit that would read nothing
            return None
        read = fit_warm(logged, priors, self.identity, trust_labels=self.trust_labels, texts=True, gated=gated)
        if read.model.text is None:
            return None
        if before is None and not read.beats(alone):
            return None
        if before is not None and alone.beats(read):
            return None
        return read

    def _fit_with_past(self, logged: LoggedTasks, best: WarmFit, gated: GatedTasks | None) -> WarmFit | None:
        """The fit that reads what similar tasks needed, where it may and is clearly better than the best one so far."""
        from camdf.policies.models.warm_start import fit_warm

        if logged.rankings.vectors is None or not self._may_remember(logged):
            return None
        priors = self.priors(logged.rankings)
        trust = self.trust_labels
        recalled = fit_warm(logged, priors, self.identity, trust_labels=trust, texts=True, remember=True, gated=gated)
        if not recalled.beats(best):
            return None
        return recalled

    def recalling(self, past: PastTasks | None) -> Self:
        """The same policy with past tasks, which may be more than it was fitted with; None for none."""
        known = copy(self)
        vars(known).pop("past_", None)
        if self.recalls and past is not None and len(past):
            if self.with_past_ is not None:
                text = self.with_past_.text
                dimensions = past.dimensions if text is None else text.dimensions
                past.check_vectors(dimensions, "the policy was fitted on")
            known.past_ = past.among(self.model_.tools)
        return known

    @property
    def needed(self) -> Mapping[str, float]:
        return self.model_.needed if "model_" in vars(self) else {}

    @property
    def recalls(self) -> bool:
        return self.with_past_ is not None or self.own_multiple_ > 0

    def knows(self, user: str) -> bool:
        past = self.past_
        if past is None or not len(past.tasks_of(user)):
            return False
        return self.own_multiple_ > 0 or bool(past.texts)

    def reasons(self, rankings: Rankings, row: int) -> Mapping[str, str]:
        told: list[dict[str, str]] = []
        company = self._model_for(rankings).company
        if company is not None:
            told.append(self._reasons_of_company(company, rankings, row))
        if self.past_ is not None:
            told.append(self._reasons_of_user(self.past_, rankings, row))
            told.append(self._reasons_of_similar(self.past_, rankings, row))
        if not told:
            return {}
        reasons: dict[str, list[str]] = {}
        for name, reason in chain.from_iterable(map(dict.items, told)):
            reasons.setdefault(name, []).append(reason)
        return {name: ", ".join(several) for name, several in reasons.items()}

    def _reasons_of_company(self, company: Company, rankings: Rankings, row: int) -> dict[str, str]:
        """What other tools of the list say."""
        companions = company.companions(self.probabilities(rankings)[0], rankings, row)
        return {name: f"often needed together with {companion}" for name, companion in companions.items()}

    def _reasons_of_user(self, past: PastTasks, rankings: Rankings, row: int) -> dict[str, str]:
        """What this user's own past tasks say, where they are read."""
        user = "" if rankings.users is None else str(rankings.users[row])
        if not (self.own_multiple_ and self.knows(user)):
            return {}
        mine = past.tasks_of(user)
        times = past.times_needed(mine)
        return {
            past.tools[place]: f"needed by {times[place]:.0f} of this user's {len(mine)} past requests"
            for place in np.flatnonzero(times).tolist()
        }

    def _reasons_of_similar(self, past: PastTasks, rankings: Rankings, row: int) -> dict[str, str]:
        """What similar past tasks say, where they are read."""
        if self._model_for(rankings) is not self.with_past_:
            return {}
        compared = min(TOLD, len(past))
        reasons = {}
        for name, texts in past.needed_nearby(rankings, row).items():
            reasons[name] = f"needed by {len(texts)} of the {compared} most similar past requests"
            if any(texts):
                reasons[name] += f": {quoted(texts)}"
        return reasons

    def priors(self, reading: Rankings | None = None) -> tuple[Prior, ...]:
        """What it starts from: a prior, or one of each kind. `reading` are rankings whose vectors it is to read."""
        kind = _written_prior(self.prior)
        kinds = KINDS if kind == "either" else (kind,)
        if not isinstance(self.prior, ExpectedPayoffBySet):
            return tuple(map(shipped_prior, kinds))
        model = self.prior.model_ if reading is None else self.prior._model_for(reading)
        return (prior_of(model, kinds[0]),)

    @property
    def reads_texts(self) -> bool:
        return self.with_text_ is not None or (self.with_past_ is not None and self.past_ is not None)

    def update(self, logged: LoggedTasks, offered: Bools | None = None) -> Self:
        """Learn from more outcomes, one or many, without the tasks of before.

        `offered` (n, m) marks the candidates that the agent could call, by default all: one that was offered and not
        required was not needed, and of one that was not offered nothing is known. What was chosen when it was fitted
        (strengths, flips, set sizes and their calibration, whether texts help) stays, so fit again when there is time.
        """
        from camdf.policies.models.online import updated

        if offered is None:
            offered = logged.rankings.listed
        reads = self._model_for(logged.rankings)
        if self.with_past_ is not None and reads is self.with_past_:
            self.with_past_ = updated(self.with_past_, logged, offered, self.past_)
        if self.with_text_ is not None and reads is not self.model_:
            self.with_text_ = updated(self.with_text_, logged, offered)
        self.model_ = updated(self.model_, logged, offered)
        more = PastTasks.all_of(logged)
        if self.past_ is not None and more.dimensions == self.past_.dimensions:
            self.past_ = self.past_.joined(more).bounded().among(self.model_.tools)
        return self

    def decide(self, rankings: Rankings, payoff: Payoff) -> Decisions:
        probability, holds = self.probabilities(rankings)
        acquired = self.choose(rankings, payoff, probability, holds)
        model = self._model_for(rankings)
        none = model.chance_of_none(rankings, probability) if model.none else None
        return Decisions(acquired, evidence=probability, none=none)

    def probabilities(self, rankings: Rankings) -> tuple[Floats, Floats]:
        """(n, m): that each candidate is required; (n,): that the list holds all required tools."""
        model = self._model_for(rankings)
        noise = self.label_noise_
        learned, holds = model.probabilities(rankings, self.past_)
        if self.own_multiple_ and self.past_ is not None and rankings.users is not None:
            learned = with_own(learned, own_column(self.past_, rankings), self.own_multiple_)
        if noise == 0 or model.doubt is not None:
            return learned, holds  # a model saved by an earlier version had not taken flips into its fit
        corrected = np.minimum(np.maximum((learned - noise) / (1.0 - 2.0 * noise), LEAST), 1.0 - LEAST)
        return corrected * rankings.listed, holds

    def _model_for(self, rankings: Rankings) -> MembershipModel:
        """The model that reads these rankings: with their vectors where they have them and it helps."""
        if "model_" not in self.__dict__:
            raise NotFittedError(f"This {type(self).__name__} has not been fitted. Call fit, or load a saved policy.")
        if rankings.vectors is None:
            return self.model_
        dimensions = rankings.vectors.shape[1]
        if self.with_past_ is not None and self.past_ is not None and self.past_.dimensions == dimensions:
            return self.with_past_
        with_text = self.with_text_
        if with_text is not None and with_text.text is not None and with_text.text.dimensions == dimensions:
            return with_text
        return self.model_

    def choose(self, rankings: Rankings, payoff: Payoff, probability: Floats, holds: Floats) -> Bools:
        """(n, m): the best set of each task, given the probabilities."""
        if payoff.value == "exact":
            return self._best_cut(rankings, payoff, probability, holds)
        if payoff.value == "partial":
            gain = self._expected_gains(rankings, probability, payoff.recourse)
            return (gain >= payoff.cost_pressure * rankings.costs) & rankings.listed
        raise UsageError("ExpectedPayoffBySet knows the values 'exact' and 'partial'. Use CAMDF for one of your own.")

    def cuts(
        self, rankings: Rankings, probability: Floats, holds: Floats, recourse: float = 0.0
    ) -> tuple[Ints, Floats, Floats]:
        """The order of the exact payoff (n, m); each cut's expected value and its cost (n, m + 1).

        Of a task that needs something, without recourse the value is the chance to suffice: h * s, with s the chance q
        under the law of sizes, calibrated. With it, a set that does not suffice is worth what it is under that law:
        h * (s + (1 - s) * (R - q) / (1 - q)), where R = E[recourse^missed]. Uncalibrated that is h * R. For a task that
        needs nothing every set is worth 1.
        """
        model = self._model_for(rankings)
        sharp = sharpened(probability, model.sharpness)
        order, log_not = value_order(sharp, rankings.costs, rankings.listed, recourse)
        by_law = sufficiency_by_cut(log_not, model.law)
        value = model.calibrated(by_law)
        if recourse:
            missing_some = np.maximum(worth_by_cut(log_not, recourse, model.law) - by_law, 0.0)
            value = value + (1.0 - value) * missing_some / np.maximum(1.0 - by_law, SMALLEST)
        costs = rankings.costs[np.arange(len(rankings))[:, None], order]
        value = _or_none_needed(value * holds[:, None], model.chance_of_none(rankings, probability)[:, None])
        return order, value, before_each(costs)

    def estimated_sufficiency(self, rankings: Rankings, acquired: Bools) -> Floats:
        """(n,): how likely each task is to need no tool outside its set, as the policy itself sees it."""
        probability, holds = self.probabilities(rankings)
        model = self._model_for(rankings)
        log_not = log_not_required(sharpened(probability, model.sharpness), rankings.listed)
        first = np.argsort(~acquired, axis=1, kind="stable")
        by_cut = sufficiency_by_cut(np.take_along_axis(log_not, first, axis=1), model.law)
        sufficient = holds * model.calibrated(by_cut[np.arange(len(rankings)), acquired.sum(axis=1)])
        return _or_none_needed(sufficient, model.chance_of_none(rankings, probability))

    def leaving_pressures(self, rankings: Rankings, value: str | ValueFunction, recourse: float) -> Floats:
        """(n, m): the cost pressure at which each candidate leaves, as `camdf.policies.pressure` needs it."""
        probability, holds = self.probabilities(rankings)
        if value == "partial":
            gain = self._expected_gains(rankings, probability, recourse)
            return np.where(rankings.listed, gain / np.where(rankings.listed, rankings.costs, 1.0), 0.0)
        order, worth, cost = self.cuts(rankings, probability, holds, recourse)
        leaving = np.zeros(rankings.scores.shape)
        np.put_along_axis(leaving, order, leaving_cuts(worth, cost, rankings.lengths), axis=1)
        return leaving

    def _expected_gains(self, rankings: Rankings, probability: Floats, recourse: float) -> Floats:
        """(n, m): what each candidate adds to the expected partial value, whatever else is in the set."""
        model = self._model_for(rankings)
        sharp = sharpened(probability, model.sharpness)
        share = expected_shares(sharp, rankings.listed, model.missing, model.law)
        needs_some = 1.0 - model.chance_of_none(rankings, probability)
        return (1.0 - recourse) * share * needs_some[:, None]

    def _best_cut(self, rankings: Rankings, payoff: Payoff, probability: Floats, holds: Floats) -> Bools:
        order, value, cost = self.cuts(rankings, probability, holds, payoff.recourse)
        rows = np.arange(len(rankings))[:, None]
        depth = (value - payoff.cost_pressure * cost).argmax(axis=1)
        acquired = np.zeros(rankings.scores.shape, dtype=bool)
        acquired[rows, order] = np.arange(rankings.width) < np.minimum(depth, rankings.lengths)[:, None]
        return acquired


def _or_none_needed(value: Floats, none: Floats) -> Floats:
    """The value for a task that needs something, or, with that chance, nothing, when every set is worth 1."""
    either: Floats = none + (1.0 - none) * value
    return either

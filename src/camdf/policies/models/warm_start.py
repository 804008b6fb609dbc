"""One model from the first label on: what other domains say, corrected by as much as the labels can show.

With no label it is the prior. With a few it moves its level and scale; with more, columns and single tools go their
own way. Whatever would make it more than that is believed only where held-out labels, groups kept whole, show it: freer
strengths and texts by more than one standard error, flipped labels by half of one, and not by one group alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from camdf.core.groups import numbered
from camdf.core.probability import logit, sigmoid
from camdf.core.rankings import Bools, Floats, GatedTasks, Ints, LoggedTasks
from camdf.core.sets import SMALLEST
from camdf.policies.models.company import (
    UNREAD,
    Company,
    company_left_out,
    company_of,
    count_pairs,
    fit_coefficients,
    log_odds_with,
)
from camdf.policies.models.design import BASE, MADE_UP, Design, Setting, Strength, weights_of
from camdf.policies.models.membership import HeldOut, MembershipModel, group_folds, splits_of
from camdf.policies.models.none_needed import fit_none, tasks_without_need
from camdf.policies.models.online import updated
from camdf.policies.models.posterior import Fitted, Rows, log_loss, observed
from camdf.policies.models.prior import Prior
from camdf.policies.models.set_law import SetLaw, fit_set_law

STRENGTHS = (
    BASE,
    Strength(0.6, 1.0, 0.3),
    Strength(0.2, 0.3, 0.1),
    Strength(0.6, 0.3, 0.1),
    Strength(1.5, 1.0, 0.3),
    Strength(0.2, 2.0, 0.6),
    Strength(0.6, 2.0, 1.0),
    Strength(1.5, 3.0, 1.5),
    Strength(1.5, 3.0, 1.5, weigh_groups=False),
)
FLIPS = (0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3)
FEWEST_TASKS = 10
"""With fewer, nothing is held out: the model is the prior, its level and scale and tools moved at the base strength."""

FEWEST_FOR_FLIPS = 20
"""With fewer tasks labels are taken as right: of ten, one hard list already looks like labels that are wrong."""

SURE = 1.0
"""By how many standard errors, paired by group, a held-out loss must fall."""

SURE_OF_FLIPS = 0.5
"""The same, for labels to be taken as flipped."""


@dataclass(frozen=True, eq=False)
class WarmFit:
    """The model, and how it did on tasks of groups that it had not seen: `losses` of every group.

    Where nothing could be held out there are none.
    """

    model: MembershipModel
    held: HeldOut
    losses: Floats

    def beats(self, other: WarmFit) -> bool:
        """Whether its held-out loss is clearly enough the lower one to read texts, or past tasks, for it."""
        return Fall.of(other.losses, self.losses).is_clear(SURE)


@dataclass(frozen=True)
class Fall:
    """By how much the held-out losses of groups fall from one setting to another."""

    groups: int
    total: float
    squares: float
    largest: float

    @classmethod
    def of(cls, before: Floats, after: Floats) -> Fall:
        """From the losses of every group under both."""
        fall = before - after
        return cls(len(fall), float(fall.sum()), float((fall**2).sum()), float(fall.max(initial=-np.inf)))

    def is_clear(self, sure: float) -> bool:
        """Whether the mean is above so many standard errors."""
        if self.groups < 2:
            return False
        mean = self.total / self.groups
        variance = max(self.squares - self.total * mean, 0.0) / (self.groups - 1)
        return mean > sure * float(np.sqrt(variance / self.groups))

    @property
    def rests_on_one_group(self) -> bool:
        """Whether nothing is left of it without the group in which the loss falls most."""
        return self.total <= self.largest


def fit_warm(
    logged: LoggedTasks,
    priors: Sequence[Prior],
    identity: bool = True,
    *,
    trust_labels: bool = False,
    texts: bool = False,
    remember: bool = False,
    gated: GatedTasks | None = None,
) -> WarmFit:
    """Learn the model; of several priors take the one that labels speak for.

    With `texts` it learns from the tasks' vectors too, and with `remember` from what similar tasks needed. Then it goes
    on from what `gated` tasks were offered; whatever is learned from held-out predictions is learned from those of
    models that went on so, too, without the gated tasks of the groups that are held out. A fit that reads vectors needs
    those of the gated tasks, and leaves them out where they have none.
    """
    if gated is not None and texts and not _have_like_vectors(gated.logged, logged):
        gated = None
    shared = identity and logged.rankings.shares_catalogue
    starts = [(Design.of(logged, prior, shared, texts, remember), prior) for prior in priors]
    design, prior = min(starts, key=lambda pair: pair[0].fitted(Setting()).loss)
    fold = group_folds(logged)
    folds = [
        _Fold(held, Design.of(logged.take(taught), prior, shared, texts, remember), logged.take(held))
        for taught, held in splits_of(fold)
    ]
    setting = Setting()
    losses = np.zeros(0)
    compared = bool(folds) and len(logged) >= FEWEST_TASKS
    if compared:
        comparison = LossComparison(logged, folds)
        setting = comparison.chosen(shared, trust_labels or len(logged) < FEWEST_FOR_FLIPS)
        losses = comparison.losses(setting)
    probability = np.zeros(logged.required.shape)
    holds = np.ones(len(logged))
    for part in folds:
        probability[part.held], holds[part.held] = part.predicted(setting)
        if gated is not None:
            probability[part.held] = part.predicted_after(gated, setting)
    if compared and gated is not None:
        losses = losses_of_groups(logged, logit(probability, SMALLEST), setting.flips)
    law = SetLaw()
    none: Floats | None = None
    company = None if prior.model is None else prior.model.company
    if compared:
        weights = weights_of(logged, setting.strength)
        together = _fit_company(logged, probability, fold, losses, setting, company) if shared else None
        company = None
        if together is not None:
            company, probability, losses = together
        law = fit_set_law(*required_sets(logged, probability, weights, setting.flips))
        needs_none = tasks_without_need(logged)
        if needs_none.any():
            described = design.reading.described_lists(logged.rankings)
            none = fit_none(probability, logged.rankings.listed, described, needs_none, weights, law)
    elif prior.model is not None:
        law = SetLaw(prior.model.law, prior.model.sharpness, prior.model.calibration)
    held = HeldOut(probability, holds, fold)
    model = design.model(setting, law, none, company)
    if gated is not None:
        model = updated(model, gated.logged, gated.offered, design.reading.past, in_fit=True)
    return WarmFit(model, held, losses)


def _have_like_vectors(first: LoggedTasks, second: LoggedTasks) -> bool:
    both = [tasks.rankings.vectors for tasks in (first, second)]
    dimensions = {0 if vectors is None else vectors.shape[1] for vectors in both}
    return len(dimensions) == 1


class _FittedCompany(NamedTuple):
    """Company, the held-out probabilities with it, and the loss of every group under them."""

    company: Company
    probability: Floats
    losses: Floats


def _fit_company(
    logged: LoggedTasks, probability: Floats, fold: Ints, losses: Floats, setting: Setting, before: Company | None
) -> _FittedCompany | None:
    """Company for held-out probabilities (n, m), if it clearly lowers their losses.

    One that goes on from that of a prior stays, unless it clearly raises them. Each fold is judged by coefficients that
    were learned from the others.
    """
    counts = count_pairs(logged)
    expected = np.array(UNREAD)
    if before is not None:
        counts = counts.plus(before.counts_among(logged.rankings.catalogue), MADE_UP)
        expected = np.array(before.coefficients)
    if not counts.together.any():
        return None
    listed = logged.rankings.listed
    column = company_left_out(logged, counts, probability)
    labels = logged.required.astype(np.float64)
    weights = np.broadcast_to(weights_of(logged, setting.strength)[:, None], labels.shape)

    def learned(rows: Bools) -> Floats:
        return fit_coefficients(probability[rows], column[rows], labels[rows], weights[rows], setting.flips, expected)

    log_odds = np.zeros(labels.shape)
    for taught, held in splits_of(fold):
        log_odds[held] = log_odds_with(learned(listed & taught[:, None]), probability, column)[held]
    after = losses_of_groups(logged, log_odds, setting.flips)
    fall = Fall.of(losses, after)
    helps = fall.is_clear(SURE) and not fall.rests_on_one_group
    if before is not None:
        helps = not Fall.of(after, losses).is_clear(SURE)
    if not helps:
        return None
    coefficients = learned(listed)
    moved = sigmoid(log_odds_with(coefficients, probability, column)) * listed
    return _FittedCompany(company_of(logged, counts, coefficients), moved, after)


def task_losses(fitted: Fitted, rows: Rows, logged: LoggedTasks, flips: float) -> Floats:
    """(n,): the log loss of every task, whose candidates are the rows, in rank order."""
    labels = logged.required[logged.rankings.listed].astype(np.float64)
    task = np.repeat(np.arange(len(logged)), logged.rankings.lengths)
    losses = log_loss(fitted.log_odds(rows), labels, flips)
    return np.bincount(task, weights=losses, minlength=len(logged)).astype(np.float64)


def losses_of_groups(logged: LoggedTasks, log_odds: Floats, flips: float) -> Floats:
    """(groups,): the log loss of every group under log odds (n, m)."""
    labels = logged.required.astype(np.float64)
    by_task = (log_loss(log_odds, labels, flips) * logged.rankings.listed).sum(axis=1)
    group, groups = numbered(logged.groups)
    return np.bincount(group, weights=by_task, minlength=groups).astype(np.float64)


def predicted(fitted: Fitted, rows: Rows, listed: Bools) -> Floats:
    """(n, m): each candidate's probability; the listed ones are the rows, in rank order."""
    probability = np.zeros(listed.shape)
    probability[listed] = sigmoid(fitted.log_odds(rows))
    return probability


def required_sets(
    logged: LoggedTasks, probability: Floats, weights: Floats, flips: float
) -> tuple[Floats, Floats, Bools, Floats]:
    """What the law of set sizes is learned from: the tasks whose list holds all they need, if they need anything.

    Their held-out probabilities, how likely each candidate was required (where labels may be flipped, how likely each
    is right), what is listed, and weights.
    """
    whole = (logged.missing == 0) & logged.required.any(axis=1)
    chance = probability[whole]
    labels = logged.required[whole]
    needed = labels.astype(np.float64)
    if flips:
        right = np.where(labels, 1.0 - flips, flips)
        needed = chance * right / np.where(labels, observed(chance, flips), 1.0 - observed(chance, flips))
    return chance, needed, logged.rankings.listed[whole], weights[whole]


class _Fold:
    """What is learned from some tasks, tried on the others."""

    def __init__(self, held: Bools, design: Design, others: LoggedTasks) -> None:
        self.held = held
        self.design = design
        self.others = others
        self.rows = design.reading.others(others.rankings)

    def losses(self, setting: Setting) -> Floats:
        """(held tasks,): the log loss of each."""
        return task_losses(self.design.fitted(setting), self.rows, self.others, setting.flips)

    def predicted(self, setting: Setting) -> tuple[Floats, Floats]:
        """(held, m) and (held,): each candidate's probability, and that the list holds all."""
        probability = predicted(self.design.fitted(setting), self.rows, self.others.rankings.listed)
        return probability, sigmoid(self.design.reading.holds(self.others.rankings))

    def predicted_after(self, gated: GatedTasks, setting: Setting) -> Floats:
        """(held, m): each candidate's probability after what gated tasks of other groups were offered."""
        taught = gated.without(self.others.groups.tolist())
        past = self.design.reading.past
        model = updated(self.design.model(setting, SetLaw()), taught.logged, taught.offered, past, in_fit=True)
        return model.probabilities(self.others.rankings, past)[0]


class LossComparison:
    """Settings compared by the held-out loss of all groups. Each is fitted once, when it is first asked for."""

    def __init__(self, logged: LoggedTasks, folds: Sequence[_Fold]) -> None:
        self.tasks = len(logged)
        self.folds = folds
        self.group, self.groups = numbered(logged.groups)
        self._known: dict[Setting, Floats] = {}

    def losses(self, setting: Setting) -> Floats:
        """(groups,): the held-out loss of every group."""
        if setting not in self._known:
            by_task = np.zeros(self.tasks)
            for fold in self.folds:
                by_task[fold.held] = fold.losses(setting)
            by_group = np.bincount(self.group, weights=by_task, minlength=self.groups)
            self._known[setting] = by_group.astype(np.float64)
        return self._known[setting]

    def loss(self, setting: Setting) -> float:
        """The held-out loss of all groups."""
        return float(self.losses(setting).sum())

    def fall(self, first: Setting, other: Setting) -> Fall:
        """From one setting to another, group by group."""
        return Fall.of(self.losses(first), self.losses(other))

    def chosen(self, shared: bool, trust_labels: bool) -> Setting:
        """What held-out labels speak for."""
        strengths = STRENGTHS if shared else tuple(strength.of_columns() for strength in STRENGTHS)
        settings = [Setting(strength) for strength in dict.fromkeys(strengths)]
        setting = settings[0]
        likeliest = min(settings, key=self.loss)
        if self.fall(setting, likeliest).is_clear(SURE):
            setting = likeliest
        if trust_labels:
            return setting
        flipped = min(self._while_falling(setting), key=self.loss)
        fall = self.fall(setting, flipped)
        if fall.is_clear(SURE_OF_FLIPS) and not fall.rests_on_one_group:
            return flipped
        return setting

    def _while_falling(self, setting: Setting) -> list[Setting]:
        """The setting, and the same with more and more flips until that makes the held-out loss rise."""
        tried = [setting]
        for flips in FLIPS:
            tried.append(replace(setting, flips=flips))
            if self.loss(tried[-1]) >= self.loss(tried[-2]):
                break
        return tried

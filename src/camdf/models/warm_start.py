"""One model from the first label on: what other domains say, corrected by as much as the labels can show.

With no label it is the prior. With a few it moves its level and scale; with more, columns and single tools go their
own way. Whatever would make it more than that is believed only where held-out labels, groups kept whole, show it: freer
strengths and texts by more than one standard error, flipped labels by half of one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from camdf.core.groups import numbered
from camdf.core.probability import sigmoid
from camdf.core.rankings import Bools, Floats, LoggedTasks
from camdf.models.design import BASE, Design, Setting, Strength, weights_of
from camdf.models.membership import HeldOut, MembershipModel, group_folds, splits_of
from camdf.models.posterior import log_loss, observed
from camdf.models.prior import Prior
from camdf.models.set_law import SetLaw, fit_set_law

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

SURE, SURE_OF_FLIPS = 1.0, 0.5
"""By how many standard errors, paired by group, a held-out loss must fall."""


@dataclass(frozen=True, eq=False)
class WarmFit:
    """The model, and how it did on tasks of groups that it had not seen: `losses` of every group.

    Where nothing could be held out there are none.
    """

    model: MembershipModel
    held: HeldOut
    losses: Floats

    def beats(self, other: WarmFit) -> bool:
        """Whether its held-out loss is clearly enough the lower one to read texts for it."""
        return falls(other.losses, self.losses, SURE)


def fit_warm(
    logged: LoggedTasks,
    priors: Sequence[Prior],
    identity: bool = True,
    *,
    trust_labels: bool = False,
    texts: bool = False,
) -> WarmFit:
    """Learn the model, from the tasks' vectors too if `texts`; of several priors take the one that labels speak for."""
    shared = identity and logged.rankings.shares_catalogue
    starts = [(Design.of(logged, prior, shared, texts), prior) for prior in priors]
    design, prior = min(starts, key=lambda pair: pair[0].fitted(Setting()).loss)
    fold = group_folds(logged)
    folds = [_Fold(logged, taught, held, prior, shared, texts) for taught, held in splits_of(fold)]
    compared = bool(folds) and len(logged) >= FEWEST_TASKS
    setting, losses = _chosen(logged, folds, shared, trust_labels) if compared else (Setting(), np.zeros(0))
    probability, holds = np.zeros(logged.required.shape), np.ones(len(logged))
    for each in folds:
        probability[each.held], holds[each.held] = each.predicted(setting)
    held = HeldOut(probability, holds, fold)
    law = _law(logged, held, setting) if compared else SetLaw()
    return WarmFit(design.model(setting, law), held, losses)


def falls(before: Floats, after: Floats, sure: float) -> bool:
    """Whether the loss, (groups,) each, falls by more than so many standard errors of the paired difference."""
    fall = before - after
    return len(fall) > 1 and bool(fall.mean() > sure * fall.std(ddof=1) / np.sqrt(len(fall)))


def _chosen(logged: LoggedTasks, folds: Sequence[_Fold], shared: bool, trust_labels: bool) -> tuple[Setting, Floats]:
    """What held-out labels speak for, and the held-out loss of every group under it."""
    compare = _Comparison(logged, folds)
    strengths = dict.fromkeys(each if shared else each.of_columns() for each in STRENGTHS)
    setting, losses = compare.best([Setting(each) for each in strengths], SURE)
    if not trust_labels:
        setting, losses = compare.best(_while_falling(setting, compare), SURE_OF_FLIPS)
    return setting, losses


def _while_falling(setting: Setting, compare: _Comparison) -> list[Setting]:
    """The setting, and the same with more and more flips until that makes the held-out loss rise."""
    tried = [setting]
    for flips in FLIPS:
        tried.append(replace(setting, flips=flips))
        if compare.losses(tried[-1]).sum() >= compare.losses(tried[-2]).sum():
            break
    return tried


def _law(logged: LoggedTasks, held: HeldOut, setting: Setting) -> SetLaw:
    """From the tasks whose list holds all they need; where labels may be flipped, from how likely each is right."""
    whole = (logged.missing == 0) & logged.required.any(axis=1)
    chance, labels, flips = held.probability[whole], logged.required[whole], setting.flips
    needed = labels.astype(np.float64)
    if flips:
        right = np.where(labels, 1.0 - flips, flips)
        needed = chance * right / np.where(labels, observed(chance, flips), 1.0 - observed(chance, flips))
    return fit_set_law(chance, needed, logged.rankings.listed[whole], weights_of(logged, setting.strength)[whole])


class _Fold:
    """What is learned from some tasks, tried on the others."""

    def __init__(
        self, logged: LoggedTasks, taught: Bools, held: Bools, prior: Prior, shared: bool, texts: bool
    ) -> None:
        self.held = held
        self.design = Design.of(logged.take(taught), prior, shared, texts)
        self.others = logged.take(held)
        self.rows = self.design.rows_of(self.others.rankings)
        self.labels = self.others.required[self.others.rankings.listed].astype(np.float64)

    def losses(self, setting: Setting) -> Floats:
        """(held tasks,): the log loss of each."""
        each = log_loss(self.design.fitted(setting).log_odds(self.rows), self.labels, setting.flips)
        task = np.repeat(np.arange(len(self.others)), self.others.rankings.lengths)
        return np.bincount(task, weights=each, minlength=len(self.others)).astype(np.float64)

    def predicted(self, setting: Setting) -> tuple[Floats, Floats]:
        """(held, m) and (held,): each candidate's probability, and that the list holds all."""
        listed = self.others.rankings.listed
        probability = np.zeros(listed.shape)
        probability[listed] = sigmoid(self.design.fitted(setting).log_odds(self.rows))
        return probability, np.full(len(listed), sigmoid(np.array(self.design.holds())))


class _Comparison:
    """Settings compared on what they say of tasks that they had not seen."""

    def __init__(self, logged: LoggedTasks, folds: Sequence[_Fold]) -> None:
        self.tasks, self.folds = len(logged), folds
        self.group, self.groups = numbered(logged.groups)
        self.known: dict[Setting, Floats] = {}

    def losses(self, setting: Setting) -> Floats:
        """(groups,): the held-out loss of each group."""
        if setting not in self.known:
            by_task = np.zeros(self.tasks)
            for fold in self.folds:
                by_task[fold.held] = fold.losses(setting)
            self.known[setting] = np.bincount(self.group, weights=by_task, minlength=self.groups).astype(np.float64)
        return self.known[setting]

    def best(self, settings: Sequence[Setting], sure: float) -> tuple[Setting, Floats]:
        """The setting of least loss, if it beats the first one by so many standard errors; else the first."""
        first, best = settings[0], min(settings, key=lambda each: float(self.losses(each).sum()))
        chosen = best if falls(self.losses(first), self.losses(best), sure) else first
        return chosen, self.losses(chosen)

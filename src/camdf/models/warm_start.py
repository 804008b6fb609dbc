"""One model from the first label on: what other domains say, corrected by as much as the labels can show.

With no label it is the prior. With a few it moves its level and scale; with more, columns and single tools go their
own way. Whatever would make it more than that is believed only where held-out labels, groups kept whole, show it: freer
strengths by more than one standard error, flipped labels by half of one, the text by anything at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from camdf.core.candidates import CANDIDATE_COLUMNS, candidate_features, history, second_features
from camdf.core.groups import numbered
from camdf.core.probability import logit, sigmoid, unscaled
from camdf.core.rankings import Bools, Floats, Ints, LoggedTasks, Rankings
from camdf.models.membership import (
    LIST_COLUMNS,
    SLOPE_COLUMN,
    HeldOut,
    MembershipModel,
    group_folds,
    splits_of,
)
from camdf.models.posterior import Fitted, Rows, Strength, log_loss, most_likely, observed
from camdf.models.prior import Prior
from camdf.models.set_law import SetLaw, fit_set_law
from camdf.models.task_text import TextSignal, fit_text

BASE = Strength(0.2, 1.0, 0.3)
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

SURE_OF_STRENGTH, SURE_OF_FLIPS = 1.0, 0.5
"""By how many standard errors, paired by group, a held-out loss must fall."""

PRIOR_TASKS = 3.0
"""How many tasks the prior's shares of missing tools count for."""


@dataclass(frozen=True)
class Setting:
    """What a fit assumes."""

    strength: Strength = BASE
    flips: float = 0.0


@dataclass(frozen=True, eq=False)
class WarmFit:
    """The model, how it did on tasks of groups that it had not seen, and the share of labels taken as flipped.

    `loss` is the mean held-out loss of a task, infinite where nothing could be held out.
    """

    model: MembershipModel
    held: HeldOut
    flips: float
    loss: float


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
    starts = [(_Design.of(logged, prior, shared, texts), prior) for prior in priors]
    design, prior = min(starts, key=lambda pair: pair[0].fitted(Setting()).loss)
    fold = group_folds(logged)
    folds = [_Fold(logged, taught, held, prior, shared, texts) for taught, held in splits_of(fold)]
    compared = bool(folds) and len(logged) >= FEWEST_TASKS
    setting, loss = _chosen(logged, folds, shared, trust_labels) if compared else (Setting(), np.inf)
    probability, holds = np.zeros(logged.required.shape), np.ones(len(logged))
    for each in folds:
        probability[each.held], holds[each.held] = each.predicted(setting)
    held = HeldOut(probability, holds, fold)
    law = _law(logged, held, setting) if compared else SetLaw()
    return WarmFit(design.model(setting, law), held, setting.flips, loss)


def _chosen(logged: LoggedTasks, folds: Sequence[_Fold], shared: bool, trust_labels: bool) -> tuple[Setting, float]:
    """What held-out labels speak for, and the mean held-out loss of a task under it."""
    compare = _Comparison(logged, folds)
    strengths = dict.fromkeys(each if shared else each.of_columns() for each in STRENGTHS)
    setting, losses = compare.best([Setting(each) for each in strengths], SURE_OF_STRENGTH)
    if not trust_labels:
        doubtful = [replace(setting, flips=each) for each in FLIPS]
        setting, losses = compare.best([setting, *doubtful], SURE_OF_FLIPS)
    return setting, float(losses.sum() / len(logged))


def _law(logged: LoggedTasks, held: HeldOut, setting: Setting) -> SetLaw:
    """From the tasks whose list holds all they need; where labels may be flipped, from how likely each is right."""
    whole = (logged.missing == 0) & logged.required.any(axis=1)
    chance, labels, flips = held.probability[whole], logged.required[whole], setting.flips
    needed = labels.astype(np.float64)
    if flips:
        right = np.where(labels, 1.0 - flips, flips)
        needed = chance * right / np.where(labels, observed(chance, flips), 1.0 - observed(chance, flips))
    return fit_set_law(chance, needed, logged.rankings.listed[whole], _weights(logged, setting.strength)[whole])


def _weights(logged: LoggedTasks, strength: Strength) -> Floats:
    """(n,): what each task counts."""
    group, _ = numbered(logged.groups)
    weights = np.bincount(group)[group] ** -0.5 if strength.weigh_groups else np.ones(len(logged))
    return weights.astype(np.float64)


@dataclass(frozen=True, eq=False)
class _Design:
    """Some tasks as rows under a prior, and what it takes to read others the same way."""

    logged: LoggedTasks
    prior: Prior
    base_rate: float
    seen: Floats
    wanted: Floats
    tools: Ints  # numbers of the tools that may differ, by their place in the catalogue, -1 for others
    text: TextSignal | None
    mean: Floats
    spread: Floats
    rows: Rows
    order: Ints
    starts: dict[Strength, Fitted]

    @classmethod
    def of(cls, logged: LoggedTasks, prior: Prior, shared: bool, texts: bool) -> _Design:
        rankings, listed = logged.rankings, logged.rankings.listed
        ids, needed = rankings.tool_ids[listed], logged.required[listed].astype(np.float64)
        count = len(rankings.catalogue)
        seen = np.bincount(ids, minlength=count).astype(np.float64)
        wanted = np.bincount(ids, weights=needed, minlength=count).astype(np.float64)
        base = float(np.clip((needed.sum() + 0.5) / (len(needed) + 1.0), 1e-3, 1 - 1e-3))
        others, required = np.zeros(listed.shape), np.zeros(listed.shape)
        others[listed], required[listed] = seen[ids] - 1.0, wanted[ids] - needed
        features = candidate_features(rankings, history(others, required, base))
        mean, spread = np.array(prior.means), np.array(prior.spreads)
        found = fit_text(logged) if texts else None
        text = None
        if found is not None:
            text, columns = found
            more = columns if rankings.second is None else np.concatenate([columns, second_features(rankings)])
            features = np.concatenate([features, more])
            inside = more[:, listed]
            width = inside.std(axis=1)
            mean = np.append(mean, np.append([0.0, 0.0], inside[2:].mean(axis=1)))
            spread = np.append(spread, np.where(width > 1e-9, width, 1.0))
        tools = np.full(count + 1, -1)
        if shared:
            present = np.flatnonzero(seen)
            tools[present] = np.arange(len(present))
        flat = features[:, listed]
        order = np.argsort(tools[ids], kind="stable")
        rows = _rows(flat[:, order], tools[ids[order]], prior, mean, spread, needed[order])
        return cls(logged, prior, base, seen, wanted, tools, text, mean, spread, rows, order, {})

    def fitted(self, setting: Setting) -> Fitted:
        """The most likely model, from the nearest one that is known already."""
        start = self.starts.get(setting.strength) or self.starts.get(BASE)
        task = np.repeat(np.arange(len(self.logged)), self.logged.rankings.lengths)
        rows = self.rows.weighted(_weights(self.logged, setting.strength)[task][self.order])
        found = most_likely(rows, self.prior, setting.strength, setting.flips, start)
        if not setting.flips:
            self.starts[setting.strength] = found
        return found

    def rows_of(self, rankings: Rankings) -> Rows:
        """Other tasks over the same catalogue, as rows in rank order."""
        listed = rankings.listed
        ids = rankings.tool_ids[listed]
        past = history(np.append(self.seen, 0.0), np.append(self.wanted, 0.0), self.base_rate)
        features = candidate_features(rankings, type(past)(*(column[rankings.tool_ids] for column in past)))
        if self.text is not None:
            parts = [features, self.text.columns(rankings)]
            features = np.concatenate(parts if rankings.second is None else [*parts, second_features(rankings)])
        return _rows(features[:, listed], self.tools[ids], self.prior, self.mean, self.spread, np.zeros(len(ids)))

    def holds(self) -> float:
        """The log odds that a list holds all that its task needs."""
        return float(logit(np.array([self.missing()[0]]), 1e-9)[0])

    def missing(self) -> Floats:
        """Shares of tasks by how many required tools their list lacks."""
        counts = np.bincount(self.logged.missing, minlength=len(self.prior.missing)).astype(np.float64)
        counts[: len(self.prior.missing)] += PRIOR_TASKS * np.array(self.prior.missing)
        shares: Floats = counts / counts.sum()
        return shares

    def model(self, setting: Setting, law: SetLaw) -> MembershipModel:
        """The model in plain coefficients."""
        fitted, prior, rankings = self.fitted(setting), self.prior, self.logged.rankings
        shift, scale = fitted.theta[:2]
        raw, constant = unscaled(fitted.theta[2:], shift + scale * prior.intercept, self.mean, self.spread)
        own, more = raw[: len(CANDIDATE_COLUMNS)] + scale * np.array(prior.coefficients), raw[len(CANDIDATE_COLUMNS) :]
        kept = np.flatnonzero(self.seen)
        place = self.tools[kept]
        levels = np.where(place >= 0, np.append(fitted.levels, 0.0)[place], 0.0)
        slopes = np.where(place >= 0, np.append(fitted.slopes, 0.0)[place], 0.0)
        return MembershipModel(
            coefficients=_floats(own),
            intercept=constant,
            base_rate=self.base_rate,
            tools=tuple(rankings.catalogue[i] for i in kept),
            times_listed=_floats(self.seen[kept]),
            times_required=_floats(self.wanted[kept]),
            levels=_floats(levels),
            slopes=_floats(slopes),
            holds=(self.holds(), *(0.0,) * len(LIST_COLUMNS)),
            calibration=(0.0, 1.0),
            missing=_floats(self.missing()),
            sizes=law.sizes.weights,
            sharpness=law.sharpness,
            text=self.text,
            text_coefficients=_floats(more),
        )


def _rows(features: Floats, tool: Ints, prior: Prior, mean: Floats, spread: Floats, labels: Floats) -> Rows:
    """(columns, rows) as the rows of a fit."""
    start = np.array(prior.coefficients) @ features[: len(CANDIDATE_COLUMNS)] + prior.intercept
    standard = (features.T - mean) / spread
    dense = np.concatenate([np.ones((len(standard), 1)), start[:, None], standard], axis=1)
    return Rows(dense, features[SLOPE_COLUMN], tool, labels, np.ones(len(labels)))


class _Fold:
    """What is learned from some tasks, tried on the others."""

    def __init__(
        self, logged: LoggedTasks, taught: Bools, held: Bools, prior: Prior, shared: bool, texts: bool
    ) -> None:
        self.held = held
        self.design = _Design.of(logged.take(taught), prior, shared, texts)
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
        """The setting of least loss, if its loss is below that of the first by `sure` standard errors; else the first.

        The standard error is that of the difference, paired by group.
        """
        first, best = settings[0], min(settings, key=lambda each: float(self.losses(each).sum()))
        fall = self.losses(first) - self.losses(best)
        error = fall.std(ddof=1) / np.sqrt(len(fall))
        chosen = best if fall.mean() > sure * error else first
        return chosen, self.losses(chosen)


def _floats(values: Iterable[float]) -> tuple[float, ...]:
    return tuple(float(value) for value in values)

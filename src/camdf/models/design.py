"""Logged tasks as the rows of a fit around a prior, and what was learned from them as a membership model.

A candidate's row is 1, the prior's log odds z0, and every column less the prior's mean, over the prior's spread:

    z = a + s * z0 + sum over columns of d_k * (x_k - mean_k) / spread_k + u_tool + v_tool * logit(score).

Before the first label, (a, s) is (0, 1), and the prior's precision says how firmly. Every other coefficient is 0, and a
`Strength` says how firmly.
A prior that was learned for the same tools has levels and slopes in z0, too, and reads texts if its model does.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from camdf.core.candidates import (
    CANDIDATE_COLUMNS,
    History,
    base_rate_of,
    candidate_features,
    counts_of,
    history,
    history_in_others,
)
from camdf.core.groups import sizes_of
from camdf.core.probability import logit
from camdf.core.rankings import Floats, Ints, LoggedTasks, Rankings
from camdf.models.membership import LIST_COLUMNS, SLOPE_COLUMN, Doubt, MembershipModel
from camdf.models.past_tasks import PAST_COLUMNS, PastTasks
from camdf.models.posterior import Belief, Fitted, Rows, afterwards, most_likely
from camdf.models.prior import Prior
from camdf.models.set_law import SetLaw
from camdf.models.task_text import TextSignal, fit_text

MADE_UP = 0.2
"""What a task that the prior was learned from counts in the history of its tools (benchmarks/made_up_labels.py)."""

PRIOR_TASKS = 1.0
"""How many tasks the prior's shares of missing tools count for."""

LEAST_SHARE = 1e-6
"""A prior's share of lists that hold all stays this far from 0 and 1."""

LIST_STRENGTH = 0.5
"""How far each column of a list may move the log odds that it holds all, as a standard deviation."""


class Strength(NamedTuple):
    """How far columns, levels and slopes may go, as standard deviations, and whether groups are weighed down.

    A task of a group of n counts n^(-1/2): n near-copies say more than one task, and less than n.
    """

    columns: float
    levels: float
    slopes: float
    weigh_groups: bool = True

    def of_columns(self) -> Strength:
        """The same, where no tool may differ."""
        return self._replace(levels=1.0, slopes=1.0)


BASE = Strength(0.2, 1.0, 0.3)


@dataclass(frozen=True)
class Setting:
    """What a fit assumes."""

    strength: Strength = BASE
    flips: float = 0.0


def weights_of(logged: LoggedTasks, strength: Strength) -> Floats:
    """(n,): what each task counts."""
    return sizes_of(logged.groups) ** -0.5 if strength.weigh_groups else np.ones(len(logged))


@dataclass(frozen=True, eq=False)
class Counts:
    """What all tasks together say, which every row depends on.

    `seen` and `wanted` (tools,) are how often every tool was listed, and then required, groups weighed down; `missing`
    counts the tasks whose list lacks no required tool, one, two, and so on.
    """

    seen: Floats
    wanted: Floats
    missing: Floats

    @classmethod
    def of(cls, logged: LoggedTasks) -> Counts:
        seen, wanted = counts_of(logged.rankings, logged.required, logged.groups)
        return cls(seen, wanted, np.bincount(logged.missing).astype(np.float64))

    def after(self, model: MembershipModel, place: Ints) -> Counts:
        """These, and what a model counted before them; `place` (tools,) says where it has each tool, else -1."""
        more = len(place) - len(self.seen)
        seen, wanted = (np.append(counts, np.zeros(more)) for counts in (self.seen, self.wanted))
        before, needed = (np.append(counts, 0.0)[place] for counts in (model.times_listed, model.times_required))
        return replace(self, seen=seen + MADE_UP * before, wanted=wanted + MADE_UP * needed)


@dataclass(frozen=True, eq=False)
class TaskReading:
    """How tasks become rows under a prior, given what the tasks that are learned from say together.

    `tools` numbers the tools that may differ, by their place in the catalogue, -1 for others and for padding. `start`
    has the coefficients of z0, and `levels` and `slopes` what it adds for single tools, 0 for padding. `hold` has those
    of the log odds that a list holds all.
    """

    catalogue: tuple[str, ...]
    counts: Counts
    prior: Prior
    base_rate: float
    tools: Ints
    mean: Floats
    spread: Floats
    start: Floats
    levels: Floats
    slopes: Floats
    hold: Floats
    text: TextSignal | None = None
    past: PastTasks | None = None

    @classmethod
    def of(cls, catalogue: tuple[str, ...], counts: Counts, prior: Prior, shared: bool) -> TaskReading:
        model, levels, slopes = prior.model, np.zeros(len(catalogue) + 1), np.zeros(len(catalogue) + 1)
        if model is not None:
            there = set(catalogue)
            catalogue = (*catalogue, *(name for name in model.tools if name not in there))
            position = {name: place for place, name in enumerate(model.tools)}
            place = np.array([position.get(name, -1) for name in catalogue], dtype=np.int64)
            counts = counts.after(model, place)
            levels, slopes = (np.append(np.append(table, 0.0)[place], 0.0) for table in (model.levels, model.slopes))
        tools = np.full(len(catalogue) + 1, -1)
        if shared:
            present = np.flatnonzero(counts.seen)
            tools[present] = np.arange(len(present))
        base = base_rate_of(counts.wanted.sum(), counts.seen.sum())
        return cls(
            catalogue,
            counts,
            prior,
            base,
            tools,
            np.array(prior.means),
            np.array(prior.spreads),
            np.array(prior.coefficients),
            levels,
            slopes,
            np.zeros(1 + len(LIST_COLUMNS)),
        )

    def with_text(self, text: TextSignal, columns: Floats) -> TaskReading:
        """The same with a text signal, whose (columns, rows) set the mean and the spread of its columns."""
        width = columns.std(axis=1)
        mean = np.append(self.mean, np.append([0.0, 0.0], columns[2:].mean(axis=1)))
        start = np.append(self.start, () if self.prior.model is None else self.prior.model.text_coefficients)
        spread = np.append(self.spread, np.where(width > 1e-9, width, 1.0))
        return replace(self, text=text, mean=mean, spread=spread, start=start)

    def with_past(self, past: PastTasks, columns: Floats) -> TaskReading:
        """The same with past tasks, whose (columns, rows) set the spread of their columns; their means count as 0."""
        width = columns.std(axis=1)
        mean, spread = np.zeros(len(columns)), np.where(width > 1e-9, width, 1.0)
        return replace(self, past=past, mean=np.append(self.mean, mean), spread=np.append(self.spread, spread))

    def taught(self, logged: LoggedTasks, more: Floats | None = None) -> tuple[Rows, Ints]:
        """Tasks that were counted as rows in the order of their tools, and that order.

        A candidate's history is what other groups say. `more` are columns of the tasks' texts and past tasks.
        """
        rankings, counts = logged.rankings, self.counts
        known = (counts.seen, counts.wanted, self.base_rate)
        past = history_in_others(rankings, logged.required, logged.groups, *known)
        features, listed = candidate_features(rankings, past, self.prior.lowest_score), rankings.listed
        flat = (features if more is None else np.concatenate([features, more]))[:, listed]
        ids = rankings.tool_ids[listed]
        order = np.argsort(self.tools[ids], kind="stable")
        return self._rows(flat[:, order], ids[order], logged.required[listed][order].astype(np.float64)), order

    def others(self, rankings: Rankings) -> Rows:
        """Tasks that were not counted, over the same catalogue, as rows in rank order."""
        listed = rankings.listed
        ids = rankings.tool_ids[listed]
        past = history(np.append(self.counts.seen, 0.0), np.append(self.counts.wanted, 0.0), self.base_rate)
        of_tools = History(*(column[rankings.tool_ids] for column in past))
        features = candidate_features(rankings, of_tools, self.prior.lowest_score)
        if self.text is not None:
            features = np.concatenate([features, self.text.columns(rankings)])
        if self.past is not None:
            features = np.concatenate([features, self.past.columns(rankings)])
        return self._rows(features[:, listed], ids, np.zeros(len(ids)))

    def before(self, setting: Setting) -> Belief:
        """What is believed before the labels: the prior, and that columns and tools add nothing to it."""
        strength, width, tools = setting.strength, 2 + len(self.mean), int(self.tools.max()) + 1
        precision = np.diag(np.append([0.0, 0.0], np.full(width - 2, strength.columns**-2.0)))
        precision[:2, :2] = self.prior.precision
        of_tools = np.tile(np.diag([strength.levels**-2.0, strength.slopes**-2.0]), (tools, 1, 1))
        return Belief(Fitted(np.eye(width)[1], np.zeros(tools), np.zeros(tools)), precision, of_tools)

    def with_holds(self, logged: LoggedTasks) -> TaskReading:
        """The same, having learned from some tasks how likely a list is to hold all that its task needs.

        The log odds are linear in the list's columns, around the prior's share of lists that do.
        """
        share = np.clip(self.prior.missing[0], LEAST_SHARE, 1.0 - LEAST_SHARE)
        precision = np.append(PRIOR_TASKS * share * (1.0 - share), np.full(len(LIST_COLUMNS), LIST_STRENGTH**-2.0))
        before = Fitted(np.append(logit(share, LEAST_SHARE), np.zeros(len(LIST_COLUMNS))), np.zeros(0), np.zeros(0))
        nothing = np.zeros(len(logged))
        dense, none = self._lists(logged.rankings), np.full(len(logged), -1)
        rows = Rows(dense, nothing, none, (logged.missing == 0).astype(np.float64), np.ones(len(logged)))
        fitted = most_likely(rows, Belief(before, np.diag(precision), np.zeros((0, 2, 2))), 0.0)
        return replace(self, hold=fitted.theta)

    def holds(self, rankings: Rankings) -> Floats:
        """(n,): the log odds that each list holds all that its task needs."""
        odds: Floats = self._lists(rankings) @ self.hold
        return odds

    def _lists(self, rankings: Rankings) -> Floats:
        """(n, 1 + columns of a list): 1, and each column less the prior's mean, over its spread."""
        unseen = np.zeros(rankings.scores.shape)
        features = candidate_features(rankings, history(unseen, unseen, 0.5), self.prior.lowest_score)
        columns = list(LIST_COLUMNS)
        lists = features[columns, :, 0].T if features.size else np.zeros((len(rankings), len(columns)))
        return np.insert((lists - self.mean[columns]) / self.spread[columns], 0, 1.0, axis=1)

    def missing(self) -> Floats:
        """Shares of tasks by how many required tools their list lacks."""
        before = PRIOR_TASKS * np.array(self.prior.missing)
        counts = np.zeros(max(len(before), len(self.counts.missing)))
        counts[: len(self.counts.missing)] = self.counts.missing
        counts[: len(before)] += before
        shares: Floats = counts / counts.sum()
        return shares

    def model(self, after: Belief, flips: float, law: SetLaw) -> MembershipModel:
        """What is believed after the labels, in plain coefficients."""
        plain, fitted = self._plain(), after.likeliest
        constant, *weights = plain @ fitted.theta
        kept = np.flatnonzero(self.counts.seen)
        place = self.tools[kept]
        scale = fitted.theta[1]
        levels = scale * self.levels[kept] + np.where(place >= 0, np.append(fitted.levels, 0.0)[place], 0.0)
        slopes = scale * self.slopes[kept] + np.where(place >= 0, np.append(fitted.slopes, 0.0)[place], 0.0)
        precision = np.asarray(np.linalg.inv(plain @ np.linalg.inv(after.precision) @ plain.T))
        beyond = len(weights) - (0 if self.past is None else PAST_COLUMNS)
        return MembershipModel(
            coefficients=_floats(weights[: len(CANDIDATE_COLUMNS)]),
            intercept=float(constant),
            base_rate=self.base_rate,
            tools=tuple(self.catalogue[i] for i in kept),
            times_listed=_floats(self.counts.seen[kept]),
            times_required=_floats(self.counts.wanted[kept]),
            levels=_floats(levels),
            slopes=_floats(slopes),
            holds=_floats(self._plain_lists()),
            calibration=law.calibration,
            missing=_floats(self.missing()),
            sizes=law.sizes.weights,
            sharpness=law.sharpness,
            text=self.text,
            text_coefficients=_floats(weights[len(CANDIDATE_COLUMNS) : beyond]),
            flips=flips,
            doubt=Doubt.of(precision, after.of_tools),
            past_coefficients=_floats(weights[beyond:]),
            lowest_score=self.prior.lowest_score,
        )

    def _rows(self, features: Floats, ids: Ints, labels: Floats) -> Rows:
        """(columns, rows) as the rows of a fit; `ids` are those of the tools in the catalogue."""
        start = self.start @ features[: len(self.start)] + self.prior.intercept
        start += self.levels[ids] + self.slopes[ids] * features[SLOPE_COLUMN]
        standard = (features.T - self.mean) / self.spread
        dense = np.concatenate([np.ones((len(standard), 1)), start[:, None], standard], axis=1)
        return Rows(dense, features[SLOPE_COLUMN], self.tools[ids], labels, np.ones(len(labels)))

    def _plain_lists(self) -> Floats:
        """(1 + columns of a list,): the intercept and the coefficients of the columns themselves."""
        columns = list(LIST_COLUMNS)
        raw = self.hold[1:] / self.spread[columns]
        return np.append(self.hold[0] - raw @ self.mean[columns], raw)

    def _plain(self) -> Floats:
        """(1 + columns, 2 + columns): from theta to the intercept and the coefficients of the columns themselves."""
        width = len(self.mean)
        plain = np.zeros((1 + width, 2 + width))
        plain[0, :2] = 1.0, self.prior.intercept
        plain[0, 2:] = -self.mean / self.spread
        plain[1 : 1 + len(self.start), 1] = self.start
        plain[1:, 2:] = np.diag(1.0 / self.spread)
        return plain


class Starts(dict[Strength, Fitted]):
    """Fits that are known already, each of which is a start for others."""

    def nearest(self, strength: Strength) -> Fitted | None:
        """The fit of the same strength, else the one of the base strength, else none."""
        return self.get(strength) or self.get(BASE)


@dataclass(frozen=True, eq=False)
class Design:
    """Some tasks as rows under a prior, all in one place."""

    logged: LoggedTasks
    reading: TaskReading
    rows: Rows
    order: Ints
    starts: Starts

    @classmethod
    def of(cls, logged: LoggedTasks, prior: Prior, shared: bool, texts: bool, remember: bool = False) -> Design:
        rankings = logged.rankings
        reading = TaskReading.of(rankings.catalogue, Counts.of(logged), prior, shared).with_holds(logged)
        more = None
        signal = fit_text(logged, None if prior.model is None else prior.model.text) if texts else None
        if signal is not None:
            text, more = signal
            reading = reading.with_text(text, more[:, rankings.listed])
        past = PastTasks.of(logged) if remember else None
        if past is not None:
            columns = past.left_out(rankings)
            reading = reading.with_past(past, columns[:, rankings.listed])
            more = columns if more is None else np.concatenate([more, columns])
        rows, order = reading.taught(logged, more)
        return cls(logged, reading, rows, order, Starts())

    def fitted(self, setting: Setting) -> Fitted:
        """The most likely model, from the nearest one that is known already."""
        start = self.starts.nearest(setting.strength)
        fitted = most_likely(self.weighted(setting), self.reading.before(setting), setting.flips, start)
        if not setting.flips:
            self.starts[setting.strength] = fitted
        return fitted

    def weighted(self, setting: Setting) -> Rows:
        """The rows, each with the weight of its task."""
        task = np.repeat(np.arange(len(self.logged)), self.logged.rankings.lengths)
        return self.rows.weighted(weights_of(self.logged, setting.strength)[task][self.order])

    def model(self, setting: Setting, law: SetLaw) -> MembershipModel:
        """What was learned, in plain coefficients."""
        fitted = self.fitted(setting)
        after = afterwards(self.weighted(setting), fitted, self.reading.before(setting), setting.flips)
        return self.reading.model(after, setting.flips, law)


def _floats(values: Iterable[float]) -> tuple[float, ...]:
    return tuple(float(value) for value in values)

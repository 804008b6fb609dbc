"""Logged tasks as the rows of a fit around a prior, and what was learned from them as a membership model.

A candidate's row is 1, the prior's log odds z0, and every column less the prior's mean, over the prior's spread:

    z = a + s * z0 + sum over columns of d_k * (x_k - mean_k) / spread_k + u_tool + v_tool * logit(score).

Before the first label, (a, s) is (0, 1), and the prior's precision says how firmly. Every other coefficient is 0, and a
`Strength` says how firmly.
A prior that was learned for the same tools has levels and slopes in z0, too, and reads texts if its model does.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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
from camdf.policies.models.company import Company
from camdf.policies.models.membership import LIST_COLUMNS, SLOPE_COLUMN, Doubt, MembershipModel
from camdf.policies.models.none_needed import tasks_without_need
from camdf.policies.models.past_tasks import PAST_COLUMNS, PastTasks
from camdf.policies.models.posterior import Belief, Fitted, Rows, afterwards, most_likely
from camdf.policies.models.prior import Prior
from camdf.policies.models.set_law import SetLaw
from camdf.policies.models.task_text import TextSignal, fit_text

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

    def apart(self, other: Strength) -> float:
        """How unlike another it is: by what factors its deviations differ; other weights count as much as e."""
        factors = np.log(np.array(self[:3]) / np.array(other[:3]))
        return float(np.abs(factors).sum()) + (self.weigh_groups != other.weigh_groups)


BASE = Strength(0.2, 1.0, 0.3)


@dataclass(frozen=True)
class Setting:
    """What a fit assumes."""

    strength: Strength = BASE
    flips: float = 0.0


def weights_of(logged: LoggedTasks, strength: Strength) -> Floats:
    """(n,): what each task counts."""
    if not strength.weigh_groups:
        return np.ones(len(logged))
    return sizes_of(logged.groups) ** -0.5


@dataclass(frozen=True, eq=False)
class Counts:
    """What all tasks together say, which every row depends on.

    `seen` and `wanted` (tools,) are how often every tool was listed, and then required, groups weighed down; `missing`
    counts the tasks that need something and whose list lacks no required tool, one, two, and so on.
    """

    seen: Floats
    wanted: Floats
    missing: Floats

    @classmethod
    def of(cls, logged: LoggedTasks) -> Counts:
        seen, wanted = counts_of(logged.rankings, logged.required, logged.groups)
        return cls(seen, wanted, np.bincount(logged.missing[~tasks_without_need(logged)]).astype(np.float64))

    def after(self, model: MembershipModel, place: Ints) -> Counts:
        """These, and what a model counted before them; `place` (tools,) says where it has each tool, else -1."""
        new = np.zeros(len(place) - len(self.seen))
        return replace(
            self,
            seen=np.append(self.seen, new) + MADE_UP * _at_places(model.times_listed, place),
            wanted=np.append(self.wanted, new) + MADE_UP * _at_places(model.times_required, place),
        )


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
        model = prior.model
        levels = np.zeros(len(catalogue) + 1)
        slopes = np.zeros(len(catalogue) + 1)
        if model is not None:
            there = set(catalogue)
            catalogue = (*catalogue, *(name for name in model.tools if name not in there))
            position = {name: place for place, name in enumerate(model.tools)}
            place = np.array([position.get(name, -1) for name in catalogue], dtype=np.int64)
            counts = counts.after(model, place)
            levels = np.append(_at_places(model.levels, place), 0.0)
            slopes = np.append(_at_places(model.slopes, place), 0.0)
        tools = np.full(len(catalogue) + 1, -1)
        if shared:
            present = np.flatnonzero(counts.seen)
            tools[present] = np.arange(len(present))
        return cls(
            catalogue=catalogue,
            counts=counts,
            prior=prior,
            base_rate=base_rate_of(counts.wanted.sum(), counts.seen.sum()),
            tools=tools,
            mean=np.array(prior.means),
            spread=np.array(prior.spreads),
            start=np.array(prior.coefficients),
            levels=levels,
            slopes=slopes,
            hold=np.zeros(1 + len(LIST_COLUMNS)),
        )

    def with_text(self, text: TextSignal, columns: Floats) -> TaskReading:
        """The same with a text signal, whose (columns, rows) set the mean and the spread of its columns."""
        model = self.prior.model
        return replace(
            self,
            text=text,
            mean=np.append(self.mean, np.append([0.0, 0.0], columns[2:].mean(axis=1))),
            spread=np.append(self.spread, _spreads(columns)),
            start=self.start if model is None else np.append(self.start, model.text_coefficients),
        )

    def with_past(self, past: PastTasks, columns: Floats) -> TaskReading:
        """The same with past tasks, whose (columns, rows) set the spread of their columns; their means count as 0."""
        return replace(
            self,
            past=past,
            mean=np.append(self.mean, np.zeros(len(columns))),
            spread=np.append(self.spread, _spreads(columns)),
        )

    def taught(self, logged: LoggedTasks, more: Sequence[Floats] = ()) -> tuple[Rows, Ints]:
        """Tasks that were counted as rows in the order of their tools, and that order.

        A candidate's history is what other groups say. `more` are columns of the tasks' texts and past tasks.
        """
        rankings = logged.rankings
        listed = rankings.listed
        past = history_in_others(
            rankings, logged.required, logged.groups, self.counts.seen, self.counts.wanted, self.base_rate
        )
        features = candidate_features(rankings, past, self.prior.lowest_score)
        if more:
            features = np.concatenate([features, *more])
        ids = rankings.tool_ids[listed]
        order = np.argsort(self.tools[ids], kind="stable")
        labels = logged.required[listed][order].astype(np.float64)
        return self._rows_of_fit(features[:, listed][:, order], ids[order], labels), order

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
        return self._rows_of_fit(features[:, listed], ids, np.zeros(len(ids)))

    def before(self, setting: Setting) -> Belief:
        """What is believed before the labels: the prior, and that columns and tools add nothing to it."""
        strength = setting.strength
        width = 2 + len(self.mean)
        tools = int(self.tools.max()) + 1
        precision = np.diag(np.append([0.0, 0.0], np.full(width - 2, strength.columns**-2.0)))
        precision[:2, :2] = self.prior.precision
        of_tools = np.tile(np.diag([strength.levels**-2.0, strength.slopes**-2.0]), (tools, 1, 1))
        return Belief(Fitted(np.eye(width)[1], np.zeros(tools), np.zeros(tools)), precision, of_tools)

    def with_holds(self, logged: LoggedTasks) -> TaskReading:
        """The same, having learned from some tasks how likely a list is to hold all that its task needs, if anything.

        The log odds are linear in the list's columns, around the prior's share of lists that do.
        """
        logged = logged.take(~tasks_without_need(logged))
        share = np.clip(self.prior.missing[0], LEAST_SHARE, 1.0 - LEAST_SHARE)
        theta = np.append(logit(share, LEAST_SHARE), np.zeros(len(LIST_COLUMNS)))
        precision = np.append(PRIOR_TASKS * share * (1.0 - share), np.full(len(LIST_COLUMNS), LIST_STRENGTH**-2.0))
        before = Belief(
            likeliest=Fitted(theta, levels=np.zeros(0), slopes=np.zeros(0)),
            precision=np.diag(precision),
            of_tools=np.zeros((0, 2, 2)),
        )
        rows = Rows.without_tools(
            dense=self._list_rows(logged.rankings),
            labels=(logged.missing == 0).astype(np.float64),
            weights=np.ones(len(logged)),
        )
        return replace(self, hold=most_likely(rows, before, 0.0).theta)

    def holds(self, rankings: Rankings) -> Floats:
        """(n,): the log odds that each list holds all that its task needs."""
        odds: Floats = self._list_rows(rankings) @ self.hold
        return odds

    def _list_rows(self, rankings: Rankings) -> Floats:
        """(n, 1 + columns of a list): 1, and what describes each list."""
        return np.insert(self.described_lists(rankings), 0, 1.0, axis=1)

    def described_lists(self, rankings: Rankings) -> Floats:
        """(n, columns of a list): each column less the prior's mean, over its spread."""
        unseen = np.zeros(rankings.scores.shape)
        features = candidate_features(rankings, history(unseen, unseen, 0.5), self.prior.lowest_score)
        columns = list(LIST_COLUMNS)
        lists = np.zeros((len(rankings), len(columns)))
        if features.size:
            lists = features[columns, :, 0].T
        described: Floats = (lists - self.mean[columns]) / self.spread[columns]
        return described

    def missing(self) -> Floats:
        """Shares of tasks by how many required tools their list lacks."""
        before = PRIOR_TASKS * np.array(self.prior.missing)
        counts = np.zeros(max(len(before), len(self.counts.missing)))
        counts[: len(self.counts.missing)] = self.counts.missing
        counts[: len(before)] += before
        shares: Floats = counts / counts.sum()
        return shares

    def model(
        self, after: Belief, flips: float, law: SetLaw, none: Floats | None, company: Company | None
    ) -> MembershipModel:
        """What is believed after the labels, in plain coefficients; `none` are those of tasks that need nothing."""
        plain = self._in_plain_coefficients()
        fitted = after.likeliest
        constant, *weights = plain @ fitted.theta
        kept = np.flatnonzero(self.counts.seen)
        place = self.tools[kept]
        scale = fitted.theta[1]
        levels = scale * self.levels[kept] + _at_places(fitted.levels, place)
        slopes = scale * self.slopes[kept] + _at_places(fitted.slopes, place)
        precision = np.asarray(np.linalg.inv(plain @ np.linalg.inv(after.precision) @ plain.T))
        text_begins = len(CANDIDATE_COLUMNS)
        text_ends = len(weights) if self.past is None else len(weights) - PAST_COLUMNS
        return MembershipModel(
            coefficients=_as_floats(weights[:text_begins]),
            intercept=float(constant),
            base_rate=self.base_rate,
            tools=tuple(self.catalogue[i] for i in kept),
            times_listed=_as_floats(self.counts.seen[kept]),
            times_required=_as_floats(self.counts.wanted[kept]),
            levels=_as_floats(levels),
            slopes=_as_floats(slopes),
            holds=_as_floats(self._of_plain_columns(self.hold[0], self.hold[1:])),
            calibration=law.calibration,
            missing=_as_floats(self.missing()),
            sizes=law.sizes.weights,
            sharpness=law.sharpness,
            text=self.text,
            text_coefficients=_as_floats(weights[text_begins:text_ends]),
            flips=flips,
            doubt=Doubt.of(precision, after.of_tools),
            past_coefficients=_as_floats(weights[text_ends:]),
            lowest_score=self.prior.lowest_score,
            none=self._plain_none(none),
            company=company,
        )

    def _rows_of_fit(self, features: Floats, ids: Ints, labels: Floats) -> Rows:
        """(columns, rows) as the rows of a fit; `ids` are those of the tools in the catalogue."""
        start = self.start @ features[: len(self.start)] + self.prior.intercept
        start += self.levels[ids] + self.slopes[ids] * features[SLOPE_COLUMN]
        slope = features[SLOPE_COLUMN]
        one = np.ones(len(slope))
        columns = np.column_stack([one, slope, one, start, (features.T - self.mean) / self.spread])
        return Rows(columns, self.tools[ids], labels, np.ones(len(labels)))

    def _plain_none(self, none: Floats | None) -> tuple[float, ...]:
        """The coefficients of tasks that need nothing: the intercept, that of the odds, those of a list's columns."""
        if none is None:
            return () if self.prior.model is None else self.prior.model.none
        intercept, of_odds, *of_lists = none
        intercept, *raw = self._of_plain_columns(intercept, np.array(of_lists))
        return _as_floats([intercept, of_odds, *raw])

    def _of_plain_columns(self, intercept: float, of_lists: Floats) -> Floats:
        """(1 + columns of a list,): the intercept and the coefficients of the columns themselves."""
        columns = list(LIST_COLUMNS)
        raw = of_lists / self.spread[columns]
        return np.append(intercept - raw @ self.mean[columns], raw)

    def _in_plain_coefficients(self) -> Floats:
        """(1 + columns, 2 + columns): from theta to the intercept and the coefficients of the columns themselves."""
        width = len(self.mean)
        plain = np.zeros((1 + width, 2 + width))
        plain[0, 0] = 1.0
        plain[0, 1] = self.prior.intercept
        plain[0, 2:] = -self.mean / self.spread
        plain[1 : 1 + len(self.start), 1] = self.start
        plain[1:, 2:] = np.diag(1.0 / self.spread)
        return plain


class Fits(dict[Setting, Fitted]):
    """Fits that are known already, each of which is a start for others."""

    def nearest(self, setting: Setting) -> Fitted | None:
        """The fit of the setting that is most like it and takes no label as flipped; none where there is none."""
        others = [known for known in self if not known.flips]
        if not others:
            return None
        return self[min(others, key=lambda known: known.strength.apart(setting.strength))]


@dataclass(frozen=True, eq=False)
class Design:
    """Some tasks as rows under a prior, all in one place."""

    logged: LoggedTasks
    reading: TaskReading
    rows: Rows
    order: Ints
    fits: Fits

    @classmethod
    def of(cls, logged: LoggedTasks, prior: Prior, shared: bool, texts: bool, remember: bool = False) -> Design:
        rankings = logged.rankings
        reading = TaskReading.of(rankings.catalogue, Counts.of(logged), prior, shared).with_holds(logged)
        more: list[Floats] = []
        fitted_text = fit_text(logged, prior.text) if texts else None
        if fitted_text is not None:
            text, columns = fitted_text
            reading = reading.with_text(text, columns[:, rankings.listed])
            more.append(columns)
        past = PastTasks.of(logged) if remember else None
        if past is not None:
            columns = past.left_out(rankings)
            reading = reading.with_past(past, columns[:, rankings.listed])
            more.append(columns)
        rows, order = reading.taught(logged, more)
        return cls(logged, reading, rows, order, Fits())

    def fitted(self, setting: Setting) -> Fitted:
        """The most likely model, from the nearest one that is known already."""
        if setting not in self.fits:
            before = self.reading.before(setting)
            start = self.fits.nearest(setting)
            self.fits[setting] = most_likely(self.weighted(setting), before, setting.flips, start)
        return self.fits[setting]

    def weighted(self, setting: Setting) -> Rows:
        """The rows, each with the weight of its task."""
        task = np.repeat(np.arange(len(self.logged)), self.logged.rankings.lengths)
        return self.rows.weighted(weights_of(self.logged, setting.strength)[task][self.order])

    def model(
        self, setting: Setting, law: SetLaw, none: Floats | None = None, company: Company | None = None
    ) -> MembershipModel:
        """What was learned, in plain coefficients."""
        fitted = self.fitted(setting)
        after = afterwards(self.weighted(setting), fitted, self.reading.before(setting), setting.flips)
        return self.reading.model(after, setting.flips, law, none, company)


def _at_places(values: Floats | tuple[float, ...], place: Ints) -> Floats:
    """The value at every place, 0 where the place is -1."""
    return np.append(values, 0.0)[place]


def _spreads(columns: Floats) -> Floats:
    """(columns,): the standard deviation of each; 1 for a column that is all but constant."""
    width = columns.std(axis=1)
    return np.where(width > 1e-9, width, 1.0)


def _as_floats(values: Iterable[float]) -> tuple[float, ...]:
    return tuple(float(value) for value in values)

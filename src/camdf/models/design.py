"""Logged tasks as the rows of a fit around a prior, and what was learned from them as a membership model.

A candidate's row is 1, the prior's log odds z0, and every column less the prior's mean, over the prior's spread:

    z = a + s * z0 + sum over columns of d_k * (x_k - mean_k) / spread_k + u_tool + v_tool * logit(score).

Before the labels, (a, s) is (0, 1) with the prior's precision and all else is 0, as firmly as a `Strength` says.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from camdf.core.candidates import (
    CANDIDATE_COLUMNS,
    base_rate_of,
    candidate_features,
    counts_of,
    history,
    history_in_others,
    second_features,
)
from camdf.core.groups import sizes_of
from camdf.core.probability import logit
from camdf.core.rankings import Floats, Ints, LoggedTasks, Rankings
from camdf.models.membership import LIST_COLUMNS, SLOPE_COLUMN, Doubt, MembershipModel
from camdf.models.posterior import Belief, Fitted, Rows, afterwards, most_likely
from camdf.models.prior import Prior
from camdf.models.set_law import SetLaw
from camdf.models.task_text import TextSignal, fit_text

PRIOR_TASKS = 3.0
"""How many tasks the prior's shares of missing tools count for."""


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
class Design:
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
    def of(cls, logged: LoggedTasks, prior: Prior, shared: bool, texts: bool) -> Design:
        rankings, listed = logged.rankings, logged.rankings.listed
        ids, needed = rankings.tool_ids[listed], logged.required[listed].astype(np.float64)
        count = len(rankings.catalogue)
        seen, wanted = counts_of(rankings, logged.required)
        base = base_rate_of(needed.sum(), len(needed))
        features = candidate_features(rankings, history_in_others(rankings, logged.required, base))
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
        found = most_likely(self.weighted(setting), self.before(setting), setting.flips, start)
        if not setting.flips:
            self.starts[setting.strength] = found
        return found

    def weighted(self, setting: Setting) -> Rows:
        """The rows, each with the weight of its task."""
        task = np.repeat(np.arange(len(self.logged)), self.logged.rankings.lengths)
        return self.rows.weighted(weights_of(self.logged, setting.strength)[task][self.order])

    def before(self, setting: Setting) -> Belief:
        """What is believed before the labels: the prior, and that columns and tools add nothing to it."""
        strength, width, tools = setting.strength, self.rows.dense.shape[1], int(self.tools.max()) + 1
        precision = np.diag(np.append([0.0, 0.0], np.full(width - 2, strength.columns**-2.0)))
        precision[:2, :2] = self.prior.precision
        of_tools = np.tile(np.diag([strength.levels**-2.0, strength.slopes**-2.0]), (tools, 1, 1))
        return Belief(Fitted(np.eye(width)[1], np.zeros(tools), np.zeros(tools)), precision, of_tools)

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
        """What was learned, in plain coefficients."""
        fitted, rankings = self.fitted(setting), self.logged.rankings
        plain = self._plain()
        constant, *weights = plain @ fitted.theta
        kept = np.flatnonzero(self.seen)
        place = self.tools[kept]
        levels = np.where(place >= 0, np.append(fitted.levels, 0.0)[place], 0.0)
        slopes = np.where(place >= 0, np.append(fitted.slopes, 0.0)[place], 0.0)
        after = afterwards(self.weighted(setting), fitted, self.before(setting), setting.flips)
        precision = np.asarray(np.linalg.inv(plain @ np.linalg.inv(after.precision) @ plain.T))
        return MembershipModel(
            coefficients=_floats(weights[: len(CANDIDATE_COLUMNS)]),
            intercept=float(constant),
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
            text_coefficients=_floats(weights[len(CANDIDATE_COLUMNS) :]),
            flips=setting.flips,
            doubt=Doubt.of(precision, after.of_tools),
        )

    def _plain(self) -> Floats:
        """(1 + columns, 2 + columns): from theta to the intercept and the coefficients of the columns themselves."""
        own, width = len(CANDIDATE_COLUMNS), len(self.mean)
        plain = np.zeros((1 + width, 2 + width))
        plain[0, :2] = 1.0, self.prior.intercept
        plain[0, 2:] = -self.mean / self.spread
        plain[1 : 1 + own, 1] = self.prior.coefficients
        plain[1:, 2:] = np.diag(1.0 / self.spread)
        return plain


def _rows(features: Floats, tool: Ints, prior: Prior, mean: Floats, spread: Floats, labels: Floats) -> Rows:
    """(columns, rows) as the rows of a fit."""
    start = np.array(prior.coefficients) @ features[: len(CANDIDATE_COLUMNS)] + prior.intercept
    standard = (features.T - mean) / spread
    dense = np.concatenate([np.ones((len(standard), 1)), start[:, None], standard], axis=1)
    return Rows(dense, features[SLOPE_COLUMN], tool, labels, np.ones(len(labels)))


def _floats(values: Iterable[float]) -> tuple[float, ...]:
    return tuple(float(value) for value in values)

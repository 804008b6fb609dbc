"""How likely is each candidate to be required? One calibrated model, learned once, that no price enters."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Annotated

import numpy as np

from camdf.core.candidates import CANDIDATE_COLUMNS, PRIOR_WEIGHTS, History, candidate_features, history
from camdf.core.groups import numbered
from camdf.core.probability import CLIP, logit, sigmoid
from camdf.core.rankings import Bools, Floats, Ints, LoggedTasks, Rankings
from camdf.core.sets import AT_LEAST_ONE, SIZES, SizeLaw, shift_to_expect
from camdf.core.sums import over_columns
from camdf.errors import UsageError
from camdf.policies.models.company import Company
from camdf.policies.models.none_needed import empty_set_odds
from camdf.policies.models.past_tasks import PAST_COLUMNS, PastTasks
from camdf.policies.models.stored import column_names, names, number, numbers, object_of, share
from camdf.policies.models.task_text import TextSignal
from camdf.runtime.settings import LEFT_OUT, or_none

FOLDS = 5
OF_SHORT_LISTS = 0.4
"""The share of a short list that is taken to be required without a label; in two domains it was .28 and .53."""

SLOPE_COLUMN = tuple(CANDIDATE_COLUMNS).index("score_logit")
LIST_COLUMNS = tuple(i for i, name in enumerate(CANDIDATE_COLUMNS) if name.startswith("list_"))
LIST_BEGINS = LIST_COLUMNS[0]
LIST_ENDS = LIST_COLUMNS[-1] + 1
TEXT_COLUMNS = 2
"""How many columns a text signal has."""


@dataclass(frozen=True, eq=False)
class Doubt:
    """How firmly a model's numbers stand: what one more outcome may change (`camdf.policies.models.online`).

    `precision` is that of the intercept and all coefficients, as the rows of the lower triangle; `of_tools` has three
    numbers a tool: the precision of its level, of its slope, and between them. Where tools may not differ it is empty.
    """

    precision: Annotated[tuple[float, ...], numbers]
    of_tools: Annotated[tuple[float, ...], numbers]

    @classmethod
    def of(cls, precision: Floats, of_tools: Floats) -> Doubt:
        """From a square matrix, and one of 2 x 2 for every tool."""
        lower = precision[np.tril_indices(len(precision))]
        flat = np.stack([of_tools[:, 0, 0], of_tools[:, 1, 1], of_tools[:, 0, 1]], axis=1).ravel()
        return cls(tuple(lower.tolist()), tuple(flat.tolist()))

    def matrices(self) -> tuple[Floats, Floats]:
        """The inverse of `of`."""
        width = int((np.sqrt(8 * len(self.precision) + 1) - 1) / 2)
        whole = np.zeros((width, width))
        whole[np.tril_indices(width)] = self.precision
        level, slope, both = np.array(self.of_tools).reshape(-1, 3).T
        return whole + np.tril(whole, -1).T, np.stack([level, both, both, slope], axis=1).reshape(-1, 2, 2)


@dataclass(frozen=True, eq=False)
class MembershipModel:
    """P(j required | scores, rank, history, identity), P(the list holds all required tools), and how sets calibrate.

    `coefficients` are those of `columns`, names of `CANDIDATE_COLUMNS` in that order; other columns count for nothing.
    `tools` are the ones seen in training with how often each was listed and then required. `levels` and `slopes` are
    what identity adds to a tool's logit, and to its slope in the score's logit. `holds` is the intercept and the
    coefficients of those `columns` that describe the list. `calibration` (a, b) turns the probability q of a sufficient
    set under the law of sizes into sigmoid(a + b * logit(q)). `missing[k]` is the share of tasks with k required tools
    outside their list. `sizes` are the weights of a `SizeLaw`, and `sharpness` the power to which odds are taken under
    it. Where `tools_per_list` is not 0, each list's log odds are shifted until, taken to that power, they expect
    min(tools_per_list, 0.4 * length) required tools: what a model says that has seen no label of these tools. `text`
    reads a task's vector; its columns, and those of a second ranking where there is one, have `text_coefficients`. What
    similar past tasks needed has `past_coefficients`. `flips` is the share of labels that the fit took for wrong;
    `doubt` lets it go on learning. `lowest_score` is how far scores are kept from 0 and 1 before their logits are
    taken. `none`, where some tasks need nothing, are the intercept of the log odds that a task does, the coefficient of
    the log odds of the empty set (`camdf.policies.models.none_needed`), and those of the `columns` of the list.
    `company`, where tools that go together are read, has the last word on each probability.
    """

    columns: Annotated[tuple[str, ...], column_names] = field(default=tuple(CANDIDATE_COLUMNS), kw_only=True)
    coefficients: Annotated[tuple[float, ...], numbers]
    intercept: Annotated[float, number]
    base_rate: Annotated[float, number]
    tools: Annotated[tuple[str, ...], names]
    times_listed: Annotated[tuple[float, ...], numbers]
    times_required: Annotated[tuple[float, ...], numbers]
    levels: Annotated[tuple[float, ...], numbers]
    slopes: Annotated[tuple[float, ...], numbers]
    holds: Annotated[tuple[float, ...], numbers]
    calibration: Annotated[tuple[float, ...], numbers]
    missing: Annotated[tuple[float, ...], numbers]
    sizes: Annotated[tuple[float, ...], numbers] = AT_LEAST_ONE.weights
    sharpness: Annotated[float, number] = 1.0
    text: Annotated[TextSignal | None, or_none(object_of(TextSignal))] = None
    text_coefficients: Annotated[tuple[float, ...], numbers] = ()
    flips: Annotated[float, share] = 0.0
    doubt: Annotated[Doubt | None, or_none(object_of(Doubt))] = None
    past_coefficients: Annotated[tuple[float, ...], numbers, LEFT_OUT] = ()
    lowest_score: Annotated[float, share, LEFT_OUT] = CLIP
    tools_per_list: Annotated[float, number, LEFT_OUT] = 0.0
    none: Annotated[tuple[float, ...], numbers, LEFT_OUT] = ()
    company: Annotated[Company | None, or_none(object_of(Company)), LEFT_OUT] = None

    def __post_init__(self) -> None:
        read = np.array([name in set(self.columns) for name in CANDIDATE_COLUMNS])
        lists = read[LIST_BEGINS:LIST_ENDS]
        if self.columns != tuple(name for name, used in zip(CANDIDATE_COLUMNS, read, strict=True) if used):
            raise UsageError("The 'columns' of a membership model must be names of CANDIDATE_COLUMNS, in that order.")
        tables = (self.times_listed, self.times_required, self.levels, self.slopes)
        if len(self.coefficients) != len(self.columns) or any(len(t) != len(self.tools) for t in tables):
            raise UsageError(
                "A membership model needs a coefficient for every column, and four numbers for every tool."
            )
        if len(self.holds) != 1 + lists.sum() or len(self.calibration) != 2 or not self.missing:
            raise UsageError("A membership model needs its list coefficients, its calibration and its missing shares.")
        counts = zip(self.times_required, self.times_listed, strict=True)
        if (
            not 0 < self.base_rate < 1
            or not all(0 <= share <= 1 for share in self.missing)
            or not all(0 <= required <= listed for required, listed in counts)
        ):
            raise UsageError(
                "A membership model's rates must lie between 0 and 1, and a tool must be required at least 0 times and "
                "at most as often as it was listed."
            )
        if len(self.sizes) != SIZES or not all(0 < weight <= 1 for weight in self.sizes) or not 0 < self.sharpness < 10:
            raise UsageError(
                f"A membership model needs {SIZES} weights of set sizes in (0, 1], and a sharpness below 10."
            )
        if len(self.none) not in (0, 2 + lists.sum()):
            raise UsageError(
                "A membership model's 'none' needs an intercept, a coefficient of the empty set, and one for every "
                "column of the list, or nothing."
            )
        if self.calibration[1] <= 0:
            raise UsageError("The 'calibration' of a membership model must rise: its slope must be above 0.")
        if not CLIP <= self.lowest_score < 0.5:
            raise UsageError(f"The 'lowest_score' of a membership model must lie between {CLIP} and a half.")
        if not 0 <= self.tools_per_list < np.inf:
            raise UsageError("A membership model's tools per list must be at least 0 and finite.")
        text_columns = 0 if self.text is None else TEXT_COLUMNS
        if len(self.text_coefficients) != text_columns:
            raise UsageError("A membership model needs a coefficient for every column of its text signal.")
        if len(self.past_coefficients) not in (0, PAST_COLUMNS):
            raise UsageError("A membership model needs a coefficient for every column of past tasks, or none.")
        width = 1 + len(self.coefficients) + len(self.text_coefficients) + len(self.past_coefficients)
        if self.doubt is not None and (
            len(self.doubt.precision) != width * (width + 1) // 2
            or len(self.doubt.of_tools) not in (0, 3 * len(self.tools))
        ):
            raise UsageError("A membership model's doubt needs a number for every pair of coefficients, three a tool.")
        # One column a tool and a last one for tools that were never seen: what its candidates are looked up in.
        listed, required, levels, slopes = (np.array([*values, 0.0]) for values in tables)
        columns = (*history(listed, required, self.base_rate), levels, slopes)
        object.__setattr__(self, "_by_tool", np.array(columns))
        object.__setattr__(self, "_weights", _weights_of_columns(self.coefficients, read))
        object.__setattr__(self, "_list_weights", _weights_of_columns(self.holds[1:], lists))
        object.__setattr__(self, "_none_weights", _weights_of_columns(self.none[2:] or (0.0,) * lists.sum(), lists))
        object.__setattr__(self, "_position", {name: i for i, name in enumerate(self.tools)})

    def probabilities(self, rankings: Rankings, past: PastTasks | None = None) -> tuple[Floats, Floats]:
        """(n, m): each candidate's probability; (n,): that the list holds all required tools.

        A model that was fitted with past tasks needs `past`, those of now.
        """
        position: dict[str, int] = self._position  # type: ignore[attr-defined]
        by_tool: Floats = self._by_tool  # type: ignore[attr-defined]
        *tools, level, slope = by_tool.take(rankings.places(position), axis=1)
        features = candidate_features(rankings, History(*tools), self.lowest_score)
        z = over_columns(features * self._weights) + self.intercept + level  # type: ignore[attr-defined]
        z += slope * features[SLOPE_COLUMN]
        if self.text_coefficients or self.past_coefficients:
            more = np.array([*self.text_coefficients, *self.past_coefficients])
            z += over_columns(self.text_columns(rankings, past) * more[:, None, None])
        if self.tools_per_list:
            wanted = np.minimum(self.tools_per_list, OF_SHORT_LISTS * rankings.lengths)
            z += shift_to_expect(self.sharpness * z, rankings.listed, wanted)[:, None] / self.sharpness
        lists = features[LIST_BEGINS:LIST_ENDS, :, :1]
        odds = np.zeros((len(rankings), 1))
        if lists.size:
            odds = over_columns(lists * self._list_weights)  # type: ignore[attr-defined]
        probability = sigmoid(z) * rankings.listed
        if self.company is not None:
            probability = self.company.with_company(probability, rankings)
        return probability, sigmoid(odds[:, 0] + self.holds[0])

    def chance_of_none(self, rankings: Rankings, probability: Floats) -> Floats:
        """(n,): how likely each task is to need nothing, given its candidates' probabilities; 0 where all need some."""
        if not self.none:
            return np.zeros(len(rankings))
        unseen = np.zeros(rankings.scores.shape)
        features = candidate_features(rankings, history(unseen, unseen, self.base_rate), self.lowest_score)
        odds = np.zeros((len(rankings), 1))
        if features.size:
            lists = features[LIST_BEGINS:LIST_ENDS, :, :1]
            odds = over_columns(lists * self._none_weights)  # type: ignore[attr-defined]
        intercept, of_odds, *_ = self.none
        of_empty = empty_set_odds(probability, rankings.listed, self.law, self.sharpness)
        return sigmoid(intercept + of_odds * of_empty + odds[:, 0])

    def text_columns(self, rankings: Rankings, past: PastTasks | None = None) -> Floats:
        """(columns, n, m): what `text_coefficients` are those of, then what `past_coefficients` are those of."""
        parts = [np.zeros((0, *rankings.scores.shape))]
        if self.text is not None:
            parts.append(self.text.columns(rankings))
        if self.past_coefficients:
            if past is None:
                raise UsageError("This model was fitted with past tasks, and has none. Give it some.")
            parts.append(past.columns(rankings))
        return np.concatenate(parts)

    def unshifted(self) -> MembershipModel:
        """The model that labels go on from: without `tools_per_list`, and what goes with it."""
        if not self.tools_per_list:
            return self
        return replace(self, tools_per_list=0.0, sharpness=1.0, calibration=(0.0, 1.0))

    @property
    def needed(self) -> dict[str, float]:
        """By tool, how often it was required of the times it was listed, and of a few more that did not need it."""
        counts = zip(self.tools, self.times_required, self.times_listed, strict=True)
        return {tool: required / (listed + PRIOR_WEIGHTS[1]) for tool, required, listed in counts}

    @property
    def law(self) -> SizeLaw:
        """How many tools a task requires."""
        return SizeLaw(self.sizes)

    def calibrated(self, chance: Floats) -> Floats:
        """The probability that a set suffices, from its probability under the law of sizes; 0 and 1 stay."""
        a, b = self.calibration
        return np.where((chance <= 0) | (chance >= 1.0 - 1e-9), chance, sigmoid(a + b * logit(chance, 1e-12)))


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Predictions for the training tasks from models that had not seen their group: what choices are made on."""

    probability: Floats
    holds: Floats
    fold: Ints

    @property
    def any(self) -> bool:
        """Whether there are any: tasks of a single group cannot be held out from one another."""
        return len(np.unique(self.fold)) > 1


def group_folds(logged: LoggedTasks) -> Ints:
    """(n,): a fold for every task, the same for all tasks of a group; at least two folds."""
    group, groups = numbered(logged.groups)
    order = np.random.default_rng(0).permutation(groups)
    fold: Ints = order[group] % max(2, min(FOLDS, groups))
    return fold


def splits_of(fold: Ints) -> Iterator[tuple[Bools, Bools]]:
    """For every fold: the tasks to learn from, and the ones held out."""
    for place in range(int(fold.max(initial=-1)) + 1):
        held = fold == place
        if held.any() and not held.all():
            yield ~held, held


def _weights_of_columns(coefficients: tuple[float, ...], read: Bools) -> Floats:
    """(columns, 1, 1): the coefficients of the columns that are read, and 0 for the others."""
    weights = np.zeros(len(read))
    weights[read] = coefficients
    return weights[:, None, None]

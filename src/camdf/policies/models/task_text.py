"""What a task's text says of its tools beyond any ranking: tools that similar tasks required.

Every tool that training tasks required at least `FEWEST` times has a ridge regression of its own. It predicts, from a
task's vector (`Rankings.vectors`), by how much the tool is required more often than its rate:

    rate_j = (required_j + 5 b) / (listed_j + 5),    R = listed * (required - rate),    W = (E'E + lambda I)^-1 E'R,

b the rate of all tools together. E'E and E'R add up over tasks. What the regression says of a training task comes
from the other groups, in closed form: with H = E (E'E + lambda I)^-1 E', it is R_G - (I - H_GG)^-1 (R - H R)_G. Lambda
is the one whose left-out answers are nearest; where even these explain less than `LEAST_EXPLAINED` of R, the text is
not used.

No text is kept, and no weight is one task's vector, because no tool is there that fewer than five tasks required.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np

from camdf.core.candidates import base_rate_of
from camdf.core.groups import numbered
from camdf.core.probability import logit
from camdf.core.rankings import Floats, Ints, LoggedTasks, Rankings
from camdf.core.vectors import WHOLE, in_whole_numbers
from camdf.errors import UsageError
from camdf.policies.models.stored import Written, names, numbers, rows_as_text, shares, small_rows

PENALTIES = (0.03, 0.1, 0.3, 1.0, 3.0)
FEWEST = 5
AVERAGE_SIGHTINGS = 5.0
LEAST_EXPLAINED = 0.02
CLIP = 0.01


@dataclass(frozen=True, eq=False)
class TextSignal:
    """For every tool: its rate, and whole numbers that are its weights once multiplied by its scale."""

    tools: Annotated[tuple[str, ...], names]
    rates: Annotated[tuple[float, ...], shares]
    scales: Annotated[tuple[float, ...], numbers]
    weights: Annotated[tuple[tuple[int, ...], ...], small_rows, Written(rows_as_text)]

    def __post_init__(self) -> None:
        if not self.tools or any(len(table) != len(self.tools) for table in (self.rates, self.scales, self.weights)):
            raise UsageError("A text signal needs a rate, a scale and weights for every tool, and at least one tool.")
        if len({len(row) for row in self.weights}) != 1:
            raise UsageError("All weights of a text signal must be equally many.")
        matrix = np.array(self.weights, dtype=np.float64) * np.array(self.scales)[:, None]
        object.__setattr__(self, "_matrix", np.vstack([matrix, np.zeros(matrix.shape[1])]))
        object.__setattr__(self, "_rates", np.array([*self.rates, 0.5]))
        object.__setattr__(self, "_position", {name: i for i, name in enumerate(self.tools)})

    @property
    def matrix(self) -> Floats:
        """(tools, d): the weights."""
        whole: Floats = self._matrix  # type: ignore[attr-defined]
        return whole[:-1]

    @property
    def dimensions(self) -> int:
        """Of the vectors that it reads."""
        return len(self.weights[0])

    def columns(self, rankings: Rankings) -> Floats:
        """(2, n, m): how much more often than usual similar tasks required each candidate, plainly and in log odds."""
        if rankings.vectors is None or rankings.vectors.shape[1] != self.dimensions:
            raise UsageError(f"This model reads 'vectors' of {self.dimensions} numbers a task. Give the rankings some.")
        place = rankings.places(self._position)  # type: ignore[attr-defined]
        weights: Floats = self._matrix[place]  # type: ignore[attr-defined]
        # Added one after the other, so that a task's answer does not depend on how many stand beside it.
        more = np.add.accumulate(weights * rankings.vectors[:, None, :], axis=2)[:, :, -1]
        return as_columns(more, self._rates[place])  # type: ignore[attr-defined]


def as_columns(more: Floats, rate: Floats) -> Floats:
    """(2, ...): the answer, and what it changes in the log odds of the tool's rate; both 0 where it is 0."""
    before = np.clip(rate, CLIP, 1 - CLIP)
    after = np.clip(rate + more, CLIP, 1 - CLIP)
    return np.stack([more, np.where(more == 0, 0.0, logit(after) - logit(before))])


def fit_text(logged: LoggedTasks, before: TextSignal | None = None) -> tuple[TextSignal, Floats] | None:
    """The signal, and its columns (2, n, m) for these tasks, each from other groups; None where it says little.

    With a signal from `before`, what that leaves unexplained is learned, and it is kept however little these tasks say.
    """
    rankings = logged.rankings
    vectors = rankings.vectors
    if vectors is None or not len(logged):
        return None
    listed = rankings.listed
    known = () if before is None else before.tools
    names = tuple(dict.fromkeys((*rankings.catalogue, *known)))
    group, groups = numbered(logged.groups)
    often = np.zeros(len(names), dtype=bool)
    often[: len(rankings.catalogue)] = (_times_required(logged) >= FEWEST) & (groups > 1)
    tools = np.flatnonzero(often | np.isin(names, known))
    if not len(tools):
        return None
    place = np.full(len(names) + 1, -1)
    place[tools] = np.arange(len(tools))
    row, column = np.nonzero(listed & (place[rankings.tool_ids] >= 0))
    which = place[rankings.tool_ids[row, column]]
    shown = np.zeros((len(logged), len(tools)))
    shown[row, which] = 1.0
    needed = np.zeros(shown.shape)
    needed[row, which] = logged.required[row, column]
    rates = np.full(len(tools), base_rate_of(logged.required.sum(), listed.sum()))
    start = np.zeros((vectors.shape[1], len(tools)))
    if before is not None:
        position = {name: i for i, name in enumerate(names)}
        at = place[[position[name] for name in known]]
        rates[at] = before.rates
        start[:, at] = before.matrix.T
    rates = (needed.sum(axis=0) + AVERAGE_SIGHTINGS * rates) / (shown.sum(axis=0) + AVERAGE_SIGHTINGS)
    said = vectors @ start
    beyond = shown * (needed - rates - said) * often[tools]

    def squared_error(answers: Floats) -> float:
        return float((shown * (answers - beyond) ** 2).sum())

    answers, penalty = min(
        ((_answers_left_out(vectors, beyond, group, groups, penalty), penalty) for penalty in PENALTIES),
        key=lambda answered: squared_error(answered[0]),
    )
    explained = 1.0 - squared_error(answers) / max(float((beyond**2).sum()), 1e-12)
    if explained < LEAST_EXPLAINED and before is None:
        return None
    weights = start + _ridge(vectors, penalty) @ (vectors.T @ beyond)
    scales = np.maximum(np.abs(weights).max(axis=0), 1e-12) / WHOLE
    signal = TextSignal(
        tuple(names[i] for i in tools),
        tuple(rates.tolist()),
        tuple(scales.tolist()),
        tuple(map(tuple, in_whole_numbers(weights.T).tolist())),
    )
    more = np.zeros(listed.shape)
    more[row, column] = (answers + said)[row, which]
    rate = np.full(listed.shape, 0.5)
    rate[row, column] = rates[which]
    return signal, as_columns(more, rate)


def _times_required(logged: LoggedTasks) -> Ints:
    """(tools,): how many tasks required each."""
    return np.bincount(logged.rankings.tool_ids[logged.required], minlength=len(logged.rankings.catalogue))


def _ridge(vectors: Floats, penalty: float) -> Floats:
    """(d, d): (E'E + lambda I)^-1."""
    return np.asarray(np.linalg.inv(vectors.T @ vectors + penalty * np.eye(vectors.shape[1])), dtype=np.float64)


def _answers_left_out(vectors: Floats, beyond: Floats, group: Ints, groups: int, penalty: float) -> Floats:
    """(n, tools): what the ridge says of each task when its group is left out."""
    inverse = _ridge(vectors, penalty)
    over = beyond - vectors @ (inverse @ (vectors.T @ beyond))
    order = np.argsort(group, kind="stable")
    sizes = np.bincount(group, minlength=groups)
    lone = sizes[group] == 1
    answer = np.empty(beyond.shape)
    own = np.einsum("nd,de,ne->n", vectors[lone], inverse, vectors[lone], optimize=True)
    answer[lone] = beyond[lone] - over[lone] / (1.0 - own)[:, None]
    ends = np.cumsum(sizes)
    for number in np.flatnonzero(sizes > 1):
        rows = order[ends[number] - sizes[number] : ends[number]]
        hat = vectors[rows] @ inverse @ vectors[rows].T
        answer[rows] = beyond[rows] - np.linalg.solve(np.eye(len(rows)) - hat, over[rows])
    return answer

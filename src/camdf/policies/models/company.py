"""Tools that go together: a task that needs one of them needs the others too, whatever its text says of those.

Of t tasks n_i needed tool i, and n_ij needed both i and j; a task of a group of n counts n^(-1/2). With p_i the chance
that the model gives a listed candidate i, and r_j = (n_j + 1/2) / (t + 1),

    C_ij = (n_ij + 2 r_j) / (n_i + 2),
    company_j = logit(1 - product over i other than j of (1 - p_i C_ij)) - logit(r_j),
    logit(p'_j) = a + b logit(p_j) + c company_j,

with (a, b, c) around (0, 1, 0), where p' is p. What is said of a task that is learned from comes from the other groups,
and company is read only where held-out labels clearly speak for it. A prior that reads it is gone on from: its counts
count as little as its history does, and its coefficients are where one begins.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, NamedTuple

import numpy as np

from camdf.core.groups import numbered, sizes_of
from camdf.core.probability import logit, sigmoid
from camdf.core.rankings import MAX_SHARED_CATALOGUE, Floats, Ints, LoggedTasks, Rankings
from camdf.core.sums import over_columns
from camdf.errors import UsageError
from camdf.policies.models.posterior import Belief, Fitted, Rows, most_likely
from camdf.policies.models.stored import count, list_of, names, number, numbers

UNREAD = (0.0, 1.0, 0.0)
"""The coefficients a, b and c that change nothing."""

SPREADS = (1.0, 0.5, 1.0)
"""How far they are expected to be from that, or from those of a prior, as standard deviations."""

WEIGHT = 2.0
"""How many tasks the shares r count for among those that needed a tool."""

SUREST = 1e-4
"""Chances are kept this far from 0 and 1 before a logit is taken."""

SURE = 1.0 - 1e-9
"""No single companion makes a tool surer than this."""

MOST_PAIRS = 4_096
"""More than a catalogue of 64 tools has."""

_pair_places = list_of(count, "whole numbers", MOST_PAIRS)


class PairCounts(NamedTuple):
    """t, n_i (tools + 1,), and n_ij (tools + 1, tools + 1) with 0 for i = j; the last place is of unknown tools."""

    tasks: float
    needed: Floats
    together: Floats

    def plus(self, some: PairCounts, times: float = 1.0) -> PairCounts:
        """With those of some tasks counted too, or, with -1, without them."""
        return PairCounts(
            tasks=self.tasks + times * some.tasks,
            needed=self.needed + times * some.needed,
            together=self.together + times * some.together,
        )

    @property
    def rates(self) -> Floats:
        """(tools,): r."""
        rates: Floats = (self.needed + 0.5) / (self.tasks + 1.0)
        return rates

    def said(self, probability: Floats, place: Ints) -> Floats:
        """(m, n, m): p_i C_ij, what each candidate i says for each j; 0 for itself and where a tool is not known."""
        given = (self.together + WEIGHT * self.rates) / (self.needed[:, None] + WEIGHT)  # C
        given[-1] = 0.0
        given[:, -1] = 0.0
        said: Floats = probability.T[:, :, None] * given[place.T[:, :, None], place]
        every = np.arange(place.shape[1])
        said[every, :, every] = 0.0
        return said

    def company(self, probability: Floats, place: Ints) -> Floats:
        """(n, m): the column, from probabilities and each candidate's place among the tools; 0 where that is -1."""
        nobody = over_columns(np.log1p(-np.minimum(self.said(probability, place), SURE)))
        column = logit(-np.expm1(nobody), SUREST) - logit(self.rates, SUREST)[place]
        return np.where(place >= 0, column, 0.0)


@dataclass(frozen=True, eq=False)
class Company:
    """Which tools were needed together, and how much that says of a task.

    `tasks` is t, and `needed` has n_i for each of `tools`. Pairs that some task needed have a place in `first`, one in
    `second`, and n_ij in `together`. `coefficients` are a, b and c.
    """

    tools: Annotated[tuple[str, ...], names]
    tasks: Annotated[float, number]
    needed: Annotated[tuple[float, ...], numbers]
    first: Annotated[tuple[int, ...], _pair_places]
    second: Annotated[tuple[int, ...], _pair_places]
    together: Annotated[tuple[float, ...], numbers]
    coefficients: Annotated[tuple[float, ...], numbers]

    def __post_init__(self) -> None:
        number_of_tools = len(self.tools)
        pairs = set(zip(self.first, self.second, strict=False))
        counts_of_pairs = {len(self.first), len(self.second), len(self.together)}
        if len(self.needed) != number_of_tools or counts_of_pairs != {len(pairs)}:
            raise UsageError("Tools that go together need one count for each tool, and one for each pair.")
        if number_of_tools > MAX_SHARED_CATALOGUE:
            raise UsageError(f"At most {MAX_SHARED_CATALOGUE} tools can go together. Got {number_of_tools} instead.")
        if len(self.coefficients) != 3:
            raise UsageError("Tools that go together need three 'coefficients'.")
        if not all(first < second < number_of_tools for first, second in pairs):
            raise UsageError("A pair of tools that go together needs two places in 'tools', the lower one first.")
        if min((self.tasks, *self.needed, *self.together)) < 0:
            raise UsageError("Counts of tools that go together must be at least 0.")
        both = np.zeros((number_of_tools + 1, number_of_tools + 1))
        both[list(self.first), list(self.second)] = self.together
        counts = PairCounts(self.tasks, np.append(self.needed, 0.0), both + both.T)
        object.__setattr__(self, "_counts", counts)
        object.__setattr__(self, "_position", {name: place for place, name in enumerate(self.tools)})

    def with_company(self, probability: Floats, rankings: Rankings) -> Floats:
        """(n, m): p' of p."""
        counts: PairCounts = self._counts  # type: ignore[attr-defined]
        column = counts.company(probability, self._places(rankings))
        return sigmoid(log_odds_with(self.coefficients, probability, column)) * rankings.listed

    def companions(self, probability: Floats, rankings: Rankings, row: int) -> dict[str, str]:
        """By candidate of one task, what says most for it, where that is more than the share of tasks that need it."""
        counts: PairCounts = self._counts  # type: ignore[attr-defined]
        listed = rankings.names(row)
        place = self._places(rankings)[row : row + 1, : len(listed)]
        said = counts.said(probability[row : row + 1, : len(listed)], place)[:, 0]
        clear = said.max(axis=0, initial=0.0) > counts.rates[place[0]]
        return {listed[j]: listed[said[:, j].argmax()] for j in np.flatnonzero(clear & (place[0] >= 0)).tolist()}

    def counts_among(self, catalogue: tuple[str, ...]) -> PairCounts:
        """Its counts for the tools of another catalogue."""
        counts: PairCounts = self._counts  # type: ignore[attr-defined]
        position: dict[str, int] = self._position  # type: ignore[attr-defined]
        place = np.array([*(position.get(name, -1) for name in catalogue), -1])
        return PairCounts(counts.tasks, counts.needed[place], counts.together[np.ix_(place, place)])

    def _places(self, rankings: Rankings) -> Ints:
        position: dict[str, int] = self._position  # type: ignore[attr-defined]
        return rankings.places(position)


def count_pairs(logged: LoggedTasks) -> PairCounts:
    """What all tasks say of the catalogue that they share, and of one tool more, which none knows."""
    weights = sizes_of(logged.groups) ** -0.5
    needed = _by_tool(logged)
    together = (needed.T * weights) @ needed * _different(needed.shape[1])
    return PairCounts(float(weights.sum()), weights @ needed, together)


def company_of(logged: LoggedTasks, counts: PairCounts, coefficients: Floats) -> Company:
    """As a policy keeps it."""
    first, second = np.nonzero(np.triu(counts.together))
    return Company(
        tools=logged.rankings.catalogue,
        tasks=counts.tasks,
        needed=tuple(counts.needed[:-1].tolist()),
        first=tuple(first.tolist()),
        second=tuple(second.tolist()),
        together=tuple(counts.together[first, second].tolist()),
        coefficients=tuple(coefficients.tolist()),
    )


def company_left_out(logged: LoggedTasks, counts: PairCounts, probability: Floats) -> Floats:
    """(n, m): the column of tasks that were counted, each from what the other groups say."""
    column = np.zeros(probability.shape)
    group, groups = numbered(logged.groups)
    for one in range(groups):
        mine = group == one
        others = counts.plus(count_pairs(logged.take(mine)), -1.0)
        column[mine] = others.company(probability[mine], logged.rankings.tool_ids[mine])
    return column


def fit_coefficients(
    probability: Floats, column: Floats, labels: Floats, weights: Floats, flips: float, expected: Floats
) -> Floats:
    """(3,): a, b and c, from one row a candidate, around what is expected of them."""
    dense = np.column_stack([np.ones(len(column)), logit(probability, SUREST), column])
    start = Fitted(expected, np.zeros(0), np.zeros(0))
    before = Belief(start, np.diag(np.array(SPREADS) ** -2.0), np.zeros((0, 2, 2)))
    return most_likely(Rows.without_tools(dense, labels, weights), before, flips).theta


def log_odds_with(coefficients: Floats | tuple[float, ...], probability: Floats, column: Floats) -> Floats:
    """logit(p') of p and the column."""
    a, b, c = coefficients
    moved: Floats = a + b * logit(probability, SUREST) + c * column
    return moved


def _by_tool(logged: LoggedTasks) -> Floats:
    """(n, tools + 1): 1 where a task needed a listed tool."""
    needed = np.zeros((len(logged), len(logged.rankings.catalogue) + 1))
    np.put_along_axis(needed, logged.rankings.tool_ids, logged.required.astype(np.float64), axis=1)
    return needed


def _different(tools: int) -> Floats:
    """(tools, tools): 1 for two different tools."""
    return 1.0 - np.eye(tools)

"""Does a challenger pay more than the champion? An answer that may be asked for every day, of one after another.

A 95% interval is right once. Looked at every day, chance lifts it above zero sooner or later, so the interval here
holds at all looks together: the empirical-Bernstein confidence sequence of Howard, Ramdas, McAuliffe and Sekhon
(Time-uniform, nonparametric, nonasymptotic confidence sequences, Annals of Statistics 2021), which Choe and Ramdas
(Comparing sequential forecasters, Operations Research 2024) use to compare forecasters. Traffic drifts, and it needs no
mean that stays: it is about the average so far.

Let d_i be what the challenger paid more on task i, with |d_i| <= b known before the outcome, and m_i its mean given the
past. For every rate r in (0, 1/b),

    exp(r * (sum d_i - sum m_i) - psi(r) * sum d_i^2),   psi(r) = (-log(1 - b r) - b r) / b^2

starts at 1 and falls on average, and so does its mean over `RATES`. That mean reaches 1/alpha in at most a share alpha
of histories, whenever and however often one looks (Ville's inequality). Of the past it needs two sums.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, log
from typing import Self

import numpy as np

from camdf.core.payoff import Payoff, cost_of
from camdf.core.rankings import Bools, Floats, LoggedTasks
from camdf.core.resampling import Interval
from camdf.evaluation.assess import amount, answer_of, signed
from camdf.evaluation.replay import MEASURES, all_handed_over, measured
from camdf.policies.base import Policy

ERROR = 0.05
"""The share of histories in which any challenger may be promoted that has not paid more: all of them together."""

RATES = tuple(0.5**k for k in range(1, 9))
"""Half of a task's worth to 1/256: large ones prove large margins soon, small ones prove small margins at all."""

HALVINGS = 60
"""Of the range in which an interval's end lies: to the last bit of a number."""


def error_of(number: int) -> float:
    """What the challenger of this number, from 1 on, may spend of `ERROR`: 1/2, 1/6, 1/12, ..., together all of it.

    >>> [round(error_of(number), 4) for number in (1, 2, 10)]
    [0.025, 0.0083, 0.0005]
    """
    return ERROR / (number * (number + 1))


def log_evidence(total: Floats, squares: Floats, bound: float) -> Floats:
    """The logarithm of the evidence that the mean is above zero, from the sums of d_i and of d_i^2; any shape.

    It exceeds log(1/alpha) at any look in at most a share alpha of the histories in which the mean is not.
    """
    rates = np.array([rate for rate in RATES if rate * bound < 1])
    if not len(rates):
        return np.full(np.shape(total), -inf)
    paces = (-np.log1p(-bound * rates) - bound * rates) / bound**2
    grown = np.multiply.outer(total, rates) - np.multiply.outer(squares, paces)
    most = grown.max(axis=-1)
    evidence: Floats = most + np.log(np.exp(grown - most[..., None]).sum(axis=-1)) - log(len(RATES))
    return evidence


@dataclass(frozen=True)
class Evidence:
    """What is kept of the tasks on which two policies were compared: sums, which add up over looks."""

    tasks: int = 0
    squares: float = 0.0
    """Of the differences in payoff."""

    bound: float = 1.0
    """No difference can be larger; it only rises."""

    challenger: tuple[float, ...] = (0.0,) * len(MEASURES)
    champion: tuple[float, ...] = (0.0,) * len(MEASURES)
    """Sums of `MEASURES` over tasks."""

    def __add__(self, other: Evidence) -> Evidence:
        return Evidence(
            self.tasks + other.tasks,
            self.squares + other.squares,
            max(self.bound, other.bound),
            _sums_of_both(self.challenger, other.challenger),
            _sums_of_both(self.champion, other.champion),
        )

    @property
    def total(self) -> float:
        """Of the differences in payoff."""
        return self.challenger[0] - self.champion[0]

    def means(self, sums: tuple[float, ...]) -> dict[str, float]:
        """A policy's `MEASURES` a task, from its sums."""
        return {measure: total / self.tasks for measure, total in zip(MEASURES, sums, strict=True)}

    def margin(self, error: float) -> Interval:
        """What the challenger paid more a task, between ends of which each is ever wrong with probability `error`."""
        if not self.tasks:
            return Interval(0.0, -self.bound, self.bound)
        mean = self.total / self.tasks
        return Interval(mean, self._end(self.total, error), -self._end(-self.total, error))

    def _end(self, total: float, error: float) -> float:
        """The mean that lies as far below as the evidence reaches, by halving."""
        low = -self.bound
        high = total / self.tasks
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            beyond = log_evidence(np.array(total - self.tasks * middle), np.array(self.squares), self.bound)
            if beyond > log(1 / error):
                low = middle
            else:
                high = middle
        return low


def _sums_of_both(some: tuple[float, ...], more: tuple[float, ...]) -> tuple[float, ...]:
    """The sums of both, measure by measure."""
    return tuple(map(sum, zip(some, more, strict=True)))


def compared(
    challenger: Policy,
    champion: Policy,
    logged: LoggedTasks,
    payoff: Payoff,
    given: Bools | None = None,
    *,
    at_least: int = 0,
    at_most: int | None = None,
) -> Evidence:
    """Both decide on tasks that neither has learned from, of runs that saw every tool.

    `given` (n, m) marks the candidates that a task gets whatever a policy says, such as pinned tools. `at_least` and
    `at_most` are those of the gate that the policies are for.
    """

    def tools_under(policy: Policy) -> Bools:
        decisions = policy.decide(logged.rankings, payoff)
        searches = payoff.recourse > 0
        return all_handed_over(logged.rankings, decisions, given, at_least, at_most, searches=searches)

    of_challenger = tools_under(challenger)
    of_champion = tools_under(champion)
    mine = measured(logged, payoff, of_challenger)
    theirs = measured(logged, payoff, of_champion)
    apart = np.abs(cost_of(logged.rankings, of_challenger) - cost_of(logged.rankings, of_champion))
    return Evidence(
        len(logged),
        float(np.square(mine[:, 0] - theirs[:, 0]).sum()),
        1.0 + payoff.cost_pressure * float(apart.max(initial=0.0)),
        tuple(mine.sum(axis=0).tolist()),
        tuple(theirs.sum(axis=0).tolist()),
    )


@dataclass(frozen=True)
class Trial:
    """How the challenger of this number does, in the words of `camdf fit`."""

    number: int
    evidence: Evidence = Evidence()

    @property
    def margin(self) -> Interval:
        """Over the champion; each end is valid at every look."""
        return self.evidence.margin(error_of(self.number))

    @property
    def pays(self) -> bool:
        """Where the margin's whole interval lies above zero."""
        return self.margin.low > 0

    @property
    def is_promising(self) -> bool:
        """Whether what has been seen so far speaks for it at all, shown or not."""
        evidence = self.evidence
        return bool(log_evidence(np.array(evidence.total), np.array(evidence.squares), evidence.bound) > 0)

    @property
    def verdict(self) -> str:
        """One sentence."""
        tasks = self.evidence.tasks
        if not tasks:
            return "not judged yet: no newer task"
        margin = self.margin
        interval = f"{margin.low:+.3f} to {margin.high:+.3f} at every look"
        now = self.evidence.means(self.evidence.challenger)
        before = self.evidence.means(self.evidence.champion)
        return (
            f"{answer_of(margin)}: {signed(margin)} over the champion on {tasks} newer tasks, {interval}; it costs "
            f"{amount(now['cost'], before['cost'])} a task instead of {amount(before['cost'])} and keeps every "
            f"required tool in {now['sufficiency']:.0%} of tasks instead of {before['sufficiency']:.0%}"
        )

    def and_then(self, more: Evidence) -> Self:
        """The same trial after more tasks."""
        return type(self)(self.number, self.evidence + more)

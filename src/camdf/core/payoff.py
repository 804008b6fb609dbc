"""What a set of tools is worth: the value of having what the task needs, minus the price of what was acquired."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, TypeAlias

import numpy as np

from camdf.core.rankings import Bools, Floats, Ints, LoggedTasks, Rankings
from camdf.core.sums import before_each
from camdf.errors import UsageError
from camdf.runtime.settings import LEFT_OUT, Settings, checked_setting, number, share

ValueFunction: TypeAlias = Callable[[Ints, Ints], Floats]
"""(required tools acquired, required tools in all) -> task value in [0, 1], elementwise, never falling in the first."""


def exact(covered: Ints, n_required: Ints) -> Floats:
    """v(A, G) = 1 if every required tool is acquired, else 0 (the paper's Equation 2)."""
    sufficient: Bools = covered == n_required
    return sufficient.astype(np.float64)


def partial(covered: Ints, n_required: Ints) -> Floats:
    """v(A, G) = |A and G| / |G|; a task that requires nothing is worth 1 from the start."""
    value: Floats = np.where(n_required > 0, covered / np.maximum(n_required, 1), 1.0)
    return value


VALUES: dict[str, ValueFunction] = {"exact": exact, "partial": partial}


def _value_or_function(value: Any) -> Any:
    if isinstance(value, str):
        if value in VALUES:
            return value
    elif callable(value):
        return _checked_function(value)
    raise ValueError(f"one of {', '.join(sorted(VALUES))}, or a function")


def _checked_function(value: ValueFunction) -> ValueFunction:
    """A value function that keeps its promises on small sets."""
    n_required, covered = np.tril_indices(9)
    worth = np.asarray(value(covered, n_required), dtype=np.float64)
    elementwise = worth.shape == covered.shape
    falls = elementwise and (np.diff(worth)[np.diff(n_required) == 0] < 0).any()
    if not elementwise or falls or not ((worth >= 0) & (worth <= 1)).all():
        raise ValueError(
            "a function that works elementwise, stays in [0, 1] and never falls as more required tools are acquired"
        )
    return value


@dataclass(frozen=True)
class Payoff(Settings):
    """U(A, x) = v(A, G_x) - cost_pressure * (cost of A).

    With `recourse`, the agent can find a required tool that was not acquired by a search of the request's own list. A
    set that misses k of the required tools is worth recourse^k under the exact value, and
    under the partial one a missed tool counts recourse of its share. A required tool outside the list is found by no
    search: the exact value is then 0, whatever was acquired, and the partial one lacks that tool's share. At 0, the
    default and the paper's payoff, there is no search, and a miss is final.

    >>> Payoff(cost_pressure=0.12)
    Payoff(cost_pressure=0.12, value='exact', recourse=0.0)
    """

    cost_pressure: Annotated[float, number(0)]
    """The price of one unit of tool cost in units of task value (the paper's lambda)."""

    value: Annotated[str | ValueFunction, _value_or_function] = "exact"
    """What a set is worth that lacks a tool: "exact" says nothing, "partial" the share that it has. Or a function of
    (required tools acquired, required tools in all)."""

    recourse: Annotated[float, share, LEFT_OUT] = 0.0
    """What a required tool is still worth where the agent has to search for it."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.recourse and not isinstance(self.value, str):
            raise UsageError(
                f"The 'recourse' of Payoff goes with the values {sorted(VALUES)}. "
                "Let a value function of your own say what a missed tool is still worth."
            )

    @classmethod
    def from_money(cls, task_worth: float, value: str | ValueFunction = "exact", recourse: float = 0.0) -> Payoff:
        """The payoff in units of a solved task, when tool costs are in money and a solved task is worth `task_worth`.

        >>> Payoff.from_money(task_worth=0.40).cost_pressure
        2.5
        """
        checked_setting("Payoff", "task_worth", task_worth, number(above=0))
        return cls(1.0 / task_worth, value, recourse)

    def worth(self, covered: Ints, n_required: Ints, outside: Ints | int = 0) -> Floats:
        """v, from counts of required tools: those acquired, all of them, and those that are outside the list."""
        value_of = VALUES[self.value] if isinstance(self.value, str) else self.value
        value = value_of(covered, n_required)
        if self.recourse == 0:
            return value
        if self.value == "exact":
            missed: Floats = np.power(self.recourse, n_required - covered)
            return np.where(np.equal(outside, 0), missed, 0.0)
        return value + self.recourse * (partial(n_required - outside, n_required) - value)

    def worth_by_depth(self, logged: LoggedTasks) -> Floats:
        """(n, m + 1): v of every prefix, depth 0 to m."""
        covered = before_each(logged.required.astype(np.int64))
        outside = logged.missing[:, None] if self.recourse else 0
        return self.worth(covered, logged.n_required[:, None], outside)

    def by_depth(self, logged: LoggedTasks) -> Floats:
        """(n, m + 1): U of every prefix, depth 0 to m. Depths past a list's end repeat its last payoff."""
        return self.worth_by_depth(logged) - self.cost_pressure * before_each(logged.rankings.costs)

    def of(self, logged: LoggedTasks, acquired: Bools) -> Floats:
        """(n,): U of the acquired candidates, any (n, m) mask. A prefix gives `by_depth` to the bit."""
        covered = (logged.required & acquired).sum(axis=1)
        outside = logged.missing if self.recourse else 0
        worth = self.worth(covered, logged.n_required, outside)
        value: Floats = worth - self.cost_pressure * cost_of(logged.rankings, acquired)
        return value


def cost_of(rankings: Rankings, acquired: Bools) -> Floats:
    """(n,): the summed cost of the acquired candidates, added in rank order so that padding cannot change a bit."""
    if rankings.width == 0:
        return np.zeros(len(rankings))
    total: Floats = np.cumsum(rankings.costs * acquired, axis=1)[:, -1]
    return total

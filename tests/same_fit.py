"""Two fits of the default compared: one machine's, and one in passes over batches."""

from __future__ import annotations

import numpy as np

from camdf import ExpectedPayoffBySet, LoggedTasks, Payoff, Rankings
from camdf.core.groups import numbered
from camdf.core.rankings import Ints, Strings
from camdf.models.membership import MembershipModel, group_folds
from camdf.models.warm_passes import FoldsOf

PAYOFFS = tuple(Payoff(pressure, value) for value in ("exact", "partial") for pressure in (0.02, 0.05, 0.12, 0.3))


def in_batches(logged: LoggedTasks, count: int) -> list[LoggedTasks]:
    """Up to `count` batches of whole groups."""
    group, _ = numbered(logged.groups)
    return [logged.take(group % count == number) for number in range(count) if (group % count == number).any()]


def shared_tools(logged: LoggedTasks) -> tuple[str, ...]:
    """What every task lists; () where lists differ."""
    return tuple(sorted(logged.rankings.catalogue)) if logged.rankings.shares_catalogue else ()


def folds_as_here(logged: LoggedTasks) -> FoldsOf:
    """The folds that one machine draws, by the name of the group."""
    folds = dict(zip(logged.groups.tolist(), group_folds(logged).tolist(), strict=True))

    def looked_up(groups: Strings) -> Ints:  # inside, so that it travels to workers which have no tests
        return np.array([folds[name] for name in groups.tolist()], dtype=np.int64)

    return looked_up


def apart_by_name(one: MembershipModel, other: MembershipModel) -> float:
    """The largest difference of any number that decides, tools compared by name."""
    place = [other.tools.index(name) for name in one.tools]
    assert len(one.tools) == len(other.tools)

    def numbers(model: MembershipModel, order: list[int]) -> list[float]:
        tables = (model.levels, model.slopes, model.times_listed, model.times_required)
        of_tools = [table[i] for table in tables for i in order]
        lists = (model.coefficients, model.holds, model.missing, model.sizes)
        single = [model.intercept, model.base_rate, model.sharpness, model.flips]
        return [*single, *(number for each in lists for number in each), *of_tools]

    apart = np.array(numbers(one, list(range(len(place))))) - np.array(numbers(other, place))
    return float(np.abs(apart).max())


def differing_sets(one: ExpectedPayoffBySet, other: ExpectedPayoffBySet, rankings: Rankings) -> int:
    """How many candidates the two decide otherwise, at several payoffs."""
    decided = ((one.decide(rankings, payoff).acquired, other.decide(rankings, payoff).acquired) for payoff in PAYOFFS)
    return sum(int((here != there).sum()) for here, there in decided)

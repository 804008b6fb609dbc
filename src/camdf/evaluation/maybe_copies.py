"""Which tools of a log may do the same: scored alike, needed by different tasks, and not told apart by their scores.

That is no proof. In the lab's domains it names `create_event` and `create_calendar_event`, and under BM25, which knows
words alone, `liter_to_gallon` and `gallon_to_liter` too. So a person is told, who may confirm it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from camdf.core.groups import numbered
from camdf.core.probability import logit
from camdf.core.rankings import Bools, Floats, Ints, LoggedTasks
from camdf.policies.copies import Copies

ALIKE = 0.9
"""The logits of two copies' scores are correlated by more than this."""

FEWEST_LISTS = 20
"""On fewer common lists a correlation says nothing."""

FEWEST_NEEDED = 2
"""Each of the two is needed by tasks of so many groups,"""

FEWEST_TOGETHER = 8
"""and both together by so many."""

TOLD_APART = 0.3
"""Of two tools that differ, the higher score says which one a task needs: by chance it does in half of the tasks."""

MOST_TOOLS = 1_000
"""Of a larger catalogue, the tools that are needed most are compared."""


class MaybeCopies(NamedTuple):
    """Two tools that may do the same."""

    tool: str
    copy: str
    """The one that fewer tasks needed."""

    lists: int
    """On how many lists both stand."""

    correlation: float
    """Of the logits of their scores there."""

    needed: tuple[int, int]
    """By tasks of how many groups, each."""


def maybe_copies(logged: LoggedTasks) -> list[MaybeCopies]:
    """The pairs of tools that may do the same, those that are most alike first."""
    needed = _groups_that_needed(logged)
    often = np.flatnonzero(needed >= FEWEST_NEEDED)
    tools = np.sort(often[np.argsort(-needed[often], kind="stable")][:MOST_TOOLS])
    if len(tools) < 2:
        return []
    return sorted(_pairs(logged, tools, needed), key=lambda pair: (-pair.correlation, pair.tool, pair.copy))


def copies_among(pairs: Sequence[MaybeCopies]) -> Copies:
    """What a person who confirms all of them says: tools that are alike two by two are one, by the name that leads."""
    alike = {frozenset((pair.tool, pair.copy)) for pair in pairs}
    groups: list[list[str]] = []
    for name in dict.fromkeys(name for pair in pairs for name in (pair.tool, pair.copy)):
        fitting = (group for group in groups if all(frozenset((name, member)) in alike for member in group))
        group = next(fitting, None)
        if group is None:
            groups.append([name])
        else:
            group.append(name)
    return {copy: group[0] for group in groups for copy in group[1:]}


def _groups_that_needed(logged: LoggedTasks) -> Ints:
    """(tools,): by tasks of how many groups each tool was needed."""
    number, _ = numbered(logged.groups)
    row, _ = np.nonzero(logged.required)
    pairs = np.unique(np.stack([logged.rankings.tool_ids[logged.required], number[row]]), axis=1)
    return np.bincount(pairs[0], minlength=len(logged.rankings.catalogue))


def _pairs(logged: LoggedTasks, tools: Ints, needed: Ints) -> Iterator[MaybeCopies]:
    """Those among some tools."""
    scored, listed, required = _by_tool(logged, tools)
    lists, correlation = _correlations(scored, listed)
    together = required.T.astype(np.float64) @ required
    likely = (lists >= FEWEST_LISTS) & (correlation > ALIKE) & (together == 0)
    for first, second in np.argwhere(np.triu(likely, 1)).tolist():
        both = listed[:, first] & listed[:, second]
        apart = scored[:, first] - scored[:, second]
        of_first = apart[both & required[:, first]]
        of_second = apart[both & required[:, second]]
        if _is_told_apart(of_first, of_second):
            continue
        if needed[tools[first]] + needed[tools[second]] < FEWEST_TOGETHER:
            continue
        by_need = sorted((first, second), key=lambda place: (-int(needed[tools[place]]), place))
        names = [logged.rankings.catalogue[tools[place]] for place in by_need]
        counts = [int(needed[tools[place]]) for place in by_need]
        yield MaybeCopies(
            names[0], names[1], int(lists[first, second]), float(correlation[first, second]), (counts[0], counts[1])
        )


def _by_tool(logged: LoggedTasks, tools: Ints) -> tuple[Floats, Bools, Bools]:
    """(n, tools): the logit of each tool's score, 0 where it is not listed; where it is; and where it is required."""
    rankings = logged.rankings
    place = np.full(len(rankings.catalogue) + 1, -1)
    place[tools] = np.arange(len(tools))
    column = place[rankings.tool_ids]
    row, rank = np.nonzero(rankings.listed & (column >= 0))
    at = (row, column[row, rank])
    scored = np.zeros((len(rankings), len(tools)))
    listed = np.zeros(scored.shape, dtype=bool)
    required = np.zeros(scored.shape, dtype=bool)
    scored[at] = logit(rankings.scores[row, rank])
    listed[at] = True
    required[at] = logged.required[row, rank]
    return scored, listed, required


def _correlations(scored: Floats, listed: Bools) -> tuple[Floats, Floats]:
    """(tools, tools): on how many lists two tools stand, and how their scores go together there; 0 where one stays."""
    there = listed.astype(np.float64)
    lists = there.T @ there
    some = np.maximum(lists, 1.0)
    mean = scored.T @ there / some  # of the first, on the lists of both
    variance = (scored**2).T @ there / some - mean**2
    covariance = scored.T @ scored / some - mean * mean.T
    spread = np.sqrt(np.maximum(variance * variance.T, 0.0))
    return lists, np.where(spread > 0, covariance / np.where(spread > 0, spread, 1.0), 0.0)


def _is_told_apart(of_first: Floats, of_second: Floats) -> bool:
    """Whether scores say which of two tools a task needs: by how often the difference is larger for the first."""
    if not len(of_first) or not len(of_second):
        return True
    larger = (of_first[:, None] > of_second).mean() + 0.5 * (of_first[:, None] == of_second).mean()
    return bool(abs(larger - 0.5) > TOLD_APART)

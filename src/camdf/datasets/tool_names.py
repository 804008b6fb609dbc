"""Logged tasks under other names of their tools: new names, or one name for several tools that do the same."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from camdf.core.rankings import GatedTasks, LoggedTasks
from camdf.datasets.gather import Candidates, as_logged
from camdf.errors import DataError
from camdf.policies.copies import Copies, check_copies
from camdf.policies.renames import Renames, check_renames


def renamed(logged: LoggedTasks, renames: Renames) -> LoggedTasks:
    """Tasks that list each tool under its new name, where `renames` has one for it: as if they had been logged so.

    A log of before and after is one of the same tools; a DataError where a task lists a tool under two of its names.

    >>> tasks = [{"scores": {"mail": 0.9, "search": 0.1}, "required": ["mail"]}]
    >>> renamed(LoggedTasks.from_records(tasks), {"mail": "send_mail"}).rankings.names(0)
    ['send_mail', 'search']
    """
    if not renames:
        return logged
    check_renames(renames)
    again = _under_names(logged, renames)
    fewer = np.flatnonzero(again.rankings.lengths < logged.rankings.lengths)
    if len(fewer):
        row = int(fewer[0])
        names = [renames.get(name, name) for name in logged.rankings.names(row)]
        twice = next(name for place, name in enumerate(names) if name in names[:place])
        raise DataError(
            f"The task {str(logged.task_ids[row])!r} lists {twice!r} under two of its names. Leave it out of the "
            "renames, or correct the log."
        )
    return again


def joined_copies(logged: LoggedTasks, copies: Copies) -> LoggedTasks:
    """Tasks of which each lists one tool for all that do the same, under the name that `copies` has for them.

    It has the best of their scores and the lowest of their costs, and is required if any of them was.

    >>> tasks = [{"scores": {"a/find": 0.9, "b/find": 0.8, "mail": 0.1}, "required": ["b/find"]}]
    >>> once = joined_copies(LoggedTasks.from_records(tasks), {"b/find": "a/find"})
    >>> once.rankings.names(0), once.required.tolist()
    (['a/find', 'mail'], [[True, False]])
    """
    if not copies:
        return logged
    check_copies(copies)
    return _under_names(logged, copies)


def of_gated(gated: GatedTasks, change: Callable[[LoggedTasks], LoggedTasks]) -> GatedTasks:
    """What `renamed` or `joined_copies` makes of tasks from which a gate had cut tools."""
    offered = gated.offered
    as_required = replace(gated.logged, required=offered, n_required=offered.sum(axis=1))
    return GatedTasks(change(gated.logged), change(as_required).required)


def _under_names(logged: LoggedTasks, new_names: Renames) -> LoggedTasks:
    """Tasks under other names; candidates of one task that get the same name become one."""
    rankings = logged.rankings
    names_by_tool = [new_names.get(name, name) for name in rankings.catalogue]
    names = tuple(dict.fromkeys(names_by_tool))
    number = {name: place for place, name in enumerate(names)}
    listed = rankings.listed
    task, _ = np.nonzero(listed)
    tool = np.array([number[name] for name in names_by_tool], dtype=np.int64)[rankings.tool_ids[listed]]
    pairs, which = np.unique(task * len(names) + tool, return_inverse=True)
    scores = np.zeros(len(pairs))
    costs = np.full(len(pairs), np.inf)
    required = np.zeros(len(pairs), dtype=bool)
    np.maximum.at(scores, which, rankings.scores[listed])
    np.minimum.at(costs, which, rankings.costs[listed])
    np.logical_or.at(required, which, logged.required[listed])
    tasks = pairs // max(len(names), 1)
    count = len(logged)
    n_required = logged.missing + np.bincount(tasks[required], minlength=count)
    candidates = Candidates(pairs % max(len(names), 1), scores, required, costs)
    lengths = np.bincount(tasks, minlength=count)
    ids = logged.task_ids.tolist()
    groups = logged.groups.tolist()
    again = as_logged(names, lengths, n_required, candidates, ids, groups, keep_order=False)
    same = replace(again.rankings, vectors=rankings.vectors, users=rankings.users)
    return replace(again, rankings=same)

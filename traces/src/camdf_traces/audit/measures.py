"""How each finding of an audit is measured."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import numpy as np

from camdf.core.groups import numbered
from camdf.core.rankings import Bools, Floats, Ints
from camdf.core.resampling import Interval
from camdf.policies.models.label_noise import NORMAL_QUANTILE, estimate_label_noise, upper_end
from camdf_traces.audit.findings import (
    Audit,
    Censoring,
    Drift,
    Exploration,
    Noise,
    NoTool,
    RepeatedRuns,
    Shift,
    Surfacing,
    Unknown,
    Untraced,
)
from camdf_traces.audit.task_lists import TaskLists, within

MOST_FITTED = 1000
"""Label noise is estimated on at most this many tasks."""

MOST_COMPARED = 4000
"""Scores of two periods are compared on at most this many tasks of both together."""

DEALINGS = 199
"""How often tasks are dealt to the two periods at random."""


def audit(tasks: TaskLists, *, since: datetime | None = None, split: float = 0.5, seed: int = 0) -> Audit:
    """Every finding. Drift compares the tasks before and since a time, or the first `split` share with the rest."""
    return Audit(
        len(tasks),
        int(tasks.ranked.filled.sum()),
        len(tasks.catalogue),
        repeated_runs(tasks),
        label_noise(tasks, np.random.default_rng(seed)),
        censoring(tasks),
        surfacing(tasks),
        drift(tasks, np.random.default_rng(seed), since=since, split=split),
        exploration(tasks),
        untraced(tasks),
        no_tool(tasks),
    )


def repeated_runs(tasks: TaskLists) -> RepeatedRuns | Unknown:
    """Agreement between runs of the same task, and the flips that would explain their disagreement.

    Two runs are compared on the tools that both could call: ranked ones (offered ones without a ranking), less those
    that were cut. Where each label is flipped with probability e, independently, two labels of one thing differ with
    probability d = 2 e (1 - e), whatever is true. So e = (1 - sqrt(1 - 2 d)) / 2. Every run weighs the same. Intervals
    come from the variance between tasks.
    """
    if tasks.repeats is None:
        return Unknown("No text and no groups: which runs repeat a task is not known. Mine with --with-text.")
    size = np.bincount(tasks.repeats + 1)[1:]
    again = (tasks.repeats >= 0) & (size[tasks.repeats] > 1)
    if not again.any():
        return Unknown("No task ran twice.")
    task, tool, called = _labels_of_runs(tasks, again)
    width = len(tasks.catalogue)
    thing, number = np.unique(tasks.repeats[task] * width + tool, return_inverse=True)
    runs = np.bincount(number).astype(float)
    calls = np.bincount(number, weights=called)
    which = thing // width
    # The pairs of a task with r runs weigh 1 / (r - 1) each, so that each of its runs weighs 1/2.
    weight = 1 / (size[which] - 1)
    by_tool = (calls * (calls - 1) / 2, calls * (runs - calls), runs * (runs - 1) / 2)
    both, differ, pairs = (_sums(which, weight * pair, len(size))[size > 1] for pair in by_tool)
    if not (both + differ).any():
        return Unknown("Tasks ran more than once, but no two runs could call the same tool.")
    different = _ratio(differ, pairs)
    flips = Interval(*(_flips(share) for share in (different.mean, different.low, different.high)))
    agreement = _ratio(both, both + differ)
    return RepeatedRuns(int((size > 1).sum()), int(again.sum()), agreement, flips, tasks.repeats_by)


def label_noise(tasks: TaskLists, rng: np.random.Generator) -> Noise | Unknown:
    """The estimate of `camdf.policies.models.label_noise`, on at most MOST_FITTED tasks that saw all of their ranking.

    A tool that was cut is never called, so its label is never contradicted: such runs would make labels look clean.
    """
    some = _drawn(np.flatnonzero(tasks.ranked.filled & ~tasks.lacked), MOST_FITTED, rng)
    if len({tasks.groups[row] for row in some.tolist()}) < 2 or not tasks.called.filled[some].any():
        return Unknown("Too few runs saw all of their ranking to estimate it.")
    noise = estimate_label_noise(tasks.logged(some))
    return Noise(noise.rate, noise.at_most, noise.labels, len(some))


def censoring(tasks: TaskLists) -> Censoring | Unknown:
    """How many candidates were cut before the run began, in runs that did not explore."""
    if tasks.offered is None:
        return Unknown("What was offered is not recorded, so what was cut is not known.")
    looked = tasks.ranked.filled & tasks.offered.filled
    if tasks.explored is not None:
        looked &= ~tasks.explored
    seen = np.zeros(len(tasks.catalogue), dtype=bool)
    seen[tasks.offered.tools] = True
    never = _names_of(tasks, ~seen)
    if not looked.any():
        return Censoring(0, Interval(0.0, 0.0, 1.0), 0.0, never)
    count = int(looked.sum())
    cut_runs = int((tasks.lacked & looked).sum())
    cut = tasks.cut & looked[tasks.ranked.task]
    return Censoring(
        count, _share_of_cases(cut_runs, count), float(cut.sum() / tasks.ranked.lengths[looked].sum()), never
    )


def surfacing(tasks: TaskLists) -> Surfacing | Unknown:
    """How often the ranking lacks a required tool, and the depths at which anything was required or offered."""
    ranked = tasks.ranked
    if not ranked.filled.any():
        return Unknown("No task has a ranking. Run a gate in shadow mode, which records one.")
    listed = np.bincount(ranked.task[tasks.required], minlength=len(tasks))
    missed = (listed < tasks.n_required) & ranked.filled
    offered = None
    if tasks.offered is not None:
        offered = int(ranked.place[~tasks.cut & tasks.offered.filled[ranked.task]].max(initial=0))
    n = int(ranked.filled.sum())
    deepest = int(ranked.place[tasks.required].max(initial=0))
    return Surfacing(n, _share_of_cases(int(missed.sum()), n), int(ranked.lengths.max()), deepest, offered)


def no_tool(tasks: TaskLists) -> NoTool | None:
    """The share of tasks that needed no tool, of those that saw all of their ranking; None where all called some."""
    ranked = tasks.ranked.filled
    called_none = tasks.n_required == 0
    saw_all = ranked & ~tasks.lacked
    if not (ranked & called_none).any() or not saw_all.any():
        return None
    count = int(saw_all.sum())
    share = _share_of_cases(int((saw_all & called_none).sum()), count)
    return NoTool(count, share, float(called_none[ranked].mean()))


def drift(
    tasks: TaskLists, rng: np.random.Generator, *, since: datetime | None = None, split: float = 0.5
) -> Drift | Unknown:
    """The catalogue, the scores and the number of required tools, before and since a time.

    Scores are compared by the Kolmogorov-Smirnov distance. The scores of one task belong together, so chance is
    measured by dealing whole tasks to the two periods at random.
    """
    if tasks.time is None:
        return Unknown("The tasks carry no times.")
    if since is None:
        edge = int(np.sort(tasks.time)[min(int(len(tasks) * split), len(tasks) - 1)])
    else:
        aware = since if since.tzinfo else since.replace(tzinfo=UTC)
        edge = int(aware.timestamp() * 1e9)
    later = tasks.time >= edge
    day = datetime.fromtimestamp(edge / 1e9, UTC).date().isoformat()
    if later.all() or not later.any():
        return Unknown(f"All tasks lie on one side of {day}. Name another --since or --split.")
    before = _tools_of_period(tasks, ~later)
    now = _tools_of_period(tasks, later)
    some = _drawn(np.flatnonzero(tasks.ranked.filled), MOST_COMPARED, rng)
    compared = np.isin(np.arange(len(tasks)), some)
    if not (later[compared].any() and (~later[compared]).any()):
        return Unknown(f"Only one side of {day} has tasks with a ranking.")
    entries = compared[tasks.ranked.task]
    task = tasks.ranked.task[entries]
    values = tasks.scores[entries]
    top = tasks.ranked.place[entries] == 1
    return Drift(
        day,
        int((~later).sum()),
        int(later.sum()),
        _names_of(tasks, now & ~before),
        _names_of(tasks, before & ~now),
        float((before & now).sum() / (before | now).sum()),
        shift(values, task, later, rng),
        shift(values[top], task[top], later, rng),
        _difference(tasks.n_required[later], tasks.n_required[~later]),
    )


def shift(values: Floats, task: Ints, later: Bools, rng: np.random.Generator) -> Shift:
    """The Kolmogorov-Smirnov distance of values in two periods, and the share of random dealings that reach it."""
    order = np.argsort(values, kind="stable")
    ends = np.append(np.diff(values[order]) > 0, True)
    whose, _ = numbered(task[order])
    side = later[np.unique(task)]

    def distance(sides: Bools) -> float:
        marks = sides[whose]
        now = np.cumsum(marks)[ends]
        before = np.flatnonzero(ends) + 1 - now
        return float(np.abs(now / max(now[-1], 1) - before / max(before[-1], 1)).max())

    measured = distance(side)
    # Counts are whole numbers, so a dealing that does as well differs by rounding at most.
    reached = sum(distance(rng.permutation(side)) >= measured - 1e-12 for _ in range(DEALINGS))
    return Shift(measured, (1 + reached) / (1 + DEALINGS))


def exploration(tasks: TaskLists) -> Exploration | Unknown:
    """How many runs explored, and how many of those give unbiased labels."""
    if tasks.explored is None:
        return Unknown("Nobody recorded which runs explored. A gate with explore=0.1 shows every tool to a tenth.")
    explored = tasks.explored & tasks.ranked.filled
    share = _share_of_cases(int(tasks.explored.sum()), len(tasks))
    extra = None
    if tasks.offered is not None:
        there = tasks.offered.filled
        of_explored = tasks.offered.lengths[there & tasks.explored]
        of_others = tasks.offered.lengths[there & ~tasks.explored]
        if len(of_explored) and len(of_others):
            extra = float(of_explored.mean() - of_others.mean())
    return Exploration(share, int((explored & ~tasks.lacked).sum()), int((explored & tasks.lacked).sum()), extra)


def untraced(tasks: TaskLists) -> Untraced | None:
    """The share of calls that only a request shows, by tool and by service; None where every call has a span."""
    called = tasks.called
    inferred = tasks.inferred
    if inferred is None or not len(inferred.tools):
        return None
    by_tool = _shares_of(tasks.catalogue, called.tools, inferred.tools)
    by_service: dict[str, float] = {}
    if any(tasks.services):
        names, number = np.unique(np.asarray(tasks.services), return_inverse=True)
        by_service = _shares_of(names.tolist(), number[called.task], number[inferred.task])
    return Untraced(len(called.tools), len(inferred.tools) / len(called.tools), by_tool, by_service)


def _shares_of(names: Sequence[str], every: Ints, some: Ints) -> dict[str, float]:
    """How many of the entries with each name are among some of them, the largest share first; names without any go."""
    count = np.bincount(some, minlength=len(names))
    whole = np.bincount(every, minlength=len(names))
    shares = {names[place]: float(count[place] / whole[place]) for place in np.flatnonzero(count).tolist()}
    return dict(sorted(shares.items(), key=lambda pair: (-pair[1], pair[0])))


def _labels_of_runs(tasks: TaskLists, rows: Bools) -> tuple[Ints, Ints, Bools]:
    """Task, tool and whether it was called, for each tool that a run could call."""
    ranked = tasks.ranked
    called = tasks.called
    listed = rows[ranked.task] & (tasks.required | ~tasks.cut)
    unlisted = rows[called.task] & ~within(tasks.codes(called), tasks.codes(ranked))
    parts = [
        (ranked.task[listed], ranked.tools[listed], tasks.required[listed]),
        (called.task[unlisted], called.tools[unlisted], np.ones(unlisted.sum(), dtype=bool)),
    ]
    if tasks.offered is not None:
        offered = tasks.offered
        idle = (rows & ~ranked.filled)[offered.task] & ~within(tasks.codes(offered), tasks.codes(called))
        parts.append((offered.task[idle], offered.tools[idle], np.zeros(idle.sum(), dtype=bool)))
    task, tool, was_called = (np.concatenate(part) for part in zip(*parts, strict=True))
    return task, tool, was_called


def _drawn(rows: Ints, most: int, rng: np.random.Generator) -> Ints:
    """At most so many rows, chosen at random; in their order."""
    if not len(rows):
        return rows
    return np.sort(rng.choice(rows, min(len(rows), most), replace=False))


def _names_of(tasks: TaskLists, wanted: Bools) -> tuple[str, ...]:
    """The names of some tools of the catalogue."""
    return tuple(sorted(tasks.catalogue[tool] for tool in np.flatnonzero(wanted)))


def _tools_of_period(tasks: TaskLists, period: Bools) -> Bools:
    """The tools that a period's tasks ranked or were offered."""
    is_there = np.zeros(len(tasks.catalogue), dtype=bool)
    for lists in (tasks.ranked, tasks.offered):
        if lists is not None:
            is_there[lists.tools[period[lists.task]]] = True
    return is_there


def _sums(number: Ints, weights: Floats, count: int) -> Floats:
    return np.bincount(number, weights, count).astype(np.float64)


def _flips(different: float) -> float:
    return float((1 - np.sqrt(1 - 2 * min(different, 0.5))) / 2)


def _share_of_cases(some: int, count: int) -> Interval:
    """A share of independent cases, with Wilson's interval."""
    share = some / count
    return Interval(share, max(1 - upper_end(1 - share, count), 0.0), min(upper_end(share, count), 1.0))


def _ratio(part: Floats, whole: Floats) -> Interval:
    """The ratio of two sums over independent tasks, with the interval of its linear approximation."""
    ratio = float(part.sum() / whole.sum())
    n = len(part)
    error = np.sqrt(((part - ratio * whole) ** 2).sum() * n / max(n - 1, 1)) / whole.sum()
    reach = NORMAL_QUANTILE * float(error)
    return Interval(ratio, max(ratio - reach, 0.0), min(ratio + reach, 1.0))


def _difference(now: Ints, before: Ints) -> Interval:
    mean = float(now.mean() - before.mean())
    reach = NORMAL_QUANTILE * float(np.sqrt(now.var() / len(now) + before.var() / len(before)))
    return Interval(mean, mean - reach, mean + reach)

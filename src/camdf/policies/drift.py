"""Did what a policy decides on move since its fit? Scores, tools per task and the catalogue, by one function.

A policy's file keeps what lists were like (`UsualLists`), and `moved` compares later ones with that. Where no file says
it, nothing is known, and nothing has moved.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import sqrt
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from camdf.core.groups import numbered, sizes_of
from camdf.core.rankings import Floats, Ints, LoggedTasks, Rankings, Strings
from camdf.policies.copies import NO_COPIES, Copies
from camdf.policies.training import MOST_CHOSEN, FittedCatalogue, UsualLists, UsualShares

FEWEST = 30
"""With less evidence than so many independent tasks have, at the fit or since, scores and sizes say nothing."""

FAR = 0.1
"""Scores have moved where the share below a point differs by this much."""

SURE = 4.0
"""And by so many standard errors. Of 28 comparisons, 60 tasks a side, one in 200 is so far off by chance."""

NEW_TOOLS = 0.1
"""The catalogue has moved where this share of it is new, besides what lists of other tasks bring by chance."""

HALF = 0.5
"""Tools per task have moved by this much of what they were."""

SHOWN = 5
"""How many new tools are named."""

DECILES = np.arange(1, 10) / 10

What: TypeAlias = Literal["scores", "catalogue", "tools"]


class Moved(NamedTuple):
    """Something that is no longer as it was at the fit."""

    what: What
    sentence: str


def fitted_catalogue(
    logged: LoggedTasks, chosen: Ints, cost_pressure: float, copies: Copies = NO_COPIES
) -> FittedCatalogue:
    """What a policy's file keeps of the lists that it was fitted on, and of the `copies` that were joined in them.

    `chosen` (n,) counts the tools that the policy chose of each list, at this cost pressure.
    """
    filled = logged.rankings.lengths > 0
    lists: UsualLists | None = None
    if filled.any():
        some = logged.rankings.take(filled)
        scores, best, spans = map(_usual_shares, _values_by_task(some).values())
        sizes = np.bincount(np.minimum(chosen[filled], MOST_CHOSEN))
        lists = UsualLists(
            evidence=_evidence(logged.groups[filled]),
            listed_once=_listed_once(some, logged.groups[filled]),
            scores=scores,
            best=best,
            spans=spans,
            chosen=tuple(sizes.tolist()),
            cost_pressure=float(cost_pressure),
        )
    return FittedCatalogue.of([*logged.rankings.catalogue, *copies], lists)


def moved(
    fitted: FittedCatalogue | None, rankings: Rankings, groups: Strings, chosen: Ints | None = None
) -> tuple[Moved, ...]:
    """What of these lists is no longer as it was at the fit, which `fitted` keeps.

    - Scores, the best score of a task, or the span from its worst to its best: the share below a decile of the fit
      differs by a tenth or more.
    - The catalogue: a tenth of the listed tools is new, where the file names all that the fit knew.
    - Tools per task: their mean moved by half of what it was.

    Each beyond chance: lists like those of the fit are told to have moved in fewer than 1 of 100 comparisons. Scores
    that become 0.5 s + 0.4 are always told, from 60 tasks on. `groups` (n,) names near-copies. `chosen` (n,) counts the
    tools that the policy chose of each list at the fit's own payoff; None where it decided at another.
    """
    filled = rankings.lengths > 0
    if fitted is None or fitted.lists is None or not filled.any():
        return ()
    some = rankings.take(filled)
    among = groups[filled]
    changes = [*_new_tools(fitted, fitted.lists, some, among)]
    if min(_evidence(among), fitted.lists.evidence) >= FEWEST:
        changes += _moved_scores(fitted.lists, some, among)
        if chosen is not None:
            changes += _moved_sizes(fitted.lists, chosen[filled], among)
    return tuple(changes)


def _new_tools(fitted: FittedCatalogue, usual: UsualLists, rankings: Rankings, groups: Strings) -> Iterator[Moved]:
    """New tools, beside those that chance brings: as many tasks again list about as many new tools as were listed once.

    That holds for no more tasks than the fit had (Good and Toulmin), so the latest so many count.
    """
    enough = slice(-max(1, round(len(rankings) * min(1.0, usual.evidence / _evidence(groups)))), None)
    latest = rankings.take(enough)
    listed = [latest.catalogue[tool] for tool in np.unique(latest.tool_ids[latest.listed])]
    new = fitted.unknown(listed)
    by_chance = usual.listed_once * _evidence(groups[enough]) / usual.evidence
    if new and len(new) - by_chance - SURE * sqrt(by_chance) >= NEW_TOOLS * len(listed):
        names = ", ".join(new[:SHOWN])
        if len(new) > SHOWN:
            names += f" and {len(new) - SHOWN} more"
        share = len(new) / len(listed)
        yield Moved("catalogue", f"{len(new)} of {len(listed)} tools ({share:.0%}) are new since the fit: {names}.")


def _moved_scores(usual: UsualLists, rankings: Rankings, groups: Strings) -> Iterator[Moved]:
    before = {"scores": usual.scores, "best scores of tasks": usual.best, "spans of a task's scores": usual.spans}
    for words, values in _values_by_task(rankings).items():
        kept = before[words]
        below = _shares_below(values, np.array(kept.points))
        shares = below.mean(axis=1)
        away = np.abs(shares - kept.shares)
        errors = _standard_error(np.maximum(below.std(axis=1), kept.deviations), usual, groups)
        far = np.where(away >= SURE * errors, away, 0.0)
        place = int(far.argmax())
        if far[place] >= FAR:
            now_below = f"{shares[place]:.0%} of the {words} lie below {kept.points[place]:.3g}"
            yield Moved("scores", f"{now_below}, {kept.shares[place]:.0%} at the fit.")
            return


def _moved_sizes(usual: UsualLists, chosen: Ints, groups: Strings) -> Iterator[Moved]:
    counts = np.array(usual.chosen, dtype=np.float64)
    sizes = np.arange(len(counts))
    before = float(np.average(sizes, weights=counts))
    deviation = sqrt(float(np.average((sizes - before) ** 2, weights=counts)))
    now = float(chosen.mean())
    error = float(_standard_error(np.maximum(chosen.std(), deviation), usual, groups))
    if now != before and abs(now - before) >= max(HALF * before, SURE * error):
        yield Moved("tools", f"The policy chooses {now:.1f} tools a task on average, {before:.1f} at the fit.")


def _usual_shares(values: Floats) -> UsualShares:
    points = np.unique(np.nanquantile(values, DECILES))
    below = _shares_below(values, points)
    return UsualShares(tuple(points.tolist()), tuple(below.mean(axis=1).tolist()), tuple(below.std(axis=1).tolist()))


def _shares_below(values: Floats, points: Floats) -> Floats:
    """(points, n): the share of a task's values below each point, equal ones counted half; NaN is none."""
    count = (~np.isnan(values)).sum(axis=1)
    below = [(values < point).sum(axis=1) + (values == point).sum(axis=1) / 2 for point in points]
    shares: Floats = np.array(below) / count
    return shares


def _values_by_task(rankings: Rankings) -> dict[str, Floats]:
    """What is compared of scores, by the words for it: a row a task, with NaN at padding."""
    scores = np.where(rankings.listed, rankings.scores, np.nan)
    best = np.nanmax(scores, axis=1, keepdims=True)
    spans = best - np.nanmin(scores, axis=1, keepdims=True)
    return {"scores": scores, "best scores of tasks": best, "spans of a task's scores": spans}


def _listed_once(rankings: Rankings, groups: Strings) -> int:
    """How many tools the lists of one group alone have."""
    number, _ = numbered(groups)
    row, _ = np.nonzero(rankings.listed)
    pairs = np.unique(np.stack([rankings.tool_ids[rankings.listed], number[row]]), axis=1)
    _, times = np.unique(pairs[0], return_counts=True)
    return int((times == 1).sum())


def _evidence(groups: Strings) -> float:
    """Kish's effective sample size, if the tasks of a group were all alike: n^2 / sum of (size of a group)^2."""
    sizes = sizes_of(groups)
    return float(len(sizes) ** 2 / sizes.sum())  # the sum over tasks of their group's size


def _standard_error(deviation: Floats | float, usual: UsualLists, groups: Strings) -> Floats:
    """Of the difference of two means. The larger deviation stands for both: a rare case may be missing in one."""
    error: Floats = deviation * np.sqrt(1 / usual.evidence + 1 / _evidence(groups))
    return error

"""Does a gate that aims at a number of tools, or at a sufficiency, get there? Without one label, in every domain.

A row is one domain under one ranking and one aim. The cold start, which has not seen the domain, finds its cost
pressure on a random half of the requests, without their labels, and is measured on the other half; ten times over.
Requests whose scores say nothing are left out of both, as a gate leaves them out.
"""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from camdf.core.groups import numbered
from camdf.core.rankings import Bools, LoggedTasks
from camdf.errors import UsageError
from camdf.evaluation.drawing import BLUE, COLUMN, GRAY, VERMILLION, canvas, styled
from camdf.policies.by_set import ExpectedPayoffBySet
from camdf.policies.pressure import pressure_for_estimate, pressure_for_tools
from camdf.scorers.base import says_nothing
from camdf_lab import domains
from camdf_lab.beyond.batches import BATCHES, IN_TABLES, all_pairs, batch_of
from camdf_lab.beyond.priors import Cold
from camdf_lab.stored import Row, Rows
from camdf_lab.study import Run, Study, column, differing, mean_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture

SHARES = (0.1, 0.25, 0.5)
"""How many tools are asked for, as shares of the mean length of a list."""

SUFFICIENCIES = (0.8, 0.9, 0.95)
"""Which sufficiency is asked for."""

VALUE = "partial"
"""Under it sets grow tool by tool, and `Gate.for_target` uses it."""

HALVES = 10
WITHIN_SHARE = 0.25
"""The mean number of tools should be off by no more than this share of what was asked."""

NOT_REACHED = (np.nan, np.nan, np.nan)
"""What stands for the figures where no half could aim at so much."""

PLACE = ("look", "domain", "scorer", "aim", "asked")
FIGURES = ("tools", "kept", "worst", "sufficiency", "expected", "found")


def rows_of(domain: str, scorer: str) -> list[Row]:
    """Every aim."""
    logged = domains.load(domain, scorer)
    logged = logged.take([row for row, scores in enumerate(_scores_of(logged)) if not says_nothing(scores)])
    policy = Cold(domain, scorer)
    length = float(logged.rankings.lengths.mean())
    place = {"look": IN_TABLES[batch_of(domain)], "domain": domain, "scorer": scorer}
    halves = [_half(logged, number) for number in range(HALVES)]
    rows: list[Row] = []
    for aim, asked in [*product(["tools"], SHARES), *product(["sufficiency"], SUFFICIENCIES)]:
        tried = [_tried(policy, logged, half, aim, asked, length) for half in halves]
        reached = [trial for trial in tried if trial is not None]
        kept, suffices, expected = np.array(reached or [NOT_REACHED]).T
        worst = np.nan
        if aim == "tools":
            worst = float(np.abs(kept / (asked * length) - 1).max())
        figures = (length, float(kept.mean()), worst, float(suffices.mean()), float(expected.mean()), len(reached))
        rows.append({**place, "aim": aim, "asked": asked, **dict(zip(FIGURES, figures, strict=True))})
    return rows


def _scores_of(logged: LoggedTasks) -> list[list[float]]:
    """Those of every list."""
    columns = (logged.rankings.scores.tolist(), logged.rankings.lengths.tolist())
    return [scores[:length] for scores, length in zip(*columns, strict=True)]


def _half(logged: LoggedTasks, number: int) -> Bools:
    """A random half of the tasks, groups kept together."""
    group, groups = numbered(logged.groups)
    chosen: Bools = np.random.default_rng([number, 17]).permutation(groups) < (groups + 1) // 2
    return chosen[group]


def _tried(
    policy: ExpectedPayoffBySet, logged: LoggedTasks, sample: Bools, aim: str, asked: float, length: float
) -> tuple[float, float, float] | None:
    """Tools kept, realized and expected sufficiency on the other half; None where so much is not to be expected."""
    here = logged.rankings.take(sample)
    there = logged.take(~sample)
    try:
        if aim == "tools":
            payoff = pressure_for_tools(policy, here, VALUE, tools=asked * length)
        else:
            payoff = pressure_for_estimate(policy, here, VALUE, sufficiency=asked)
    except UsageError:
        return None
    acquired = policy.decide(there.rankings, payoff).acquired
    suffices = there.sufficient(acquired)
    expected = policy.estimated_sufficiency(there.rankings, acquired)
    return float(acquired.sum(axis=1).mean()), float(suffices.mean()), float(expected.mean())


def measure(run: Run) -> Rows:
    """Every domain and ranking of both batches."""
    return run.rows(rows_of, all_pairs())


def recheck(rows: Rows, seed: int, run: Run) -> list[str]:
    """One small domain and ranking, all targets again."""
    small = all_pairs(most_tasks=100)
    again = rows_of(*small[np.random.default_rng(seed).integers(len(small))])
    return differing(rows, again, PLACE, FIGURES)


def of_aim(rows: Rows, batch: str, aim: str, asked: float) -> Rows:
    """The rows of one target on one batch of domains, those left out in which it was never tried."""
    return [
        row
        for row in rows
        if (row["look"], row["aim"], row["asked"]) == (IN_TABLES[batch], aim, asked) and row["found"]
    ]


def off(row: Row) -> float:
    """By how much of what was asked the mean number of tools is off."""
    return float(row["kept"] / (row["asked"] * row["tools"]) - 1)


def _achieved(row: Row) -> float:
    """What the picture shows of a target: tools kept over tools asked for, or the sufficiency."""
    return 1 + off(row) if row["aim"] == "tools" else float(row["sufficiency"])


def section(rows: Rows) -> list[str]:
    """Targets compared with what was achieved."""
    lines = [
        "## Targets instead of a bare number\n",
        "`Gate.for_target(policy, scorer, requests=..., tools=..., mean_tools=8)` finds the cost pressure on requests",
        "without labels. Here the cold start, which has not seen the domain, finds it on a random half of the requests",
        f"and is measured on the other half, {HALVES} times; unit costs, partial value. The target is a share of",
        f"the mean length of a list. What is kept should be off by no more than {WITHIN_SHARE:.0%} of the target: on",
        "average over the halves of a domain and ranking, and in every single half.\n",
        "| domains | target, tools | rankings | mean within 25% | every half within 25% | mean kept, of the target "
        "| sufficiency |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for batch in BATCHES:
        for share in SHARES:
            here = of_aim(rows, batch, "tools", share)
            ratio = np.array([1 + off(row) for row in here])
            mean_within = (np.abs(ratio - 1) <= WITHIN_SHARE).mean()
            all_within = (column(here, "worst") <= WITHIN_SHARE).mean()
            lines.append(
                f"| {batch} | {share:.0%} of the list | {len(here)} | {mean_within:.0%} | {all_within:.0%} "
                f"| {ratio.mean():.2f} | {mean_of(here, 'sufficiency'):.3f} |"
            )
    lines += [
        "",
        "A target sufficiency is one of the policy's own estimate, which without labels is as good as the other",
        "domains make it: so the table has what was achieved. Rankings of which the policy does not expect as much,",
        "even of whole lists, are left out. A promise takes labels (`camdf calibrate --min-sufficiency`).\n",
        "| domains | target sufficiency | rankings | expected | achieved | at worst | mean kept, of the list |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for batch in BATCHES:
        for level in SUFFICIENCIES:
            here = of_aim(rows, batch, "sufficiency", level)
            achieved = column(here, "sufficiency")
            worst = here[int(achieved.argmin())]
            kept = (column(here, "kept") / column(here, "tools")).mean()
            lines.append(
                f"| {batch} | {level:g} | {len(here)} | {mean_of(here, 'expected'):.3f} | {achieved.mean():.3f} "
                f"| {achieved.min():.3f} ({worst['domain']}, {worst['scorer']}) | {kept:.0%} |"
            )
    return [*lines, "", "![Targets and what was achieved](pictures/aims.png)\n"]


def pictures(rows: Rows) -> dict[str, Picture]:
    """Targets against what was achieved."""
    return {"aims": asked_and_achieved(rows)}


@styled
def asked_and_achieved(rows: Rows) -> Picture:
    """One dot a domain and ranking: tools kept over the target, and the sufficiency that was achieved."""
    picture, grid = canvas(2 * COLUMN, 2.8, 1, 2)
    left, right = np.ravel(grid)
    rng = np.random.default_rng(0)
    for batch, color, marker in (("shipped", BLUE, "o"), ("later", VERMILLION, "^")):
        for axes, aim, values in ((left, "tools", SHARES), (right, "sufficiency", SUFFICIENCIES)):
            for place, asked in enumerate(values):
                here = of_aim(rows, batch, aim, asked)
                at = place + rng.uniform(-0.15, 0.15, len(here))
                achieved = [_achieved(row) for row in here]
                label = batch if place == 0 else None
                axes.plot(at, achieved, marker, color=color, markersize=3, alpha=0.6, mew=0, label=label)
    left.axhspan(1 - WITHIN_SHARE, 1 + WITHIN_SHARE, color=GRAY, alpha=0.2, linewidth=0)
    left.set(xticks=range(len(SHARES)), xticklabels=[f"{share:.0%}" for share in SHARES])
    left.set(xlabel="target, share of the list", ylabel="mean kept, of the target", ylim=(0, None))
    for place, level in enumerate(SUFFICIENCIES):
        right.plot([place - 0.3, place + 0.3], [level, level], color=GRAY, linewidth=1.2)
    right.set(xticks=range(len(SUFFICIENCIES)), xticklabels=[f"{level:g}" for level in SUFFICIENCIES])
    right.set(xlabel="target sufficiency", ylabel="achieved")
    right.legend(loc="lower right")
    return picture


STUDY = Study("intents", measure, recheck, section, pictures)

"""What a gate does to its own labels: ten rounds of deciding, logging and fitting again, with and without exploration.

A tool that was not offered cannot have been called, so a log holds what the policy let happen. A run whose tools did
not suffice fails, and failed runs teach nothing. Both make the next fit believe in smaller sets. Tasks of an
exploration share see every tool: no policy has censored their labels, and the gate flags them. An update knows what was
offered, and learns of nothing else: a tool that was offered and not called was not needed, whether the run failed or
not. There a lower cost pressure explores, which costs a few tools instead of all.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING

import numpy as np

from camdf.core.groups import numbered
from camdf.core.payoff import Payoff
from camdf.core.rankings import Bools, Floats, LoggedTasks, joined
from camdf.evaluation.drawing import BLUE, COLUMN, GRAY, GREEN, ORANGE, SKY, VERMILLION, canvas, styled
from camdf.policies.by_set import ExpectedPayoffBySet
from camdf_lab import domains
from camdf_lab.beyond.priors import Unseen
from camdf_lab.stored import Row, Rows
from camdf_lab.study import Run, Study, column, differing, mean_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture

DEPLOYED = (("metatool", "minilm"), ("mcp-atlas", "minilm"))
LIVE_PAYOFF = Payoff(0.1)
ROUNDS = 10
TASKS_A_ROUND = 200
EXPLORED_SHARE = 0.1
LOWER = 4.0
"""What the cost pressure of an exploring run is divided by."""

SEEDS = 12
FEWEST_LESSONS = 20
"""A round with fewer successful runs teaches nothing, and the fit before it stays."""


@dataclass(frozen=True)
class Way:
    """How a deployment makes and uses its labels."""

    name: str
    explore: float
    learns_from: str
    """'all' successful runs of the last round, 'explored' ones of all rounds, what was 'offered' in every run, or the
    'truth' that nobody has."""

    color: str


WAYS = (
    Way("every label known", 0.0, "truth", GRAY),
    Way("no exploration", 0.0, "all", VERMILLION),
    Way("10% explore, learns from all runs", EXPLORED_SHARE, "all", GREEN),
    Way("10% explore, learns from explored runs", EXPLORED_SHARE, "explored", BLUE),
    Way("no exploration, updates by what was offered", 0.0, "offered", ORANGE),
    Way("10% at a quarter of the pressure, updates by what was offered", EXPLORED_SHARE, "offered", SKY),
)


def payoffs(domain: str, tasks: LoggedTasks, way: Way, seed: int) -> Floats:
    """(rounds + 1, 2): what the policy that each round starts with pays on held-out tasks, and what its traffic paid.

    The first policy saw every tool.
    """
    rng = np.random.default_rng(seed)
    group, groups = numbered(tasks.groups)
    live = (rng.permutation(groups) < groups // 2)[group]
    held_out = tasks.take(~live)
    lessons = _draw(tasks, live, rng)
    unbiased = [lessons]
    by_round = []
    policy = Unseen(domain).fit(lessons, LIVE_PAYOFF)
    for _ in range(ROUNDS + 1):
        traffic = _draw(tasks, live, rng)
        explores = rng.random(len(traffic)) < way.explore
        offered = _offered(policy, traffic, way, explores)
        on_held_out = LIVE_PAYOFF.of(held_out, policy.decide(held_out.rankings, LIVE_PAYOFF).acquired)
        on_traffic = LIVE_PAYOFF.of(traffic, offered)
        by_round.append([float(on_held_out.mean()), float(on_traffic.mean())])
        called = traffic.required & offered
        succeeds = traffic.sufficient(offered)
        unbiased.append(traffic.take(explores & succeeds))
        if way.learns_from == "offered":
            seen = replace(traffic, required=called, n_required=called.sum(axis=1))
            policy.update(seen, offered)
        elif way.learns_from == "truth":
            policy = Unseen(domain).fit(traffic, LIVE_PAYOFF)
        elif way.learns_from == "explored":
            policy = Unseen(domain).fit(reduce(joined, unbiased), LIVE_PAYOFF)
        elif succeeds.sum() >= FEWEST_LESSONS:
            policy = Unseen(domain).fit(traffic.take(succeeds), LIVE_PAYOFF)
    return np.array(by_round)


def _offered(policy: ExpectedPayoffBySet, traffic: LoggedTasks, way: Way, explores: Bools) -> Bools:
    usual = policy.decide(traffic.rankings, LIVE_PAYOFF).acquired
    if way.learns_from != "offered":
        return usual | (explores[:, None] & traffic.rankings.listed)
    lower = policy.decide(traffic.rankings, Payoff(LIVE_PAYOFF.cost_pressure / LOWER)).acquired
    return np.where(explores[:, None], lower, usual)


def _draw(tasks: LoggedTasks, live: Bools, rng: np.random.Generator) -> LoggedTasks:
    return tasks.take(rng.choice(np.flatnonzero(live), TASKS_A_ROUND))


def rows_of(domain: str, scorer: str, way: Way, seeds: int = SEEDS) -> list[Row]:
    """One row a round: the mean over simulated deployments, and its standard error."""
    tasks = domains.load(domain, scorer)
    by_seed = np.array([payoffs(domain, tasks, way, seed) for seed in range(seeds)])
    held = by_seed[:, :, 0]
    live = by_seed[:, :, 1]
    error = np.zeros(ROUNDS + 1)
    if seeds > 1:
        error = held.std(axis=0, ddof=1) / np.sqrt(seeds)
    place = {"domain": domain, "scorer": scorer, "way": way.name}
    return [
        {
            **place,
            "round": number,
            "payoff": float(mean),
            "error": float(error[number]),
            "first": float(held[0, number]),
            "live": float(live.mean(axis=0)[number]),
        }
        for number, mean in enumerate(held.mean(axis=0))
    ]


def measure(run: Run) -> Rows:
    """Every domain and way."""
    return run.rows(rows_of, [(*pair, way) for pair in DEPLOYED for way in WAYS])


def recheck(rows: Rows, seed: int, run: Run) -> list[str]:
    """The first deployment of one way on the smaller domain, again."""
    way = WAYS[np.random.default_rng(seed).integers(len(WAYS))]
    return differing(rows, rows_of(*DEPLOYED[1], way, seeds=1), ("domain", "way", "round"), ("first",))


def section(rows: Rows) -> list[str]:
    """First and last round of every way."""
    lines = [
        "## What a gate does to its own labels\n",
        "A tool that was not offered cannot have been called, and a run that lacked a tool fails and is dropped, so",
        "each fit on a gate's own logs believes in smaller sets than the last. Here are",
        f"{ROUNDS} rounds of {TASKS_A_ROUND} tasks after a first one that saw all tools. Each round fits on what the",
        "one before logged, and is measured on tasks of groups that never were live. Means over",
        f"{SEEDS} simulated deployments, exact value, pressure {LIVE_PAYOFF.cost_pressure:g}, with standard errors.",
        "Learning from explored runs uses those of all rounds: they are few, but no policy has censored them. An",
        "update adds what every run was offered and called, and fits nothing again. 'Live' is the mean of what the",
        "traffic of all rounds paid, exploration included.\n",
        "| domain, ranking | labels | round 0 | round 5 | round 10 | live |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for domain, scorer in DEPLOYED:
        for way in WAYS:
            mine = _of_way(rows, domain, way)
            shown = " | ".join(f"{mine[i]['payoff']:.3f} ± {mine[i]['error']:.3f}" for i in (0, 5, 10))
            lines.append(f"| {domain}, {scorer} | {way.name} | {shown} | {mean_of(mine, 'live'):.3f} |")
    return [*lines, "", "![Payoff over ten rounds of fitting on a gate's own logs](pictures/deployment.png)\n"]


def _of_way(rows: Rows, domain: str, way: Way) -> Rows:
    return [row for row in rows if (row["domain"], row["way"]) == (domain, way.name)]


@styled
def rounds_picture(rows: Rows) -> Picture:
    """A panel a domain, a line a way, a band of two standard errors."""
    picture, panels = canvas(2 * COLUMN, 2.7, 1, len(DEPLOYED))
    for axes, (domain, scorer) in zip(panels, DEPLOYED, strict=True):
        for way in WAYS:
            mine = _of_way(rows, domain, way)
            rounds = column(mine, "round")
            payoff = column(mine, "payoff")
            reach = 2 * column(mine, "error")
            axes.plot(rounds, payoff, color=way.color, marker="o", markersize=2.5, linewidth=1.2, label=way.name)
            axes.fill_between(rounds, payoff - reach, payoff + reach, color=way.color, alpha=0.12, linewidth=0)
        axes.set(title=f"{domain}, {scorer}", xlabel="round of fitting on the logs of the one before")
    panels[0].set_ylabel("mean payoff, held-out tasks")
    handles, labels = panels[0].get_legend_handles_labels()
    picture.legend(handles, labels, loc="outside lower center", ncols=2)
    return picture


def pictures(rows: Rows) -> dict[str, Picture]:
    """The ten rounds."""
    return {"deployment": rounds_picture(rows)}


STUDY = Study("deployment", measure, recheck, section, pictures)

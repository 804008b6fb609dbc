"""Worlds whose truth is known: tasks that need nothing, and tools that go together.

python benchmarks/generated_worlds.py                 a table; ten processor seconds
python benchmarks/generated_worlds.py --json FILE     the same numbers as JSON
python benchmarks/generated_worlds.py --check FILE    exit 1 where a number is not what the file has

A catalogue of 40 tools. How many of them a task needs has a known law, and which ones has chances in proportion to the
product of their weights; in a world of chains a task needs the three tools of one of ten chains, and the scores show
only the first. The logits of scores are Gaussian, so the best decision is known: the oracle's. One log and its policy
decide on 800 later tasks. What a policy chooses counts, in the exact payoff at a cost pressure of .05. The rule is the
best of four tuned ones, picked in hindsight.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from stored import measure_and_compare

from camdf import ExpectedPayoffBySet, LoggedTasks, Payoff, Rankings
from camdf.core.probability import sigmoid
from camdf.core.rankings import Bools, Floats, Ints
from camdf.policies.registry import POLICIES

PAYOFF = Payoff(0.05)
TOOLS = 40
SIZES = (0.45, 0.35, 0.2)
"""Of the tasks that need something, the shares that need one, two and three tools."""

NONE = (0.0, 0.2, 0.5, 0.8)
"""Shares of tasks that need nothing."""

CHAINS = 10
LINKS = 3
LABELS = 100
SEEDS = (0, 1, 2, 3)
LATER = 800
APART = 2.5
"""By how much the mean logit of a needed tool's score is above that of others."""

SPREAD = 1.2
RULES = ("fixed-k", "score-threshold", "score-per-cost-threshold", "constant-set")
FIGURES = ("default", "rule", "oracle", "tools without need", "tools with need")
NOISE = 1e-6
"""By how much a figure may differ from the stored one."""


class Tasks(NamedTuple):
    """Tasks as a policy sees them, what they need by tool, and the odds of a tool's score by whether it is needed."""

    logged: LoggedTasks
    needed: Bools
    ratio: Floats

    def ranked(self, chosen: Bools) -> Bools:
        """(n, tools) by tool to the order of each list."""
        return np.take_along_axis(chosen, self.logged.rankings.tool_ids, axis=1)


class World:
    """Tools of different weights, of which a share of the tasks needs none."""

    def __init__(self, seed: int, none: float, tools: int = TOOLS) -> None:
        rng = np.random.default_rng(seed)
        self.level = 0.5 * rng.standard_normal(tools) - 1.5
        weights = np.exp(0.8 * rng.standard_normal(tools))
        self.weights = weights / weights.sum()
        self.sizes = np.array([none, *((1.0 - none) * np.array(SIZES))])

    def needed(self, count: int, rng: np.random.Generator) -> Bools:
        """(count, tools): what so many tasks need."""
        later = sums_of_products(self.weights[None, ::-1], len(SIZES))[:, 0, ::-1]  # of the tools from each one on
        left = rng.choice(len(self.sizes), count, p=self.sizes)
        needed = np.zeros((count, len(self.weights)), dtype=bool)
        for tool in range(len(self.weights)):
            one_less = later[np.maximum(left - 1, 0), tool + 1]
            chance = np.where(left > 0, self.weights[tool] * one_less / np.maximum(later[left, tool], 1e-300), 0.0)
            needed[:, tool] = rng.random(count) < chance
            left = left - needed[:, tool]
        return needed

    def shown(self, needed: Bools) -> Bools:
        """(n, tools): which needed tools the scores tell of."""
        return needed

    def beyond(self, needed: Bools, rng: np.random.Generator) -> Floats:
        """(n, tools): by how much the logit of each score is above its tool's level."""
        return APART * self.shown(needed) + SPREAD * rng.standard_normal(needed.shape)

    def draw(self, count: int, rng: np.random.Generator, prefix: str) -> Tasks:
        """So many tasks."""
        needed = self.needed(count, rng)
        beyond = self.beyond(needed, rng)
        return Tasks(ranked_tasks(self.level + beyond, needed, prefix), needed, odds_of(beyond))

    def oracle(self, tasks: Tasks) -> Bools:
        """(n, tools): at one price the best set is a cut of the order of the odds that a tool is needed."""
        odds = self.weights * tasks.ratio
        order = np.argsort(-odds, axis=1, kind="stable")
        ways = sums_of_products(np.take_along_axis(odds, order, axis=1), len(SIZES))
        of_size = self.sizes / sums_of_products(self.weights[None], len(SIZES))[:, 0, -1]
        within = (of_size[:, None, None] * ways).sum(axis=0)
        worth = within / within[:, -1:] - PAYOFF.cost_pressure * np.arange(odds.shape[1] + 1)
        chosen = np.zeros(odds.shape, dtype=bool)
        np.put_along_axis(chosen, order, np.arange(odds.shape[1]) < worth.argmax(axis=1)[:, None], axis=1)
        return chosen


class Chains(World):
    """Every task needs all tools of one chain, and the scores show the first alone."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed, 0.0)
        rng = np.random.default_rng(seed + 3)
        self.links: Ints = rng.permutation(TOOLS)[: CHAINS * LINKS].reshape(CHAINS, LINKS)
        self.share = rng.dirichlet(np.full(CHAINS, 2.0))

    def needed(self, count: int, rng: np.random.Generator) -> Bools:
        """(count, tools): what so many tasks need."""
        needed = np.zeros((count, TOOLS), dtype=bool)
        np.put_along_axis(needed, self.links[rng.choice(CHAINS, count, p=self.share)], True, axis=1)
        return needed

    def shown(self, needed: Bools) -> Bools:
        """(n, tools): the first tool of each chain."""
        first = np.zeros(TOOLS, dtype=bool)
        first[self.links[:, 0]] = True
        return needed & first

    def oracle(self, tasks: Tasks) -> Bools:
        """(n, tools): the likeliest chains, as many as are worth their tools."""
        odds = self.share * tasks.ratio[:, self.links[:, 0]]
        order = np.argsort(-odds, axis=1, kind="stable")
        chance = np.cumsum(np.take_along_axis(odds, order, axis=1), axis=1) / odds.sum(axis=1, keepdims=True)
        worth = chance - PAYOFF.cost_pressure * LINKS * np.arange(1, CHAINS + 1)
        best = np.where(worth.max(axis=1) > 0, worth.argmax(axis=1) + 1, 0)
        chosen = np.zeros(tasks.needed.shape, dtype=bool)
        for task, count in enumerate(best):
            chosen[task, self.links[order[task, :count]].ravel()] = True
        return chosen


def ranked_tasks(logits: Floats, needed: Bools, prefix: str) -> LoggedTasks:
    """Tasks by the logits of their scores and by what they need, (n, tools) each."""
    scores = sigmoid(logits)
    count, tools = scores.shape
    order = np.argsort(-scores, axis=1, kind="stable")
    rankings = Rankings(
        np.take_along_axis(scores, order, axis=1),
        np.ones(scores.shape),
        np.full(count, tools),
        order.astype(np.int64),
        tuple(f"tool {number:03}" for number in range(tools)),
    )
    ids = np.array([f"{prefix} {task}" for task in range(count)])
    required = np.take_along_axis(needed, order, axis=1)
    return LoggedTasks(rankings, required, needed.sum(axis=1), ids, ids)


def odds_of(beyond: Floats) -> Floats:
    """(n, tools): the odds of each score by whether its tool is needed."""
    odds: Floats = np.exp((beyond * APART - APART**2 / 2) / SPREAD**2)
    return odds


def sums_of_products(values: Floats, most: int) -> Floats:
    """(most + 1, n, m + 1): the sum over all sets of 0, 1, ... of the first k values of the product of the set."""
    tasks, count = values.shape
    sums = np.zeros((most + 1, tasks, count + 1))
    sums[0] = 1.0
    for size in range(1, most + 1):
        sums[size, :, 1:] = np.cumsum(values * sums[size - 1, :, :-1], axis=1)
    return sums


def worlds(seed: int) -> dict[str, World]:
    """By what tasks need."""
    named: dict[str, World] = {f"{none:.0%} need none": World(seed, none) for none in NONE}
    return named | {"chains": Chains(seed)}


def measured(name: str, world: World, seed: int) -> dict[str, Any]:
    """What one world gives."""
    rng = np.random.default_rng(5000 + seed)
    taught = world.draw(LABELS, rng, "task").logged
    later = world.draw(LATER, rng, "later")
    rankings = later.logged.rankings

    def paid(acquired: Bools) -> float:
        return float(PAYOFF.of(later.logged, acquired).mean())

    fitted = ExpectedPayoffBySet().fit(taught, PAYOFF)
    chosen = fitted.decide(rankings, PAYOFF).acquired
    rules = [POLICIES[rule]().fit(taught, PAYOFF) for rule in RULES]
    tools = chosen.sum(axis=1)
    needs_some = later.needed.any(axis=1)
    return {
        "world": name,
        "seed": seed,
        "default": paid(chosen),
        "rule": max(paid(rule.decide(rankings, PAYOFF).acquired) for rule in rules),
        "oracle": paid(later.ranked(world.oracle(later))),
        "tools without need": _mean(tools[~needs_some]),
        "tools with need": _mean(tools[needs_some]),
        "reads company": fitted.model_.company is not None,
    }


def _mean(values: Ints) -> float | None:
    return float(values.mean()) if len(values) else None


def measure() -> list[dict[str, Any]]:
    """Every world, twice."""
    return [measured(name, world, seed) for seed in SEEDS for name, world in worlds(seed).items()]


def table(rows: Sequence[dict[str, Any]]) -> str:
    """Markdown: the mean over the seeds of each world."""
    lines = [f"| world | {' | '.join(FIGURES)} |", "|" + " --- |" * (1 + len(FIGURES))]
    for name in dict.fromkeys(row["world"] for row in rows):
        own = [row for row in rows if row["world"] == name]
        cells = [_cell([row[figure] for row in own]) for figure in FIGURES]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _cell(values: Sequence[float | None]) -> str:
    known = [value for value in values if value is not None]
    return f"{np.mean(known):.3f}" if known else "-"


def is_same(stored: dict[str, Any], now: dict[str, Any]) -> bool:
    """Whether a row is the stored one, but for rounding."""
    return all(
        abs(now[name] - value) <= NOISE if isinstance(value, float) else now[name] == value
        for name, value in stored.items()
    )


if __name__ == "__main__":
    raise SystemExit(measure_and_compare(__doc__, measure, table, is_same))

"""Tools that do the same: what telling a fit about them is worth, and what it suggests by itself.

python benchmarks/copies.py                 two tables; a minute
python benchmarks/copies.py --json FILE     the same numbers as JSON
python benchmarks/copies.py --check FILE    exit 1 where a number is not what the file has

The worlds are those of `generated_worlds.py`, in which some tools have copies: ten needs have two tools each, or two
often needed ones have five. A task needs any of them, its label names the one that was called, and the logits of their
scores differ by noise. A set earns what it earns in truth: any copy will do. The oracle knows which are copies.

`alone` is the default on the log as it is, `found` the one that joins all pairs that the log suggests
(`camdf fit --copies found`), and `told` the one that was told. Of the lab's domains, all pairs that a log suggests are
listed, with the tools' names, for a reader to judge.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from generated_worlds import LABELS, LATER, NOISE, PAYOFF, TOOLS, Tasks, World, odds_of, ranked_tasks
from stored import measure_and_compare

from camdf import ExpectedPayoffBySet
from camdf.core.rankings import Bools, Ints, LoggedTasks, Rankings
from camdf.datasets import joined_copies
from camdf.evaluation.maybe_copies import copies_among, maybe_copies
from camdf.policies.copies import Copies
from camdf_lab import domains

NEEDS: dict[str, Ints] = {
    "no copies": np.arange(TOOLS),
    "ten pairs": np.array([*range(30), *range(10)]),
    "two of five": np.array([*range(32), *[0] * 4, *[1] * 4]),
}
"""By world, which need each tool serves."""

OFTEN = {"no copies": (0, 1.0), "ten pairs": (10, 3.0), "two of five": (2, 8.0)}
"""How many of the first needs are more frequent, and by what factor."""

APART = (0.15, 0.6)
"""By what noise the logits of copies' scores differ, as standard deviations."""

SEEDS = (0, 1, 2, 3)
FIGURES = ("alone", "found", "told", "oracle")


class Later(NamedTuple):
    """Tasks that are decided on, and what they need in truth."""

    logged: LoggedTasks
    needs: Bools


class CopiedWorld:
    """Needs that several tools may serve."""

    def __init__(self, name: str, apart: float, seed: int) -> None:
        self.serves = NEEDS[name]
        self.apart = apart
        self.world = World(seed, 0.0, tools=int(self.serves.max()) + 1)
        many, factor = OFTEN[name]
        self.world.weights[:many] *= factor
        self.world.weights /= self.world.weights.sum()

    @property
    def copies(self) -> Copies:
        """What somebody who knows says: the first tool of each need stands for all."""
        first = np.argmax(self.serves[:, None] == self.serves, axis=1)
        return {f"tool {copy:03}": f"tool {tool:03}" for copy, tool in enumerate(first.tolist()) if copy != tool}

    def draw(self, count: int, rng: np.random.Generator, prefix: str) -> tuple[Later, Tasks]:
        """So many tasks, as they are logged and as the oracle sees them."""
        needs = self.world.needed(count, rng)
        beyond = self.world.beyond(needs, rng)
        scored = (self.world.level + beyond)[:, self.serves] + self.apart * rng.standard_normal((count, TOOLS))
        called = np.zeros(scored.shape, dtype=bool)
        for need in range(needs.shape[1]):
            serving = np.flatnonzero(self.serves == need)
            called[np.arange(count), serving[rng.integers(len(serving), size=count)]] |= needs[:, need]
        return Later(ranked_tasks(scored, called, prefix), needs), Tasks(
            ranked_tasks(self.world.level + beyond, needs, prefix), needs, odds_of(beyond)
        )

    def paid(self, rankings: Rankings, acquired: Bools, needs: Bools) -> float:
        """What sets earn in truth."""
        row, rank = np.nonzero(acquired)
        number = np.array([int(name.split()[1]) for name in rankings.catalogue])
        served = np.zeros(needs.shape, dtype=bool)
        served[row, self.serves[number[rankings.tool_ids[row, rank]]]] = True
        enough = (served | ~needs).all(axis=1)
        return float((enough - PAYOFF.cost_pressure * acquired.sum(axis=1)).mean())


def measured(name: str, apart: float, seed: int) -> dict[str, Any]:
    """What one world gives."""
    world = CopiedWorld(name, apart, seed)
    rng = np.random.default_rng(7000 + seed)
    taught, _ = world.draw(LABELS, rng, "task")
    later, seen_by_oracle = world.draw(LATER, rng, "later")
    found = copies_among(maybe_copies(taught.logged))

    def paid(copies: Copies) -> float:
        policy = ExpectedPayoffBySet().fit(joined_copies(taught.logged, copies), PAYOFF)
        rankings = joined_copies(later.logged, copies).rankings
        return world.paid(rankings, policy.decide(rankings, PAYOFF).acquired, later.needs)

    best = world.world.oracle(seen_by_oracle)
    enough = (best | ~later.needs).all(axis=1)
    same_need = [_serves(world, copy) == _serves(world, tool) for copy, tool in found.items()]
    return {
        "world": name,
        "noise between copies": apart,
        "seed": seed,
        "alone": paid({}),
        "found": paid(found),
        "told": paid(world.copies),
        "oracle": float((enough - PAYOFF.cost_pressure * best.sum(axis=1)).mean()),
        "copies": len(world.copies),
        "rightly found": sum(same_need),
        "wrongly found": len(found) - sum(same_need),
    }


def _serves(world: CopiedWorld, tool: str) -> int:
    return int(world.serves[int(tool.split()[1])])


def suggested() -> list[dict[str, Any]]:
    """The pairs that the logs of the lab's domains suggest."""
    rows: list[dict[str, Any]] = []
    for domain in [each.name for each in (*domains.DOMAINS, *domains.LATER_DOMAINS)]:
        for scorer in domains.scorers(domain):
            pairs = maybe_copies(domains.load(domain, scorer))
            rows += [{"domain": domain, "scorer": scorer, **pair._asdict(), "needed": [*pair.needed]} for pair in pairs]
    return rows


def measure() -> list[dict[str, Any]]:
    """Every world, four times, and every domain."""
    worlds = [(name, apart) for name in NEEDS for apart in APART if name != "no copies" or apart == APART[0]]
    return [measured(*world, seed) for seed in SEEDS for world in worlds] + suggested()


def table(rows: Sequence[dict[str, Any]]) -> str:
    """Both tables."""
    return f"{table_of_worlds(rows)}\n\n{table_of_pairs(rows)}"


def table_of_worlds(rows: Sequence[dict[str, Any]]) -> str:
    """Markdown: the mean over the seeds of each world."""
    lines = ["| world | noise | " + " | ".join(FIGURES) + " | found of copies | wrongly |", "|" + " --- |" * 8]
    worlds = [row for row in rows if "world" in row]
    for name, apart in dict.fromkeys((row["world"], row["noise between copies"]) for row in worlds):
        own = [row for row in worlds if (row["world"], row["noise between copies"]) == (name, apart)]
        means = [f"{np.mean([row[figure] for row in own]):.3f}" for figure in FIGURES]
        right, copies, wrong = (sum(row[key] for row in own) for key in ("rightly found", "copies", "wrongly found"))
        lines.append(f"| {name} | {apart} | {' | '.join(means)} | {right} of {copies} | {wrong} |")
    return "\n".join(lines)


def table_of_pairs(rows: Sequence[dict[str, Any]]) -> str:
    """Markdown: each pair that a domain's log suggests."""
    lines = ["| domain | scores | tool | may be the same as | correlation | needed |", "|" + " --- |" * 6]
    for row in rows:
        if "domain" in row:
            needed = " and ".join(map(str, row["needed"]))
            pair = f"{row['tool']} | {row['copy']} | {row['correlation']:.3f}"
            lines.append(f"| {row['domain']} | {row['scorer']} | {pair} | {needed} |")
    return "\n".join(lines)


def is_same(stored: dict[str, Any], now: dict[str, Any]) -> bool:
    """Whether a row is the stored one, but for rounding."""
    return all(
        abs(now[name] - value) <= NOISE if isinstance(value, float) else now[name] == value
        for name, value in stored.items()
    )


if __name__ == "__main__":
    raise SystemExit(measure_and_compare(__doc__, measure, table, is_same))

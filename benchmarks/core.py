"""What the head of mode "append" saves where logs say which tools most tasks need (`Prices.of_listing`, `of_joining`).

python benchmarks/core.py                 a table
python benchmarks/core.py --json FILE     the same numbers as JSON
python benchmarks/core.py --check FILE    exit 1 where they are not what the file has

The tasks are those of the lab's domains of 24 tools and more, where a task's list has at least half of the catalogue.
On one half of a domain a policy is fitted; the other half is played, each task as a conversation of one turn whose
tools are called one after the other, and then the halves change places. A tool that is not there is searched for by its
name. Prompts are billed as in benchmarks/cache.py, the head cached by other conversations. Definitions are stand-ins of
one length, since the domains come as numbers.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

import numpy as np
from cache import PRICES, Played, bill
from stored import measure_and_compare

from camdf.core.decisions import Decisions
from camdf.core.payoff import Payoff
from camdf.core.rankings import LoggedTasks, Rankings
from camdf.gate import Gate, Limits
from camdf.gate.lists import openai
from camdf.gate.tool_search import CALL, FIND, listing
from camdf.policies.base import Policy
from camdf.policies.by_set import ExpectedPayoffBySet
from camdf.prices import Prices
from camdf.tools import Tool
from camdf_lab import domains

FEWEST_TOOLS = 24
DEFINITION = "Looks it up, or changes it, as the request says. " * 8
ONE_TEXT = {"type": "object", "properties": {"what": {"type": "string"}}, "required": ["what"]}
SYSTEM = {"role": "system", "content": "You work for a company and answer its customers. " * 40}
PAYOFF = Payoff(0.1)
WORTH = 0.40
SMALLEST = (0, 1_024)
CELLS = tuple(product(SMALLEST, PRICES))
WAYS = ("without", "by use")
NOISE = 0.02


class WithoutUse(Policy):
    """A policy that does not tell which tools its log needed."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy

    def decide(self, rankings: Rankings, payoff: Payoff) -> Decisions:
        return self.policy.decide(rankings, payoff)


def loaded() -> Iterator[tuple[str, LoggedTasks]]:
    """The domains, by name."""
    for domain in (*domains.DOMAINS, *domains.LATER_DOMAINS):
        logged = domains.load(domain.name, scorer="minilm" if "minilm" in domain.scorers else domain.scorers[0])
        lengths = logged.rankings.lengths
        tools = len(logged.rankings.catalogue)
        if lengths.mean() >= max(FEWEST_TOOLS, tools / 2):
            yield domain.name, logged


def halves(logged: LoggedTasks) -> list[tuple[Any, Any]]:
    """Rows to learn from and rows to play, each way; all tasks of a group on one side."""
    _, group = np.unique(logged.groups, return_inverse=True)
    first = np.random.default_rng(0).permutation(group.max() + 1)[group] % 2 == 0
    rows = np.arange(len(first))
    return [(rows[first], rows[~first]), (rows[~first], rows[first])]


def play(gate: Gate, tools: Sequence[Tool], scores: dict[str, float], needed: Sequence[str], number: int) -> Played:
    """A conversation of one turn."""
    history: list[dict[str, Any]] = [SYSTEM, {"role": "user", "content": f"Please do what task {number} says."}]
    decision = gate.decide(history, tools, scores=scores)
    declared = [json.dumps(openai(tool)) for tool in (*decision.head, *decision.search)]
    there = set(decision.kept)
    joined = {*decision.joined, *decision.cut}
    prompts = []
    searches = 0

    def said(name: str, arguments: dict[str, Any], answer: str) -> None:
        prompts.append([*declared, *map(json.dumps, decision.openai(history)["messages"])])
        call = {"name": name, "arguments": json.dumps(arguments)}
        history.append({"role": "assistant", "content": None, "tool_calls": [{"id": "c", "function": call}]})
        history.append({"role": "tool", "tool_call_id": "c", "content": answer})

    for name in needed:
        if name not in there:
            said(FIND.name, {"query": name}, listing(gate.find(name, tools), tools))
            there.add(name)
            searches += 1
        if name in joined:
            said(CALL.name, {"name": name, "arguments": {"what": "this"}}, "Done.")
        else:
            said(name, {"what": "this"}, "Done.")
    prompts.append([*declared, *map(json.dumps, decision.openai(history)["messages"])])
    return Played(prompts, 0.0, 0, searches, len(declared) + 1, decision.mode == "append")


def gate_of(policy: Policy, prices: Prices, smallest: int) -> Gate:
    """A fitted policy at the payoff of its prices, searches among them."""
    recourse = prices.recourse(WORTH, found=0.95, prefix_tokens=1_500, found_tokens=300)
    payoff = prices.payoff(WORTH, "partial", recourse)
    limits = Limits(seconds=None, cached_prefix=smallest)
    return Gate(policy, None, payoff, prices=prices, limits=limits, mode="append", tool_search=True)


def measured(name: str, logged: LoggedTasks) -> Iterator[dict[str, Any]]:
    """A domain at every price and smallest cached prompt: cost and searches with the core, and what it is without."""
    parts = [
        (logged.take(played), ExpectedPayoffBySet().fit(logged.take(log), PAYOFF)) for log, played in halves(logged)
    ]
    calls = 1 + float(logged.required.sum()) / len(logged.rankings)
    most = np.bincount(logged.rankings.tool_ids[logged.required]).max() / len(logged.rankings)
    for (price, (read, write)), smallest in product(PRICES.items(), SMALLEST):
        prices = Prices(uncached=3.0 * write, cached=3.0 * read, turns=calls)
        talks = {way: [one for part in parts for one in played(*part, way, prices, smallest)] for way in WAYS}
        costs = {way: sum(bill(one, read, write, shared=True, smallest=smallest) for one in talks[way]) for way in WAYS}
        of = {
            "domain": name,
            "tools": len(logged.rankings.catalogue),
            "cached": price,
            "smallest": smallest,
            "most needed": round(float(most), 4),
        }
        searches = {way: round(sum(one.searches for one in talks[way]) / len(talks[way]), 2) for way in WAYS}
        yield {**of, "cost": round(costs["by use"] / costs["without"], 4), "searches": searches}


def played(
    tasks: LoggedTasks, policy: ExpectedPayoffBySet, way: str, prices: Prices, smallest: int
) -> Iterator[Played]:
    """The conversations of some tasks, by a policy that tells what its log needed, or by one that does not."""
    rankings = tasks.rankings
    catalogue = rankings.catalogue
    tools = [Tool(tool, DEFINITION, ONE_TEXT) for tool in catalogue]
    gate = gate_of(policy if way == "by use" else WithoutUse(policy), prices, smallest)
    for row in range(len(rankings)):
        listed = rankings.listed[row]
        names = [catalogue[tool] for tool in rankings.tool_ids[row][listed]]
        scores = dict(zip(names, map(float, rankings.scores[row][listed]), strict=True))
        needed = sorted(catalogue[tool] for tool in rankings.tool_ids[row][tasks.required[row]])
        yield play(gate, tools, {**dict.fromkeys(catalogue, 0.0), **scores}, needed, row)


def rows() -> list[dict[str, Any]]:
    """All domains."""
    rows_so_far: list[dict[str, Any]] = []
    for name, logged in loaded():
        rows_so_far += measured(name, logged)
        print(f"{name} done", file=sys.stderr, flush=True)
    return rows_so_far


def table(stored: Sequence[dict[str, Any]]) -> str:
    """Markdown: cost by domain as a part of that without, and the searches of a task where 1,024 tokens are cached."""
    heads = [
        "domain",
        "tools",
        *(f"{smallest:,} tokens, a cached one at {price}" for smallest, price in CELLS),
        "searches",
    ]
    lines = [f"| {' | '.join(heads)} |", "|" + " --- |" * len(heads)]
    for name in dict.fromkeys(row["domain"] for row in stored):
        own = {(row["smallest"], row["cached"]): row for row in stored if row["domain"] == name}
        costs = [f"{own[cell]['cost']:.2f}" for cell in CELLS]
        searches = own[CELLS[-2]]["searches"]
        told = f"{searches['by use']:.2f} ({searches['without']:.2f})"
        lines.append(f"| {name} | {own[CELLS[0]]['tools']} | {' | '.join(costs)} | {told} |")
    return "\n".join(lines)


def is_same(before: dict[str, Any], now: dict[str, Any]) -> bool:
    return bool(abs(before["cost"] - now["cost"]) <= NOISE)


if __name__ == "__main__":
    raise SystemExit(measure_and_compare(__doc__, rows, table, is_same))

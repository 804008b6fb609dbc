"""Which tools a new connection loads: those that are cheaper to have than to search for, by what was called before.

`tools/list` carries no request, so what is loaded is what this client, project and user call. A tool is taken to be
called in a connection with the chance p, its share of the connections before, shrunk to what is known at the start:

    p = (weight of the connections that called it + START * p at the start) / (weight of all + START)

The set is then the best one by the payoff with recourse (docs/recourse.md): a tool that is missed costs a search.
`camdf usage` asks the same two functions, `called_shares` and `cheaper_to_have`, of what transcripts say.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import zip_longest
from typing import Any

import numpy as np

from camdf.core.sets import value_order, worth_by_cut
from camdf.core.sums import before_each
from camdf.datasets.examples import Example
from camdf.prices import Prices
from camdf.tools import Tool

START = 3.0
"""How many connections the start weighs: after as many that call nothing of it, it counts half."""

AT_FIRST = 0.5
"""The chance at the start of tools that are loaded at first."""

OTHERS = 0.001
"""And of all others."""

HALF_LIFE = 30.0
"""After so many days a connection weighs half."""

ELSEWHERE = 0.25
"""A connection of another client or project weighs this much beside one's own."""

PRICES = Prices(turns=20)
"""A connection of twenty model calls at example prices; only what a search costs beside a definition matters."""

WORTH = 0.40
"""Dollars that the work of a connection is worth (docs/recourse.md)."""

FOUND_CHANCE = 0.9
"""How often a search finds the tool."""

SEARCH: Mapping[str, float] = {"prefix_tokens": 8_000, "found_tokens": 600}
"""What a search costs: how long the prompt before it is, and its answer."""


def chances(
    tools: Mapping[str, Tool],
    records: Iterable[Mapping[str, Any]],
    *,
    client: str = "",
    project: str = "",
    first: int = 8,
    examples: Sequence[Example] = (),
) -> dict[str, float]:
    """How likely a connection is to call each tool, by name.

    `records` are the log. Before there are any, the `first` tools of the servers in turn are as likely as not, or what
    `examples` need: each of them counts as a connection.
    """
    start = dict.fromkeys(tools, OTHERS)
    if not examples:
        start |= dict.fromkeys(_in_turn(tools)[:first], AT_FIRST)
    weights: dict[str, float] = {}
    called: dict[str, set[str]] = {}
    for place, example in enumerate(examples):
        weights[f"example {place}"] = 1.0
        called[f"example {place}"] = set(example.right)
    for record in records:
        connection = str(record.get("connection"))
        if record.get("event") == "connect":
            is_own = (record.get("client"), record.get("project")) == (client, project)
            weights[connection] = connection_weight(_days_ago(record["at"]), is_own=is_own)
        elif record.get("event") == "call" and record.get("ok"):
            called.setdefault(connection, set()).add(str(record.get("tool")))
    return called_shares(start, [(weight, called.get(key, set())) for key, weight in weights.items()])


def connection_weight(days: float, *, is_own: bool) -> float:
    """What a connection of so many days ago weighs, of this client and project or of another one."""
    weight: float = 0.5 ** (days / HALF_LIFE)
    return weight if is_own else weight * ELSEWHERE


def called_shares(start: Mapping[str, float], connections: Sequence[tuple[float, Collection[str]]]) -> dict[str, float]:
    """How likely a connection is to call each tool, by name: p above.

    `start` has the chance of every tool at the start, and `connections` the weight of each and what it called.
    """
    busy = [(weight, called) for weight, called in connections if called]  # idle ones say nothing
    called_by = dict.fromkeys(start, 0.0)
    for weight, called in busy:
        for name in start.keys() & called:
            called_by[name] += weight
    all_of_them = sum(weight for weight, _ in busy) + START
    return {name: (called_by[name] + START * start[name]) / all_of_them for name in start}


def worth_loading(tools: Mapping[str, Tool], chance: Mapping[str, float], at_most: int | None = None) -> list[str]:
    """The names of the tools worth loading, in the order of `tools`; at most so many of them, the likeliest."""
    loaded = cheaper_to_have({name: PRICES.of(tool) for name, tool in tools.items()}, chance, PRICES)
    if at_most is not None:
        loaded = sorted(loaded, key=lambda name: -chance[name])[: max(at_most, 0)]
    chosen = set(loaded)
    return [name for name in tools if name in chosen]


def cheaper_to_have(dollars: Mapping[str, float], chance: Mapping[str, float], prices: Prices) -> list[str]:
    """The names of the tools that are cheaper to have than to search for, those of the most value first.

    `dollars` is what having each one costs a connection, and `chance` how likely it is to be called in one.
    """
    if not dollars:
        return []
    names = list(dollars)
    likely = np.array([[chance[name] for name in names]])
    costs = np.array([[dollars[name] for name in names]])
    recourse = prices.recourse(WORTH, found=FOUND_CHANCE, **SEARCH)
    order, log_not = value_order(likely, costs, np.ones_like(likely, dtype=bool), recourse)
    spent = before_each(costs[[[0]], order])
    best = int((worth_by_cut(log_not, recourse) - spent / WORTH).argmax())
    return [names[place] for place in order[0, :best]]


def _in_turn(tools: Mapping[str, Tool]) -> list[str]:
    """One tool of every server, then the next of each: servers list first what is used most."""
    by_server: dict[str, list[str]] = {}
    for name, tool in tools.items():
        by_server.setdefault(tool.server, []).append(name)
    return [name for row in zip_longest(*by_server.values()) for name in row if name is not None]


def _days_ago(written: str) -> float:
    try:
        return max(0.0, (datetime.now(UTC) - datetime.fromisoformat(written)).total_seconds() / 86_400)
    except (TypeError, ValueError):
        return 0.0

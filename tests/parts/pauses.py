"""How long an event loop stands still while a gate decides; `benchmarks/gate.py` measures it in full."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Callable, Sequence
from typing import Any

from camdf.gate import Limits
from camdf.prices import Prices
from camdf.tools import Tool
from golden import golden_gate

PAUSE = 0.5
"""The share of a decision on 500 tools for which a loop may stand still. Read on the loop, it would be nearly 1."""


def rising(task: str, tools: Sequence[Tool]) -> list[float]:
    """A scorer that takes no time."""
    return [place / len(tools) for place in range(len(tools))]


async def longest_pause(tools: Sequence[Any]) -> float:
    """The longest that the loop stands still, as a share of the time of a first decision on these tools."""
    gate = golden_gate(rising, prices=Prices(), limits=Limits(seconds=60))
    gc.collect()
    gc.freeze()  # Python's own collector stops every thread, whoever made the garbage
    began = last = time.perf_counter()
    longest = 0.0
    deciding = asyncio.create_task(gate.adecide("Do something with one of these tools", tools))
    while not deciding.done():
        await asyncio.sleep(0.001)
        longest, last = max(longest, time.perf_counter() - last), time.perf_counter()
    gc.unfreeze()
    assert deciding.result().reason == "decided"
    return longest / (last - began)


def best_pause(make: Callable[[int], Sequence[Any]], rounds: int = 4) -> float:
    """The best of a few rounds, each on 500 new tools, whose schemas nobody has asked for before."""
    return min(asyncio.run(longest_pause(make(500))) for _ in range(rounds))


def search(query: str, limit: int = 10, when: str | None = None, tags: list[str] | None = None) -> str:
    """A function with arguments of several kinds, for frameworks that make a schema of it."""
    return query

"""The head of every request in mode "append": tools that are loaded though no turn has asked for them.

A tool that logged tasks need so often that joining their turns would cost more stands in the head, where prices say so.

A provider caches a prompt from a smallest prefix on. Where the search, the tools that stay and the system prompt are
less than that, the shortest tools fill it: each of them costs less in a cached head than the head costs uncached.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from camdf.gate.catalogue import Catalogue
from camdf.gate.settings import Limits
from camdf.gate.tool_search import CALL, find_tool
from camdf.gate.turns import text_of
from camdf.prices import CHARACTERS_PER_TOKEN, Prices

SAYING = ("system", "developer")
"""Whose message comes before the first turn."""


def often_needed(
    catalogue: Catalogue, needed: Iterable[Mapping[str, float]], prices: object, limits: Limits
) -> tuple[str, ...]:
    """Keys of the tools that so large a part of the tasks needs, as logs say, that the head is the cheaper place.

    `needed` has that part by tool, of each policy that may decide. Only tools of trusted servers are taken. No request
    enters: the prompt before a search is taken to be as long as the smallest that is cached.
    """
    if not isinstance(prices, Prices):
        return ()
    often: dict[str, None] = {}
    for part_by_key in needed:
        for key, part in part_by_key.items():
            if key not in catalogue.untrusted:
                tokens = prices.count(catalogue.tools[key])
                joining = prices.of_joining(tokens, prefix_tokens=limits.cached_prefix)
                if part * joining > prices.of_listing(tokens):
                    often[key] = None
    return tuple(often)


def core(catalogue: Catalogue, stays: Collection[str], limits: Limits, messages: Iterable[Any]) -> tuple[str, ...]:
    """Keys of the tools that fill the head; none where it is long enough, or it would take all tools.

    Only tools of trusted servers do. They follow from the tools, from what `stays` in every request and from the system
    prompt, so they are the same in all conversations of an agent.
    """
    wanted = limits.cached_prefix * CHARACTERS_PER_TOKEN
    if not wanted:
        return ()
    filled = _characters_before_turns(messages) + sum(map(catalogue.characters_of.__getitem__, stays))
    if filled >= wanted:
        return ()
    others = [key for key in catalogue.offered if key not in stays]
    names = catalogue.names(others, limits.search_names)
    filled += len(find_tool(names).definition()) + len(CALL.definition())
    filling: list[str] = []
    for key in catalogue.shortest:
        if filled >= wanted:
            break
        if key not in stays:
            filling.append(key)
            filled += catalogue.characters_of[key] - len(catalogue.tools[key].name)
    if filled < wanted or len(filling) == len(others):
        return ()
    return tuple(filling)


def _characters_before_turns(messages: Iterable[Any]) -> int:
    """How long the system prompt is, where a history begins with it."""
    first = next(iter(messages), None)
    if not isinstance(first, Mapping) or first.get("role") not in SAYING:
        return 0
    return len(text_of(first.get("content")))

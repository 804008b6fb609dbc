"""The head of every request in mode "append": tools that are loaded though no turn has asked for them.

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
from camdf.prices import CHARACTERS_PER_TOKEN

SAYING = ("system", "developer")
"""Whose message comes before the first turn."""


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

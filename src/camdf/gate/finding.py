"""What a search finds among the tools of a request: the one of that name, else the best ranked."""

from __future__ import annotations

from typing import Any

from camdf.gate.fold import Folding, trusted_part
from camdf.gate.request import Request
from camdf.gate.scoring import KnownScores
from camdf.gate.tool_search import sharing_words
from camdf.scorers.base import says_nothing


def found(request: Request, scored: KnownScores, folding: Folding, most: int) -> list[Any]:
    """The tools that match the last turn, the best first, those of trusted servers before the others."""
    if not request.turns:
        return []
    query = request.turns[-1].subject
    named = tools_named(query, request)
    if named:
        return [request.natives[key] for key in named][:most]
    untrusted = request.catalogue.untrusted
    matching = _matching(query, request, scored, folding)
    trusted = [key for key in matching if key not in untrusted][:most]
    others = [key for key in matching if key in untrusted][: min(folding.untrusted_places, most)]
    return [request.natives[key] for key in (*trusted, *others)]


def tools_named(query: str, request: Request) -> list[str]:
    """Keys of the tools that have this name, those of trusted servers first."""
    tools = request.catalogue.tools
    untrusted = request.catalogue.untrusted
    named = [key for key in request.catalogue.offered if query in (key, tools[key].name, tools[key].full_name)]
    return sorted(named, key=untrusted.__contains__)


def _matching(query: str, request: Request, scored: KnownScores, folding: Folding) -> list[str]:
    """Keys of the tools that match a query, the best first.

    Where no scorer answered in time, those that share words with it: the agent must not be told that no tool matches.
    """
    catalogue = request.catalogue
    turn = scored.turns.get(query)
    ranking = None
    if turn is not None and catalogue.costs:
        ranking = folding.ranking(request, turn, request.judges[-1], scored)
    if ranking is None:
        return sharing_words(query, {key: catalogue.tools[key] for key in catalogue.costs})
    if says_nothing([tool.score for tool in trusted_part(ranking.tools)]):
        return []
    return [tool.name for tool in ranking.tools if tool.score > 0]

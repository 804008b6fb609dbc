"""Whether gating saves money, before anything is deployed: what one conversation costs, by mode of the gate.

Every model call of a conversation carries the tools first and then all that was said. A provider caches what is the
same as in the call before, so a list that changes is paid for with the whole prompt. Where many conversations send the
same whole list one after the other, it is cached before a conversation begins, and cutting it saves less.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import Annotated, Any, NamedTuple

from camdf.errors import UsageError
from camdf.gate.tool_search import CALL, by_server, find_tool, names_by_server
from camdf.prices import NOTED, Prices
from camdf.runtime import settings as checks
from camdf.runtime.settings import Settings
from camdf.tools import NO_TOOLS, Tool, view

PAYS = 0.98
"""A mode saves money where it costs at most this part of what no gate costs; the rest is noise of the estimate."""

JOINED = 2.0
"""In mode "append", how many tools a turn brings: near what `Gate.start` does in everyday conversations."""

SEARCHED_STILL = 0.5
"""In mode "append", the part of the searches that is left: what a turn says is added before it is searched for."""

MODES = {
    "no gate": "every tool in every call",
    "append": "the list never changes; each turn brings its own",
    "drop, with a tool search": "what is cut is a search away",
    "defer": "the provider searches for what is cut",
    "allow": "the list stands, the choice is narrowed",
    "drop, no tool search": "what is cut is out of reach until a turn adds it",
}


@dataclass(frozen=True)
class Conversation(Settings):
    """What a conversation looks like, on average.

    The defaults of the last four are near what was measured on everyday conversations (docs/conversations.md).
    """

    turns: Annotated[int, checks.number(1)] = 6
    """How many turns it has."""

    requests: Annotated[int, checks.number(1)] = 2
    """The model calls of a turn: one that calls a tool, one that answers."""

    spoken: Annotated[int, checks.number(0)] = 150
    """How many tokens each call adds to the prompt."""

    system: Annotated[int, checks.number(0)] = 500
    """How many tokens the prompt has before the first turn."""

    opened: Annotated[float, checks.share] = 0.3
    """The share of conversations that begin with a turn that says nothing, such as a greeting. In it they have the
    search alone, or every tool where there is none."""

    share: Annotated[float, checks.share] = 0.375
    """The share of the tools that is loaded at first, otherwise."""

    searches: Annotated[float, checks.share] = 0.2
    """The share of turns in which the agent searches, where it can."""

    widened: Annotated[float, checks.share] = 0.8
    """The share of later turns that add tools to the list, where there is no search."""


class Cost(NamedTuple):
    """What one conversation costs in one mode."""

    mode: str
    loaded: int
    """Tools on the list at first."""

    dollars: float
    tokens: float
    """Input tokens of all its model calls, cached or not."""

    note: str


def worth(tools: Iterable[Any], prices: Prices, conversation: Conversation, *, shared: bool = False) -> list[Cost]:
    """The modes side by side, no gate first.

    Args:
        tools: OpenAI, Anthropic or MCP definitions, or the tools of any framework.
        prices: What a million tokens cost, cached and not.
        conversation: What a conversation looks like, on average.
        shared: Whether what all conversations send first is cached before the conversation begins: the whole list or,
            in mode "append", the head, and the system prompt.
    """
    listed = [tool for tool in map(view, tools) if not tool.foreign]
    if not listed:
        raise UsageError(NO_TOOLS)
    every = _definition_tokens(listed, prices)
    calls = conversation.turns * conversation.requests
    said = [conversation.system + conversation.spoken, *[conversation.spoken] * (calls - 1)]
    loaded = ceil(conversation.share * len(listed) - 1e-9)
    mean = every / len(listed)
    # A search is one more model call, and what it finds stays in what was said: about three definitions' worth of a
    # search in words, and one of a search for a name.
    in_words = _searched(said, conversation, min(3, len(listed)) * mean + conversation.spoken)
    by_name = _searched(said, conversation, mean + conversation.spoken)
    search = _search_tokens(listed[loaded:], prices)
    alone = _search_tokens(listed, prices)
    growing = _growing(loaded, len(listed), conversation, mean)
    noted = min(JOINED, len(listed)) * NOTED * mean
    joining = [spoken + (call % conversation.requests == 0) * noted for call, spoken in enumerate(said)]
    fewer = replace(conversation, searches=SEARCHED_STILL * conversation.searches)
    joined = _searched(joining, fewer, mean + conversation.spoken)
    cached: dict[float, float] = {}
    head: dict[float, float] = {}
    if shared:
        cached[every] = every + conversation.system
        head[alone] = alone + conversation.system

    def cost(
        mode: str,
        count: int,
        lists: Sequence[float],
        spoken: Sequence[float],
        opening: float = every,
        cached: Mapping[float, float] = cached,
    ) -> Cost:
        """The mean of a conversation whose first turn decides, and of one whose first turn has an open list."""
        first = conversation.requests
        decided = _bill(prices, lists, spoken, cached)
        opened = _bill(prices, [*[opening] * first, *lists[first:]], spoken, cached)
        dollars, tokens = (
            b * conversation.opened + a * (1 - conversation.opened) for a, b in zip(decided, opened, strict=True)
        )
        return Cost(mode, count, dollars, tokens, MODES[mode])

    kept = loaded * mean
    return [
        cost("no gate", len(listed), [every] * calls, said),
        cost("append", 0, [alone] * len(joined), joined, alone, head),
        cost("drop, with a tool search", loaded, [kept + search] * len(by_name), by_name, alone),
        cost("defer", loaded, [kept] * len(in_words), in_words, 0.0),
        cost("allow", len(listed), [every] * calls, said),
        cost("drop, no tool search", loaded, growing, said),
    ]


def cutting_pays(tools: Iterable[Tool], loaded: int, prices: object) -> bool:
    """Whether a usual conversation costs less where so many tools are loaded and the others are searched for."""
    listed = [tool for tool in tools if not tool.foreign]
    if len(listed) <= loaded:
        return False
    usual = Conversation(share=loaded / len(listed))
    known_prices = prices if isinstance(prices, Prices) else Prices()
    without, _, gated, *_ = worth(listed, known_prices, usual)
    return gated.dollars <= PAYS * without.dollars


def sentence(costs: Sequence[Cost]) -> str:
    """What the costs say: whether a mode saves dollars, or tokens, or only narrows the choice and what is exposed."""
    without, *modes = costs
    cheapest = min(modes, key=lambda cost: cost.dollars)
    if cheapest.dollars <= PAYS * without.dollars:
        return (
            f"Gating saves money here: '{cheapest.mode}' costs ${cheapest.dollars:.4f} a conversation "
            f"instead of ${without.dollars:.4f} ({cheapest.dollars / without.dollars:.2f} of no gate), "
            f"with {cheapest.loaded} of {without.loaded} tools on the list."
        )
    shortest = min(modes, key=lambda cost: cost.tokens)
    if shortest.tokens <= PAYS * without.tokens:
        return (
            f"Gating saves no money here. '{shortest.mode}' sends "
            f"{shortest.tokens / without.tokens:.2f} of the tokens, at "
            f"{shortest.dollars / without.dollars:.2f} of the price. "
            "'allow' narrows the choice at no cost."
        )
    return "Gating saves neither money nor tokens here. 'allow' narrows the choice, and what is exposed, for free."


def shared_sentence(costs: Sequence[Cost]) -> str:
    """The same where the whole list is cached before a conversation begins; `costs` are those of `shared`."""
    without, *modes = costs
    cheapest = min(modes, key=lambda cost: cost.dollars)
    ratio = cheapest.dollars / without.dollars
    if ratio <= PAYS:
        verdict = f"'{cheapest.mode}' still saves money, at {ratio:.2f} of no gate"
    else:
        verdict = "cutting saves no money"
    return f"Where the whole list is cached before the first call, as other conversations have just sent it, {verdict}."


def _definition_tokens(tools: Sequence[Tool], prices: Prices) -> float:
    return float(sum(map(prices.count, tools)))


def _search_tokens(hidden: Sequence[Tool], prices: Prices) -> float:
    """The tool search, whose description names what is hidden."""
    return _definition_tokens((find_tool(names_by_server(by_server(hidden))), CALL), prices)


def _searched(said: Sequence[float], conversation: Conversation, found: float) -> list[float]:
    """What each model call adds where some turns search: those searches, spread evenly, are calls of their own."""
    result: list[float] = []
    due = 0.0
    for place, tokens in enumerate(said):
        result.append(tokens)
        if place % conversation.requests == 0:
            due += conversation.searches
        if due >= 1 - 1e-9:
            result.append(found)
            due -= 1
    return result


def _growing(loaded: int, listed: int, conversation: Conversation, mean: float) -> list[float]:
    """Tokens of the list at each call where later turns add tools: each a quarter of what was loaded at first."""
    tokens: list[float] = []
    due = 0.0
    now = float(loaded)
    for turn in range(conversation.turns):
        if turn:
            due += conversation.widened
        if due >= 1 - 1e-9 and now < listed:
            now = min(listed, now + loaded / 4)
            due -= 1
        tokens += [now * mean] * conversation.requests
    return tokens


def _bill(
    prices: Prices, lists: Sequence[float], said: Sequence[float], cached: Mapping[float, float]
) -> tuple[float, float]:
    """Dollars and tokens: every call reads the list and all that was said; the cache has the call before.

    `cached` says how many tokens the cache has before the first call, by the tokens of the first list.
    """
    dollars = tokens = spoken = 0.0
    before = lists[0]
    held = cached.get(before, 0.0)
    for tools, new in zip(lists, said, strict=True):
        spoken += new
        prompt = tools + spoken
        again = held if tools == before else 0.0
        dollars += prices.of_request(prompt - again, again)
        tokens += prompt
        before = tools
        held = prompt
    return dollars, tokens

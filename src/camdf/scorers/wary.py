"""Any scorer, reading the descriptions of strangers warily: what is written to win counts for nothing."""

from __future__ import annotations

import inspect
import re
from collections import Counter
from collections.abc import Awaitable, Collection, Sequence
from contextlib import suppress
from math import sqrt
from typing import Any, NamedTuple

from camdf.core.rankings import Floats
from camdf.scorers.base import Scorer, checked, embedding_of, full_text, says_nothing, words_text
from camdf.scorers.bm25 import WORD, without_accents
from camdf.tools import Tool

LETTERS = 4
"""Shorter words say too little to be counted: most of them stand in every text."""

ECHO, AT_LEAST = 1.5, 5
"""A text echoes a request of n words if it has at least `AT_LEAST` of them, and more than `ECHO` times the square root
of n. Honest tools seldom have so many: docs/poison.md counts them."""

COPIED = 0.8
"""A description that has more than this share of the words of another is a copy of it."""

LEAST = 1e-9
"""Unless all scores are equal, every tool that is not doubted scores at least this, and every trusted tool at least
twice as much: so a stranger that the scorer gave nothing never takes the place of a trusted tool."""

LISTS = 8
"""How many tool lists are kept as they were read: a gate scores the whole list, and searches what is cut of it."""

COMMON = 100
"""A word that more trusted tools have says nothing about who copied whom."""

CHOOSE = "call|choose|invoke|pick|prefer|run|select|use"
ORDERS = re.compile(
    rf"\balways ({CHOOSE})\b|\b({CHOOSE}) (it|me|this)( function| tool)? (always|before|first)\b"
    r"|\b(avoid|disregard|do not use|don't use|ignore|never use|skip) (all |any |every |the )?other\b"
    r"|\bbefore (all|any|every)( other)? (function|tool)s?\b"
    r"|\b(best|only) tool\b|\bbetter than (all|any|every|other)\b",
    re.IGNORECASE,
)
"""What tells an agent to choose a tool whatever is asked, and says nothing of what it does. In English."""


class _Read(NamedTuple):
    """A list of tools, as far as it is the same for every request."""

    texts: list[tuple[str, ...]]
    """By which the list is known again."""

    words: list[frozenset[str]]
    """Of every tool; none of a trusted one."""

    doubts: dict[int, str]
    """Places of the tools that are doubted whatever is asked, and why."""

    least: list[float]
    """What every tool scores at least."""


class Wary:
    """`scorer`, on its guard against descriptions that are written to win. Those of `trusted` servers are believed.

    A tool of another server is doubted where its text

    - echoes the request: it has five or more of the request's n words, and more than 1.5 times the square root of n;
    - copies a trusted tool: its description has more than four fifths of the words of that tool's description;
    - gives orders: "always call this first".

    A tool that is doubted is not shown to the scorer and scores 0; `doubts` says why. Where scores are equally low,
    trusted tools come first. Who copied whom of two strangers nobody can tell, so both stay. "" trusts tools whose
    server is not known.

    >>> wary = Wary(lambda task, tools: [0.6 for tool in tools], trusted=["travel"])
    >>> flights = Tool("find_flights", "Find flights between two cities.", server="travel")
    >>> stuffed = Tool("best", "find flights from Oslo to Rome on Tuesday", server="new")
    >>> wary.doubts("Find flights from Oslo to Rome on Tuesday", [flights, stuffed])
    {'new/best': 'it has 6 of the 6 words of the request'}
    >>> wary("Find flights from Oslo to Rome on Tuesday", [flights, stuffed])
    [0.6, 0.0]
    """

    def __init__(self, scorer: Scorer, trusted: Collection[str] = ()) -> None:
        self.scorer, self.trusted = scorer, frozenset(trusted)
        self._lists: tuple[_Read, ...] = ()

    def __call__(self, task: str, tools: Sequence[Tool]) -> Any:
        """The scorer's scores, to be awaited where those of the scorer are."""
        read = self._read(tools)
        doubted = _doubted(task, read)
        believed = [place for place in range(len(tools)) if place not in doubted]
        if not believed:
            return [0.0] * len(tools)
        shown = [tools[place] for place in believed] if doubted else tools
        answer = self.scorer(task, shown)
        if inspect.isawaitable(answer):
            return _awaited(answer, shown, believed, read.least)
        return _placed(answer, shown, believed, read.least)

    def embedding(self, task: str) -> Floats | None:
        """(d,): the task's vector, if the scorer embeds texts."""
        return embedding_of(self.scorer, task)

    def doubts(self, task: str, tools: Sequence[Tool]) -> dict[str, str]:
        """The tools that are doubted for this task, by server and name, and why."""
        return {tools[place].full_name: why for place, why in sorted(_doubted(task, self._read(tools)).items())}

    def _read(self, tools: Sequence[Tool]) -> _Read:
        """The words that count, and who is doubted whatever is asked: worked out once a list."""
        texts = [tool.as_read for tool in tools]
        for kept in self._lists:
            if kept.texts == texts:
                return kept
        strange = [tool.server not in self.trusted for tool in tools]
        each = list(zip(tools, strange, strict=True))
        words = [words_of(_text(tool)) if new else frozenset[str]() for tool, new in each]
        orders = {place: "it gives orders" for place, (tool, new) in enumerate(each) if new and _orders(tool)}
        least = [LEAST if new else 2 * LEAST for new in strange]
        read = _Read(texts, words, orders | _copies(tools, strange), least)
        self._lists = (read, *self._lists[: LISTS - 1])
        return read


def _orders(tool: Tool) -> bool:
    return ORDERS.search(" ".join(tool.description.split())) is not None


def _text(tool: Tool) -> str:
    """All that a scorer may read of a tool; without its parameters where they cannot be read."""
    with suppress(Exception):
        return full_text(tool)
    return words_text(tool)


def words_of(text: str) -> frozenset[str]:
    """The words that count, without case and accents; where words are written without spaces, pairs of letters."""
    found: set[str] = set()
    for word in WORD.finditer(without_accents(text)):
        if word["unspaced"]:
            found.update(word[0][place : place + 2] for place in range(len(word[0]) - 1))
        elif len(word[0]) >= LETTERS:
            found.add(word[0])
    return frozenset(found)


def _copies(tools: Sequence[Tool], strange: Sequence[bool]) -> dict[int, str]:
    """Strangers whose description copies that of a trusted tool, and why they are doubted."""
    known = [(tool, words_of(tool.description)) for tool, new in zip(tools, strange, strict=True) if not new]
    having: dict[str, list[int]] = {}
    for number, (_, words) in enumerate(known):
        for word in words:
            having.setdefault(word, []).append(number)
    telling = {word: numbers for word, numbers in having.items() if len(numbers) <= COMMON}
    most = [COPIED * sum(word in telling for word in words) for _, words in known]
    found: dict[int, str] = {}
    for place, (tool, new) in enumerate(zip(tools, strange, strict=True)):
        if new and known:
            words = words_of(tool.description)
            shared = Counter(number for word in words for number in telling.get(word, ()))
            for number, count in shared.items():
                original, its = known[number]
                if count > most[number] and (len(its) >= AT_LEAST or words == its):
                    found[place] = f"its description copies that of {original.full_name}"
                    break
    return found


def _doubted(task: str, read: _Read) -> dict[int, str]:
    """Places of the tools that are doubted for a task, and why."""
    asked = words_of(task)
    most = max(ECHO * sqrt(len(asked)), AT_LEAST - 1)
    echoes = {
        place: f"it has {count} of the {len(asked)} words of the request"
        for place, words in enumerate(read.words)
        if (count := len(asked & words)) > most
    }
    return read.doubts | echoes


def _placed(answer: Any, shown: Sequence[Tool], believed: Sequence[int], least: Sequence[float]) -> list[float]:
    """The scores of all tools, from those of the tools that were shown."""
    scores: list[float] = checked(answer, shown).tolist()
    if says_nothing(scores):
        return [scores[0]] * len(least)
    found = [0.0] * len(least)
    for place, score in zip(believed, scores, strict=True):
        found[place] = max(score, least[place])
    return found


async def _awaited(
    answer: Awaitable[Any], shown: Sequence[Tool], believed: Sequence[int], least: Sequence[float]
) -> list[float]:
    return _placed(await answer, shown, believed, least)

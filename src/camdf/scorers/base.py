"""What a scorer is, what its answer must be, and the text of a tool that it reads."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from itertools import islice
from typing import Any, TypeAlias

import numpy as np

from camdf.core.rankings import Floats
from camdf.core.vectors import in_whole_numbers
from camdf.errors import ScorerError
from camdf.tools import PARAMETERS, Tool

ENDS_READ = 5_000
"""How many characters are read of each end of a long task: what is asked stands there, and pasted text between."""

LISTS_KEPT = 8
"""How many tool lists are kept as they were read: a gate scores the whole list, and searches what a conversation
lacks."""

Scorer: TypeAlias = Callable[[str, Sequence[Tool]], Sequence[float] | Awaitable[Sequence[float]]]
"""Any callable from a task's text and its tools to one score a tool, finite and not negative, in their order."""


def checked(scores: Any, tools: Sequence[Tool], who: str = "The scorer") -> Floats:
    """(m,): the answer of a scorer as an array, or a `ScorerError` that says what is wrong with it."""
    values = np.asarray(scores)
    if values.dtype.kind not in "fiu" and values.size:
        raise ScorerError(f"{who} must return numbers. Got {values.dtype} instead.")
    if values.shape != (len(tools),):
        raise ScorerError(
            f"{who} must return one score for each of {len(tools)} tools. Got shape {values.shape} instead."
        )
    bad = np.flatnonzero(~(np.isfinite(values) & (values >= 0)))
    if bad.size:
        name = tools[int(bad[0])].name
        value = values[bad[0]]
        raise ScorerError(
            f"{who} must return scores that are finite and not negative. Got {value} for {name!r} instead."
        )
    return values.astype(np.float64)


def says_nothing(scores: Sequence[float]) -> bool:
    """Whether scores prefer no tool: all are equal, as where BM25 finds no word of the task in any description."""
    return len(scores) > 0 and min(scores) == max(scores) and (len(scores) > 1 or scores[0] == 0)


def embedding_of(scorer: object, task: str) -> Floats | None:
    """(d,): a task's text as a vector of length 1, if the scorer embeds texts: then it has a method `embedding`."""
    embedding: Callable[[str], Floats | None] | None = getattr(scorer, "embedding", None)
    if embedding is None:
        return None
    return embedding(task)


def vector_of(scorer: object, task: str) -> bytes:
    """The direction of a task's text, a signed byte a number; empty if the scorer embeds no texts."""
    vector = embedding_of(scorer, task)
    if vector is None:
        return b""
    return in_whole_numbers(vector[None]).tobytes()


def over_maximum(scores: Floats) -> Floats:
    """Scores divided by the largest; all 0 stays 0.

    >>> over_maximum(np.array([1.0, 4.0])).tolist(), over_maximum(np.zeros(2)).tolist()
    ([0.25, 1.0], [0.0, 0.0])
    """
    top = scores.max(initial=0.0)
    return scores / top if top > 0 else scores


def ends(text: str, size: int) -> str:
    """Both ends of a long text, `size` characters each.

    >>> ends("a long text", 3), ends("short", 3)
    ('a l ext', 'short')
    """
    if len(text) <= 2 * size:
        return text
    return f"{text[:size]} {text[-size:]}"


def plain_text(tool: Tool) -> str:
    """`Tool.text`: the name with `_`, `.` and `-` as spaces, a full stop, the description."""
    return tool.text


def words_text(tool: Tool) -> str:
    """The words of the name, a colon, the description. Snake, kebab, slash, dot and camel case come apart.

    >>> words_text(Tool("getHTTPPage_v2", "Fetch a page."))
    'get HTTP Page v2: Fetch a page.'
    """
    return f"{_name_in_words(tool.name)}: {tool.described}"


def full_text(tool: Tool) -> str:
    """`words_text`, and the words of the parameters' names: what a tool works on may stand there alone.

    >>> full_text(Tool("get_page", "Fetch.", {"type": "object", "properties": {"pageId": {}, "language": {}}}))
    'get page: Fetch. page Id, language'
    """
    properties = tool.schema.get("properties")
    if not isinstance(properties, Mapping):
        return words_text(tool).strip()
    names = ", ".join(map(_name_in_words, islice(properties, PARAMETERS)))
    return f"{words_text(tool)} {names}".strip()


def _name_in_words(name: str) -> str:
    spaced = re.sub(r"[_\-/.\s]+", " ", name)
    spaced = re.sub(r"([a-z0-9])([A-Z])", r"\1 \2", spaced)
    return re.sub(r"([A-Z]+)([A-Z][a-z])", r"\1 \2", spaced)


TEXTS: dict[str, Callable[[Tool], str]] = {"plain": plain_text, "words": words_text, "full": full_text}
"""The ways to write a tool as text, by the name that `camdf score --text` takes."""

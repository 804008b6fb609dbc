"""BM25 over the tools' texts: no model, no network, about a millisecond. Needs the extra `bm25`."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Annotated, Any, NamedTuple, TypeAlias

import numpy as np

from camdf.errors import require
from camdf.runtime.settings import keep, number, share
from camdf.scorers.base import LISTS_KEPT, over_maximum, words_text
from camdf.scorers.with_examples import GivenExamples, Texts, tool_examples
from camdf.tools import Tool

Tokens: TypeAlias = Callable[[str], list[str]]
"""A text to the tokens that are compared, with repetitions."""

UNSPACED = r"\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff"
"""Letters of Thai, Lao, Burmese, Khmer, Japanese and Chinese, which put no spaces between words."""

WORDS_KEPT = 20_000
"""The parts of so many words are kept, 60 MB at most: examples repeat each other's words."""

USUAL = 16
"""The parts of a word of more letters are not kept."""

GROWS = 3
"""A syllable of Korean is three letters; no alphabet in which people write grows more."""

WORD = re.compile(rf"(?P<unspaced>[{UNSPACED}]+)|[^\W_{UNSPACED}]+")


class _Indexed(NamedTuple):
    tools: Sequence[Tool]
    texts: list[Texts]
    index: Any


class BM25:
    """Lucene's BM25 by bm25s, with its `k1` and `b`; divided by the task's maximum, where all 0 stays 0.

    `tokens` says what is compared: English words without stop words or stemming by default, or any function from a
    text to its tokens, as `word_parts`. `text` makes the text of a tool. `examples` says what people ask the tools for,
    as a file or a list: the words of a tool's examples count as its own. The candidates of a task are the whole corpus.
    The indexes of the last tool lists are kept, so scoring many tasks over one list tokenizes its tools once. Without
    bm25s it cannot even be made, because a gate would hide what goes wrong later.
    """

    k1: Annotated[float, number(0)]
    b: Annotated[float, share]

    def __init__(
        self,
        *,
        k1: float = 1.5,
        b: float = 0.75,
        text: Callable[[Tool], str] = words_text,
        tokens: Tokens | None = None,
        examples: GivenExamples = (),
    ) -> None:
        require("bm25s", "bm25")
        keep(self, k1=k1, b=b)
        self.text = text
        self.tokens = tokens
        self.examples = tool_examples(examples)
        self._lists: tuple[_Indexed, ...] = ()

    def __call__(self, task: str, tools: Sequence[Tool]) -> list[float]:
        """Scores in [0, 1]."""
        index = self._index(tools)
        (query,) = self._tokenized([task])
        known = [token for token in query if index is not None and token in index.vocab_dict]
        if not known:
            return [0.0] * len(tools)
        scores: list[float] = over_maximum(np.asarray(index.get_scores(known), dtype=np.float64)).tolist()
        return scores

    @property
    def examples_digest(self) -> str:
        """The SHA-256 of its examples, empty without any."""
        return self.examples.digest

    def _index(self, tools: Sequence[Tool]) -> Any:
        """The index of these tools, None where they hold no token. Kept and replaced whole, so threads may share it."""
        for kept in self._lists:
            if len(kept.tools) == len(tools) and all(old is new for old, new in zip(kept.tools, tools, strict=True)):
                return kept.index
        texts = self.examples.texts(tools, self.text)
        for kept in self._lists:
            if kept.texts == texts:
                return kept.index
        index = self._new_index(texts)
        self._lists = (_Indexed(tuple(tools), texts, index), *self._lists[: LISTS_KEPT - 1])
        return index

    def _new_index(self, texts: list[Texts]) -> Any:
        tokens = self._tokenized(list(map(" ".join, texts)))
        if not any(tokens):
            return None
        index = require("bm25s", "bm25").BM25(method="lucene", k1=self.k1, b=self.b)
        index.index(tokens, show_progress=False)
        return index

    def _tokenized(self, texts: list[str]) -> list[list[str]]:
        if self.tokens is not None:
            return list(map(self.tokens, texts))
        tokens: list[list[str]] = require("bm25s", "bm25").tokenize(
            texts, stopwords="en", return_ids=False, show_progress=False
        )
        return tokens


def word_parts(text: str) -> list[str]:
    """Every 3, 4 and 5 letters in a row of the words of `text`, ends marked, without case, accents and stop words.

    >>> word_parts("A Señor")
    ['<se', 'sen', 'eno', 'nor', 'or>', '<sen', 'seno', 'enor', 'nor>', '<seno', 'senor', 'enor>']

    Words that share a stem share most of their parts, in any language that builds words from stems, and so do the
    halves of a compound and a word that two languages have in common. Where words are written without spaces, every
    two letters in a row are a part.

    >>> word_parts("天気予報")
    ['天気', '気予', '予報']
    """
    stop = require("bm25s.stopwords", "bm25").STOPWORDS_EN
    parts: list[str] = []
    for word in WORD.finditer(without_accents(text)):
        if word["unspaced"]:
            parts += letter_runs(word[0], 2) or [word[0]]
        elif word[0] in stop:
            continue
        elif len(word[0]) <= USUAL:
            parts += _parts_of_word(word[0])
        else:
            parts += _parts_of_word.__wrapped__(word[0])
    return parts


@lru_cache(maxsize=WORDS_KEPT)
def _parts_of_word(word: str) -> list[str]:
    return [run for size in (3, 4, 5) for run in letter_runs(f"<{word}>", size)]


def without_accents(text: str) -> str:
    """A text without case and accents.

    >>> without_accents("Señor")
    'senor'

    What grows beyond `GROWS` times the text is left out: one sign may become eighteen letters.
    """
    letters = unicodedata.normalize("NFKD", text.casefold())[: GROWS * len(text)]
    return "".join(letter for letter in letters if not unicodedata.combining(letter))


def letter_runs(letters: str, size: int) -> list[str]:
    """Every so many letters in a row."""
    return [letters[start : start + size] for start in range(len(letters) - size + 1)]

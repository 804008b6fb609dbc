"""BM25 over the tools' texts: no model, no network, about a millisecond. Needs the extra `bm25`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from camdf.errors import require
from camdf.scorers.base import over_maximum, words_text
from camdf.tools import Tool

Indexed = tuple[Sequence[Tool], list[str], Any]


class BM25:
    """Lucene's BM25 by bm25s, English stop words, no stemming; divided by the task's maximum, where all 0 stays 0.

    The candidates of a task are the whole corpus. The index of the last tool list is kept, so scoring many tasks over
    one list tokenises its tools once. `text` makes the text of a tool. Without bm25s it cannot even be made, because a
    gate would hide what goes wrong later.
    """

    def __init__(self, *, k1: float = 1.5, b: float = 0.75, text: Callable[[Tool], str] = words_text) -> None:
        require("bm25s", "bm25")
        self.k1 = k1
        self.b = b
        self.text = text
        self._indexed: Indexed | None = None

    def __call__(self, task: str, tools: Sequence[Tool]) -> list[float]:
        """Scores in [0, 1]."""
        bm25s = require("bm25s", "bm25")
        index = self._index(bm25s, tools)
        (query,) = _tokens(bm25s, [task])
        known = [word for word in query if index is not None and word in index.vocab_dict]
        if not known:
            return [0.0] * len(tools)
        scores: list[float] = over_maximum(np.asarray(index.get_scores(known), dtype=np.float64)).tolist()
        return scores

    def _index(self, bm25s: Any, tools: Sequence[Tool]) -> Any:
        """The index of these tools, None where they hold no word. Kept and replaced whole, so threads may share it."""
        kept = self._indexed
        if kept and len(kept[0]) == len(tools) and all(old is new for old, new in zip(kept[0], tools, strict=True)):
            return kept[2]
        texts = list(map(self.text, tools))
        if kept and kept[1] == texts:
            return kept[2]
        tokens, index = _tokens(bm25s, texts), None
        if any(tokens):
            index = bm25s.BM25(method="lucene", k1=self.k1, b=self.b)
            index.index(tokens, show_progress=False)
        self._indexed = tuple(tools), texts, index
        return index


def _tokens(bm25s: Any, texts: list[str]) -> list[list[str]]:
    found: list[list[str]] = bm25s.tokenize(texts, stopwords="en", return_ids=False, show_progress=False)
    return found

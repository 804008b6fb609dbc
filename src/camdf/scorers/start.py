"""The scorer to start with: no labels, no torch, no download, no network. Needs the extra `start`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from camdf.core.rankings import Floats
from camdf.errors import expect
from camdf.scorers.base import ends, full_text
from camdf.scorers.bm25 import BM25, word_parts
from camdf.scorers.embeddings import REMEMBERED, Embeddings
from camdf.scorers.fusion import Fusion
from camdf.scorers.word_vectors import WordVectors
from camdf.tools import Tool

END = 5_000
"""How many characters are read of each end of a long task: what is asked stands there, and pasted text between."""


class Start(Fusion):
    """Parts of words in common (BM25 over `word_parts`) and what words mean (`WordVectors`), which counts twice.

    Each is divided by its largest score for the task. Tools are read, tokenised and embedded once. On its first day a
    gate should use it with a tool search: docs/first-day.md has what it reaches.
    """

    def __init__(self, *, text: Callable[[Tool], str] = full_text) -> None:
        expect("bm25s", "start")
        self.text = _Texts(text)
        parts, meaning = BM25(text=self.text, tokens=word_parts), Embeddings(WordVectors(), text=self.text)
        super().__init__([parts, meaning], "mean", weights=[1, 2])

    def __call__(self, task: str, tools: Sequence[Tool]) -> list[float]:
        """Scores in [0, 1]."""
        return super().__call__(ends(task, END), tools)

    def embedding(self, task: str) -> Floats | None:
        """(256,): what its words mean together."""
        return super().embedding(ends(task, END))


class _Texts:
    """The text of a tool, made once: some frameworks take long to build a schema."""

    def __init__(self, text: Callable[[Tool], str]) -> None:
        self.text = text
        self._made: dict[tuple[str, ...], str] = {}

    def __call__(self, tool: Tool) -> str:
        key = tool.as_read
        found = self._made.get(key)
        if found is None:
            if len(self._made) >= REMEMBERED:
                self._made = {}
            found = self._made[key] = self.text(tool)
        return found

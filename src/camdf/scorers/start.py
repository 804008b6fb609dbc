"""The scorer to start with: no labels, no torch, no download, no network. Needs the extra `start`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from typing import Self

from camdf.core.rankings import Floats
from camdf.errors import UsageError, expect
from camdf.scorers.base import ENDS_READ, ends, full_text
from camdf.scorers.bm25 import BM25, word_parts
from camdf.scorers.embeddings import VECTORS_KEPT, Embeddings
from camdf.scorers.fusion import Fusion
from camdf.scorers.with_examples import GivenExamples, tool_examples
from camdf.scorers.word_vectors import WordVectors
from camdf.tools import Tool


class Start(Fusion):
    """Parts of words in common (BM25 over `word_parts`) and what words mean (`WordVectors`), which counts twice.

    Each is divided by its largest score for the task. Tools are read, by `text`, tokenized and embedded once.
    `examples` says what people ask the tools for, as a file or a list (`camdf.datasets.Example`): where some are for
    tools of the list, parts and meaning count alike. On its first day a gate should use it with a tool search:
    docs/first-day.md has what it reaches.
    """

    def __init__(self, *, text: Callable[[Tool], str] = full_text, examples: GivenExamples = ()) -> None:
        expect("bm25s", "start")
        self.text = _Texts(text)
        self.examples = tool_examples(examples)
        parts = BM25(text=self.text, tokens=word_parts, examples=self.examples)
        meaning = Embeddings(WordVectors(), text=self.text, examples=self.examples)
        super().__init__([parts, meaning], "mean", weights=[1, 2])
        self._alike = Fusion([parts, meaning], "mean")

    def __call__(self, task: str, tools: Sequence[Tool]) -> list[float]:
        """Scores in [0, 1]."""
        read = ends(task, ENDS_READ)
        if self.examples.name_any(tools):
            return self._alike(read, tools)
        return super().__call__(read, tools)

    def read(self, tools: Sequence[Tool]) -> Self:
        """Read a list before the first task, so that this is not late; returns itself.

        Raises where there are examples and none counts for this list: their names are probably those of another.
        """
        if self.examples.examples and not self.examples.name_any(tools):
            named = ", ".join(islice((name for example in self.examples.examples for name in example.right), 3))
            listed = ", ".join(tool.full_name for tool in tools[:3])
            raise UsageError(
                "Examples must name tools of the list, by server and name or by name. "
                f"Got {named or 'none at all'} for a list of {listed or 'nothing'} instead."
            )
        self("", tools)
        return self

    def embedding(self, task: str) -> Floats | None:
        """(256,): what its words mean together."""
        return super().embedding(ends(task, ENDS_READ))


class _Texts:
    """The text of a tool, made once: some frameworks take long to build a schema."""

    def __init__(self, text: Callable[[Tool], str]) -> None:
        self.text = text
        self._made: dict[tuple[str, ...], str] = {}

    def __call__(self, tool: Tool) -> str:
        key = tool.as_read
        text = self._made.get(key)
        if text is None:
            if len(self._made) >= VECTORS_KEPT:
                self._made = {}
            text = self.text(tool)
            self._made[key] = text
        return text

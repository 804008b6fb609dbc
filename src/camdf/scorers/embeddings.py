"""Cosine similarity of embeddings: a sentence-transformers model, or any function from texts to vectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from os import PathLike
from typing import Any, TypeAlias

import numpy as np

from camdf.core.rankings import Floats
from camdf.core.vectors import at_length_one
from camdf.errors import ScorerError, expect, require
from camdf.scorers.base import words_text
from camdf.scorers.with_examples import GivenExamples, Texts, tool_examples
from camdf.tools import Tool

Encode: TypeAlias = Callable[[list[str]], Any]
"""Texts to an (n, d) array."""

MINILM = "sentence-transformers/all-MiniLM-L6-v2"
"""A small model that is good enough: 90 MB, 384 numbers a text, 256 words at most."""

VECTORS_KEPT = 50_000
"""The vectors of so many tools are kept: 154 MB at 384 numbers each. With one more, only those of the list that is
scored stay."""

AT_ONCE = 1_000
"""The texts and examples of so many new tools are embedded together: all at once they would need the memory."""


class Embeddings:
    """Cosine of the task's vector and each tool's, negative values set to 0.

    `examples` says what people ask the tools for, a file or a list of them: a tool's vector is then the mean of those
    of its text and its examples.

    `text` makes the text of a tool. `model` is the name or folder of a sentence-transformers model (the extra
    `embeddings`), opened at the first call, or a function `texts -> (n, d) array`, which needs no extra. Vectors of
    tools are kept in memory by their text. Without the extra it cannot even be made, because a gate would hide what
    goes wrong later.
    """

    def __init__(
        self,
        model: str | PathLike[str] | Encode,
        *,
        text: Callable[[Tool], str] = words_text,
        examples: GivenExamples = (),
    ) -> None:
        if not callable(model):
            expect("sentence_transformers", "embeddings")
        self.model = model
        self.text = text
        self.examples = tool_examples(examples)
        self._encode = _encoding_function(model)
        self._vectors: dict[Texts, Floats] = {}
        self._last: tuple[str, Floats] | None = None

    def __call__(self, task: str, tools: Sequence[Tool]) -> list[float]:
        """Scores in [0, 1]."""
        if not tools:
            return []
        texts = self.examples.texts(tools, self.text)
        vectors = self._vectors
        new = [text for text in dict.fromkeys(texts) if text not in vectors]
        asked = [(task,), *new]
        portions = [asked[begin : begin + AT_ONCE] for begin in range(0, len(asked), AT_ONCE)]
        directions = np.concatenate([self._directions(portion) for portion in portions])
        if len(vectors) + len(new) > VECTORS_KEPT:
            vectors = {text: vectors[text] for text in texts if text in vectors}
            self._vectors = vectors
        vectors.update(zip(new, directions[1:], strict=True))
        self._last = task, directions[0]
        # einsum, not a BLAS product: a tool's score must not depend on how many tools stand beside it.
        cosines: Floats = np.einsum("td,d->t", np.stack([vectors[text] for text in texts]), directions[0])
        scores: list[float] = np.clip(cosines, 0.0, 1.0).tolist()
        return scores

    def embedding(self, task: str) -> Floats:
        """(d,): the task's vector, at hand if this task was scored last."""
        last = self._last
        if last is not None and last[0] == task:
            return last[1]
        vector: Floats = self.encoded([task])[0]
        return vector

    @property
    def examples_digest(self) -> str:
        """The SHA-256 of its examples, empty without any."""
        return self.examples.digest

    def __getstate__(self) -> dict[str, Any]:
        """A copy, in this process or another, opens the model anew."""
        return {**vars(self), "_encode": _encoding_function(self.model), "_last": None}

    def encoded(self, texts: list[str]) -> Floats:
        """(n, d): vectors of length 1, or of 0s where the model gave 0s."""
        if self._encode is None:
            self._encode = _sentence_transformer(str(self.model))
        vectors = np.asarray(self._encode(texts), dtype=np.float64)
        if vectors.ndim != 2 or len(vectors) != len(texts) or not np.isfinite(vectors).all():
            shape = f"({len(texts)}, d)"
            raise ScorerError(
                f"The embedding function must return a finite {shape} array. Got {vectors.shape} instead."
            )
        return at_length_one(vectors)

    def _directions(self, groups: list[Texts]) -> Floats:
        """(m, d): the mean direction of each group of texts."""
        vectors = self.encoded([text for texts in groups for text in texts])
        ends = np.cumsum([len(texts) for texts in groups])
        return at_length_one(np.add.reduceat(vectors, [0, *ends[:-1]]))


def _encoding_function(model: str | PathLike[str] | Encode) -> Encode | None:
    """The function that was given, None where a model was named, which is opened at the first call."""
    return model if callable(model) else None


def _sentence_transformer(model: str) -> Encode:
    opened = require("sentence_transformers", "embeddings").SentenceTransformer(model)
    return lambda texts: opened.encode(texts, show_progress_bar=False)

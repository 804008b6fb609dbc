"""What words mean, without torch and without a download: the vectors that wordllama's wheel carries. Extra `start`."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from camdf.core.rankings import Floats
from camdf.errors import expect, require

WEIGHTS = "weights/l2_supercat_256.safetensors"
"""A file of wordllama, 16 MB: 256 numbers for each of 32,000 pieces of words."""

TOKENIZER = "tokenizers/l2_supercat_tokenizer_config.json"
"""A file of wordllama, 2 MB: the pieces."""


class WordVectors:
    """Texts to an (n, 256) array: the mean of what wordllama knows of each piece of a word. For `Embeddings`.

    The files are opened at the first call. Wordllama itself is not imported: importing it configures the logging of the
    whole program, and it looks for weights in the home folder and on the network.
    """

    def __init__(self) -> None:
        expect("wordllama", "start")
        self._opened: tuple[Any, Any] | None = None

    def __call__(self, texts: list[str]) -> Floats:
        if self._opened is None:
            self._opened = _opened_files()
        tokenizer, weights = self._opened
        vectors = np.zeros((len(texts), weights.shape[1]))
        for row, encoded in enumerate(tokenizer.encode_batch(texts, add_special_tokens=False)):
            if encoded.ids:
                vectors[row] = weights[encoded.ids].mean(axis=0, dtype=np.float64)
        return vectors

    def __getstate__(self) -> dict[str, Any]:
        """A copy, in this process or another, opens the files anew."""
        return {"_opened": None}


@cache
def _opened_files() -> tuple[Any, Any]:
    """The tokenizer, and (32000, 256) weights in half precision, one copy for all scorers of a process."""
    package = find_spec("wordllama")
    assert package is not None
    assert package.origin is not None
    folder = Path(package.origin).parent
    tokenizer = require("tokenizers", "start").Tokenizer.from_file(str(folder / TOKENIZER))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer, require("safetensors.numpy", "start").load_file(folder / WEIGHTS)["embedding.weight"]

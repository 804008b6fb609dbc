"""Scores that all workers share, for a scorer that is slow or never says the same twice, such as a language model."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from camdf.core.rankings import Floats
from camdf.scorers.base import checked, embedding_of
from camdf.scorers.with_examples import examples_digest_of
from camdf.tools import Tool


class TextStore(Protocol):
    """Texts by key, written once: a dict will do in one process, and a few lines around any key-value store in many."""

    def get(self, key: str, /) -> str | None:
        """What is kept under a key."""
        ...

    def setdefault(self, key: str, value: str, /) -> str:
        """Keep a value where there is none, in one step, and return what is kept: that of the first who wrote."""
        ...


class Shared:
    """A scorer whose answers are kept in `store`: each task and list of tools is scored once, and all say the same.

    >>> store = {}
    >>> first = Shared(lambda task, tools: [0.9], store)
    >>> second = Shared(lambda task, tools: [0.1], store)
    >>> first("a task", [Tool("search")]), second("a task", [Tool("search")])
    ([0.9], [0.9])

    The gate works out what a conversation has from the scores of its turns, so workers must agree on them. The key is a
    digest of the task's text, the tools' servers, names and descriptions, and the scorer's examples; the store holds
    numbers alone.
    """

    def __init__(self, scorer: Callable[[str, Sequence[Tool]], Sequence[float]], store: TextStore) -> None:
        self.scorer = scorer
        self.store = store

    def __call__(self, task: str, tools: Sequence[Tool]) -> list[float]:
        """The scores that the first worker to ask was given."""
        key = _digest_of_question(task, tools, self.examples_digest)
        kept = self.store.get(key)
        if kept is None:
            scores: Any = checked(self.scorer(task, tools), tools).tolist()
            kept = self.store.setdefault(key, json.dumps(scores))
        shared: list[float] = checked(json.loads(kept), tools, "The store").tolist()
        return shared

    @property
    def examples_digest(self) -> str:
        """Of the examples that the scorer reads."""
        return examples_digest_of(self.scorer)

    def embedding(self, task: str) -> Floats | None:
        """(d,): the task's vector, if the scorer embeds texts."""
        return embedding_of(self.scorer, task)


def _digest_of_question(task: str, tools: Sequence[Tool], examples: str) -> str:
    asked: list[Any] = [task, [tool.as_read for tool in tools]]
    if examples:
        asked.append(examples)
    return hashlib.sha256(json.dumps(asked).encode()).hexdigest()

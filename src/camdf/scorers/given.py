"""A ranking that you have already: passed straight through."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from camdf.errors import ScorerError
from camdf.scorers.base import checked
from camdf.tools import Tool


class Given:
    """Scores of your own for one task, by the tool's name. A tool without a score is refused, never guessed.

    >>> Given({"search": 0.9, "fetch": 0.2})("any task", [Tool("fetch"), Tool("search")])
    [0.2, 0.9]
    """

    def __init__(self, scores: Mapping[str, float]) -> None:
        self.scores = scores

    @classmethod
    def ranked(cls, names: Sequence[str]) -> Given:
        """From names alone, best first: the tool of rank r scores 1 / r.

        >>> Given.ranked(["search", "fetch"]).scores
        {'search': 1.0, 'fetch': 0.5}
        """
        return cls({name: 1 / rank for rank, name in enumerate(names, start=1)})

    def __call__(self, task: str, tools: Sequence[Tool]) -> list[float]:
        """The scores of these tools, unchanged."""
        missing = [tool.name for tool in tools if tool.name not in self.scores]
        if missing:
            raise ScorerError(f"The given scores must name every tool. Missing: {', '.join(missing[:5])}.")
        scores: list[float] = checked([self.scores[tool.name] for tool in tools], tools, "The given scores").tolist()
        return scores

"""Several scorers as one."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Annotated, Any

import numpy as np

from camdf.core.rankings import Floats, mean_ranks
from camdf.errors import ScorerError
from camdf.runtime.settings import check_that, checked_setting, keep, number, one_of, series
from camdf.scorers.base import Scorer, checked, embedding_of, over_maximum
from camdf.scorers.with_examples import examples_digest_of
from camdf.tools import Tool

HOW = ("reciprocal-rank", "mean")


def _are_scorers(value: Any) -> bool:
    return isinstance(value, tuple) and len(value) > 0 and all(map(callable, value))


_at_least_one = check_that("at least one scorer", _are_scorers)


class Fusion:
    """The mean, over the `scorers`, of what each says of a tool; `weights` says how much each counts, alike by default.

    `how` is one of two:

    `reciprocal-rank`: (1 + `k`) / (rank + `k`), so that scales do not matter; equal scores share their mean rank.
    `mean`: the score over that scorer's largest for this task, so that margins matter.

    Both lie in [0, 1], and the order of the tools changes nothing. If one scorer fails, the fusion fails.
    """

    scorers: Annotated[tuple[Scorer, ...], _at_least_one]
    how: Annotated[str, one_of(*HOW)]
    k: Annotated[float, number(0)]

    def __init__(
        self,
        scorers: Sequence[Scorer],
        how: str = "reciprocal-rank",
        *,
        k: float = 60.0,
        weights: Sequence[float] | None = None,
    ) -> None:
        if weights is None:
            weights = [1.0] * len(scorers)
        keep(self, scorers=tuple(scorers), how=how, k=k)
        positive = series(number(above=0), f"{len(scorers)} positive numbers, one for each scorer", len(scorers))
        checked_setting("Fusion", "weights", weights, positive)
        self.weights = np.array(weights, dtype=np.float64)

    def __call__(self, task: str, tools: Sequence[Tool]) -> list[float]:
        """Scores in [0, 1]."""
        said = np.stack([self._said(scorer, task, tools) for scorer in self.scorers])
        mean: list[float] = ((said * self.weights[:, None]).sum(axis=0) / self.weights.sum()).tolist()
        return mean

    def embedding(self, task: str) -> Floats | None:
        """(d,): the task's vector under the first of the scorers that embeds texts."""
        for scorer in self.scorers:
            vector = embedding_of(scorer, task)
            if vector is not None:
                return vector
        return None

    @property
    def examples_digest(self) -> str:
        """Of the examples that the scorers read; where they read several files, all digests."""
        return "+".join(dict.fromkeys(filter(None, map(examples_digest_of, self.scorers))))

    def _said(self, scorer: Scorer, task: str, tools: Sequence[Tool]) -> Floats:
        name = getattr(scorer, "__name__", type(scorer).__name__)
        answer: Any = scorer(task, tools)
        if inspect.iscoroutine(answer):
            answer.close()
            raise ScorerError(
                f"A fusion takes plain functions, and {name} is a coroutine. Await it in one of your own."
            )
        scores = checked(answer, tools, name)
        if self.how == "mean":
            return over_maximum(scores)
        return (1 + self.k) / (mean_ranks(scores) + self.k)

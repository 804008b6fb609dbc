"""Tasks that a language model made up for the tools of eleven domains, ranked as the real ones are.

`made-up.npz`, made by `scripts/pack_made_up.py`, has for each of them, tools in the order of `tools(DOMAIN)`:

    DOMAIN.scores, DOMAIN.required   (tasks, tools): MiniLM's score times 10,000 as a whole number, and what is needed
    DOMAIN.vectors                   (tasks, 64): as those of the real tasks, in whole numbers up to 127

The writer saw the tools' names and descriptions and no task; it may know these public benchmarks.
"""

from __future__ import annotations

import numpy as np

from camdf.core.rankings import LoggedTasks, Rankings
from camdf.core.vectors import at_length_one
from camdf_lab.domains.shipped import SCORE_UNITS, packed, tools

LONGEST = 50
"""Candidates a task, as in the real tasks' lists."""


def made_up(domain: str) -> LoggedTasks:
    """The made-up tasks of a domain, each tool at a cost of 1, with vectors.

    >>> logged = made_up("retail")
    >>> len(logged), logged.n_required.mean().round(1)
    (120, np.float64(3.0))
    """
    with packed("made-up") as pack:
        scores = pack[f"{domain}.scores"]
        needed = pack[f"{domain}.required"]
        vectors = pack[f"{domain}.vectors"]
    names = tools(domain)
    by_name = np.argsort(names, kind="stable")
    order = by_name[np.argsort(-scores[:, by_name].astype(np.int64), axis=1, kind="stable")][:, :LONGEST]
    ranked = np.take_along_axis(scores / SCORE_UNITS, order, axis=1)
    required = np.take_along_axis(needed, order, axis=1)
    lengths = np.full(len(order), order.shape[1])
    direction = at_length_one(vectors.astype(np.float64))
    rankings = Rankings(ranked, np.ones(ranked.shape), lengths, order, names, direction)
    ids = np.array([f"{domain}-made-up-{number}" for number in range(len(order))])
    return LoggedTasks(rankings, required, needed.sum(axis=1), ids, ids)


def made_up_domains() -> list[str]:
    """Those that have made-up tasks."""
    with packed("made-up") as pack:
        return [name.removesuffix(".scores") for name in pack if name.endswith(".scores")]

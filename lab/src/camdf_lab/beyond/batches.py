"""Two batches of domains: the shipped ones, which the package was developed on, and the later ones.

Frozen code was the first to see the later domains. They were looked at more than once since, so they are not held out.
"""

from __future__ import annotations

from math import inf

from camdf_lab import domains
from camdf_lab.domains import Domain
from camdf_lab.stored import Rows

BATCHES: dict[str, tuple[Domain, ...]] = {"shipped": domains.DOMAINS, "later": domains.LATER_DOMAINS}
DOMAINS: tuple[Domain, ...] = tuple(domain for domains in BATCHES.values() for domain in domains)
SLOWEST_FIRST: tuple[Domain, ...] = tuple(sorted(DOMAINS, key=lambda domain: -domain.tasks))
"""The order in which jobs are worked off, so that none is left for the end alone."""

IN_TABLES = {"shipped": "shipped", "later": "second look"}
"""What the column `look` of stored tables calls each batch."""

CATALOGUES = {"up to 64": 64, "65 to 200": 200, "above 200": 10**9}
"""Sizes of catalogues, and the most tools that each has."""

_BATCH_OF = {domain.name: batch for batch, domains in BATCHES.items() for domain in domains}


def batch_of(domain: str) -> str:
    """The batch of a domain."""
    return _BATCH_OF[domain]


def size_of_catalogue(domain: str) -> str:
    """One of `CATALOGUES`."""
    return next(size for size, most in CATALOGUES.items() if len(domains.tools(domain)) <= most)


def of_batch(rows: Rows, batch: str) -> Rows:
    """The rows of a batch's domains."""
    return [row for row in rows if _BATCH_OF.get(row["domain"]) == batch]


def all_pairs(most_tasks: float = inf) -> list[tuple[str, str]]:
    """Every domain of at most so many tasks, under every ranking of its own."""
    return [(domain.name, scorer) for domain in DOMAINS if domain.tasks <= most_tasks for scorer in domain.scorers]

"""The two looks: domains that the package was developed on, and domains that frozen code was the first to see."""

from __future__ import annotations

from camdf_lab import domains
from camdf_lab.domains import Domain
from camdf_lab.stored import Rows

LOOKS: dict[str, tuple[Domain, ...]] = {"shipped": domains.DOMAINS, "second look": domains.SECOND_LOOK}
DOMAINS: tuple[Domain, ...] = tuple(domain for domains in LOOKS.values() for domain in domains)
SLOWEST_FIRST: tuple[Domain, ...] = tuple(sorted(DOMAINS, key=lambda domain: -domain.tasks))
"""The order in which jobs are worked off, so that none is left for the end alone."""

_LOOK_OF = {domain.name: look for look, domains in LOOKS.items() for domain in domains}


def look_of(domain: str) -> str:
    """In which look a domain was."""
    return _LOOK_OF[domain]


def of_look(rows: Rows, look: str) -> Rows:
    """The rows of the look's domains."""
    return [row for row in rows if _LOOK_OF.get(row["domain"]) == look]


def small_pairs(tasks: int) -> list[tuple[str, str]]:
    """Every domain of at most so many tasks, under every ranking of its own."""
    return [(domain.name, scorer) for domain in DOMAINS if domain.tasks <= tasks for scorer in domain.scorers]

"""What a forked process must not inherit: locks that another thread held, and counts of threads that stayed behind."""

from __future__ import annotations

import os
from typing import Protocol
from weakref import WeakSet


class Renewable(Protocol):
    """Something with locks or threads."""

    def renew(self) -> None:
        """Begin anew with locks and threads, and keep everything else."""
        ...


_ALL: WeakSet[Renewable] = WeakSet()


def renewed_in_forks(thing: Renewable) -> None:
    """Have something renewed in every process that is forked from this one, while it lives."""
    _ALL.add(thing)


def _renew() -> None:
    for thing in list(_ALL):
        thing.renew()


if hasattr(os, "register_at_fork"):  # Windows has no fork
    os.register_at_fork(after_in_child=_renew)

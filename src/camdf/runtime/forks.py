"""What a forked process must not inherit: locks that another thread held, and counts of threads that stayed behind."""

from __future__ import annotations

import os
from threading import Lock
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


class Locked:
    """Something with a lock: one of its own in every process."""

    def __init__(self) -> None:
        self.renew()
        renewed_in_forks(self)

    def renew(self) -> None:
        """Begin with a lock that nobody holds."""
        self._lock = Lock()


def _renew_all() -> None:
    for thing in list(_ALL):
        thing.renew()


if hasattr(os, "register_at_fork"):  # Windows has no fork
    os.register_at_fork(after_in_child=_renew_all)

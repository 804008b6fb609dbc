"""A circuit breaker: what fails again and again is left alone for a while, then tried once."""

from __future__ import annotations

from collections.abc import Callable
from threading import TIMEOUT_MAX
from time import monotonic
from typing import Annotated, Any

from camdf.runtime.forks import Locked
from camdf.runtime.settings import keep, number, whole_number


class RestingError(RuntimeError):
    """It failed too often of late, and is not asked."""


class Breaker(Locked):
    """After so many `failures` in a row, time-outs among them, rest for so many `seconds`.

    Then one try a rest is let through, and the first that succeeds ends it. Gates that share a scorer may share its
    breaker. `clock` says how late it is, in seconds.
    """

    failures: Annotated[int, whole_number(1)]
    seconds: Annotated[float, number(above=0, most=TIMEOUT_MAX, unit="seconds")]

    def __init__(self, failures: int = 5, seconds: float = 30.0, clock: Callable[[], float] = monotonic) -> None:
        keep(self, failures=failures, seconds=seconds)
        self._clock = clock
        self._in_a_row = 0
        self._rests_until = -float("inf")
        super().__init__()

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.failures, self.seconds, self._clock)

    @property
    def resting(self) -> bool:
        """Whether it failed too often, and no try has succeeded since."""
        return self._in_a_row >= self.failures

    def check(self) -> None:
        """A RestingError, unless it may be asked now."""
        with self._lock:
            if self.resting:
                now = self._clock()
                if now < self._rests_until:
                    raise RestingError
                self._rests_until = now + self.seconds  # this one tries; others wait for what comes of it

    def succeeded(self) -> None:
        """It answered."""
        with self._lock:
            self._in_a_row = 0

    def failed(self) -> None:
        """It raised, or had no answer in time."""
        with self._lock:
            self._in_a_row += 1
            self._rests_until = self._clock() + self.seconds

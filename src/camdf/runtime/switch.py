"""A value that an operator may change at any time, where a function says it: `value_in_file` reads a file.

It is read on a thread of its own. A function that raises, hangs or says nonsense changes nothing: the last good value
stands, and before there is one, the safe one. A decision waits at most `PATIENCE` for it, or a quarter of its time, and
while a function hangs nobody waits for it again.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from os import PathLike
from threading import Lock
from time import monotonic
from typing import Any, Generic, TypeAlias, TypeVar

from camdf.runtime.forks import renewed_in_forks
from camdf.runtime.settings import Check, check_that, is_accepted
from camdf.runtime.workers import BusyError, Work, Workers

T = TypeVar("T")

PATIENCE = 0.5
"""Seconds."""

LONGEST = 100
"""Bytes of a file that holds one value."""


Source: TypeAlias = T | Callable[[], T]
"""The value itself, or a function that returns it."""


def source_of(check: Check, what: str) -> Check:
    """A value that a check accepts, or a function that returns one."""

    def is_source(value: Any) -> bool:
        return callable(value) or is_accepted(check, value)

    return check_that(f"{what}, or a function that returns it", is_source)


def value_in_file(path: str | PathLike[str]) -> Callable[[], Any]:
    """A function that reads the value which a file holds as JSON, such as `true` or `0.2`."""
    return partial(_value_of_file, path)


def _value_of_file(path: str | PathLike[str]) -> Any:
    with open(path, "rb") as file:
        return json.loads(file.read(LONGEST))


class Switch(Generic[T]):
    """The last good value of a source, read again where it is older than `every` seconds."""

    def __init__(self, source: Source[T], safe: T, checked: Callable[[Any], T], every: float) -> None:
        self.value = safe
        self.error = ""
        self.every = every
        self._checked = checked
        self._read_source = source if callable(source) else None
        self.stays = self._read_source is None
        """Whether it is a value, and not a function that is asked for one."""

        self._worker = Workers(1)
        self.renew()
        if self.stays:
            self.value = checked(source)
        renewed_in_forks(self)

    def renew(self) -> None:
        """Begin without a thread that reads."""
        self._lock = Lock()
        self._reading: Work[None] | None = None
        self._began = -float("inf")

    @property
    def due(self) -> bool:
        """Whether the source is to be read again, and nobody does so already."""
        return not self.stays and self._reading is None and monotonic() - self._began >= self.every

    def look(self, within: float | None = None) -> None:
        """Read the source again where it is time to, and wait a little for what it says, as there is time."""
        if self._read_source is None:
            return
        with self._lock:
            now = monotonic()
            if self._reading is None and now - self._began >= self.every:
                try:
                    self._reading = self._worker.start(partial(self._take, self._read_source))
                except BusyError:
                    return
                self._began = now
            reading = self._reading
            left = self._began + PATIENCE - now
        if within is not None:
            left = min(left, within / 4)
        if reading is not None and left > 0:
            try:
                reading.future.result(left)
            except TimeoutError:
                self.error = "TimeoutError"

    def _take(self, read_source: Callable[[], T], work: Work[None]) -> None:
        try:
            self.value = self._checked(read_source())
            self.error = ""
        except BaseException as error:
            self.error = type(error).__name__
        finally:
            with self._lock:
                self._reading = None

"""Files that are there whole or not at all, and files that one process at a time has."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from shutil import copymode

DAY = 86_400.0
"""Seconds. SQLite has to be told how long to wait."""


@contextmanager
def whole_file(path: str | os.PathLike[str]) -> Iterator[str]:
    """The name of a new file to write, which then takes the place of `path` in one step.

    Whoever reads meanwhile, or after a power cut, finds the old file or the new one, which may be read by the same
    people. Where writing fails, the old one stays and nothing is left beside it.
    """
    place = os.fspath(path)
    beside = f"{place}.{os.urandom(6).hex()}.part"  # of its own, whoever else writes here at the same time
    try:
        yield beside
        with open(beside, "rb+") as file:
            os.fsync(file.fileno())
        with suppress(FileNotFoundError):
            copymode(place, beside)
        os.replace(beside, place)
    except BaseException:
        with suppress(OSError):
            os.remove(beside)
        raise


def write_whole(path: str | os.PathLike[str], content: bytes) -> None:
    """Put a file there in one step (`whole_file`)."""
    with whole_file(path) as beside, open(beside, "wb") as file:
        file.write(content)


@contextmanager
def locked(path: str | os.PathLike[str], *, wait: bool) -> Iterator[None]:
    """Have a file or a folder that exists to this process alone; a BlockingIOError where another one has it.

    Whoever has a file may put a new one in its place, as the last thing: those who waited lock the new one. The system
    ends the lock with the process, however that ends. Where there is no `fcntl`, as on Windows, SQLite locks a file
    beside it.
    """
    try:
        import fcntl
    except ImportError:
        with _locked_by_sqlite(f"{os.fspath(path)}.lock", wait):
            yield
        return
    while True:
        file = os.open(path, os.O_RDONLY)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            if os.path.samestat(os.fstat(file), os.stat(path)):
                yield
                return
        finally:
            os.close(file)


@contextmanager
def _locked_by_sqlite(path: str, wait: bool) -> Iterator[None]:
    import sqlite3

    with closing(sqlite3.connect(path, timeout=DAY if wait else 0.0, isolation_level=None)) as database:
        try:
            database.execute("BEGIN EXCLUSIVE")
        except sqlite3.OperationalError as error:
            raise BlockingIOError(str(error)) from None
        yield

"""Files that are there whole or not at all, and files that one process at a time has."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from typing import BinaryIO

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

DAY = 86_400.0
"""Seconds. SQLite has to be told how long to wait."""

PRIVATE = 0o600
"""The mode of a file that holds requests or keys: its owner's alone."""

CAN_LOCK_FOLDERS = fcntl is not None
"""Windows opens no folder."""

_PART = re.compile(r"\.[0-9a-f]{12}\.part\Z")


@contextmanager
def whole_file(path: str | os.PathLike[str], *, private: bool = False) -> Iterator[str]:
    """The name of a new file to write, which then takes the place of `path` in one step.

    Whoever reads meanwhile, or after a power cut, finds the old file or the new one. A link stays: what changes is the
    file that it leads to. A new file has the old one's mode before it has any content; where there is no old one, it
    is its owner's alone if it is `private`. Where writing fails, the old file stays and nothing is left beside it.
    What a writer that was killed left there goes with the next one.
    """
    place = os.path.realpath(path)
    clear_unfinished(*os.path.split(place))
    with _part_of(place, private) as (beside, file):
        yield beside
        os.fsync(file.fileno())
        with suppress(FileNotFoundError):
            os.chmod(beside, _mode_of(place))
        if fcntl is None:  # an open file cannot be moved there
            file.close()
        os.replace(beside, place)


def write_whole(path: str | os.PathLike[str], content: bytes, *, private: bool = False) -> None:
    """Put a file there in one step (`whole_file`)."""
    with whole_file(path, private=private) as beside, open(beside, "wb") as file:
        file.write(content)


def replace_whole(path: str | os.PathLike[str], before: bytes, after: bytes) -> bool:
    """Put a file there in one step, if the one that is there still holds `before`; else False, and nothing changes.

    A file that is not there holds nothing, and what takes its place is its owner's alone. They are compared last of
    all, once the new file is on the disk: only what is written within that moment goes unnoticed.
    """
    try:
        with whole_file(path, private=True) as beside:
            with open(beside, "wb") as file:
                file.write(after)
                file.flush()
                os.fsync(file.fileno())
            if held_bytes(path) != before:
                raise _ReplacedError
    except _ReplacedError:
        return False
    return True


def held_bytes(path: str | os.PathLike[str]) -> bytes:
    """What a file holds; nothing where there is none."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        return b""


class _ReplacedError(Exception):
    """Somebody else has written the file meanwhile."""


def private_opener(path: str, flags: int) -> int:
    """For `open`: a file that is made is its owner's alone."""
    return os.open(path, flags, PRIVATE)


def clear_unfinished(folder: str | os.PathLike[str], name: str = "") -> None:
    """Delete what writers that were killed left in a folder, of the file of this name or of all.

    What somebody writes at this moment stays: its writer has it locked.
    """
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            mark = _PART.search(entry.name)
            if mark is not None and name in ("", entry.name[: mark.start()]):
                with suppress(OSError):  # it is still written
                    _remove_unlocked(entry.path)


@contextmanager
def _part_of(place: str, private: bool) -> Iterator[tuple[str, BinaryIO]]:
    """A new file beside a place, locked by whoever writes it, and gone at the end unless it was moved."""
    while True:
        beside = f"{place}.{os.urandom(6).hex()}.part"  # of its own, whoever else writes here at the same time
        is_private = private or os.path.exists(place)
        descriptor = os.open(beside, os.O_RDWR | os.O_CREAT | os.O_EXCL | _BINARY, PRIVATE if is_private else 0o666)
        with open(descriptor, "rb+") as file:
            try:
                with suppress(FileNotFoundError):
                    os.chmod(beside, _mode_of(place) | PRIVATE)  # the writer itself has to write it
                if not _is_locked(descriptor, beside):
                    continue  # it was taken for a leftover, and deleted
                yield beside, file
                return
            except BaseException:
                file.close()
                with suppress(OSError):
                    os.remove(beside)
                raise


_BINARY = getattr(os, "O_BINARY", 0)


def _remove_unlocked(path: str) -> None:
    """Delete a file that nobody writes; an OSError where somebody does."""
    if fcntl is None:  # an open file cannot be deleted
        os.remove(path)
        return
    with locked(path, wait=False):
        os.remove(path)


def _mode_of(place: str) -> int:
    return os.stat(place).st_mode & 0o777


def _is_locked(file: int, path: str) -> bool:
    """Lock a file that is open; whether it is still there then."""
    if fcntl is None:  # an open file cannot be deleted
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return os.path.samestat(os.fstat(file), os.stat(path))
    except OSError:
        return False


@contextmanager
def locked(path: str | os.PathLike[str], *, wait: bool) -> Iterator[None]:
    """Have a file or a folder that exists to this process alone; a BlockingIOError where another one has it.

    Whoever has a file may put a new one in its place, as the last thing: those who waited lock the new one. The system
    ends the lock with the process, however that ends. Where there is no `fcntl`, as on Windows, SQLite locks a file
    beside it.
    """
    if fcntl is None:
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

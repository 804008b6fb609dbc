"""Files that are there whole or not at all."""

from __future__ import annotations

import os
from contextlib import suppress


def write_whole(path: str | os.PathLike[str], content: bytes) -> None:
    """Put a file there in one step: whoever reads meanwhile, or after a power cut, finds the old one or the new one."""
    place = os.fspath(path)
    beside = f"{place}.{os.urandom(6).hex()}.part"  # of its own, whoever else writes here at the same time
    try:
        with open(beside, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, place)
    except BaseException:
        with suppress(OSError):
            os.remove(beside)
        raise

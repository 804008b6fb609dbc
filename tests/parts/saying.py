"""What a message or an output must tell, however it says so: names, requirements, figures and values."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

import pytest

APART = 120
"""The most characters of one line between two parts that belong together."""

Refusal = TypeVar("Refusal", bound=Exception)


def says(text: str, *parts: object) -> bool:
    """Whether a line of a text has these parts, as whole words, in this order and near each other.

    An ellipsis in a part stands for whatever stands there, so a table of cases holds a string for each.

    >>> says("The 'failures' of Breaker must be 1 or more. Got 0 instead.", "failures", "Breaker", "1 or more", 0)
    True
    >>> says("The 'failures' of Breaker must be 1 or more. Got 0 instead.", "failures … 1 or more … 0")
    True
    >>> says("The 'failures' of Breaker must be 10 or more. Got 0 instead.", "failures … 1 or more")
    False
    """
    between = f".{{0,{APART}}}?"
    whole = [rf"(?<!\w){re.escape(each)}(?!\w)" for part in parts for each in str(part).split(" … ")]
    return re.search(between.join(whole), text) is not None


@contextmanager
def refuses(
    kind: type[Refusal], *named: object, must: object = "", got: object = ""
) -> Iterator[pytest.ExceptionInfo[Refusal]]:
    """A block that raises an error which names these settings or places, what is required, and what was given."""
    with pytest.raises(kind) as refusal:
        yield refusal
    parts = [part for part in (*named, must, got) if part != ""]
    assert says(str(refusal.value), *parts), f"{refusal.value} lacks some of {parts}"

"""Tools that do the same, such as one search on two servers: a task that needs any of them needs only one.

A policy learns about them as one tool, whose name they share. Of those in a request, one stands for all. Which tools do
the same is for people to say: a log can only tell which may (`camdf.evaluation.maybe_copies`).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TypeAlias

from camdf.errors import UsageError

Copies: TypeAlias = Mapping[str, str]
"""By the name of a tool, that of the one whose work it does too, under which a policy knows both."""

NO_COPIES: Copies = MappingProxyType({})


def check_copies(copies: Copies) -> None:
    """Raise a UsageError where a tool stands for others and is a copy of one itself."""
    both = sorted(copies.keys() & set(copies.values()))
    if both:
        raise UsageError(
            f"A tool must be a copy, or one that has copies. Got {both[0]!r} as both. Name one tool for all that do "
            "the same."
        )

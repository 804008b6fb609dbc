"""JSON whose objects name no field twice: the last of two would win without a word."""

from __future__ import annotations

from typing import Any


def without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object's fields as a dict, for `object_pairs_hook`; ValueError where one stands twice."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a field stands twice")
    return found

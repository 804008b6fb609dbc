"""Counts that add up, in words: what there was, what is used, and why the rest is not."""

from __future__ import annotations

from collections.abc import Mapping


def in_one_line(what: str, counts: Mapping[str, int]) -> str:
    """Counts that add up as a sentence: how many there were, how many are used, and why others are not.

    >>> in_one_line("runs", {"begun": 9, "tasks": 7, "ended in an error": 2, "without success": 0})
    '9 runs begun: 7 tasks, 2 ended in an error.'
    """
    (verb, whole), (kept, used), *reasons = counts.items()
    left_out = "".join(f", {count:,} {reason}" for reason, count in reasons if count)
    return f"{whole:,} {what} {verb}: {used:,} {kept}{left_out}."

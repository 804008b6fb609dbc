"""JSON as others write it: with comments, with a field twice, and in prose."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

OBJECT = re.compile(r'\{(?=\s*["}])')
"""Where a JSON object may begin."""

TRIES = 32
"""How many such places of a text may hold no object."""

_COMMENTED = re.compile(r'"(?:\\.|[^"\\])*"|//[^\n]*|/\*.*?\*/', re.S)
_LAST_COMMA = re.compile(r'"(?:\\.|[^"\\])*"|,(?=\s*[}\]])', re.S)


def plain_json(text: str) -> str:
    """The same without the comments and the commas after the last of a list that editors allow in settings.

    >>> plain_json('{"url": "http://a", // mine\\n "list": [1, 2,]}').split()
    ['{"url":', '"http://a",', '"list":', '[1,', '2', ']}']
    """
    for pattern in (_COMMENTED, _LAST_COMMA):
        text = pattern.sub(_kept_string, text)
    return text.strip()


def _kept_string(part: re.Match[str]) -> str:
    """A string as it is, and a space for what is no string."""
    return part[0] if part[0].startswith('"') else " "


def without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object's fields as a dict, for `object_pairs_hook`; ValueError where one stands twice.

    The last of two would win without a word.
    """
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise ValueError("a field stands twice")
    return fields


def objects_in(text: str) -> Iterator[dict[str, Any]]:
    """The JSON objects in a text, which may stand in prose, in code fences, in a list, or in an object that is cut off.

    >>> list(objects_in('Here: [{"a": {"b": 1}}, {"c": 2'))
    [{'a': {'b': 1}}]

    A try that fails may have read to the end of the text, and so may the next: there are `TRIES` of them at most, and
    none once they have read the text twice over. So the time is linear.
    """
    decoder = json.JSONDecoder()
    failures = 0
    left = 2 * len(text)
    place = 0
    while failures < TRIES and left >= 0:
        begins = OBJECT.search(text, place)
        if begins is None:
            return
        try:
            value, place = decoder.raw_decode(text, begins.start())
        except (ValueError, RecursionError) as error:
            failures += 1
            left -= getattr(error, "pos", len(text)) - begins.start()
            place = begins.end()
        else:
            yield value

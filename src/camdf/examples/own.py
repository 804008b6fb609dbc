"""A user's own sentences: a file of examples, or other names for tools."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from camdf.datasets.examples import Example, read_examples
from camdf.datasets.records import text
from camdf.errors import DataError
from camdf.examples.answers import ways_to_name


def own_examples(path: Path, tools: Iterable[str]) -> list[Example]:
    """The examples of a file of yours, for these tools.

    .json    what people call a tool: {"weather/forecast": ["will it rain", "Wetter morgen"]}
    .jsonl   examples, whose origin becomes "own" unless it is "logged"

    Tools go by server and name, or by the name alone where
    only one server has it.
    """
    ways = ways_to_name(tools)
    examples = list(_aliases(path) if path.suffix == ".json" else _lines(path))
    unknown = sorted({name for example in examples for name in example.right} - ways.keys())
    if unknown:
        raise DataError(f"{path}: must name tools of the list, and these are none: {', '.join(unknown)}. Rename them.")
    return [
        replace(
            example,
            needed=tuple(ways[name] for name in example.needed),
            alternatives=tuple(tuple(ways[name] for name in group) for group in example.alternatives),
        )
        for example in examples
    ]


def _aliases(path: Path) -> Iterator[Example]:
    try:
        aliases = json.loads(path.read_bytes())
    except ValueError as error:
        raise DataError(f"{path}: must be JSON in UTF-8. {error}. Mend it.") from None
    if not isinstance(aliases, dict) or not all(isinstance(texts, list) for texts in aliases.values()):
        raise DataError(f'{path}: must be an object from tool to a list of texts, as {{"tool": ["..."]}}. Mend it.')
    for name, texts in aliases.items():
        for alias in texts:
            yield Example(text(str(path), name, alias), (name,), origin="own")


def _lines(path: Path) -> Iterator[Example]:
    for example in read_examples(path):
        yield example if example.origin == "logged" else replace(example, origin="own")

"""A user's own sentences: a file of examples, or other names for tools."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from camdf.datasets.examples import Example, read_examples, renamed_examples
from camdf.datasets.records import text
from camdf.errors import DataError
from camdf.examples.answers import ways_to_name
from camdf.policies.renames import NO_RENAMES, Renames


def own_examples(path: Path, tools: Iterable[str], renames: Renames = NO_RENAMES) -> list[Example]:
    """The examples of a file of yours, for these tools.

    .json    what people call a tool: {"weather/forecast": ["will it rain", "Wetter morgen"]}
    .jsonl   examples, whose origin becomes "own" unless it is "logged"

    Tools go by server and name, or by the name alone where
    only one server has it; `renames` has the new names of those that the file has under old ones.
    """
    ways = ways_to_name(tools)
    read = _aliases if path.suffix == ".json" else _own_lines
    examples = renamed_examples(read(path), renames)
    unknown = sorted({name for example in examples for name in example.right} - ways.keys())
    if unknown:
        raise DataError(f"{path}: must name tools of the list, and these are none: {', '.join(unknown)}. Rename them.")
    return [_renamed(example, ways) for example in examples]


def _renamed(example: Example, ways: Mapping[str, str]) -> Example:
    """The example with the full names of its tools."""
    alternatives = [tuple(map(ways.__getitem__, group)) for group in example.alternatives]
    return replace(
        example,
        needed=tuple(map(ways.__getitem__, example.needed)),
        alternatives=tuple(alternatives),
    )


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


def _own_lines(path: Path) -> Iterator[Example]:
    for example in read_examples(path):
        if example.origin == "logged":
            yield example
        else:
            yield replace(example, origin="own")

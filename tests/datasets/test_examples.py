"""Examples: what a file holds is what is read, and what is wrong in it is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from camdf.datasets import Example, read_examples, write_examples
from camdf.errors import DataError


def test_examples_are_read_as_they_were_written(tmp_path: Path) -> None:
    examples = [
        Example("Will it rain?", ("weather/forecast",), language="en"),
        Example("Zähle die Nutzer", (), (("database/query", "warehouse/query"),), "de", "own"),
        Example("Thanks!"),
    ]
    write_examples(tmp_path / "examples.jsonl", examples)
    assert read_examples(tmp_path / "examples.jsonl") == examples


@pytest.mark.parametrize(
    ("line", "field"),
    [
        ('{"text": "", "needed": []}', "text"),
        ('{"text": "Hello", "needed": "mail"}', "needed"),
        ('{"text": "Hello", "needed": [], "or": "mail"}', "or"),
        ('{"text": "Hello", "needed": [], "origin": "guessed"}', "origin"),
        ('{"text": "Hello"}', "needed"),
    ],
)
def test_an_error_names_the_line_and_the_field(tmp_path: Path, line: str, field: str) -> None:
    (tmp_path / "examples.jsonl").write_text('{"text": "Hi", "needed": []}\n' + line + "\n")
    with pytest.raises(DataError, match=f"line 2, field '{field}'"):
        read_examples(tmp_path / "examples.jsonl")

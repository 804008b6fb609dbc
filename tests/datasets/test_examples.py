"""Examples: what a file holds is what is read, and what is wrong in it is named."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

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


ODD: st.SearchStrategy[Any] = st.sampled_from(
    [None, True, -1, 1e308, 10**30, "", "x" * 6_000, "\ud800", "\x00", [], {}, [1], [[]], {"a": 1}, "AQI="]
)
ODD_FIELD = ODD | st.recursive(ODD, lambda inner: st.lists(inner, max_size=3), max_leaves=4)
FIELDS = ("text", "needed", "or", "lang", "kind", "origin", "vector", "group", "user", "more")
GOOD = {
    "text": "Hello",
    "needed": ["mail"],
    "or": [["maps", "places"]],
    "origin": "logged",
    "vector": "AQI=",
    "user": "a",
}


@st.composite
def hostile_files(draw: st.DrawFn) -> bytes:
    """Lines of examples in which fields are others or gone, and then bytes."""
    lines = []
    for _ in range(draw(st.integers(1, 3))):
        record: Any = {**GOOD, **draw(st.dictionaries(st.sampled_from(FIELDS), ODD_FIELD, max_size=2))}
        for name in draw(st.sets(st.sampled_from(FIELDS), max_size=1)):
            record.pop(name, None)
        odd = draw(st.sampled_from([record, record, record, record, [record], "x", 5, None]))
        lines.append(json.dumps(odd, ensure_ascii=draw(st.booleans())).encode(errors="surrogatepass"))
    content = bytearray(draw(st.sampled_from([b"\n", b"\r\n", b"\n\n"])).join(lines))
    for _ in range(draw(st.sampled_from([0, 0, 0, 1, 3]))):
        place = draw(st.integers(0, len(content)))
        content[place : place + draw(st.integers(0, 3))] = draw(
            st.sampled_from([b"", b"\x00", b"\xff", b"}", b'"', b"\n", b"[" * 3_000, b"9" * 6_000, b"1e999", b"NaN"])
        )
    return bytes(content)


def examples_or_why_not(path: Path) -> list[Example] | str:
    try:
        return read_examples(path)
    except DataError as error:
        return str(error)


@settings(deadline=None)
@given(hostile_files())
def test_whatever_a_file_holds_is_refused_by_its_line_or_is_what_is_written_again(content: bytes) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder, "examples.jsonl")
        path.write_bytes(content)
        read = examples_or_why_not(path)
        if isinstance(read, str):
            assert read.startswith(f"{path}, line ")
            assert len(read) < 1_000
        else:
            write_examples(path, read)
            assert read_examples(path) == read

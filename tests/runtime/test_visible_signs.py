"""What others wrote reaches a terminal as letters: nothing in it is obeyed, hidden or turned around."""

from __future__ import annotations

import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from camdf.runtime.visible import visible, visible_lines

TURNS_OR_HIDES = frozenset({"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI", "B", "S", "BN"})
"""Unicode's classes of signs that end a line, turn the direction of a text, or have none because nobody sees them."""


def test_nothing_that_is_printed_is_obeyed_by_a_terminal_or_turns_the_text_around_it() -> None:
    for sign in map(chr, range(sys.maxunicode + 1)):
        if visible(sign) == sign:
            assert unicodedata.category(sign) not in ("Cc", "Cf", "Cs", "Zl", "Zp"), repr(sign)
            assert unicodedata.bidirectional(sign) not in TURNS_OR_HIDES, repr(sign)


@given(st.text())
def test_what_is_printed_can_be_written_anywhere_and_printed_again(text: str) -> None:
    for shown in (visible(text), visible_lines(text)):
        assert shown.encode().decode() == shown == visible_lines(shown)
    assert visible_lines(text).count("\n") == text.count("\n")


@given(st.text(st.characters(categories=["L", "M", "N", "P", "S"])))
def test_letters_of_every_language_stay_as_they_are(text: str) -> None:
    assert visible(text) == text


@pytest.mark.parametrize(
    "code",
    [
        *(code for code in range(0x20) if chr(code) not in "\n\r\t"),
        *range(0x7F, 0xA0),
        *(0x61C, 0x200B, 0x200C, 0x200D, 0x200E, 0x200F, 0x2028, 0x2029, 0x2060, 0xFEFF),
        *range(0x202A, 0x202F),
        *range(0x2066, 0x206A),
    ],
)
def test_each_such_sign_has_its_escape(code: int) -> None:
    escape = f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
    assert visible(f"a{chr(code)}b") == f"a{escape}b"

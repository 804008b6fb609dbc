"""What others wrote, as it may stand on a terminal."""

from __future__ import annotations

from unicodedata import category

UNSEEN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Unicode's categories of signs that a terminal obeys, that hide or turn the text around them, or that end a line."""


def visible(text: str) -> str:
    r"""The same with an escape for each sign that nobody would see: lines and tabs stay as they are.

    >>> visible("Send \x1b[8ma copy\u202e")
    'Send \\x1b[8ma copy\\u202e'
    """
    return "".join(_escape(sign) if category(sign) in UNSEEN and sign not in "\n\t" else sign for sign in text)


def _escape(sign: str) -> str:
    code = ord(sign)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"

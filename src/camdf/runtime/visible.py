"""Text of others, as a command prints it: a terminal shows each of its signs, and obeys none."""

from __future__ import annotations


def visible(text: object, most: int | None = None) -> str:
    r"""The same text in one line, with every sign that a terminal would not show written as Python escapes it.

    Such signs move the cursor, set colors, hide text or turn its direction: control characters of both blocks, signs
    of direction and of no width, ends of lines. What is longer than `most` is cut.

    >>> visible("send\x1b[2K\rNo tool waits.\u202e")
    'send\\x1b[2K\\rNo tool waits.\\u202e'
    """
    whole = str(text)
    shown = whole[:most]
    escaped = "".join(map(_escaped_sign, shown))
    if len(shown) < len(whole):
        return f"{escaped}…"
    return escaped


def visible_lines(text: str) -> str:
    r"""The same for a text of several lines, which stay lines.

    >>> visible_lines("a\n\x9b8mb")
    'a\n\\x9b8mb'
    """
    return "\n".join(map(visible, text.split("\n")))


def _escaped_sign(sign: str) -> str:
    return sign if sign.isprintable() else repr(sign)[1:-1]

"""The front matter of a SKILL.md: the part of YAML in which people write it, read without YAML.

Read are fields of one level whose value is a text: plain, between quotes, or a block (`|`, `>`), over several lines
where indented. Lists and tables are left out. What is no YAML is read as it was meant: a colon in a plain text stands
for itself, which strict readers refuse (`SkillText.strict`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import takewhile

from camdf.errors import DataError

FENCE = "---"
FIELD = re.compile(r"""(?P<quote>["']?)(?P<name>[^\W\d][\w.-]*)(?P=quote)\s*:(?:\s+(?P<value>.*))?$""")
BLOCK = re.compile(r"(?P<style>[|>])[-+0-9]{0,2}(?:\s+#.*)?$")
NESTED = re.compile(r"\s*(?:- |-$|[\w.\"'-]+\s*:(?:\s|$)|[\[{])")
COMMENT = re.compile(r"(?:^|\s)#.*$")
ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|.)", re.DOTALL)
ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "a": "\a", "b": "\b", "e": "\x1b", "f": "\f", "v": "\v"}
DOUBLE = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)
SINGLE = re.compile(r"'((?:[^']|'')*)'", re.DOTALL)
OPENS_OTHER_VALUE = "[{&*!%@`,]}"
"""What no plain text of YAML begins with."""


@dataclass(frozen=True)
class SkillText:
    """What a SKILL.md says."""

    fields: dict[str, str]
    """The fields of its front matter that are texts."""

    body: str
    strict: bool = True
    """Whether its texts are YAML as it stands; Codex reads no other."""


def parse_skill_text(text: str) -> SkillText:
    r"""The front matter of a SKILL.md and what stands below it; a DataError where it has none.

    >>> parse_skill_text("---\nname: tidy\ndescription: >-\n  Sorts what\n  lies about.\n---\nBegin at the door.")
    SkillText(fields={'name': 'tidy', 'description': 'Sorts what lies about.'}, body='Begin at the door.', strict=True)
    """
    first, *lines = text.split("\n")
    ends = (place for place, line in enumerate(lines) if line.rstrip() == FENCE)
    end = next(ends, None)
    if first.rstrip() != FENCE or end is None:
        raise DataError("must begin with front matter between two lines of ---. Add it, with a name and a description.")
    fields: dict[str, str] = {}
    strict = True
    for name, value, below in _fields_with_lines([line.rstrip() for line in lines[:end]]):
        read = _text_of_value(value, below)
        if read is not None:
            fields.setdefault(name, read)
            strict = strict and _is_yaml(value, below)
    return SkillText(fields, "\n".join(lines[end + 1 :]), strict)


def _fields_with_lines(lines: list[str]) -> Iterable[tuple[str, str, list[str]]]:
    """Each field of the first level with what stands on its line, and the lines below that belong to it."""
    for place, line in enumerate(lines):
        if matched := FIELD.match(line):
            below = list(takewhile(lambda later: not later or later[0] in " \t-" or _closes(later), lines[place + 1 :]))
            yield matched["name"], (matched["value"] or "").strip(), below


def _closes(line: str) -> bool:
    """Whether a line of the first level goes on with a text between quotes: it has no field."""
    return not FIELD.match(line) and not line.startswith("#")


def _text_of_value(value: str, below: list[str]) -> str | None:
    """The text of a field, None where its value is a list or a table."""
    if block := BLOCK.fullmatch(value):
        return _block_text(below, folded=block["style"] == ">")
    whole = "\n".join([value, *below])
    if value.startswith('"') and (matched := DOUBLE.match(whole)):
        return ESCAPE.sub(_unescaped, _folded(re.sub(r"\\\n\s*", "", matched[1])))
    if value.startswith("'") and (matched := SINGLE.match(whole)):
        return _folded(matched[1].replace("''", "'"))
    if value[:1] in ("[", "{"):
        return None
    if not COMMENT.sub("", value) and any(map(NESTED.match, below[:1])):
        return None
    indented = takewhile(lambda line: not line or line[0] in " \t", below)
    return _folded("\n".join([COMMENT.sub("", value), *indented]))


def _is_yaml(value: str, below: list[str]) -> bool:
    """Whether a text that stands without quotes is one for a strict reader, too."""
    if not value or value[0] in "\"'" or BLOCK.fullmatch(value):
        return True
    plain = [COMMENT.sub("", value), *below]
    return value[0] not in OPENS_OTHER_VALUE and not any(": " in line or line.endswith(":") for line in plain)


def _block_text(lines: list[str], *, folded: bool) -> str:
    """The text of a block without its indent, and without what is empty at its end."""
    indents = [len(line) - len(line.lstrip()) for line in lines if line]
    indent = min(indents, default=0)
    text = "\n".join(line[indent:] for line in lines).strip("\n")
    return _folded(text) if folded else text


def _folded(text: str) -> str:
    """Lines that follow each other as one; an empty line between them stays a break."""
    paragraphs = re.split(r"\n[ \t]*\n\s*", text.strip())
    return "\n".join(" ".join(part.strip() for part in paragraph.split("\n")).strip() for paragraph in paragraphs)


def _unescaped(escape: re.Match[str]) -> str:
    sign = escape[1]
    if sign[0] in "xuU" and len(sign) > 1:
        number = int(sign[1:], 16)
        return chr(number) if number <= 0x10FFFF else escape[0]
    return ESCAPED.get(sign, sign)

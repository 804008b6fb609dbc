"""Which tools may be offered at all, and which of those must stay.

A tool is named by its name, or by server and name as "mail/send". Where tools of two servers share a name, the name
alone means neither of them to `allow` and `digests`, which fail closed, and both to `pinned`, `keep` and `fallback`. To
these three the name alone never means a tool of an untrusted server.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from camdf.errors import UsageError
from camdf.tools import Tool

Allow: TypeAlias = Collection[str] | Callable[[Tool], bool]

LOOK_ALIKE = frozenset({"ARMENIAN", "CHEROKEE", "CYRILLIC", "GREEK", "LATIN"})
"""Scripts whose letters are taken for one another: no honest name has letters of two."""


@dataclass(frozen=True)
class Guards:
    """What an operator says of tools by name: `allow` and `digests` refuse, `pinned` and `fallback` keep."""

    allow: Allow | None
    digests: Mapping[str, str] | None
    pinned: frozenset[str]
    fallback: frozenset[str] | None
    trusted: frozenset[str] | None = None
    """Servers whose tools are decided on as if there were no others; None trusts all."""

    @property
    def refuse(self) -> bool:
        """Whether a tool has to be read before it may be offered."""
        return self.allow is not None or self.digests is not None

    def offered(self, tools: Mapping[str, Tool]) -> tuple[str, ...]:
        """Keys of the tools that may be offered, in their order."""
        if not self.refuse:
            return tuple([key for key, tool in tools.items() if not deceptive(tool.name)])
        meant = _meanings(tools.values())
        return tuple(
            key
            for key, tool in tools.items()
            if self.authorised(tool, [name for name in _names(tool) if meant[name] == {(tool.server, tool.name)}])
        )

    def authorised(self, tool: Tool, names: Sequence[str] | None = None) -> bool:
        """Whether a tool may be offered, by the names that mean it and no other tool of its list."""
        try:
            if deceptive(tool.name) or (self.refuse and not tool.readable):
                return False
            names = _names(tool) if names is None else names
            if self.digests is not None:
                pinned = [self.digests[name] for name in names if name in self.digests]
                if not pinned or tool.digest() != pinned[0]:
                    return False
            if self.allow is None:
                return True
            return bool(self.allow(tool)) if callable(self.allow) else any(name in self.allow for name in names)
        except Exception:
            return False

    def guarded(self, tools: Mapping[str, Tool], offered: Iterable[str], keep: Collection[str]) -> dict[str, str]:
        """Which tools must stay in every request, and why."""
        if not keep and not self.pinned:  # most often
            offered = [key for key in offered if tools[key].foreign]
        return {key: why for key in offered if (why := self._why_kept(key, tools[key], keep))}

    def _why_kept(self, key: str, tool: Tool, keep: Collection[str]) -> str:
        if tool.foreign and (tool.readable or not self.untrusted(tool)):
            return "the provider's own"
        if self.pinned and self.called(key, tool, self.pinned):
            return "pinned"
        return "required by the harness" if keep and self.called(key, tool, keep) else ""

    def untrusted(self, tool: Tool) -> bool:
        """Whether nobody vouches for the server of a tool."""
        return self.trusted is not None and tool.server not in self.trusted

    def called(self, key: str, tool: Tool, names: Collection[str]) -> bool:
        """Whether a tool is among some that are named; one of an untrusted server only by server and name."""
        return tool.full_name in names or ((tool.name in names or key in names) and not self.untrusted(tool))


def deceptive(name: str) -> bool:
    """Whether a name may not be what it looks like: signs that cannot be seen, compatibility forms, mixed alphabets.

    >>> deceptive("send"), deceptive("s\\N{CYRILLIC SMALL LETTER IE}nd"), deceptive("send\\N{ZERO WIDTH SPACE}")
    (False, True, True)
    """
    if not name.isprintable():
        return True
    if name.isascii():
        return False
    scripts = {unicodedata.name(letter, "").partition(" ")[0] for letter in name if letter.isalpha()}
    return len(scripts & LOOK_ALIKE) > 1 or unicodedata.normalize("NFKC", name) != name


def setting_of_names(setting: str, given: Collection[str]) -> frozenset[str]:
    """A setting that holds names of tools or servers; one string is refused: it would be read letter by letter."""
    if isinstance(given, (str, bytes)):
        raise UsageError(f"The {setting!r} of Gate must be a list of names, as [{given!r}]. Got {given!r} instead.")
    if not isinstance(given, Iterable):
        raise UsageError(f"The {setting!r} of Gate must be a list of names. Got {given!r} instead.")
    found: list[Any] = list(given)
    strange = [name for name in found if not isinstance(name, str)]
    if strange:
        raise UsageError(f"The {setting!r} of Gate must hold names. Got {strange[0]!r} instead.")
    return frozenset(found)


def _names(tool: Tool) -> tuple[str, ...]:
    return (tool.full_name, tool.name) if tool.server else (tool.name,)


def _meanings(tools: Iterable[Tool]) -> dict[str, set[tuple[str, str]]]:
    """Which tools a name means: those that have it as their full name, else those that have it as their name."""
    full: dict[str, set[tuple[str, str]]] = {}
    short: dict[str, set[tuple[str, str]]] = {}
    for tool in tools:
        full.setdefault(tool.full_name, set()).add((tool.server, tool.name))
        short.setdefault(tool.name, set()).add((tool.server, tool.name))
    return short | full

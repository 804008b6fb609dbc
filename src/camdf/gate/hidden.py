"""The names of the tools that a conversation was not given, as the description of its tool search has them.

An agent that sees a name can search for it at once, and one that sees none has nothing to search for. Names follow from
the tools that are not loaded and from nothing else, so they stand for as long as the list stands, on every worker.

A name is text that a server wrote. It is listed only if it has the characters that providers allow in names. Of a
server that is not trusted it must also be short and of few words, and only so many of its names are listed.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import chain, zip_longest

from camdf.prices import CHARACTERS_PER_TOKEN
from camdf.tools import Tool

NAME_TOKENS = 2_000
"""How many tokens of names a description has: about 400 names."""

NAME = re.compile(r"[A-Za-z0-9_.-]{1,128}")
"""What a name is made of where it may be listed."""

UNTRUSTED_LENGTH, UNTRUSTED_WORDS, UNTRUSTED_NAMES = 40, 6, 20
"""For servers that are not trusted: how long a name may be, of how many words, and how many are listed."""

WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|[0-9]+")
NOT_IN_LABELS = re.compile(r"[^A-Za-z0-9_. -]+")
LABEL_LENGTH = 64


def names_by_server(
    hidden: Mapping[str, Collection[str]],
    tokens: int = NAME_TOKENS,
    *,
    untrusted: Collection[str] = (),
    likely: Iterable[tuple[str, str]] = (),
) -> str:
    """The names of the tools that are not loaded, in one line; "" where there are none to tell.

    `hidden` has their names by server, "" for tools of no known server, and `untrusted` names the servers that nobody
    vouches for. Where `tokens` do not hold all names, every server is listed with the number of its tools, and then as
    many names as there is room for: those of `likely` first, a server and a name each, then some of every server.

    >>> names_by_server({"mail": ["send", "search"], "calendar": ["create_event"]})
    'calendar: create_event; mail: search, send'
    >>> mail = ["send", "search", "archive", "label"]
    >>> names_by_server({"mail": mail, "calendar": ["create_event"]}, 14, likely=[("mail", "send")])
    'calendar (1); mail (4): send, archive'
    """
    if tokens <= 0:
        return ""
    counts = {server: len(set(names)) for server, names in sorted(hidden.items()) if names}
    told = {server: _may_be_told(hidden[server], server in untrusted) for server in counts}
    whole = _line(counts, told)
    room = int(tokens * CHARACTERS_PER_TOKEN)
    return whole if len(whole) <= room else _within(room, counts, told, likely)


def by_server(tools: Iterable[Tool]) -> dict[str, list[str]]:
    """The names of tools by the servers that they come from."""
    names: dict[str, list[str]] = {}
    for tool in tools:
        if not tool.foreign:
            names.setdefault(tool.server, []).append(tool.name)
    return names


def _may_be_told(names: Iterable[str], untrusted: bool) -> list[str]:
    listed = sorted(name for name in set(names) if NAME.fullmatch(name))
    if not untrusted:
        return listed
    short = [name for name in listed if len(name) <= UNTRUSTED_LENGTH and len(WORD.findall(name)) <= UNTRUSTED_WORDS]
    return short[:UNTRUSTED_NAMES]


def _line(counts: Mapping[str, int], told: Mapping[str, Sequence[str]]) -> str:
    return "; ".join(_part(server, count, told[server]) for server, count in counts.items())


def _part(server: str, count: int, names: Sequence[str]) -> str:
    """One server: its name, how many tools it has where not all are listed, and those that are."""
    label = NOT_IN_LABELS.sub("_", server)[:LABEL_LENGTH] or ("" if len(names) == count else "others")
    label += f" ({count})" if len(names) < count else ""
    return ": ".join(filter(None, (label, ", ".join(names))))


def _within(
    room: int, counts: Mapping[str, int], told: Mapping[str, Sequence[str]], likely: Iterable[tuple[str, str]]
) -> str:
    """As many names as there is room for. Where servers alone are too many, the largest are listed, in half of it."""
    shown: dict[str, list[str]] = {}
    left = room
    for server in sorted(counts, key=lambda server: -counts[server]):
        length = len(_part(server, counts[server], ())) + len(": ; ")
        if left - length < room // 2 and shown:
            break
        shown[server], left = [], left - length
    known = {server: set(told[server]) for server in shown}
    rows = zip_longest(*(told[server] for server in shown))
    some_of_every = (pair for row in rows for pair in zip(shown, row, strict=True) if pair[1] is not None)
    for server, name in chain(likely, some_of_every):
        if name in known.get(server, ()):
            left -= len(name) + len(", ")
            if left < 0:
                break
            shown[server].append(name)
            known[server].remove(name)
    line = _line({server: counts[server] for server in counts if server in shown}, shown)
    more = len(counts) - len(shown)
    return f"{line}; and {more} more {'server' if more == 1 else 'servers'}" if more else line

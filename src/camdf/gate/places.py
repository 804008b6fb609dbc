"""Who gets one of few places: a server that is not trusted takes at most one from the others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence


def placed(servers: Sequence[str], room: int, trusted: Collection[str] | None = None) -> list[int]:
    """Which tools get a place, given the server of each, the best tool first: `room` of them, or all there are.

    The best get one. But a server that is not trusted has only the places that the others leave, and one more, so that
    the others lose at most one to it; `None` trusts all.

    >>> placed(["new", "new", "new", "mail", "files", "mail"], 3), placed(["new", "new", "new", "mail"], 3, ["mail"])
    ([0, 1, 2], [0, 1, 2])
    >>> placed(["new", "new", "new", "mail", "files", "mail"], 3, ["mail", "files"])
    [0, 3, 4]

    Where so many servers are not trusted that places are left, the best of the rest get them.
    """
    if trusted is None:
        return list(range(len(servers)))[: max(room, 0)]
    held, taken = Counter(servers), Counter[str]()
    first: list[int] = []
    rest: list[int] = []
    for place, server in enumerate(servers):
        left = max(room - (len(servers) - held[server]), 0)
        fits = server in trusted or taken[server] <= left
        (first if fits else rest).append(place)
        taken[server] += fits
    return sorted([*first, *rest][: max(room, 0)])

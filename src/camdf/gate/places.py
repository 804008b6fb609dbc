"""How many tools are kept, and who gets one of few places: whom nobody trusts takes at most one from the others."""

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


def bounded(
    chosen: Sequence[bool],
    stays: Sequence[bool],
    at_least: int,
    at_most: int | None,
    servers: Sequence[str],
    trusted: Collection[str] | None = None,
) -> list[bool]:
    """Which tools are kept, the best tool first: those that stay, and those chosen, within bounds on how many.

    Where these are too few, the best of the rest are kept too. Where they are too many, the last that need not stay are
    dropped, by `placed`. What stays counts, and is kept even beyond `at_most`.

    >>> bounded([True, False, False, True], [False] * 4, at_least=3, at_most=None, servers=[""] * 4)
    [True, True, False, True]
    >>> bounded([True, True, False, False], [False, False, False, True], at_least=0, at_most=2, servers=[""] * 4)
    [True, False, False, True]
    """
    kept = [one or other for one, other in zip(chosen, stays, strict=True)]
    count = sum(kept)
    rest = [place for place, held in enumerate(kept) if not held]
    for place in rest[: max(at_least - count, 0)]:
        kept[place] = True
    if at_most is not None and count > at_most:
        loose = [place for place, held in enumerate(kept) if held and not stays[place]]
        stay = placed([servers[place] for place in loose], len(loose) - (count - at_most), trusted)
        for place in {*loose} - {loose[number] for number in stay}:
            kept[place] = False
    return kept

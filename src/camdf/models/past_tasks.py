"""What similar tasks of the past needed: two columns for every candidate, in a catalogue of any size.

A past task is the direction of its text and the tools that it needed. Of n past tasks let cos_t be the cosine of task t
and the one at hand, and w_t = exp((cos_t - the largest) / WIDTH) for the `NEAREST` nearest, else 0. Then

    vote_j = logit((sum of w_t over tasks that needed j + r_j) / (sum of w_t + 1)) - logit(r_j),
    near_j = sum over the 3 nearest tasks that needed j of (cos_t - mean cosine) / 3,

with r_j = (how many needed j + 1/2) / (n + 1). Both are 0 for a tool that these tasks could not have needed. What they
say of a task that is learned from comes from the other groups.

Directions are kept in whole numbers, so their products are exact, and a task's columns do not depend on how many tasks
stand beside it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from camdf.core.groups import numbered, numbered_as_seen
from camdf.core.probability import logit
from camdf.core.rankings import Floats, Ints, LoggedTasks, Rankings, Strings
from camdf.core.vectors import WHOLE, Bytes, in_whole_numbers
from camdf.errors import UsageError

PAST_COLUMNS = 2
"""How many columns past tasks have."""

NEAREST = 50
WIDTH = 0.05
NEAREST_OF_TOOL = 3
TOLD = 5
"""Of how many similar requests an explanation tells."""

SHOWN = 60
"""Of how many characters."""

MOST = 10_000
"""How many past tasks are kept unless somebody says otherwise."""

MOST_OF_A_GROUP = 20
"""How many of them one group, as a conversation is, may have. A user may always have so many."""

ACTIVE = 10
"""A user may have as many as the one who has the tenth most: at most a tenth of all."""

COSINES_AT_ONCE = 4_000_000
KEPT_WIDE = 2**24
"""Up to so many numbers, vectors are held as floats too; more are turned into floats block by block."""

EXACT = 2**24
"""Below it every whole number is a float of 32 bits."""


@dataclass(frozen=True, eq=False)
class PastTasks:
    """n tasks: `vectors` (n, d) their directions in whole numbers up to 127, `groups` (n,) whose near-copies they are.

    `needed` has every task's tools one after the other, as places in `tools`, and `counts` (n,) how many each has.
    `tools` are all that the tasks could have needed. `texts` (n) are there where somebody wants them kept, "" for a
    task without one, and `users` (n,) where it is known who asked.
    """

    tools: tuple[str, ...]
    vectors: Bytes
    counts: Ints
    needed: Ints
    groups: Strings
    texts: tuple[str, ...] = ()
    users: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        n = len(self.vectors)
        known = {len(self.texts), len(self.users)} <= {0, n}
        if self.vectors.ndim != 2 or len(self.counts) != n or len(self.groups) != n or not known:
            raise UsageError("Past tasks need a vector, a count and a group each, and texts or users for all or none.")
        if self.counts.sum() != len(self.needed) or (
            len(self.needed) and not 0 <= self.needed.min() <= self.needed.max() < len(self.tools)
        ):
            raise UsageError("The tools that past tasks needed must be places in 'tools', as many as 'counts' say.")
        task = np.repeat(np.arange(n), self.counts)
        by_tool = np.argsort(self.needed, kind="stable")
        own: dict[str, Any] = {
            "_position": {name: i for i, name in enumerate(self.tools)},
            "_starts": np.cumsum(self.counts) - self.counts,
            "_tasks_of": np.split(task[by_tool], np.searchsorted(self.needed[by_tool], np.arange(1, len(self.tools)))),
            "_group": numbered(self.groups)[0] if n else np.zeros(0, dtype=np.int64),
            "_lengths": np.sqrt((self.vectors.astype(np.float64) ** 2).sum(axis=1)),
            "_wide": self._floats(self.vectors) if self.vectors.size <= KEPT_WIDE else None,
            "_totals": np.bincount(self.needed, minlength=len(self.tools)).astype(np.float64),
            "_last": (b"", np.zeros((0, 0))),
        }
        for name, value in own.items():
            object.__setattr__(self, name, value)

    @classmethod
    def of(cls, logged: LoggedTasks) -> PastTasks | None:
        """Logged tasks as past ones; None where they have no vectors, or where all are of one group."""
        rankings = logged.rankings
        return None if rankings.vectors is None or numbered(logged.groups)[1] < 2 else cls.all_of(logged)

    @classmethod
    def all_of(cls, logged: LoggedTasks) -> PastTasks:
        """Logged tasks, which have vectors, as past ones."""
        rankings = logged.rankings
        assert rankings.vectors is not None
        listed = np.unique(rankings.tool_ids[rankings.listed])
        place = np.full(len(rankings.catalogue) + 1, -1)
        place[listed] = np.arange(len(listed))
        return cls(
            tuple(rankings.catalogue[i] for i in listed),
            in_whole_numbers(rankings.vectors),
            logged.required.sum(axis=1),
            place[rankings.tool_ids[logged.required]],
            logged.groups,
        )

    def among(self, tools: Iterable[str]) -> PastTasks:
        """The same tasks, which could have needed these tools too."""
        new = tuple(name for name in tools if name not in self._position)  # type: ignore[attr-defined]
        return replace(self, tools=self.tools + new) if new else self

    def __len__(self) -> int:
        return len(self.vectors)

    @property
    def dimensions(self) -> int:
        """Of the vectors that it compares."""
        return int(self.vectors.shape[1])

    def check_vectors(self, dimensions: int, whose: str) -> None:
        """Raise where vectors of so many numbers, 0 for none, cannot be compared with these; `whose` says whose."""
        if dimensions != self.dimensions:
            others = f"vectors of {dimensions}" if dimensions else "no vectors"
            raise UsageError(
                f"The past requests have vectors of {self.dimensions} numbers, and {whose} {others}. Fit again with "
                "the scorer that ranks: camdf fit --remember."
            )

    def take(self, rows: Ints) -> PastTasks:
        """Some of the tasks; `tools` stay all that they could have needed."""
        texts, users = (tuple(own[row] for row in rows.tolist()) if own else () for own in (self.texts, self.users))
        needed = self._entries(rows)
        return PastTasks(self.tools, self.vectors[rows], self.counts[rows], needed, self.groups[rows], texts, users)

    def joined(self, other: PastTasks) -> PastTasks:
        """The tasks of both."""
        tools = tuple(dict.fromkeys((*self.tools, *other.tools)))
        position = {name: i for i, name in enumerate(tools)}
        moved = np.array([*(position[name] for name in other.tools), -1], dtype=np.int64)[other.needed]
        return PastTasks(
            tools,
            np.concatenate([self.vectors, other.vectors]),
            np.concatenate([self.counts, other.counts]),
            np.concatenate([self.needed, moved]),
            np.concatenate([self.groups, other.groups]),
            _both(self.texts, len(self), other.texts, len(other)),
            _both(self.users, len(self), other.users, len(other)),
        )

    def bounded(self, most: int = MOST, of_a_group: int = MOST_OF_A_GROUP) -> PastTasks:
        """At most so many tasks, so many of a group and a share of a user, the last first; rare tools stay.

        No user has more than the tenth most active one, and so none has more than a tenth; of fewer than eighteen, none
        has more than the middle one. `of_a_group` is always allowed, and who is not known is a user of one group.

        Every tool has its tasks in turn, the last one first, and a task counts for the tool in whose row it stands
        nearest to the front. The tasks nearest to the front of a row are kept.
        """
        if not len(self):
            return self
        kept = np.arange(len(self))[::-1]
        kept = kept[_turns(numbered_as_seen(self.groups[kept])) < of_a_group]
        pairs = zip(self.users or [""] * len(self), self.groups.tolist(), strict=True)
        asking = numbered_as_seen(
            np.array([f"user {user}" if user else f"group {group}" for user, group in pairs])[kept]
        )
        active = np.sort(np.bincount(asking))[::-1]
        place = min(ACTIVE, len(active) // 2 + 1)
        kept = kept[_turns(asking) < max(of_a_group, min(active[place - 1], most // place))]
        few = self.take(np.sort(kept))
        if len(few) <= most:
            return few
        task, tool = np.repeat(np.arange(len(few)), few.counts)[::-1], few.needed[::-1]
        front = np.full(len(few), len(few))
        np.minimum.at(front, task, _turns(tool))
        nothing = np.flatnonzero(few.counts == 0)[::-1]
        front[nothing] = np.arange(len(nothing))
        return few.take(np.sort(np.lexsort((-np.arange(len(few)), front))[:most]))

    def columns(self, rankings: Rankings) -> Floats:
        """(2, n, m): the vote and the nearness of every candidate."""
        return self._columns(rankings, None)

    def left_out(self, rankings: Rankings) -> Floats:
        """(2, n, m): the same for these very tasks, each from the other groups."""
        own: Ints = self._group  # type: ignore[attr-defined]
        return self._columns(rankings, own)

    def needed_nearby(self, rankings: Rankings, row: int) -> dict[str, list[str]]:
        """By tool, the texts of those of the `TOLD` most similar past tasks that needed it; "" where none is kept."""
        cosine = next(self._cosines(self._read(rankings)[row : row + 1]))[0]
        least = max(len(self) - TOLD, 0)
        near = np.flatnonzero(cosine >= np.partition(cosine, least)[least])
        nearest = near[np.argsort(-cosine[near], kind="stable")[:TOLD]]
        texts: dict[str, list[str]] = {}
        for task in nearest.tolist():
            for place in self._entries(np.array([task])).tolist():
                texts.setdefault(self.tools[place], []).append(self.texts[task] if self.texts else "")
        return texts

    def _read(self, rankings: Rankings) -> Bytes:
        if rankings.vectors is None or rankings.vectors.shape[1] != self.dimensions:
            raise UsageError(
                f"Past tasks are compared by 'vectors' of {self.dimensions} numbers. Give the rankings some."
            )
        return in_whole_numbers(rankings.vectors)

    def _columns(self, rankings: Rankings, own: Ints | None) -> Floats:
        vectors, place = self._read(rankings), rankings.places(self._position)  # type: ignore[attr-defined]
        columns, begin = np.zeros((PAST_COLUMNS, *place.shape)), 0
        for cosines in self._cosines(vectors):
            rows = slice(begin, begin + len(cosines))
            begin += len(cosines)
            others = None if own is None else own[rows, None] != self._group  # type: ignore[attr-defined]
            columns[:, rows] = self._block(cosines, place[rows], others)
        return columns

    def _block(self, cosines: Floats, place: Ints, others: npt.NDArray[np.bool_] | None) -> Floats:
        """(2, rows, m) from the cosines (rows, n); `others` marks the past tasks that count, by default all."""
        counted = np.full(len(cosines), len(self)) if others is None else others.sum(axis=1)
        if others is not None:
            mean = np.where(others, cosines, 0.0).sum(axis=1) / np.maximum(counted, 1)
            cosines = np.where(others, cosines, -np.inf)
        else:
            mean = cosines.mean(axis=1)
        totals: Floats = self._totals  # type: ignore[attr-defined]
        vote, near = np.zeros((len(cosines), len(self.tools) + 1)), np.zeros((len(cosines), len(self.tools) + 1))
        for row, cosine in enumerate(cosines):
            if not counted[row]:
                continue
            least = len(self) - min(NEAREST, len(self))
            nearest = np.flatnonzero((cosine >= np.partition(cosine, least)[least]) & (cosine > -np.inf))
            weights = np.exp((cosine[nearest] - cosine[nearest].max()) / WIDTH)
            votes = self._times(nearest, weights)
            own = 0 if others is None else self._times(np.flatnonzero(~others[row]))
            rate = (totals - own + 0.5) / (counted[row] + 1.0)
            share = (votes + rate) / (np.add.accumulate(weights)[-1] + 1.0)
            vote[row, :-1] = logit(share) - logit(rate)
        for tool in np.unique(place[place >= 0]).tolist():
            tasks: Ints = self._tasks_of[tool]  # type: ignore[attr-defined]
            if len(tasks):
                over = cosines[:, tasks] - mean[:, None]
                if len(tasks) > NEAREST_OF_TOOL:
                    over = -np.partition(-over, NEAREST_OF_TOOL - 1, axis=1)[:, :NEAREST_OF_TOOL]
                best = np.sort(np.where(over > -np.inf, over, 0.0), axis=1)
                near[:, tool] = np.add.accumulate(best, axis=1)[:, -1] / NEAREST_OF_TOOL
        return np.stack([np.take_along_axis(vote, place, axis=1), np.take_along_axis(near, place, axis=1)])

    def _times(self, tasks: Ints, weights: Floats | None = None) -> Floats:
        """(tools,): how many of the tasks needed each, or the sum of their weights."""
        own = None if weights is None else np.repeat(weights, self.counts[tasks])
        return np.bincount(self._entries(tasks), weights=own, minlength=len(self.tools)).astype(np.float64)

    def _entries(self, tasks: Ints) -> Ints:
        """Of `needed`, what some tasks needed, task by task."""
        counts, starts = self.counts[tasks], self._starts[tasks]  # type: ignore[attr-defined]
        before = np.cumsum(counts) - counts
        chosen: Ints = self.needed[np.repeat(starts - before, counts) + np.arange(counts.sum())]
        return chosen

    def _cosines(self, vectors: Bytes) -> Iterator[Floats]:
        """(rows, n) for some tasks after the other."""
        lengths: Floats = self._lengths  # type: ignore[attr-defined]
        rows = max(1, COSINES_AT_ONCE // max(len(self), 1))
        for begin in range(0, len(vectors), rows):
            some = vectors[begin : begin + rows]
            asked, known = self._last  # type: ignore[attr-defined]
            if len(some) == 1 and some.tobytes() == asked:  # an explanation asks again
                yield known
                continue
            own = np.sqrt((some.astype(np.float64) ** 2).sum(axis=1))
            product = np.concatenate([self._floats(some) @ block.T for block in self._blocks()], axis=1)
            scale = own[:, None] * lengths
            cosines = product / np.where(scale > 0, scale, 1.0)
            if len(some) == 1:  # replaced whole, so threads may share it
                object.__setattr__(self, "_last", (some.tobytes(), cosines))
            yield cosines

    def _blocks(self) -> Iterator[npt.NDArray[Any]]:
        wide: npt.NDArray[Any] | None = self._wide  # type: ignore[attr-defined]
        if wide is not None:
            yield wide
            return
        rows = max(1, KEPT_WIDE // self.dimensions)
        for begin in range(0, len(self), rows):
            yield self._floats(self.vectors[begin : begin + rows])

    def _floats(self, vectors: Bytes) -> npt.NDArray[Any]:
        """Whole numbers as the shortest floats in which their products are exact."""
        return vectors.astype(np.float32 if WHOLE**2 * self.dimensions < EXACT else np.float64)


def quoted(texts: Iterable[str]) -> str:
    """Requests in one line, each once and none of them long; "" where none has a text.

    >>> quoted(["Book a room\\nin Graz", "", "Book a room in Graz", "x" * 99])[:36]
    "'Book a room in Graz', 'xxxxxxxxxxxx"
    """
    lines = dict.fromkeys(" ".join(text.split()) for text in texts if text)
    return ", ".join(repr(line if len(line) <= SHOWN else f"{line[: SHOWN - 1]}…") for line in lines)


def _both(first: tuple[str, ...], many: int, second: tuple[str, ...], more: int) -> tuple[str, ...]:
    """What is known of some tasks and of more; "" for those of which it is not, and nothing where it is of none."""
    return (*(first or ("",) * many), *(second or ("",) * more)) if first or second else ()


def _turns(names: Ints) -> Ints:
    """(n,): how often each name occurred before.

    >>> _turns(np.array([4, 2, 4, 4])).tolist()
    [0, 0, 1, 2]
    """
    order = np.argsort(names, kind="stable")
    first = np.searchsorted(names[order], names[order])
    turns = np.empty(len(names), dtype=np.int64)
    turns[order] = np.arange(len(names)) - first
    return turns

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
from camdf.core.rankings import Bools, Floats, Ints, LoggedTasks, Rankings, Strings
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

    Tasks whose texts nobody embedded have vectors of 0 numbers: they say what their users needed, and no more.

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
        wide = self._exact_floats(self.vectors) if self.vectors.size <= KEPT_WIDE else None
        own: dict[str, Any] = {
            "_position": {name: i for i, name in enumerate(self.tools)},
            "_starts": np.cumsum(self.counts) - self.counts,
            "_tasks_of": np.split(task[by_tool], np.searchsorted(self.needed[by_tool], np.arange(1, len(self.tools)))),
            "_group": numbered(self.groups)[0],
            "_lengths": np.sqrt((self.vectors.astype(np.float64) ** 2).sum(axis=1)),
            "_wide": wide,
            "_rows_of_user": _rows_by_name(self.users),
            "_totals": np.bincount(self.needed, minlength=len(self.tools)).astype(np.float64),
            "_last": (b"", np.zeros((0, 0))),
        }
        for name, value in own.items():
            object.__setattr__(self, name, value)

    @classmethod
    def of(cls, logged: LoggedTasks) -> PastTasks | None:
        """Logged tasks as past ones; None where they have no vectors, or where all are of one group."""
        if logged.rankings.vectors is None or numbered(logged.groups)[1] < 2:
            return None
        return cls.all_of(logged)

    @classmethod
    def all_of(cls, logged: LoggedTasks) -> PastTasks:
        """Logged tasks as past ones."""
        rankings = logged.rankings
        vectors = np.zeros((len(logged), 0)) if rankings.vectors is None else rankings.vectors
        users = () if rankings.users is None else tuple(rankings.users.tolist())
        listed = np.unique(rankings.tool_ids[rankings.listed])
        place = np.full(len(rankings.catalogue) + 1, -1)
        place[listed] = np.arange(len(listed))
        return cls(
            tuple(rankings.catalogue[i] for i in listed),
            in_whole_numbers(vectors),
            logged.required.sum(axis=1),
            place[rankings.tool_ids[logged.required]],
            logged.groups,
            users=users if any(users) else (),
        )

    def among(self, tools: Iterable[str]) -> PastTasks:
        """The same tasks, which could have needed these tools too."""
        new = tuple(name for name in tools if name not in self._position)  # type: ignore[attr-defined]
        if not new:
            return self
        return replace(self, tools=self.tools + new)

    def __len__(self) -> int:
        return len(self.vectors)

    @property
    def totals(self) -> Floats:
        """(tools,): how many of the tasks needed each."""
        counts: Floats = self._totals  # type: ignore[attr-defined]
        return counts

    def places(self, rankings: Rankings) -> Ints:
        """(n, m): where each candidate stands among `tools`; -1 for others, and at padding."""
        return rankings.places(self._position)  # type: ignore[attr-defined]

    def tasks_of(self, user: str) -> Ints:
        """The rows of a user's tasks; none where the user is not known."""
        rows: Ints = self._rows_of_user.get(user, np.zeros(0, dtype=np.int64))  # type: ignore[attr-defined]
        return rows

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
        return PastTasks(
            self.tools,
            self.vectors[rows],
            self.counts[rows],
            self._entries(rows),
            self.groups[rows],
            _texts_taken(self.texts, rows),
            _texts_taken(self.users, rows),
        )

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
            _texts_of_both(self.texts, len(self), other.texts, len(other)),
            _texts_of_both(self.users, len(self), other.users, len(other)),
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
        last_first = np.arange(len(self))[::-1]
        kept = last_first[_times_before(numbered_as_seen(self.groups[last_first])) < of_a_group]
        asking = numbered_as_seen(self._who_asked()[kept])
        active = np.sort(np.bincount(asking))[::-1]
        place = min(ACTIVE, len(active) // 2 + 1)
        of_a_user = max(of_a_group, min(active[place - 1], most // place))
        few = self.take(np.sort(kept[_times_before(asking) < of_a_user]))
        if len(few) <= most:
            return few
        nearest_first = np.lexsort((-np.arange(len(few)), few._places_in_rows()))
        return few.take(np.sort(nearest_first[:most]))

    def _who_asked(self) -> Strings:
        """(n,): the user who asked, or the task's group where the user is not known."""
        users = self.users or ("",) * len(self)
        asked = zip(users, self.groups.tolist(), strict=True)
        return np.array([f"user {user}" if user else f"group {group}" for user, group in asked])

    def _places_in_rows(self) -> Ints:
        """(n,): how near to the front of a row each task stands, of the tools that it needed, or of no tool."""
        task = np.repeat(np.arange(len(self)), self.counts)[::-1]
        front = np.full(len(self), len(self))
        np.minimum.at(front, task, _times_before(self.needed[::-1]))
        nothing = np.flatnonzero(self.counts == 0)[::-1]
        front[nothing] = np.arange(len(nothing))
        return front

    def columns(self, rankings: Rankings) -> Floats:
        """(2, n, m): the vote and the nearness of every candidate."""
        return self._columns_from(rankings, None)

    def left_out(self, rankings: Rankings) -> Floats:
        """(2, n, m): the same for these very tasks, each from the other groups."""
        own: Ints = self._group  # type: ignore[attr-defined]
        return self._columns_from(rankings, own)

    def needed_nearby(self, rankings: Rankings, row: int) -> dict[str, list[str]]:
        """By tool, the texts of those of the `TOLD` most similar past tasks that needed it; "" where none may be told.

        What a user asked is told to that user alone; what nobody knows who asked, to everybody.
        """
        user = "" if rankings.users is None else str(rankings.users[row])
        cosine = next(self._cosines(self._whole_vectors(rankings)[row : row + 1]))[0]
        least = max(len(self) - TOLD, 0)
        near = np.flatnonzero(cosine >= np.partition(cosine, least)[least])
        nearest = near[np.argsort(-cosine[near], kind="stable")[:TOLD]]
        texts: dict[str, list[str]] = {}
        for task in nearest.tolist():
            text = self.texts[task] if self.texts else ""
            if self.users and self.users[task] not in ("", user):
                text = ""
            for place in self._entries(np.array([task])).tolist():
                texts.setdefault(self.tools[place], []).append(text)
        return texts

    def _whole_vectors(self, rankings: Rankings) -> Bytes:
        if rankings.vectors is None or rankings.vectors.shape[1] != self.dimensions:
            raise UsageError(
                f"Past tasks are compared by 'vectors' of {self.dimensions} numbers. Give the rankings some."
            )
        return in_whole_numbers(rankings.vectors)

    def _columns_from(self, rankings: Rankings, own: Ints | None) -> Floats:
        vectors = self._whole_vectors(rankings)
        place = self.places(rankings)
        columns = np.zeros((PAST_COLUMNS, *place.shape))
        begin = 0
        for cosines in self._cosines(vectors):
            end = begin + len(cosines)
            rows = slice(begin, end)
            others = None if own is None else own[rows, None] != self._group  # type: ignore[attr-defined]
            columns[:, rows] = self._columns_of_block(cosines, place[rows], others)
            begin = end
        return columns

    def _columns_of_block(self, cosines: Floats, place: Ints, others: Bools | None) -> Floats:
        """(2, rows, m) from the cosines (rows, n); `others` marks the past tasks that count, by default all."""
        if others is None:
            counted = np.full(len(cosines), len(self))
            mean = cosines.mean(axis=1)
        else:
            counted = others.sum(axis=1)
            mean = np.where(others, cosines, 0.0).sum(axis=1) / np.maximum(counted, 1)
            cosines = np.where(others, cosines, -np.inf)
        vote = self._votes(cosines, counted, others)
        near = self._nearness(cosines, mean, np.unique(place[place >= 0]))
        return np.stack([np.take_along_axis(vote, place, axis=1), np.take_along_axis(near, place, axis=1)])

    def _votes(self, cosines: Floats, counted: Ints, others: Bools | None) -> Floats:
        """(rows, tools + 1): the vote for every tool, 0 for none; `counted` (rows,) is how many past tasks count."""
        vote = np.zeros((len(cosines), len(self.tools) + 1))
        least = len(self) - min(NEAREST, len(self))
        for row in np.flatnonzero(counted).tolist():
            cosine = cosines[row]
            nearest = np.flatnonzero((cosine >= np.partition(cosine, least)[least]) & (cosine > -np.inf))
            weights = np.exp((cosine[nearest] - cosine[nearest].max()) / WIDTH)
            votes = self.times_needed(nearest, weights)
            needed = self.totals
            if others is not None:
                needed = self.totals - self.times_needed(np.flatnonzero(~others[row]))
            rate = (needed + 0.5) / (counted[row] + 1.0)
            share = (votes + rate) / (np.add.accumulate(weights)[-1] + 1.0)
            vote[row, :-1] = logit(share) - logit(rate)
        return vote

    def _nearness(self, cosines: Floats, mean: Floats, tools: Ints) -> Floats:
        """(rows, tools + 1): how far beyond the mean the tasks lie that needed each of these tools, 0 for others."""
        near = np.zeros((len(cosines), len(self.tools) + 1))
        for tool in tools.tolist():
            tasks: Ints = self._tasks_of[tool]  # type: ignore[attr-defined]
            if not len(tasks):
                continue
            over = cosines[:, tasks] - mean[:, None]
            if len(tasks) > NEAREST_OF_TOOL:
                over = -np.partition(-over, NEAREST_OF_TOOL - 1, axis=1)[:, :NEAREST_OF_TOOL]
            best = np.sort(np.where(over > -np.inf, over, 0.0), axis=1)
            near[:, tool] = np.add.accumulate(best, axis=1)[:, -1] / NEAREST_OF_TOOL
        return near

    def times_needed(self, tasks: Ints, weights: Floats | None = None) -> Floats:
        """(tools,): how many of the tasks needed each, or the sum of their weights."""
        if weights is not None:
            weights = np.repeat(weights, self.counts[tasks])
        return np.bincount(self._entries(tasks), weights=weights, minlength=len(self.tools)).astype(np.float64)

    def _entries(self, tasks: Ints) -> Ints:
        """Of `needed`, what some tasks needed, task by task."""
        counts = self.counts[tasks]
        starts = self._starts[tasks]  # type: ignore[attr-defined]
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
            product = np.concatenate([self._exact_floats(some) @ block.T for block in self._blocks()], axis=1)
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
            yield self._exact_floats(self.vectors[begin : begin + rows])

    def _exact_floats(self, vectors: Bytes) -> npt.NDArray[Any]:
        """Whole numbers as the shortest floats in which their products are exact."""
        return vectors.astype(np.float32 if WHOLE**2 * self.dimensions < EXACT else np.float64)


def quoted(texts: Iterable[str]) -> str:
    """Requests in one line, each once and none of them long; "" where none has a text.

    >>> quoted(["Book a room\\nin Graz", "", "Book a room in Graz", "x" * 99])[:36]
    "'Book a room in Graz', 'xxxxxxxxxxxx"
    """
    lines = dict.fromkeys(" ".join(text.split()) for text in texts if text)
    return ", ".join(repr(_shortened(line)) for line in lines)


def _shortened(line: str) -> str:
    return line if len(line) <= SHOWN else f"{line[: SHOWN - 1]}…"


def _texts_taken(texts: tuple[str, ...], rows: Ints) -> tuple[str, ...]:
    """What is known of some of the tasks; nothing where it is known of none."""
    return tuple(texts[row] for row in rows.tolist()) if texts else ()


def _texts_of_both(first: tuple[str, ...], many: int, second: tuple[str, ...], more: int) -> tuple[str, ...]:
    """What is known of some tasks and of more; "" for those of which it is not, and nothing where it is of none."""
    if not first and not second:
        return ()
    return (*(first or ("",) * many), *(second or ("",) * more))


def _rows_by_name(names: tuple[str, ...]) -> dict[str, Ints]:
    """Where each name stands, but for "", which names nobody."""
    rows: dict[str, list[int]] = {}
    for row, name in enumerate(names):
        if name:
            rows.setdefault(name, []).append(row)
    return {name: np.array(own, dtype=np.int64) for name, own in rows.items()}


def _times_before(names: Ints) -> Ints:
    """(n,): how often each name occurred before.

    >>> _times_before(np.array([4, 2, 4, 4])).tolist()
    [0, 0, 1, 2]
    """
    order = np.argsort(names, kind="stable")
    first = np.searchsorted(names[order], names[order])
    turns = np.empty(len(names), dtype=np.int64)
    turns[order] = np.arange(len(names)) - first
    return turns

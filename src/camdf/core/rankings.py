"""Ranked candidate lists, and logged tasks: the two tables that everything else reads.

Both are padded rectangles with one row a task, so that one live decision (n = 1), a replay of thousands of tasks and
a batch on a cluster go through the same functions. Padding is zero (tool id -1) and never changes a result.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, repeat
from operator import itemgetter
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from camdf.errors import UsageError

Floats: TypeAlias = npt.NDArray[np.float64]
Ints: TypeAlias = npt.NDArray[np.int64]
Bools: TypeAlias = npt.NDArray[np.bool_]
Strings: TypeAlias = npt.NDArray[np.str_]
Table = TypeVar("Table", "Rankings", "LoggedTasks")
Index: TypeAlias = "slice | Ints | Bools | Sequence[int]"

STATES_AT_ONCE = 4096
"""A batch is worked off in pieces of about this many states, so that the workspace stays in cache and never grows."""

MAX_SHARED_CATALOGUE = 64
"""The largest catalogue whose tools get an identity column each; beyond it a policy is catalogue-free."""


@dataclass(frozen=True, eq=False)
class Rankings:
    """n tasks, each a list of candidate tools in rank order, with a score and a cost for every candidate.

    Shapes: `scores`, `costs` and `tool_ids` are (n, m); `lengths` is (n,). Row i uses its first `lengths[i]` entries;
    the rest is padding. `tool_ids` points into `catalogue`. `vectors` (n, d) are the tasks' texts as vectors of
    length 1, where somebody gave them. `users` (n,) are the names of those who asked, "" where it is not known who.

    Build one with `Rankings.from_scores`; the bare constructor takes arrays and checks them.
    """

    scores: Floats
    costs: Floats
    lengths: Ints
    tool_ids: Ints
    catalogue: tuple[str, ...]
    vectors: Floats | None = None
    users: Strings | None = None

    def __post_init__(self) -> None:
        if self.scores.ndim != 2:
            raise UsageError(_must("scores", "Rankings", "have shape (tasks, candidates)", self.scores.shape))
        n, m = self.scores.shape
        for name, array, shape in (
            ("costs", self.costs, (n, m)),
            ("lengths", self.lengths, (n,)),
            ("tool_ids", self.tool_ids, (n, m)),
        ):
            if array.shape != shape:
                raise UsageError(_must(name, "Rankings", f"have shape {shape}, as the scores demand", array.shape))
        if self.vectors is not None and (self.vectors.ndim != 2 or len(self.vectors) != n):
            raise UsageError(_must("vectors", "Rankings", f"have a row for each of the {n} tasks", self.vectors.shape))
        if self.vectors is not None and not np.isfinite(self.vectors).all():
            raise UsageError(_must("vectors", "Rankings", "be finite", self.vectors))
        if self.users is not None and self.users.shape != (n,):
            raise UsageError(_must("users", "Rankings", f"have a name for each of the {n} tasks", self.users.shape))
        if n and not (self.lengths.min() >= 0 and self.lengths.max() <= m):
            raise UsageError(_must("lengths", "Rankings", f"lie between 0 and {m}", self.lengths))
        listed = self.listed
        if not _all_listed_are(np.isfinite(self.scores) & (self.scores >= 0), listed):
            raise UsageError(
                _must("scores", "Rankings", "be finite and not negative", self.scores[listed])
                + " Clip cosine similarities at 0, and pass logits through a sigmoid."
            )
        if not _all_listed_are(np.isfinite(self.costs) & (self.costs > 0), listed):
            raise UsageError(
                _must("costs", "Rankings", "be finite and positive", self.costs[listed])
                + " Give a free tool a small price, such as 0.01."
            )
        if not _all_listed_are((self.tool_ids >= 0) & (self.tool_ids < len(self.catalogue)), listed):
            raise UsageError(_must("tool_ids", "Rankings", "point into the catalogue", self.tool_ids[listed]))
        padding = ~listed
        if self.scores[padding].any() or self.costs[padding].any() or (self.tool_ids[padding] != -1).any():
            raise UsageError("Padding in Rankings must have score 0, cost 0 and tool id -1. Use Rankings.from_scores.")

    @classmethod
    def from_scores(
        cls,
        scores: Mapping[str, float] | Sequence[Mapping[str, float]],
        costs: Mapping[str, float] | Sequence[Mapping[str, float]] | None = None,
        *,
        keep_order: bool = False,
    ) -> Rankings:
        """Rank candidates by score, best first; ties go by name, so that the same input always gives the same list.

        `scores` maps tool to score for one task, or is a sequence of such mappings. `costs` maps tool to cost, or is
        such a mapping for each task; every tool costs 1 where it is left out. `keep_order=True` takes the mappings' own
        order as the ranking.

        >>> ranking = Rankings.from_scores({"calendar": 0.2, "search": 0.9}, costs={"calendar": 0.5, "search": 2})
        >>> ranking.names(0), ranking.costs
        (['search', 'calendar'], array([[2. , 0.5]]))
        """
        tasks = [scores] if isinstance(scores, Mapping) else list(scores)
        items = [list(task.items()) for task in tasks]
        if not keep_order:
            for pairs in items:  # a fifth of the time that sorting by pairs takes
                pairs.sort(key=itemgetter(0))
                pairs.sort(key=itemgetter(1), reverse=True)
        if len(items) == 1 and not isinstance(costs, Sequence):  # a live decision: its catalogue is its list
            names = tuple(name for name, _ in items[0])
            ids = np.arange(len(names), dtype=np.int64)[None]
            row = np.array([[score for _, score in items[0]]], dtype=np.float64)
            prices = _costs_of_candidates(costs, names, ids)
            return cls(row, prices, np.array([len(names)], dtype=np.int64), ids, names)
        flat = list(chain.from_iterable(items))
        catalogue = tuple(dict.fromkeys(name for name, _ in flat))
        position = {name: i for i, name in enumerate(catalogue)}
        lengths = np.array([len(pairs) for pairs in items], dtype=np.int64)
        listed = _listed_mask(lengths, int(lengths.max(initial=0)))
        padded = np.zeros(listed.shape)
        padded[listed] = [score for _, score in flat]
        tool_ids = np.full(listed.shape, -1, dtype=np.int64)
        tool_ids[listed] = [position[name] for name, _ in flat]
        if isinstance(costs, Sequence):
            priced = np.zeros(listed.shape)
            priced[listed] = [own[name] for own, pairs in zip(costs, items, strict=True) for name, _ in pairs]
        else:
            priced = _costs_of_candidates(costs, catalogue, tool_ids)
        return cls(padded, priced, lengths, tool_ids, catalogue)

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def width(self) -> int:
        """m, the number of columns: the longest list, or more where the padding is wider."""
        return int(self.scores.shape[1])

    @property
    def listed(self) -> Bools:
        """(n, m): True where a candidate stands, False at padding. Also the nonterminal states t < length."""
        return _listed_mask(self.lengths, self.width)

    @property
    def shares_catalogue(self) -> bool:
        """True where every task lists every tool of one catalogue of at most 64: only there may identity be learned."""
        return 0 < len(self.catalogue) <= MAX_SHARED_CATALOGUE and bool((self.lengths == len(self.catalogue)).all())

    def places(self, position: Mapping[str, int]) -> Ints:
        """(n, m): where each candidate stands among tools with these positions; -1 for others, and at padding."""
        known = np.fromiter((*map(position.get, self.catalogue, repeat(-1)), -1), np.int64)
        return known[self.tool_ids]

    def names(self, row: int) -> list[str]:
        """The candidates of one task, in rank order."""
        return [self.catalogue[i] for i in self.tool_ids[row, : self.lengths[row]]]

    def among(self, tools: Collection[str]) -> Bools:
        """(n, m): which candidates are one of these tools."""
        marks: Bools = np.array([*(name in tools for name in self.catalogue), False])[self.tool_ids]
        return marks

    def with_costs(self, costs: Mapping[str, float] | Floats) -> Rankings:
        """The same rankings at other prices: a mapping from tool to cost, or an (n, m) array."""
        if isinstance(costs, Mapping):
            costs = _costs_of_candidates(costs, self.catalogue, self.tool_ids)
        return replace(self, costs=costs)

    def take(self, rows: Index) -> Rankings:
        """Some of the tasks, by slice, indices or mask. Views where numpy gives views; nothing is checked again."""
        return _unchecked(self, **{name: part[rows] for name, part in self.arrays_of_tasks().items()})

    def arrays_of_tasks(self) -> dict[str, Any]:
        """Every array that has a row for each task, by its name."""
        held = {name: getattr(self, name) for name in ("scores", "costs", "lengths", "tool_ids", "vectors", "users")}
        return {name: part for name, part in held.items() if part is not None}

    def order_by(self, keys: Floats) -> Ints:
        """(n, m) positions that sort every list by `keys`, largest first; ties keep their rank, padding stays last."""
        return np.argsort(np.where(self.listed, -keys, np.inf), axis=1, kind="stable")

    def reordered(self, order: Ints) -> Rankings:
        """Every list in another order, given as positions from `order_by`."""
        return replace(
            self,
            scores=np.take_along_axis(self.scores, order, axis=1),
            costs=np.take_along_axis(self.costs, order, axis=1),
            tool_ids=np.take_along_axis(self.tool_ids, order, axis=1),
        )

    def padded_to(self, width: int) -> Rankings:
        """The same rankings in a wider rectangle."""
        if width < self.width:
            raise UsageError(f"The 'width' must be at least {self.width}, the present one. Got {width} instead.")
        extra = ((0, 0), (0, width - self.width))
        return replace(
            self,
            scores=np.pad(self.scores, extra),
            costs=np.pad(self.costs, extra),
            tool_ids=np.pad(self.tool_ids, extra, constant_values=-1),
        )


@dataclass(frozen=True, eq=False)
class LoggedTasks:
    """Rankings, and what became known afterwards: which tools each task really required.

    `required` (n, m) marks the listed candidates that were required. `n_required` (n,) counts all required tools, the
    ones that the list misses included; where it exceeds the marks, no selection from the list is sufficient.
    `groups` (n,) names near-copies (one customer, one template) that must not be split between train and test; by
    default every task is its own group.

    Policies decide on `logged.rankings`, which holds nothing of the labels.
    """

    rankings: Rankings
    required: Bools
    n_required: Ints
    task_ids: Strings
    groups: Strings

    def __post_init__(self) -> None:
        n, m = self.rankings.scores.shape
        for name, array, shape in (
            ("required", self.required, (n, m)),
            ("n_required", self.n_required, (n,)),
            ("task_ids", self.task_ids, (n,)),
            ("groups", self.groups, (n,)),
        ):
            if array.shape != shape:
                raise UsageError(_must(name, "LoggedTasks", f"have shape {shape}, as the rankings demand", array.shape))
        if (self.required & ~self.rankings.listed).any():
            raise UsageError("The 'required' marks of LoggedTasks must not fall on padding.")
        if (self.required.sum(axis=1) > self.n_required).any():
            raise UsageError(
                _must("n_required", "LoggedTasks", "count every required tool, listed or not", self.n_required)
            )

    @classmethod
    def from_records(
        cls,
        records: Sequence[Mapping[str, Any]],
        costs: Mapping[str, float] | None = None,
        *,
        keep_order: bool = False,
    ) -> LoggedTasks:
        """Logged tasks from mappings with `scores` and `required`, and optionally `task_id` and `group`.

        `required` lists tool names; a name that is not among the scores counts as required and missing from the list.

        >>> logged = LoggedTasks.from_records([{"scores": {"mail": 0.1, "search": 0.9}, "required": ["search", "x"]}])
        >>> logged.required, logged.n_required
        (array([[ True, False]]), array([2]))
        """
        try:
            scores = [record["scores"] for record in records]
            wanted = [set(record["required"]) for record in records]
        except KeyError as error:
            raise UsageError(f"Each record must have 'scores' and 'required', and one lacks {error}. Add it.") from None
        rankings = Rankings.from_scores(scores, costs, keep_order=keep_order)
        flat = [name in wanted[row] for row in range(len(records)) for name in rankings.names(row)]
        required = np.zeros(rankings.scores.shape, dtype=bool)
        required[rankings.listed] = flat
        ids = np.array([str(record.get("task_id", i)) for i, record in enumerate(records)], dtype=np.str_)
        groups = np.array([str(record.get("group", ids[i])) for i, record in enumerate(records)], dtype=np.str_)
        return cls(rankings, required, np.array([len(names) for names in wanted], dtype=np.int64), ids, groups)

    def __len__(self) -> int:
        return len(self.rankings)

    @property
    def missing(self) -> Ints:
        """(n,): how many required tools each list lacks."""
        missing: Ints = self.n_required - self.required.sum(axis=1)
        return missing

    def sufficient(self, acquired: Bools) -> Bools:
        """(n,): whether the acquired candidates, (n, m), hold all that each task requires."""
        enough: Bools = (self.required & acquired).sum(axis=1) == self.n_required
        return enough

    def needing(self, tools: Collection[str]) -> LoggedTasks:
        """The same tasks where of the listed tools only these are needed. What lists lack is still needed."""
        required = self.required & self.rankings.among(tools)
        return replace(self, required=required, n_required=self.missing + required.sum(axis=1))

    def with_costs(self, costs: Mapping[str, float] | Floats) -> LoggedTasks:
        """The same tasks at other prices."""
        return replace(self, rankings=self.rankings.with_costs(costs))

    def take(self, rows: Index) -> LoggedTasks:
        """Some of the tasks, by slice, indices or mask."""
        return _unchecked(
            self,
            rankings=self.rankings.take(rows),
            required=self.required[rows],
            n_required=self.n_required[rows],
            task_ids=self.task_ids[rows],
            groups=self.groups[rows],
        )

    def reordered(self, order: Ints) -> LoggedTasks:
        """The same tasks with every list in another order (`rankings.order_by`)."""
        return replace(
            self,
            rankings=self.rankings.reordered(order),
            required=np.take_along_axis(self.required, order, axis=1),
        )

    def padded_to(self, width: int) -> LoggedTasks:
        """The same tasks in a wider rectangle."""
        extra = ((0, 0), (0, width - self.rankings.width))
        return replace(self, rankings=self.rankings.padded_to(width), required=np.pad(self.required, extra))

    def digest(self) -> str:
        """SHA-256 of the tasks: scores, costs, tools, vectors, required sets and groups, not padding, nor who asked."""
        import hashlib  # loads OpenSSL, which most decisions never need

        r = self.rankings
        listed = r.listed
        sha = hashlib.sha256("\0".join(r.catalogue).encode())
        for array in (r.lengths, self.n_required, r.scores[listed], r.costs[listed], r.tool_ids[listed]):
            sha.update(np.ascontiguousarray(array).tobytes())
        sha.update(self.required[listed].tobytes())
        if r.vectors is not None:
            sha.update(np.ascontiguousarray(r.vectors).tobytes())
        sha.update("\0".join(self.groups.tolist()).encode())
        return sha.hexdigest()


class GatedTasks(NamedTuple):
    """Tasks from which a gate had cut tools: what was cut could not be called, so that of it nothing is known.

    `offered` (n, m) marks the listed candidates that the agent could call.
    """

    logged: LoggedTasks
    offered: Bools

    def without(self, groups: Collection[str]) -> GatedTasks:
        """Those of other groups."""
        apart = ~np.isin(self.logged.groups, [*groups])
        return GatedTasks(self.logged.take(apart), self.offered[apart])


def joined(first: LoggedTasks, second: LoggedTasks) -> LoggedTasks:
    """The tasks of both, over one catalogue; vectors and users are kept where both have them."""
    catalogue = tuple(dict.fromkeys(first.rankings.catalogue + second.rankings.catalogue))
    position = {name: i for i, name in enumerate(catalogue)}
    width = max(first.rankings.width, second.rankings.width)
    both = [first.padded_to(width), second.padded_to(width)]
    vectors = [part.rankings.vectors for part in both if part.rankings.vectors is not None]
    users = [part.rankings.users for part in both if part.rankings.users is not None]
    rankings = Rankings(
        np.concatenate([part.rankings.scores for part in both]),
        np.concatenate([part.rankings.costs for part in both]),
        np.concatenate([part.rankings.lengths for part in both]),
        np.concatenate([part.rankings.places(position) for part in both]),
        catalogue,
        np.concatenate(vectors) if len(vectors) == 2 else None,
        np.concatenate(users) if len(users) == 2 else None,
    )
    return LoggedTasks(
        rankings,
        np.concatenate([part.required for part in both]),
        np.concatenate([part.n_required for part in both]),
        np.concatenate([part.task_ids for part in both]),
        np.concatenate([part.groups for part in both]),
    )


def pieces(rankings: Rankings, states: int = STATES_AT_ONCE) -> list[slice]:
    """Consecutive rows of about `states` states together; one piece, perhaps empty, where there are no more."""
    rows = max(1, states // max(rankings.width, 1))
    return [slice(start, start + rows) for start in range(0, max(len(rankings), 1), rows)]


def mean_ranks(scores: Floats) -> Floats:
    """(m,): 1 for the highest; equal scores share the mean of their places.

    >>> mean_ranks(np.array([0.2, 0.9, 0.2])).tolist()
    [2.5, 1.0, 2.5]
    """
    _, place, count = np.unique(-scores, return_inverse=True, return_counts=True)
    ranks: Floats = (np.cumsum(count) - (count - 1) / 2)[place]
    return ranks


def _listed_mask(lengths: Ints, width: int) -> Bools:
    listed: Bools = np.arange(width) < lengths[:, None]
    return listed


def _all_listed_are(good: Bools, listed: Bools) -> bool:
    return bool((good | ~listed).all())


def _costs_of_candidates(costs: Mapping[str, float] | None, catalogue: tuple[str, ...], tool_ids: Ints) -> Floats:
    if costs is None:
        return (tool_ids >= 0).astype(np.float64)
    unpriced = [name for name in catalogue if name not in costs]
    if unpriced:
        raise UsageError(f"The 'costs' must price every tool. Without a price: {', '.join(unpriced[:5])}.")
    table = np.array([costs[name] for name in catalogue] + [0.0], dtype=np.float64)
    return table[tool_ids]


def _must(name: str, owner: str, requirement: str, value: object) -> str:
    shown = repr(value)
    if isinstance(value, np.ndarray):
        shown = np.array2string(value, threshold=6, edgeitems=2)
    return f"The {name!r} of {owner} must {requirement}. Got {shown} instead."


def _unchecked(value: Table, **parts: Any) -> Table:
    """A copy with other parts that are known to be good, such as slices of checked ones."""
    copy = object.__new__(type(value))
    copy.__dict__.update(value.__dict__, **parts)
    return copy

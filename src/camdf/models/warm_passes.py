"""The fit of `camdf.models.warm_start` in passes that add up, for tasks that no one place holds.

A pass asks every batch for a value and adds the values up (`camdf.models.newton.Total`). The first counts, by fold;
from the counts every batch makes its own rows. Then each pass moves all searches of Newton's method one step at once:
folds and strengths, and the sizes of sets. A pass over held-out tasks gives the losses that strengths and flips are
chosen by. Formulas and choices are those of one machine; only who sums differs.

What is learned, coefficients, tools and histories, is learned from every task. What is chosen, the prior, strength,
flips and the law of set sizes, is chosen on all of up to `COMPARED` tasks; of more, on a sample of whole groups that
comes to one place.

All tasks of a group lie in one batch, so that what a group counts and loses is known there. Texts are not read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from operator import add
from typing import Generic, NamedTuple, TypeAlias
from zlib import crc32

import numpy as np

from camdf.core.groups import numbered
from camdf.core.rankings import Floats, Ints, LoggedTasks, Strings, joined, pieces
from camdf.models.design import Counts, Setting, Starts, TaskReading, weights_of
from camdf.models.membership import FOLDS, MembershipModel
from camdf.models.newton import T, Total, over
from camdf.models.posterior import Fitted, Search, Sums, believed, sums_of
from camdf.models.prior import Prior
from camdf.models.set_law import SHARPNESS, LawSearch, LawSums, SetLaw, SizedTasks, likeliest_law, required_sizes
from camdf.models.warm_start import FEWEST_TASKS, Fall, LossComparison, predicted, required_sets, task_losses

ROWS_AT_ONCE = 8192
"""Candidates as rows in memory together, about."""

NO_FOLD = -1
"""What a part that learns from every task holds out."""

COMPARED = 20_000
"""The number of tasks beyond which a sample of about as many, brought to one place, is enough to choose on."""

MOST_OF_A_GROUP = 1000
"""The most tasks of one group in such a sample."""

FoldsOf: TypeAlias = Callable[[Strings], Ints]
"""From the groups of tasks, (n,), to the fold of each, below `FOLDS`. A cluster sends it to its workers."""


def hashed_folds(groups: Strings) -> Ints:
    """(n,): a fold for every group by a hash of its name, which takes no list of all names."""
    return _hashed(groups, FOLDS)


def fit_warm_in_passes(
    total: Total,
    priors: Sequence[Prior],
    shared: bool = False,
    *,
    trust_labels: bool = False,
    folds_of: FoldsOf = hashed_folds,
) -> MembershipModel:
    """The model of all tasks behind `total`; `shared` where all list the same tools, and these may differ."""
    every = _Passes(total, folds_of)
    some = every
    if every.tasks > COMPARED:
        sample = _Passes(over([total(partial(_sample_of, COMPARED / every.tasks)).logged]), folds_of)
        some = sample if sample.tasks >= FEWEST_TASKS else every
    whole, setting, law = some.chosen(priors, shared, trust_labels)
    some.settle([(whole, setting)])
    if some is not every:
        start = whole.searched[setting].found
        whole = every.part(whole.reading.prior, shared)
        whole.starts[setting.strength] = start
        every.settle([(whole, setting)])
    search = whole.searched[setting]
    after = believed(search.sums, search.found, whole.reading.before(setting))
    return whole.reading.model(after, setting.flips, law)


@dataclass(frozen=True, eq=False)
class FoldTally:
    """The counts of every fold over the tools that some tasks list. Those of other tasks are added tool by tool."""

    catalogue: tuple[str, ...]
    by_fold: tuple[Counts, ...]

    def __add__(self, other: FoldTally) -> FoldTally:
        catalogue = tuple(sorted({*self.catalogue, *other.catalogue}))
        pairs = zip(self.over(catalogue).by_fold, other.over(catalogue).by_fold, strict=True)
        return FoldTally(catalogue, tuple(one + two for one, two in pairs))

    def over(self, catalogue: tuple[str, ...]) -> FoldTally:
        """The same over a catalogue that holds at least these tools."""
        if catalogue == self.catalogue:
            return self
        position = {name: i for i, name in enumerate(catalogue)}
        place = np.array([position[name] for name in self.catalogue], dtype=np.int64)

        def moved(counts: Floats) -> Floats:
            wide = np.zeros(len(catalogue))
            wide[place] = counts
            return wide

        return FoldTally(
            catalogue, tuple(Counts(moved(each.seen), moved(each.wanted), each.missing) for each in self.by_fold)
        )


@dataclass(frozen=True, eq=False)
class Sample:
    """Some tasks of every batch, which add up to one batch."""

    logged: LoggedTasks

    def __add__(self, other: Sample) -> Sample:
        return Sample(joined(self.logged, other.logged))


@dataclass(frozen=True, eq=False)
class Each(Generic[T]):
    """Several values of one pass, each added to its like."""

    values: tuple[T, ...]

    def __add__(self, other: Each[T]) -> Each[T]:
        return Each(tuple(map(add, self.values, other.values)))


@dataclass(frozen=True, eq=False)
class HeldLosses:
    """Held-out losses of some groups under several settings: their sums, and their falls from the first setting."""

    losses: Floats
    falls: Each[Fall]

    def __add__(self, other: HeldLosses) -> HeldLosses:
        return HeldLosses(self.losses + other.losses, self.falls + other.falls)


@dataclass(frozen=True, eq=False)
class _Part:
    """What is learned from all tasks but those of one fold: how they become rows, and the searches so far."""

    held: int
    reading: TaskReading
    starts: Starts
    searched: dict[Setting, Search]


class _Asked(NamedTuple):
    """Where the sums of one search are wanted: of which reading, on all but which fold."""

    reading: int
    held: int
    setting: Setting
    at: Fitted


class _Read(NamedTuple):
    """How a fold is read, and the model of each setting for it."""

    held: int
    reading: TaskReading
    fitted: tuple[Fitted, ...]


class _Passes:
    """The passes over some tasks, which have been counted."""

    def __init__(self, total: Total, folds_of: FoldsOf) -> None:
        self.total = total
        tally = total(partial(_tally_of, folds_of))
        self.catalogue, self.counts = tally.catalogue, dict(enumerate(tally.by_fold))
        self.tasks = sum(counts.tasks for counts in self.counts.values())
        self.batch = partial(_Batch, folds_of, {name: i for i, name in enumerate(self.catalogue)})

    def part(self, prior: Prior, shared: bool, held: int = NO_FOLD) -> _Part:
        """What can be learned from all tasks but those of one fold, before anything is."""
        counts = reduce(add, (each for fold, each in self.counts.items() if fold != held))
        return _Part(held, TaskReading.of(self.catalogue, counts, prior, shared), Starts(), {})

    def chosen(self, priors: Sequence[Prior], shared: bool, trust_labels: bool) -> tuple[_Part, Setting, SetLaw]:
        """What labels speak for: the part of all tasks under one of the priors, a setting, and a law of set sizes."""
        parts = [self.part(prior, shared) for prior in priors]
        self.settle([(part, Setting()) for part in parts])
        whole = min(parts, key=lambda part: part.searched[Setting()].found.loss)
        numbers = [fold for fold, counts in self.counts.items() if counts.tasks]
        if len(numbers) < 2 or self.tasks < FEWEST_TASKS:
            return whole, Setting(), SetLaw()
        folds = [self.part(whole.reading.prior, shared, held) for held in numbers]
        for fold in folds:
            fold.starts.update(whole.starts)
        setting = _InPasses(self, folds).chosen(shared, trust_labels)
        return whole, setting, self.law(folds, setting)

    def settle(self, wanted: Sequence[tuple[_Part, Setting]]) -> None:
        """Search for all of them at once, a step a pass, each from the nearest one that its part knows."""
        searches = [
            Search(part.reading.before(setting), part.starts.nearest(setting.strength)) for part, setting in wanted
        ]
        readings = list(dict.fromkeys(part.reading for part, _ in wanted))
        while running := [i for i, search in enumerate(searches) if not search.settled]:
            asked = [
                _Asked(readings.index(wanted[i][0].reading), wanted[i][0].held, wanted[i][1], searches[i].at)
                for i in running
            ]
            found = self.total(partial(_sums_of, self.batch, readings, asked))
            for i, sums in zip(running, found.values, strict=True):
                searches[i].tell(sums)
        for (part, setting), search in zip(wanted, searches, strict=True):
            part.searched[setting] = search
            if not setting.flips:
                part.starts[setting.strength] = search.found

    def held_out(self, folds: Sequence[_Part], settings: Sequence[Setting]) -> HeldLosses:
        """The losses of every fold under the models that have not seen it."""
        return self.total(partial(_held_losses_of, self.batch, self._read(folds, settings), settings))

    def law(self, folds: Sequence[_Part], setting: Setting) -> SetLaw:
        """The law of set sizes: all sharpnesses at once, a step a pass."""
        read = self._read(folds, [setting])
        searches = [LawSearch(each) for each in SHARPNESS]
        while running := [search for search in searches if not search.settled]:
            at = [(search.sharpness, search.log_g) for search in running]
            found = self.total(partial(_law_sums_of, self.batch, read, setting, at))
            if not found.values[0].required.any():
                return SetLaw()
            for search, sums in zip(running, found.values, strict=True):
                search.tell(sums)
        return likeliest_law(searches)

    def _read(self, folds: Sequence[_Part], settings: Sequence[Setting]) -> list[_Read]:
        return [
            _Read(part.held, part.reading, tuple(part.searched[setting].found for setting in settings))
            for part in folds
        ]


class _InPasses(LossComparison):
    """Settings compared by passes: their losses, and how each compares with the first of those tried with it."""

    def __init__(self, passes: _Passes, folds: Sequence[_Part]) -> None:
        self.passes, self.folds = passes, folds
        self.losses: dict[Setting, float] = {}
        self.falls: dict[tuple[Setting, Setting], Fall] = {}

    def try_out(self, settings: Sequence[Setting]) -> None:
        new = [setting for setting in settings if setting not in self.losses]
        self.passes.settle([(part, setting) for setting in new for part in self.folds])
        held = self.passes.held_out(self.folds, settings)
        self.losses |= zip(settings, held.losses.tolist(), strict=True)
        self.falls |= {(settings[0], each): fall for each, fall in zip(settings, held.falls.values, strict=True)}

    def loss(self, setting: Setting) -> float:
        return self.losses[setting]

    def fall(self, first: Setting, other: Setting) -> Fall:
        return self.falls[first, other]


def _hashed(names: Strings, below: int, salt: int = 0) -> Ints:
    """(n,): a number below `below` for every name, the same in every process."""
    distinct, number = np.unique(names, return_inverse=True)
    hashes = (crc32(str(name).encode(errors="surrogatepass"), salt) % below for name in distinct)
    return np.fromiter(hashes, np.int64, len(distinct))[number]


# What a batch says in each kind of pass. A cluster sends these functions to its workers.


class _Batch:
    """Tasks of one batch over the catalogue of all, in pieces whose rows fit in the cache."""

    def __init__(self, folds_of: FoldsOf, position: Mapping[str, int], logged: LoggedTasks) -> None:
        rankings = logged.rankings
        ids = rankings.places(position)
        self.logged = replace(logged, rankings=replace(rankings, tool_ids=ids, catalogue=tuple(position)))
        self.fold = folds_of(logged.groups)

    def pieces(self) -> Iterator[tuple[slice, LoggedTasks, Ints]]:
        for rows in pieces(self.logged.rankings, ROWS_AT_ONCE):
            yield rows, self.logged.take(rows), self.fold[rows]


_BatchOf: TypeAlias = Callable[[LoggedTasks], _Batch]


def _sample_of(share: float, logged: LoggedTasks) -> Sample:
    """Those groups of a batch that a hash of their name chooses, and not too many tasks of each."""
    number, _ = numbered(logged.groups)
    order = np.argsort(number, kind="stable")
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order)) - np.searchsorted(number[order], number[order])
    chosen = _hashed(logged.groups, 1 << 20, salt=1) < share * (1 << 20)
    return Sample(logged.take(chosen & (place < MOST_OF_A_GROUP)))


def _tally_of(folds_of: FoldsOf, logged: LoggedTasks) -> FoldTally:
    fold = folds_of(logged.groups)
    counts = tuple(Counts.of(logged.take(fold == number)) for number in range(FOLDS))
    names = tuple(sorted(logged.rankings.catalogue))
    return FoldTally(logged.rankings.catalogue, counts).over(names)


def _sums_of(
    batch_of: _BatchOf, readings: Sequence[TaskReading], asked: Sequence[_Asked], logged: LoggedTasks
) -> Each[Sums]:
    batch = batch_of(logged)
    weights = {each.setting.strength.weigh_groups: weights_of(logged, each.setting.strength) for each in asked}
    found: dict[int, Sums] = {}
    for where, some, fold in batch.pieces():
        for number, held in dict.fromkeys((each.reading, each.held) for each in asked):
            taught = some.take(fold != held)
            rows, order = readings[number].taught(taught)
            task = np.repeat(np.flatnonzero(fold != held), taught.rankings.lengths)[order]
            weighted = {weigh: rows.weighted(each[where][task]) for weigh, each in weights.items()}
            for i, each in enumerate(asked):
                if (each.reading, each.held) == (number, held):
                    setting = each.setting
                    sums = sums_of(weighted[setting.strength.weigh_groups], each.at, setting.flips)
                    found[i] = found[i] + sums if i in found else sums
    return Each(tuple(found[i] for i in range(len(asked))))


def _held_losses_of(
    batch_of: _BatchOf, folds: Sequence[_Read], settings: Sequence[Setting], logged: LoggedTasks
) -> HeldLosses:
    by_task = np.zeros((len(settings), len(logged)))
    for where, some, fold in batch_of(logged).pieces():
        for part in folds:
            held = fold == part.held
            others = some.take(held)
            rows = part.reading.others(others.rankings)
            for losses, setting, fitted in zip(by_task[:, where], settings, part.fitted, strict=True):
                losses[held] = task_losses(fitted, rows, others, setting.flips)
    group, groups = numbered(logged.groups)
    by_group = np.array([np.bincount(group, weights=losses, minlength=groups) for losses in by_task])
    return HeldLosses(by_group.sum(axis=1), Each(tuple(Fall.of(by_group[0], each) for each in by_group)))


def _law_sums_of(
    batch_of: _BatchOf,
    folds: Sequence[_Read],
    setting: Setting,
    at: Sequence[tuple[float, Floats]],
    logged: LoggedTasks,
) -> Each[LawSums]:
    weights = weights_of(logged, setting.strength)
    found: Each[LawSums] | None = None
    for where, some, fold in batch_of(logged).pieces():
        probability = np.zeros(some.required.shape)
        for part in folds:
            held = fold == part.held
            others = some.rankings.take(held)
            probability[held] = predicted(part.fitted[0], part.reading.others(others), others.listed)
        chance, needed, listed, counted = required_sets(some, probability, weights[where], setting.flips)
        required = required_sizes(needed, listed, counted)
        sums = Each(
            tuple(
                SizedTasks.of(chance, needed, listed, counted, required, sharpness).sums(log_g)
                for sharpness, log_g in at
            )
        )
        found = sums if found is None else found + sums
    assert found is not None
    return found

"""A table of tasks that grows with what arrives, and is at any time what mining everything at once would give.

A task may change as long as spans of its trace arrive: late ones, second versions, the end of a run that began before
midnight. So the spans of the last few days stay beside the tasks, and an arrival mines again only the traces that its
spans are part of, and joins again the pieces of tasks in these (`camdf_traces.buckets` has the layout).

An arrival is two commits. The first puts the spans down, and no two writers get into each other's way. The second puts
down the tasks of all spans that nobody has mined yet, and says which version of the spans they are of. Whoever loses
that race finds the work done, or does it again; whoever is killed in between leaves it to the next. Runs that may be
pieces of a task are put down between the two, and again by whoever comes next where the second is missing. The order
of arrivals, their number and their repetition change nothing.
"""

from __future__ import annotations

import secrets
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from datetime import date, timedelta
from functools import partial
from hashlib import blake2b
from os import fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from camdf.datasets.counts import in_one_line
from camdf.datasets.files import File
from camdf.errors import DataError, UsageError, require
from camdf_traces.buckets import (
    OPEN,
    PIECE,
    ROW,
    RUNS,
    SPAN_PLACE,
    SPANS,
    Bucket,
    Changes,
    Rules,
    arrive,
    by_bucket,
    erase_bucket,
    join_bucket,
    mine_bucket,
)
from camdf_traces.delta import LEFTOVER_HOURS, DataFile, DeltaFolder, LostRaceError, discard, is_delta
from camdf_traces.ids import Forgotten
from camdf_traces.runs import TASK_COLUMNS
from camdf_traces.span_files import Source, in_parts, rows_in
from camdf_traces.spans import NANOSECONDS_A_DAY, arrow_of, no_rows, without_nulls

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa

T = TypeVar("T")
SCHEMA = 2
"""The version of the table's columns. A table of another version is refused."""

FIXED = ("require_outcome", "with_text", "watermark")
"""The rules that may not change from day to day."""

MINED = "camdf"
"""The number that commits of tasks carry: the version of the spans that the tasks are of."""

SPANS_A_BUCKET = 500_000
"""How many spans a day a bucket is made for: what a worker then holds is some hundred megabytes."""

GRACE_HOURS = 1
"""For how long files that have left the table stay for whoever still reads them."""

MapBuckets: TypeAlias = Callable[[Callable[[Bucket], Changes], Iterable[Bucket]], Iterable[Changes]]
"""What applies a worker's function to every bucket: `map`, or a cluster."""


@dataclass(frozen=True)
class MinedDay:
    """What an arrival brought: `read` is the sum of the eight counts after it."""

    day: date
    read: int
    new: int
    """Spans that are used, and that the day did not have before."""

    repeated: int
    nameless: int
    """Spans without a trace_id or a span_id, which belong to no trace."""

    ahead: int
    """Spans held back because they begin later than they can have arrived: a clock is wrong."""

    late: int
    """Spans held back because they began too long before the day."""

    settled: int
    """Spans held back because the others of their trace are gone; its tasks stay as they are."""

    forgotten: int
    """Spans left out because they are of what was to be forgotten."""

    traces: int
    """Traces that were mined, because spans of theirs came, changed or went."""

    waiting: int
    """Those of them that have no task, because spans of theirs are held back as ahead or late."""

    added: int
    changed: int
    removed: int
    version: int
    """The version of the table."""

    runs: dict[str, int]
    """What became of the runs of these traces: those begun are tasks and those left out, by reason."""

    @property
    def sums(self) -> dict[str, dict[str, int]]:
        """What adds up: spans read are new ones and others, runs begun are tasks and those left out."""
        spans = {
            "read": self.read,
            "new": self.new,
            "repeated": self.repeated,
            "without an id": self.nameless,
            "ahead of the clock and held back": self.ahead,
            "too late and held back": self.late,
            "of traces whose spans are gone": self.settled,
            "to be forgotten": self.forgotten,
        }
        return {"spans": spans, "runs": self.runs}

    def __str__(self) -> str:
        spans, runs = (in_one_line(what, counts) for what, counts in self.sums.items())
        lines = [
            f"{self.day}: {spans}",
            f"{self.traces:,} traces were mined: {self.added:,} tasks added, {self.changed:,} changed, "
            f"{self.removed:,} removed.",
            runs,
        ]
        if self.waiting:
            lines.append(f"{self.waiting:,} traces have no task, because spans of theirs are held back.")
        return "\n".join(lines)


def mine_day(
    source: Source,
    table: File,
    day: date,
    *,
    watermark: int = 2,
    keep_days: int | None = None,
    require_outcome: bool = False,
    with_text: bool = False,
    ahead_hours: float = 1.0,
    id_key: bytes | None = None,
    replace: bool = False,
    spans_a_day: int | None = None,
    grace_hours: int = GRACE_HOURS,
    numbers: Mapping[str, int] | None = None,
) -> MinedDay:
    """Bring spans that arrived on a day into a table of tasks, which is made where there is none.

    Run for a day again, it adds what is new and lets a span that changed take the place of what the day had of it; with
    `replace` what it reads takes the place of all that the day had. Days may come in any order, as long as none is more
    than `watermark` days before the last. A span counts if it began at most `watermark` days before the day, and at
    most `ahead_hours` after it; others are held back. Tasks and spans that began more than `keep_days` days before the
    last day are deleted. With an `id_key`, ids of sessions and users are hashed.

    The tasks are those of mining all days at once if the spans of each trace, and the pieces of each task, arrive
    within `watermark` days of one another. `spans_a_day` is how many the table is made for, by default those of the
    first arrival; a part of `SPANS_A_BUCKET` a day must fit into memory. Files that have left the table are deleted
    after `grace_hours`. Any number of processes may do this at a time. The commit of the spans carries `numbers`, which
    `last_number` tells.
    """
    rules = Rules(watermark, keep_days, require_outcome, with_text, ahead_hours, id_key)
    days = Days.opened(table, rules, lambda: rows_in(source) if spans_a_day is None else spans_a_day)
    days.refuse_early(day)

    def put_down(number: int, rows: pl.DataFrame) -> Changes:
        own = days.all_buckets()[number]
        return arrive(own, rows, day, end_of(day), rules, replace=replace)

    arrived = Changes()
    for part in in_parts(source, rules.columns()):
        for bucket in by_bucket(part, days.buckets).items():
            arrived.include([days.retried(partial(put_down, *bucket))])
    return days.brought(arrived, day, replace=replace, grace_hours=grace_hours, numbers=numbers)


def last_number(table: File, name: str) -> int | None:
    """The number of this name that the spans beside a table carry; None where there is no table yet."""
    return DeltaFolder(f"{fspath(table)}/{SPANS}").number(name) if is_days(table) else None


class Days:
    """The tasks and the spans beside them, as one writer finds them."""

    def __init__(self, table: File, rules: Rules) -> None:
        self.root = fspath(table)
        self.rules = rules
        self._tasks = DeltaFolder(self.root)
        self.settings = self._tasks.settings
        if not isinstance(self.settings, dict) or self.settings.get("camdf") != SCHEMA:
            raise DataError(
                f"{self.root}: must be a table of tasks with schema {SCHEMA}. Mine the days again into another."
            )
        beside = {**rules.span_columns(), **SPAN_PLACE}
        self._spans = DeltaFolder.made(f"{self.root}/{SPANS}", "spans", beside, [*SPAN_PLACE], self.settings)
        self._tasks.widen(ROW)
        self._spans.widen(beside)
        self.forgotten = Forgotten.read(self.root, self.settings["salt"])

    @classmethod
    def opened(cls, table: File, rules: Rules, spans_a_day: Callable[[], int]) -> Days:
        """The table that is mined by these rules; an empty one where there is none."""
        root = fspath(table)
        settings = _settings_of_a_table(rules)
        if not is_delta(root):
            if "://" not in root and Path(root).exists() and any(Path(root).iterdir()):
                raise DataError(f"{root}: must be a table of camdf's, or not be there yet. Name another folder.")
            made = {"buckets": max(1, -(-spans_a_day() // SPANS_A_BUCKET)), "salt": secrets.token_hex(16)}
            DeltaFolder.made(root, "tasks", ROW, ["bucket", "day"], {"camdf": SCHEMA, **settings, **made})
        days = cls(table, rules)
        for name, value in settings.items():
            if days.settings.get(name) != value:
                before = days.settings.get(name)
                raise UsageError(f"{root} was made with {name}={before}, and every day of it must be. Got {value}.")
        return days

    @classmethod
    def as_it_is(cls, table: File, id_key: bytes | None) -> Days:
        """The table by its own rules; raises where its ids were hashed with another key."""
        known = DeltaFolder(fspath(table)).settings or {}
        fixed = {name: known[name] for name in FIXED if name in known}
        return cls.opened(table, Rules(**fixed, id_key=id_key), lambda: 0)

    @property
    def buckets(self) -> int:
        """Into how many parts the table is divided."""
        return int(self.settings["buckets"])

    def last(self, *days: date) -> date:
        """The last day on which something arrived, these included."""
        known = [file.value("arrived") for file in self._spans.files if file.values["held"] == OPEN]
        return max([date(1970, 1, 1), *days, *map(date.fromisoformat, known)])

    def number(self, name: str) -> int | None:
        """The number of this name that the spans carry."""
        return self._spans.number(name)

    def refuse_early(self, day: date) -> None:
        """Raise if a day comes after one so much later that its spans may be gone."""
        last = self.last(day)
        watermark = self.rules.watermark
        if day < last - timedelta(watermark):
            raise UsageError(
                f"The day must be at most {watermark} days before the last one of {self.root}, {last}, as the spans "
                f"of earlier days are not kept. Got {day}. Mine the days from then on into another table."
            )

    def all_buckets(self) -> list[Bucket]:
        """Every bucket, as workers need it; in the last one are the tasks of what may be pieces."""
        empty = Bucket(self.root, self.buckets, self._spans.version, self.last(), self.forgotten)
        tasks = _by_bucket_number(self._tasks.files)
        spans = _by_bucket_number(file for file in self._spans.files if file.values["held"] != PIECE)
        pieces = _by_bucket_number(file for file in self._spans.files if file.values["held"] == PIECE)
        mined = _by_bucket_number(file for file in self._mined_files() if file.values["held"] != PIECE)
        joined = tasks[self.buckets]
        buckets = [
            replace(
                empty,
                number=number,
                tasks=tasks[number],
                spans=spans[number],
                mined=mined[number],
                pieces=pieces[number],
                joined=joined,
            )
            for number in range(self.buckets)
        ]
        return [*buckets, replace(empty, tasks=joined)]

    def _mined_files(self) -> list[DataFile]:
        """The files beside the tasks that these are of; none where nobody knows any more, and all are mined again."""
        version = self._tasks.number(MINED)
        if version is None:
            return []
        try:
            return self._spans.files_at(version)
        except LookupError:
            return []

    def brought(
        self,
        arrived: Changes,
        day: date,
        *,
        replace: bool = False,
        grace_hours: int = GRACE_HOURS,
        map_buckets: MapBuckets = map,
        numbers: Mapping[str, int] | None = None,
    ) -> MinedDay:
        """The table once these files of spans are in it, and their tasks are mined; the commit carries `numbers`."""
        before = self.last()
        self.retried(lambda: self._put_down(arrived, day if replace else None, numbers or {}))
        if arrived.forgotten:
            self.erase(arrived.forgotten, map_buckets)
        counts = arrived.counts + self.retried(partial(self._mine_all, map_buckets))
        self.vacuum(grace_hours)
        if before < self.last():
            self.vacuum(LEFTOVER_HOURS, leftovers=True)
        counts["new"] = counts[OPEN]
        other = ("day", "version", "runs")
        named = {column.name: counts[column.name] for column in fields(MinedDay) if column.name not in other}
        runs = {name.removeprefix(RUNS): count for name, count in counts.items() if name.startswith(RUNS)}
        return MinedDay(day, **named, version=self._tasks.version, runs={"begun": 0, "tasks": 0, **runs})

    def retried(self, work: Callable[[], T]) -> T:
        """What comes of some work, which is done again where another writer was first, or has deleted what it reads."""
        while True:
            seen = self._tasks.version, self._spans.version
            try:
                return work()
            except (LostRaceError, FileNotFoundError):
                self._reload()
                if seen == (self._tasks.version, self._spans.version):
                    raise

    def _put_down(self, arrived: Changes, replaced: date | None, numbers: Mapping[str, int]) -> None:
        files = [file for file in self._spans.files if file.values["held"] != PIECE]
        remove = [file for file in files if file.value("arrived") == str(replaced)]
        if arrived.add_spans or remove or numbers:
            self._spans.commit(arrived.add_spans, remove, **numbers)

    def _mine_all(self, map_buckets: MapBuckets) -> Counter[str]:
        """Mine what nobody has mined yet, join pieces, and let old spans go; what was counted."""
        *buckets, last = self.all_buckets()
        version = self._spans.version
        done = Changes().include(map_buckets(partial(mine_bucket, rules=self.rules), buckets))
        gone = {file.path for file in done.remove_pieces}
        pieces = [file for bucket in buckets for file in bucket.pieces if file.path not in gone] + done.add_pieces
        if pieces or last.tasks:
            joining = partial(join_bucket, touched=done.touched, rules=self.rules)
            done.include(map_buckets(joining, [replace(last, pieces=pieces)]))
        gone = {file.path for file in done.remove}
        oldest = self.rules.oldest(last.last)
        old = [file for file in self._tasks.files if "" < file.value("day") < oldest and file.path not in gone]
        try:
            if done.add_pieces or done.remove_pieces:  # before the tasks: who is killed in between mines them again
                self._spans.commit(done.add_pieces, done.remove_pieces, **{PIECE: version})
                done.add_pieces = []
            if done.add or done.remove or old or done.counts["moved"]:
                self._tasks.commit(done.add, done.remove + old, **{MINED: version})
        except LostRaceError:
            discard(self.root, done.add)
            discard(self._spans.root, done.add_spans + done.add_pieces)
            raise
        try:
            if done.add_spans or done.remove_spans:
                self._spans.commit(done.add_spans, done.remove_spans)
        except LostRaceError:  # whoever was first has let the old spans go
            discard(self._spans.root, done.add_spans)
        return done.counts

    def erase(self, traces: Iterable[str] = (), map_buckets: MapBuckets = map) -> Counter[str]:
        """Take out all that is to be forgotten, and remember its traces and these; what was counted."""
        self._remember_forgotten(traces)
        return self.retried(partial(self._erase_all, map_buckets))

    def _remember_forgotten(self, traces: Iterable[str]) -> None:
        self.forgotten.remember(self.root, [("trace_id", trace) for trace in traces])
        self._reload()

    def _erase_all(self, map_buckets: MapBuckets) -> Counter[str]:
        done = Changes().include(map_buckets(erase_bucket, self.all_buckets()[:-1]))
        self._remember_forgotten(done.forgotten)
        done.include(map_buckets(erase_bucket, self.all_buckets()[-1:]))  # the tasks of pieces of all these traces
        if done.remove_spans:
            self._spans.commit(done.add_spans, done.remove_spans, **{PIECE: self._spans.version})
        if done.remove:
            self._tasks.commit(done.add, done.remove)
        return done.counts

    def vacuum(self, hours: int, *, leftovers: bool = False) -> None:
        """Delete the files that left the table so long ago, and with `leftovers` those of writers that died."""
        for folder in (self._tasks, self._spans):
            folder.vacuum(hours, leftovers=leftovers)

    def without_history(self) -> None:
        """Delete what the logs tell of earlier versions."""
        for folder in (self._tasks, self._spans):
            folder.without_history()

    def _reload(self) -> None:
        self._tasks.refresh()
        self._spans.refresh()
        self.forgotten = Forgotten.read(self.root, self.settings["salt"])


def end_of(day: date) -> int:
    """The nanosecond since 1970 at which a day in UTC is over."""
    return ((day - date(1970, 1, 1)).days + 1) * NANOSECONDS_A_DAY


def read_days(table: File) -> pa.Table:
    """The tasks of a table as an Arrow table, in the order and with the columns that `mine` gives them."""
    polars = require("polars", "mining")
    folder = DeltaFolder(fspath(table))
    while True:
        try:
            tasks = polars.concat(
                [no_rows(TASK_COLUMNS), polars.from_arrow(folder.arrow(TASK_COLUMNS))], how="diagonal"
            )
            whole = without_nulls(tasks, TASK_COLUMNS).sort("time", "task_id", nulls_last=True)
            return arrow_of(whole, TASK_COLUMNS)
        except OSError:  # its files were vacuumed while they were read: there is a newer version
            version = folder.version
            folder.refresh()
            if version == folder.version:
                raise


def is_days(table: File) -> bool:
    """Whether a place is such a table."""
    return is_delta(fspath(table))


def _settings_of_a_table(rules: Rules) -> dict[str, Any]:
    """What may not change from day to day."""
    ids = "plain"
    if rules.id_key is not None:
        ids = blake2b(rules.id_key, digest_size=8).hexdigest()
    fixed = {name: getattr(rules, name) for name in FIXED}
    return {**fixed, "ids": ids}


def _by_bucket_number(files: Iterable[DataFile]) -> dict[int, list[DataFile]]:
    """Files by the number of their bucket."""
    by_number = defaultdict[int, list[DataFile]](list)
    for file in files:
        by_number[int(file.value("bucket"))].append(file)
    return by_number

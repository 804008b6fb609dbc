"""One bucket of a table of days: what arrives is put down, and the tasks that it changes are mined again.

    TABLE/              a Delta table of tasks, partitioned by bucket and by the day on which each began
    TABLE/_spans/       a Delta table of the spans that may still change a task, by bucket and by the day of arrival
    TABLE/_forgotten/   what the table was told to forget (`camdf_traces.ids`)

All spans of a trace are in one bucket, so a worker needs to know of no other bucket, and a bucket must fit into a
worker's memory. A worker writes files; the commits that name them are `camdf_traces.days`'.

Only the pieces of a task (`camdf_traces.pieces`) lie in several traces. A run that may be one stays beside the spans of
its bucket, and is no task yet. The tasks of all such runs are in a bucket of their own, the last one: one worker joins
them, conversation by conversation. The pieces of a conversation stay as long as one of them is new.

Nothing that arrives is thrown away unless it was to be forgotten. A span that cannot be used is held back:

    ahead    it begins later than it can have arrived, so its clock is wrong
    late     it began more days before its arrival than the watermark has
    settled  the spans of its trace are gone, and the task that they made stays as it is

A trace with a span that is ahead or late has no task, since nobody knows what the span would have changed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import date, timedelta
from typing import TYPE_CHECKING
from zlib import crc32

from camdf.errors import UsageError, require
from camdf_traces.delta import DataFile, read_data, write_data
from camdf_traces.ids import IDS, Forgotten, with_hashed_ids
from camdf_traces.pieces import joined_pieces, may_be_piece
from camdf_traces.runs import RUN_COLUMNS, SPAN_KEY, TASK_COLUMNS, has_ids
from camdf_traces.spans import SPAN_COLUMNS, day_of, no_rows, without_nulls
from camdf_traces.tasks import Mined, mined_from, runs_in

if TYPE_CHECKING:
    import polars as pl

WATERMARK = 2
"""For how many days after a span began it may still arrive."""

AHEAD_HOURS = 1.0
"""By how much a clock may be ahead."""

MOST_DAYS = 36_500
"""A century: more days than that are a slip of the pen."""

NANOSECONDS_AN_HOUR = 3_600_000_000_000

ROW = {**TASK_COLUMNS, "trace_id": "text", "bucket": "text", "day": "text"}
"""A task as the table has it: `day` is that of its `time` in UTC, and null where it has none."""

TOUCHED = ("trace_id", "conversation", "time")
"""What the worker that joins pieces must know of a run."""

SPANS = "_spans"
"""The folder of the table of spans, within that of the tasks."""

SPAN_PLACE = {"bucket": "text", "arrived": "text", "held": "text"}
"""The columns by which the table of spans is divided: the day of arrival, and why a span is held back."""

OPEN = "no"
"""The value of `held` for spans that are used."""

PIECE = "piece"
"""The value of `held` for files of runs that may be pieces of a task; they have the columns of a run."""

RUNS = "runs "
"""How the names of counts begin that tell what became of runs."""

HELD_BACK = ("ahead", "late")
"""Why spans are held back whose traces must wait for them."""


@dataclass(frozen=True)
class Rules:
    """What every day of a table is mined by; see `camdf_traces.days.mine_day`."""

    watermark: int = WATERMARK
    keep_days: int | None = None
    require_outcome: bool = False
    with_text: bool = False
    ahead_hours: float = AHEAD_HOURS
    id_key: bytes | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        for name in ("watermark", "keep_days"):
            days = getattr(self, name)
            if name == "keep_days" and days is None:
                continue
            if isinstance(days, bool) or not isinstance(days, int) or not 0 <= days <= MOST_DAYS:
                raise UsageError(
                    f"The {name!r} of a table of days must be a whole number of days from 0 to {MOST_DAYS}. "
                    f"Got {days!r} instead."
                )
        if not 0 <= self.ahead_hours <= 24 * MOST_DAYS:
            raise UsageError(f"The 'ahead_hours' of a table of days must not be negative. Got {self.ahead_hours!r}.")

    def span_columns(self) -> dict[str, str]:
        """The columns of spans that are kept, and the version of the table that each row found."""
        kept = {name: kind for name, kind in SPAN_COLUMNS.items() if self.with_text or name != "text"}
        return {**kept, "seq": "whole"}

    def columns(self) -> list[str]:
        """The columns of spans that are read."""
        return [name for name in self.span_columns() if name != "seq"]

    def oldest(self, last: date) -> str:
        """The first day whose tasks are kept."""
        if self.keep_days is None:
            return ""
        return str(last - timedelta(self.keep_days))

    def since(self, last: date) -> str:
        """The first day of arrival whose spans are kept, whatever their traces are."""
        return str(last - timedelta(2 * self.watermark))


@dataclass(frozen=True)
class Bucket:
    """One bucket of a table, as a worker finds it."""

    root: str
    number: int
    seq: int
    """The version of the table of spans."""

    last: date
    """The last day on which something arrived."""

    forgotten: Forgotten
    tasks: list[DataFile] = field(default_factory=list)
    spans: list[DataFile] = field(default_factory=list)
    mined: list[DataFile] = field(default_factory=list)
    """The files of spans whose tasks are in the table."""

    pieces: list[DataFile] = field(default_factory=list)
    """The files of runs that may be pieces of a task: its own, or those of all buckets in the last one."""

    joined: list[DataFile] = field(default_factory=list)
    """The files of tasks in the last bucket."""

    @property
    def place(self) -> str:
        """Where the files of spans are."""
        return f"{self.root}/{SPANS}"

    def rows_of(self, traces: pl.DataFrame, rules: Rules) -> pl.DataFrame:
        """All spans of some traces."""
        return self._rows_with_keys(self.spans, traces, {**rules.span_columns(), **SPAN_PLACE})

    def pieces_of(self, conversations: pl.DataFrame) -> pl.DataFrame:
        """All runs of some conversations that may be pieces."""
        return self._rows_with_keys(self.pieces, conversations, RUN_COLUMNS).select(*RUN_COLUMNS)

    def _rows_with_keys(
        self, files: Iterable[DataFile], keys: pl.DataFrame, columns: Mapping[str, str]
    ) -> pl.DataFrame:
        """The rows of files that have one of these keys, a table of one column."""
        parts = [no_rows(columns)]
        for file in files:
            (ids,) = read_data(self.place, [file], keys.columns)
            if not ids.join(keys, on=keys.columns, how="semi").is_empty():
                parts += [rows.join(keys, on=keys.columns, how="semi") for rows in read_data(self.place, [file])]
        together: pl.DataFrame = require("polars", "mining").concat(parts, how="diagonal_relaxed")
        return without_nulls(together, columns)

    def tasks_of(self, days: Iterable[str], other: Iterable[DataFile] = ()) -> pl.DataFrame:
        """The tasks of some days, and those without a day; with those in other files."""
        wanted = {"", *days}
        files = [file for file in (*self.tasks, *other) if file.value("day") in wanted]
        tasks: pl.DataFrame = require("polars", "mining").concat(
            [no_rows(ROW), *read_data(self.root, files)], how="diagonal_relaxed"
        )
        return without_nulls(tasks, TASK_COLUMNS)


@dataclass
class Changes:
    """The files that a worker wrote, those that they replace, and what it counted; they add up over workers."""

    add: list[DataFile] = field(default_factory=list)
    remove: list[DataFile] = field(default_factory=list)
    add_spans: list[DataFile] = field(default_factory=list)
    remove_spans: list[DataFile] = field(default_factory=list)
    add_pieces: list[DataFile] = field(default_factory=list)
    remove_pieces: list[DataFile] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    forgotten: list[str] = field(default_factory=list)
    """Traces that came although they were to be forgotten."""

    touched: list[pl.DataFrame] = field(default_factory=list)
    """The runs whose conversations must be joined again: `trace_id`, `conversation` and `time`."""

    def include(self, others: Iterable[Changes]) -> Changes:
        """These changes and others."""
        for other in others:
            self.counts.update(other.counts)
            for own in fields(self):
                if own.name != "counts":
                    getattr(self, own.name).extend(getattr(other, own.name))
        return self


def bucket_of(trace_id: str, buckets: int) -> int:
    """The bucket of a trace; Spark's `crc32` gives the same."""
    return crc32(trace_id.encode()) % buckets


def by_bucket(spans: pl.DataFrame, buckets: int) -> dict[int, pl.DataFrame]:
    """Spans by the bucket of their trace."""
    polars = require("polars", "mining")
    known = {trace: bucket_of(trace, buckets) for trace in spans["trace_id"].unique()}
    number = polars.col("trace_id").replace_strict(known, return_dtype=polars.Int64)
    parts = spans.with_columns(bucket=number).partition_by("bucket", as_dict=True, include_key=False)
    return {int(key[0]): rows for key, rows in parts.items()}


def arrive(own: Bucket, read: pl.DataFrame, day: date, until: int, rules: Rules, *, replace: bool = False) -> Changes:
    """Put down the spans that arrived on a day, in files that no commit names yet.

    No span can have begun later than `until`, in nanoseconds since 1970. What the bucket has of the day already is not
    put down again, unless it is to be replaced.
    """
    polars = require("polars", "mining")
    done = Changes()
    named = with_hashed_ids(read.filter(has_ids()), rules.id_key)
    gone = own.forgotten.covers(named)
    erased = int(gone.sum())
    done.forgotten = named.filter(gone)["trace_id"].unique().to_list()
    rows = named.filter(~gone).unique().with_columns(held=_why_held_back(day, until, rules))
    stored = own.rows_of(rows.select("trace_id").unique(), rules)
    settled = polars.col("trace_id").is_in(_settled(own, rows, stored).implode())
    rows = rows.with_columns(
        held=polars.when(settled & (polars.col("held") == OPEN)).then(polars.lit("settled")).otherwise("held")
    )
    is_today = polars.col("arrived") == str(day)
    is_open = polars.col("held") == OPEN
    if replace:
        stored = stored.filter(~is_today)
    new = polars.concat(  # what is held back and was there before tells nothing new, on whatever day it came
        [
            _rows_not_in(stored.filter(is_today), rows.filter(is_open), read.columns),
            _rows_not_in(stored, rows.filter(~is_open), read.columns),
        ]
    )
    for (reason,), some in new.with_columns(seq=polars.lit(own.seq)).partition_by("held", as_dict=True).items():
        values = {"bucket": str(own.number), "arrived": str(day), "held": str(reason)}
        done.add_spans.append(write_data(own.place, some.select(*rules.span_columns()), values))
        done.counts.update({str(reason): len(some)})
    done.counts.update(read=len(read), nameless=len(read) - len(named), forgotten=erased)
    done.counts.update(repeated=len(named) - erased - len(new))
    return done


def mine_bucket(own: Bucket, rules: Rules) -> Changes:
    """Mine again the traces whose spans came or went since the tasks were mined, and let old rows go."""
    polars = require("polars", "mining")
    done = Changes()
    same = {file.path for file in own.mined} & {file.path for file in own.spans}
    files = [file for file in (*own.spans, *own.mined) if file.path not in same]
    moved = [file for file in files if file.value("arrived") >= rules.since(own.last)]
    done.counts.update(moved=len(moved))
    if moved:
        began = polars.concat(read_data(own.place, moved, ["trace_id", "start"])).select("trace_id", "start")
        _mine_again(own, began, rules, done)
    _let_go(own, own.spans, "trace_id", "start", rules, done)
    return done


def join_bucket(own: Bucket, touched: list[pl.DataFrame], rules: Rules) -> Changes:
    """Join again the pieces of the conversations that were touched, and let old pieces go."""
    polars = require("polars", "mining")
    done = Changes()
    moved = polars.concat([no_rows({name: RUN_COLUMNS[name] for name in TOUCHED}), *touched])
    pieces = own.pieces_of(moved.select("conversation").unique())
    known = polars.concat([moved, pieces.select(*TOUCHED)])
    tasks = mined_from(joined_pieces(pieces), {}, rules.require_outcome, (*TASK_COLUMNS, "trace_id"))
    _put_tasks(own, tasks, known.select("trace_id").unique(), known.select(day=day_of("time"))["day"], rules, done)
    _let_go(own, own.pieces, "conversation", "time", rules, done)
    return done


def erase_bucket(own: Bucket) -> Changes:
    """Take out what is to be forgotten: every span and every task of a trace that `Forgotten` covers."""
    polars = require("polars", "mining")
    done = Changes()
    columns = ["trace_id", *IDS]
    spans = read_data(own.place, own.spans, [*columns, "start"])
    tasks = read_data(own.root, own.tasks, [*columns, "time"])
    runs = (*tasks, *read_data(own.place, own.pieces, [*columns, "time"]))
    rows = [*spans, *(some.rename({"time": "start"}) for some in runs)]
    none = no_rows(dict.fromkeys(columns, "text") | {"start": "whole"})
    ids = polars.concat([none, *(some.select(none.columns) for some in rows)])
    traces = ids.filter(own.forgotten.covers(ids))["trace_id"].unique()
    done.forgotten = traces.to_list()
    goes = polars.col("trace_id").is_in(traces.implode())
    tasks_gone = _drop_rows(own.root, own.tasks, goes, done.add, done.remove)
    spans_gone = _drop_rows(own.place, own.spans, goes, done.add_spans, done.remove_spans)
    done.counts.update({"tasks": tasks_gone, "tasks kept": sum(map(len, tasks)) - tasks_gone})
    done.counts.update({"spans": spans_gone, "spans kept": sum(map(len, spans)) - spans_gone})
    _drop_rows(own.place, own.pieces, goes, done.add_spans, done.remove_spans)
    return done


def _mine_again(own: Bucket, moved: pl.DataFrame, rules: Rules, done: Changes) -> None:
    """Put the tasks of the traces that moved in the place of those that are there, and set their pieces apart."""
    polars = require("polars", "mining")
    rows = own.rows_of(moved.select("trace_id").unique(), rules)
    used = rows.filter(polars.col("held") == OPEN)
    waits = rows.filter(polars.col("held").is_in(HELD_BACK))
    # where all that there is of a trace is held back, nothing is known that could change its tasks
    idle = rows.join(used, on="trace_id", how="anti")
    touched = moved.select("trace_id").unique().join(idle, on="trace_id", how="anti")
    runs, seen = runs_in(_latest(used).join(waits, on="trace_id", how="anti"), rules.with_text)
    mined = mined_from(runs.filter(~may_be_piece()), seen, rules.require_outcome, (*TASK_COLUMNS, "trace_id"))
    began = polars.concat([moved, used.select(moved.columns)]).select(day=day_of("start"))["day"]
    _put_tasks(own, mined, touched, began, rules, done)
    done.counts.update(traces=len(touched), waiting=waits["trace_id"].n_unique())
    pieces = runs.filter(may_be_piece())
    before = own.pieces_of(touched)
    # a trace of several arrivals may have had a piece, whatever became of a writer since
    again = used.group_by("trace_id").agg(polars.col("seq").n_unique()).filter(polars.col("seq") > 1)
    others = runs.filter(polars.col("conversation") != "").join(again, on="trace_id", how="semi")
    done.touched += [some.select(*TOUCHED) for some in (pieces, before, others) if len(some)]
    _drop_rows(
        own.place,
        own.pieces,
        polars.col("trace_id").is_in(touched["trace_id"].implode()),
        done.add_pieces,
        done.remove_pieces,
    )
    if len(pieces):
        values = {"bucket": str(own.number), "arrived": str(own.last), "held": PIECE}
        done.add_pieces.append(write_data(own.place, pieces, values))


def _put_tasks(own: Bucket, mined: Mined, traces: pl.DataFrame, began: pl.Series, rules: Rules, done: Changes) -> None:
    """Put tasks in the place of those of these traces, which began on some days, day by day."""
    polars = require("polars", "mining")
    kept = (day_of("time") >= rules.oldest(own.last)).fill_null(True)
    tasks = mined.tasks.filter(kept).with_columns(day=day_of("time"), bucket=polars.lit(str(own.number)))
    runs = mined.sums["runs"] | {"tasks": len(tasks), "of days that are not kept": mined.kept - len(tasks)}
    done.counts.update({f"{RUNS}{name}": count for name, count in runs.items()})
    before = own.tasks_of({*began, *tasks["day"]} - {None})
    there = before.join(traces, on="trace_id", how="semi")
    gone = there.join(tasks, on="task_id", how="anti")
    new = _rows_not_in(there, tasks, tasks.columns)
    out = polars.concat([gone.select("task_id"), new.select("task_id")])
    added = len(new.join(there, on="task_id", how="anti"))
    done.counts.update(added=added, changed=len(new) - added, removed=len(gone))
    for day in {*before.join(out, on="task_id", how="semi")["day"], *new["day"]}:
        same = polars.col("day").eq_missing(polars.lit(day, polars.String))
        parts = [before.filter(same).join(out, on="task_id", how="anti"), new.filter(same)]
        after = polars.concat(parts, how="diagonal_relaxed").sort("task_id")
        done.remove += [file for file in own.tasks if file.values["day"] == day]
        if len(after):
            done.add.append(write_data(own.root, after, {"bucket": str(own.number), "day": day}))


def _let_go(own: Bucket, files: list[DataFile], key: str, began: str, rules: Rules, done: Changes) -> None:
    """Take out rows that can change no task any more: those of whose key nothing came lately, and of days not kept."""
    polars = require("polars", "mining")
    since = rules.since(own.last)
    oldest = rules.oldest(own.last)
    may_hold_old_rows = since
    if oldest:
        may_hold_old_rows = max(since, str(date.fromisoformat(oldest) + timedelta(2 * rules.watermark + 1)))
    old = [file for file in files if file.value("arrived") < may_hold_old_rows]
    if not old:
        return
    recent = read_data(own.place, [file for file in files if file.value("arrived") >= since], [key])
    keys = polars.concat([no_rows({key: "text"}), *(rows.select(key) for rows in recent)])[key].unique()
    is_new = polars.col("arrived") >= since
    is_kept = day_of(began) >= oldest
    stays = is_kept.fill_null(polars.col("arrived") >= oldest) & (is_new | polars.col(key).is_in(keys.implode()))
    _drop_rows(own.place, old, ~stays, done.add_spans, done.remove_spans)


def _drop_rows(
    place: str, files: Iterable[DataFile], goes: pl.Expr, add: list[DataFile], remove: list[DataFile]
) -> int:
    """Put files without some rows in the place of those that have them; how many rows went."""
    count = 0
    for file in files:
        (rows,) = read_data(place, [file])
        kept = rows.filter(~goes)
        if len(kept) < len(rows):
            remove.append(file)
            count += len(rows) - len(kept)
            if len(kept):
                add.append(write_data(place, kept, file.values))
    return count


def _rows_not_in(others: pl.DataFrame, rows: pl.DataFrame, columns: Sequence[str]) -> pl.DataFrame:
    """The rows that are not among the others, these columns taken together."""
    return rows.join(others, on=columns, how="anti", nulls_equal=True)


def _why_held_back(day: date, until: int, rules: Rules) -> pl.Expr:
    """Why a span is held back."""
    polars = require("polars", "mining")
    ahead = polars.col("start") > until + int(rules.ahead_hours * NANOSECONDS_AN_HOUR)
    late = day_of("start") < str(day - timedelta(rules.watermark))
    reason = polars.when(ahead).then(polars.lit("ahead")).when(late).then(polars.lit("late"))
    told: pl.Expr = reason.otherwise(polars.lit(OPEN))
    return told


def _settled(own: Bucket, rows: pl.DataFrame, stored: pl.DataFrame) -> pl.Series:
    """The traces that have a task, and of whose spans none is kept any more."""
    polars = require("polars", "mining")
    used = stored.filter(polars.col("held") == OPEN)
    strange = rows.filter(polars.col("held") == OPEN).join(used, on="trace_id", how="anti")
    days = strange.select(day=day_of("start"))["day"].drop_nulls()
    return own.tasks_of(days, own.joined).join(strange, on="trace_id", how="semi")["trace_id"].unique()


def _latest(rows: pl.DataFrame) -> pl.DataFrame:
    """Of what runs of one day brought of a span, the latest that has ended, else the latest; then as spans are read."""
    polars = require("polars", "mining")
    order = polars.col("end").is_not_null().cast(polars.Int64) * 2**40 + polars.col("seq")
    return rows.filter(order == order.max().over("arrived", *SPAN_KEY)).drop("arrived", "held", "bucket", "seq")

"""The commands on traces and their tasks, which the product lists: mine, audit, compare."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, redirect_stdout
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from camdf.cli.forgetting import add_ids, id_key_of
from camdf.cli.logs import FILES, add_log, is_log, named_scorer, ranked_log
from camdf.cli.parser import add_json, check_output, notes_stream, print_json, read_day, read_time
from camdf.cli.policy import add_engine, moved_as_json, print_moved_and_what_to_run, uncensored_tasks
from camdf.cli.tool_names import chosen_renames
from camdf.cli.tools import add_prices, add_scorer_mismatch, chosen_prices
from camdf.errors import DataError, UsageError, require
from camdf.gate.privilege import Privilege
from camdf.policies.artifact import load
from camdf.runtime.files import whole_file, write_whole
from camdf.runtime.progress import shown

if TYPE_CHECKING:
    from camdf.policies.drift import Moved
    from camdf.prices import ToolStatistics
    from camdf_traces.days import MinedDay
    from camdf_traces.tasks import Mined
    from camdf_traces.usage import Usage

OF_A_TABLE = ("replace", "watermark", "ahead_hours", "keep_days", "grace_hours", "spans_a_day")
"""The options of `camdf mine` that only a table of days has."""

TRACES = (
    "a folder of traces, one file, or a URL of either, of any tracer that traces/docs/traces.md names; or "
    "clickhouse://HOST/DATABASE (traces/docs/clickhouse.md)"
)

OUTPUT_PRICE = 15.0
"""Dollars a million output tokens: an example, as the prices of `Prices` are."""

SUCCESS_FELL = 3
"""The exit code of a comparison that shows that success fell."""


def add_mine(mine: argparse.ArgumentParser) -> None:
    """The options of `camdf mine`."""
    mine.add_argument("traces", help=TRACES)
    where = mine.add_mutually_exclusive_group(required=True)
    where.add_argument("-o", "--output", type=Path, help="where to write the tasks (.parquet)")
    where.add_argument(
        "--into",
        metavar="TABLE",
        help="a table of tasks that grows, a folder or a URL; with --day, or every day of ClickHouse",
    )
    mine.add_argument("--day", type=read_day, help="with --into: the day on which the traces came: 2026-11-14")
    mine.add_argument("--replace", action="store_true", help="with --into: in place of all that the day brought before")
    mine.add_argument("--watermark", type=int, help="with --into: days that a span may be late (default: 2)")
    mine.add_argument("--ahead-hours", type=float, help="with --into: hours that a clock may be ahead (default: 1)")
    mine.add_argument("--keep-days", type=int, help="with --into: days after which tasks are deleted (default: never)")
    mine.add_argument("--grace-hours", type=int, help="with --into: hours until old files are deleted (default: 1)")
    mine.add_argument("--spans-a-day", type=int, help="with --into: how many a new table is for (default: this many)")
    mine.add_argument("--statistics", type=Path, help="where to write calls, seconds and failures by tool (.json)")
    mine.add_argument("--require-outcome", action="store_true", help="leave out runs whose outcome nobody recorded")
    mine.add_argument("--with-text", action="store_true", help="keep what users asked, and group near-copies by it")
    add_ids(mine)
    add_engine(mine)
    _add_workers(mine)
    add_json(mine)
    mine.set_defaults(run=_run_mine)


def add_audit(audit: argparse.ArgumentParser) -> None:
    """The options of `camdf audit`."""
    audit.add_argument("data", type=Path, help=f"what camdf mine wrote, {FILES}")
    add_log(audit)
    period = audit.add_mutually_exclusive_group()
    period.add_argument("--since", type=read_time, help="where the later period begins, as 2026-01-31")
    period.add_argument("--split", type=float, default=0.5, help="or its place among the tasks in time (default: 0.5)")
    audit.add_argument("--since-fit", type=Path, metavar="POLICY", help="say what has moved since this policy's fit")
    audit.add_argument(
        "--privilege",
        type=Path,
        metavar="FILE",
        help="say which tools with effects were exposed and used, by what camdf privilege wrote (.json)",
    )
    add_scorer_mismatch(audit)
    add_json(audit)
    audit.set_defaults(run=_run_audit)


def add_compare(compare: argparse.ArgumentParser) -> None:
    """The options of `camdf compare`."""
    option = compare.add_argument
    option("traces", help=TRACES)
    option("--margin", type=float, default=0.02, help="by how much success may fall and be safe (default: %(default)s)")
    option("--require-outcome", action="store_true", help="count conversations without an outcome as failed")
    option("--gated-share", type=float, help="the share of conversations that were to be gated")
    add_prices(compare)
    option("--output-price", type=float, default=OUTPUT_PRICE, help="the same where they are written (%(default)s)")
    _add_workers(compare)
    add_json(compare)
    compare.set_defaults(run=_run_compare)


def _add_workers(parser: argparse.ArgumentParser) -> None:
    """How many processes read traces."""
    parser.add_argument("--workers", type=int, default=0, help="processes that read traces (default: one a core)")


@contextmanager
def _read_traces(options: argparse.Namespace, with_text: bool, place: str) -> Iterator[list[Path]]:
    """The traces of a place as span tables; progress is shown where reading takes more than a second."""
    from camdf_traces.readers.clickhouse import is_clickhouse
    from camdf_traces.span_files import span_tables

    what = "thousand spans read" if is_clickhouse(place) else "MB read"
    cores = os.cpu_count() or 1
    if hasattr(os, "sched_getaffinity"):
        cores = len(os.sched_getaffinity(0))
    with ExitStack() as open_tables:
        with shown(what, after=1.0) as progress:
            tables = open_tables.enter_context(
                span_tables(place, with_text=with_text, workers=options.workers or cores, progress=progress)
            )
        yield tables


def _run_mine(options: argparse.Namespace) -> int:
    with redirect_stdout(notes_stream(options)):
        _check_mine(options)
        if options.into is not None and options.day is None:
            days = list(_mine_each_day(options))
            answer: dict[str, Any] = {"days": [_counts(day) for day in days]}
        else:
            answer = _counts(_mine_and_write(options))
    if options.json:
        wrote = [options.output or options.into, options.statistics]
        print_json({**answer, "wrote": [str(path) for path in wrote if path]})
    return 0


def _counts(mined: Mined | MinedDay) -> dict[str, Any]:
    """What was mined, as JSON has it."""
    counts = {name: value for name, value in vars(mined).items() if isinstance(value, int)}
    return {**counts, "sums": mined.sums, "sentences": str(mined).splitlines()}


def _check_mine(options: argparse.Namespace) -> None:
    """Raise where options of `camdf mine` do not go together, or what they need is missing."""
    from camdf_traces.logged import holds_mined_tasks
    from camdf_traces.readers.clickhouse import is_clickhouse

    on_spark = options.engine == "spark"
    each_day = is_clickhouse(options.traces) and options.day is None
    if (options.into is None) != (options.day is None) and not (options.into is not None and each_day):
        raise UsageError("A table of days needs both --into and --day.")
    if options.into is not None and each_day and (on_spark or options.statistics is not None or options.replace):
        raise UsageError(
            "--engine spark, --statistics and --replace are for one day of ClickHouse. Name it with --day."
        )
    given = [f"--{name.replace('_', '-')}" for name in OF_A_TABLE if getattr(options, name) not in (None, False)]
    if options.into is None and given:
        raise UsageError(f"{given[0]} is for a table of days. Name one with --into, or leave it out.")
    if options.into is None and not on_spark:
        check_output(options.output, (".parquet",))
    elif options.into is None and options.output.is_dir() and not holds_mined_tasks(options.output):
        raise DataError(f"{options.output}: is a folder of something else. Name another.")
    if options.statistics is not None:
        check_output(options.statistics, (".json",))
    if options.workers < 0:
        raise UsageError(f"The --workers must not be negative; 0 is one a core. Got {options.workers} instead.")
    if on_spark:
        require("pyspark", "spark")
    if options.into is not None:
        require("deltalake", "delta")


def _choices(options: argparse.Namespace) -> dict[str, Any]:
    """How tasks are mined."""
    return {
        "require_outcome": options.require_outcome,
        "with_text": options.with_text,
        "id_key": id_key_of(options),
    }


def _mine_each_day(options: argparse.Namespace) -> Iterator[MinedDay]:
    """Every day of ClickHouse that is not in the table yet, each said once it is."""
    from camdf_traces.each_day import mine_each_day

    choices = {**_table_choices(options), **_choices(options)}
    read = partial(_read_traces, options, options.with_text)
    for day in mine_each_day(options.traces, options.into, read, choices):
        print(day, flush=True)
        yield day
    print(f"wrote {options.into}")


def _mine_and_write(options: argparse.Namespace) -> Mined | MinedDay:
    """What was mined, written and said."""
    from camdf_traces.readers.clickhouse import is_clickhouse, on_day
    from camdf_traces.tasks import mine
    from camdf_traces.usage import tool_statistics, usage

    choices = _choices(options)
    place = options.traces
    if is_clickhouse(place) and options.day is not None:
        place = on_day(place, options.day)
    with _read_traces(options, options.with_text, place) as tables:
        if options.into is not None:
            day = _mine_day(options, tables, choices)
            print(f"{day}\nwrote {options.into}")
            if options.statistics is not None:
                _write_statistics(options.statistics, tool_statistics(tables), usage(tables))
            return day
        if options.engine == "spark":
            from camdf_traces.spark import mining as spark

            gathered = spark.mine(spark.span_frame(tables), **choices, with_statistics=options.statistics is not None)
            gathered.write(options.output)
            print(f"{gathered}\nwrote {options.output}")
            if options.statistics is not None:
                _write_statistics(options.statistics, gathered.tool_statistics, gathered.usage)
            return gathered
        with shown("parts") as progress:
            mined = mine(tables, **choices, progress=progress)
        with whole_file(options.output, private=True) as new:
            mined.tasks.write_parquet(new)
        print(f"{mined}\nwrote {options.output}")
        if options.statistics is not None:
            _write_statistics(options.statistics, tool_statistics(tables), usage(tables))
    return mined


def _mine_day(options: argparse.Namespace, tables: Sequence[Path], choices: dict[str, Any]) -> MinedDay:
    from camdf_traces.buckets import Rules
    from camdf_traces.days import mine_day

    given = _table_choices(options)
    if options.engine == "local":
        return mine_day(tables, options.into, options.day, **given, **choices)
    from camdf_traces.spark import days
    from camdf_traces.spark.mining import span_frame

    limits = {name: given.pop(name) for name in ("watermark", "ahead_hours", "keep_days") if name in given}
    return days.mine_day(span_frame(tables), options.into, options.day, Rules(**limits, **choices), **given)


def _table_choices(options: argparse.Namespace) -> dict[str, Any]:
    """What was said of the table of days."""
    return {name: getattr(options, name) for name in OF_A_TABLE if getattr(options, name) is not None}


def _write_statistics(path: Path, tools: dict[str, ToolStatistics], used: Usage) -> None:
    written = {"usage": asdict(used), "tools": {name: asdict(statistics) for name, statistics in tools.items()}}
    write_whole(path, f"{json.dumps(written, indent=1, ensure_ascii=False)}\n".encode())
    print(f"wrote {path}")


def _run_audit(options: argparse.Namespace) -> int:
    from camdf.evaluation.assess import moved_since_fit
    from camdf_traces.audit import (
        TaskLists,
        audit,
        audit_json,
        audit_text,
        exposed_tools,
        exposure_text,
        read_tasks,
    )

    renames = chosen_renames(options)
    privilege = None if options.privilege is None else Privilege.from_file(options.privilege)
    moved: tuple[Moved, ...] = ()
    if options.since_fit is not None:
        policy = load(options.since_fit, renamed=renames)
        logged = uncensored_tasks(options, policy).logged
        moved = moved_since_fit(policy, logged)
    elif is_log(options, options.data):
        logged = ranked_log(options, options.data, *named_scorer(options.scorer)).logged
    tasks = (
        TaskLists.from_logged(logged) if is_log(options, options.data) else read_tasks(options.data).renamed(renames)
    )
    audited = audit(tasks, since=options.since, split=options.split)
    exposed = [] if privilege is None else exposed_tools(tasks, privilege)
    if options.json:
        told = {"moved": moved_as_json(moved), "exposed": list(map(asdict, exposed))}
        print_json(audit_json(audited) | told)
    else:
        print(audit_text(audited))
        if privilege is not None:
            print(f"\n{exposure_text(exposed, len(tasks))}")
        print_moved_and_what_to_run(options, options.since_fit, moved)
    return 0


def _run_compare(options: argparse.Namespace) -> int:
    from camdf.evaluation.compare import compare
    from camdf_traces.arms import arms

    prices = chosen_prices(options)
    with _read_traces(options, False, options.traces) as tables:
        dealt = arms(tables, prices, options.output_price, require_outcome=options.require_outcome)
    comparison = compare(
        dealt.gated,
        dealt.measures,
        options.margin,
        lost=dealt.lost,
        unplaced=dealt.unplaced,
        share=options.gated_share,
    )
    if options.json:
        print_json({**comparison.record(), "sums": dealt.sums})
    else:
        print(f"{dealt}\n\n{comparison.table()}\n\n{comparison.verdict}")
    if comparison.harms:
        return SUCCESS_FELL
    return 0

"""Commands on traces and their tasks: mine, forget, audit, score."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, redirect_stdout
from dataclasses import asdict
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from camdf._counts import in_one_line
from camdf._files import whole_file, write_whole
from camdf._progress import shown
from camdf.cli.logs import FILES, add_columns, add_log, is_log, named_scorer, ranked_log
from camdf.cli.parser import add_json, check_output, print_json
from camdf.cli.policy import add_engine
from camdf.cli.service import STATE
from camdf.cli.tools import TOOLS_FILE, tools_in_file
from camdf.errors import DataError, UsageError, require
from camdf.gateway.folder import Folder
from camdf.scorers import Necessity, Scorer
from camdf.scorers.base import TEXTS
from camdf.scorers.necessity import VARIANTS
from camdf.tools import view

if TYPE_CHECKING:
    from camdf.mining.days import MinedDay
    from camdf.mining.tasks import Mined
    from camdf.mining.usage import Usage
    from camdf.prices import ToolStatistics
    from camdf.scorers.folder import Scored


OF_A_TABLE = ("replace", "watermark", "ahead_hours", "keep_days", "grace_hours", "spans_a_day")
"""The options of `camdf mine` that only a table of days has."""


def add_commands(commands: Any) -> None:
    """mine, forget, audit, score."""
    mine = commands.add_parser(
        "mine", help="turn the traces of an agent into logged tasks", example="camdf mine traces/ -o tasks.parquet"
    )
    mine.add_argument(
        "traces", help="a folder of traces, one file, or a URL of either, of any tracer that docs/traces.md names"
    )
    where = mine.add_mutually_exclusive_group(required=True)
    where.add_argument("-o", "--output", type=Path, help="where to write the tasks (.parquet)")
    where.add_argument("--into", metavar="TABLE", help="a table of tasks that grows, a folder or a URL; with --day")
    mine.add_argument("--day", type=_day, help="with --into: the day on which the traces came: 2026-11-14")
    mine.add_argument("--replace", action="store_true", help="with --into: in place of all that the day brought before")
    mine.add_argument("--watermark", type=int, help="with --into: days that a span may be late (default: 2)")
    mine.add_argument("--ahead-hours", type=float, help="with --into: hours that a clock may be ahead (default: 1)")
    mine.add_argument("--keep-days", type=int, help="with --into: days after which tasks are deleted (default: never)")
    mine.add_argument("--grace-hours", type=int, help="with --into: hours until old files are deleted (default: 1)")
    mine.add_argument("--spans-a-day", type=int, help="with --into: how many a new table is for (default: this many)")
    mine.add_argument("--statistics", type=Path, help="where to write calls, seconds and failures by tool (.json)")
    mine.add_argument("--require-outcome", action="store_true", help="leave out runs whose outcome nobody recorded")
    mine.add_argument("--with-text", action="store_true", help="keep what users asked, and group near-copies by it")
    _add_ids(mine)
    add_engine(mine)
    add_workers(mine)
    add_json(mine)
    mine.set_defaults(run=_mine)

    forget = commands.add_parser(
        "forget",
        help="delete a session, user, tenant or old days from what is kept",
        example="camdf forget --user ada@example.com table",
    )
    forget.add_argument(
        "table", help="what camdf mine --into wrote, the file of camdf mcp or serve, or examples (.jsonl)"
    )
    forget.add_argument("--conversation", metavar="ID", default="", help="the session whose traces are deleted")
    forget.add_argument("--user", metavar="ID", default="", help="the user whose traces are deleted")
    forget.add_argument("--tenant", metavar="NAME", default="", help="of a service: this tenant alone, or all of it")
    forget.add_argument(
        "--state",
        type=Path,
        action="append",
        help=f"of a service: its state folder; may be given several times (default: {STATE})",
    )
    forget.add_argument("--before", type=_day, metavar="DAY", help="traces that began before this day: 2026-01-31")
    forget.add_argument("--grace-hours", type=int, default=0, help="hours until the files are deleted (default: 0)")
    forget.add_argument(
        "--alone", action="store_true", help="nobody else writes now: delete what killed runs left, too"
    )
    _add_ids(forget)
    add_json(forget)
    forget.set_defaults(run=_forget)

    audit = commands.add_parser(
        "audit",
        help="say whether tasks can be learned from: noise, censoring, drift",
        example="camdf audit tasks.parquet",
    )
    audit.add_argument("data", type=Path, help=f"what camdf mine wrote, {FILES}")
    add_log(audit)
    period = audit.add_mutually_exclusive_group()
    period.add_argument("--since", type=_time, help="where the later period begins, as 2026-01-31")
    period.add_argument("--split", type=float, default=0.5, help="or its place among the tasks in time (default: 0.5)")
    add_json(audit)
    audit.set_defaults(run=_audit)

    score = commands.add_parser(
        "score",
        help="rank the tools of tasks; run it again to go on where it stopped",
        example="camdf score tasks.parquet --tools tools.json --scorer start -o ranked.parquet",
        codes={1: "some tasks could not be scored: run it again to try them"},
    )
    score.add_argument(
        "tasks",
        type=Path,
        help="what camdf mine --with-text wrote, a folder that holds tasks.jsonl and tools.json, or a log of requests",
    )
    score.add_argument("--tools", type=Path, help=f"of mined tasks, or of a log: {TOOLS_FILE}")
    add_columns(score)
    score.add_argument(
        "-o",
        "--output",
        type=Path,
        required=True,
        help="where mined tasks with rankings go (.parquet), scores, or the tasks of a log (.jsonl)",
    )
    score.add_argument("--scorer", choices=("start", "bm25", "minilm", "llm"), required=True, help="who scores")
    score.add_argument("--top", type=int, help="how many of a task's best tools to keep (default: all)")
    score.add_argument(
        "--vectors",
        action="store_true",
        help="keep the direction of every text in numbers, so that a policy can learn from what was asked",
    )
    score.add_argument("--keep-text", action="store_true", help="of mined tasks: leave what users asked in them")
    score.add_argument(
        "--text", choices=sorted(TEXTS), help="how a tool is written, as the gate's scorer does by default"
    )
    score.add_argument("--examples", type=Path, help="what people ask the tools for (.jsonl), read with their texts")
    score.add_argument("--model", help="minilm: an embedding model's name or folder; llm: the endpoint's model")
    score.add_argument("--url", help="llm: an OpenAI-compatible endpoint, up to /v1")
    score.add_argument("--variant", choices=sorted(VARIANTS), default="default", help="llm: which prompt")
    score.add_argument("--key-variable", help="llm: the environment variable that holds the API key")
    score.add_argument("--cache", type=Path, help="llm: a folder that keeps the answers")
    score.add_argument("--deadline", type=float, default=60.0, help="llm: seconds a task at most (default: 60)")
    add_json(score)
    score.set_defaults(run=_score, resumes=True)


def _add_ids(parser: argparse.ArgumentParser) -> None:
    """How the ids of sessions and users are written down."""
    ids = parser.add_mutually_exclusive_group()
    ids.add_argument(
        "--id-key", type=Path, metavar="FILE", help="the key that hashes ids of sessions and users (default: your own)"
    )
    ids.add_argument("--plain-ids", action="store_true", help="leave ids of sessions and users as they are")


def _id_key(options: argparse.Namespace) -> bytes | None:
    from camdf.datasets.ids import id_key

    return None if options.plain_ids else id_key(options.id_key)


def _day(text: str) -> date:
    return _time(text).date()


def _time(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a day, as 2026-01-31. Got {text!r} instead") from None


def add_workers(parser: argparse.ArgumentParser) -> None:
    """How many processes read traces."""
    parser.add_argument("--workers", type=int, default=0, help="processes that read traces (default: one a core)")


@contextmanager
def read_traces(options: argparse.Namespace, with_text: bool) -> Iterator[list[Path]]:
    """The traces of a command as span tables; progress is shown where reading takes more than a second."""
    from camdf.mining.span_files import span_tables

    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    with ExitStack() as open_tables:
        with shown("MB read", after=1.0) as progress:
            tables = open_tables.enter_context(
                span_tables(options.traces, with_text=with_text, workers=options.workers or cores, progress=progress)
            )
        yield tables


def _mine(options: argparse.Namespace) -> int:
    with redirect_stdout(sys.stderr if options.json else sys.stdout):
        mined = _mined(options)
    if options.json:
        counts = {name: value for name, value in vars(mined).items() if isinstance(value, int)} | {"sums": mined.sums}
        wrote = [options.output or options.into, options.statistics]
        print_json({**counts, "sentences": str(mined).splitlines(), "wrote": [str(path) for path in wrote if path]})
    return 0


def _mined(options: argparse.Namespace) -> Mined | MinedDay:
    """What was mined, written and said."""
    from camdf.mining.logged import is_mined
    from camdf.mining.tasks import mine
    from camdf.mining.usage import tool_statistics, usage

    on_spark = options.engine == "spark"
    if (options.into is None) != (options.day is None):
        raise UsageError("A table of days needs both --into and --day.")
    given = [f"--{name.replace('_', '-')}" for name in OF_A_TABLE if getattr(options, name) not in (None, False)]
    if options.into is None and given:
        raise UsageError(f"{given[0]} is for a table of days. Name one with --into, or leave it out.")
    if options.into is None and not on_spark:
        check_output(options.output, (".parquet",))
    elif options.into is None and options.output.is_dir() and not is_mined(options.output):
        raise DataError(f"{options.output}: is a folder of something else. Name another.")
    if options.statistics is not None:
        check_output(options.statistics, (".json",))
    if options.workers < 0:
        raise UsageError(f"The --workers must not be negative; 0 is one a core. Got {options.workers} instead.")
    if on_spark:
        require("pyspark", "spark")
    if options.into is not None:
        require("deltalake", "delta")
    with read_traces(options, options.with_text) as tables:
        choices = {
            "require_outcome": options.require_outcome,
            "with_text": options.with_text,
            "id_key": _id_key(options),
        }
        if options.into is not None:
            day = _mine_day(options, tables, choices)
            print(f"{day}\nwrote {options.into}")
            if options.statistics is not None:
                _write_statistics(options.statistics, tool_statistics(tables), usage(tables))
            return day
        if on_spark:
            from camdf.mining.spark import mining as spark

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
    from camdf.mining.buckets import Rules
    from camdf.mining.days import mine_day

    given = {name: getattr(options, name) for name in OF_A_TABLE if getattr(options, name) is not None}
    if options.engine == "local":
        return mine_day(tables, options.into, options.day, **given, **choices)
    from camdf.mining.spark import days
    from camdf.mining.spark.mining import span_frame

    limits = {name: given.pop(name) for name in ("watermark", "ahead_hours", "keep_days") if name in given}
    return days.mine_day(span_frame(tables), options.into, options.day, Rules(**limits, **choices), **given)


def _forget(options: argparse.Namespace) -> int:
    named = Path(options.table)
    if named.suffix == ".toml":
        return _forget_served(named, options)
    if options.tenant or options.state:
        raise UsageError(f"--tenant and --state are for a service's configuration (.toml). Got {named} instead.")
    gateway = Folder.of(named) if named.suffix == ".json" and named.is_file() else Folder(named)
    if gateway.log.is_file():
        if options.conversation or options.user:
            raise UsageError(
                "The log of camdf mcp does not say whose a line is. Name a day, --before 2026-01-31, or nothing, to "
                "delete all of it."
            )
        count = gateway.forget(options.before)
        print_json({"lines": count}) if options.json else print(f"Forgot {count:,} searches and calls.")
        return 0
    from camdf.datasets.forgetting import Whose, forget_examples
    from camdf.mining.forget import forget

    whose = Whose(options.conversation, options.user, _id_key(options))
    if named.suffix == ".jsonl" and not named.is_dir():
        if not (whose.conversation or whose.user):
            raise UsageError("Examples know whose they are. Name a --conversation or a --user, or delete the file.")
        count = forget_examples(named, lambda example: whose.asked(example.group, example.user))
        print_json({"lines": count}) if options.json else print(f"Forgot {count:,} examples.")
        return 0
    chosen = {name: getattr(options, name) for name in ("conversation", "user", "before", "alone")}
    with redirect_stdout(sys.stderr if options.json else sys.stdout):
        forgotten = forget(options.table, **chosen, id_key=whose.id_key, hours=options.grace_hours)
        print(forgotten)
    if options.json:
        print_json({**asdict(forgotten), "sums": forgotten.sums, "sentences": str(forgotten).splitlines()})
    return 0


def _forget_served(configuration: Path, options: argparse.Namespace) -> int:
    from camdf.datasets.forgetting import Whose
    from camdf.service.forget import forget_served

    if options.before:
        raise UsageError("A service keeps requests without their days. Name a --conversation, a --user or a --tenant.")
    whose = Whose(options.conversation, options.user, _id_key(options))
    forgotten = forget_served(configuration, options.state or [STATE], whose, options.tenant)
    print_json(asdict(forgotten)) if options.json else print(forgotten)
    return 0


def _write_statistics(path: Path, tools: dict[str, ToolStatistics], used: Usage) -> None:
    written = {"usage": asdict(used), "tools": {name: asdict(statistics) for name, statistics in tools.items()}}
    write_whole(path, f"{json.dumps(written, indent=1, ensure_ascii=False)}\n".encode())
    print(f"wrote {path}")


def _rank(options: argparse.Namespace, scorer: Scorer, choices: dict[str, Any]) -> tuple[Scored, int]:
    """Mined tasks ranked, and how many have no text; the file of scores lasts until every task has its ranking."""
    from camdf.mining.ranked import rank_tasks

    tools = [view(tool) for tool in tools_in_file(options.tools)]
    scores = options.output.with_suffix(".scores.jsonl")
    ranked = rank_tasks(options.tasks, tools, scorer, scores, keep_text=options.keep_text, **choices)
    with whole_file(options.output, private=True) as new:
        ranked.tasks.write_parquet(new)
    if ranked.undescribed:
        count, listed = len(ranked.undescribed), ", ".join(ranked.undescribed[:5])
        print(f"{count:,} tools were ranked by their names alone, as {options.tools} lacks them: {listed}")
    if not ranked.scored.refused:
        scores.unlink()
        scores.with_suffix(".settings.json").unlink()
    return ranked.scored, ranked.textless


def _audit(options: argparse.Namespace) -> int:
    from camdf.mining.audit import TaskLists, audit, audit_json, audit_text, read_tasks

    if is_log(options, options.data):
        tasks = TaskLists.from_logged(ranked_log(options, options.data, *named_scorer(options.scorer)).logged)
    else:
        tasks = read_tasks(options.data)
    audited = audit(tasks, since=options.since, split=options.split)
    if options.json:
        print_json(audit_json(audited))
    else:
        print(audit_text(audited))
    return 0


def _score(options: argparse.Namespace) -> int:
    from camdf.scorers.folder import score_folder

    if options.tools is None and options.tasks.suffix == ".parquet":
        raise UsageError(
            f"{options.tasks} holds tasks without descriptions of their tools. Name a file: --tools tools.json"
        )
    of_a_log = options.tasks.exists() and is_log(options, options.tasks)
    check_output(options.output, (".jsonl",) if options.tools is None or of_a_log else (".parquet",))
    if options.top is not None and options.top < 1:
        raise UsageError(f"--top says how many of a task's tools to keep, and must be at least 1. Got {options.top}.")
    scorer: Scorer
    if options.scorer == "llm":
        if options.examples is not None:
            raise UsageError("The scorer 'llm' reads no examples. Leave out --examples, or name another scorer.")
        if not (options.url and options.model):
            raise UsageError("The scorer 'llm' needs an endpoint and a model. Name both: --url and --model")
        limits = {"timeout": options.deadline, "deadline": options.deadline}
        key, cache = options.key_variable, options.cache
        scorer = Necessity(options.url, options.model, options.variant, key_variable=key, cache=cache, **limits)
        settings = {"scorer": "llm", "model": options.model, "variant": options.variant}
    else:
        scorer, settings = named_scorer(options.scorer, options.text, options.model, options.examples)
    if of_a_log:
        return _scored(options, _rank_log(options, scorer, settings))
    textless = 0
    with shown("tasks") as progress, redirect_stdout(sys.stderr if options.json else sys.stdout):
        choices = {"top": options.top, "vectors": options.vectors, "settings": settings, "progress": progress}
        if options.tools is None:
            done = score_folder(options.tasks, scorer, options.output, **choices)
        else:
            done, textless = _rank(options, scorer, choices)
    return _scored(options, done, textless)


def _rank_log(options: argparse.Namespace, scorer: Scorer, settings: dict[str, str]) -> Scored:
    from camdf.datasets import write_jsonl

    ranked = ranked_log(options, options.tasks, scorer, settings, options.top)
    write_jsonl(ranked.logged, options.output)
    return ranked.scored


def _scored(options: argparse.Namespace, done: Scored, textless: int = 0) -> int:
    """What was scored is said, and whether all was."""
    for task_id, why in done.refused.items():
        print(f"{task_id}: {why}", file=sys.stderr)
    counts = {"scored": done.now, "scored before": done.before, "that could not be scored": len(done.refused)}
    counts["without a text to score"] = textless
    counts = {"read": sum(counts.values()), **counts}
    if options.json:
        told = {"scored": done.now, "before": done.before, "refused": dict(done.refused)}
        print_json({**told, "sums": {"tasks": counts}, "wrote": str(options.output)})
    else:
        print(f"{in_one_line('tasks', counts)}\nwrote {options.output}")
        if done.refused:
            print("Run the same command again to try those that could not be scored.")
    return 1 if done.refused else 0

"""Scoring the tools of tasks: score."""

from __future__ import annotations

import argparse
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

from camdf.cli.logs import add_columns, is_log, named_scorer, ranked_log
from camdf.cli.parser import add_json, check_output, notes_stream, print_json
from camdf.cli.tool_names import chosen_renames
from camdf.cli.tools import TOOLS_FILE, tools_in_file
from camdf.datasets.counts import in_one_line
from camdf.errors import UsageError
from camdf.examples.mined import mined_tasks
from camdf.runtime.progress import shown
from camdf.scorers import Necessity, Scorer
from camdf.scorers.base import TEXTS
from camdf.scorers.folder import Scored, score_folder
from camdf.scorers.necessity import VARIANTS
from camdf.tools import view


def add_commands(commands: Any) -> None:
    """score."""
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


def _rank_mined(options: argparse.Namespace, scorer: Scorer, choices: dict[str, Any]) -> tuple[Scored, int]:
    """Mined tasks ranked, and how many have no text."""
    tools = [view(tool) for tool in tools_in_file(options.tools)]
    ranked = mined_tasks().rank_table(
        options.tasks, tools, scorer, options.output, keep_text=options.keep_text, **choices
    )
    if ranked.undescribed:
        count = len(ranked.undescribed)
        listed = ", ".join(ranked.undescribed[:5])
        print(f"{count:,} tools were ranked by their names alone, as {options.tools} lacks them: {listed}")
    return ranked.scored, ranked.textless


def _score(options: argparse.Namespace) -> int:
    if options.tools is None and options.tasks.suffix == ".parquet":
        raise UsageError(
            f"{options.tasks} holds tasks without descriptions of their tools. Name a file: --tools tools.json"
        )
    of_a_log = options.tasks.exists() and is_log(options, options.tasks)
    if options.renamed and not (of_a_log or options.examples):
        raise UsageError(
            "--renamed is for a log of requests or for --examples here. Leave it out, and name it where the tasks are "
            "read."
        )
    is_table = options.tools is not None and not of_a_log
    check_output(options.output, (".parquet",) if is_table else (".jsonl",))
    if options.top is not None and options.top < 1:
        raise UsageError(f"--top says how many of a task's tools to keep, and must be at least 1. Got {options.top}.")
    scorer, settings = _scorer_to_rank_by(options)
    if of_a_log:
        return _report_scored(options, _rank_log(options, scorer, settings))
    textless = 0
    with shown("tasks") as progress, redirect_stdout(notes_stream(options)):
        choices = {"top": options.top, "vectors": options.vectors, "settings": settings, "progress": progress}
        if options.tools is None:
            done = score_folder(options.tasks, scorer, options.output, **choices)
        else:
            done, textless = _rank_mined(options, scorer, choices)
    return _report_scored(options, done, textless)


def _scorer_to_rank_by(options: argparse.Namespace) -> tuple[Scorer, dict[str, str]]:
    """The scorer that the options name, and what determines its scores."""
    if options.scorer != "llm":
        return named_scorer(options.scorer, options.text, options.model, options.examples, chosen_renames(options))
    if options.examples is not None:
        raise UsageError("The scorer 'llm' reads no examples. Leave out --examples, or name another scorer.")
    if not (options.url and options.model):
        raise UsageError("The scorer 'llm' needs an endpoint and a model. Name both: --url and --model")
    scorer = Necessity(
        options.url,
        options.model,
        options.variant,
        key_variable=options.key_variable,
        cache=options.cache,
        timeout=options.deadline,
        deadline=options.deadline,
    )
    return scorer, {"scorer": "llm", "model": options.model, "variant": options.variant}


def _rank_log(options: argparse.Namespace, scorer: Scorer, settings: dict[str, str]) -> Scored:
    from camdf.datasets import write_jsonl

    ranked = ranked_log(options, options.tasks, scorer, settings, options.top)
    write_jsonl(ranked.logged, options.output)
    return ranked.scored


def _report_scored(options: argparse.Namespace, done: Scored, textless: int = 0) -> int:
    """Say what was scored; the exit code says whether all was."""
    for task_id, why in done.refused.items():
        print(f"{task_id}: {why}", file=sys.stderr)
    parts = {
        "scored": done.now,
        "scored before": done.before,
        "that could not be scored": len(done.refused),
        "without a text to score": textless,
    }
    counts = {"read": sum(parts.values()), **parts}
    if options.json:
        document = {
            "scored": done.now,
            "before": done.before,
            "refused": dict(done.refused),
            "sums": {"tasks": counts},
            "wrote": str(options.output),
        }
        print_json(document)
    else:
        print(f"{in_one_line('tasks', counts)}\nwrote {options.output}")
        if done.refused:
            print("Run the same command again to try those that could not be scored.")
    return int(bool(done.refused))

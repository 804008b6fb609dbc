"""A log of requests on the command line: its tools, its columns, who scores, and the first look at it."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from pathlib import Path

from camdf.cli.parser import notes_stream
from camdf.cli.tool_names import add_renamed, chosen_renames
from camdf.cli.tools import TOOLS_FILE, tools_in_file, usual_scorer
from camdf.datasets.triggers import is_triggers
from camdf.errors import DataError, UsageError
from camdf.examples.mined import SCORED_BY, is_mined
from camdf.examples.text_logs import RankedLog, TextLog, is_text_log, rank_log, read_text_log
from camdf.policies.artifact import scorer_in_text
from camdf.policies.base import Policy
from camdf.policies.renames import NO_RENAMES, Renames
from camdf.policies.training import ScorerRecord
from camdf.runtime.progress import shown
from camdf.scorers import BM25, Embeddings, Scorer, Start, record_of
from camdf.scorers.base import TEXTS
from camdf.scorers.embeddings import MINILM
from camdf.scorers.named import mismatch, scorer_of, scorer_record
from camdf.scorers.with_examples import ToolExamples
from camdf.tools import NO_TOOLS, Tool, keyed, view

FILES = "logged tasks (.jsonl, .parquet or .csv), or with --tools a log of requests in any table or as chats"
TEXT_OF_TOOLS = {"start": "full", "bm25": "words", "minilm": "words"}
"""How each scorer of a log reads a tool unless told otherwise."""


def add_log(parser: argparse.ArgumentParser, also: str = "") -> None:
    """What a command needs in order to read a log of requests without scores; `also` is what else tools are for."""
    parser.add_argument("--tools", type=Path, help=f"of a log of requests{also}: {TOOLS_FILE}")
    add_columns(parser)
    parser.add_argument(
        "--scorer",
        choices=TEXT_OF_TOOLS,
        help="who scores a log (default: what the policy was fitted with, if any; else start if installed, else bm25)",
    )


def add_columns(parser: argparse.ArgumentParser) -> None:
    """What the columns of a log hold, and which of its tools have new names."""
    add_renamed(parser)
    parser.add_argument(
        "--columns",
        type=_columns_by_meaning,
        metavar="WHAT=NAME,...",
        help="columns of a log: text=prompt,required=tools_used",
    )
    parser.add_argument(
        "--empty-means",
        choices=("unknown", "none"),
        default="unknown",
        help="of a log: what an empty cell says of the needed tools (default: unknown, so its row is left out)",
    )


def read_log(options: argparse.Namespace, data: Path, tools: Mapping[str, Tool]) -> TextLog:
    """A log of requests as the options say."""
    return read_text_log(
        data,
        tools,
        options.columns,
        empty_means_none=options.empty_means == "none",
        renames=chosen_renames(options),
    )


def _columns_by_meaning(written: str) -> dict[str, str]:
    pairs = [part.partition("=") for part in written.split(",")]
    if not all(what.strip() and name.strip() for what, _, name in pairs):
        raise argparse.ArgumentTypeError(f"must be as text=prompt,required=tools_used. Got {written!r} instead")
    return {what.strip(): name.strip() for what, _, name in pairs}


def is_log(options: argparse.Namespace, data: Path) -> bool:
    """Whether a command is to read a log of requests: its tools are named, and it has no scores."""
    if options.tools is None:
        return False
    return is_triggers(data) or (not is_mined(data) and is_text_log(data))


def with_hint(error: DataError, data: Path) -> DataError:
    """The error of a table that has no scores, with what to do if it is a log of requests."""
    if not data.is_file() or not is_text_log(data):
        return error
    return DataError(f"{error} If it is a log of requests, name the tools that they had: --tools tools.json")


def ranked_log(
    options: argparse.Namespace, data: Path, scorer: Scorer, settings: dict[str, str], top: int | None = None
) -> RankedLog:
    """The tasks of a log; what was understood of it is printed first."""
    tools = listed_tools(options.tools)
    log = read_log(options, data, tools)
    print("\n".join([*log.lines(), ""]), file=notes_stream(options), flush=True)
    with shown("requests scored", after=1.0) as progress:
        ranked = rank_log(log, tools, scorer, settings, top=top, progress=progress)
    for why in ranked.scored.refused.values():
        print(f"A request could not be scored, and is left out: {why}", file=sys.stderr)
    return ranked


def listed_tools(path: Path) -> dict[str, Tool]:
    """The tools of a file by the names that logs have for them, without those that a provider runs."""
    tools = {key: tool for key, tool in keyed(map(view, tools_in_file(path))).items() if not tool.foreign}
    if not tools:
        raise UsageError(f"{path}: {NO_TOOLS}")
    return tools


def named_scorer(
    name: str | None,
    text: str | None = None,
    model: str | None = None,
    examples: Path | None = None,
    renames: Renames = NO_RENAMES,
) -> tuple[Scorer, dict[str, str]]:
    """A scorer that asks nobody, and what determines its scores; `text` is how it writes a tool."""
    name = name or usual_scorer()
    text = text or TEXT_OF_TOOLS[name]
    settings = {"scorer": name, "text": text}
    by_tool = ToolExamples(examples or (), renames)
    if by_tool.digest:
        settings["examples"] = by_tool.digest
    if by_tool.digest and renames:
        settings["renamed"] = json.dumps(dict(renames), sort_keys=True)
    if name == "minilm":
        settings["model"] = model or MINILM
        return Embeddings(settings["model"], text=TEXTS[text], examples=by_tool), settings
    kind = Start if name == "start" else BM25
    return kind(text=TEXTS[text], examples=by_tool), settings


def scored_by(data: Path) -> ScorerRecord | None:
    """What gave the scores of a file of tasks, where `camdf score` wrote that there."""
    if data.suffix != ".parquet" or not data.is_file():
        return None
    from camdf.datasets.parquet import note_of

    try:
        return scorer_in_text(note_of(data, SCORED_BY))
    except ValueError:
        return None


def scorer_for(policy: Policy, options: argparse.Namespace) -> tuple[Scorer, dict[str, str]]:
    """What scores a log for a policy: the scorer that it was fitted with, which another may replace where told to."""
    fitted = scorer_record(policy)
    if options.scorer is None and fitted is not None:
        return _scorer_of_the_fit(fitted)
    scorer, settings = named_scorer(options.scorer)
    check_scores(policy, record_of(scorer), options)
    return scorer, settings


def check_scores(policy: Policy, scored_by: ScorerRecord | None, options: argparse.Namespace) -> None:
    """Raise a UsageError where a policy was fitted with another scorer than the one of some tasks, unless allowed."""
    if scored_by is None or options.scorer_mismatch == "allow":
        return
    if problem := mismatch(scorer_record(policy), scored_by):
        raise UsageError(
            f"{problem} What is measured would not be what decides. Leave --scorer out, or score the tasks again; "
            "where the difference is meant, say so: --scorer-mismatch allow"
        )


def _scorer_of_the_fit(fitted: ScorerRecord) -> tuple[Scorer, dict[str, str]]:
    """A scorer by its record; UsageError where the record alone cannot make it."""
    if fitted.is_given:
        raise UsageError(
            "The policy was fitted on scores that came with the tasks, and its file cannot say what gave them. Name "
            "the scorer that did: --scorer"
        )
    if fitted.examples_sha256:
        raise UsageError(
            f"The policy was fitted with the scorer {fitted}, which reads examples. Score the tasks with it: camdf "
            "score --examples, and name what that wrote instead of the log."
        )
    scorer = scorer_of(fitted)
    assert scorer is not None
    kind = "minilm" if fitted.kind == "embeddings" else fitted.kind
    settings = {"scorer": kind, "text": dict(fitted.settings)["text"]}
    if kind == "minilm":
        settings["model"] = fitted.model
    return scorer, settings

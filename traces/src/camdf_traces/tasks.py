"""Mining on one machine: the span table to one row a task.

A task is one run of an agent: an agent span, and every span that has no other agent between it and that one.

- An agent span is a run if a model or a tool is called in it, sub-agents apart. Others are steps like any other: the
  workflow around several agents, a node of a graph that has the word in its name.
- What happens inside of a tool is no step of the run that called the tool: neither the tools and models that it uses,
  nor the same call as a server saw it. Only `call_tool`, the tool search of a gate, is looked through.
- In a trace with one run, steps outside of its agent belong to it too, such as the web request with the gate's decision
  on it; calls of models and tools outside of every agent belong to no run.
- A trace without any run is one if it holds several calls under one conversation id, and only one.

The result is a function of the set of spans: their order, their repetition and their layout in files change nothing.
Of two versions of one span the more complete one counts (`camdf_traces.runs.PREFERENCE`), and tasks come sorted by
time, then task_id.

The mined table has one row a task (`camdf_traces.runs` has its column types and `required`, `camdf.examples.labels` has
`NO_TOOL` and `text_group`):

    task_id       trace_id/span_id of the agent span; trace_id/ where the trace has none
    conversation  that of the agent span, else the least by name in the trace; "" without any
    user          the largest by name in the run; "" without any
    service       that of the agent span; where the trace has none, the largest by name in the run
    group         what no split may part: the conversation, else a digest of the text (`text_group`), else the task
    time          nanoseconds since 1970: the start of the agent span, else of the run's first span; null without any
    offered       the tools of the run's requests, first seen first; those of the agent where no request names any
    ranked        the candidates of the run's first usable ranking by a gate, best first, and their
    scores            scores; both empty where there is none
    called        the tools that ran without an error, by name, and those that only a request shows. Searches for tools,
                  handoffs and structured answers are left out (`NO_TOOL`), and where it is known what was offered, so
                  is what was neither offered nor ranked (`required`). What follows LlamaIndex's `handoff` is another
                  agent's, of no task
    inferred      those of them that only a request shows: no span has the id of the call, nor its name, and the model
                  was asked again, which takes an answer to the call
    wanted        the tools that the last answer of the model asked for and no span shows; they are not required
    success       false where the agent, a step of the run or anything above them has an outcome that is a failure; else
                  true where the agent or anything above it has one that is a success; null where nothing is known
    explored      whether a gate showed every tool to the run; null without a gate
    text          the user's request, where mining keeps text; else ""

Runs that failed are counted and left out: what they called is no evidence of what the task needed. A run failed where
its agent, or anything above that, ended in an error. A run without an outcome stopped where its last model call failed,
asked for tools, or has no count of its tokens, or 0, where earlier calls of that model have one; or where a tool ran
after it and no request is recorded: it was cancelled, left, not approved of or at its limit. A request for what is
named as classes are is a structured answer. Runs of a trace in which a span names a parent that is not there are left
out until it is: nobody knows what the missing span was, and how it ended.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from camdf.datasets.counts import in_one_line
from camdf.errors import require
from camdf.examples.labels import NO_TOOL
from camdf.runtime.progress import Progress, silent
from camdf_traces.ids import with_hashed_ids
from camdf_traces.pieces import joined_pieces
from camdf_traces.runs import (
    SPANS_LEFT_OUT,
    TASK_COLUMNS,
    deduplicated,
    gathered,
    span_counts,
    unranked,
    with_owners,
)
from camdf_traces.span_files import SPANS_AT_A_TIME, Source, in_parts
from camdf_traces.spans import SPAN_COLUMNS

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True)
class Mined:
    """The mined tasks, and the counts of what was read and what was left out."""

    tasks: pl.DataFrame
    spans: int
    duplicates: int
    """Spans beyond the first with the same trace_id and span_id."""

    nameless: int
    """Spans without a trace_id or a span_id, which belong to no trace."""

    unowned: int
    """Spans that belong to no run."""

    orphans: int
    """Spans that name a parent that is not there."""

    runs: int
    failed: int
    """Runs left out because they, or anything above them, ended in an error."""

    unsuccessful: int
    """Runs left out because their outcome is a failure, without an error."""

    stopped: int
    """Runs left out because they ended, without an error or an outcome, before their model answered."""

    incomplete: int
    """Other runs left out because a span of their trace is missing."""

    rests: int
    """Other runs left out because they go on with a run that is not there."""

    unknown: int
    """Runs with none of these, and without an outcome."""

    inferred: int
    """Tasks in which a call is known by its request alone: the column `inferred` names the tools."""

    require_outcome: bool
    """Whether the runs without an outcome were left out too."""

    @property
    def kept(self) -> int:
        """The number of tasks."""
        return len(self.tasks)

    @property
    def ranked(self) -> int:
        """The number of tasks with a gate's ranking: those that `camdf_traces.logged.logged_tasks` keeps."""
        return int((self.tasks["ranked"].list.len() > 0).sum())

    @property
    def explored(self) -> int:
        """The number of tasks whose agent saw every tool because the gate explored."""
        return int(self.tasks["explored"].sum())

    @property
    def tools(self) -> int:
        """The number of tools that some task was offered or called."""
        names = [self.tasks[column].explode().drop_nulls().unique() for column in ("offered", "called")]
        return int(require("polars", "mining").concat(names).n_unique())

    @property
    def spans_left_out(self) -> dict[str, int]:
        """Why spans were left out, and how many for each reason; with those that were used they are all."""
        return {reason: getattr(self, name) for name, reason in SPANS_LEFT_OUT.items()}

    @property
    def runs_left_out(self) -> dict[str, int]:
        """Why runs were left out, and how many for each reason; with the tasks they are all."""
        return {
            "ended in an error": self.failed,
            "without success": self.unsuccessful,
            "whose trace lacks a span": self.incomplete,
            "stopped before an answer": self.stopped,
            "go on with a run that is not there": self.rests,
            "without an outcome": self.unknown if self.require_outcome else 0,
        }

    @property
    def sums(self) -> dict[str, dict[str, int]]:
        """What adds up: spans read are those used and those left out, runs begun are tasks and those left out."""
        used = self.spans - sum(self.spans_left_out.values())
        return {
            "spans": {"read": self.spans, "used": used, **self.spans_left_out},
            "runs": {"begun": self.runs, "tasks": self.kept, **self.runs_left_out},
        }

    def __str__(self) -> str:
        lines = [
            *(in_one_line(what, counts) for what, counts in self.sums.items()),
            f"{self.kept:,} tasks with {self.tools:,} tools: {self.ranked:,} have a ranking, {self.explored:,} "
            "explored.",
        ]
        if self.orphans:
            lines.insert(2, f"{self.orphans:,} spans name a parent that is not there.")
        if self.unknown and not self.require_outcome:
            lines.append(f"{self.unknown:,} tasks have no recorded outcome and count as successes.")
        if self.inferred:
            lines.append(f"In {self.inferred:,} tasks a call is known by its request alone, as it has no span.")
        if self.ranked < self.kept:
            lines.append(unranked(self.kept - self.ranked))
        return "\n".join(lines)


COUNTED = tuple(field.name for field in fields(Mined) if field.name not in ("tasks", "require_outcome"))


def mine(
    source: Source,
    *,
    require_outcome: bool = False,
    with_text: bool = False,
    no_tool: str = NO_TOOL,
    at_a_time: int = SPANS_AT_A_TIME,
    id_key: bytes | None = None,
    progress: Progress = silent,
) -> Mined:
    """Tasks from spans: Parquet files of the span table (one, a folder, a list), or the table itself.

    Runs without a recorded outcome count as successes unless `require_outcome`. Text is read only `with_text`, and only
    then do near-copies outside of any conversation share a group. Calls whose names match `no_tool` are required by no
    task. About `at_a_time` spans are in memory together. With an `id_key`, ids of sessions and users are hashed.
    Runs that wait for a person and those that go on with them are one task (`camdf_traces.pieces`).
    """
    runs, seen = runs_in(source, with_text, no_tool, id_key, at_a_time, progress)
    return mined_from(joined_pieces(runs), seen, require_outcome)


def runs_in(
    source: Source,
    with_text: bool = False,
    no_tool: str = NO_TOOL,
    id_key: bytes | None = None,
    at_a_time: int = SPANS_AT_A_TIME,
    progress: Progress = silent,
) -> tuple[pl.DataFrame, Counter[str]]:
    """The runs of some spans, pieces apart, and the counts of the spans."""
    columns = [name for name in SPAN_COLUMNS if with_text or name != "text"]
    seen = Counter[str]()
    runs: list[pl.DataFrame] = []
    for spans in in_parts(source, columns, at_a_time, progress):
        owned = with_owners(deduplicated(with_hashed_ids(spans, id_key)))
        seen.update({**span_counts(spans, owned), "orphans": int(owned["orphan"].sum())})
        runs.append(gathered(owned, no_tool))
        del spans, owned  # before the next part is read
    return require("polars", "mining").concat(runs), seen


def mined_from(
    runs: pl.DataFrame, seen: Mapping[str, int], require_outcome: bool, columns: Iterable[str] = TASK_COLUMNS
) -> Mined:
    """The tasks among runs, with these columns, and how many runs were left out, by reason."""
    polars = require("polars", "mining")
    reasons = {
        "failed": polars.col("failed"),
        "unsuccessful": polars.col("success").eq_missing(False),
        "incomplete": polars.col("incomplete"),
        "stopped": polars.col("stopped"),
        "rests": polars.col("rest"),
    }
    counts = Counter[str](seen)
    counts["runs"] = len(runs)
    whole = runs
    for reason, holds in reasons.items():  # a run is counted under the first that holds
        counts[reason] = len(whole.filter(holds))
        whole = whole.filter(~holds)
    kept = whole.filter("success") if require_outcome else whole
    counts.update(unknown=whole["success"].null_count(), inferred=int((kept["inferred"].list.len() > 0).sum()))
    tasks = kept.select(*columns).sort("time", "task_id", nulls_last=True)
    return Mined(tasks, **{name: counts[name] for name in COUNTED}, require_outcome=require_outcome)

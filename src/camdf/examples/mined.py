"""Tables of mined tasks, as far as the product reads them: the distribution camdf-traces, which makes them, reads them.

It has an entry point of the group `camdf.mined`, a module that does what `MinedTasks` says.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date
from functools import cache
from os import fspath
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from camdf.core.rankings import GatedTasks, LoggedTasks
from camdf.datasets.files import File, read
from camdf.errors import needs
from camdf.runtime.progress import Progress, silent
from camdf.scorers.base import Scorer
from camdf.scorers.folder import Scored
from camdf.tools import Tool

GROUP = "camdf.mined"
"""The group of entry points in which camdf-traces names the module."""


class AskedBy(NamedTuple):
    """What a task's text was and whose; "" where that was not kept."""

    text: str = ""
    user: str = ""


SCORED_BY = "camdf.scorer"
"""The note of a Parquet file that says what gave its scores."""


class Uncensored(NamedTuple):
    """Logged tasks without those that a gate had cut tools from: what it had cut, none of them could call."""

    logged: LoggedTasks
    left_out: int
    """How many were left out. Where a gate had cut tools from every task, none was."""

    told: bool
    """Whether a gate says of some task that it saw every tool, because it explored or the gate only watched."""

    censored: bool
    """Whether a gate had cut tools from every task."""

    digests: frozenset[str]
    """Of these tasks, and of all that were read."""

    gated: GatedTasks | None = None
    """Those that were left out, as far as somebody recorded what they were offered."""

    @property
    def warnings(self) -> list[str]:
        """At most one sentence."""
        if self.censored:
            return [
                "A gate had cut tools from all of these tasks, and what it had cut none of them could call, so that "
                "less seems to be required than is. Let some see every tool: Gate(..., explore=0.1)."
            ]
        if not self.left_out:
            return []
        many = f"{self.left_out:,} tasks were" if self.left_out > 1 else "1 task was"
        return [f"{many} left out, because a gate had cut tools there, which could not be called then."]


class SampledTasks(NamedTuple):
    """Mined tasks that Spark has sampled."""

    logged: LoggedTasks
    asked: dict[str, AskedBy]
    sentence: str
    """What the sample left out."""


class RankedTable(NamedTuple):
    """What became of mined tasks that a scorer has ranked."""

    scored: Scored
    textless: int
    """Tasks without a ranking because nobody recorded what was asked."""

    undescribed: tuple[str, ...]
    """Tools that some task was offered and that the catalogue lacks: scored by their names alone."""


class ForgotInTable(Protocol):
    """What was deleted from a table; as a text, it says so in sentences."""

    def record(self) -> dict[str, Any]:
        """The same for machines."""


class MinedTasks(Protocol):
    """What camdf-traces does for the product."""

    def holds_mined_tasks(self, path: File) -> bool:
        """Whether a path holds mined tasks as `camdf mine` writes them."""

    def read_mined(self, path: File) -> LoggedTasks:
        """The mined tasks that have a ranking, as logged tasks."""

    def read_uncensored_mined(self, path: File) -> Uncensored:
        """The same without those from which a gate had cut tools, as far as there are others."""

    def asked_in_table(self, path: File) -> dict[str, AskedBy]:
        """By id, what was asked in mined tasks."""

    def sampled_on_spark(self, path: File, *, seed: int) -> SampledTasks | None:
        """A sample that Spark draws of mined tasks; None where Spark reads no table of this kind.

        Those from which a gate had cut tools are left out, if there are others.
        """

    def rank_table(
        self, path: File, tools: Iterable[Tool], scorer: Scorer, output: Path, **choices: Any
    ) -> RankedTable:
        """Mined tasks with text ranked by a scorer, and written to `output`; `choices` are those of `rank_tasks`."""

    def forget_in_table(
        self,
        table: File,
        *,
        conversation: str,
        user: str,
        before: date | None,
        alone: bool,
        id_key: bytes | None,
        hours: int,
    ) -> ForgotInTable:
        """Delete from a table of days what belongs to a session or a user, or began before a day."""

    def called_in_traces(self, path: File) -> list[list[str]]:
        """The tools that each run in a file of traces called."""


@cache
def mined_tasks() -> MinedTasks:
    """What reads tables of mined tasks, if it is installed; else an error that names the extra."""
    from importlib.metadata import entry_points  # which most commands never need

    with needs("mining"):
        for entry in entry_points(group=GROUP):
            reads: MinedTasks = entry.load()
            return reads
        raise ImportError(name="camdf_traces")


def is_mined(path: File) -> bool:
    """Whether a path holds mined tasks; most names of files say that they hold none, and then nothing is opened."""
    may_be = "://" in fspath(path) or Path(path).is_dir() or Path(path).suffix == ".parquet"
    return may_be and mined_tasks().holds_mined_tasks(path)


def read_logged(path: File, *, progress: Progress = silent) -> LoggedTasks:
    """Logged tasks from a table that `camdf mine` wrote, or from a file of one's own (`camdf.datasets.read`).

    `progress` is called with megabytes where the file is one's own.
    """
    if is_mined(path):
        return mined_tasks().read_mined(path)
    return read(path, progress=progress)


def read_uncensored(path: File, progress: Progress = silent) -> Uncensored:
    """What `read_logged` gives, without the mined tasks from which a gate had cut tools, as far as there are others."""
    if is_mined(path):
        return mined_tasks().read_uncensored_mined(path)
    return seeing_every_tool(read(path, progress=progress))


def seeing_every_tool(logged: LoggedTasks) -> Uncensored:
    """Tasks of one's own, of which nobody says that a gate had cut tools."""
    return Uncensored(logged, 0, told=False, censored=False, digests=frozenset([logged.digest()]))

"""What the service can learn from: decisions after which a run saw every tool, and what became of them.

A run that was given fewer tools can only have called those, so a log of such runs says what the policy let happen. The
runs that count here explored, or were only watched ("shadow"). Their rankings are kept on disk, names and numbers
without any text, where the configuration has a table [learn]; one that succeeded required what it called. Where the
policy recalls past requests, the direction of the text is kept with them.
"""

from __future__ import annotations

import logging
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from camdf.core.rankings import Bools, LoggedTasks
from camdf.datasets.gather import Gathered
from camdf.datasets.ids import hashed
from camdf.datasets.tool_names import joined_copies
from camdf.errors import needs
from camdf.gate.decision import GateDecision
from camdf.policies.copies import NO_COPIES, Copies
from camdf.policies.renames import Renames
from camdf.runtime.files import locked, private_opener, whole_file
from camdf.scorers.base import says_nothing
from camdf.service.outcomes import FILE as OUTCOMES
from camdf.service.outcomes import marked
from camdf.service.store import writing

with needs("serve"):
    import msgspec
    from msgspec import Struct

LOG = logging.getLogger("camdf.service")
FILE = "decisions.jsonl"
EARLIER = "decisions.earlier.jsonl"
DECIDED = ("decided", "decided before", "nothing needed")
LARGEST = 64_000_000
"""Bytes of a file of decisions; the one before it is kept, and no older one."""


class Seen(Struct, frozen=True):
    """A decision after which a run saw every tool."""

    id: str
    tenant: str
    route: str
    tools: list[str]
    """The ranked ones, with their scores and costs."""

    scores: list[float]
    costs: list[float]
    given: list[str]
    """Tools that the run had whatever a policy says: pinned, the provider's own, of an earlier turn."""

    vector: bytes = b""
    """The direction of what was asked, where the policy recalls past requests."""

    group: str = ""
    """The name of its conversation, hashed, where the vector is kept."""

    user: str = ""
    """Who asked, hashed, where the vector is kept and the request says so."""


class Lesson(Struct, frozen=True):
    """A task, and the tools that it turned out to require."""

    seen: Seen
    required: list[str]
    log: str
    """Which log of outcomes it is in, by the SHA-256 of that log's first line."""

    seq: int
    """Its number there."""

    at: float


def seen(tenant: str, route: str, decision: GateDecision, user: str = "", *, recalls: bool = False) -> Seen | None:
    """What can be learned from later; None where the run does not see every tool, or the ranking says nothing.

    Where the policy `recalls` past requests, this one may become one of them: that of a `user`, by a hashed id.
    """
    ranking = decision.ranking
    sees_all = decision.explored or (decision.mode == "shadow" and decision.reason in DECIDED)
    if not (sees_all and ranking) or says_nothing([tool.score for tool in ranking]):
        return None
    chosen = {tool.name for tool in ranking if not tool.held}
    decided = Seen(
        id=marked(decision.id, tenant),
        tenant=tenant,
        route=route,
        tools=[tool.name for tool in ranking],
        scores=[tool.score for tool in ranking],
        costs=[tool.cost for tool in ranking],
        given=[name for name in decision.kept if name not in chosen],
    )
    if not recalls:
        return decided
    group = hashed(decision.conversation, b"")
    return msgspec.structs.replace(decided, vector=decision.vector, group=group, user=user)


class SeenLog:
    """The decisions of a state folder, as lines of a file that cannot outgrow the disk."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def write(self, found: Seen) -> None:
        """One more line. A disk that is full costs lessons, which is logged and raised, and nothing else."""
        place = self.folder / FILE
        try:
            with writing(self.folder):
                with open(place, "a+b", opener=private_opener) as file:
                    if _is_torn(file):
                        file.write(b"\n")
                    file.write(msgspec.json.encode(found) + b"\n")
                    size = file.tell()
                if size > LARGEST:
                    os.replace(place, self.folder / EARLIER)
        except OSError as error:
            LOG.warning("A decision could not be kept to learn from: %s", error.strerror)
            raise

    def forget(self, is_gone: Callable[[Seen], bool]) -> int:
        """Delete decisions, and say how many; lines that cannot be read go too, as nobody knows whose they are."""
        count = 0
        with writing(self.folder):
            for path in (self.folder / EARLIER, self.folder / FILE):
                if path.exists():
                    with whole_file(path, private=True) as new, open(new, "wb") as file:
                        for line, decision in _kept_decisions(path):
                            if is_gone(decision):
                                count += 1
                            else:
                                file.write(line)
        return count


@contextmanager
def alone_with(folders: Iterable[Path]) -> Iterator[None]:
    """What state folders hold is learned from or forgotten by one process at a time, while the service writes on."""
    with ExitStack() as locks:
        for folder in sorted({folder.resolve() for folder in folders if folder.is_dir()}):
            locks.enter_context(locked(folder, wait=True))
        yield


class Taught(NamedTuple):
    """What state folders have to learn from."""

    lessons: list[Lesson]
    """In the order of the times at which their outcomes came."""

    sums: dict[str, dict[str, int]]
    """What adds up: outcomes read are lessons and others, and so are the runs that explored or were only watched."""


def read_lessons(folders: Iterable[Path]) -> Taught:
    """The tasks of these state folders that teach.

    An outcome counts once, for the tenant whose decision it names, and only where the run succeeded.
    """
    places = [Path(folder) for folder in folders]
    decisions: dict[tuple[str, str], Seen] = {}
    for folder in places:
        for name in (EARLIER, FILE):
            for _, decision in _kept_decisions(folder / name):
                decisions[decision.tenant, decision.id] = decision
    known = frozenset(decisions)
    learned: list[Lesson] = []
    left_out = Counter[str]()
    for folder in places:
        lines = list(_whole_lines(folder / OUTCOMES))
        if not lines:
            continue
        log = sha256(lines[0]).hexdigest()[:16]
        for line in lines:
            outcome: dict[str, Any] = msgspec.json.decode(line)
            run = outcome["tenant"], outcome["decision"]
            about = decisions.pop(run, None)
            if about is None and run in known:
                left_out["told again"] += 1
            elif about is None:
                left_out["of other runs"] += 1
            elif not outcome["success"]:
                left_out["without success"] += 1
            else:
                given = set(about.given) - set(about.tools)
                required = [name for name in dict.fromkeys(outcome["called"]) if name not in given]
                learned.append(Lesson(about, required, log, outcome["seq"], outcome["at"]))
    failed = {"without success": left_out["without success"]}
    reasons = {**failed, "told again": left_out["told again"], "of other runs": left_out["of other runs"]}
    read = {"read": len(learned) + sum(reasons.values()), "to learn from": len(learned), **reasons}
    begun = {"begun": len(known), "tasks": len(learned), **failed, "without an outcome": len(decisions)}
    return Taught(sorted(learned, key=lambda lesson: lesson.at), {"outcomes": read, "explored runs": begun})


def tasks_of_lessons(lessons: Sequence[Lesson], copies: Copies = NO_COPIES) -> LoggedTasks:
    """Lessons as logged tasks, at the prices of their time, with vectors where all have equally long ones.

    Of tools that do the same, each lists one.
    """
    tasks = Gathered()
    equally_long = len({len(lesson.seen.vector) for lesson in lessons}) == 1
    for lesson in lessons:
        task = lesson.seen
        scores = dict(zip(task.tools, task.scores, strict=True))
        costs = dict(zip(task.tools, task.costs, strict=True))
        vector = np.frombuffer(task.vector, np.int8).tolist() if equally_long else []
        group = task.group or task.id
        tasks.add(task.id, group, scores, lesson.required, len(lesson.required), costs, vector, task.user)
    return joined_copies(tasks.logged(priced=True, keep_order=False), copies)


def renamed_lesson(lesson: Lesson, renames: Renames) -> Lesson:
    """The same lesson with each tool under its new name, where `renames` has one for it."""

    def under_new_names(names: Iterable[str]) -> list[str]:
        return [renames.get(name, name) for name in names]

    decided = msgspec.structs.replace(
        lesson.seen, tools=under_new_names(lesson.seen.tools), given=under_new_names(lesson.seen.given)
    )
    return msgspec.structs.replace(lesson, seen=decided, required=under_new_names(lesson.required))


def given_tools(lessons: Sequence[Lesson], logged: LoggedTasks, copies: Copies = NO_COPIES) -> Bools:
    """(n, m): the candidates that these tasks have whatever a policy says; of tools that do the same, if any is."""
    given = np.zeros_like(logged.required)
    for row, lesson in enumerate(lessons):
        stays = {copies.get(name, name) for name in lesson.seen.given}
        given[row, : logged.rankings.lengths[row]] = [name in stays for name in logged.rankings.names(row)]
    return given


def _is_torn(file: BinaryIO) -> bool:
    """Whether the last line has no end: the process was killed, or the disk was full, while it was written."""
    if not file.seek(0, os.SEEK_END):
        return False
    file.seek(-1, os.SEEK_END)
    return file.read(1) != b"\n"


def _kept_decisions(path: Path) -> Iterator[tuple[bytes, Seen]]:
    """The decisions of a file, each with its line. Torn lines are left out, and their number is logged."""
    decoder = msgspec.json.Decoder(Seen)
    torn = 0
    for line in _whole_lines(path):
        try:
            decision = decoder.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError):
            torn += 1
        else:
            yield line, decision
    if torn:
        LOG.warning("Left out of what is learned from: %d of the lines in %s, which cannot be read.", torn, path)


def _whole_lines(path: Path) -> Iterator[bytes]:
    """The whole lines of a file that may be growing; none where there is no file."""
    try:
        with open(path, "rb") as file:
            yield from (line for line in file if line.endswith(b"\n"))
    except FileNotFoundError:
        return

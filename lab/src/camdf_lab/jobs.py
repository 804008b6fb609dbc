"""Jobs of the lab worked off side by side: each finished one is stored, so that interrupted work resumes."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import asdict, dataclass
from io import BytesIO
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
from threadpoolctl import threadpool_limits

import camdf
from camdf.evaluation.replay import Outcomes
from camdf.runtime.files import write_whole
from camdf.runtime.progress import Progress, counted, silent
from camdf_lab.stored import Row, Rows


class Job(Protocol):
    """Something to replay: a cell of a table, a sweep over regimes, a learning curve. Equal jobs replay the same."""

    @property
    def key(self) -> str:
        """Everything that determines the outcome, as text."""
        ...

    def run(self) -> Outcomes:
        """The replay."""
        ...

    def __hash__(self) -> int: ...


@dataclass(frozen=True)
class RankingJob:
    """What a job over one domain under one ranking has; a kind of job adds `run`."""

    domain: str
    scorer: str
    splits: int = 10
    seed: int = 0

    @property
    def key(self) -> str:
        """Everything that determines the outcome, as one line of JSON."""
        return json.dumps({"job": type(self).__name__, **asdict(self)}, sort_keys=True)


@dataclass(frozen=True)
class RowsJob:
    """What a study measures at one place: rows, by a function of a module."""

    rows_of: Callable[..., Rows]
    place: tuple[Any, ...]

    @property
    def key(self) -> str:
        """Function and place, as text."""
        return f"{self.rows_of.__module__}.{self.rows_of.__qualname__}{self.place!r}"

    def run(self) -> Rows:
        """Measure it."""
        return self.rows_of(*self.place)


J = TypeVar("J", bound=Job)
AnyJob = TypeVar("AnyJob", bound="Job | RowsJob")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Kept(Generic[Result]):
    """How finished jobs of a kind are kept: the ending of a file's name, and what is written to it and read from it."""

    ending: str
    packed: Callable[[Result], bytes]
    unpacked: Callable[[bytes], Result]


def default_cache() -> Path:
    """Where finished jobs are kept: the folder named by CAMDF_CACHE, else one in the home directory.

    Its last part is a digest of both packages' code and data, so that no job outlives what it was computed with.
    """
    sha = hashlib.sha256()
    for package in (Path(camdf.__file__).parent, Path(__file__).parent):
        for path in sorted(path for kind in ("py", "npz", "json") for path in package.rglob(f"*.{kind}")):
            sha.update(path.read_bytes())
    home = Path(os.environ.get("CAMDF_CACHE", "~/.cache/camdf")).expanduser()
    return home / f"cells-{sha.hexdigest()[:16]}"


def run_jobs(
    jobs: Iterable[J],
    *,
    workers: int = 0,
    cache: Path | None = None,
    progress: Progress = silent,
) -> dict[J, Outcomes]:
    """The outcomes of all jobs, each run once; those in `cache` are read instead of run.

    `workers` is the number of processes, 0 for one a core. Results do not depend on it: a job draws all its randomness
    from its own seed, and linear algebra runs on one thread.
    """
    return _finished(jobs, OUTCOMES, workers, cache, progress)


def measure_rows(
    rows_of: Callable[..., Rows],
    places: Iterable[Sequence[Any]],
    *,
    workers: int = 0,
    cache: Path | None = None,
    progress: Progress = silent,
) -> list[Row]:
    """What `rows_of` measures at all places, in their order, side by side as `run_jobs` does."""
    jobs = [RowsJob(rows_of, tuple(place)) for place in places]
    return [row for rows in _finished(jobs, ROWS, workers, cache, progress).values() for row in rows]


def _finished(
    jobs: Iterable[AnyJob], kept: Kept[Result], workers: int, cache: Path | None, progress: Progress
) -> dict[AnyJob, Result]:
    wanted = list(dict.fromkeys(jobs))
    files: dict[AnyJob, Path] = {}
    if cache is not None:
        files = {job: cache / f"{_digest_of_job(job)}.{kept.ending}" for job in wanted}
    finished = {job: kept.unpacked(file.read_bytes()) for job, file in files.items() if file.exists()}
    missing = [job for job in wanted if job not in finished]
    running = _work_off(missing, workers or os.cpu_count() or 1)
    for job, result in counted(running, len(wanted), progress, before=len(finished)):
        finished[job] = result
        if job in files:
            files[job].parent.mkdir(parents=True, exist_ok=True)
            write_whole(files[job], kept.packed(result))
    return {job: finished[job] for job in wanted}


def _work_off(jobs: list[AnyJob], workers: int) -> Iterator[tuple[AnyJob, Any]]:
    if workers == 1 or len(jobs) <= 1:
        _one_thread()
        yield from ((job, job.run()) for job in jobs)
        return
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn"), initializer=_one_thread) as pool:
        running: dict[Future[Any], AnyJob] = {pool.submit(job.run): job for job in jobs}
        try:
            while running:
                done, _ = wait(running, return_when=FIRST_COMPLETED)
                for future in done:
                    yield running.pop(future), future.result()
        finally:
            for future in running:
                future.cancel()


def _one_thread() -> None:
    """Sums inside a threaded BLAS depend on the number of threads; one thread gives one answer."""
    threadpool_limits(1)


def _digest_of_job(job: Job | RowsJob) -> str:
    return hashlib.sha256(job.key.encode()).hexdigest()[:32]


def _packed(outcomes: Outcomes) -> bytes:
    arrays = {f"values/{name}": values for name, values in outcomes.values.items()}
    arrays |= {f"by_split/{name}": values for name, values in outcomes.by_split.items()}
    packed = BytesIO()
    np.savez_compressed(packed, task_ids=outcomes.task_ids, groups=outcomes.groups, **arrays)  # type: ignore[arg-type]
    return packed.getvalue()


def _unpacked(packed: bytes) -> Outcomes:
    with np.load(BytesIO(packed), allow_pickle=False) as stored:
        parts: dict[str, dict[str, np.ndarray]] = {"values": {}, "by_split": {}}
        for key in stored.files:
            kind, _, name = key.partition("/")
            if name:
                parts[kind][name] = stored[key]
        return Outcomes(stored["task_ids"], stored["groups"], parts["values"], parts["by_split"])


OUTCOMES = Kept("npz", _packed, _unpacked)
ROWS: Kept[Rows] = Kept("json", lambda rows: json.dumps(rows).encode(), json.loads)

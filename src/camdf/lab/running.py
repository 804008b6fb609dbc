"""Cells worked off side by side: progress with an estimate, each finished cell stored, interrupted work resumed."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from multiprocessing import get_context
from pathlib import Path
from typing import Protocol, TypeVar

import numpy as np

import camdf
from camdf.lab.replay import Outcomes


class Job(Protocol):
    """Something to replay: a cell, or a sweep over many. Jobs are values, equal where they replay the same."""

    @property
    def key(self) -> str:
        """Everything that determines the outcome, as text."""
        ...

    def run(self) -> Outcomes:
        """The replay."""
        ...

    def __hash__(self) -> int: ...


J = TypeVar("J", bound=Job)
Item = TypeVar("Item")

Report = Callable[[int, int, float], None]
"""Called after every cell or split with how many are done, how many there are, and the estimated seconds left."""


def watched(items: Iterable[Item], total: int, report: Report, before: int = 0) -> Iterator[Item]:
    """The items, and a report after each has been worked off; `before` the first, so many others were done already."""
    start = time.monotonic()
    for number, item in enumerate(items, 1):
        yield item
        left = (time.monotonic() - start) / number * (total - before - number)
        report(before + number, total, left)


def default_cache() -> Path:
    """Where finished cells are kept: the folder named by CAMDF_CACHE, else one in the home directory.

    Its last part is a digest of this package's code and data, so that no cell outlives what it was computed with.
    """
    sha = hashlib.sha256()
    package = Path(camdf.__file__).parent
    for path in sorted([*package.rglob("*.py"), *package.rglob("*.npz")]):
        sha.update(path.read_bytes())
    home = Path(os.environ.get("CAMDF_CACHE", "~/.cache/camdf")).expanduser()
    return home / f"cells-{sha.hexdigest()[:16]}"


def run_cells(
    cells: Iterable[J],
    *,
    workers: int = 0,
    cache: Path | None = None,
    report: Report = lambda done, total, left: None,
) -> dict[J, Outcomes]:
    """The outcomes of all cells, each run once; those in `cache` are read instead of run.

    `workers` is the number of processes, 0 for one a core. Results do not depend on it: a cell draws all its randomness
    from its own seed, and linear algebra runs on one thread.
    """
    wanted = list(dict.fromkeys(cells))
    finished = {} if cache is None else {cell: found for cell in wanted if (found := _read(cache, cell)) is not None}
    missing = [cell for cell in wanted if cell not in finished]
    running = _run(missing, workers or os.cpu_count() or 1)
    for cell, outcomes in watched(running, len(wanted), report, before=len(finished)):
        finished[cell] = outcomes
        if cache is not None:
            _write(cache, cell, outcomes)
    return {cell: finished[cell] for cell in wanted}


def _run(cells: list[J], workers: int) -> Iterator[tuple[J, Outcomes]]:
    if workers == 1 or len(cells) <= 1:
        _one_thread()
        yield from ((cell, cell.run()) for cell in cells)
        return
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn"), initializer=_one_thread) as pool:
        running: dict[Future[Outcomes], J] = {pool.submit(cell.run): cell for cell in cells}
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
    from threadpoolctl import threadpool_limits

    threadpool_limits(1)


def _file(cache: Path, cell: Job) -> Path:
    return cache / f"{hashlib.sha256(cell.key.encode()).hexdigest()[:32]}.npz"


def _write(cache: Path, cell: Job, outcomes: Outcomes) -> None:
    cache.mkdir(parents=True, exist_ok=True)
    arrays = {f"values/{name}": values for name, values in outcomes.values.items()}
    arrays |= {f"by_split/{name}": values for name, values in outcomes.by_split.items()}
    unfinished = _file(cache, cell).with_suffix(f".{os.getpid()}.npz.part")
    with unfinished.open("wb") as file:
        np.savez_compressed(file, task_ids=outcomes.task_ids, groups=outcomes.groups, **arrays)  # type: ignore[arg-type]
    unfinished.replace(_file(cache, cell))


def _read(cache: Path, cell: Job) -> Outcomes | None:
    path = _file(cache, cell)
    if not path.exists():
        return None
    with np.load(path, allow_pickle=False) as stored:
        parts: dict[str, dict[str, np.ndarray]] = {"values": {}, "by_split": {}}
        for key in stored.files:
            kind, _, name = key.partition("/")
            if name:
                parts[kind][name] = stored[key]
        return Outcomes(stored["task_ids"], stored["groups"], parts["values"], parts["by_split"])

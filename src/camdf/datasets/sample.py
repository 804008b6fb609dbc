"""A small sample of logged tasks that comes with the package, to try everything on."""

from __future__ import annotations

from importlib.resources import as_file, files

from camdf.core.rankings import LoggedTasks
from camdf.datasets.files import read_jsonl


def sample() -> LoggedTasks:
    """67 tasks of a shop's support desk over seven tools whose prices differ, scored by a language model.

    The requests are those of tau-bench retail (Yao et al., arXiv:2406.12045, MIT), of which names and numbers are here
    and no text. The distribution camdf-lab has 16 more domains.

    >>> logged = sample()
    >>> len(logged), logged.rankings.width, round(float(logged.n_required.mean()), 2)
    (67, 7, 3.73)
    """
    with as_file(files("camdf.datasets") / "sample.jsonl") as path:
        return read_jsonl(path)

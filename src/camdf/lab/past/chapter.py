"""One study past the paper: measured once, stored as a table, then drawn and written from there alone."""

from __future__ import annotations

import csv
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

import numpy as np

from camdf.lab.replay import Outcomes
from camdf.lab.results import DIGEST
from camdf.lab.running import Job

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture

Row: TypeAlias = Mapping[str, Any]
Rows: TypeAlias = Sequence[Row]
J = TypeVar("J", bound=Job)

AGREEMENT = 1e-6
"""A recomputed figure may differ from the stored one by so much: other processors round differently, and no more."""


class Run(Protocol):
    """Replays jobs, with progress."""

    def __call__(self, jobs: Sequence[J], /) -> dict[J, Outcomes]: ...


@dataclass(frozen=True)
class Chapter:
    """What a study measures, how a sample of it is measured again, and what the page shows of it."""

    name: str
    """Its rows are stored as results/NAME.csv."""

    measure: Callable[[Run], Rows]
    """All rows: flat, of texts, whole numbers and floats."""

    recheck: Callable[[Rows, int, Run], list[str]]
    """Where a sample drawn by seed, measured again in seconds, differs from the stored rows, in words."""

    section: Callable[[Rows], list[str]]
    """Its lines of the page, from stored rows alone."""

    pictures: Callable[[Rows], dict[str, Picture]]
    """What it draws, by file stem."""


def differing(before: Rows, now: Rows, place: Sequence[str], figures: Sequence[str]) -> list[str]:
    """Where figures measured again differ from the stored ones, in words; the columns of `place` tell rows apart."""
    known = {tuple(row[name] for name in place): row for row in before}
    found = []
    for row in now:
        where = tuple(row[name] for name in place)
        for name in figures:
            then, again = (float(each.get(name, "nan")) for each in (known.get(where, {}), row))
            if not np.isclose(then, again, rtol=0, atol=AGREEMENT, equal_nan=True):
                found.append(f"{where} {name}: stored {then:.6f}, now {again:.6f}")
    return found


def store(folder: Path, name: str, rows: Rows) -> Rows:
    """Write the rows with six decimals, note their digest, and return them as they will be read."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows({key: _text(value) for key, value in row.items()} for row in rows)
    path = folder / DIGEST
    digests = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    digests[f"{name}.csv"] = _digest(folder, name)
    path.write_text(json.dumps(digests, indent=1) + "\n", encoding="utf-8")
    return stored(folder, name)


def stored(folder: Path, name: str) -> Rows:
    """The rows, once the file is known to be the one whose digest was noted; what looks like a number is one."""
    expected = json.loads((folder / DIGEST).read_text(encoding="utf-8")).get(f"{name}.csv")
    if _digest(folder, name) != expected:
        raise ValueError(f"{folder / name}.csv is not the file that {DIGEST} names. Run: camdf lab past {name}")
    with (folder / f"{name}.csv").open(newline="", encoding="utf-8") as file:
        return [{key: _value(text) for key, text in row.items()} for row in csv.DictReader(file)]


def _digest(folder: Path, name: str) -> str:
    return hashlib.sha256((folder / f"{name}.csv").read_bytes()).hexdigest()


def _text(value: object) -> object:
    return f"{value:.6f}".rstrip("0").rstrip(".") if isinstance(value, float) else value


def _value(text: str) -> str | float:
    try:
        return float(text)
    except ValueError:
        return text

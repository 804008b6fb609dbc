"""Stored results: every figure of every study, the means of every cell, and a digest that covers both."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from camdf.lab.cells import Cell
from camdf.lab.replay import MEASURES, Outcomes
from camdf.lab.study import Figure, Result, Study, fill
from camdf.policies.linear import MissingExtraError

FIGURES, CELLS, DIGEST = "figures.parquet", "cells.parquet", "digest.json"

SIDES = ("ours", "paper", "margin", "paper_margin")
"""The figures of a result."""

AGREEMENT = 1e-6
"""A recomputed mean may differ from the stored one by so much: other processors round differently, and no more."""


@dataclass(frozen=True)
class Stored:
    """What a results folder holds: filled studies, and a mean of every measure for every policy of every cell."""

    results: list[Result]
    means: dict[str, dict[str, dict[str, float]]]
    """Cell key, policy, measure."""


def store(folder: Path, studies: Iterable[Study], outcomes: Mapping[Cell, Outcomes]) -> list[Result]:
    """Fill the studies, write figures, cells and digest, and return the figures."""
    results = [result for study in studies for result in fill(study, outcomes)]
    figures = [_flat(result) for result in results]
    cells = [
        {"cell": cell.key, "policy": policy, "standard_error": found.standard_error(policy)}
        | {measure: found.mean(policy, measure) for measure in MEASURES}
        for cell, found in outcomes.items()
        for policy in found.values
    ]
    folder.mkdir(parents=True, exist_ok=True)
    _write(folder / FIGURES, figures)
    _write(folder / CELLS, cells)
    path = folder / DIGEST
    digest = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    digest |= {FIGURES: _digest(figures), CELLS: _digest(cells), "figures": len(figures), "cells": len(outcomes)}
    path.write_text(json.dumps(digest, indent=1) + "\n", encoding="utf-8")
    return results


def read(folder: Path) -> Stored:
    """The stored results, once both files are known to be the ones that the digest names."""
    expected = json.loads((folder / DIGEST).read_text(encoding="utf-8"))
    figures, cells = _read(folder / FIGURES), _read(folder / CELLS)
    for name, rows in ((FIGURES, figures), (CELLS, cells)):
        if _digest(rows) != expected[name]:
            raise ValueError(f"{folder / name} is not the file that {DIGEST} names. Run: camdf lab run all")
    means: dict[str, dict[str, dict[str, float]]] = {}
    for row in cells:
        means.setdefault(row["cell"], {})[row["policy"]] = {measure: row[measure] for measure in MEASURES}
    return Stored([_unflat(row) for row in figures], means)


def disagreements(stored: Stored, outcomes: Mapping[Cell, Outcomes]) -> list[str]:
    """Where recomputed cells differ from the stored ones, in words; empty where all agree."""
    found = []
    for cell, again in outcomes.items():
        for policy in again.values:
            for measure in MEASURES:
                before, now = stored.means[cell.key][policy][measure], again.mean(policy, measure)
                if abs(before - now) > AGREEMENT:
                    found.append(f"{cell.domain}/{cell.scorer} {policy} {measure}: stored {before:.6f}, now {now:.6f}")
    return found


def sample(cells: Iterable[Cell], count: int, seed: int) -> list[Cell]:
    """At least `count` cells, one of every domain among them, drawn by seed."""
    rng = np.random.default_rng(seed)
    wanted = list(dict.fromkeys(cells))
    shuffled = [wanted[i] for i in rng.permutation(len(wanted))]
    first = {cell.domain: cell for cell in reversed(shuffled)}
    chosen = list(first.values())
    return chosen + [cell for cell in shuffled if cell not in chosen][: max(0, count - len(chosen))]


def _flat(result: Result) -> dict[str, Any]:
    flat: dict[str, Any] = {name: getattr(result, name) for name in ("study", "row", "column", "verdict", "why")}
    for side in SIDES:
        figure: Figure | None = getattr(result, side)
        parts = dict.fromkeys(("value", "low", "high", "clear")) if figure is None else asdict(figure)
        flat |= {f"{side}_{name}": part for name, part in parts.items()}
    return flat


def _unflat(row: Mapping[str, Any]) -> Result:
    sides: dict[str, Any] = {
        side: None
        if row[f"{side}_value"] is None
        else Figure(*(row[f"{side}_{part}"] for part in ("value", "low", "high", "clear")))
        for side in SIDES
    }
    return Result(row["study"], row["row"], row["column"], verdict=row["verdict"], why=row["why"], **sides)


def _digest(rows: list[dict[str, Any]]) -> str:
    return hashlib.sha256(json.dumps(rows, sort_keys=True).encode()).hexdigest()


def _write(path: Path, rows: list[dict[str, Any]]) -> None:
    arrow, parquet = _pyarrow()
    parquet.write_table(arrow.Table.from_pylist(rows), path, compression="zstd")


def _read(path: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = _pyarrow()[1].read_table(path).to_pylist()
    return rows


def _pyarrow() -> tuple[Any, Any]:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise MissingExtraError("Stored results are Parquet. Install: pip install 'camdf[lab]'") from error
    return pyarrow, parquet

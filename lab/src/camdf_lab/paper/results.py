"""Stored results: every figure of every table, the means of every cell, and a digest that covers both."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from camdf.evaluation.replay import MEASURES, Outcomes
from camdf_lab.paper.cells import Cell
from camdf_lab.paper.figure import Figure
from camdf_lab.paper.table import Result, Table, fill, judge
from camdf_lab.stored import agrees, check_digest, note_digests, there

FIGURES = "figures.parquet"
CELLS = "cells.parquet"
COMMAND = "camdf-lab run all"
"""What measures and stores them."""

SIDES = ("ours", "paper", "margin", "paper_margin")
"""The figures of a result."""

FIGURE_PARTS = ("value", "low", "high", "clear")
"""The fields of a figure."""


@dataclass(frozen=True)
class StoredResults:
    """What a results folder holds: filled tables, and a mean of every measure for every policy of every cell."""

    results: list[Result]
    means: dict[str, dict[str, dict[str, float]]]
    """Cell key, policy, measure."""


def store_results(folder: Path, tables: Iterable[Table], outcomes: Mapping[Cell, Outcomes]) -> list[Result]:
    """Fill the tables, write figures, cells and digests, and return the filled entries."""
    results = [result for table in tables for result in fill(table, outcomes)]
    figures = [_flat(result) for result in results]
    cells = [_means_of(cell, policy, paid) for cell, paid in outcomes.items() for policy in paid.values]
    folder.mkdir(parents=True, exist_ok=True)
    _write(folder / FIGURES, figures)
    _write(folder / CELLS, cells)
    counts = {"figures": len(figures), "cells": len(outcomes)}
    note_digests(folder, {FIGURES: _digest_of_rows(figures), CELLS: _digest_of_rows(cells), **counts})
    return results


def _means_of(cell: Cell, policy: str, paid: Outcomes) -> dict[str, Any]:
    """What is stored of one policy in one cell."""
    means = {measure: paid.mean(policy, measure) for measure in MEASURES}
    return {"cell": cell.key, "policy": policy, "standard_error": paid.standard_error(policy), **means}


def stored_results(folder: Path) -> StoredResults:
    """The stored results, after a check that both files are the ones whose digests were noted."""
    figures = _read_checked(folder, FIGURES)
    cells = _read_checked(folder, CELLS)
    means: dict[str, dict[str, dict[str, float]]] = {}
    for row in cells:
        means.setdefault(row["cell"], {})[row["policy"]] = {measure: row[measure] for measure in MEASURES}
    return StoredResults([_unflat(row) for row in figures], means)


def sampled_cells(cells: Iterable[Cell], count: int, seed: int) -> list[Cell]:
    """At least `count` cells drawn by seed, with one of every domain among them."""
    rng = np.random.default_rng(seed)
    wanted = list(dict.fromkeys(cells))
    shuffled = [wanted[i] for i in rng.permutation(len(wanted))]
    first = {cell.domain: cell for cell in reversed(shuffled)}
    chosen = list(first.values())
    return chosen + [cell for cell in shuffled if cell not in chosen][: max(0, count - len(chosen))]


def cell_disagreements(stored: StoredResults, outcomes: Mapping[Cell, Outcomes]) -> list[str]:
    """Where the means of replayed cells differ from the stored ones, in words; empty where all agree."""
    differences = []
    for cell, again in outcomes.items():
        known = stored.means.get(cell.key, {})
        for policy in again.values:
            means = known.get(policy, {})
            for measure in MEASURES:
                before = means.get(measure, math.nan)
                now = again.mean(policy, measure)
                if not agrees(before, now):
                    differences.append(
                        f"{cell.domain}/{cell.scorer} {policy} {measure}: stored {before:.6f}, now {now:.6f}"
                    )
    return differences


def disagreements(stored: StoredResults, tables: Iterable[Table], outcomes: Mapping[Cell, Outcomes]) -> list[str]:
    """Where anything stored differs from all cells replayed and all tables filled again, in words.

    Compares every mean of every cell, and every figure of every table; verdicts follow from these.
    """
    keys = {cell.key for cell in outcomes}
    differences = cell_disagreements(stored, outcomes)
    differences += [f"a stored cell was not replayed: {key}" for key in stored.means if key not in keys]
    before = {(result.table, result.row, result.column): result for result in stored.results}
    now = {(result.table, result.row, result.column): result for table in tables for result in fill(table, outcomes)}
    for place in dict.fromkeys([*before, *now]):
        where = ", ".join(place)
        if place not in now:
            differences.append(f"{where}: stored, but in no table")
            continue
        if place not in before:
            differences.append(f"{where}: not stored")
            continue
        old = _flat(before[place])
        new = _flat(now[place])
        differences += [
            f"{where} {name}: stored {then}, now {new[name]}"
            for name, then in old.items()
            if not agrees(then, new[name])
        ]
    return differences


def _flat(result: Result) -> dict[str, Any]:
    flat: dict[str, Any] = {name: getattr(result, name) for name in ("table", "row", "column")}
    for side in SIDES:
        figure: Figure | None = getattr(result, side)
        parts = dict.fromkeys(FIGURE_PARTS) if figure is None else asdict(figure)
        flat |= {f"{side}_{name}": part for name, part in parts.items()}
    return flat


def _unflat(row: Mapping[str, Any]) -> Result:
    sides: dict[str, Any] = {side: _figure_of_side(row, side) for side in SIDES}
    verdict, why = judge(sides["margin"], sides["paper_margin"])  # which the figures decide
    return Result(row["table"], row["row"], row["column"], verdict=verdict, why=why, **sides)


def _figure_of_side(row: Mapping[str, Any], side: str) -> Figure | None:
    if row[f"{side}_value"] is None:
        return None
    return Figure(*(row[f"{side}_{part}"] for part in FIGURE_PARTS))


def _digest_of_rows(rows: list[dict[str, Any]]) -> str:
    return hashlib.sha256(json.dumps(rows, sort_keys=True).encode()).hexdigest()


def _write(path: Path, rows: list[dict[str, Any]]) -> None:
    parquet.write_table(pa.Table.from_pylist(rows), path, compression="zstd")


def _read_checked(folder: Path, name: str) -> list[dict[str, Any]]:
    """The rows of a file, once it is known to be the one whose digest was noted."""
    rows: list[dict[str, Any]] = parquet.read_table(there(folder / name, COMMAND)).to_pylist()
    check_digest(folder, name, _digest_of_rows(rows), COMMAND)
    return rows

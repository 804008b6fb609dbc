"""Do the membership probabilities mean what they say? Held-out reliability of every domain and ranking."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from camdf import datasets
from camdf.core.rankings import Bools, Floats
from camdf.policies.membership import fit_membership

BINS = 10
NAME = "calibration.csv"


def reliability(probability: Floats, required: Bools) -> list[tuple[int, float, float]]:
    """For ten bins of equal width: how many candidates, their mean probability, and the share that was required."""
    place = np.minimum((probability * BINS).astype(int), BINS - 1)
    filled = [place == number for number in range(BINS)]
    return [(int(b.sum()), float(probability[b].mean()), float(required[b].mean())) for b in filled if b.any()]


def expected_calibration_error(bins: Iterable[tuple[int, float, float]]) -> float:
    """The mean over candidates of |share required - mean probability| of their bin."""
    found = list(bins)
    return sum(count * abs(share - mean) for count, mean, share in found) / sum(count for count, _, _ in found)


def measure() -> list[dict[str, Any]]:
    """One row a bin, of every domain and ranking: predictions for each task come from models that saw no near-copy."""
    rows: list[dict[str, Any]] = []
    for domain in datasets.DOMAINS:
        for scorer in domain.scorers:
            logged = datasets.load(domain.name, scorer)
            held = fit_membership(logged)[1]
            listed = logged.rankings.listed
            for count, mean, share in reliability(held.probability[listed], logged.required[listed]):
                rows.append(
                    {
                        "domain": domain.name,
                        "scorer": scorer,
                        "candidates": count,
                        "probability": mean,
                        "required": share,
                    }
                )
    return rows


def write(folder: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Store as results/calibration.csv."""
    with (folder / NAME).open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        for row in rows:
            writer.writerow({k: f"{v:.6f}" if isinstance(v, float) else v for k, v in row.items()})


def read(folder: Path) -> dict[tuple[str, str], list[tuple[int, float, float]]]:
    """(domain, scorer) -> bins."""
    found: dict[tuple[str, str], list[tuple[int, float, float]]] = {}
    with (folder / NAME).open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            bins = found.setdefault((row["domain"], row["scorer"]), [])
            bins.append((int(row["candidates"]), float(row["probability"]), float(row["required"])))
    return found

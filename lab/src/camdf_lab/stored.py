"""Measured rows as CSV files in a folder of results, and one file of digests that covers everything stored there."""

from __future__ import annotations

import csv
import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from camdf.errors import DataError

Row: TypeAlias = Mapping[str, Any]
Rows: TypeAlias = Sequence[Row]

DIGESTS = "digest.json"
AGREEMENT = 1e-6
"""How far a figure measured again may lie from the stored one: processors round differently, and no more."""


def held() -> Path:
    """The results that come with the lab: inside the installed package, or beside its sources in a checkout."""
    inside = Path(__file__).parent / "results"
    return inside if inside.is_dir() else Path(__file__).parents[2] / "results"


def agrees(stored: object, measured: object) -> bool:
    """Whether a value measured again is the stored one: numbers within `AGREEMENT`, NaN with NaN, others if equal."""
    if isinstance(stored, int | float) and isinstance(measured, int | float):
        return bool(np.isclose(stored, measured, rtol=0, atol=AGREEMENT, equal_nan=True))
    return stored == measured


def note_digests(folder: Path, digests: Mapping[str, Any]) -> None:
    """Add to the folder's digests, or replace some of them."""
    path = folder / DIGESTS
    known = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    path.write_text(json.dumps({**known, **digests}, indent=1) + "\n", encoding="utf-8")


def there(path: Path, command: str) -> Path:
    """The path, if such a file is stored; else an error that names the command which makes it."""
    if not path.is_file():
        raise DataError(
            f"{path}: no results are stored there. Name the folder that holds them, or measure them, which takes "
            f"long: {command}"
        )
    return path


def check_digest(folder: Path, name: str, digest: str, command: str) -> None:
    """Raise where a stored file is not the one whose digest was noted; `command` makes it anew."""
    expected = json.loads(there(folder / DIGESTS, command).read_text(encoding="utf-8"))
    if digest != expected.get(name):
        raise DataError(f"{folder / name} is not the file that {DIGESTS} names. Run: {command}")


def store(folder: Path, name: str, rows: Rows, command: str = "") -> Rows:
    """Write the rows with six decimals, note their digest, and return them as they will be read."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        for row in rows:
            writer.writerow({name: _as_text(value) for name, value in row.items()})
    note_digests(folder, {path.name: digest_of_file(path)})
    return stored(folder, name, command)


def stored(folder: Path, name: str, command: str = "") -> Rows:
    """The rows, once the file is known to be the one whose digest was noted; what looks like a number is one.

    `command` is what makes them, for errors: by default that of a study past the paper.
    """
    command = command or f"camdf-lab past {name}"
    path = there(folder / f"{name}.csv", command)
    check_digest(folder, path.name, digest_of_file(path), command)
    with path.open(newline="", encoding="utf-8") as file:
        return [_as_values(row) for row in csv.DictReader(file)]


def digest_of_file(path: Path) -> str:
    """What is noted of a stored file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _as_text(value: object) -> object:
    if isinstance(value, float):
        return f"{value:.6f}".rstrip("0").rstrip(".")
    return value


def _as_values(row: Mapping[str, str]) -> Row:
    return {name: _as_value(text) for name, text in row.items()}


def _as_value(text: str) -> str | float:
    try:
        return float(text)
    except ValueError:
        return text

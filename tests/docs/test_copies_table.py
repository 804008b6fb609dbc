"""docs/fitting.md shows what it is worth to say which tools do the same, as it is stored."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from loading import benchmark_module
from saying import says

ROOT = Path(__file__).parents[2]


def test_the_page_has_the_stored_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    copies = benchmark_module("copies", monkeypatch)
    stored = json.loads((ROOT / "results" / "copies.json").read_text())
    page = (ROOT / "docs" / "fitting.md").read_text(encoding="utf-8")
    assert copies.table_of_worlds(stored) in page
    pairs = sum("domain" in row for row in stored)
    assert says(page, f"suggest {pairs} pairs")


def test_copies_that_are_found_are_right_and_worth_joining(monkeypatch: pytest.MonkeyPatch) -> None:
    copies = benchmark_module("copies", monkeypatch)
    stored = json.loads((ROOT / "results" / "copies.json").read_text())
    worlds = [row for row in stored if "world" in row]
    assert sum(row["wrongly found"] for row in worlds) == 0
    for world in copies.NEEDS:
        clear = [row for row in worlds if row["world"] == world and row["noise between copies"] == copies.APART[0]]
        gain = np.mean([row["found"] - row["alone"] for row in clear])
        assert gain == 0 if world == "no copies" else gain > 0.06

"""docs/fitting.md shows how often a verdict is wrong, as it is stored."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from loading import benchmark_module

ROOT = Path(__file__).parents[2]


def test_the_page_has_the_stored_table(monkeypatch: pytest.MonkeyPatch) -> None:
    verdicts = benchmark_module("verdicts", monkeypatch)
    stored = json.loads((ROOT / "results" / "verdicts.json").read_text())
    assert verdicts.table(stored) in (ROOT / "docs" / "fitting.md").read_text(encoding="utf-8")
    for world in verdicts.WORLDS:
        assert sum(row["world"] == world for row in stored) == verdicts.REPETITIONS[world]

"""The plan for a hundred billion spans a day is arithmetic on what was measured."""

from __future__ import annotations

import json
import runpy
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_page_is_written_from_the_stored_figures() -> None:
    program = runpy.run_path(str(ROOT / "docs" / "at_scale_page.py"))
    stored = [json.loads((ROOT / "results" / name).read_text()) for name in program["STORED"]]
    assert (ROOT / "docs" / "at-scale.md").read_text(encoding="utf-8") == program["page"](*stored)


def test_more_tasks_teach_more_until_they_teach_nothing() -> None:
    rows = json.loads((ROOT / "results" / "at_scale.json").read_text())["curve"]
    payoffs = [row["payoff"] for row in rows]
    assert rows[-1]["tasks"] == 30_000
    assert payoffs[0] < payoffs[-1] - 0.005
    assert payoffs[-1] - payoffs[3] < 0.002

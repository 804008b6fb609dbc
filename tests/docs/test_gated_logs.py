"""docs/fitting.md shows what is learned from logs that a gate cut, as it is stored."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from loading import benchmark_module

ROOT = Path(__file__).parents[2]


def test_the_page_has_the_stored_table(monkeypatch: pytest.MonkeyPatch) -> None:
    gated_logs = benchmark_module("gated_logs", monkeypatch)
    stored = json.loads((ROOT / "results" / "gated_logs.json").read_text())
    assert gated_logs.table(stored) in (ROOT / "docs" / "fitting.md").read_text(encoding="utf-8")


def test_what_was_offered_adds_payoff_and_nothing_is_believed_as_wrongly_as_after_a_fit_on_cut_logs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gated_logs = benchmark_module("gated_logs", monkeypatch)
    stored = json.loads((ROOT / "results" / "gated_logs.json").read_text())
    by_way = {(row["way"], row["seed"]): row for row in stored}
    for seed in gated_logs.SEEDS:
        both, alone, naive = (by_way[way, seed] for way in (gated_logs.BOTH, gated_logs.ALONE, gated_logs.ALL))
        assert both["payoff"] > max(alone["payoff"], naive["payoff"])
        assert abs(both["believed"] - both["sufficient"]) < 0.06 < 0.2 < naive["believed"] - naive["sufficient"]

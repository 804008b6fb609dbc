"""docs/privilege.md shows what is stored of what a privilege stops, and of what it costs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from loading import benchmark_module

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "privilege.md").read_text(encoding="utf-8")


def stored(name: str) -> Any:
    return json.loads((ROOT / "results" / f"{name}.json").read_text())


def test_the_page_has_the_stored_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    orders = benchmark_module("injected_orders", monkeypatch)
    writes = benchmark_module("refused_writes", monkeypatch)
    assert orders.table(stored("injected_orders")) in PAGE
    assert orders.replay_table(stored("injected_orders")) in PAGE
    assert writes.table(stored("refused_writes")) in PAGE


def test_the_figures_in_the_text_are_the_stored_ones() -> None:
    orders = stored("injected_orders")
    floor = orders["rules"]["exactly the tools of the task"]["executable"]
    text = " ".join(PAGE.split())
    assert f"In {floor:.0%} of the pairs below" in text
    assert f"what came of {orders['replay']['a privilege, no labels']['pairs']} pairs" in text


def test_what_is_stored_keeps_the_promise() -> None:
    orders = stored("injected_orders")
    replay = orders["replay"]["a privilege, no labels"]
    assert replay["ran_outside"] == 0
    assert replay["refused"] > 0
    with_examples = [row for row in stored("refused_writes") if (row["tools"], row["told"]) == (40, "examples")]
    assert with_examples[0]["refused"] <= 0.15 * with_examples[0]["needed"]

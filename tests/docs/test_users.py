"""docs/fitting.md shows what knowing the user gains, as it is stored."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from loading import benchmark_module

ROOT = Path(__file__).parents[2]


def test_the_page_has_the_stored_table(monkeypatch: pytest.MonkeyPatch) -> None:
    users = benchmark_module("users", monkeypatch)
    stored = json.loads((ROOT / "results" / "users.json").read_text())
    assert users.table(stored) in (ROOT / "docs" / "fitting.md").read_text(encoding="utf-8")


def test_the_oracle_beats_every_set_of_one_size_and_needs_no_more_than_it_may_have(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    users = benchmark_module("users", monkeypatch)
    world = users.World(0)
    tasks = world.draw(200, users.np.random.default_rng(0), "task")
    best = users.PAYOFF.of(tasks.logged, world.oracle(tasks)).mean()
    in_order = world.own[tasks.users]
    own = users.np.zeros(tasks.ratio.shape, dtype=bool)
    users.np.put_along_axis(own, in_order, True, axis=1)
    all_four = users.np.take_along_axis(own, tasks.logged.rankings.tool_ids, axis=1)
    assert best > users.PAYOFF.of(tasks.logged, all_four).mean()

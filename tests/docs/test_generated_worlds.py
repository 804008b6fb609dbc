"""docs/policies.md shows what the default earns in worlds whose truth is known, as it is stored."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from loading import benchmark_module

ROOT = Path(__file__).parents[2]


def test_the_page_has_the_stored_table(monkeypatch: pytest.MonkeyPatch) -> None:
    worlds = benchmark_module("generated_worlds", monkeypatch)
    stored = json.loads((ROOT / "results" / "generated_worlds.json").read_text())
    assert worlds.table(stored) in (ROOT / "docs" / "policies.md").read_text(encoding="utf-8")


def test_the_oracle_lies_between_what_a_task_needs_and_any_fixed_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """It knows the world and not the task: it earns less than whoever knows that, and more than any fixed number."""
    worlds = benchmark_module("generated_worlds", monkeypatch)
    for name, world in worlds.worlds(0).items():
        tasks = world.draw(300, worlds.np.random.default_rng(0), "task")
        earned = worlds.PAYOFF.of(tasks.logged, tasks.ranked(world.oracle(tasks))).mean()
        assert earned < worlds.PAYOFF.of(tasks.logged, tasks.logged.required).mean()
        places = worlds.np.arange(worlds.TOOLS)
        for number in (0, 1, 3, 6, 12):
            fixed = worlds.np.broadcast_to(places < number, tasks.needed.shape)
            assert earned > worlds.PAYOFF.of(tasks.logged, fixed).mean() - 0.01, (name, number)

"""What fitting on a gate's own logs does: the simulated deployment, and what its stored rounds show."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from camdf_lab import domains
from camdf_lab.beyond import deployment
from camdf_lab.beyond.deployment import DEPLOYED, WAYS
from camdf_lab.stored import stored

ROOT = Path(__file__).parents[1]
ROWS = stored(ROOT / "results", "deployment")


def payoff(domain: str, way: int, number: int) -> tuple[float, float]:
    (row,) = (r for r in ROWS if (r["domain"], r["way"], r["round"]) == (domain, WAYS[way].name, number))
    return row["payoff"], row["error"]


def test_every_way_starts_from_the_same_first_round() -> None:
    for domain, _ in DEPLOYED:
        assert len({payoff(domain, way, 0) for way in range(len(WAYS))}) == 1


@pytest.mark.parametrize("domain", [domain for domain, _ in DEPLOYED])
def test_without_exploration_payoff_decays_and_with_it_learning_from_explored_runs_holds(domain: str) -> None:
    first, error = payoff(domain, 1, 0)
    alone, alone_error = payoff(domain, 1, 10)
    explored, explored_error = payoff(domain, 3, 10)
    assert alone < first - 2 * np.hypot(error, alone_error)
    assert explored > alone + 2 * np.hypot(alone_error, explored_error)
    assert explored > first - 2 * np.hypot(error, explored_error)


def test_a_deployment_is_a_function_of_its_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deployment, "ROUNDS", 2)
    tasks = domains.load("retail", "claude")
    for way in WAYS[2:]:
        first, second = (deployment.payoffs("retail", tasks, way, seed=1) for _ in range(2))
        assert np.array_equal(first, second)
        assert first.shape == (3, 2)

"""The service's numbers say what has moved since the fit of a policy, and name nothing of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import camdf
from camdf import LoggedTasks, Payoff
from camdf.policies.drift import fitted_catalogue
from camdf.policies.training import Training
from running_service import PLAIN, folder_of, ranking, running

PAYOFF = Payoff(0.06)
TOOLS = tuple(f"tool_{place}" for place in range(6))


def lists(seed: int) -> list[dict[str, float]]:
    """Sixty lists of the same tools."""
    scores = np.random.default_rng(seed).random((60, len(TOOLS))).tolist()
    return [dict(zip(TOOLS, row, strict=True)) for row in scores]


def test_scores_that_moved_are_counted_among_the_numbers_of_the_service(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "served", PLAIN)
    logged = LoggedTasks.from_records([{"scores": scores, "required": []} for scores in lists(1)])
    policy = camdf.ScoreAtLeast(0.5)
    chosen = policy.decide(logged.rankings, PAYOFF).acquired.sum(axis=1)
    kept = fitted_catalogue(logged, chosen, PAYOFF.cost_pressure)
    camdf.save(policy, folder / "policy.json", Training(catalogue=kept, payoff=PAYOFF))
    with running(folder) as service:
        for scores in lists(2):
            service.decide(ranking(scores))
        for what in ("scores", "catalogue", "tools"):
            assert service.number(f'camdf_moved{{what="{what}"}}') == 0
        for scores in lists(3):
            service.decide(ranking({name: 0.5 * score + 0.4 for name, score in scores.items()}))
        assert service.number('camdf_moved{what="scores"}') == 1
        assert service.number('camdf_moved{what="catalogue"}') == 0
        assert "tool_1" not in service.ask("/metrics").body

"""Promises on a domain: what the study finds, its frontier, its table and its picture."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from camdf import (
    ExpectedPayoffBySet,
    LoggedTasks,
    Payoff,
)
from camdf.core.payoff import cost_of
from camdf.core.rankings import Bools, Floats
from camdf.policies.pressure import (
    leaving_pressures,
    unit_weights,
)
from camdf_lab import domains
from camdf_lab.beyond import promises_page
from camdf_lab.beyond.priors import Unseen
from camdf_lab.beyond.promises import Promises, nested_frontier, promises
from camdf_lab.beyond.promises_picture import frontier_picture
from worlds import random_logged


def mean_by_group(values: Floats | Bools, logged: LoggedTasks) -> float:
    return float(np.mean([values[logged.groups == name].mean() for name in np.unique(logged.groups)]))


@cache
def retail() -> Promises:
    return promises(domains.load("retail", "claude"), Unseen("retail"))


def test_promises_hold_on_retail_and_a_level_beyond_ten_groups_is_refused() -> None:
    first, second, beyond = retail().coverage
    for found in (first, second):
        assert found.refused == 0
        assert found.sufficiency >= found.level - 4 * found.error
        assert found.kept == pytest.approx(found.sufficiency)
        assert found.spread[0] <= found.sufficiency <= found.spread[1]
    assert first.cost < second.cost
    assert beyond.refused == 1
    assert beyond.highest == pytest.approx(10 / 11)


def test_the_frontier_is_what_the_policy_comes_to_at_each_pressure() -> None:
    learned, logged = (random_logged(np.random.default_rng(seed), 120, 8, missing=0.15) for seed in (1, 2))
    policy = ExpectedPayoffBySet().fit(learned, Payoff(0.1))
    leaving = leaving_pressures(policy, logged.rankings)
    found = nested_frontier(logged, leaving, unit_weights(logged))
    assert (np.diff(found.pressure) < 0).all()
    assert (np.diff(found.cost) > 0).all()
    assert (np.diff(found.sufficiency) >= 0).all()
    for at in (0, 5, len(found.cost) // 2):
        payoff = Payoff(found.pressure[at] * (1 + 1e-9))
        acquired = policy.decide(logged.rankings, payoff).acquired
        assert found.cost[at] == pytest.approx(mean_by_group(cost_of(logged.rankings, acquired), logged))
        assert found.sufficiency[at] == pytest.approx(mean_by_group(logged.sufficient(acquired), logged))


def test_the_rules_frontiers_are_prefixes_of_the_ranking() -> None:
    by_k = retail().by_k
    np.testing.assert_allclose(by_k.cost, np.arange(8))
    assert by_k.sufficiency[-1] == pytest.approx(retail().frontier.sufficiency[-1])
    assert retail().by_score.cost[-1] == pytest.approx(7.0)


def test_the_table_has_a_line_a_level_and_marks_refusals() -> None:
    lines = promises_page.section(promises_page.rows_of("retail", "claude"))
    table = [line for line in lines if line.startswith("| retail")]
    assert len(table) == 3
    assert "| retail, claude | 0.95 | 10 | 100% | 0.909 |  |  |  |" in table
    assert {line.count("|") for line in table} == {9}


def test_the_picture_names_every_promise_budget_and_refusal() -> None:
    picture = frontier_picture({"retail": retail()})
    texts = {text.get_text() for axes in picture.axes for text in axes.texts}
    assert {"≥ 0.80", "≥ 0.90", "budget 1", "budget 5", "refused: 0.95 (highest 0.91)"} <= texts
    with pytest.raises(ValueError, match="at least one study"):
        frontier_picture({})

"""What a gate had cut could not be called: a fit learns of such tasks what became of the tools that were offered."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from camdf import ExpectedPayoffBySet, LoggedTasks, Payoff
from camdf.core.rankings import Bools, GatedTasks, joined
from camdf.evaluation.fit import LearningFromGated, fit
from loading import benchmark_module

PAYOFF = Payoff(0.05)
OFFERED = 3
"""So many of the best tools a gate leaves."""


@pytest.fixture(scope="module")
def worlds() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        yield benchmark_module("generated_worlds", patch)


def cut(tasks: LoggedTasks, offered: Bools) -> GatedTasks:
    called = tasks.required & offered
    return GatedTasks(replace(tasks, required=called, n_required=called.sum(axis=1)), offered)


def best(tasks: LoggedTasks, count: int = OFFERED) -> Bools:
    return np.broadcast_to(np.arange(tasks.rankings.width) < count, tasks.required.shape).copy()


def believed_and_true(policy: Any, later: LoggedTasks) -> tuple[float, float]:
    chosen = policy.decide(later.rankings, PAYOFF).acquired
    believed = policy.estimated_sufficiency(later.rankings, chosen).mean()
    return float(believed), float(later.sufficient(chosen).mean())


@pytest.mark.parametrize("seed", range(2))
def test_labels_that_a_gate_cut_do_not_make_tools_look_as_if_they_sufficed(seed: int, worlds: Any) -> None:
    world, rng = worlds.World(seed, 0.0), np.random.default_rng(seed)
    whole, others, later = (world.draw(count, rng, str(count)).logged for count in (80, 400, 1000))
    gated = cut(others, best(others))
    naive = ExpectedPayoffBySet().fit(joined(whole, gated.logged), PAYOFF)
    believed, true = believed_and_true(naive, later)
    assert believed > true + 0.15
    told = fit(whole, PAYOFF, gated=gated)
    assert told.learned_from_gated
    believed, true = believed_and_true(told.policy, later)
    assert abs(believed - true) < 0.09


def test_gated_tasks_teach_nothing_of_what_they_were_not_offered(worlds: Any) -> None:
    world, rng = worlds.World(0, 0.0), np.random.default_rng(0)
    whole, others = (world.draw(count, rng, str(count)).logged for count in (40, 30))
    alone = ExpectedPayoffBySet().fit(whole, PAYOFF)
    nothing = ExpectedPayoffBySet().fit(whole, PAYOFF, gated=cut(others, np.zeros(others.required.shape, dtype=bool)))
    before, same = (policy.probabilities(others.rankings)[0] for policy in (alone, nothing))
    assert np.allclose(before, same, atol=1e-9)
    offered = best(others)
    after = ExpectedPayoffBySet().fit(whole, PAYOFF, gated=cut(others, offered))
    needed = replace(others, required=others.required | ~offered, n_required=(others.required | ~offered).sum(axis=1))
    assert after == ExpectedPayoffBySet().fit(whole, PAYOFF, gated=cut(needed, offered))
    assert after.model_.times_listed == alone.model_.times_listed
    assert not np.allclose(after.probabilities(others.rankings)[0], before, atol=1e-3)


def test_a_replay_learns_nothing_from_gated_tasks_of_groups_that_it_holds_out(worlds: Any) -> None:
    world, rng = worlds.World(0, 0.0), np.random.default_rng(1)
    whole, others = (world.draw(count, rng, str(count)).logged for count in (40, 30))
    same = np.resize(whole.groups[:10], len(others))
    gated = cut(replace(others, groups=same), best(others))
    held_out, taught = whole.take(slice(10)), whole.take(slice(10, None))
    replayed = LearningFromGated(ExpectedPayoffBySet, gated, whole.groups).fit(taught, PAYOFF)
    apart = ExpectedPayoffBySet().fit(taught, PAYOFF, gated=gated.without(held_out.groups.tolist()))
    assert not len(gated.without(held_out.groups.tolist()).logged)
    assert replayed.policy == apart
    assert LearningFromGated(ExpectedPayoffBySet, gated, whole.groups).fit(whole, PAYOFF).policy != apart


def test_a_rule_learns_from_the_others_alone(worlds: Any) -> None:
    world, rng = worlds.World(0, 0.0), np.random.default_rng(2)
    whole, others = (world.draw(count, rng, str(count)).logged for count in (40, 30))
    told = fit(whole, PAYOFF, "score-threshold", gated=cut(others, best(others)))
    assert not told.learned_from_gated
    assert told.policy == fit(whole, PAYOFF, "score-threshold").policy

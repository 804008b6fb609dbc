"""Tools that go together: the formula in plain Python, whose groups count, what a file may hold, when it is read."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from math import log, prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from camdf import ExpectedPayoffBySet, Gate, LoggedTasks, Payoff, Tool
from camdf.core.rankings import Floats, Rankings
from camdf.errors import UsageError
from camdf.policies.artifact import from_json, to_json
from camdf.policies.models.company import SUREST, Company, company_left_out, company_of, count_pairs
from camdf.policies.renames import renamed_policy
from camdf.scorers import Given
from worlds import random_logged

PAYOFF = Payoff(0.05)
CHAINS = (("find user", "read order", "cancel order"), ("list rooms", "book room", "send invitation"))
OTHERS = tuple(f"tool {number}" for number in range(6))
TOOLS = (*CHAINS[0], *CHAINS[1], *OTHERS)
IDENTITY = np.array([0.0, 1.0, 0.0])


@cache
def chained(tasks: int, seed: int, chains: bool = True) -> LoggedTasks:
    """Tasks that need a whole chain, of which the scores show the first tool alone; or else that tool alone."""
    rng = np.random.default_rng(seed)
    records = []
    for _ in range(tasks):
        chain = CHAINS[rng.integers(len(CHAINS))]
        scores = {name: float(0.15 + 0.5 * (name == chain[0]) + 0.3 * rng.random()) for name in TOOLS}
        records.append({"scores": scores, "required": chain if chains else chain[:1]})
    return LoggedTasks.from_records(records)


@cache
def fitted() -> ExpectedPayoffBySet:
    return ExpectedPayoffBySet().fit(chained(80, 0), PAYOFF)


def company() -> Company:
    known = fitted().model_.company
    assert known is not None
    return known


def column_in_plain_python(logged: LoggedTasks, probability: Floats, row: int, weight: dict[str, float]) -> list[float]:
    """The column of one task, from the tasks of other groups, written out."""
    listed = logged.rankings.names(row)
    others = [task for task in range(len(logged)) if logged.groups[task] != logged.groups[row]]
    needs = {
        task: {name for name, marked in zip(logged.rankings.names(task), logged.required[task], strict=False) if marked}
        for task in others
    }
    of_task = {task: weight[str(logged.groups[task])] for task in others}
    total = sum(of_task.values())
    needed = {name: sum(of_task[task] for task in others if name in needs[task]) for name in listed}
    rate = {name: (needed[name] + 0.5) / (total + 1) for name in listed}

    def given_one(first: str, second: str) -> float:
        both = sum(of_task[task] for task in others if {first, second} <= needs[task])
        return (both + 2 * rate[second]) / (needed[first] + 2)

    def log_odds(chance: float) -> float:
        chance = min(max(chance, SUREST), 1 - SUREST)
        return log(chance / (1 - chance))

    p = dict(zip(listed, probability[row].tolist(), strict=False))
    return [
        log_odds(1 - prod(1 - p[first] * given_one(first, name) for first in listed if first != name))
        - log_odds(rate[name])
        for name in listed
    ]


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000))
def test_the_column_is_what_the_formula_says_of_the_tasks_of_other_groups(seed: int) -> None:
    rng = np.random.default_rng(seed)
    logged = random_logged(rng, 12, 5, shared=True)
    probability = rng.random(logged.rankings.scores.shape)
    column = company_left_out(logged, count_pairs(logged), probability)
    names, sizes = np.unique(logged.groups, return_counts=True)
    weight = dict(zip(names.tolist(), (sizes**-0.5).tolist(), strict=True))
    for row in range(len(logged)):
        assert np.allclose(column[row], column_in_plain_python(logged, probability, row, weight), atol=1e-9)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000))
def test_a_tasks_own_labels_change_nothing_in_its_column(seed: int) -> None:
    rng = np.random.default_rng(seed)
    logged = random_logged(rng, 12, 5, shared=True)
    probability = rng.random(logged.rankings.scores.shape)
    mine = logged.groups == logged.groups[0]
    other = replace(
        logged, required=np.where(mine[:, None], ~logged.required, logged.required), n_required=np.full(12, 9)
    )
    before = company_left_out(logged, count_pairs(logged), probability)
    after = company_left_out(other, count_pairs(other), probability)
    assert np.allclose(before[mine], after[mine], atol=1e-9)


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 10_000))
def test_a_probability_is_the_same_alone_in_a_batch_and_in_a_wider_list(seed: int) -> None:
    rng = np.random.default_rng(seed)
    known = company_of(chained(30, 1), count_pairs(chained(30, 1)), np.array([-0.2, 0.9, 0.8]))
    batch = Rankings.from_scores([_scores(rng, int(rng.integers(1, len(TOOLS) + 1))) for _ in range(6)])
    probability = rng.random(batch.scores.shape) * batch.listed
    together = known.with_company(probability, batch)
    for row, length in enumerate(batch.lengths.tolist()):
        alone = Rankings.from_scores(dict(zip(batch.names(row), batch.scores[row, :length].tolist(), strict=True)))
        own = known.with_company(probability[row : row + 1, :length], alone)
        assert own[0].tobytes() == together[row, :length].tobytes()


def _scores(rng: np.random.Generator, length: int) -> dict[str, float]:
    chosen = rng.choice([*TOOLS, "a new tool"], length, replace=False)
    return dict(zip(chosen.tolist(), np.sort(rng.random(length))[::-1].tolist(), strict=True))


def test_tools_of_a_chain_are_loaded_though_no_score_shows_them() -> None:
    later = chained(200, 1)
    lonely = ExpectedPayoffBySet()
    lonely.model_ = replace(fitted().model_, company=None)
    assert np.array_equal(fitted().decide(later.rankings, PAYOFF).acquired, later.required)
    assert not np.array_equal(lonely.decide(later.rankings, PAYOFF).acquired, later.required)


def test_where_no_two_tools_are_needed_together_nothing_is_read_nor_written() -> None:
    policy = ExpectedPayoffBySet().fit(chained(80, 0, chains=False), PAYOFF)
    assert policy.model_.company is None
    assert "company" not in to_json(policy)


def test_a_tool_that_no_task_knows_has_no_company() -> None:
    rankings = Rankings.from_scores({"find user": 0.8, "a new tool": 0.5, "read order": 0.1})
    probability = np.array([[0.9, 0.5, 0.1]])
    a, _, _ = company().coefficients
    moved = company().with_company(probability, rankings)[0]
    assert moved[1] == pytest.approx(1 / (1 + np.exp(-a)))  # whatever b: the log odds of a half are 0
    alone = company().with_company(np.array([[0.001, 0.5, 0.1]]), rankings)[0]
    assert moved[2] > alone[2]
    names = company().companions(probability, rankings, 0)
    assert "a new tool" not in {*names, *names.values()}


def test_a_gate_says_which_tool_a_tool_goes_with() -> None:
    scores = chained(50, 2).rankings
    by_name = dict(zip(scores.names(0), scores.scores[0].tolist(), strict=True))
    first = next(chain for chain in CHAINS if chain[0] == scores.names(0)[0])[0]
    explained = Gate(fitted(), Given(by_name), PAYOFF).decide("who is that", [Tool(name) for name in TOOLS]).explain()
    assert f"often needed together with {first}" in explained


def test_a_saved_policy_decides_the_same_and_takes_new_names() -> None:
    again = from_json(to_json(fitted()).encode())
    later = chained(50, 2).rankings
    assert isinstance(again, ExpectedPayoffBySet)
    assert again.probabilities(later)[0].tobytes() == fitted().probabilities(later)[0].tobytes()
    assert to_json(again) == to_json(fitted())
    known = renamed_policy(fitted(), {"find user": "look up user"}).model_.company
    assert known is not None
    assert known.tools == tuple("look up user" if name == "find user" else name for name in company().tools)


@pytest.mark.parametrize(
    "change",
    [
        {"needed": (1.0,)},
        {"coefficients": (0.0, 1.0)},
        {"first": (0, 0), "second": (1, 1), "together": (1.0, 1.0)},
        {"first": (1,), "second": (0,), "together": (1.0,)},
        {"first": (0,), "second": (999,), "together": (1.0,)},
        {"first": (0,), "second": (1,), "together": (-1.0,)},
        {"tasks": -1.0},
        {"tools": tuple(f"tool {number}" for number in range(65)), "needed": (0.0,) * 65},
    ],
)
def test_counts_that_no_log_gives_are_refused(change: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        replace(company(), **change)  # type: ignore[arg-type]


def test_coefficients_that_change_nothing_change_nothing() -> None:
    logged = chained(40, 3)
    still = company_of(logged, count_pairs(logged), IDENTITY)
    probability = np.random.default_rng(0).uniform(0.01, 0.99, logged.rankings.scores.shape)
    assert np.allclose(still.with_company(probability, logged.rankings), probability, atol=1e-12)


def test_without_enough_labels_a_policy_keeps_the_company_that_it_starts_from() -> None:
    made_up = fitted()
    started = ExpectedPayoffBySet(prior=made_up).fit(chained(80, 5).take(np.arange(5)), PAYOFF)
    assert started.model_.company is made_up.model_.company


def test_a_policy_goes_on_from_the_company_that_it_starts_from() -> None:
    """Twelve labels alone do not show it clearly enough, and nothing in them speaks against it."""
    few = chained(80, 5).take(np.arange(12))
    before = company()
    after = ExpectedPayoffBySet(prior=fitted()).fit(few, PAYOFF).model_.company
    assert after is not None
    assert after.tasks == pytest.approx(12 + 0.2 * before.tasks)


def test_labels_that_speak_against_company_outweigh_it() -> None:
    apart = chained(200, 6, chains=False)
    later = chained(200, 7, chains=False)
    policy = ExpectedPayoffBySet(prior=fitted()).fit(apart, PAYOFF)
    assert np.array_equal(policy.decide(later.rankings, PAYOFF).acquired, later.required)

"""The cold start: the shipped policy, how it is learned, and the stored table of left-out domains."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from importlib.resources import files
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from camdf import ExpectedPayoffBySet, Payoff, Rankings, cold_start
from camdf.core.probability import sigmoid
from camdf.core.sets import shift_to_expect
from camdf.errors import UsageError
from camdf.evaluation.replay import all_handed_over
from camdf.policies.artifact import from_json, to_json
from camdf.policies.cold_start import TOOLS_PER_LIST, told_tools_per_task
from camdf.policies.models.prior import FILE, KINDS, shipped_prior
from camdf.policies.models.set_law import sharpened
from camdf.policies.models.warm_start import fit_warm
from camdf_lab import domains
from saying import refuses

PAYOFFS = [Payoff(0.05), Payoff(0.12), Payoff(0.2, "partial")]


kinds = pytest.mark.parametrize("scores", KINDS)


@kinds
def test_the_shipped_prior_is_small_and_decides_with_numpy_alone(scores: str) -> None:
    assert len((files("camdf.policies.models") / FILE.format(scores)).read_bytes()) < 5_000
    code = (
        "import sys, camdf; ranking = camdf.Rankings.from_scores({'a': 0.9, 'b': 0.1});"
        f"assert camdf.cold_start({scores!r}).decide(ranking, camdf.Payoff(0.2)).names(ranking) == ['a'];"
        "assert not {'sklearn', 'scipy', 'camdf.datasets', 'camdf_lab'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@kinds
def test_saving_and_loading_changes_nothing(scores: str) -> None:
    text = to_json(cold_start(scores))
    assert to_json(from_json(text.encode())) == text


def test_scores_are_similarities_unless_they_are_said_to_be_probabilities() -> None:
    assert to_json(cold_start()) == to_json(cold_start("similarity")) != to_json(cold_start("probability"))
    with refuses(ValueError, "similarity", "probability", "bm25"):
        cold_start("bm25")


def test_a_probability_is_read_by_itself_and_a_similarity_with_its_list() -> None:
    alone, among = ([{"a": 0.6, "b": 0.5, **more}] for more in ({}, {"c": 0.5, "d": 0.4}))
    for scores, same in (("probability", True), ("similarity", False)):
        chances = [
            cold_start(scores).model_.probabilities(Rankings.from_scores(lists))[0][0, 0] for lists in (alone, among)
        ]
        assert (chances[0] == chances[1]) == same


@pytest.mark.parametrize("payoff", PAYOFFS, ids=str)
def test_the_names_of_tools_do_not_matter(payoff: Payoff) -> None:
    rankings = domains.load("mcp-atlas", "minilm").rankings
    renamed = replace(rankings, catalogue=tuple(f"tool {i}" for i in range(len(rankings.catalogue))))
    decided = [cold_start().decide(each, payoff).acquired for each in (rankings, renamed)]
    assert decided[0].any()
    assert np.array_equal(decided[0], decided[1])


def test_dearer_tools_are_never_taken_in_greater_number() -> None:
    rankings = domains.load("retail").rankings
    for value in ("exact", "partial"):
        taken = [cold_start().decide(rankings, Payoff(p, value)).acquired.sum(axis=1) for p in (0.0, 0.02, 0.12, 0.5)]
        assert all((cheap >= dear).all() for cheap, dear in pairwise(taken))
        assert (taken[0] > taken[-1]).any()


@pytest.mark.parametrize("domain", ["retail", "mcp-atlas", "bfcl-multi-turn"])
@pytest.mark.parametrize("tools", [0.5, 2.0, 1000.0])
def test_told_how_many_tools_a_task_calls_it_expects_so_many(domain: str, tools: float) -> None:
    rankings = domains.load(domain, "minilm").rankings
    policy = cold_start(tools_per_task=tools, rankings=rankings)
    expected = policy.probabilities(rankings)[0].sum()
    assert expected == pytest.approx(np.minimum(tools, 0.95 * rankings.lengths).sum(), rel=1e-5)


def test_the_number_of_tools_and_the_rankings_go_together() -> None:
    rankings = domains.load("retail").rankings
    for wrong in ({"tools_per_task": 2.0}, {"rankings": rankings}):
        with pytest.raises(UsageError, match="Give both, or neither"):
            cold_start(**wrong)
    for number in (0.0, -1.0, float("nan"), float("inf")):
        with refuses(UsageError, "'tools_per_task' of cold_start", must="above 0", got=number):
            cold_start(tools_per_task=number, rankings=rankings)


def test_an_empty_list_gets_nothing_beside_one_that_gets_something() -> None:
    decided = cold_start().decide(Rankings.from_scores([{"a": 0.9, "b": 0.3}, {}]), Payoff(0.05)).acquired
    assert decided.any(axis=1).tolist() == [True, False]


@pytest.mark.parametrize("domain", ["retail", "mcp-atlas", "bfcl-multi-turn"])
def test_without_a_label_every_list_is_taken_to_hold_so_many_tools(domain: str) -> None:
    rankings, policy = domains.load(domain, "minilm").rankings, cold_start()
    expected = sharpened(policy.probabilities(rankings)[0], policy.model_.sharpness) * rankings.listed
    assert expected.sum(axis=1) == pytest.approx(np.minimum(TOOLS_PER_LIST, 0.4 * rankings.lengths), rel=1e-5)


@given(st.lists(st.lists(st.floats(-40, 40), max_size=30), min_size=1, max_size=5), st.floats(0.01, 20))
def test_a_list_is_shifted_as_far_alone_as_in_a_wider_batch(lists: list[list[float]], wanted: float) -> None:
    width = max(map(len, lists)) + 2
    log_odds = np.array([odds + [0.0] * (width - len(odds)) for odds in lists])
    lengths = np.array([len(odds) for odds in lists])
    listed = np.arange(width) < lengths[:, None]
    number = np.minimum(wanted, 0.95 * lengths)
    shifts = shift_to_expect(log_odds, listed, number)
    assert (sigmoid(log_odds + shifts[:, None]) * listed).sum(axis=1) == pytest.approx(number, abs=1e-7)
    for odds, one, shift in zip(lists, number, shifts, strict=True):
        alone = np.array([odds]).reshape(1, -1)
        if odds:
            assert shift_to_expect(alone, np.ones(alone.shape, dtype=bool), np.array([one]))[0] == shift


def test_labels_go_on_from_what_the_prior_says_of_lists_and_not_from_the_number_of_tools() -> None:
    """A fit or an update starts where it started before lists were taken to hold a number of tools."""
    logged = domains.load("retail", "minilm").take(slice(5))
    cold = cold_start()
    plain = fit_warm(logged.take(slice(0)), (shipped_prior("similarity"),)).model
    policy = from_json(to_json(cold).encode())
    assert isinstance(policy, ExpectedPayoffBySet)
    policy.update(logged)
    assert (policy.model_.tools_per_list, policy.model_.sharpness, policy.model_.calibration) == (0.0, 1.0, (0.0, 1.0))
    one, other = (model.probabilities(logged.rankings)[0] for model in (cold.model_.unshifted(), plain))
    assert np.array_equal(one, other)
    from_policy = ExpectedPayoffBySet(prior=cold).fit(logged, Payoff(0.1)).model_
    assert (from_policy.tools_per_list, from_policy.sharpness) == (0.0, 1.0)


def test_a_model_refuses_a_number_of_tools_that_no_list_has() -> None:
    for wrong in (-1.0, float("nan"), float("inf")):
        with refuses(UsageError, "tools", "list", "least", "0", "finite"):
            replace(cold_start().model_, tools_per_list=wrong)


@kinds
@pytest.mark.parametrize("payoff", PAYOFFS, ids=str)
def test_that_scores_say_nothing_is_the_gates_to_say(scores: str, payoff: Payoff) -> None:
    """Its policy decides on lists that are all zero as on any others; what comes of that is handed over to nobody."""
    silent = Rankings.from_scores(dict.fromkeys("abcde", 0.0))
    decisions = cold_start(scores).decide(silent, payoff)
    handed = all_handed_over(silent, replace(decisions, acquired=silent.listed & (silent.tool_ids == 0)))
    assert handed.all()
    assert not all_handed_over(silent, decisions, searches=True).any()


def test_telling_how_many_tools_tasks_need_leaves_the_policy_that_is_told_as_it_was() -> None:
    rankings, policy = domains.load("retail", "claude").rankings, cold_start()
    before = to_json(policy)
    assert to_json(told_tools_per_task(policy, 1.0, rankings)) != before
    assert to_json(policy) == before

"""The cold start: the shipped policy, how it is learned, and the stored table of left-out domains."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from importlib.resources import files
from itertools import pairwise

import numpy as np
import pytest

from camdf import Payoff, Rankings, cold_start
from camdf.errors import UsageError
from camdf.models.prior import FILE, KINDS
from camdf.policies.artifact import from_json, to_json
from camdf_lab import domains

PAYOFFS = [Payoff(0.05), Payoff(0.12), Payoff(0.2, "partial")]


kinds = pytest.mark.parametrize("scores", KINDS)


@kinds
def test_the_shipped_prior_is_small_and_decides_with_numpy_alone(scores: str) -> None:
    assert len((files("camdf.models") / FILE.format(scores)).read_bytes()) < 5_000
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
    with pytest.raises(ValueError, match=r"must be one of similarity, probability\. Got 'bm25' instead"):
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
        with pytest.raises(UsageError, match="must be positive"):
            cold_start(tools_per_task=number, rankings=rankings)


def test_an_empty_list_gets_nothing_beside_one_that_gets_something() -> None:
    decided = cold_start().decide(Rankings.from_scores([{"a": 0.9, "b": 0.3}, {}]), Payoff(0.05)).acquired
    assert decided.any(axis=1).tolist() == [True, False]

"""Ties: equal scores give equal evidence, whatever the order of the catalogue."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import camdf
from camdf import ExpectedPayoffBySet, Payoff, Rankings, datasets
from camdf.core.candidates import second_features

SCORES = st.lists(st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.9]), min_size=1, max_size=12)


@pytest.fixture(scope="module")
def policies() -> list[ExpectedPayoffBySet]:
    logged = datasets.load("metatool", "minilm").take(slice(40))
    unnamed = ExpectedPayoffBySet(identity=False).fit(logged, Payoff(0.1))
    return [camdf.cold_start(), camdf.cold_start("probability"), unnamed]


@settings(max_examples=60, deadline=None)
@given(scores=SCORES)
def test_equal_scores_give_equal_evidence(policies: list[ExpectedPayoffBySet], scores: list[float]) -> None:
    ranking = Rankings.from_scores({f"tool-{i}": score for i, score in enumerate(scores)})
    for policy in policies:
        evidence, _ = policy.probabilities(ranking)
        for score in set(scores):
            tied = evidence[0, : len(scores)][ranking.scores[0, : len(scores)] == score]
            assert np.ptp(tied) <= 1e-12


@settings(max_examples=40, deadline=None)
@given(scores=SCORES, seed=st.integers(0, 10**6))
def test_the_names_of_tied_tools_move_no_evidence(
    policies: list[ExpectedPayoffBySet], scores: list[float], seed: int
) -> None:
    names = [f"tool-{i}" for i in np.random.default_rng(seed).permutation(len(scores))]
    one = Rankings.from_scores({f"tool-{i}": score for i, score in enumerate(scores)})
    other = Rankings.from_scores(dict(zip(names, scores, strict=True)))
    for policy in policies:
        assert np.allclose(policy.probabilities(one)[0], policy.probabilities(other)[0], rtol=0, atol=1e-12)


@settings(max_examples=40, deadline=None)
@given(scores=SCORES, more=st.integers(0, 4))
def test_ties_of_a_second_ranking_are_even_too_and_padding_changes_no_bit(scores: list[float], more: int) -> None:
    m = len(scores)
    ranking = Rankings.from_scores({f"tool-{i}": 0.9 - 0.01 * i for i in range(m)})
    ranking = replace(ranking, second=np.array([scores]))
    found = second_features(ranking)
    for score in set(scores):
        assert np.ptp(found[2, 0, np.array(scores) == score]) <= 1e-12
    assert np.array_equal(second_features(ranking.padded_to(m + more))[:, :, :m], found)

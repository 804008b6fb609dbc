"""Ties: equal scores give equal evidence, whatever the order of the catalogue."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import camdf
from camdf import ExpectedPayoffBySet, Payoff, Rankings
from camdf_lab import domains

SCORES = st.lists(st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.9]), min_size=1, max_size=12)


@pytest.fixture(scope="module")
def policies() -> list[ExpectedPayoffBySet]:
    logged = domains.load("metatool", "minilm").take(slice(40))
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

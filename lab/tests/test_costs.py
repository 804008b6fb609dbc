"""The paper's cost rules."""

from __future__ import annotations

import hashlib
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from camdf_lab.domains.costs import RETAIL_BASE_COSTS, dispersed, md5_base_costs

examples = settings(max_examples=200, deadline=None)


def test_no_dispersion_makes_every_cost_one() -> None:
    assert set(dispersed(RETAIL_BASE_COSTS, 0.0).values()) == {1.0}


def test_retail_costs_follow_the_papers_table_and_formula() -> None:
    base = [0.50, 0.70, 0.80, 1.00, 1.10, 1.80, 2.00]
    assert list(RETAIL_BASE_COSTS.values()) == base
    for d in (1.0, 1.5, 2.0):
        expected = [max(0.10, 1 + d * (cost / (7.9 / 7) - 1)) for cost in base]
        assert list(dispersed(RETAIL_BASE_COSTS, d).values()) == pytest.approx(expected, rel=1e-12)
    assert dispersed(RETAIL_BASE_COSTS, 2.0)["calculate"] == 0.10


@examples
@given(st.dictionaries(st.text(max_size=3), st.floats(0.01, 100), min_size=1), st.floats(0, 5))
def test_dispersed_costs_have_mean_one_before_the_floor_and_keep_the_order(
    base: dict[str, float], dispersion: float
) -> None:
    costs = dispersed(base, dispersion)
    assert list(costs) == list(base)
    assert min(costs.values()) >= 0.10
    if min(costs.values()) > 0.10:
        assert np.mean(list(costs.values())) == pytest.approx(1.0)
    ranked = sorted(base, key=lambda tool: base[tool])
    assert all(costs[low] <= costs[high] for low, high in pairwise(ranked))


def md5_by_hand(text: str) -> float:
    """The digest as a base-256 fraction, most significant byte first."""
    digest = hashlib.md5(text.encode("utf-8"), usedforsecurity=False).digest()
    return 0.5 + 1.5 * sum(byte / 256.0 ** (k + 1) for k, byte in enumerate(digest))


@examples
@given(st.lists(st.text(max_size=8)), st.integers(0, 9))
def test_md5_costs_read_the_hash_of_vector_and_tool(tools: list[str], vector: int) -> None:
    costs = md5_base_costs(tools, vector)
    assert set(costs) == set(tools)
    for tool, cost in costs.items():
        assert 0.5 <= cost <= 2.0
        assert cost == pytest.approx(md5_by_hand(f"{vector}:{tool}"), rel=1e-14)


def test_md5_costs_spread_evenly_and_differ_between_vectors() -> None:
    tools = [f"tool {i}" for i in range(2000)]
    first, second = (np.array(list(md5_base_costs(tools, vector).values())) for vector in (0, 1))
    # The mean of 2,000 uniform draws from [0.5, 2] has standard error 0.0097; the rule is fixed, so nothing is random.
    assert first.mean() == pytest.approx(1.25, abs=0.04)
    assert abs(np.corrcoef(first, second)[0, 1]) < 0.1

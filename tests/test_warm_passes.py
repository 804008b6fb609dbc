"""The default's fit in passes over batches: the one of one machine, however the tasks lie."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from camdf import ExpectedPayoffBySet, LoggedTasks, Payoff
from camdf.core.rankings import Strings
from camdf.mining.spark import fit as on_spark
from camdf.models import warm_passes
from camdf.models.design import Counts
from camdf.models.membership import FOLDS
from camdf.models.newton import over
from camdf.models.posterior import Fitted, Rows, sums_of
from camdf.models.warm_start import FEWEST_TASKS
from camdf_lab import domains
from camdf_lab.flips import flipped
from same_fit import apart_by_name, differing_sets, folds_as_here, in_batches, shared_tools
from worlds import random_logged

PAYOFF = Payoff(0.12)


def in_passes(policy: ExpectedPayoffBySet, logged: LoggedTasks, batches: int = 3) -> ExpectedPayoffBySet:
    total = over(in_batches(logged, batches))
    return policy.fit_in_passes(total, PAYOFF, shared_tools(logged), folds_as_here(logged))


@pytest.mark.parametrize(
    ("domain", "scorer", "flips"),
    [("retail", "claude", 0.0), ("airline", "minilm", 0.0), ("mcp-atlas", "claude", 0.0), ("airline", "claude", 0.1)],
)
def test_coefficients_and_decisions_are_those_of_one_machine(domain: str, scorer: str, flips: float) -> None:
    """Catalogues shared and not, clean labels and flipped; `benchmarks/spark_fit.py` has every shipped ranking."""
    logged = flipped(domains.load(domain, scorer, dispersion=1.0), flips, np.random.default_rng(0))
    here, there = ExpectedPayoffBySet().fit(logged, PAYOFF), in_passes(ExpectedPayoffBySet(), logged)
    assert apart_by_name(here.model_, there.model_) <= 1e-6
    assert differing_sets(here, there, logged.rankings) == 0
    assert there.label_noise_ == here.label_noise_


@pytest.mark.parametrize("identity", [True, False])
@pytest.mark.parametrize("tasks", [1, FEWEST_TASKS - 1, 30])
def test_few_tasks_are_learned_from_as_on_one_machine(tasks: int, identity: bool) -> None:
    logged = random_logged(np.random.default_rng(tasks), tasks, 5, shared=True)
    here, there = (ExpectedPayoffBySet(identity, trust_labels=True, prior="similarity") for _ in range(2))
    here.fit(logged, PAYOFF)
    in_passes(there, logged, 2)
    assert apart_by_name(here.model_, there.model_) <= 1e-6
    assert (not any(there.model_.levels)) == (not identity)


def test_a_single_group_has_nothing_to_be_compared_on() -> None:
    logged = random_logged(np.random.default_rng(3), 30, 5)
    logged = replace(logged, groups=np.full(len(logged), "one"))
    here, there = ExpectedPayoffBySet().fit(logged, PAYOFF), in_passes(ExpectedPayoffBySet(), logged)
    assert apart_by_name(here.model_, there.model_) <= 1e-6


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10_000), st.integers(0, 5), st.sampled_from([0.0, 0.1]), st.integers(0, 60))
def test_the_sums_of_two_halves_are_those_of_all_rows(seed: int, tools: int, flips: float, cut: int) -> None:
    rng = np.random.default_rng(seed)
    tool = np.sort(rng.integers(0, tools, 60)) if tools else np.full(60, -1)
    rows = Rows(
        rng.normal(size=(60, 4)), rng.normal(size=60), tool, (rng.random(60) < 0.4).astype(np.float64), rng.random(60)
    )
    at = Fitted(rng.normal(size=4), rng.normal(size=tools), rng.normal(size=tools))
    parts = [
        Rows(*(getattr(rows, name)[half] for name in ("dense", "slope", "tool", "labels", "weights")))
        for half in (slice(0, cut), slice(cut, None))
    ]
    whole, added = sums_of(rows, at, flips), sums_of(parts[0], at, flips) + sums_of(parts[1], at, flips)
    for name in ("loss", "gradient", "curvature", "gradient_of_tools", "of_tools", "cross"):
        np.testing.assert_allclose(getattr(added, name), getattr(whole, name), rtol=1e-9, atol=1e-9)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 4))
def test_counts_add_up_by_the_names_of_tools(seed: int, batches: int) -> None:
    logged = random_logged(np.random.default_rng(seed), 40, 6)
    parts = [narrowed(part) for part in in_batches(logged, batches)]
    tally = over(parts)(partial(warm_passes._tally_of, warm_passes.hashed_folds))
    fold = warm_passes.hashed_folds(logged.groups)
    for number, counts in enumerate(tally.by_fold):
        expected = Counts.of(logged.take(fold == number))
        seen = dict(zip(tally.catalogue, zip(counts.seen, counts.wanted, strict=True), strict=True))
        for name, pair in zip(logged.rankings.catalogue, zip(expected.seen, expected.wanted, strict=True), strict=True):
            assert seen.get(name, (0.0, 0.0)) == pair
        assert counts.tasks == expected.tasks


def narrowed(logged: LoggedTasks) -> LoggedTasks:
    """The same tasks over a catalogue of no more than what they list, as a worker has it."""
    ids, place = np.unique(logged.rankings.tool_ids, return_inverse=True)
    padded = int(ids[0] == -1)
    names = tuple(logged.rankings.catalogue[i] for i in ids[padded:])
    place = place.reshape(logged.rankings.tool_ids.shape) - padded
    return replace(logged, rankings=replace(logged.rankings, tool_ids=place, catalogue=names))


def test_folds_by_hash_are_even_and_the_same_everywhere() -> None:
    names = np.array([f"conversation {i // 3}" for i in range(6000)])
    fold = warm_passes.hashed_folds(names)
    assert all(len(set(fold[i : i + 3].tolist())) == 1 for i in range(0, 6000, 3))
    assert (np.bincount(fold, minlength=FOLDS) > 1000).all()
    assert warm_passes.hashed_folds(np.array(["a", "b", "a"])).tolist() == [2, 1, 2]


def test_of_many_tasks_a_sample_chooses_and_all_are_learned_from(monkeypatch: pytest.MonkeyPatch) -> None:
    logged = random_logged(np.random.default_rng(5), 400, 5, shared=True)
    monkeypatch.setattr(warm_passes, "COMPARED", 100)
    compared: list[Strings] = []
    chosen = warm_passes._Passes.chosen

    def noted(passes: warm_passes._Passes, *arguments: object) -> object:
        compared.append(passes.total(lambda some: Groups(some.groups)).names)
        return chosen(passes, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(warm_passes._Passes, "chosen", noted)
    policy = in_passes(ExpectedPayoffBySet(trust_labels=True, prior="similarity"), logged)
    (sampled,) = compared
    assert 50 < len(sampled) < 200
    assert all((logged.groups == name).sum() == (sampled == name).sum() for name in np.unique(sampled))
    assert policy.model_.times_listed == (400.0,) * 5
    monkeypatch.setattr(warm_passes, "COMPARED", 400)
    whole = in_passes(ExpectedPayoffBySet(trust_labels=True, prior="similarity"), logged)
    one, other = (each.model_.probabilities(logged.rankings)[0] for each in (policy, whole))
    assert np.abs(one - other).max() < 0.1
    monkeypatch.setattr(warm_passes, "MOST_OF_A_GROUP", 1)
    of_each = warm_passes._sample_of(1.0, logged).logged.groups
    assert len(of_each) == len(np.unique(of_each)) == len(np.unique(logged.groups))


class Groups:
    """The groups of batches, which add up."""

    def __init__(self, names: Strings) -> None:
        self.names = names

    def __add__(self, other: Groups) -> Groups:
        return Groups(np.concatenate([self.names, other.names]))


@settings(max_examples=20, deadline=None)
@given(st.lists(st.integers(1, 9), min_size=1, max_size=12), st.integers(1, 7), st.integers(1, 6))
def test_blocks_hold_whole_groups(sizes: list[int], rows_a_batch: int, tasks_a_block: int) -> None:
    table = pl.DataFrame({"group": [None if not i else f"{i:02}" for i, size in enumerate(sizes) for _ in range(size)]})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(on_spark, "TASKS_A_BLOCK", tasks_a_block)
        blocks = list(on_spark._whole_groups(iter(table.to_arrow().to_batches(max_chunksize=rows_a_batch))))
    assert pl.concat(blocks).equals(table, null_equal=True)
    names = [name for block in blocks for name in block["group"].unique().to_list()]
    assert len(names) == len(set(names))
    assert all(len(block) >= tasks_a_block for block in blocks[:-1])

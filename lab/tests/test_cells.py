"""Cells of the paper: what they replay, the same however the work is divided, and how they are stored."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import camdf
from camdf.checks import sample_tasks
from camdf.evaluation.replay import MEASURES, ORACLE, Outcomes
from camdf_lab import domains
from camdf_lab.beyond import calibration
from camdf_lab.flips import flipped
from camdf_lab.jobs import default_cache, measure_rows, run_jobs
from camdf_lab.paper.cells import BaseCosts, Cell
from camdf_lab.paper.contestants import CONTESTANTS, InRatioOrder
from camdf_lab.paper.figure import Figure
from camdf_lab.paper.quantities import Difference, Mean
from camdf_lab.paper.results import (
    cell_disagreements,
    disagreements,
    sampled_cells,
    store_results,
    stored_results,
)
from camdf_lab.paper.table import Entry, Table
from saying import refuses, says

PAYOFF = camdf.Payoff(0.12)


LOGGED = sample_tasks(1, tasks=40)


SMALL = Cell("airline", "claude", ("fixed-k", "cam-df-lite"), splits=4, dispersion=1.0)


def test_label_noise_flips_listed_memberships_at_its_rate_and_keeps_what_is_missing() -> None:
    logged = replace(LOGGED, n_required=LOGGED.n_required + 2)
    noisy = flipped(logged, 0.25, np.random.default_rng(0))
    assert (noisy.required != logged.required).mean() == pytest.approx(0.25, abs=0.06)
    assert np.array_equal(noisy.missing, logged.missing)


def test_noise_reaches_training_but_never_the_test() -> None:
    clean = SMALL.run()
    noisy = replace(SMALL, noise=0.4).run()
    assert np.array_equal(clean.values[ORACLE], noisy.values[ORACLE])
    assert not np.array_equal(clean.values["fixed-k"], noisy.values["fixed-k"])


@pytest.mark.parametrize("costs", [BaseCosts("vector", 3), BaseCosts("random")], ids=lambda costs: costs.source)
def test_other_base_costs_change_what_is_paid(costs: BaseCosts) -> None:
    priced = replace(SMALL, costs=costs).run()
    assert not np.allclose(priced.mean(ORACLE, "cost"), SMALL.run().mean(ORACLE, "cost"))


def test_a_permutation_of_base_costs_keeps_their_multiset() -> None:
    cell = Cell("retail", "claude", (), dispersion=1.0, costs=BaseCosts("permutation", 4))
    costs = cell.logged().rankings.costs
    rule = replace(cell, costs=BaseCosts()).logged().rankings.costs
    assert np.allclose(np.sort(costs, axis=1), np.sort(rule, axis=1))
    assert not np.array_equal(costs, rule)


def test_ratio_order_maps_its_decisions_back_to_the_ranking() -> None:
    policy = InRatioOrder(camdf.FixedK()).fit(LOGGED, PAYOFF)
    policy.policy.k_ = 2  # type: ignore[attr-defined]
    acquired = policy.decide(LOGGED.rankings, PAYOFF).acquired
    ratio = LOGGED.rankings.scores / LOGGED.rankings.costs
    kept = np.where(acquired, ratio, np.inf).min(axis=1)
    cut = np.where(acquired, -np.inf, ratio).max(axis=1)
    assert (acquired.sum(axis=1) == 2).all()
    assert (kept >= cut).all()


def test_ratio_order_is_score_order_where_all_costs_are_equal() -> None:
    outcomes = Cell("retail", "claude", ("cam-df", "cam-df, ratio order"), splits=3).run()
    assert np.array_equal(outcomes.values["cam-df"], outcomes.values["cam-df, ratio order"], equal_nan=True)


def test_every_contestant_plays_a_cell_to_the_end() -> None:
    outcomes = Cell("airline", "minilm", tuple(CONTESTANTS), splits=2, dispersion=1.0, value="partial").run()
    assert set(outcomes.values) == {*CONTESTANTS, ORACLE}
    assert all(np.isfinite(outcomes.mean(name)) for name in outcomes.values)


def _same(first: Outcomes, second: Outcomes) -> bool:
    return first.values.keys() == second.values.keys() and all(
        np.array_equal(first.values[name], second.values[name], equal_nan=True) for name in first.values
    )


def test_results_do_not_depend_on_the_number_of_workers() -> None:
    cells = [replace(SMALL, seed=seed) for seed in range(3)]
    one = run_jobs(cells, workers=1)
    two = run_jobs(cells, workers=2)
    assert list(one) == list(two) == cells
    assert all(_same(one[cell], two[cell]) for cell in cells)


def test_interrupted_work_resumes_where_it_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cells = [replace(SMALL, seed=seed) for seed in range(3)]
    reported: list[int] = []

    def stop_after_two(done: int, total: int, left: float) -> None:
        reported.append(done)
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_jobs(cells, workers=1, cache=tmp_path, progress=stop_after_two)
    assert len(list(tmp_path.glob("*.npz"))) == 2
    ran: list[Cell] = []
    run = Cell.run

    def counted(cell: Cell) -> Outcomes:
        ran.append(cell)
        return run(cell)

    monkeypatch.setattr(Cell, "run", counted)
    again = run_jobs(cells, workers=1, cache=tmp_path)
    assert ran == cells[2:]
    assert all(_same(again[cell], run(cell)) for cell in cells)


def test_rows_measured_side_by_side_come_in_order_and_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = [("retail", "claude"), ("airline", "claude"), ("airline", "minilm")]
    expected = [row for pair in pairs for row in calibration.rows_of(*pair)]
    assert measure_rows(calibration.rows_of, pairs, workers=2, cache=tmp_path) == expected
    monkeypatch.setattr(domains, "load", None)  # so nothing can be measured again
    assert measure_rows(calibration.rows_of, pairs, workers=1, cache=tmp_path) == expected


def test_no_job_outlives_the_code_or_the_data_that_it_was_computed_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kinds = ("policy.py", "domain.npz", "prior.json")
    for name in kinds:
        (tmp_path / name).write_text("before")
    monkeypatch.setattr(camdf, "__file__", str(tmp_path / "__init__.py"))
    seen = {default_cache()}
    for name in kinds:
        (tmp_path / name).write_text("after")
        seen.add(default_cache())
    assert len(seen) == 1 + len(kinds)


def _tiny_table() -> Table:
    entry = Entry("margin", "airline", (SMALL,), Difference("cam-df-lite", "fixed-k"), Figure(0.1, clear=True))
    return Table("tiny", "A tiny table", "nowhere", "all", (entry, Entry("k", "airline", (SMALL,), Mean("fixed-k"))))


def test_stored_results_are_read_back_as_they_were(tmp_path: Path) -> None:
    outcomes = run_jobs([SMALL], workers=1)
    results = store_results(tmp_path, [_tiny_table()], outcomes)
    stored = stored_results(tmp_path)
    assert stored.results == results
    assert cell_disagreements(stored, outcomes) == []
    assert disagreements(stored, [_tiny_table()], outcomes) == []


def test_a_changed_result_is_noticed(tmp_path: Path) -> None:
    outcomes = run_jobs([SMALL], workers=1)
    store_results(tmp_path, [_tiny_table()], outcomes)
    stored = stored_results(tmp_path)
    stored.means[SMALL.key]["fixed-k"]["payoff"] += 0.001
    assert "fixed-k payoff" in cell_disagreements(stored, outcomes)[0]
    (tmp_path / "figures.parquet").write_bytes((tmp_path / "cells.parquet").read_bytes())
    with refuses(ValueError, "digest.json names"):
        stored_results(tmp_path)


def test_a_cell_that_is_not_stored_disagrees(tmp_path: Path) -> None:
    outcomes = run_jobs([SMALL], workers=1)
    store_results(tmp_path, [_tiny_table()], outcomes)
    other = {replace(SMALL, seed=1): outcomes[SMALL]}
    assert len(cell_disagreements(stored_results(tmp_path), other)) == len(MEASURES) * 3


def test_every_stored_figure_is_compared(tmp_path: Path) -> None:
    outcomes = run_jobs([SMALL], workers=1)
    table = _tiny_table()
    store_results(tmp_path, [table], outcomes)
    stored = stored_results(tmp_path)
    margin, level = stored.results
    assert margin.ours.low is not None
    for changed, part in [
        (replace(margin, ours=replace(margin.ours, value=margin.ours.value + 2e-6)), "ours_value"),
        (replace(margin, margin=replace(margin.margin, low=margin.ours.low - 2e-6)), "margin_low"),
        (replace(margin, ours=replace(margin.ours, clear=not margin.ours.clear)), "ours_clear"),
        (replace(margin, paper=None), "paper_value"),
    ]:
        found = disagreements(replace(stored, results=[changed, level]), [table], outcomes)
        assert found
        assert found[0].startswith(f"tiny, margin, airline {part}: stored ")
    rounded = replace(margin, ours=replace(margin.ours, value=margin.ours.value + 5e-7))
    assert disagreements(replace(stored, results=[rounded, level]), [table], outcomes) == []
    (lacks,) = disagreements(replace(stored, results=[margin]), [table], outcomes)
    assert says(lacks, "tiny, k, airline", "not stored")
    (unknown,) = disagreements(replace(stored, results=[margin, level, replace(level, row="z")]), [table], outcomes)
    assert says(unknown, "tiny, z, airline", "in no table")
    (missed,) = disagreements(replace(stored, means={**stored.means, "z": {}}), [table], outcomes)
    assert says(missed, "not replayed: z")


def test_a_sample_holds_every_domain_and_enough_cells() -> None:
    cells = [replace(SMALL, domain=domain, seed=seed) for domain in ("retail", "airline") for seed in range(9)]
    chosen = sampled_cells(cells, 5, seed=1)
    assert {cell.domain for cell in chosen} == {"retail", "airline"}
    assert len(set(chosen)) == 5
    assert chosen == sampled_cells(cells, 5, seed=1)
    assert len(sampled_cells(cells, 1, seed=1)) == 2

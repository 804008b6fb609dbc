"""The grid past the paper: what a sweep replays, and that the page says what is stored."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from camdf.evaluation.replay import ORACLE, Outcomes, Regime
from camdf.lab.beyond import STUDIES, calibration, frontier
from camdf.lab.beyond.frontier import BASELINES, COMPARED, Sweep, rows_of, summary, sweeps
from camdf.lab.beyond.frontier_page import TARGETS
from camdf.lab.beyond.past_the_paper import past_the_paper
from camdf.lab.paper.cells import Cell
from camdf.lab.stored import store, stored
from camdf.policies.registry import DEFAULT

ROOT = Path(__file__).parents[1]
TINY = Sweep("airline", "claude", splits=4)


@pytest.fixture(scope="module")
def outcomes() -> Outcomes:
    return TINY.run()


def test_the_grid_has_every_domain_and_ranking_and_grouped_splits_where_groups_exist() -> None:
    grid = sweeps()
    assert len({(sweep.domain, sweep.scorer) for sweep in grid}) == 22
    assert {sweep.domain for sweep in grid if sweep.grouped} == {"retail", "airline", "telecom", "workbench"}
    assert sum(len(sweep.regimes) for sweep in grid) == 636
    assert {sweep.splits for sweep in grid if sweep.domain != "seal-tools"} == {10}


def test_a_sweep_pays_what_a_cell_of_the_lab_pays(outcomes: Outcomes) -> None:
    names = ("fixed-k", "score-per-cost-threshold", "expected-payoff-by-set", "cam-df")
    cell = Cell("airline", "claude", names, "partial", 0.12, 1.0, splits=TINY.splits).run()
    for name in (*names, ORACLE):
        assert np.allclose(outcomes.values[Regime("partial", 0.12, 1.0).name(name)], cell.values[name])


def test_a_row_names_the_best_baseline_and_the_defaults_margin_over_it(outcomes: Outcomes) -> None:
    for row in rows_of(TINY, outcomes):
        assert row[row["baseline"]] == max(row[name] for name in BASELINES)
        assert row["default_minus_baseline"] == pytest.approx(row[DEFAULT] - row[row["baseline"]])
        assert row["lo"] <= row["default_minus_baseline"] <= row["hi"]
        assert set(COMPARED) <= row.keys()


def test_stored_rows_are_read_back_and_a_changed_one_is_noticed(outcomes: Outcomes, tmp_path: Path) -> None:
    rows = [dict(row) for row in store(tmp_path, "frontier", rows_of(TINY, outcomes))]
    assert len(rows) == 18
    assert frontier.disagreements(rows, {TINY: outcomes}) == []
    rows[3]["fixed-k"] += 0.001
    assert "fixed-k: stored" in frontier.disagreements(rows, {TINY: outcomes})[0]
    table = tmp_path / "frontier.csv"
    table.write_text(table.read_text(encoding="utf-8").replace("0.05", "0.06", 1), encoding="utf-8")
    with pytest.raises(ValueError, match=r"is not the file that digest.json names. Run: camdf lab past frontier"):
        stored(tmp_path, "frontier")


def test_the_summary_counts_cells_by_their_intervals(outcomes: Outcomes) -> None:
    rows = rows_of(TINY, outcomes)
    sure = [{**row, "lo": 0.1, "hi": 0.2} for row in rows]
    lost = [{**row, "domain": "retail", "splits": "grouped", "lo": -0.2, "hi": -0.1} for row in rows]
    found = summary([*sure, *lost])
    assert found["significantly above"] == found["significantly below"] == 0.5
    assert found["cells wholly below -0.02"] == len(rows)


def test_expected_calibration_error_is_zero_where_probabilities_are_shares() -> None:
    rng = np.random.default_rng(0)
    probability = rng.random(200_000)
    honest = calibration.reliability(probability, rng.random(200_000) < probability)
    assert calibration.expected_calibration_error(honest) < 0.01
    flattered = calibration.reliability(probability, rng.random(200_000) < probability / 2)
    assert calibration.expected_calibration_error(flattered) == pytest.approx(0.25, abs=0.01)


def test_the_page_is_what_the_stored_tables_say() -> None:
    text = (ROOT / "docs" / "past-the-paper.md").read_text(encoding="utf-8")
    assert text == past_the_paper(ROOT / "results", STUDIES)
    assert len(stored(ROOT / "results", "frontier")) == 636


def test_the_stored_grid_keeps_what_the_default_reaches() -> None:
    found = summary(stored(ROOT / "results", "frontier"))
    reached = {
        name
        for name, (target, at_least) in TARGETS.items()
        if (found[name] >= target if at_least else found[name] <= target)
    }
    assert TARGETS.keys() - reached <= {"mean gain", "above cam-df"}


def test_a_sample_of_sweeps_is_quick_and_seeded() -> None:
    assert frontier.sample(2, seed=1) == frontier.sample(2, seed=1)
    assert {sweep.domain for sweep in frontier.sample(99, seed=0)} <= {"retail", "airline", "livemcpbench"}
    assert replace(TINY, splits=10) in frontier.sample(99, seed=0)

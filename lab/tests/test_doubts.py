"""Doubts and labels: what the two studies replay, and what their stored tables say."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from camdf.evaluation.curve import LABEL_COUNTS, THRESHOLD
from camdf.policies.registry import DEFAULT
from camdf_lab.beyond import doubts, labels
from camdf_lab.beyond.batches import BATCHES, of_batch
from camdf_lab.beyond.cold_start import COLD
from camdf_lab.stored import Rows, stored
from camdf_lab.study import differing, pairs_of

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def doubted() -> Rows:
    return stored(ROOT / "results", "doubts")


@pytest.fixture(scope="module")
def labeled() -> Rows:
    return stored(ROOT / "results", "labels")


def test_every_kept_set_is_one_case_and_no_case_is_counted_under_two_numbers_of_tools() -> None:
    job = doubts.Doubts("airline", "claude", splits=2)
    found = job.run().values
    total = sum(found[name] for name in doubts.TOOLS_KEPT)
    assert np.allclose(total, found[doubts.ALL])
    assert (found[doubts.ALL][:, 1:] <= found[doubts.ALL][:, :1] + 1e-9).all()
    exact = [cases for name, cases in found.items() if name.startswith(doubts.EXACT)]
    assert len(exact) == 3
    assert (exact[0][:, 0] == exact[1][:, 0]).all(), "every task counts at every cost pressure, whatever it keeps"


def test_a_policy_that_expects_too_much_is_found_out() -> None:
    job = doubts.Doubts("airline", "claude", splits=2)
    outcomes = job.run()
    for cases in outcomes.values.values():
        cases[:, 1] = np.minimum(cases[:, 1] + 0.4 * cases[:, 0], cases[:, 0])
        cases[:, 2] *= 0.5
    (row,) = (row for row in doubts.rows_of(job, outcomes) if row["kept"] == doubts.ALL)
    assert row["low"] > 0.2


def test_the_stored_doubts_are_right_on_average_over_each_look(doubted: Rows) -> None:
    assert len(pairs_of(doubted)) == 22 + 21
    for batch in BATCHES:
        for name in (*doubts.TOOLS_KEPT, doubts.ALL):
            here = [row for row in of_batch(doubted, batch) if row["kept"] == name]
            weight = np.array([row["tasks"] for row in here])
            off = weight @ [row["expected"] - row["realized"] for row in here] / weight.sum()
            assert abs(off) <= doubts.MOST_OFF, (batch, name)


def test_a_step_learns_from_as_many_labels_as_its_row_says() -> None:
    job = labels.Labels("airline", "claude", splits=2)
    rows = labels.rows_of(job, job.run())
    assert [row["labels"] for row in rows[:: len(job.regimes)]] == [step.labels for step in job.steps()]
    assert {3, 10} <= set(labels.by_labels(rows)) <= set(LABEL_COUNTS)
    for row in rows:
        assert row["lo_threshold"] <= row[DEFAULT] - row[THRESHOLD] <= row["hi_threshold"]
        assert row["lo_cold"] <= row[DEFAULT] - row[COLD] <= row["hi_cold"]


def test_the_stored_table_has_every_cell_from_three_labels_on(labeled: Rows) -> None:
    for batch, cells in (("shipped", 438), ("later", 504)):
        found = labels.by_labels(of_batch(labeled, batch))
        assert len(found[3]) == len(found[10]) == cells
        assert set(found) <= set(LABEL_COUNTS)


def test_the_default_beside_the_frozen_one_is_the_one_that_the_labels_were_measured_with(labeled: Rows) -> None:
    beside = stored(ROOT / "results" / "frozen", "labels")
    assert differing(labeled, beside, labels.PLACE, ("labels", DEFAULT)) == []
    assert len(beside) == len(labeled)

"""Past tasks: what the study replays, and what its stored table says."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from camdf_lab.beyond import past_tasks
from camdf_lab.beyond.batches import BATCHES, CATALOGUES, DOMAINS, of_batch, size_of_catalogue
from camdf_lab.beyond.past_tasks import LABELS, PAST, TEXTS
from camdf_lab.stored import Rows, stored
from camdf_lab.study import differing

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def rows() -> Rows:
    return stored(ROOT / "results", "past_tasks")


def test_every_domain_is_measured_at_every_number_of_labels(rows: Rows) -> None:
    assert {(row["domain"], row["labels"]) for row in rows} == {(d.name, labels) for d in DOMAINS for labels in LABELS}


def test_past_tasks_raise_the_mean_in_catalogues_of_every_size_and_no_cell_falls_clearly(rows: Rows) -> None:
    assert max(row["hi"] for row in rows) > 0
    assert min(row["hi"] for row in rows) >= -0.02
    for batch in BATCHES:
        for size in CATALOGUES:
            here = [row for row in of_batch(rows, batch) if size_of_catalogue(row["domain"]) == size]
            for labels in LABELS if here else ():
                gain = np.mean([row[PAST] - row[TEXTS] for row in here if row["labels"] == labels])
                assert gain >= 0 if labels else gain > 0


@pytest.mark.parametrize("domain", ["metatool", "nestful-glaive", "toolalpaca"])
def test_the_mean_stays_where_descriptions_are_right_already(rows: Rows, domain: str) -> None:
    for labels in LABELS:
        here = [row for row in rows if row["domain"] == domain and row["labels"] == labels]
        assert np.mean([row[PAST] - row[TEXTS] for row in here]) > -0.002


def test_a_sample_replayed_is_what_is_stored(rows: Rows) -> None:
    job = past_tasks.PastJob("airline", past_tasks.SCORER, past_tasks.SPLITS, labels=38)
    again = past_tasks.rows_of(job, job.run())
    assert not differing(rows, again, past_tasks.PLACE, past_tasks.FIGURES)
    assert differing(rows, [{**again[0], PAST: 9.0}], past_tasks.PLACE, past_tasks.FIGURES)

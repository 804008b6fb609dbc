"""Priors from many domains, and the cold start that has not seen the domain at hand."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from camdf import LoggedTasks
from camdf.checks import sample_tasks
from camdf.policies.cold_start import from_prior
from camdf.policies.models.prior import FILE, KINDS, prior_from, shipped_prior
from camdf_lab.beyond.batches import BATCHES, DOMAINS, of_batch
from camdf_lab.beyond.cold_start import (
    COLD,
    CONSTANTS,
    INFORMED,
    PLACE,
    SIMILAR,
    STUDY,
    TOLD,
    margins_over_constants,
    shares_won,
)
from camdf_lab.beyond.frontier import Sweep
from camdf_lab.prior_fit import CandidateRows, missing_shares, pooled
from camdf_lab.stored import Rows, stored
from saying import says

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def rows() -> Rows:
    return stored(ROOT / "results", STUDY.name)


def test_the_shipped_priors_are_what_the_script_writes(tmp_path: Path) -> None:
    subprocess.run([sys.executable, ROOT / "scripts" / "fit_priors.py", tmp_path], check=True)
    for scores in KINDS:
        again = prior_from(json.loads((tmp_path / FILE.format(scores)).read_bytes()))
        shipped = {name: part for name, part in vars(shipped_prior(scores)).items() if part is not None}
        for name, part in shipped.items():
            np.testing.assert_allclose(vars(again)[name], part, rtol=1e-7, atol=1e-9, err_msg=name)


def test_a_ranking_counts_as_much_as_another_however_many_tasks_it_has() -> None:
    few = sample_tasks(1, tasks=40)
    many = sample_tasks(2, tasks=400)
    twice = many.take(np.repeat(np.arange(400), 2))
    one, other = (pooled([CandidateRows.of(few), CandidateRows.of(each)], "similarity")[0] for each in (many, twice))
    np.testing.assert_allclose(one, other, rtol=0, atol=1e-6)
    assert not np.allclose(one, pooled([CandidateRows.of(many)], "similarity")[0], rtol=0, atol=1e-3)


def test_what_lists_lack_is_averaged_over_rankings() -> None:
    records = [{"scores": {"a": 0.9, "b": 0.2}, "required": ["a"]}, {"scores": {"a": 0.3, "b": 0.2}, "required": ["b"]}]
    lacking = [{**record, "required": [*record["required"], "x"]} for record in records[:1]] + records[1:]
    both = [CandidateRows.of(LoggedTasks.from_records(each)) for each in (records, lacking)]
    assert missing_shares(both) == pytest.approx([0.75, 0.25])
    model = from_prior(replace(shipped_prior("similarity"), missing=(0.75, 0.25)), "similarity").model_
    assert 1 / (1 + np.exp(-model.holds[0])) == pytest.approx(0.75)


def test_the_stored_table_has_every_cell(rows: Rows) -> None:
    expected = [
        (domain.name, scorer, *regime)
        for domain in DOMAINS
        for scorer in domain.scorers
        for regime in Sweep(domain.name, scorer).regimes
    ]
    assert [tuple(row[name] for name in PLACE) for row in rows] == expected
    assert len(rows) == 438 + 504


def test_the_stored_shares_are_the_ones_that_the_documents_name(rows: Rows) -> None:
    found = {
        (batch, policy): [round(share, 3) for share in shares_won(of_batch(rows, batch), policy)]
        for batch in BATCHES
        for policy in (COLD, TOLD)
    }
    assert found == {
        ("shipped", COLD): [0.865, 0.541],
        ("shipped", TOLD): [0.903, 0.626],
        ("later", COLD): [0.896, 0.617],
        ("later", TOLD): [0.91, 0.663],
    }
    page = " ".join((ROOT.parent / "docs" / "policies.md").read_text(encoding="utf-8").split())
    assert says(page, "87% of comparisons", "all six", "54% of settings")
    assert "90% and 62% on eight domains" in page
    assert "90% and 63%, and 91% and 66%" in page
    assert shares_won(rows, SIMILAR) < shares_won(rows) < shares_won(rows, INFORMED)


def test_it_pays_more_on_average_than_every_constant(rows: Rows) -> None:
    assert (margins_over_constants(rows).mean(axis=0) > 0.15).all()


def test_a_tie_is_not_won() -> None:
    row = {COLD: 0.5, **dict.fromkeys(CONSTANTS, 0.4)}
    assert shares_won([row]) == (1.0, 1.0)
    assert shares_won([{**row, "top-k, 5": 0.5}]) == (5 / 6, 0.0)


def test_a_left_out_domain_gives_the_stored_payoffs_again_and_a_changed_table_is_noticed(rows: Rows) -> None:
    def never(jobs: object, /) -> dict[object, object]:
        raise AssertionError("no job is replayed")

    assert STUDY.recheck(rows, 0, never) == []  # type: ignore[arg-type]
    wrong = [{**row, COLD: row[COLD] + 1e-4} for row in rows]
    found = STUDY.recheck(wrong, 0, never)  # type: ignore[arg-type]
    assert found
    assert all("cold start" in line for line in found)

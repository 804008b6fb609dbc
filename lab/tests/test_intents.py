"""The stored table of targets: every domain and ranking of both batches, and what the page may say of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from camdf_lab import domains
from camdf_lab.beyond.batches import BATCHES, IN_TABLES
from camdf_lab.beyond.intents import SHARES, STUDY, SUFFICIENCIES, WITHIN_SHARE, of_aim, off, rows_of
from camdf_lab.stored import Rows, stored
from camdf_lab.study import Run
from saying import says

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def rows() -> Rows:
    return stored(ROOT / "results", STUDY.name)


def test_every_domain_ranking_and_aim_is_there(rows: Rows) -> None:
    expected = [
        (IN_TABLES[batch], domain.name, scorer, aim, asked)
        for batch, domains in BATCHES.items()
        for domain in domains
        for scorer in domain.scorers
        for aim, values in (("tools", SHARES), ("sufficiency", SUFFICIENCIES))
        for asked in values
    ]
    assert [tuple(row[name] for name in ("look", "domain", "scorer", "aim", "asked")) for row in rows] == expected
    assert len({row["domain"] for row in rows}) == len(domains.DOMAINS) + len(domains.LATER_DOMAINS) == 17


def test_a_number_of_tools_is_met_on_requests_that_the_pressure_was_not_found_on(rows: Rows) -> None:
    aims = [row for batch in BATCHES for share in SHARES for row in of_aim(rows, batch, "tools", share)]
    assert len(aims) == 129
    assert max(abs(off(row)) for row in aims) <= WITHIN_SHARE


def test_the_page_of_the_gate_says_what_is_stored(rows: Rows) -> None:
    page = " ".join((ROOT.parent / "docs" / "gate.md").read_text("utf-8").split())
    tried = [row for batch in BATCHES for share in SHARES for row in of_aim(rows, batch, "tools", share)]
    met, domains = sum(abs(off(row)) <= WITHIN_SHARE for row in tried), {row["domain"] for row in tried}
    assert says(page, f"In {len(domains)} domains", "mean number of tools")
    assert f"within {WITHIN_SHARE:.0%} in {met} of {len(tried)} rankings and targets" in page


def test_a_row_measured_again_is_the_stored_one_and_a_changed_table_is_noticed(rows: Rows) -> None:
    def never(jobs: object, /) -> dict[object, object]:
        raise AssertionError("no job is replayed")

    run: Run = never  # type: ignore[assignment]
    assert STUDY.recheck(rows, 1, run) == []
    wrong = [{**row, "kept": row["kept"] + 1e-3} for row in rows]
    assert STUDY.recheck(wrong, 1, run)


def test_aims_are_the_same_however_often_they_are_tried() -> None:
    assert rows_of("airline", "claude")[0] == rows_of("airline", "claude")[0]

"""The study of misses that a search repairs: what it measures, and what is stored."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from camdf import (
    LoggedTasks,
)
from camdf.evaluation.replay import Outcomes
from camdf_lab.beyond import recourse as study
from camdf_lab.beyond.recourse_page import margin, section
from camdf_lab.jobs import run_jobs
from camdf_lab.stored import stored

ROOT = Path(__file__).parents[1]


def test_the_most_used_tools_are_those_that_most_tasks_required() -> None:
    needs = [["a"], ["b", "c"], ["c", "b"], ["c"], ["elsewhere"], ["elsewhere"], ["elsewhere"], ["elsewhere"]]
    scores = {"a": 0.5, "b": 0.4, "c": 0.3, "d": 0.2}
    known = LoggedTasks.from_records([{"scores": scores, "required": required} for required in needs])
    assert study.most_used(known, 2) == {"b", "c"}
    assert study.most_used(known, 9) == set(scores)


def test_without_recourse_being_told_changes_nothing_and_partial_needs_only_the_pressure() -> None:
    rows = stored(ROOT / "results", "recourse")
    for row in rows:
        if row["recourse"] == 0:
            assert row[study.TOLD] == row[study.IGNORING] == row[study.BY_PRESSURE]
        if row["value"] == "partial":
            assert row[study.TOLD] == pytest.approx(row[study.BY_PRESSURE], abs=1e-3)
    assert {row["recourse"] for row in rows} == set(study.RECOURSES)
    assert len({(row["domain"], row["scorer"]) for row in rows}) == 22 + 21


def test_a_sample_of_the_study_is_what_is_stored_and_another_figure_is_noticed() -> None:
    rows = stored(ROOT / "results", "recourse")
    replayed: list[study.RecourseJob] = []

    def run(jobs: Sequence[study.RecourseJob]) -> dict[study.RecourseJob, Outcomes]:
        replayed.extend(jobs[:1])
        return run_jobs(jobs[:1], workers=1)

    assert study.recheck(rows, 0, run) == []  # type: ignore[arg-type]
    (job,) = replayed
    changed = [{**row, study.TOLD: row[study.TOLD] + (row["domain"] == job.domain)} for row in rows]
    assert len(study.recheck(changed, 0, run)) == len(job.cells)  # type: ignore[arg-type]


def test_a_margin_is_in_misses_and_every_loss_is_counted() -> None:
    rows = stored(ROOT / "results", "recourse")
    row = next(row for row in rows if row["recourse"] == 0.8)
    assert margin(row, study.IGNORING) == pytest.approx((row[study.TOLD] - row[study.IGNORING]) / 0.2)
    shown = [row for row in rows if row["value"] == "exact" and row["recourse"] > 0]
    below = sum(row[f"high: {other}"] < 0 for row in shown for other in (study.IGNORING, study.BY_PRESSURE))
    assert f"in {below} comparisons of {2 * len(shown)}" in "\n".join(section(rows))

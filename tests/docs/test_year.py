"""docs/learning-loop.md shows the simulated year that is stored, and says no more than that."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from camdf.core.rankings import Floats
from camdf.evaluation.drawing import svg
from loading import benchmark_module
from saying import refuses, says

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "learning-loop.md").read_text(encoding="utf-8")


def lines_in(picture: str) -> Floats:
    """(lines, 365): how high the lines of a picture stand, in points, from their left end to their right."""
    paths = re.findall(r'<path d="(M[^"]+)" clip-path="[^"]+" style="fill: none', picture)
    lines = [np.array(re.findall(r"-?[\d.]+", path), dtype=np.float64).reshape(-1, 2) for path in paths]
    return np.array([np.interp(np.linspace(line[0, 0], line[-1, 0], 365), *line.T) for line in lines])


@pytest.fixture
def year(monkeypatch: pytest.MonkeyPatch) -> Any:
    return benchmark_module("year", monkeypatch)


@pytest.fixture
def stored(year: Any) -> Any:
    return year.stored(ROOT / "results" / "year.json")


def test_the_page_has_the_stored_table_and_lines_and_the_picture_drawn_from_them(year: Any, stored: Any) -> None:
    assert year.table(stored) in PAGE
    lines = year.journal(stored).splitlines()
    promoted = [line for line in lines if ": Promoted challenger" in line]
    (refused,) = re.findall(r"^day \d+: Refused .*$", PAGE, flags=re.M)
    assert refused in lines
    assert (len(promoted), len(lines)) == (2, 13)
    assert says(" ".join(PAGE.split()), "promoted two challengers", "refused eleven others")
    assert all(": not shown to be worth it:" in line for line in lines if line not in promoted)
    (example,) = re.findall(r"^policy\.json: (Promoted .*), \.\.\.$", PAGE, flags=re.M)
    assert example in year.journal(stored)
    now, before = svg(year.draw(stored)), (ROOT / "docs" / "pictures" / "year.svg").read_text(encoding="utf-8")
    assert len(lines_in(now)) == len(year.WAYS)
    assert np.allclose(lines_in(now), lines_in(before), atol=0.5)


def test_a_file_that_was_changed_is_refused(year: Any, tmp_path: Path) -> None:
    for name in ("year.json", "digest.json"):
        (tmp_path / name).write_bytes((ROOT / "results" / name).read_bytes())
    assert year.stored(tmp_path / "year.json")
    (tmp_path / "year.json").write_text('{"years": []}', encoding="utf-8")
    with refuses(ValueError, tmp_path / "year.json", must="digest.json"):
        year.stored(tmp_path / "year.json")


def test_what_is_measured_otherwise_is_told(year: Any, stored: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first days need no fit but the first, and no trial."""
    monkeypatch.setattr(year, "SAMPLE", 2)
    monkeypatch.setattr(year, "LEARN", year.LearnSettings(tasks=300, fewest=10_000, patience=1000))
    assert year.sampled(stored, 0) == []
    stored["years"][1]["paid"][year.NEVER][1] += 0.01
    (told,) = year.sampled(stored, 0)
    assert told.startswith("never refitted, day 1: stored ")


def test_what_the_page_says_of_the_year(year: Any, stored: Any) -> None:
    mean = year.means(stored)
    assert mean[year.BEST] > mean[year.LOOP] > mean[year.EXPLORED] > mean[year.NEVER]
    assert mean[year.LOOP] > mean[year.BLIND]
    paid = {way: np.array([each["paid"][way] for each in stored["years"]]) for way in year.WAYS}
    shifts = slice(year.SHIFT[0], year.RENAMED)
    earlier = (paid[year.EXPLORED] - paid[year.LOOP])[:, shifts].mean()
    assert 0.005 < earlier < 0.015
    after = slice(year.BROKEN[1], year.DEARER)
    for way in (year.BLIND, year.EXPLORED):
        assert paid[way][:, after].mean() < paid[year.NEVER][:, after].mean()
    falls = paid[year.LOOP][:, [year.BROKEN[0]]] - paid[year.LOOP][:, year.BROKEN[0] : year.DEARER]
    assert falls.max() < 0.01
    assert paid[year.BLIND][:, -30:].mean() < paid[year.EXPLORED][:, -30:].mean() - 0.2

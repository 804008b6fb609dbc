"""The stored matrix of frameworks, tracers and situations: whole, every cell with a reason, and the page made from it.

`benchmarks/traces.py --check` measures its cells again, in the environments that have the frameworks.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "tests" / "environments" / "frameworks"))

from traced.matrix import EXACT, FRAMEWORKS, NONE, SITUATIONS, TRACERS, Row, misleads, page, shares, why

from saying import says

ROOT = Path(__file__).parents[2]


def rows() -> list[Row]:
    with (ROOT / "results" / "traces_matrix.csv").open(newline="", encoding="utf-8") as file:
        return [Row(**each) for each in csv.DictReader(file)]


def test_every_cell_of_the_matrix_is_stored_once() -> None:
    cells = [(framework, tracer, each) for framework in FRAMEWORKS for tracer in TRACERS for each in SITUATIONS]
    assert [row[:3] for row in rows()] == cells


def test_a_cell_that_is_not_exact_says_why() -> None:
    for row in rows():
        assert row.why == why(*row[:4]), row
        assert row.verdict == EXACT or row.verdict.startswith(NONE) or row.why, row


def test_the_page_is_made_from_what_is_stored() -> None:
    assert (ROOT / "lab" / "docs" / "traces-matrix.md").read_text(encoding="utf-8") == page(rows())


def test_the_page_of_traces_has_the_shares_that_are_stored() -> None:
    said = (ROOT / "traces" / "docs" / "traces.md").read_text(encoding="utf-8")
    cells = [row.verdict for row in rows() if not row.verdict.startswith(NONE)]
    assert shares(rows()) in said
    said = " ".join(said.split())
    assert f"in {cells.count(EXACT)} of {len(cells)} cells" in said
    assert says(said, f"in {sum(map(misleads, cells))} a run that stopped")
    assert f"{len(SITUATIONS)} situations" in said

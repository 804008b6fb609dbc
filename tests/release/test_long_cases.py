"""What holds against attacks was tried in its long form, and each test of it is still there."""

from __future__ import annotations

import json
import runpy
from pathlib import Path

from saying import says

ROOT = Path(__file__).parents[2]


def test_what_is_stored_of_a_property_has_as_many_cases_as_are_asked_for() -> None:
    long_cases = runpy.run_path(str(ROOT / "benchmarks" / "long_cases.py"))
    stored = json.loads((ROOT / "results" / "long_cases.json").read_text(encoding="utf-8"))
    assert long_cases["wrong"](stored) == []
    assert long_cases["absent"](stored) == []
    for name in long_cases["NAMES"]:
        assert long_cases["place_of"](name).is_file()
    few = {name: {**record, "cases": 199} for name, record in stored.items()}
    assert len(long_cases["wrong"](few)) == len(stored)
    (problem,) = long_cases["wrong"]({"test_of_old": {"cases": 5_000}})
    assert says(problem, "test_of_old is stored")

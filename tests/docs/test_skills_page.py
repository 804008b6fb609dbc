"""The page of skills: its figures are those that are stored."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def test_the_table_is_what_was_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    monkeypatch.delitem(sys.modules, "skills", raising=False)
    import skills  # the benchmark

    rows = json.loads((ROOT / "results" / "skills.json").read_text(encoding="utf-8"))
    page = (ROOT / "docs" / "skills.md").read_text(encoding="utf-8")
    assert skills.table(rows) in page
    assert min(len(skills.SKILLS), len(skills.SHORT)) >= 80
    assert sum(not prompt.needed for prompt in skills.SHORT) * 2 == len(skills.SHORT)


def test_no_example_is_a_prompt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    monkeypatch.delitem(sys.modules, "skills", raising=False)
    import skills

    from camdf.integrations.skills.needed import ORDINARY

    asked = {prompt.text.casefold().strip(" .?!¿¡") for prompt in [*skills.SHORT, *skills.LONG]}
    known = [*(example.text for example in skills.EXAMPLES), *ORDINARY.read_text(encoding="utf-8").splitlines()]
    assert not asked & {text.casefold().strip(" .?!¿¡") for text in known}

"""The page on Spark says what was measured."""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from typing import Any

import pytest

from camdf.policies.linear import MissingExtraError

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def stored() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((ROOT / "results" / "spark.json").read_text(encoding="utf-8"))
    return found


def test_the_page_is_written_from_the_stored_figures(stored: dict[str, Any]) -> None:
    page = runpy.run_path(str(ROOT / "docs" / "spark_page.py"))["page"]
    assert (ROOT / "docs" / "spark.md").read_text(encoding="utf-8") == page(stored)


def test_the_stored_fits_agree_with_scikit_learn_at_every_shipped_state(stored: dict[str, Any]) -> None:
    assert stored["agreement"]["rankings"] == 2 * 22
    assert stored["agreement"]["apart"] <= 1e-8
    assert stored["agreement"]["decisions that differ"] == 0


def test_without_pyspark_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from camdf.mining import spark

    def missing(name: str) -> None:
        raise ModuleNotFoundError(name)

    monkeypatch.setattr(spark, "import_module", missing)
    with pytest.raises(MissingExtraError, match=r"camdf\[spark\]"):
        spark.session()

"""The page on Spark says what was measured."""

from __future__ import annotations

import json
import runpy
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from camdf.errors import MissingExtraError
from camdf.mining.spark import mining
from camdf.mining.spark.session import session
from camdf_lab import domains

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


def test_the_stored_default_in_passes_is_that_of_one_machine_on_every_shipped_ranking(stored: dict[str, Any]) -> None:
    part = stored["same-default"]
    shipped = [(each.name, scorer) for each in (*domains.DOMAINS, *domains.SECOND_LOOK) for scorer in each.scorers]
    assert [(row["domain"], row["scorer"]) for row in part["rows"]] == shipped
    assert part["apart"] <= 1e-6
    assert part["decisions that differ"] == 0
    assert part["on Spark"] >= 3


def test_the_page_says_what_the_default_costs_beside_cam_df(stored: dict[str, Any]) -> None:
    largest = stored["default"]["sizes"][-1]
    assert largest["times listed"] > 5 * largest["tasks"]  # every task was learned from, and not a sample
    page = " ".join((ROOT / "docs" / "spark.md").read_text(encoding="utf-8").split())
    assert ("That size was not run" in page) == (largest["spans"] < 20_000_000)


def test_the_stored_tasks_of_skewed_traces_are_those_of_one_machine(stored: dict[str, Any]) -> None:
    assert all(row["same tasks"] and row["spans"] == 1_000_000 for row in stored["skew"]["rows"])


def test_the_stored_time_grows_linearly_and_what_spark_adds_is_transport(stored: dict[str, Any]) -> None:
    assert stored["growth"]["exponent"]["processor seconds"] <= 1.1
    assert max(row["spans"] for row in stored["growth"]["sizes"]) >= 20_000_000
    assert stored["overhead"]["ratio"]["processor seconds"] <= 1.45  # 1.25 was wanted
    assert stored["overhead"]["ratio to bare and core"] <= 1.1


def test_text_is_checked_by_value_without_looking_at_each() -> None:
    def column(*values: bytes) -> pa.StringArray:
        ends = np.cumsum([0, *map(len, values)]).astype(np.int32)
        return pa.StringArray.from_buffers(len(values), pa.py_buffer(ends), pa.py_buffer(b"".join(values)))

    whole = "Grüße".encode()
    assert mining._is_utf8(column(b"", whole, b"", b"a"))
    assert not mining._is_utf8(column(b"a", b"\xff"))
    assert not mining._is_utf8(column(whole[:3], whole[3:]))  # each half is broken, both together are not
    assert mining._is_utf8(column(b"\xff", b"a").slice(1))
    assert mining._is_utf8(column())


def test_without_pyspark_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("pyspark", "pyspark.sql"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingExtraError, match=r"camdf\[spark\]"):
        session()

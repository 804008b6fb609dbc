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
from camdf_lab import domains
from camdf_traces.spark import mining
from camdf_traces.spark.sample import SAMPLED
from camdf_traces.spark.session import session

ROOT = Path(__file__).parents[2]


def stored_in(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((ROOT / "results" / name).read_text(encoding="utf-8"))
    return found


@pytest.fixture(scope="module")
def stored() -> dict[str, Any]:
    return stored_in("spark.json")


@pytest.fixture(scope="module")
def compared() -> dict[str, Any]:
    return stored_in("one_place.json")


def test_the_page_is_written_from_the_stored_figures(stored: dict[str, Any], compared: dict[str, Any]) -> None:
    page = runpy.run_path(str(ROOT / "traces" / "docs" / "spark_page.py"))["page"]
    assert (ROOT / "traces" / "docs" / "spark.md").read_text(encoding="utf-8") == page(stored, compared)


def test_on_every_shipped_ranking_one_place_decides_as_passes_did_within_their_noise(compared: dict[str, Any]) -> None:
    rows = compared["rankings"]["rows"]
    shipped = [(each.name, scorer) for each in (*domains.DOMAINS, *domains.LATER_DOMAINS) for scorer in each.scorers]
    assert [(row["domain"], row["scorer"]) for row in rows] == shipped
    assert compared["passes"]["same folds"]["decisions that differ"] == 0
    more = sum(row["decisions that differ"] > row["with other folds"] for row in rows)
    assert abs(more - len(rows) / 2) <= 2 * np.sqrt(len(rows)) / 2, "one draw of folds beside another: a coin for each"
    differ, noise = (sum(row[name] for row in rows) for name in ("decisions that differ", "with other folds"))
    assert differ <= 1.5 * noise  # one ranking, where a fold tips a choice, can be a quarter of all
    assert abs(np.mean([row["payoff"] - row["in passes"] for row in rows])) <= 0.002


def test_a_sample_of_a_million_tasks_teaches_what_all_of_them_teach(compared: dict[str, Any]) -> None:
    whole, (usual, *others) = compared["passes"]["tasks"], compared["tasks"]["samples"]
    assert whole["tasks"] == compared["tasks"]["tasks"] > 1_000_000
    assert (usual["at most"], usual["by tool"]) == (SAMPLED, True)
    assert abs(whole["payoff"] - usual["payoff"]) <= 0.002
    assert {row["pays"] for row in (usual, *others)} == {whole["pays"]}


def test_the_stored_tasks_of_skewed_traces_are_those_of_one_machine(stored: dict[str, Any]) -> None:
    assert all(row["same tasks"] and row["spans"] == 1_000_000 for row in stored["skew"]["rows"])


def test_the_stored_time_grows_linearly(stored: dict[str, Any]) -> None:
    assert stored["growth"]["exponent"]["processor seconds"] <= 1.1
    assert max(row["spans"] for row in stored["growth"]["sizes"]) >= 20_000_000
    assert stored["overhead"]["ratio"]["processor seconds"] <= 1.45  # 1.25 was wanted


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

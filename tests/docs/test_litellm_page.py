"""docs/integrations/litellm.md shows what conversations through the proxy came to, as it is stored."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from loading import benchmark_module

ROOT = Path(__file__).parents[2]
STORED = json.loads((ROOT / "results" / "litellm_url.json").read_text("utf-8"))


def test_the_page_has_the_stored_table(monkeypatch: pytest.MonkeyPatch) -> None:
    table = benchmark_module("litellm_url", monkeypatch).table(STORED)
    assert table in (ROOT / "docs" / "integrations" / "litellm.md").read_text("utf-8")


def test_no_promise_is_broken_streams_have_the_same_lists_and_with_a_search_nothing_is_out_of_reach() -> None:
    endpoints = {row["endpoint"] for row in STORED}
    assert endpoints == {"/v1/chat/completions", "/v1/messages", "/v1/responses"}
    for endpoint in endpoints:
        rows = {row["client"]: row for row in STORED if row["endpoint"] == endpoint}
        assert [row["broken"] for row in rows.values()] == [0, 0, 0]
        assert {**rows["plain"], "client": ""} == {**rows["streamed"], "client": ""}
        assert rows["search"]["out of reach"] == 0

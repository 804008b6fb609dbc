"""docs/poison.md and the lab's tables behind it show what is stored, and say no more than that."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import everyday
from camdf.scorers import BM25, TrustAware
from camdf.tools import view
from loading import benchmark_module

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "poison.md").read_text(encoding="utf-8")
TABLES = (ROOT / "lab" / "docs" / "everyday.md").read_text(encoding="utf-8")
TEXT = " ".join(PAGE.split())
STORED: dict[str, Any] = json.loads((ROOT / "results" / "poison.json").read_text())


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch) -> Any:
    return benchmark_module("poison", monkeypatch)


def test_the_lab_has_the_stored_tables_of_ten_kinds_of_attack_and_more(benchmark: Any) -> None:
    assert len(benchmark.ATTACKS) > 10
    assert f"These are {len(benchmark.ATTACKS) - 1} attacks" in TEXT
    assert benchmark.attack_table(STORED) in TABLES
    assert benchmark.settings_table(STORED) in TABLES


def test_no_decision_on_honest_tools_changes_and_untrusted_ones_have_two_places(benchmark: Any) -> None:
    decisions = benchmark.PART * len(STORED["kept"])
    assert sum(row["trusted"][2] for row in STORED["kept"]) == 0
    assert f"none of {decisions:,} decisions changed" in TEXT
    for row in STORED["kept"]:
        requests, untrusted, _, _ = row["trusted"]
        assert requests <= untrusted <= 2 * requests


def test_the_page_says_what_leaving_trusted_out_costs(benchmark: Any) -> None:
    echo = benchmark.means(STORED, benchmark.PLAIN, "left out")
    alone = benchmark.means(STORED, benchmark.PLAIN, "trusted")
    assert f"honest tools fall from {alone['honest']:.1f} to {echo['honest']:.1f}" in TEXT


def test_the_page_names_every_disguise_that_passes_more_often_than_the_plain_echo(benchmark: Any) -> None:
    plain = benchmark.means(STORED, benchmark.PLAIN, "trusted")["requests"]
    told = TEXT.partition("## What does not hold")[2]
    assert f"plain echo in {plain:.0%}" in told
    for attack in benchmark.DISGUISED:
        share = benchmark.means(STORED, attack, "trusted")["requests"]
        assert (f"{attack} ({share:.0%})" in told) is (share > plain), attack
    best, share = benchmark.strongest(STORED, benchmark.ATTACKS)
    assert f"{best} ({share:.0%}" in told.replace("*", "")


def test_honest_tools_that_are_doubted_are_counted(benchmark: Any) -> None:
    for folder in ("data", benchmark.LATER):
        doubted, needed = benchmark.doubted(STORED, folder)
        assert f"{doubted} of {needed:,} ({doubted / needed:.1%})" in TEXT


def test_searches_that_echo_the_tool_they_mean_are_counted() -> None:
    aware, searches = TrustAware(BM25(), ["nobody"]), list[tuple[str, frozenset[str], str]]()
    for asked in everyday.requests():
        searches += [(asked.size, *each) for each in zip(asked.needed, asked.queries, strict=True)]
    searches += [("400", frozenset([name]), query) for name, query in everyday.plain_searches().items()]
    tools = {size: [view(tool) for tool in everyday.catalogue(size)[0]] for size in ("40", "400")}
    doubted = sum(bool(meant & aware.doubts(query, tools[size]).keys()) for size, meant, query in searches)
    assert f"in {doubted} of {len(searches)} everyday searches" in TEXT

"""docs/privilege.md shows what is stored of what a privilege stops, and of what it costs."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from camdf import Gate
from camdf.gate import Journal, Privilege
from camdf.tools import Tool
from loading import benchmark_module

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "privilege.md").read_text(encoding="utf-8")


def stored(name: str) -> Any:
    return json.loads((ROOT / "results" / f"{name}.json").read_text())


def test_the_page_has_the_stored_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    orders = benchmark_module("injected_orders", monkeypatch)
    writes = benchmark_module("refused_writes", monkeypatch)
    assert orders.table(stored("injected_orders")) in PAGE
    assert orders.replay_table(stored("injected_orders")) in PAGE
    assert writes.table(stored("refused_writes")) in PAGE
    sessions = benchmark_module("hijacked_sessions", monkeypatch)
    assert sessions.table(stored("hijacked_sessions")) in PAGE
    assert set(stored("hijacked_sessions")) == {*sessions.BINDING, *sessions.OTHERS}


def test_the_page_has_every_field_of_a_journal(tmp_path: Path) -> None:
    asked = Tool("send_mail", "Send a mail to somebody.")
    other = Tool("read_mail", "Read a mail.")
    for ask in (None, lambda call: True, lambda call: False):
        journal = Journal(tmp_path / "journal.jsonl", bytes(16))
        gate = Gate.start([asked, other], privilege=Privilege({"read_mail": "read"}, ask=ask, journal=journal))
        decision = gate.decide("What does it say?", [asked, other])
        gate.refusal(other, decision.may_run)
        gate.refusal(asked, ())
    lines = [json.loads(line) for line in (tmp_path / "journal.jsonl").read_text().splitlines()]
    rows = [line.split(" | ") for line in PAGE.splitlines() if line.startswith("| `")]
    told = {event: {*re.findall(r"`(\w+)`", row[1])} for row in rows for event in re.findall(r"`(\w+)`", row[0])}
    everywhere = {"event", *told.pop("event")}
    assert {line["event"] for line in lines} == {*told}
    assert all({*line} == everywhere | told[line["event"]] for line in lines)


def test_the_figures_in_the_text_are_the_stored_ones() -> None:
    orders = stored("injected_orders")
    floor = orders["rules"]["exactly the tools of the task"]["executable"]
    text = " ".join(PAGE.split())
    assert f"In {floor:.0%} of the pairs below" in text
    assert f"what came of {orders['replay']['a privilege, no labels']['pairs']} pairs" in text


def test_what_is_stored_keeps_the_promise() -> None:
    orders = stored("injected_orders")
    replay = orders["replay"]["a privilege, no labels"]
    assert replay["ran_outside"] == 0
    assert replay["refused"] > 0
    for row in stored("hijacked_sessions").values():
        assert row["ran outside"] == row["answered by nothing"] == 0
        assert row["refused in words"] > 0
        assert all(row["attacks"].values())
    with_examples = [row for row in stored("refused_writes") if (row["tools"], row["told"]) == (40, "examples")]
    assert with_examples[0]["refused"] <= 0.15 * with_examples[0]["needed"]

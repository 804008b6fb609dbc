"""Counts add up on every command that reads traces or their tasks: what there was is what is used and what is not."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from camdf.cli import main
from camdf_traces.spans import Span, arrow_table

pytest.importorskip("deltalake")

TOOLS = ("get_weather", "send_mail", "book_flight")
START = 1_773_000_000_000_000_000
DAY = "2026-03-08"


def run(number: int, **told: Any) -> list[Span]:
    """A run behind a gate; every third one explores."""
    start, explored = START + number * 10**9, number % 3 == 0
    offered = TOOLS if explored else TOOLS[:2]
    agent = Span(
        f"{number:032x}", "agent", kind="agent", name="clerk", text=f"What is the weather in place {number}?",
        start=start, end=start + 9, user=f"user {number % 4}", ranked=TOOLS, scores=(0.9, 0.5, 0.1), explored=explored,
    )  # fmt: skip
    call = Span(agent.trace_id, "call", "agent", "tool", "get_weather", start=start + 2, end=start + 3)
    asks, answers = (
        Span(agent.trace_id, f"model {n}", "agent", "model", "m", start=start + n, end=start + n + 1, offered=offered)
        for n in (1, 4)
    )
    return [replace(agent, **told), replace(asks, requested=("get_weather",)), call, answers]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Traces in which something is wrong in every way that is counted."""
    folder = tmp_path_factory.mktemp("counts")
    runs = [run(number) for number in range(30)]
    runs += [run(30, error="x"), run(31, success=False), run(32, parent_id="nobody"), run(33, ranked=(), scores=())]
    runs += [run(34, text=""), run(35)[1:], [replace(span, trace_id="") for span in run(36)], run(1)]
    runs += [[Span("alone", "1", kind="model", name="m", start=START, end=START + 1)]]
    (folder / "traces").mkdir()
    pq.write_table(arrow_table([span for spans in runs for span in spans]), folder / "traces" / "spans.parquet")
    (folder / "tools.json").write_text(json.dumps(dict.fromkeys(TOOLS, "What it does.")))
    assert main(["mine", str(folder / "traces"), "-o", str(folder / "tasks.parquet"), "--with-text"]) == 0
    return folder


COMMANDS = {
    "mine": ("mine traces -o again.parquet", {"spans", "runs"}),
    "mine into days": (f"mine traces --into table --day {DAY} --plain-ids", {"spans", "runs"}),
    "forget": ("forget --plain-ids --conversation nobody --user user-1 table", {"spans", "tasks"}),
    "compare": ("compare traces", {"spans", "conversations"}),
    "audit": ("audit tasks.parquet", {"tasks"}),
    "score": ("score tasks.parquet --tools tools.json --scorer bm25 -o ranked.parquet", {"tasks"}),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_counts_add_up_in_one_line_and_in_json(
    command: str, place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(place)
    words, names = COMMANDS[command]
    assert main([*words.split(), "--json"]) in (0, 3)
    document = json.loads(capsys.readouterr().out)
    assert document["sums"].keys() == names
    assert main(words.split()) in (0, 3)
    printed = capsys.readouterr().out
    for what, counts in document["sums"].items():
        whole, *parts = counts.values()
        assert whole == sum(parts) > 0
        assert f" {what} {next(iter(counts))}: " in printed


def test_what_is_left_out_is_told_by_reason(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(place)
    told = {}
    for name in ("mine", "compare", "audit", "score"):
        main([*COMMANDS[name][0].split(), "--json"])
        told[name] = json.loads(capsys.readouterr().out)["sums"]
    spans = {"duplicates": 4, "without an id": 4}
    assert told["mine"]["spans"].items() >= (spans | {"of no agent": 4}).items()
    assert told["compare"]["spans"].items() >= (spans | {"of no agent": 1}).items()
    assert told["audit"]["tasks"]["without a ranking"] == 1
    assert told["score"]["tasks"]["without a text to score"] == 1

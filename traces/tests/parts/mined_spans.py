"""Spans to mine: one run of an agent, random ones, and files of them."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pyarrow.parquet as pq
import pytest

from camdf_traces.spans import Kind, Span, arrow_table

TOOLS = ("search", "mail", "crm_mail", "tool_search", "call_tool", "transfer_to_sales", "straße", "")


def random_spans(seed: int) -> list[Span]:
    """A few dozen spans with few names, so that several agents, calls within calls and versions of a span are common.

    In most of these worlds every parent is there; in the others some are missing, and some stand in circles.
    """
    draw = Random(seed)

    def some_tools() -> tuple[str, ...]:
        return tuple(draw.choices(TOOLS, k=draw.choice([0, 1, 2, 3])))

    def a_span() -> Span:
        ranked = tuple(draw.sample(TOOLS[:7], 2)) if draw.random() < 0.3 else some_tools()
        good = tuple(draw.choices([0.0, -0.0, 0.2, 0.9, 1.5], k=len(ranked)))
        bad = draw.choice([(0.5,), (-0.1,) * len(ranked), (math.inf,) * len(ranked)])
        return Span(
            trace_id=draw.choice(["t", "u", "v", "w"]) if draw.random() < 0.98 else "",
            span_id=draw.choice("abcdefgh") if draw.random() < 0.98 else "",
            parent_id=draw.choice([*"abcdefgh", "gone", "", "", ""]),
            kind=draw.choice(kinds),
            name=draw.choice(TOOLS),
            conversation=draw.choice(["", "", "", "c1", "c2"]),
            user=draw.choice(["", "", "ada", "eve"]),
            service=draw.choice(["", "desk", "shop"]),
            start=draw.choice([None, 1, 2, 3]),
            end=draw.choice([None, 1, 2]),
            error="timeout" if draw.random() < 0.08 else "",
            text=draw.choice(["", "", "Cancel order 17", "cancel order 4", "Hello"]),
            offered=some_tools(),
            requested=(requested := some_tools() if draw.random() < 0.5 else ()),
            request_ids=tuple(draw.choices(["", "1", "2", "3"], k=len(requested) if draw.random() < 0.8 else 1)),
            call_id=draw.choice(["", "1", "2"]),
            ranked=ranked,
            scores=draw.choice([good, good, bad]),
            explored=draw.choice([None, None, True, False]),
            success=False if draw.random() < 0.05 else draw.choice([None, None, True]),
            input_tokens=draw.choice([None, 0, 100, 900]),
            cached_tokens=draw.choice([None, 0, 100, 2000]),
            output_tokens=draw.choice([None, 7, 7, 7]),
        )

    kinds: list[Kind] = draw.choice(
        [["agent", "model", "tool", "other"], ["model", "tool", "other"], ["model", "agent"]]
    )
    found = [a_span() for _ in range(draw.choice([1, 6, 30, 60]))]
    if draw.random() < 0.3:
        return found
    return [replace(span, parent_id=draw.choice(["", *_before(span, found)])) for span in found]


def _before(span: Span, spans: list[Span]) -> list[str]:
    return sorted({each.span_id for each in spans if each.trace_id == span.trace_id and each.span_id < span.span_id})


AGENT = Span("t", "a", kind="agent", name="clerk", conversation="c1", start=10, end=90, success=True)
ASKS = Span("t", "m1", "a", "model", start=20, end=30, offered=("search", "mail"), requested=("search",))
SEARCHES = Span("t", "s1", "a", "tool", "search", start=30, end=40, call_id="1")


RANKED = replace(AGENT, ranked=("search", "maps", "mail"), scores=(0.9, 0.5, 0.1), explored=False)


@pytest.fixture
def traces(tmp_path: Path) -> Path:
    """Forty runs that a gate ranked and ten that it did not, in two files, each run in both."""
    folder = tmp_path / "traces"
    folder.mkdir()
    runs = [
        [
            replace(RANKED if i < 40 else AGENT, trace_id=f"{i:02}", conversation=f"c{i // 2}", start=i),
            replace(ASKS, trace_id=f"{i:02}", input_tokens=1200, cached_tokens=300),
            replace(SEARCHES, trace_id=f"{i:02}", name="search" if i % 3 else "mail"),
        ]
        for i in range(50)
    ]
    for name, end in (("one", 2), ("two", 3)):
        pq.write_table(arrow_table([span for run in runs for span in run[:end]]), folder / f"{name}.parquet")
    return folder


def piece(number: int, *steps: Span, **agent: Any) -> list[Span]:
    """A run in a trace of its own, of one conversation: its steps in their order."""
    top = Span(f"p{number}", "a", kind="agent", name="clerk", conversation="c", start=number * 100, **agent)
    return [
        top,
        *(
            replace(step, trace_id=top.trace_id, span_id=f"s{place}", parent_id="a", start=number * 100 + place + 1)
            for place, step in enumerate(steps)
        ),
    ]


def asks(*tools: str, continues: bool = False) -> Span:
    return Span("", "", kind="model", name="m", offered=("search", "mail"), requested=tools, continues=continues)


def runs_tool(name: str) -> Span:
    return Span("", "", kind="tool", name=name)


WAITING = piece(1, asks("search"), runs_tool("search"), asks("mail", continues=True))
NEW = piece(2, asks("mail"), runs_tool("mail"), asks(continues=True))
SEARCHED = piece(2, asks(continues=True))
"""What a run does once a call was rejected: the model is told, and answers."""

PIECES: dict[str, tuple[list[Span], list[tuple[list[str], list[str]]]]] = {
    "approved": ([*WAITING, *piece(2, runs_tool("mail"), asks(continues=True))], [(["mail", "search"], [])]),
    "unrecorded": ([*WAITING, *piece(2, runs_tool("mail"), asks())], [(["mail", "search"], [])]),
    "rejected": ([*WAITING, *SEARCHED], [(["search"], ["mail"])]),
    "twice": (
        [*WAITING, *piece(2, asks("mail", continues=True)), *piece(3, runs_tool("mail"), asks(continues=True))],
        [(["mail", "search"], [])],
    ),
    "unanswered": (WAITING, []),
    "dropped": ([*WAITING, *NEW], [(["mail"], [])]),
    "answered later": (
        [*WAITING, *NEW, *piece(3, runs_tool("mail"), asks(continues=True))],
        [(["mail", "search"], []), (["mail"], [])],
    ),
    "unbegun": (SEARCHED, []),
    "failed": ([*WAITING, *piece(2, asks(continues=True), success=False)], []),
    "elsewhere": ([*WAITING, *[replace(span, conversation="other") for span in SEARCHED]], []),
}
"""Spans of one conversation in which a person is asked, and the tools that each task called and wanted."""

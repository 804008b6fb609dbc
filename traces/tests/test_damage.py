"""Traces that lost spans on the way: of 2,000 tasks at most 20 are wrong, and what is left out is counted."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from camdf_traces.spans import Span, arrow_table
from camdf_traces.tasks import mine

RUNS = 2_000
TOOLS = tuple(f"tool_{number:02d}" for number in range(12))
Lost = Callable[[Span, Random], bool]


def run(number: int, required: list[str]) -> list[Span]:
    """A run whose model asks for one tool after the other, and then answers."""
    trace, start = f"trace-{number}", number * 1_000
    scores = tuple(1 - place / 20 for place in range(len(TOOLS)))
    spans = [Span(trace, "agent", kind="agent", name="clerk", start=start, ranked=TOOLS, scores=scores, explored=True)]
    for place, tool in enumerate([*required, ""]):
        asked: dict[str, Any] = {"requested": (tool,), "request_ids": (f"call-{place}",)} if tool else {}
        at = start + 10 * place
        spans.append(
            Span(trace, f"model-{place}", "agent", "model", "m", start=at + 1, offered=TOOLS, output_tokens=9, **asked)
        )
        if tool:
            spans.append(Span(trace, f"tool-{place}", "agent", "tool", tool, start=at + 2, call_id=f"call-{place}"))
    return spans


def of_tool(share: float) -> Lost:
    return lambda span, rng: span.kind == "tool" and rng.random() < share


@pytest.mark.parametrize(
    "lost",
    [
        lambda span, rng: rng.random() < 0.05,
        of_tool(0.05),
        lambda span, rng: span.kind == "model" and rng.random() < 0.05,
        lambda span, rng: span.kind == "tool" and int(span.name[-2:]) % 2 == 1,
        of_tool(1.0),
    ],
    ids=["5% of all spans", "5% of tool spans", "5% of model spans", "half of the tools", "every tool span"],
)
def test_lost_spans_make_at_most_twenty_wrong_tasks_of_two_thousand(lost: Lost) -> None:
    rng = Random(1)
    truth = {f"trace-{number}/agent": sorted(rng.sample(TOOLS, rng.choice([1, 1, 2, 2, 3]))) for number in range(RUNS)}
    spans = [
        span for number, required in enumerate(truth.values()) for span in run(number, required) if not lost(span, rng)
    ]
    mined = mine(arrow_table(spans))
    wrong = [task["task_id"] for task in mined.tasks.to_dicts() if task["called"] != truth[task["task_id"]]]
    assert len(wrong) <= 20
    assert mined.runs == mined.kept + mined.incomplete + mined.stopped + mined.rests

"""Runs of agents, and their spans by the day of their arrival: late, twice, across midnight."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import replace
from datetime import date, timedelta
from typing import Any

from camdf_traces.spans import Kind, Span, arrow_table
from camdf_traces.tasks import mine

FIRST = date(2026, 11, 14)
DAY = 86_400_000_000_000
BEGIN = (FIRST - date(1970, 1, 1)).days * DAY
SECRET = "zanzibar-4711"


def run(number: int, start: int, **agent: Any) -> list[Span]:
    """An agent, two model calls and two tools, over some hours."""
    trace, hour = f"{number:032x}", DAY // 24
    offered = ("get", "send", "find")
    return [
        Span(trace, "a", kind="agent", start=start, end=start + 3 * hour, text=SECRET, **agent),
        Span(trace, "m", "a", "model", start=start + 1, offered=offered, requested=("get",), text=SECRET),
        Span(trace, "t", "a", "tool", "get", start=start + hour, call_id="1"),
        Span(trace, "n", "a", "model", start=start + 2 * hour + 1, offered=offered),
        Span(trace, "u", "a", "tool", "send", start=start + 2 * hour, call_id="2"),
    ]


def conversation(rng: random.Random, number: int, start: int) -> list[Span]:
    """Runs of which a person is asked in between, each in a trace of its own: of four, those that there are."""
    hour, found = DAY // 24, []
    waits = rng.random() < 0.8
    steps: list[list[tuple[Kind, str]]] = [
        [("model", "get"), ("tool", "get"), ("model", "send" if waits else "")],
        [("tool", "send"), ("model", rng.choice(["", "find"]))] if rng.random() < 0.7 else [("model", "")],
        [("model", "get"), ("tool", "get"), ("model", "")],
        [("tool", "find"), ("model", "")],
    ]
    for place in sorted(rng.sample(range(4), rng.randint(1, 4))):
        trace, began = f"{place:08x}{number:024x}", start + place * hour
        found.append(Span(trace, "a", kind="agent", start=began, conversation=f"c{number}"))
        for step, (kind, name) in enumerate(steps[place]):
            span = Span(trace, f"s{step}", "a", kind, start=began + 1 + step * hour // 4)
            if kind == "tool":
                found.append(replace(span, name=name))
            else:
                follows, asked = place in (1, 3) or step > 0, (name,) if name else ()
                offered = ("get", "send", "find")
                found.append(replace(span, name="m", offered=offered, requested=asked, continues=follows and waits))
    return found


def some_runs(rng: random.Random, count: int) -> list[list[Span]]:
    """Runs over four days: some cross midnight, fail, have an outcome, a ranking, a second version of a span.

    Others belong together: a person is asked in between.
    """
    found = []
    for number in range(count):
        start = BEGIN + rng.randrange(4 * DAY)
        if rng.random() < 0.4:
            found.append(conversation(rng, number, start))
            continue
        agent: dict[str, Any] = {"success": rng.choice([None, True, False]), "error": rng.choice(["", "", "", "late"])}
        if rng.random() < 0.5:
            agent |= {"ranked": ("get", "send"), "scores": (rng.random(), 0.5), "explored": rng.random() < 0.5}
        spans = run(number, start, **agent)
        if rng.random() < 0.3:
            spans.append(replace(spans[0], end=None, success=None, error=""))
        if rng.random() < 0.2:
            spans = [replace(span, start=None) for span in spans]
        found.append(spans)
    return found


def days_of(rng: random.Random, runs: Iterable[list[Span]], watermark: int) -> dict[date, list[Span]]:
    """The spans by the day of their arrival: each up to `watermark` days after its run began, some of them again."""
    found: dict[date, list[Span]] = {}
    for spans in runs:
        began = BEGIN if spans[0].start is None else spans[0].start
        first = FIRST + timedelta((began - BEGIN) // DAY)
        for span in spans:
            own = 0 if span.start is None else (span.start - BEGIN) // DAY - (began - BEGIN) // DAY
            for _ in range(rng.choice([1, 1, 2])):
                found.setdefault(first + timedelta(rng.randint(own, watermark)), []).append(span)
    for spans in found.values():
        rng.shuffle(spans)
    return found


def in_a_possible_order(rng: random.Random, days: Iterable[date], watermark: int) -> list[date]:
    """Days shuffled, each at most `watermark` days before the last one so far, and some of them twice."""
    waiting, done = sorted(days), []
    while waiting:
        oldest = waiting[0]
        ready = [day for day in waiting if day <= oldest + timedelta(watermark)]
        done.append(waiting.pop(waiting.index(rng.choice(ready))))
    return done


def at_once(spans: Iterable[Span]) -> list[dict[str, Any]]:
    return mine(arrow_table(list(spans))).tasks.to_dicts()

"""Traces of a made-up deployment: a gate at work before a scripted assistant.

    python examples/made_up_traces.py traces --runs 900

writes four weeks of spans as Parquet files of the span table, one a week, for
`camdf mine traces -o tasks.parquet`.

The gate is a real one, with BM25 and the policy for the first day. The
assistant is scripted with the tools that each request needs. It calls those of
them that the gate offers, now and then skips one or calls one too many, and
fails where one is missing. Half-way, three tools are added and one is removed.
The same seed gives the same spans.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from camdf import Payoff, cold_start
from camdf.gate import Gate, Rollout
from camdf.scorers import BM25
from camdf.tools import Tool
from camdf_traces.spans import Span, arrow_table

TOOLS = {
    "get_order": "Look up an order by its number: items, dates and status.",
    "get_customer": "Look up a customer by name or email address.",
    "refund_payment": "Refund a payment of an order.",
    "cancel_order": "Cancel an order that was not sent yet.",
    "change_address": "Change the delivery address of an order.",
    "track_parcel": "Track a parcel and say when it arrives.",
    "check_stock": "Check how many items of a product are in stock.",
    "search_products": "Search products by name, size and price.",
    "create_invoice": "Create an invoice for an order.",
    "send_email": "Send an email to a customer or a colleague.",
    "send_fax": "Send a fax.",
    "create_ticket": "Create a ticket for the support team.",
    "search_tickets": "Search earlier tickets of a customer.",
    "schedule_call": "Schedule a call with a customer in the calendar.",
    "list_events": "List the events in the calendar of a day.",
    "translate_text": "Translate a text into another language.",
    "convert_currency": "Convert an amount of money into another currency.",
    "run_report": "Run a report on sales for a month.",
    "query_database": "Run a query against the sales database.",
    "draw_chart": "Draw a chart from a table of numbers.",
    "read_file": "Read a file.",
    "write_file": "Write a file.",
    "search_web": "Search the web.",
    "get_weather": "Weather forecast for a city.",
}
ADDED = ("track_parcel", "create_invoice", "draw_chart")
REMOVED = ("send_fax",)
"""The tools that are added half-way, and those that are removed."""

REQUESTS = {
    "Refund the payment of order {order} and send {name} an email": (
        "get_order",
        "refund_payment",
        "send_email",
    ),
    "Track the parcel of order {order}: when does it arrive?": (
        "get_order",
        "track_parcel",
    ),
    "Cancel order {order} of customer {name}, who wanted {product}": (
        "get_customer",
        "get_order",
        "cancel_order",
    ),
    "Customer {name} moved to {city}: change the delivery address": (
        "get_customer",
        "change_address",
    ),
    "How many {product} are in stock?": ("check_stock",),
    "Search {product} at a price below {amount} and check the stock": (
        "search_products",
        "check_stock",
    ),
    "Create an invoice for {name} in dollars": (
        "get_customer",
        "create_invoice",
        "convert_currency",
    ),
    "{name} has trouble with {product} again, tell support": (
        "get_customer",
        "search_tickets",
        "create_ticket",
    ),
    "Schedule a call with {name} on {day}": ("list_events", "schedule_call"),
    "What is in my calendar on {day}?": ("list_events",),
    "Draw a chart of the sales of {product} in {city}": (
        "query_database",
        "draw_chart",
    ),
    "Report on sales in {city}, as a file": ("run_report", "write_file"),
    "Translate the tickets of {name} and email the text": (
        "search_tickets",
        "translate_text",
        "send_email",
    ),
    "Send {name} a fax with order {order}": ("get_order", "send_fax"),
    "Weather in {city} on {day}?": ("get_weather",),
}
"""Each request, and the tools that it needs."""

WORDS = {
    "name": ("Ada", "Bo", "Cleo", "Dan", "Eve", "Finn", "Gro", "Hal"),
    "product": ("lamps", "chairs", "desks", "shelves", "sofas", "rugs"),
    "city": ("Oslo", "Rome", "Lima", "Kyoto", "Accra"),
    "day": ("Monday", "Tuesday", "Friday"),
    "order": ("1041", "1077", "1093", "1102"),
    "amount": ("40", "90"),
}
SECOND = 1_000_000_000
START = 1_767_571_200 * SECOND
"""5 January 2026."""

WEEK = 7 * 24 * 3600 * SECOND


def spans_of_a_deployment(
    runs: int = 900, seed: int = 0, explore: float = 0.2
) -> Iterator[Span]:
    """Four weeks of runs, spread evenly; a few spans come twice."""
    rng = np.random.default_rng(seed)
    gate = Gate(
        cold_start(), BM25(), Payoff(0.04), rollout=Rollout(explore=explore)
    )
    for run in range(runs):
        absent = ADDED if 2 * run < runs else REMOVED
        tools = {
            name: Tool(name, text)
            for name, text in TOOLS.items()
            if name not in absent
        }
        possible = [
            request
            for request, needed in REQUESTS.items()
            if tools.keys() >= set(needed)
        ]
        request = possible[rng.integers(len(possible))]
        text = request.format(
            **{
                word: some[rng.integers(len(some))]
                for word, some in WORDS.items()
            }
        )
        start = START + 4 * WEEK * run // runs
        for span in _run(
            gate, f"run-{run:05}", text, REQUESTS[request], tools, start, rng
        ):
            yield span
            if rng.random() < 0.01:
                yield span


def write_spans(
    folder: str | Path, runs: int = 900, seed: int = 0, explore: float = 0.2
) -> None:
    """The spans as Parquet files of the span table, one a week."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    weeks: dict[int, list[Span]] = {}
    for span in spans_of_a_deployment(runs, seed, explore):
        weeks.setdefault(
            ((span.start or START) - START) // WEEK + 1, []
        ).append(span)
    for week, spans in weeks.items():
        pq.write_table(
            arrow_table(spans), Path(folder) / f"week-{week}.parquet"
        )


def _run(
    gate: Gate,
    trace: str,
    text: str,
    needed: tuple[str, ...],
    tools: dict[str, Tool],
    start: int,
    rng: np.random.Generator,
) -> list[Span]:
    """One request: the gate's decision, then model, tools and model again."""
    decision = gate.decide(text, list(tools.values()), conversation=trace)
    offered = tuple(tool.name for tool in decision.tools)
    calls = [name for name in needed if name in offered and rng.random() > 0.02]
    calls += [
        name for name in offered if name not in needed and rng.random() < 0.005
    ]
    lacks = not set(needed) <= set(offered)
    spans = []
    now = start + SECOND
    for call, name in enumerate(calls):
        tries = 2 if rng.random() < 0.06 else 1
        for attempt in range(tries):
            now += SECOND
            spans.append(
                Span(
                    trace,
                    f"tool-{call}-{attempt}",
                    "assistant",
                    "tool",
                    name,
                    start=now,
                    end=now + SECOND // 2,
                    error="TimeoutError" if attempt + 1 < tries else "",
                    call_id=f"call-{call}",
                )
            )
    first, last = (
        Span(
            trace,
            f"model-{turn}",
            "assistant",
            "model",
            "scripted",
            start=at,
            end=at + SECOND,
            offered=offered,
            requested=requested,
            input_tokens=400 + 90 * len(offered),
            output_tokens=40,
        )
        for turn, at, requested in (
            (0, start, tuple(calls)),
            (1, now + SECOND, ()),
        )
    )
    # Half of the outcomes are recorded. Without a tool that it needs, a run
    # fails, and mostly somebody notices.
    is_recorded = rng.random() < (0.9 if lacks else 0.5)
    outcome = not lacks if is_recorded else None
    event = decision.event()
    agent = Span(
        trace,
        "assistant",
        kind="agent",
        name="assistant",
        start=start,
        end=now + 3 * SECOND,
        error="ProviderError" if rng.random() < 0.02 else "",
        text=text,
        ranked=tuple(event["camdf.ranking.names"]),  # type: ignore[arg-type]
        scores=tuple(event["camdf.ranking.scores"]),  # type: ignore[arg-type]
        explored=decision.explored,
        success=outcome,
    )
    return [agent, first, *spans, last]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description="Write the span tables of a made-up deployment."
    )
    parser.add_argument("folder", type=Path, help="where the Parquet files go")
    parser.add_argument(
        "--runs",
        type=int,
        default=900,
        help="how many runs of the assistant (default: 900)",
    )
    parser.add_argument(
        "--seed",
        type=int,
        default=0,
        help="which made-up deployment (default: 0)",
    )
    parser.add_argument(
        "--explore",
        type=float,
        default=0.2,
        help="share of runs that see every tool (default: 0.2)",
    )
    options = parser.parse_args()
    write_spans(options.folder, options.runs, options.seed, options.explore)

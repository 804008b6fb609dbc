"""Writes docs/at-scale.md from results/spark.json and results/at_scale.json.

python docs/at_scale_page.py
"""

from __future__ import annotations

import json
import textwrap
from math import ceil
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent
RESULTS = DOCS.parent / "results"

SPANS = 100e9
SPANS_A_PARTITION = 500_000
SPLIT_MB = 128
"""What a map task of Spark reads, unless it is told otherwise."""

PARTS = {"the whole day": 1, "every hour": 24, "every quarter of an hour": 96, "every five minutes": 288}
TRACE_SECONDS = 60
"""How long a run takes, about: an assumption."""

DAYS_KEPT = 30
DOLLARS_A_CORE_HOUR, UTILISATION = 0.05, 0.6
DOLLARS_A_GB_MONTH, DOLLARS_A_THOUSAND_READS = 0.023, 0.0004
"""Object storage, about what large clouds list for their standard class: assumptions."""

GROUP_ROWS = 1_000_000
"""Rows of a Parquet row group, as large writers make them."""

HEAD = """# A hundred billion spans a day

[On Spark](spark.md) has what was measured on one machine, up to 20 million spans. This page is the plan for five
thousand times as many, and what stands against multiplying. All figures below are arithmetic on the measured ones; what
is assumed is said.
"""


def page(spark: dict[str, Any], scale: dict[str, Any]) -> str:
    """The page."""
    largest = spark["growth"]["sizes"][-1]
    spans, tasks = largest["spans"], largest["tasks"]
    stored, moved = largest["MB read"] * 1e6 / spans, largest["MB shuffled"] * 1e6 / spans
    work = largest["processor seconds"] / spans
    parts = [HEAD, *shuffle(stored, moved), *source(), *filters(stored), *prices(stored, work), *sampling(spans, tasks)]
    return "\n".join(map(wrapped, [*parts, *curve(scale), *engines()])) + "\n"


def wrapped(line: str) -> str:
    """A paragraph in lines of at most 120 characters; tables, code and what has lines already stay."""
    if "\n" in line or line.startswith(("|", " ")):
        return line
    indent = "  " if line.startswith("- ") else ""
    return textwrap.fill(line, 120, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def shuffle(stored: float, moved: float) -> list[str]:
    """Blocks are the product of map and reduce tasks: not linear."""
    rows = []
    for name, count in PARTS.items():
        some = SPANS / count
        maps, reduces = ceil(some * stored / (SPLIT_MB * 1e6)), ceil(some / SPANS_A_PARTITION)
        blocks = maps * reduces * count
        again = TRACE_SECONDS / (86_400 / count) if count > 1 else 0.0
        kilobytes = SPANS * moved / blocks / 1e3
        rows.append(f"| {name} | {maps:,} | {reduces:,} | {_count(blocks)} | {kilobytes:,.1f} | {again:.1%} |")
    return [
        "## The shuffle is not linear",
        "",
        f"A span takes {stored:.0f} bytes in Parquet and {moved:.0f} in the shuffle that brings traces together. Every "
        f"map task writes a block for every reduce task. With maps of {SPLIT_MB} MB and {SPANS_A_PARTITION:,} spans a "
        "reduce task, which is what a Python worker holds, a day in one job is billions of blocks of a few kilobytes: "
        "random reads, and no cluster likes them. Cut into k parts, a day has k times fewer blocks, k times as large:",
        "",
        "| a job for | map tasks | reduce tasks | blocks a day | KB a block | traces mined twice |",
        "| --- | --- | --- | --- | --- | --- |",
        *rows,
        "",
        f"What it costs are the traces that lie across a boundary (here, runs of {TRACE_SECONDS} seconds), which are "
        "mined again when the rest of them arrives; `camdf mine --engine spark --into TABLE` and `mine_stream` do "
        "that, and a property test says that nothing is lost or counted twice. Every hour is a good place to begin.",
        "",
    ]


def source() -> list[str]:
    """No shuffle at all."""
    return [
        "## Better: no shuffle at all",
        "",
        "Whoever writes the spans can bring traces together for nothing. The OpenTelemetry Collector's `loadbalancing` "
        "exporter sends all spans of a trace to the same collector (`routing_key: traceID`), and Kafka does the same "
        "with the trace's id as the key. A collector that holds a trace for a minute before it writes (`groupbytrace`) "
        "then writes whole traces into one file, and mining reads files, each by itself. Where spans are in a table "
        "already, cluster it by a hash of `trace_id` when it is compacted, which is paid once for all readers.",
        "",
        "Adding up before the shuffle, as for counts, does not help here: a task is made of lists and order, and what "
        "a trace's spans have in common is only its id. Reading few columns does: text is not read unless it is asked "
        "for.",
        "",
    ]


def filters(stored: float) -> list[str]:
    """What a row filter skips."""
    share, a_trace = 0.002, 20
    untouched = (1 - share) ** (GROUP_ROWS / a_trace)
    return [
        "## What a filter can skip",
        "",
        f"A filter on a hash of the trace (`pmod(xxhash64(trace_id), 1000) < 2`) keeps {share:.1%} of the spans and "
        "reads all of them: ids are random, so the least and largest of a row group say nothing, and of row groups of "
        f"{GROUP_ROWS:,} spans, {a_trace} a trace, a share of {untouched:.0e} has no match. It spares shuffle, Python "
        f"and mining; of a day it still reads {SPANS * stored / 1e12:.1f} TB. In a table that is divided into a "
        "thousand folders by that hash, the same filter opens two of them.",
        "",
    ]


def prices(stored: float, work: float) -> list[str]:
    """Storage, reads, processors."""
    terabytes = SPANS * stored / 1e12
    storage = terabytes * 1e3 * DAYS_KEPT * DOLLARS_A_GB_MONTH / 30
    reads = SPANS * stored / (SPLIT_MB * 1e6)
    hours = SPANS * work / 3600
    processors = hours * DOLLARS_A_CORE_HOUR / UTILISATION
    return [
        "## What a day costs",
        "",
        "| | amount | dollars a day |",
        "| --- | --- | --- |",
        f"| storage, {DAYS_KEPT} days kept | {terabytes:,.1f} TB a day | {storage:,.0f} |",
        f"| reads from the object store, {SPLIT_MB} MB each | {reads:,.0f} | "
        f"{reads / 1e3 * DOLLARS_A_THOUSAND_READS:,.2f} |",
        f"| processors, mining every span | {hours:,.0f} core hours | {processors:,.0f} |",
        "",
        f"Assumed: {DOLLARS_A_GB_MONTH} dollars a GB and month, {DOLLARS_A_THOUSAND_READS} a thousand reads, "
        f"{DOLLARS_A_CORE_HOUR:.2f} a core hour of which {UTILISATION:.0%} is used. Storing the spans costs more than "
        "mining them, and whoever stores them has decided that already. A read a column and row group, as readers make "
        "them, is some twenty times as many, and still the smallest line.",
        "",
    ]


def sampling(spans: int, tasks: int) -> list[str]:
    """Keep every explored run."""
    learned = SPANS * tasks / spans
    return [
        "## A sample that keeps what teaches",
        "",
        "Runs that saw every tool are worth the most, since a gate has censored all others. A sample by hash drops "
        "them as it drops the rest. The collector can tell them apart when a trace is complete, by the gate's own "
        "event:",
        "",
        "```text",
        "tail_sampling:",
        "  policies:",
        "    - {name: explored, type: ottl_condition, ottl_condition: {error_mode: ignore, spanevent:",
        '        [\'attributes["camdf.explored"] == true\', \'attributes["camdf.mode"] == "shadow"\']}}',
        "    - {name: the-rest, type: probabilistic, probabilistic: {sampling_percentage: 0.2}}",
        "```",
        "",
        f"Of {learned / 1e9:.1f} billion tasks a day, a gate that explores with 1% leaves {learned * 0.01 / 1e6:,.0f} "
        "million that saw every tool: far more than any fit needs. `camdf fit --explored-only` reads those alone; the "
        "rest is for `camdf compare`, and for statistics of tools.",
        "",
    ]


def curve(scale: dict[str, Any]) -> list[str]:
    """How many tasks are enough."""
    rows = scale["curve"]
    last = rows[-1]
    near = next(row for row in rows if last["payoff"] - row["payoff"] <= 0.002)
    return [
        "## How many tasks are enough",
        "",
        "The default learns a coefficient a column, and a level and a slope a tool. `python benchmarks/at_scale.py` "
        f"fits it on more and more made-up tasks, with 12 out of 100 tools each, and decides {scale['held_out']:,} "
        "others:",
        "",
        "| tasks learned from | payoff |",
        "| --- | --- |",
        *(f"| {row['tasks']:,} | {row['payoff']:.4f} |" for row in rows),
        "",
        f"From {near['tasks']:,} tasks on it gains at most 0.002. What more of them are for is tools that few tasks "
        "need: a tool is known by its own history, and one that is required once in ten thousand tasks has none before "
        "there are some ten thousand. So [`camdf fit --engine spark`](spark.md#why-the-fit-runs-in-one-place) samples "
        "by tool, and fits in one place. `camdf curve` draws the same for tasks of your own.",
        "",
    ]


def engines() -> list[str]:
    """Connect, serverless, streams."""
    return [
        "## Spark Connect, serverless, Flink",
        "",
        "- *Spark Connect and serverless Spark* run `mapInArrow` and `applyInArrow`, which all of our work goes "
        "through. They have no `sparkContext`, of which mining asks the number of cores, and no `persist` to disk on "
        "some of "
        "them. So a classic session is needed today; jobs on serverless clusters that start one are fine.",
        "- *Flink or Kafka Streams* would hold the open traces in state and give every task within seconds. Nothing "
        "here can use that: a policy is fitted once a day at most, and a decision needs no table. Where an outcome "
        "should count at once, `policy.update` and `camdf learn` take it from the service's own log. If your traces "
        "live in Kafka, a micro-batch every few minutes (`mine_stream`) is the same function at a fraction of the "
        "state. A stream processor pays when tasks feed something that must react within seconds, such as an alarm.",
        "- *No engine at all*: the sample above, explored runs of one day, is a few gigabytes. One machine mines 20 "
        "million spans in minutes ([how much at once](mining.md#how-much-at-once)).",
    ]


def _count(number: float) -> str:
    for unit, size in (("billion", 1e9), ("million", 1e6)):
        if number >= size:
            return f"{number / size:,.1f} {unit}"
    return f"{number:,.0f}"


if __name__ == "__main__":
    found = (json.loads((RESULTS / name).read_text(encoding="utf-8")) for name in ("spark.json", "at_scale.json"))
    (DOCS / "at-scale.md").write_text(page(*found), encoding="utf-8")

"""Writes docs/at-scale.md from what is stored in results, in the files that `STORED` names.

python docs/at_scale_page.py
"""

from __future__ import annotations

import json
import textwrap
from math import ceil
from pathlib import Path
from typing import Any

from camdf_traces.days import SPANS_A_BUCKET

DOCS = Path(__file__).parent
RESULTS = DOCS.parent / "results"

STORED = ("spark.json", "at_scale.json", "reading.json", "simulated_day.json", "mining.json", "clickhouse.json")
SPANS = 100e9
SPANS_A_PARTITION = 500_000
SPLIT_MB = 128
"""What a map task of Spark reads, unless it is told otherwise."""

PARTS = {"the whole day": 1, "every hour": 24, "every five minutes": 288}
TRACE_SECONDS = 60
"""How long a run takes, about: an assumption."""

DAYS_KEPT = 30
DOLLARS_A_CORE_HOUR = 0.05
UTILIZATION = 0.6
DOLLARS_A_GB_MONTH = 0.023
DOLLARS_A_THOUSAND_READS = 0.0004
"""Object storage, about what large clouds list for their standard class: assumptions."""

FORMS = {
    "genai": "JSON, a document a line",
    "genai, zstd": "JSON, packed one by one",
    "genai in protobuf": "protobuf",
    "genai in protobuf, zstd": "protobuf, packed one by one",
}

HEAD = """# A hundred billion spans a day

[On Spark](../traces/docs/spark.md) has what was measured on one machine, up to 20 million spans. This page is the plan
for five thousand times as many: arithmetic on the measured figures, and what stands against multiplying them. In short:

- Let collectors keep the spans of a trace together, and pack what they write.
- Mine every hour into a table of days, made with `--spans-a-day`.
- Store every explored run, and a sample of the rest: a fit needs some thousand tasks.
"""


def page(
    spark: dict[str, Any],
    scale: dict[str, Any],
    reading: dict[str, Any],
    day: dict[str, Any],
    mining: dict[str, Any],
    clickhouse: dict[str, Any],
) -> str:
    """The page."""
    largest = spark["growth"]["sizes"][-1]
    spans = largest["spans"]
    tasks = largest["tasks"]
    stored = largest["MB read"] * 1e6 / spans
    moved = largest["MB shuffled"] * 1e6 / spans
    work = largest["processor seconds"] / spans
    parts = [HEAD, *which_engine(work, reading, mining, clickhouse), *prices(stored, work, reading)]
    parts += [*start(reading, stored, work), *shuffle(stored, moved), *source()]
    parts += [*buckets(day), *sampling(spans, tasks, stored), *curve(scale), *engines()]
    return "\n".join(map(wrapped, parts)) + "\n"


def wrapped(line: str) -> str:
    """A paragraph in lines of at most 120 characters; tables, code and what has lines already stay."""
    if "\n" in line or line.startswith(("|", " ")):
        return line
    indent = "  " if line.startswith("- ") else ""
    return textwrap.fill(line, 120, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def which_engine(work: float, reading: dict[str, Any], mining: dict[str, Any], clickhouse: dict[str, Any]) -> list[str]:
    """Which engine is for whom, by what each takes for a span."""
    mined = mining["polars"]["processor seconds"] / mining["polars"]["spans"] * 1e6
    of_files = reading["genai"]["read into span tables"]
    stored = clickhouse[max(clickhouse, key=int)]
    spans = stored["spans"]
    own, other = (stored[name]["processor seconds to read"] / spans * 1e6 for name in ("ClickHouse", "Parquet"))
    engine = stored["ClickHouse"]["processor seconds of the engine"] / spans * 1e6
    sent = stored["ClickHouse"]["MB"] / stored["Parquet"]["MB"]
    rows = {
        "files on one machine | Polars": of_files + mined,
        "ClickHouse, where traces are already | Polars": own + engine + mined,
        "span tables in a lake | Spark": work * 1e6,
    }
    lines = []
    for name, each in rows.items():
        hours = SPANS * each / 1e6 / 3600
        lines.append(f"| {name} | {each:.0f} | {hours:,.0f} | {_dollars_of_work(hours):,.0f} |")
    return [
        "## Which engine for whom",
        "",
        "| the traces are in | mined by | microseconds of processor a span | core hours a day | dollars a day |",
        "| --- | --- | --- | --- | --- |",
        *lines,
        "",
        "Each row is of a run of its own, so rows do not compare. That of ClickHouse is an upper bound: "
        f"{spans:,} spans, read once by processes that had just begun, under a load of {stored['load']:.0f}. Only what "
        "ran side by side compares, below.",
        "",
        f"- *One machine*: `camdf mine FOLDER`, of which {of_files:.0f} microseconds read OTLP. It holds 20 million "
        "spans at once, and any number day by day (`--into`). For more, divide the traces by service and give each "
        "machine some.",
        "- *ClickHouse*: [`camdf mine clickhouse://...`](../traces/docs/clickhouse.md) exports nothing first. Of "
        f"{spans:,} spans, reading took {own:.0f} microseconds and {engine:.0f} of the engine's, where Parquet of the "
        f"same rows took {other:.0f}; {sent:.2f} times its bytes were sent (`python benchmarks/clickhouse.py`). One "
        f"process reads a day, by these figures {_in_words(86_400e6 / (own + mined))} spans in a day: past that, read "
        "each project or each table by a process of its own, or let the database write what it would send into a lake.",
        "- *Spark*: where a lake holds span tables, or spans that a job makes into such. What reading OTLP takes comes "
        "on top, once; the rest of this page is its plan.",
        "",
    ]


def start(reading: dict[str, Any], stored: float, work: float) -> list[str]:
    """OTLP as collectors write it, and what it takes to read it."""
    rows = []
    for form, words in FORMS.items():
        each = reading[form]["bytes a span"]
        took = reading[form]["read into span tables"]
        terabytes = SPANS * each / 1e12
        hours = SPANS * took / 1e6 / 3600
        dollars = f"{_dollars_of_storage(terabytes):,.0f} to store, {_dollars_of_work(hours):,.0f} to read"
        rows.append(f"| {words} | {each:,} | {terabytes:,.0f} | {took:.0f} | {hours:,.0f} | {dollars} |")
    one, other = (reading[form]["read into span tables"] for form in ("genai", "genai in protobuf"))
    cheaper = "JSON" if one < other else "protobuf"
    bytes_of = [reading[form]["bytes a span"] for form in FORMS]
    return [
        "## Where data starts",
        "",
        "`camdf mine` reads OTLP, as [collectors write it](../traces/docs/traces.md#how-to-export), into the span "
        "table:",
        "",
        "| OTLP as | bytes a span | TB a day | microseconds a span | core hours a day | dollars a day |",
        "| --- | --- | --- | --- | --- | --- |",
        *rows,
        "",
        f"Reading takes {one / 1e6 / work:.0f} times the processors that mining takes. It was measured under a load of "
        f"{reading['load']:.0f} on two cores ([how](../traces/docs/mining.md#how-much-at-once)), so only the ratios "
        f"count: {cheaper} is cheaper to read, by {abs(one - other) / max(one, other):.0%}, and protobuf is "
        f"{1 - bytes_of[2] / bytes_of[0]:.0%} smaller as it is and "
        f"{'larger' if bytes_of[3] > bytes_of[1] else 'smaller'} once packed. Real texts pack less well than these "
        "made-up ones. Take the form that your collector is best at, and pack it.",
        "",
        f"Read once, a span is {stored:.0f} bytes of Parquet without its text. Only `--keep-days` and `camdf forget` "
        "delete.",
        "",
    ]


def buckets(day: dict[str, Any]) -> list[str]:
    """How a table of days is divided, and that it holds what one batch would."""
    took = day["processor seconds"]
    count = ceil(SPANS / SPANS_A_BUCKET)
    return [
        "## One number to set",
        "",
        f"A table of days has a bucket for every {SPANS_A_BUCKET:,} spans of a day, which is what a worker holds. Set "
        "`--spans-a-day` when the table is made; buckets follow from it. An arrival writes a file a bucket, and mines "
        f"again only the traces of its spans. For {_in_words(SPANS)} spans a day these are {count:,} buckets, and "
        f"{_in_words(count * 24)} small files a day by the hour: give the largest services tables of their own, or "
        "mine every few hours.",
        "",
        f"`python benchmarks/simulated_day.py` plays a smaller day: {day['spans']:,} spans arrive by the hour, "
        f"{day['late']:,} of them 1 to 6 hours late, {day['ahead']:,} with clocks two days ahead, and one hour twice. "
        f"The table then has {day['tasks']:,} tasks, those of one batch over all of it, row by row; "
        f"{day['traces that wait']:,} others wait for the right time of a span. By the hour it took "
        f"{took['by the hour']:.0f} processor seconds, at once {took['at once']:.0f}.",
        "",
    ]


def shuffle(stored: float, moved: float) -> list[str]:
    """Blocks are the product of map and reduce tasks: not linear."""
    rows = []
    for name, count in PARTS.items():
        some = SPANS / count
        maps = ceil(some * stored / (SPLIT_MB * 1e6))
        reduces = ceil(some / SPANS_A_PARTITION)
        blocks = maps * reduces * count
        again = TRACE_SECONDS / (86_400 / count) if count > 1 else 0.0
        kilobytes = SPANS * moved / blocks / 1e3
        rows.append(f"| {name} | {maps:,} | {reduces:,} | {_in_words(blocks)} | {kilobytes:,.1f} | {again:.1%} |")
    return [
        "## The shuffle is not linear",
        "",
        f"A span takes {stored:.0f} bytes in Parquet and {moved:.0f} in the shuffle that brings traces together. Every "
        f"map task, of {SPLIT_MB} MB, writes a block for every reduce task, of {SPANS_A_PARTITION:,} spans, so a day "
        "in one job is billions of small blocks, read at random:",
        "",
        "| a job for | map tasks | reduce tasks | blocks a day | KB a block | traces mined twice |",
        "| --- | --- | --- | --- | --- | --- |",
        *rows,
        "",
        f"Traces across a boundary (here, runs of {TRACE_SECONDS} seconds) are mined again when the rest of them "
        "arrives, by `camdf mine --engine spark --into TABLE` and `mine_stream`. Begin with every hour.",
        "",
    ]


def source() -> list[str]:
    """No shuffle at all."""
    return [
        "## Better: no shuffle at all",
        "",
        "The OpenTelemetry Collector's `loadbalancing` exporter sends all spans of a trace to the same collector "
        "(`routing_key: traceID`), and so does Kafka with the trace's id as the key. A collector that holds a trace "
        "for a minute (`groupbytrace`) then writes whole traces into one file, and mining reads each file by itself. "
        "Where spans are in a table already, cluster it by a hash of `trace_id` when it is compacted.",
        "",
    ]


def prices(stored: float, work: float, reading: dict[str, Any]) -> list[str]:
    """Storage, reads, processors."""
    terabytes = SPANS * stored / 1e12
    reads = SPANS * stored / (SPLIT_MB * 1e6)
    hours = SPANS * work / 3600
    first = SPANS * min(reading[form]["read into span tables"] for form in FORMS) / 1e6 / 3600
    return [
        "## What a day costs",
        "",
        "| | amount | dollars a day |",
        "| --- | --- | --- |",
        f"| processors, reading OTLP in its cheapest form | {first:,.0f} core hours | {_dollars_of_work(first):,.0f} |",
        f"| storage of spans, {DAYS_KEPT} days kept | {terabytes:,.1f} TB a day | "
        f"{_dollars_of_storage(terabytes):,.0f} |",
        f"| reads from the object store, {SPLIT_MB} MB each | {reads:,.0f} | "
        f"{reads / 1e3 * DOLLARS_A_THOUSAND_READS:,.2f} |",
        f"| processors, mining every span | {hours:,.0f} core hours | {_dollars_of_work(hours):,.0f} |",
        "",
        f"Assumed: {DOLLARS_A_GB_MONTH} dollars a GB and month, {DOLLARS_A_THOUSAND_READS} a thousand reads, "
        f"{DOLLARS_A_CORE_HOUR:.2f} a core hour of which {UTILIZATION:.0%} is used. With a read for every column and "
        "row group, reads are some twenty times as many.",
        "",
    ]


def sampling(spans: int, tasks: int, stored: float) -> list[str]:
    """Keep every explored run."""
    learned = SPANS * tasks / spans
    share = 0.002
    return [
        "## A sample that keeps what teaches",
        "",
        f"A filter on a hash of the trace (`pmod(xxhash64(trace_id), 1000) < 2`) leaves {share * learned / 1e6:.0f} of "
        f"{learned / 1e6:,.0f} million tasks. It spares shuffle and mining, and still reads "
        f"{SPANS * stored / 1e12:.1f} TB of a day, as ids are random; in a table with a thousand folders by that hash, "
        "it opens two.",
        "",
        "Runs that saw every tool teach the most, and such a filter drops them as it drops the rest. The collector "
        "can keep them by the gate's own event, in a second pipeline beside the one that stores every span:",
        "",
        "```text",
        "tail_sampling:",
        "  policies:",
        "    - name: explored",
        "      type: ottl_condition",
        "      ottl_condition:",
        "        error_mode: ignore",
        "        spanevent:",
        "          - 'attributes[\"camdf.explored\"] == true'",
        '          - \'attributes["camdf.mode"] == "shadow"\'',
        "    - name: the-rest",
        "      type: probabilistic",
        "      probabilistic: {sampling_percentage: 0.2}",
        "```",
        "",
        f"A gate that explores with 1% leaves {learned * 0.01 / 1e6:,.0f} million tasks a day that saw every tool. "
        "`camdf fit --engine spark` samples those alone.",
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
        f"From {near['tasks']:,} tasks on the default gains at most 0.002 (`python benchmarks/at_scale.py`: made-up "
        f"tasks with 12 out of 100 tools each, and {scale['held_out']:,} others to decide):",
        "",
        " | ".join(("| tasks learned from", *(f"{row['tasks']:,}" for row in rows))) + " |",
        f"| --- |{' --- |' * len(rows)}",
        " | ".join(("| payoff", *(f"{row['payoff']:.4f}" for row in rows))) + " |",
        "",
        "More tasks help tools that few tasks need, so [`camdf fit --engine "
        "spark`](../traces/docs/spark.md#why-the-fit-runs-in-one-place) samples by tool. `camdf curve` draws the same "
        "for tasks of your own.",
        "",
    ]


def engines() -> list[str]:
    """Connect, serverless, streams."""
    return [
        "## Spark Connect, serverless, Flink",
        "",
        "- *Spark Connect and serverless Spark* have no `sparkContext`, of which mining asks the number of cores, and "
        "some no `persist` to disk. A classic session is needed today.",
        "- *Flink or Kafka Streams*: for traces in Kafka, run `mine_stream` every few minutes. Where an outcome should "
        "count at once, `policy.update` and `camdf learn` take it from the service's own log.",
        "- *No engine at all*: the explored runs of one day are a few gigabytes, which [one "
        "machine](../traces/docs/mining.md#how-much-at-once) mines in minutes.",
    ]


def _dollars_of_storage(terabytes: float) -> float:
    return terabytes * 1e3 * DAYS_KEPT * DOLLARS_A_GB_MONTH / 30


def _dollars_of_work(hours: float) -> float:
    return hours * DOLLARS_A_CORE_HOUR / UTILIZATION


def _in_words(number: float) -> str:
    for unit, size in (("billion", 1e9), ("million", 1e6)):
        if number >= size:
            return f"{number / size:,.1f} {unit}"
    return f"{number:,.0f}"


if __name__ == "__main__":
    stored_results = (json.loads((RESULTS / name).read_text(encoding="utf-8")) for name in STORED)
    (DOCS / "at-scale.md").write_text(page(*stored_results), encoding="utf-8")

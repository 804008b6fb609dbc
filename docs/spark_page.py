"""Writes docs/spark.md from results/spark.json and one_place.json, which benchmarks of those names measure.

python docs/spark_page.py
"""

from __future__ import annotations

import json
import statistics
import textwrap
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent
RESULTS = DOCS.parent / "results"

PRICE_A_CORE_HOUR = 0.05
"""An assumption, in dollars: about what a core of a general-purpose cloud machine costs on demand."""

CORES_A_MACHINE = 16
HOURS = 1.0
"""Within how long a day's spans should be mined and learned from."""

NETWORK_GB = 1.25
"""What a machine of that size sends in a second: 10 Gbit/s."""

DAYS = {"1 billion": 1e9, "100 billion": 1e11}
HEAD = """# On Spark

Where traces lie in tables that Spark reads, the same two commands make [logged tasks](glossary.md#logged-task) of
traces and a [policy](glossary.md#policy) of logged tasks:

```sh
pip install 'camdf[spark]'
camdf mine traces -o tasks.parquet --engine spark
camdf fit tasks.parquet --cost-pressure 0.12 -o policy.json --engine spark
```

The commands take the session of `spark-submit`, else a local one, and read files that the driver and the executors both
see. Spark writes a folder of Parquet files, which every command of `camdf` reads. In a notebook, with any table that
Spark has (a classic session; Spark Connect is not supported):

```text
from camdf.mining.logged import logged_tasks
from camdf.mining.spark.mining import mine
from camdf.mining.spark.sample import sampled

mined = mine(session.table("traces.spans"))  # print(mined) has the counts
sample = sampled(mined.tasks)  # print(sample) says what it left out
tasks = logged_tasks(sample.tasks, prices)
policy = camdf.ExpectedPayoffBySet().fit(tasks, camdf.Payoff(0.12))
camdf.save(policy, "policy.json")
mined.release()  # the executors delete the mined rows
```

`camdf` must be installed where the executors' Python runs.

## What runs where

Every rule and every formula is the one that runs on one machine:

- Mining. The spans are shuffled once, by trace, and each partition goes as Arrow batches through
  `camdf.mining.tasks.mine`. The tasks equal those of one machine to the bit.
- The sample. `camdf fit --engine spark` brings about 20,000 tasks to the driver, drawn by tool, or all where there are
  fewer. A tool that few tasks list keeps about 100 of them, or all that it has; rare tools at most double the sample.
  What a task required plays no part.
- The fit runs on the driver, for every policy. Its table and verdict are of the sample, in which tasks with rare tools
  are more frequent.
- A [table of days](mining.md#day-by-day) and files of your own are read whole by the driver, without a sample.

What goes wrong is counted:

- Spans without an id or with text that is no UTF-8, and tasks whose names and scores do not fit, are left out. A
  Parquet file that cannot be read stops the job with its name.
- Spark computes the partition of a worker that dies again; a local session does so only with a master such as
  `local[2,4]`. A partition's counts travel with its tasks, so they count once.
- One trace of a million spans lies in one partition: some hundred megabytes in one worker.
"""


def page(found: dict[str, Any], compared: dict[str, Any]) -> str:
    lines = [*one_place(compared), *costs(found), *plan(found), *serving()]
    return "\n".join([HEAD, *(line if line.startswith(("|", "`" * 3)) else filled(line) for line in lines)]) + "\n"


def filled(line: str) -> str:
    """Prose in lines as long as those of the other pages."""
    return textwrap.fill(line, 120, break_long_words=False, break_on_hyphens=False)


def one_place(found: dict[str, Any]) -> list[str]:
    """Why the fit needs no cluster."""
    rows, passes, made_up = found["rankings"]["rows"], found["passes"], found["tasks"]
    decisions, differ, noise = (
        sum(row[name] for row in rows) for name in ("decisions", "decisions that differ", "with other folds")
    )
    more = [row["payoff"] - row["in passes"] for row in rows]
    by_folds = [row["in passes, other folds"] - row["in passes"] for row in rows]
    same, whole = passes["same folds"], passes["tasks"]
    return [
        "## Why the fit runs in one place",
        "",
        "An earlier version fitted the default on every task of a cluster, in passes that added up. A fit on a sample "
        "decides alike; `python benchmarks/one_place.py` compares the two.",
        "",
        f"On the {len(rows)} shipped rankings, all smaller than a sample, a fit in passes with the folds of one "
        f"machine was the fit of one machine: the largest difference of a coefficient was {same['apart']:.1e}, and of "
        f"{same['decisions']:,} decisions on candidates, at eight payoffs, {same['decisions that differ']} differed. "
        "In use the passes drew their folds by a hash. That changes "
        f"{differ / decisions:.2%} of decisions, about as many as another draw by a hash "
        f"({noise / decisions:.2%}). In payoff, the mean over rankings changes "
        f"by {statistics.fmean(more):+.4f} and by {statistics.fmean(by_folds):+.4f}; the most that one ranking changes "
        f"is {max(map(abs, more)):.4f} and {max(map(abs, by_folds)):.4f}.",
        "",
        f"Of {made_up['tasks']:,} made-up tasks, as many as 20 million spans give, with {made_up['rare tools']} rare "
        "tools (listed by less than one task in a thousand; the rarest by "
        f"{made_up['tasks of the rarest']}), Spark draws samples, and {made_up['held out']:,} other tasks are decided, "
        f"of which {made_up['held out with a rare tool']:,} list a rare tool:",
        "",
        "| learned from | tasks | for rare tools | payoff | less than from all | payoff with a rare tool "
        "| less than from all |",
        "| --- | --- | --- | --- | --- | --- | --- |",
        f"| all, in passes | {whole['tasks']:,} | | {whole['payoff']:.4f} | | "
        f"{whole['payoff with a rare tool']:.4f} | |",
        *(
            f"| a sample{'' if row['by tool'] else ', not by tool'} | {row['tasks']:,} | {row['for rare tools']:,} | "
            f"{row['payoff']:.4f} | {whole['payoff'] - row['payoff']:.4f} | {row['payoff with a rare tool']:.4f} | "
            f"{whole['payoff with a rare tool'] - row['payoff with a rare tool']:.4f} |"
            for row in made_up["samples"]
        ),
        "",
        _verdicts(made_up, passes),
        "",
    ]


def _verdicts(made_up: dict[str, Any], passes: dict[str, Any]) -> str:
    """Whether the samples say of the policy what all tasks say."""
    samples, usual, apart, whole = made_up["samples"], made_up["samples"][0], passes["samples"][0], passes["tasks"]
    alike = all(row["pays"] == whole["pays"] for row in samples)
    within, rarely = ("within" if apart[name] <= 0.002 else "beyond" for name in ("less", "less with a rare tool"))
    return (
        f"The usual sample, the first, loses {apart['less']:.4f} (standard error {apart['standard error']:.4f}), "
        f"{within} the 0.002 that [more tasks gain](at-scale.md#how-many-tasks-are-enough) from 1,000 on. Where a rare "
        f"tool is listed it loses {apart['less with a rare tool']:.4f} ({apart['its standard error']:.4f}), {rarely} "
        "that, and less than a sample that is not drawn by tool. The verdict, whether the policy pays more than tuned "
        f"simple rules, is {'the same' if alike else 'not the same'} for all of them. Drawing the usual sample took "
        f"{usual['drawing']['processor seconds']:.0f} processor seconds and its fit "
        f"{usual['fitting']['processor seconds']:.0f}; the fit in passes took {whole['processor seconds']:.0f}."
    )


def costs(found: dict[str, Any]) -> list[str]:
    """Overhead and growth."""
    over, growth = found["overhead"], found["growth"]
    first = over["rounds"][0]["ours"]
    ratio = over["ratio"]
    lines = [
        "## What it costs",
        "",
        f"Bare Spark is the same session without us: the shuffle of {first['spans']:,} spans and an identity "
        "`mapInArrow`, the mined tasks sorted and written. Mining takes "
        f"{ratio['seconds']:.2f} times its seconds and {ratio['processor seconds']:.2f} times its processor seconds "
        f"(medians of {len(over['rounds'])} rounds, alternating; the target was 1.25).",
        "",
        "| spans | tasks with a ranking | seconds | processor seconds | MB shuffled |",
        "| --- | --- | --- | --- | --- |",
        *(
            f"| {row['spans']:,} | {row['tasks']:,} | {row['seconds']:,.0f} | {row['processor seconds']:,.0f} | "
            f"{row['MB shuffled']:,.0f} |"
            for row in growth["sizes"]
        ),
        "",
        f"Seconds grow with the spans to the power {growth['exponent']['seconds']:.2f}, processor seconds to the power "
        f"{growth['exponent']['processor seconds']:.2f}. One machine without Spark mines 20 million spans in minutes "
        "([how much at once](mining.md#how-much-at-once)).",
        "",
    ]
    timings = " and ".join(
        f"{row['seconds']:.0f} seconds with one {row['one']} (the largest of four partitions holds "
        f"{row['largest partition']:.0%})"
        for row in found["skew"]["rows"]
    )
    same = all(row["same tasks"] for row in found["skew"]["rows"])
    return [
        *lines,
        f"A million spans of one conversation or of one trace, among a million others, are mined in {timings}; the "
        f"tasks are {'those' if same else 'not those'} of one machine.",
        "",
    ]


def plan(found: dict[str, Any]) -> list[str]:
    """Past this machine, from the largest run."""
    largest = found["growth"]["sizes"][-1]
    spans, tasks = largest["spans"], largest["tasks"]
    mining = largest["processor seconds"] / spans
    moved = largest["MB shuffled"] * 1e6 / spans
    lines = [
        "## Past this machine",
        "",
        f"The run of {spans:,} spans took {mining * 1e6:.1f} core seconds a million spans to mine; "
        f"{tasks / spans:.1%} of its spans became tasks with a ranking, and {moved:.0f} bytes a span were shuffled. "
        f"A day is arithmetic; assumed are {PRICE_A_CORE_HOUR:.2f} dollars a core hour and machines of "
        f"{CORES_A_MACHINE} cores and 10 Gbit/s that have {HOURS:.0f} hour.",
        "",
        "| spans a day | core hours | machines | dollars a day | TB shuffled | seconds of network | tasks |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name, day in DAYS.items():
        hours = day * mining / 3600
        machines = max(1, -(-hours // (CORES_A_MACHINE * HOURS)))
        terabytes = day * moved / 1e12
        network = terabytes * 1000 / (machines * NETWORK_GB)
        lines.append(
            f"| {name} | {hours:,.1f} | {machines:,.0f} | {hours * PRICE_A_CORE_HOUR:,.2f} | "
            f"{terabytes:,.2f} | {network:,.0f} | {day * tasks / spans / 1e6:,.0f} million |"
        )
    lines += [
        "",
        "[Another page](at-scale.md) says what stands against that arithmetic. The first bottleneck is the processor, "
        "then the disk under the shuffle.",
        "",
        "A fit needs some thousand tasks, so sample whole traces before the shuffle:",
        "",
        "```text",
        'spans.filter("pmod(xxhash64(trace_id), 1000) < 2")',
        "```",
        "",
        f"Of 100 billion spans a day, that leaves {0.002 * 1e11 * tasks / spans / 1e6:.0f} million tasks, for "
        f"{0.002 * 1e11 * mining / 3600:.1f} core hours beside the reading of the ids. For rare tools, mine every "
        "span, or tasks that [explored](at-scale.md#a-sample-that-keeps-what-teaches).",
        "",
    ]
    return lines


def serving() -> list[str]:
    """Why nothing of this serves."""
    return [
        "## Serving needs no engine",
        "",
        "A fitted policy is a JSON file of a few kilobytes, and a decision is a few dozen small numpy calls on one "
        "list (`python benchmarks/decision.py`). It runs inside the process that holds the request.",
    ]


if __name__ == "__main__":
    stored = (json.loads((RESULTS / name).read_text(encoding="utf-8")) for name in ("spark.json", "one_place.json"))
    (DOCS / "spark.md").write_text(page(*stored), encoding="utf-8")

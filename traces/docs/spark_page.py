"""Writes spark.md from results/spark.json and one_place.json, which benchmarks of those names measure.

python traces/docs/spark_page.py
"""

from __future__ import annotations

import json
import textwrap
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent
RESULTS = DOCS.parents[1] / "results"

HEAD = """# On Spark

Where traces lie in tables that Spark reads, the same two commands make
[logged tasks](../../docs/glossary.md#logged-task) of traces and a [policy](../../docs/glossary.md#policy) of logged
tasks:

```sh
pip install 'camdf[spark]'
camdf mine traces -o tasks.parquet --engine spark
camdf fit tasks.parquet --cost-pressure 0.12 -o policy.json --engine spark
```

The commands take the session of `spark-submit`, else a local one, and read files that the driver and the executors both
see. Spark writes a folder of Parquet files, which every command of `camdf` reads. `camdf` must be installed where the
executors' Python runs. In a notebook, with any table that Spark has (a classic session; Spark Connect is not
supported):

```text
from camdf_traces.logged import logged_tasks
from camdf_traces.spark.mining import mine
from camdf_traces.spark.sample import sampled

mined = mine(session.table("traces.spans"))  # print(mined) has the counts
sample = sampled(mined.tasks)  # print(sample) says what it left out
tasks = logged_tasks(sample.tasks, prices)
policy = camdf.ExpectedPayoffBySet().fit(tasks, camdf.Payoff(0.12))
camdf.save(policy, "policy.json")
mined.release()  # the executors delete the mined rows
```

## What runs where

- Mining shuffles the spans once, by trace. The tasks equal those of one machine to the bit.
- `camdf fit --engine spark` brings a sample of about 20,000 tasks to the driver, drawn by tool, or all where there are
  fewer. A tool that few tasks list keeps about 100 of them, or all that it has; rare tools at most double the sample.
  What a task required plays no part.
- The fit runs on the driver, for every policy. Its table and verdict are of the sample, in which tasks with rare tools
  are more frequent.
- A [table of days](mining.md#day-by-day) and files of your own are read whole by the driver, without a sample.
- Spans without an id or with text that is no UTF-8, and tasks whose names and scores do not fit, are left out and
  counted. A Parquet file that cannot be read stops the job with its name.
- Spark computes the partition of a worker that dies again, and counts it once; a local session does so only with a
  master such as `local[2,4]`.
- One trace of a million spans lies in one partition: some hundred megabytes in one worker.
"""


def page(found: dict[str, Any], compared: dict[str, Any]) -> str:
    lines = [*costs(found), *one_place(compared)]
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
    samples, apart, whole = made_up["samples"], passes["samples"][0], passes["tasks"]
    alike = "the same" if all(row["pays"] == whole["pays"] for row in samples) else "not the same"
    worse = "**Worse:** w" if apart["less with a rare tool"] > 0.002 else "W"
    return [
        "## Why the fit runs in one place",
        "",
        f"A sample teaches what all tasks teach: {whole['tasks']:,} made-up tasks, learned from in passes over a "
        f"cluster, earn {apart['less']:.4f} more (standard error {apart['standard error']:.4f}) than the usual sample "
        f"of them, and the verdict on the policy is {alike} from every sample below. {worse}here a rare tool is "
        f"listed, they earn {apart['less with a rare tool']:.4f} ({apart['its standard error']:.4f}) more.",
        "",
        f"Of {made_up['held out']:,} other tasks that were decided, {made_up['held out with a rare tool']:,} list one "
        f"of {made_up['rare tools']} rare tools, which less than one task in a thousand lists (`python "
        "benchmarks/one_place.py`):",
        "",
        "| learned from | tasks | for rare tools | payoff | payoff with a rare tool |",
        "| --- | --- | --- | --- | --- |",
        f"| all, in passes | {whole['tasks']:,} | | {whole['payoff']:.4f} | {whole['payoff with a rare tool']:.4f} |",
        *(
            f"| a sample{'' if row['by tool'] else ', not by tool'} | {row['tasks']:,} | {row['for rare tools']:,} | "
            f"{row['payoff']:.4f} | {row['payoff with a rare tool']:.4f} |"
            for row in samples
        ),
        "",
        f"On the {len(rows)} shipped rankings, passes and one place differ in {differ / decisions:.2%} of decisions; "
        f"passes with other folds differ in {noise / decisions:.2%}.",
    ]


def costs(found: dict[str, Any]) -> list[str]:
    """Overhead and growth."""
    over, growth = found["overhead"], found["growth"]
    first = over["rounds"][0]["ours"]
    ratio = over["ratio"]
    largest, same = growth["sizes"][-1], all(row["same tasks"] for row in found["skew"]["rows"])
    a_million = largest["processor seconds"] / largest["spans"] * 1e6
    timings = " and ".join(
        f"{row['seconds']:.0f} seconds with one {row['one']} (the largest of four partitions holds "
        f"{row['largest partition']:.0%})"
        for row in found["skew"]["rows"]
    )
    return [
        "## What it costs",
        "",
        f"Mining takes {a_million:.1f} core seconds a million spans, and grows with the spans to the power "
        f"{growth['exponent']['seconds']:.2f} in seconds and {growth['exponent']['processor seconds']:.2f} in "
        "processor seconds, up to 20 million on two cores. **Worse:** it takes "
        f"{ratio['processor seconds']:.2f} times the processor seconds of bare Spark, and {ratio['seconds']:.2f} times "
        "its seconds; the target was 1.25. Bare Spark is the shuffle of "
        f"{first['spans']:,} spans and an identity `mapInArrow`, the mined tasks sorted and written (medians of "
        f"{len(over['rounds'])} rounds, alternating).",
        "",
        "| spans | tasks with a ranking | seconds | processor seconds | MB shuffled |",
        "| --- | --- | --- | --- | --- |",
        *(
            f"| {row['spans']:,} | {row['tasks']:,} | {row['seconds']:,.0f} | {row['processor seconds']:,.0f} | "
            f"{row['MB shuffled']:,.0f} |"
            for row in growth["sizes"]
        ),
        "",
        "[One machine](mining.md#how-much-at-once) mines as many without Spark in minutes, and [another "
        "page](../../docs/at-scale.md) plans for a hundred billion a day.",
        "",
        f"A million spans of one conversation or of one trace, among a million others, are mined in {timings}; the "
        f"tasks are {'those' if same else 'not those'} of one machine.",
        "",
    ]


if __name__ == "__main__":
    stored = (json.loads((RESULTS / name).read_text(encoding="utf-8")) for name in ("spark.json", "one_place.json"))
    (DOCS / "spark.md").write_text(page(*stored), encoding="utf-8")

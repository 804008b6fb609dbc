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

The largest users keep their traces in tables that Spark reads already. There the same two commands make
[logged tasks](glossary.md#logged-task) of traces and a [policy](glossary.md#policy) of logged tasks, with the same
arguments and one more:

```sh
pip install 'camdf[spark]'
camdf mine traces -o tasks.parquet --engine spark
camdf fit tasks.parquet --cost-pressure 0.12 -o policy.json --engine spark
```

The commands take the session that `spark-submit` gives them, else a local one, and read files that the driver and the
executors both see. Spark writes a folder of Parquet files where one machine writes one file, and every command of
`camdf` reads either. In a notebook, with any table that Spark has (a classic session; Spark Connect is not supported):

```text
from camdf.mining.logged import logged_tasks
from camdf.mining.spark.mining import mine
from camdf.mining.spark.sample import sampled

mined = mine(session.table("traces.spans"))  # mined.tasks is a DataFrame; print(mined) has the counts
sample = sampled(mined.tasks)                # print(sample) says how many tasks it holds, and what it left out
policy = camdf.ExpectedPayoffBySet().fit(logged_tasks(sample.tasks, prices), camdf.Payoff(0.12))
camdf.save(policy, "policy.json")
mined.release()                              # the executors delete the mined rows
```

`camdf` must be installed where the executors' Python runs.

## What runs where

Spark carries rows. Every rule and every formula is the one that runs on one machine:

- Mining. A task never needs a span of another trace, so the spans are shuffled once, by trace, and each partition goes
  as Arrow batches through `camdf.mining.tasks.mine`. The tasks are then sorted as on one machine, and equal its to the
  bit. There is no second version of the rules in SQL that could drift from the first.
- The sample. `camdf fit --engine spark` draws about 20,000 tasks on the cluster, by tool, and brings them to the
  driver. A tool that few tasks list keeps about 100 of them, or all that it has; with very many tools, fewer, so that
  rare tools at most double the sample. What a task required plays no part, so that labels are as frequent in the sample
  as they were. The command says how many tasks there were, how many it took, and what it left out. Up to 20,000 tasks,
  it takes all.
- The fit runs on the driver. It is the fit of one machine, for every policy, and reads what was asked where that helps.
  The table and the verdict that `camdf fit` prints are of the sample, in which tasks with rare tools are more frequent.
- A [table of days](mining.md#day-by-day) and files of your own are read whole by the driver, without a sample.

What goes wrong is counted:

- Spans without an id, spans whose text is no UTF-8, tasks whose names and scores do not fit: left out, and the summary
  says how many. A Parquet file that cannot be read stops the job with its name.
- A worker that dies on a cluster is started again by Spark, and its partition is computed again; a local session does
  that only with a master such as `local[2,4]`. A partition's counts travel with its tasks, so they count once.
- A conversation of a million spans is as many traces as it has runs, which lie wherever they hash to. One trace of a
  million spans lies in one partition, which is a table of some hundred megabytes in one worker.
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
        "An earlier version fitted the default on every task of a cluster, in passes that added up, and needed some "
        "900 lines for it. Nobody needs them: a fit on a sample decides alike. `python benchmarks/one_place.py` "
        "compares the two.",
        "",
        f"On the {len(rows)} shipped rankings, all smaller than a sample, a fit in passes with the folds of one "
        f"machine was the fit of one machine: the largest difference of a coefficient was {same['apart']:.1e}, and of "
        f"{same['decisions']:,} decisions on candidates, at eight payoffs, {same['decisions that differ']} differed. "
        "Only the folds differed in use, for the passes drew them by a hash. That changes "
        f"{differ / decisions:.2%} of decisions, about as many as another draw by a hash changes "
        f"({noise / decisions:.2%}), which is the noise of a fit in passes. In payoff, the mean over rankings changes "
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
        "that, and less than a sample that is not drawn by tool: this is what is left of the passes' worth. The "
        "verdict, whether the policy pays more than tuned simple rules, is "
        f"{'the same' if alike else 'not the same'} for all of them. Drawing the usual sample took "
        f"{usual['drawing']['processor seconds']:.0f} processor seconds and its fit "
        f"{usual['fitting']['processor seconds']:.0f}; the fit in passes took {whole['processor seconds']:.0f}. "
        "`camdf curve` says how many tasks are enough for tasks of your own."
    )


def costs(found: dict[str, Any]) -> list[str]:
    """Overhead and growth."""
    over, growth = found["overhead"], found["growth"]
    first = over["rounds"][0]["ours"]
    ratio = over["ratio"]
    lines = [
        "## What it costs",
        "",
        f"Bare Spark here is the same session doing the same without us, in the same run: the shuffle of "
        f"{first['spans']:,} spans and an identity `mapInArrow`, the mined tasks sorted and written. Mining takes "
        f"{ratio['seconds']:.2f} times its seconds and {ratio['processor seconds']:.2f} times its processor seconds "
        f"(medians of {len(over['rounds'])} rounds, alternating; the target was 1.25). An identity does no work, and "
        "ours mines every span. On a machine that others use, processor seconds are the steadier figure.",
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
        "([how much at once](mining.md#how-much-at-once)), so Spark is for tables that are there already, or larger "
        "than a machine.",
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
        f"Since time grows linearly, a day is arithmetic. The price is an assumption: {PRICE_A_CORE_HOUR:.2f} dollars "
        f"a core hour; the machines are of {CORES_A_MACHINE} cores and 10 Gbit/s, and have {HOURS:.0f} hour.",
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
        "What stands against that arithmetic, and how to go about it, is [another page](at-scale.md).",
        "",
        "The first bottleneck is the processor, not the network: decoding spans, handing them to "
        "Python and mining them "
        "takes longer than moving them. Then comes the disk under the shuffle, which must hold what is moved.",
        "",
        "Most of this can be saved. A fit needs some thousand tasks, so sample whole traces before the shuffle, by a "
        "hash of their name, which cuts everything above by the same factor:",
        "",
        "```text",
        'spans.filter("pmod(xxhash64(trace_id), 1000) < 2")',
        "```",
        "",
        f"Of 100 billion spans a day, that leaves {0.002 * 1e11 * tasks / spans / 1e6:.0f} million tasks, for "
        f"{0.002 * 1e11 * mining / 3600:.1f} core hours beside the reading of the ids. What such a sample does not do "
        "is find rare tools, which the sample of mined tasks keeps: mine every span for those, or tasks that "
        "[explored](at-scale.md#a-sample-that-keeps-what-teaches).",
        "",
    ]
    return lines


def serving() -> list[str]:
    """Why nothing of this serves."""
    return [
        "## Serving needs no engine",
        "",
        "A fitted policy is a JSON file of a few kilobytes, and a decision is a few dozen small "
        "numpy calls on one list "
        "(`python benchmarks/decision.py`). It needs no table, no state of other requests and no "
        "network, so it runs inside "
        "the process that already holds the request, on as many machines as the agents do. A batch of past tasks is "
        "decided by the same function, in a worker or on one machine.",
    ]


if __name__ == "__main__":
    stored = (json.loads((RESULTS / name).read_text(encoding="utf-8")) for name in ("spark.json", "one_place.json"))
    (DOCS / "spark.md").write_text(page(*stored), encoding="utf-8")

"""Writes docs/spark.md from results/spark.json, which benchmarks/spark.py and benchmarks/spark_fit.py measure.

python docs/spark_page.py
"""

from __future__ import annotations

import json
import statistics
import textwrap
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent
RESULTS = DOCS.parent / "results" / "spark.json"

PRICE_A_CORE_HOUR = 0.05
"""An assumption, in dollars: about what a core of a general-purpose cloud machine costs on demand."""

CORES_A_MACHINE = 16
HOURS = 1.0
"""Within how long a day's spans should be mined and learned from."""

NETWORK_GB = 1.25
"""What a machine of that size sends in a second: 10 Gbit/s."""

DAYS = {"1 billion": 1e9, "100 billion": 1e11}
SAMPLED_TASKS = 10_000_000

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
from camdf.mining.spark.fit import fit_on_blocks, pack
from camdf.mining.spark.mining import mine

mined = mine(session.table("traces.spans"))  # mined.tasks is a DataFrame; print(mined) has the counts
blocks = pack(mined.tasks, prices)           # print(blocks) has the counts of tasks packed and left out
policy = fit_on_blocks(camdf.ExpectedPayoffBySet(), blocks, camdf.Payoff(0.12))  # or camdf.CAMDF()
camdf.save(policy, "policy.json")
mined.release()                              # the executors delete the mined rows
```

`camdf` must be installed where the executors' Python runs.

## What runs where

Spark carries rows. Every rule and every formula is the one that runs on one machine:

- Mining. A task never needs a span of another trace, so the spans are shuffled once, by trace, and each partition goes
  as Arrow batches through `camdf.mining.tasks.mine`. The tasks are then sorted as on one machine, and equal its to the
  bit. There is no second version of the rules in SQL that could drift from the first.
- Features. `pack` brings the tasks of a group together and turns them into blocks of the core's own arrays, once. The
  rows of a block (candidates, or the prefix states of CAM-DF) exist inside a worker for as long as its sums are taken,
  some thousand at a time, and never as rows of a table.
- The fit needs one thing of the engine: the sum, over all blocks, of a function's value for each. A worker adds up the
  blocks of a partition; where there are more than 16 partitions, workers add up their sums, so the driver never gets
  more than 16 however many there are.

The default, `expected-payoff-by-set`, is fitted on every task (`camdf.models.warm_passes`). One pass counts tools, by
fold. Then each pass moves all searches of Newton's method one step at once: five folds under every strength; one more
gives the held-out losses by which strength and flipped labels are chosen, and a few the law of set sizes. The formulas
and the choices are the very functions of one machine. Three things differ:

- Folds are drawn by a hash of the group's name, because no place has a list of all names.
- What is learned (coefficients, tools and their histories) is learned from every task. What is chosen (the prior, the
  strength, flips, the law of set sizes) is chosen on all of up to 20,000 tasks; of more, on a sample of about 20,000,
  in whole groups and with at most 1,000 tasks of each, which one pass brings to the driver.
- What was asked is not read. Where the vectors of tasks help, `camdf fit` keeps the policy of the sample below, and
  says so.

CAM-DF is fitted with scikit-learn's `newton-cholesky` in place of liblinear: the intercept is not penalised, and the
scaler is weighted like the loss. `CAMDF().fit` on one machine stays as the paper has it. One pass finds the weighted
mean and variance of each column, and each Newton step is one more.

The table that `camdf fit` prints, and its estimate of wrong labels, are of one-machine fits on a sample of whole groups
(`camdf.mining.spark.fit.SAMPLED` tasks). Other policies need all of their tasks in one place and are fitted on that
sample, and the command says so.

What goes wrong is counted:

- Spans without an id, spans whose text is no UTF-8, tasks whose names and scores do not fit: left out, and the summary
  says how many. A Parquet file that cannot be read stops the job with its name.
- A worker that dies on a cluster is started again by Spark, and its partition is computed again; a local session does
  that only with a master such as `local[2,4]`. A partition's counts travel with its tasks, so they count once.
- A conversation of a million spans is as many traces as it has runs, which lie wherever they hash to. One trace of a
  million spans lies in one partition, which is a table of some hundred megabytes in one worker.
- All tasks of a group lie in one block, so a conversation of a million tasks is a block of some hundred megabytes, and
  one worker's work in every pass. Its rows are made a few thousand at a time.
"""


def page(found: dict[str, Any]) -> str:
    lines = [*agreement(found), *costs(found), *plan(found), *serving()]
    return "\n".join([HEAD, *(line if line.startswith(("|", "`" * 3)) else filled(line) for line in lines)]) + "\n"


def filled(line: str) -> str:
    """Prose in lines as long as those of the other pages."""
    return textwrap.fill(line, 120, break_long_words=False, break_on_hyphens=False)


def agreement(found: dict[str, Any]) -> list[str]:
    """Whether the cluster gives the same numbers."""
    part = found["agreement"]
    return [
        "## The same numbers",
        "",
        f"`python benchmarks/spark_fit.py agreement` fits CAM-DF on Spark on every shipped ranking at two "
        "dispersions of cost, "
        f"{part['rankings']} fits with {part['states']:,} states, and compares with scikit-learn's `newton-cholesky`:",
        "",
        "| | largest difference of a standardised coefficient | decisions that differ |",
        "| --- | --- | --- |",
        f"| Newton passes on Spark | {part['apart']:.1e} | {part['decisions that differ']} |",
        f"| MLlib's logistic regression, tol 1e-10, on {sum('MLlib apart' in row for row in part['rows'])} of them "
        f"| {part['MLlib apart']:.1e} | |",
        "",
        "MLlib got the same penalty (`regParam` = 1 / sum of weights, `standardization=True`) and would need the "
        "states as rows.",
        "",
        *same_default(found["same-default"]),
    ]


def same_default(part: dict[str, Any]) -> list[str]:
    """Whether the default in passes is the default."""
    return [
        "`python benchmarks/spark_fit.py same-default` fits the default in passes, with the folds that one machine "
        f"draws, on all {part['rankings']} shipped rankings, and compares with `ExpectedPayoffBySet().fit`. The "
        f"batches of {part['rankings'] - part['on Spark']} of them lie in one process, for every pass on Spark is a "
        f"job; {part['on Spark']} are fitted on Spark. The largest difference of a coefficient, of a tool's level or "
        f"slope, or of the law of set sizes is {part['apart']:.1e} (asked: 1e-6), and of {part['decisions']:,} "
        f"decisions on candidates, at eight payoffs, {part['decisions that differ']} differ.",
        "",
    ]


def costs(found: dict[str, Any]) -> list[str]:
    """Overhead and growth."""
    over, growth = found["overhead"], found["growth"]
    first = over["rounds"][0]["ours"]
    alone = statistics.median(each["core"]["processor seconds"] for each in over["rounds"])
    lines = [
        "## What it costs",
        "",
        f"Bare Spark here is the same session doing the same without us, in the same run: the shuffle of "
        f"{first['spans']:,} spans and an identity `mapInArrow`, the mined tasks sorted and written, and "
        f"as many passes of an identity `mapInArrow` over the blocks as ours took. Medians of "
        f"{len(over['rounds'])} rounds, "
        "alternating; on a machine that others use, processor seconds are the steadier figure.",
        "",
        "| ours / bare | seconds | processor seconds |",
        "| --- | --- | --- |",
        *(
            f"| {name} | {ratio['seconds']:.2f} | {ratio['processor seconds']:.2f} |"
            for name, ratio in {"end to end": over["ratio"], **over["ratio by part"]}.items()
        ),
        "",
        verdict(over),
        "",
        "| spans | tasks learned from | seconds | processor seconds | mine | pack | fit | MB shuffled |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
        *(
            f"| {row['spans']:,} | {row['tasks']:,} | {row['seconds']:,.0f} | {row['processor seconds']:,.0f} | "
            + " | ".join(f"{row['parts'][name]['processor seconds']:,.0f}" for name in ("mine", "pack", "fit"))
            + f" | {row['MB shuffled']:,.0f} |"
            for row in growth["sizes"]
        ),
        "",
        f"The parts are processor seconds. Seconds grow with the spans to the power "
        f"{growth['exponent']['seconds']:.2f}, "
        f"processor seconds to the power {growth['exponent']['processor seconds']:.2f}. One machine without Spark does "
        f"the work on {first['spans']:,} spans in {alone:.0f} processor seconds, so Spark is for tables that are there "
        "already, or larger than a machine.",
        "",
    ]
    lines += default_costs(found["default"]["sizes"])
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


def default_costs(sizes: list[dict[str, Any]]) -> list[str]:
    """The default beside CAM-DF on the same spans."""
    largest = sizes[-1]
    ratio, seconds, asked = *(largest["ratio"][kind] for kind in ("processor seconds", "seconds")), 20_000_000
    kept = "within" if max(ratio, seconds) <= 2 else "beyond"
    run = "" if largest["spans"] >= asked else " That size was not run."
    passes = [largest[name]["passes"] for name in ("CAM-DF", "default")]
    size = (
        f"The limit that was set is twice CAM-DF's time at 20 million spans.{run} At {largest['spans']:,} spans it is "
        f"{ratio:.2f} times its processor seconds and {seconds:.2f} times its seconds, {kept} the limit; CAM-DF took "
        f"{passes[0]} passes there and the default {passes[1]}. The driver's own work, choosing on its sample on one "
        "core, costs the same however many tasks there are."
    )
    return [
        "These tables were measured before `pack` brought the tasks of a group together, which is one more shuffle, of "
        "tasks and not of spans. The next one has it, and a machine that was shared with much other work: `python "
        "benchmarks/spark.py default` fits the default and CAM-DF on the same blocks in one session.",
        "",
        "| spans | tasks | mine and pack | fit of CAM-DF (passes) | fit of the default (passes) "
        "| end to end, default / CAM-DF | in seconds |",
        "| --- | --- | --- | --- | --- | --- | --- |",
        *(
            f"| {row['spans']:,} | {row['tasks']:,} | {row['mine and pack']['processor seconds']:,.0f} | "
            + " | ".join(
                f"{row[name]['processor seconds']:,.0f} ({row[name]['passes']})" for name in ("CAM-DF", "default")
            )
            + f" | {row['ratio']['processor seconds']:.2f} | {row['ratio']['seconds']:.2f} |"
            for row in sizes
        ),
        "",
        f"The parts are processor seconds. {size}",
        "",
    ]


def verdict(over: dict[str, Any]) -> str:
    """What the limit of 1.25 says, and what stands in its way."""
    ratio, both = over["ratio"]["processor seconds"], over["ratio to bare and core"]
    bare, core = (
        statistics.median(each[name]["processor seconds"] for each in over["rounds"]) for name in ("bare", "core")
    )
    kept = "keeps" if ratio <= 1.25 else "misses"
    return (
        f"That {kept} the limit that was set, 1.25 end to end. An identity does no work, and ours mines every span and "
        "builds 32 features and a Hessian for every state in each pass. By themselves, on one machine, those functions "
        f"take {core:.1f} processor seconds beside bare Spark's {bare:.1f}, which is {core / bare:.0%} more whoever "
        f"carries them. Beside the two together the ratio is {both:.2f}: what is added to the work is its transport."
    )


def plan(found: dict[str, Any]) -> list[str]:
    """Past this machine, from the largest run."""
    largest = found["growth"]["sizes"][-1]
    spans, tasks = largest["spans"], largest["tasks"]
    mining = (largest["parts"]["mine"]["processor seconds"] + largest["parts"]["pack"]["processor seconds"]) / spans
    a_pass = largest["parts"]["fit"]["processor seconds"] / tasks / largest["passes"]
    moved = largest["MB shuffled"] * 1e6 / spans
    lines = [
        "## Past this machine",
        "",
        f"The run of {spans:,} spans took {mining * 1e6:.1f} core seconds a million spans to mine and pack, and "
        f"{a_pass * 1e6:.1f} a million tasks for each of {largest['passes']} passes; {tasks / spans:.1%} of its spans "
        f"became tasks to learn from, and {moved:.0f} bytes a span were shuffled. Since time grows linearly, a day is "
        f"arithmetic. The price is an assumption: {PRICE_A_CORE_HOUR:.2f} dollars a core hour; the machines are of "
        f"{CORES_A_MACHINE} cores and 10 Gbit/s, and have {HOURS:.0f} hour.",
        "",
        "| spans a day | core hours to mine | core hours to fit all tasks | machines | dollars a day | TB shuffled "
        "| seconds of network | tasks |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name, day in DAYS.items():
        mine, fit = day * mining / 3600, day * tasks / spans * a_pass * largest["passes"] / 3600
        machines = max(1, -(-(mine + fit) // (CORES_A_MACHINE * HOURS)))
        terabytes = day * moved / 1e12
        network = terabytes * 1000 / (machines * NETWORK_GB)
        lines.append(
            f"| {name} | {mine:,.1f} | {fit:,.1f} | {machines:,.0f} | {(mine + fit) * PRICE_A_CORE_HOUR:,.2f} | "
            f"{terabytes:,.2f} | {network:,.0f} | {day * tasks / spans / 1e6:,.0f} million |"
        )
    share = SAMPLED_TASKS / (DAYS["100 billion"] * tasks / spans)
    sampled = share * (DAYS["100 billion"] * mining + SAMPLED_TASKS / share * a_pass * largest["passes"]) / 3600
    curve = found["curve"]
    rows = curve["rows"]
    lines += [
        "",
        "What stands against that arithmetic, and how to go about it, is [another page](at-scale.md).",
        "",
        "The first bottleneck is the processor, not the network: decoding spans, handing them to "
        "Python and mining them "
        "takes longer than moving them. Then comes the disk under the shuffle, which must hold what is moved.",
        "",
        "None of this has to be paid. The model has one coefficient for each of "
        f"{curve['columns']} columns and an intercept, and learns all that it can from a sample. "
        "`python benchmarks/spark_fit.py curve` fits it on "
        f"more and more made-up tasks and decides {curve['held out']:,} others, whose best prefixes in hindsight pay "
        f"{curve['oracle']:.4f}:",
        "",
        "| tasks learned from | payoff | decisions unlike the last | largest change of a coefficient to the last |",
        "| --- | --- | --- | --- |",
        *(
            f"| {row['tasks']:,} | {row['payoff']:.4f} | {row['decisions unlike the last']:.2%} | "
            f"{row['coefficients from the last']:.3f} |"
            for row in rows
        ),
        "",
        f"From {rows[-3]['tasks']:,} tasks to {rows[-1]['tasks']:,} the payoff changes by "
        f"{abs(rows[-1]['payoff'] - rows[-3]['payoff']):.5f}. `camdf curve` draws the same for tasks of your own. So "
        "sample whole traces before the shuffle, by a hash of their name, which also cuts everything above by the same "
        "factor:",
        "",
        "```text",
        'spans.filter("pmod(xxhash64(trace_id), 1000) < 2")',
        "```",
        "",
        f"Of 100 billion spans a day, {share:.2%} of the traces leave {SAMPLED_TASKS / 1e6:.0f} million tasks, "
        f"{SAMPLED_TASKS // rows[-1]['tasks']} times the end of the curve, for {sampled:.1f} core hours "
        f"({sampled * PRICE_A_CORE_HOUR:.2f} dollars) beside the reading of the ids. What a sample "
        "does not do is find rare "
        "tools: the statistics of a tool that is called once in a million runs want all of the "
        "spans, but neither lists "
        "nor features, so they need no shuffle of more than a few columns.",
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
    (DOCS / "spark.md").write_text(page(json.loads(RESULTS.read_text(encoding="utf-8"))), encoding="utf-8")

"""Is a sample in one place enough? The default fitted on the driver, compared with a fit on every task in passes.

python benchmarks/one_place.py rankings        on every shipped ranking
python benchmarks/one_place.py tasks           on made-up tasks, as many as 20 million spans give, with rare tools
python benchmarks/one_place.py spans           on the tasks of spans (--millions, --folder)
    --json                                     print JSON
    --store results/one_place.json             and keep it under the name of the part

What two fits in passes differ by is the noise of such a fit: with other folds on the same tasks, or each on one half of
the tasks.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Any
from unittest.mock import patch
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from camdf import ExpectedPayoffBySet, LoggedTasks, Rankings
from camdf.core.rankings import Ints
from camdf.evaluation.assess import Fixed, assess
from camdf.mining.logged import logged_tasks
from camdf.mining.spark import fit, mining
from camdf.mining.spark.sample import A_TOOL, sampled
from camdf.models.membership import FOLDS
from camdf.models.newton import over
from camdf_lab import domains
from spark import METER, PAYOFF, arguments, cluster, report, say, spans_of, store, timed

sys.path.append(str(Path(__file__).parents[1] / "tests"))

from same_fit import PAYOFFS

OTHER_FOLDS = 7
SAMPLES = (1_000, 5_000, 20_000)
HELD_OUT_PERCENT = 5
HELD_OUT = 50_000
TASKS = 1_058_873
"""As many as 20,013,425 spans gave (results/spark.json)."""

TOOLS, LISTED, RARE = 396, 12, 0.001
"""Made-up tasks list 12 of 396 tools; a rare tool is listed by less than this share of them."""


def hashed_folds(salt: int) -> Any:
    """The folds of a fit in passes: by a hash of the group's name, since no place has a list of all names."""

    def folds(logged: LoggedTasks) -> Ints:
        return np.array([crc32(name.encode(), salt) % FOLDS for name in logged.groups.tolist()], dtype=np.int64)

    return folds


def rankings(options: argparse.Namespace) -> dict[str, Any]:
    """Every shipped ranking is smaller than a sample, so that all of its tasks come to one place.

    With the same folds a fit in passes is that in one place (results/spark.json, 'same-default'); what is left to
    compare are the folds, which it draws by a hash.
    """
    rows: list[dict[str, Any]] = []
    for domain in (*domains.DOMAINS, *domains.SECOND_LOOK):
        for scorer in domain.scorers:
            logged = domains.load(domain.name, scorer, dispersion=1.0)
            one_place = ExpectedPayoffBySet().fit(logged, PAYOFF)
            passes, others = (fitted_with(hashed_folds(salt), logged) for salt in (0, OTHER_FOLDS))
            rows.append(
                {
                    "domain": domain.name,
                    "scorer": scorer,
                    "tasks": len(logged),
                    "decisions": int(logged.rankings.listed.sum()) * len(PAYOFFS),
                    "payoff": payoff_of(one_place, logged),
                    "in passes": payoff_of(passes, logged),
                    "in passes, other folds": payoff_of(others, logged),
                    "decisions that differ": differing(one_place, passes, logged),
                    "with other folds": differing(others, passes, logged),
                }
            )
            say(rows[-1])
            if options.store:
                store(options.store, "rankings", {"rows": rows})
    return {"rows": rows}


def fitted_with(folds: Any, logged: LoggedTasks) -> ExpectedPayoffBySet:
    with patch("camdf.models.warm_start.group_folds", folds):
        return ExpectedPayoffBySet().fit(logged, PAYOFF)


def payoff_of(policy: ExpectedPayoffBySet, logged: LoggedTasks) -> float:
    """The mean over the payoffs."""
    return float(
        np.mean([payoff.of(logged, policy.decide(logged.rankings, payoff).acquired).mean() for payoff in PAYOFFS])
    )


def differing(one: ExpectedPayoffBySet, other: ExpectedPayoffBySet, logged: LoggedTasks) -> int:
    """How many candidates the two decide otherwise, at all payoffs."""
    pairs = ([policy.decide(logged.rankings, payoff).acquired for policy in (one, other)] for payoff in PAYOFFS)
    return sum(int((first != second).sum()) for first, second in pairs)


def made_up(rng: np.random.Generator, count: int, offsets: Any) -> LoggedTasks:
    """Tasks whose scores say something of what they need, and whose tools differ: in need, and in how many list them.

    A list has one tool of each of 12 kinds; the r-th tool of a kind is listed in proportion to r^-3.
    """
    share = np.arange(1, TOOLS // LISTED + 1) ** -3.0
    within = np.searchsorted(np.cumsum(share / share.sum())[:-1], rng.random((count, LISTED)))
    ids = rng.permuted(within * LISTED + np.arange(LISTED), axis=1)
    scores = np.sort(rng.random((count, LISTED)) ** rng.uniform(0.5, 3.0, (count, 1)), axis=1)[:, ::-1]
    required = rng.random((count, LISTED)) < 1.0 / (1.0 + np.exp(9.0 - 12.0 * scores - offsets[ids]))
    missing = (rng.random(count) < 0.1).astype(np.int64)
    names, groups = np.arange(count).astype(str), (np.arange(count) // 3).astype(str)
    catalogue = tuple(f"tool-{tool:03}" for tool in range(TOOLS))
    rankings = Rankings(scores, np.ones((count, LISTED)), np.full(count, LISTED), ids, catalogue)
    return LoggedTasks(rankings, required, required.sum(axis=1) + missing, names, groups)


def as_mined(logged: LoggedTasks) -> pa.Table:
    """The columns of mined tasks."""
    names = pa.array([*logged.rankings.catalogue, *(f"missing-{i}" for i in range(10))])
    ids = logged.rankings.tool_ids

    def lists(lengths: Any, values: pa.Array) -> pa.Array:
        return pa.ListArray.from_arrays(pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32()), values)

    called = np.concatenate([np.where(logged.required, ids, -1), np.full((len(ids), 1), -1)], axis=1)
    called[logged.missing > 0, -1] = TOOLS
    return pa.table(
        {
            "task_id": logged.task_ids,
            "group": logged.groups,
            "ranked": lists(logged.rankings.lengths, names.take(pa.array(ids.ravel()))),
            "scores": lists(logged.rankings.lengths, pa.array(logged.rankings.scores.ravel())),
            "called": lists((called >= 0).sum(axis=1), names.take(pa.array(called[called >= 0]))),
        }
    )


def tasks(options: argparse.Namespace) -> dict[str, Any]:
    """Made-up tasks: a fit on all in passes, on each half of them, and on samples that Spark draws."""
    rng = np.random.default_rng(21)
    offsets = rng.normal(scale=1.5, size=TOOLS)
    others, every = made_up(rng, HELD_OUT, offsets), made_up(rng, options.tasks, offsets)
    often = np.bincount(every.rankings.tool_ids.ravel(), minlength=TOOLS)
    rare = (often < RARE * len(every))[others.rankings.tool_ids].any(axis=1)
    say(f"{(often < RARE * len(every)).sum()} rare tools, listed by {rare.mean():.1%} of tasks; rarest {often.min()}")

    def in_passes(rows: slice) -> dict[str, Any]:
        some = every.take(rows)
        batches = [some.take(slice(start, start + 4096)) for start in range(0, len(some), 4096)]
        took, policy = timed(lambda: ExpectedPayoffBySet().fit_in_passes(over(batches), PAYOFF))
        found = {"tasks": len(some), **took, **decided(policy, others)}
        say("in passes", took, found["verdict"])
        return found

    known: dict[str, Any] = {
        "tasks": len(every),
        "held out": len(others),
        "rare tools": int((often < RARE * len(every)).sum()),
        "tasks of the rarest": int(often.min()),
        "held out that list a rare tool": int(rare.sum()),
    }
    whole = in_passes(slice(None))
    known |= {"in passes": {**compared(whole, whole), "rare": few(compared(whole, whole, rare))}, "samples": []}
    say(known)
    with tempfile.TemporaryDirectory(prefix="camdf-spark-") as scratch:
        pq.write_table(as_mined(every), f"{scratch}/tasks.parquet", row_group_size=50_000)
        table = cluster().read.parquet(f"{scratch}/tasks.parquet")
        for at_most, by_tool in ((20_000, True), (5_000, True), (5_000, False), (1_000, True)):
            drawing, sample = timed(lambda a=at_most, b=by_tool: sampled(table, at_most=a, a_tool=A_TOOL if b else 0))
            logged = logged_tasks(sample.tasks)
            fitting, policy = timed(lambda some=logged: ExpectedPayoffBySet().fit(some, PAYOFF))
            about = {
                "at most": at_most,
                "by tool": by_tool,
                "tasks": len(logged),
                "of them for rare tools": sample.for_rare_tools,
            }
            found = {**about, "drawing": drawing, "fitting": fitting, **decided(policy, others)}
            known["samples"].append({**compared(found, whole), "rare": few(compared(found, whole, rare))})
            say(str(sample), known["samples"][-1])
            if options.store:
                store(options.store, "tasks", known)
    return known


def few(row: dict[str, Any]) -> dict[str, Any]:
    return {name: row[name] for name in ("payoff", "more", "standard error")}


def decided(policy: ExpectedPayoffBySet, others: LoggedTasks) -> dict[str, Any]:
    acquired = policy.decide(others.rankings, PAYOFF).acquired
    assessment = assess(lambda: Fixed(policy), others.take(slice(0, 10_000)), PAYOFF, splits=2, seed=0)
    return {
        "acquired": acquired,
        "payoffs": PAYOFF.of(others, acquired),
        "verdict": assessment.verdict,
        "pays": assessment.pays,
    }


def spans(options: argparse.Namespace) -> dict[str, Any]:
    """Spans mined on Spark; then a fit on all tasks in passes, on each half of them, and on samples on the driver."""
    session = cluster()
    with tempfile.TemporaryDirectory(prefix="camdf-spark-") as scratch:
        output = f"{scratch}/tasks.parquet"
        files = spans_of(options.folder, options.millions, Path(scratch))
        mined = mining.mine(session.read.parquet(*files))
        took, _ = timed(lambda: mined.tasks.write.parquet(output))
        say(mined, took)
        mined.release()
        tasks = session.read.parquet(output).filter("size(ranked) > 0")
        part = "pmod(xxhash64(task_id, 99), 100)"
        taught = tasks.filter(f"{part} >= {HELD_OUT_PERCENT}")
        others = logged_tasks(sampled(tasks.filter(f"{part} < {HELD_OUT_PERCENT}"), at_most=10**9).tasks)
        say("held out", len(others))

        def in_passes(rows: Any) -> dict[str, Any]:
            blocks = fit.pack(rows)
            took, policy = timed(lambda: fit.fit_on_blocks(ExpectedPayoffBySet(), blocks, PAYOFF))
            blocks.rows.unpersist()
            found = {"tasks": len(blocks), **took, **decided(policy, others)}
            say({name: found[name] for name in ("tasks", "seconds", "processor seconds", "verdict")})
            return found

        def in_one_place(at_most: int, seed: int) -> dict[str, Any]:
            drawing, sample = timed(lambda: sampled(taught, at_most=at_most, seed=seed))
            logged = logged_tasks(sample.tasks)
            fitting, policy = timed(lambda: ExpectedPayoffBySet().fit(logged, PAYOFF))
            found = {"tasks": len(logged), "drawing": drawing, "fitting": fitting, **decided(policy, others)}
            say(str(sample), drawing, fitting, found["verdict"])
            return found

        whole = in_passes(taught)
        halves = [in_passes(taught.filter(f"pmod(xxhash64(task_id, 5), 2) = {half}")) for half in (0, 1)]
        samples = []
        for at_most in SAMPLES:
            for seed in (0, 1):
                found = in_one_place(at_most, seed)
                samples.append({"at most": at_most, "seed": seed, **compared(found, whole)})
                say(samples[-1])
    return {
        "spans": mined.spans,
        "held out": len(others),
        "in passes": compared(whole, whole),
        "halves in passes": compared(*halves),
        "samples": samples,
    }


def compared(one: dict[str, Any], other: dict[str, Any], where: Any = slice(None)) -> dict[str, Any]:
    """What a fit says of tasks that nobody learned from, and how it compares with another."""
    more = (one["payoffs"] - other["payoffs"])[where]
    return {
        **{name: value for name, value in one.items() if name not in ("acquired", "payoffs")},
        "payoff": round(float(one["payoffs"][where].mean()), 5),
        "more": round(float(more.mean()), 5),
        "standard error": round(float(more.std() / np.sqrt(len(more))), 5),
        "lists that differ": round(float((one["acquired"] != other["acquired"]).any(axis=1).mean()), 5),
    }


PARTS = {"rankings": rankings, "tasks": tasks, "spans": spans}


def main() -> int:
    parser = arguments(__doc__, PARTS)
    parser.add_argument("--tasks", type=int, default=TASKS, help=f"tasks: how many (default: {TASKS:,})")
    parser.add_argument("--millions", type=float, default=20.0, help="spans: million spans (default: 20)")
    parser.add_argument("--folder", type=Path, help="spans: where the spans are, or go")
    options = parser.parse_args()
    METER.start()
    return report(options, PARTS[options.part](options), [])


if __name__ == "__main__":
    sys.exit(main())

"""Is a sample in one place enough? The default fitted on the driver, compared with a fit on every task of a cluster.

python benchmarks/one_place.py rankings --store results/one_place.json    on every shipped ranking, some minutes
python benchmarks/one_place.py tasks --store results/one_place.json       on made-up tasks, as many as 20 million spans
                                                                          give, with rare tools; needs camdf[spark]
python benchmarks/one_place.py --check results/one_place.json             the smallest rankings again

The fit on every task ran in passes over the cluster, which are gone. What they gave is stored under 'passes', by this
file as it was before (`git log benchmarks/one_place.py`). With the same folds they gave the numbers of one machine, so
that of the shipped rankings, which are smaller than a sample, only the folds are left to compare: the passes drew them
by a hash of the group's name. What two such draws differ by is the noise of such a fit.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from spark import METER, PAYOFF, cluster, say, store, timed

from camdf import ExpectedPayoffBySet, LoggedTasks, Payoff, Rankings
from camdf.core.rankings import Floats, Ints
from camdf.evaluation.assess import assess
from camdf.evaluation.replay import Fixed
from camdf.policies.models.membership import FOLDS
from camdf_lab import domains
from camdf_traces.logged import logged_tasks
from camdf_traces.spark.sample import A_TOOL, sampled

PAYOFFS = tuple(Payoff(pressure, value) for value in ("exact", "partial") for pressure in (0.02, 0.05, 0.12, 0.3))
OTHER_FOLDS = 7
CHECKED = "airline"
"""The smallest domain."""

TASKS = 1_058_873
"""As many as 20,013,425 spans gave (results/spark.json)."""

HELD_OUT = 50_000
"""Tasks that nobody learned from."""

JUDGED = 10_000
"""How many of them the verdict is of."""

TOOLS = 396
LISTED = 12
"""How many of the tools a made-up task lists."""

RARE = 0.001
"""A rare tool is listed by less than this share of the tasks."""

SAMPLES = ((20_000, A_TOOL), (5_000, A_TOOL), (5_000, 0), (1_000, A_TOOL))
"""About how many tasks, and about how many for each tool at least; 0 is a sample that is not drawn by tool."""


def rankings(wanted: Callable[[str], bool] = bool) -> list[dict[str, Any]]:
    """Every shipped ranking: the fit of one machine, with the folds of the passes, and with others drawn alike."""
    rows: list[dict[str, Any]] = []
    for domain in (*domains.DOMAINS, *domains.LATER_DOMAINS):
        for scorer in domain.scorers if wanted(domain.name) else ():
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
    return rows


def hashed_folds(salt: int) -> Callable[[LoggedTasks], Ints]:
    """A fold for every task by a hash of its group's name, which takes no list of all names."""

    def folds(logged: LoggedTasks) -> Ints:
        return np.array([crc32(name.encode(), salt) % FOLDS for name in logged.groups.tolist()], dtype=np.int64)

    return folds


def fitted_with(folds: Callable[[LoggedTasks], Ints], logged: LoggedTasks) -> ExpectedPayoffBySet:
    with patch("camdf.policies.models.warm_start.group_folds", folds):
        return ExpectedPayoffBySet().fit(logged, PAYOFF)


def payoff_of(policy: ExpectedPayoffBySet, logged: LoggedTasks) -> float:
    """The mean over tasks and payoffs."""
    by_payoff = [payoff.of(logged, policy.decide(logged.rankings, payoff).acquired).mean() for payoff in PAYOFFS]
    return round(float(np.mean(by_payoff)), 5)


def differing(one: ExpectedPayoffBySet, other: ExpectedPayoffBySet, logged: LoggedTasks) -> int:
    """How many candidates the two decide otherwise, at all payoffs."""
    pairs = ([policy.decide(logged.rankings, payoff).acquired for policy in (one, other)] for payoff in PAYOFFS)
    return sum(int((first != second).sum()) for first, second in pairs)


def tasks() -> dict[str, Any]:
    """Samples that Spark draws of made-up tasks: the payoff on others, and on those that list a rare tool."""
    rng = np.random.default_rng(21)
    offsets = rng.normal(scale=1.5, size=TOOLS)
    others = made_up(rng, HELD_OUT, offsets)
    every = made_up(rng, TASKS, offsets)
    times_listed = np.bincount(every.rankings.tool_ids.ravel(), minlength=TOOLS)
    is_rare = times_listed < RARE * len(every)
    lists_rare = is_rare[others.rankings.tool_ids].any(axis=1)
    samples = []
    with tempfile.TemporaryDirectory(prefix="camdf-spark-") as scratch:
        pq.write_table(as_mined(every), f"{scratch}/tasks.parquet", row_group_size=50_000)
        table = cluster().read.parquet(f"{scratch}/tasks.parquet")
        for at_most, a_tool in SAMPLES:
            drawing, sample = timed(partial(sampled, table, at_most, a_tool))
            logged = logged_tasks(sample.tasks)
            fitting, policy = timed(partial(ExpectedPayoffBySet().fit, logged, PAYOFF))
            acquired = policy.decide(others.rankings, PAYOFF).acquired
            payoffs = PAYOFF.of(others, acquired)
            judged = assess(partial(Fixed, policy), others.take(slice(0, JUDGED)), PAYOFF, splits=2)
            samples.append(
                {
                    "at most": at_most,
                    "by tool": a_tool > 0,
                    "tasks": len(logged),
                    "for rare tools": sample.for_rare_tools,
                    "drawing": drawing,
                    "fitting": fitting,
                    "payoff": round(float(payoffs.mean()), 5),
                    "payoff with a rare tool": round(float(payoffs[lists_rare].mean()), 5),
                    "pays": judged.pays,
                    "verdict": judged.verdict,
                }
            )
            say(str(sample), samples[-1])
    return {
        "tasks": len(every),
        "held out": len(others),
        "rare tools": int(is_rare.sum()),
        "tasks of the rarest": int(times_listed.min()),
        "held out with a rare tool": int(lists_rare.sum()),
        "samples": samples,
    }


def made_up(rng: np.random.Generator, count: int, offsets: Floats) -> LoggedTasks:
    """Tasks whose scores say something of what they need, and whose tools differ: in need, and in how many list them.

    A list has one tool of each of 12 kinds; the r-th tool of a kind is listed in proportion to r^-3.
    """
    share = np.arange(1, TOOLS // LISTED + 1) ** -3.0
    within = np.searchsorted(np.cumsum(share / share.sum())[:-1], rng.random((count, LISTED)))
    ids = rng.permuted(within * LISTED + np.arange(LISTED), axis=1)
    scores = np.sort(rng.random((count, LISTED)) ** rng.uniform(0.5, 3.0, (count, 1)), axis=1)[:, ::-1]
    required = rng.random((count, LISTED)) < 1.0 / (1.0 + np.exp(9.0 - 12.0 * scores - offsets[ids]))
    missing = (rng.random(count) < 0.1).astype(np.int64)
    names = np.arange(count).astype(str)
    groups = (np.arange(count) // 3).astype(str)
    catalogue = tuple(f"tool-{tool:03}" for tool in range(TOOLS))
    rankings = Rankings(scores, np.ones((count, LISTED)), np.full(count, LISTED), ids, catalogue)
    return LoggedTasks(rankings, required, required.sum(axis=1) + missing, names, groups)


def as_mined(logged: LoggedTasks) -> pa.Table:
    """The columns of mined tasks."""
    names = pa.array([*logged.rankings.catalogue, "missing"])
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


def check(path: Path) -> None:
    """Exit where the smallest rankings are not decided as stored."""
    stored = [row for row in json.loads(path.read_text())["rankings"]["rows"] if row["domain"] == CHECKED]
    if (now := rankings(CHECKED.__eq__)) != stored:
        sys.exit(f"one place: {now}, stored {stored}")
    print(f"one place: {len(now)} rankings are decided as stored")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("part", nargs="?", choices=("rankings", "tasks"), default="rankings")
    parser.add_argument("--store", type=Path, help="a JSON file that keeps both parts")
    parser.add_argument("--check", type=Path, help="a stored file to compare the smallest rankings with")
    options = parser.parse_args()
    if options.check:
        check(options.check)
        return
    METER.start()
    found = tasks() if options.part == "tasks" else {"rows": rankings()}
    if options.store:
        store(options.store, options.part, found)


if __name__ == "__main__":
    main()

"""What is learned on Spark: the same as elsewhere, and no more from more than a sample.

python benchmarks/spark_fit.py agreement    CAM-DF on every shipped ranking, against scikit-learn; some against MLlib
python benchmarks/spark_fit.py same-default the default in passes on every shipped ranking, against one machine
python benchmarks/spark_fit.py curve        payoff and coefficients by the number of tasks learned from
python benchmarks/spark_fit.py one-place    the default on a sample in one place, against all tasks in passes
    --check                                 exit 1 where a limit is missed
    --json                                  print JSON
    --store results/spark.json              and keep it under the name of the part
"""

from __future__ import annotations

import argparse
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from camdf import CAMDF, ExpectedPayoffBySet, LoggedTasks, Rankings
from camdf.mining.spark.fit import TASKS_A_BLOCK, blocks_of, fit_on_blocks
from camdf.models.linear import LinearModel, fold
from camdf.models.newton import over
from camdf_lab import domains
from spark import PAYOFF, arguments, cluster, report, say

sys.path.append(str(Path(__file__).parents[1] / "tests"))

from newton_cholesky import constant_columns, newton_cholesky, standardised_apart, weighted_scaler
from same_fit import PAYOFFS, apart_by_name, differing_sets, folds_as_here, in_batches, shared_tools

MOST_APART = {"agreement": 1e-8, "same-default": 1e-6, "curve": 0.0, "one-place": 0.0}
ON_SPARK = (("retail", "minilm"), ("airline", "claude"), ("mcp-atlas", "claude"))
HELD_OUT = 50_000
SIZES = (100, 300, 1000, 3000, 10_000, 30_000, 100_000, 300_000)
SAMPLES = (1000, 3000, 10_000, 20_000, 200_000)
"""Of `one-place`: all but the last are fitted in one place, and the last in passes."""

TO_MLLIB = (("retail", "claude", 1.5), ("telecom", "claude", 1.5))
"""The rankings that MLlib learns too: every step of it is several jobs, so few are enough."""


def agreement(options: argparse.Namespace) -> dict[str, Any]:
    """Each shipped ranking at two dispersions of cost: Spark's coefficients and decisions against scikit-learn's."""
    session = cluster()
    rows: list[dict[str, Any]] = []
    for domain in domains.DOMAINS:
        for scorer in domain.scorers:
            for dispersion in (0.0, 1.5):
                logged = domains.load(domain.name, scorer, dispersion=dispersion)
                tools = tuple(sorted(logged.rankings.catalogue)) if logged.rankings.shares_catalogue else ()
                blocks = blocks_of(session, logged)
                policy = fit_on_blocks(CAMDF(), blocks, PAYOFF)
                blocks.rows.unpersist()
                matrix, labels, weights = CAMDF().state_rows(logged, PAYOFF, tools)
                other = newton_cholesky(matrix, labels, weights, CAMDF().columns, tools)
                scaler = weighted_scaler(matrix, weights)
                rows.append(
                    {
                        "domain": domain.name,
                        "scorer": scorer,
                        "dispersion": dispersion,
                        "states": len(labels),
                        "apart": standardised_apart(policy.model_, other, scaler.mean_, scaler.scale_),
                        "decisions that differ": differing(policy, other, logged),
                    }
                )
                if (domain.name, scorer, dispersion) in TO_MLLIB:
                    theirs = by_mllib(session, matrix, labels, weights, tools)
                    rows[-1]["MLlib apart"] = standardised_apart(theirs, other, scaler.mean_, scaler.scale_)
                say(rows[-1])
    return {
        "rankings": len(rows),
        "states": sum(row["states"] for row in rows),
        "apart": max(row["apart"] for row in rows),
        "decisions that differ": sum(row["decisions that differ"] for row in rows),
        "MLlib apart": max(row.get("MLlib apart", 0.0) for row in rows),
        "rows": rows,
    }


def same_default(options: argparse.Namespace) -> dict[str, Any]:
    """Each shipped ranking: the default fitted in passes, with one machine's folds, against its fit on one machine.

    Every pass on Spark is a job, so the batches of most rankings lie in this process; `ON_SPARK` are fitted there.
    """
    rows: list[dict[str, Any]] = []
    for domain in (*domains.DOMAINS, *domains.SECOND_LOOK):
        for scorer in domain.scorers:
            logged = domains.load(domain.name, scorer, dispersion=1.0)
            on_spark = (domain.name, scorer) in ON_SPARK
            here = ExpectedPayoffBySet().fit(logged, PAYOFF)
            total = blocks_of(cluster(), logged, 3).total if on_spark else over(in_batches(logged, 3))
            tools, folds = shared_tools(logged), folds_as_here(logged)
            there = ExpectedPayoffBySet().fit_in_passes(total, PAYOFF, tools, folds)
            rows.append(
                {
                    "domain": domain.name,
                    "scorer": scorer,
                    "tasks": len(logged),
                    "on Spark": on_spark,
                    "flips": here.model_.flips,
                    "apart": apart_by_name(here.model_, there.model_),
                    "decisions": int(logged.rankings.listed.sum()) * len(PAYOFFS),
                    "decisions that differ": differing_sets(here, there, logged.rankings),
                }
            )
            say(rows[-1])
    return {
        "rankings": len(rows),
        "on Spark": sum(row["on Spark"] for row in rows),
        "decisions": sum(row["decisions"] for row in rows),
        "apart": max(row["apart"] for row in rows),
        "decisions that differ": sum(row["decisions that differ"] for row in rows),
        "rows": rows,
    }


def by_mllib(session: Any, matrix: Any, labels: Any, weights: Any, tools: tuple[str, ...]) -> LinearModel:
    """MLlib's weighted logistic regression, same penalty; it takes rounding for variance, so constants are 0."""
    matrix = np.where(constant_columns(matrix), 0.0, matrix)
    dense = import_module("pyspark.ml.linalg").Vectors.dense
    rows = [(float(y), float(w), dense(x)) for x, y, w in zip(matrix.tolist(), labels, weights, strict=True)]
    learner = import_module("pyspark.ml.classification").LogisticRegression(
        regParam=1.0 / float(weights.sum()), standardization=True, weightCol="weight", tol=1e-10, maxIter=500
    )
    fitted = learner.fit(session.createDataFrame(rows, ["label", "weight", "features"]))
    found, columns = fitted.coefficients.toArray(), CAMDF().columns
    return fold(found, fitted.intercept, np.zeros(len(found)), np.ones(len(found)), columns, tools)


def differing(policy: CAMDF, other: LinearModel, logged: LoggedTasks) -> int:
    stops = [
        policy.stops(model.evidence(logged.rankings, PAYOFF), policy.cutoff_)[logged.rankings.listed]
        for model in (policy.model_, other)
    ]
    return int((stops[0] != stops[1]).sum())


def world(rng: np.random.Generator, tasks: int, tools: int = 12) -> LoggedTasks:
    """Tasks whose scores say something of what they need, and whose prices differ by tool."""
    scores = np.sort(rng.random((tasks, tools)) ** rng.uniform(0.5, 3.0, (tasks, 1)), axis=1)[:, ::-1]
    ids = rng.permuted(np.tile(np.arange(100), (tasks, 1)), axis=1)[:, :tools]
    costs = np.linspace(0.2, 1.8, 100)[ids]
    required = rng.random((tasks, tools)) < 1.0 / (1.0 + np.exp(9.0 - 12.0 * scores))
    missing = (rng.random(tasks) < 0.1).astype(np.int64)
    names = np.arange(tasks).astype(str)
    rankings = Rankings(scores, costs, np.full(tasks, tools), ids, tuple(f"tool-{tool}" for tool in range(100)))
    return LoggedTasks(rankings, required, required.sum(axis=1) + missing, names, names)


def curve(options: argparse.Namespace) -> dict[str, Any]:
    """CAM-DF by Newton on more and more tasks: the payoff on others, and how far the coefficients still move."""
    rng, payoff = np.random.default_rng(11), PAYOFF
    sizes = sorted(options.tasks or SIZES)
    held_out, every = world(rng, HELD_OUT), world(rng, sizes[-1])
    models: dict[int, CAMDF] = {}
    for tasks in sizes:
        models[tasks] = CAMDF().fit_in_passes(over([every.take(slice(0, tasks))]), payoff)
        say(tasks)
    last = models[sizes[-1]]
    matrix, _, _ = last.state_rows(held_out.take(slice(0, 5000)), payoff, ())
    scale, mean = matrix.std(axis=0), matrix.mean(axis=0)
    decided = {tasks: policy.decide(held_out.rankings, payoff).acquired for tasks, policy in models.items()}
    final = decided[sizes[-1]]
    best = payoff.by_depth(held_out).max(axis=1).mean()
    rows = [
        {
            "tasks": tasks,
            "payoff": round(float(payoff.of(held_out, decided[tasks]).mean()), 5),
            "decisions unlike the last": round(float((decided[tasks] != final).any(axis=1).mean()), 5),
            "coefficients from the last": round(standardised_apart(policy.model_, last.model_, mean, scale), 5),
        }
        for tasks, policy in models.items()
    ]
    return {"columns": len(last.columns), "held out": HELD_OUT, "oracle": round(float(best), 5), "rows": rows}


def one_place(options: argparse.Namespace) -> dict[str, Any]:
    """The default on samples of tasks in one place and on all in passes: the payoff on others, and where lists differ.

    What two fits in passes differ by, each on one half of the tasks, is the noise of such a fit.
    """
    rng = np.random.default_rng(12)
    *samples, most = sorted(options.tasks or SAMPLES)
    others, every = world(rng, HELD_OUT), world(rng, most)

    def decided(policy: ExpectedPayoffBySet) -> tuple[Any, Any]:
        acquired = policy.decide(others.rankings, PAYOFF).acquired
        return acquired, PAYOFF.of(others, acquired)

    def in_passes(rows: slice) -> tuple[Any, Any]:
        some = every.take(rows)
        batches = [some.take(slice(start, start + TASKS_A_BLOCK)) for start in range(0, len(some), TASKS_A_BLOCK)]
        return decided(ExpectedPayoffBySet().fit_in_passes(over(batches), PAYOFF))

    def apart(one: tuple[Any, Any], other: tuple[Any, Any]) -> dict[str, float]:
        more = other[1] - one[1]
        return {
            "payoff": round(float(one[1].mean()), 5),
            "more in passes": round(float(more.mean()), 5),
            "standard error": round(float(more.std() / np.sqrt(len(more))), 5),
            "lists that differ": round(float((one[0] != other[0]).any(axis=1).mean()), 5),
        }

    whole = in_passes(slice(0, most))
    say("all in passes")
    rows = []
    for tasks in samples:
        rows.append(
            {"tasks": tasks, **apart(decided(ExpectedPayoffBySet().fit(every.take(slice(0, tasks)), PAYOFF)), whole)}
        )
        say(rows[-1])
    halves = apart(in_passes(slice(0, most // 2)), in_passes(slice(most // 2, most)))
    payoff = round(float(whole[1].mean()), 5)
    return {"tasks": most, "held out": HELD_OUT, "payoff": payoff, "rows": rows, "halves in passes": halves}


PARTS = {"agreement": agreement, "same-default": same_default, "curve": curve, "one-place": one_place}


def main() -> int:
    parser = arguments(__doc__, PARTS)
    parser.add_argument("--tasks", type=int, nargs="+", help="curve, one-place: how many tasks")
    options = parser.parse_args()
    found = PARTS[options.part](options)
    far, most = found.get("apart", 0.0), MOST_APART[options.part]
    return report(options, found, [f"largest coefficient error: {far}, at most {most}"] if far > most else [])


if __name__ == "__main__":
    sys.exit(main())

"""How long a fit takes beside one `LogisticRegressionCV` of scikit-learn on the same rows, in processor time.

python benchmarks/fitting.py            1,426 made-up tasks over 60 tools, with texts: 85,560 rows
python benchmarks/fitting.py --check    exit 1 where the ratio is above its limit, slack included
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # one thread each, said before numpy loads

import argparse
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from decision import SLACK
from sklearn.linear_model import LogisticRegressionCV

import camdf
from camdf.core.rankings import LoggedTasks, Rankings
from camdf.core.vectors import at_length_one
from camdf.policies.models.design import Design
from camdf.policies.models.prior import shipped_prior

LIMIT = 5.0
TASKS = 1_426
TOOLS = 60
DIMENSIONS = 256


def logged_tasks(seed: int = 0) -> LoggedTasks:
    """One or two of 60 tools a task, scores that see them dimly, and texts that point at them."""
    rng = np.random.default_rng(seed)
    required = np.zeros((TASKS, TOOLS), dtype=bool)
    for row in required:
        row[rng.choice(TOOLS, rng.integers(1, 3), replace=False)] = True
    scores = 1 / (1 + np.exp(2.0 - 3.0 * required - rng.normal(0, 1.2, required.shape)))
    texts = required @ rng.normal(size=(TOOLS, DIMENSIONS)) + rng.normal(0, 2.0, (TASKS, DIMENSIONS))
    names = [f"tool_{number}" for number in range(TOOLS)]
    rankings = Rankings.from_scores([dict(zip(names, row.tolist(), strict=True)) for row in scores])
    listed = np.take_along_axis(required, rankings.places({name: i for i, name in enumerate(names)}), axis=1)
    return LoggedTasks(
        rankings=replace(rankings, vectors=at_length_one(texts)),
        required=listed,
        n_required=listed.sum(axis=1),
        task_ids=np.arange(TASKS).astype(np.str_),
        groups=(np.arange(TASKS) // 2).astype(np.str_),
    )


def seconds_of(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore", FutureWarning)  # of scikit-learn, about its next defaults
    logged = logged_tasks()
    rows = Design.of(logged, shipped_prior("probability"), shared=True, texts=True).rows
    theirs = seconds_of(lambda: LogisticRegressionCV(max_iter=1_000).fit(rows.columns[:, 1:], rows.labels))
    ours = seconds_of(lambda: camdf.ExpectedPayoffBySet().fit(logged, camdf.Payoff(0.05)))
    print(f"{len(rows.labels):,} rows: a fit {ours:.1f} s, scikit-learn {theirs:.1f} s, {ours / theirs:.1f} times")
    return int(options.check and ours / theirs > LIMIT * SLACK)


if __name__ == "__main__":
    sys.exit(main())

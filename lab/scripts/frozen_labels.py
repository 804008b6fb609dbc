"""The default beside the one of commit 5ea6493, at every number of labels: `python scripts/frozen_labels.py CHECKOUT`.

CHECKOUT is that commit (`git worktree add CHECKOUT 5ea6493`). Its code fits and decides in a process of its own, on the
rankings and splits of `camdf-lab past labels`; the default of this version is measured beside it, and the margins are
written to results/frozen/labels.csv. `camdf-lab past page` shows them.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

REPLAY = "--replay"
RANKINGS = ("scores", "costs", "lengths", "tool_ids", "catalogue")
"""What a ranking was at that commit."""


def replay_here() -> None:
    """What the code of this process pays on the tasks that come as a pickle, task by task: it runs in CHECKOUT."""
    from camdf import ExpectedPayoffBySet, LoggedTasks, Payoff, Rankings

    given = pickle.load(sys.stdin.buffer)
    priced = {
        dispersion: LoggedTasks(Rankings(**fields.pop("rankings")), **fields)
        for dispersion, fields in given["priced"].items()
    }
    found = []
    for splits in given["steps"]:
        fitted = [ExpectedPayoffBySet().fit(priced[0.0].take(train), Payoff(0.1)) for train, _ in splits]
        here = []
        for value, pressure, dispersion in given["regimes"]:
            payoff = Payoff(pressure, value)
            logged = priced[dispersion]
            total = 0.0 * logged.n_required
            tested = 0 * logged.n_required
            for policy, (_, rows) in zip(fitted, splits, strict=True):
                test = logged.take(rows)
                total[rows] += payoff.of(test, policy.decide(test.rankings, payoff).acquired)
                tested[rows] += 1
            here.append((total, tested))
        found.append(here)
    pickle.dump(found, sys.stdout.buffer)


def replayed(job: Any, checkout: str) -> Any:
    """What the code of the checkout pays: for every step and regime, totals and numbers of test appearances by task."""
    from camdf_lab import domains

    priced = {d: asdict(domains.load(job.domain, job.scorer, dispersion=d)) for d in (0.0, 1.0, 1.5)}
    for fields in priced.values():
        fields["rankings"] = {name: fields["rankings"][name] for name in RANKINGS}
    given = {
        "priced": priced,
        "steps": [[(split.train, split.test) for split in step.splits] for step in job.steps()],
        "regimes": [tuple(regime) for regime in job.regimes],
    }
    environment = os.environ | {"PYTHONPATH": str(Path(checkout, "src").resolve())}
    command = [sys.executable, __file__, REPLAY]
    run = subprocess.run(command, input=pickle.dumps(given), env=environment, stdout=subprocess.PIPE, check=True)
    return pickle.loads(run.stdout)


def rows_of(job: Any, ours: Any, frozen: Any) -> list[dict[str, Any]]:
    """One row a cell and number of labels: both means, and the margin of the default with its interval by group."""
    import numpy as np

    from camdf.evaluation.curve import at_step
    from camdf.policies.registry import DEFAULT
    from camdf_lab.beyond.frozen import FOLDER as FROZEN
    from camdf_lab.beyond.labels import PLACE

    rows = []
    for number, (step, here) in enumerate(zip(job.steps(), frozen, strict=True)):
        for regime, (total, tested) in zip(job.regimes, here, strict=True):
            with np.errstate(invalid="ignore"):
                ours.values[FROZEN] = (total / tested)[:, None]
            name = at_step(number, regime.name(DEFAULT))
            margin = ours.difference(name, FROZEN, by_group=True)
            place = dict(zip(PLACE, (job.domain, job.scorer, *regime, number), strict=True))
            means = {DEFAULT: ours.mean(name), FROZEN: ours.mean(FROZEN)}
            rows.append({**place, "labels": step.labels, **means, "lo": margin.low, "hi": margin.high})
    return rows


def main(checkout: str) -> None:
    """Every domain and ranking; what the default pays is taken from `camdf-lab past labels`, if that has been run."""
    from concurrent.futures import ThreadPoolExecutor
    from itertools import repeat

    from camdf_lab.beyond.frozen import FOLDER
    from camdf_lab.beyond.labels import jobs
    from camdf_lab.jobs import default_cache, run_jobs
    from camdf_lab.stored import store

    ours = run_jobs(jobs(), cache=default_cache())
    rows = []
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for job, frozen in zip(jobs(), pool.map(replayed, jobs(), repeat(checkout)), strict=True):
            rows += rows_of(job, ours[job], frozen)
            print(f"{job.domain}, {job.scorer}: {len(rows)} rows", flush=True)
    store(Path("results") / FOLDER, "labels", rows)


if __name__ == "__main__":
    if sys.argv[1:] == [REPLAY]:
        replay_here()
    else:
        main(sys.argv[1])

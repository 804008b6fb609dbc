"""What made-up tasks are worth as labels: the default fitted on them, and from there on real labels.

python benchmarks/made_up_labels.py --cells FILE                 what FILE lacks, a line a cell; can be stopped
python benchmarks/made_up_labels.py --cells FILE --json FILE     the figures of all cells as JSON, and two tables
python benchmarks/made_up_labels.py --check FILE [--seed N]      exit 1 where a sample is not what the file has

Needs camdf-lab. A language model wrote 100 or 120 tasks for the tools of each of eleven domains
(`camdf_lab.domains.made_up`). Nothing that is tried on a domain has learned from its real tasks but from the labels
that are named: neither the shipped prior, nor how much a made-up task counts, which the other ten domains say. Ranking
by MiniLM, every tool at a cost of 1, mean payoff of both values at three cost pressures.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from camdf.core.groups import sizes_of
from camdf.core.payoff import Payoff
from camdf.core.probability import logit
from camdf.core.rankings import Floats, Ints, LoggedTasks, Rankings
from camdf.core.resampling import paired_bootstrap
from camdf.evaluation.curve import draw_steps
from camdf.policies.base import Policy
from camdf.policies.by_set import ExpectedPayoffBySet
from camdf.policies.models.prior import Prior
from camdf.policies.rules import TopK
from camdf_lab import domains
from camdf_lab.beyond.priors import Cold, Unseen
from camdf_lab.newton import minimize, partial_sums

DOMAINS = tuple(domains.made_up_domains())
SCORER = "minilm"
PAYOFFS = [Payoff(pressure, value) for value, pressure in product(("exact", "partial"), (0.05, 0.12, 0.20))]
LABELS = (3, 10, 20, 50, 100, 200)
SPLITS = 2
DRAWS = ("at random", "by group")
"""How labels are drawn: with near-copies of them left among the test tasks, or as a young log grows, with none."""

MOST_TASKS = 200
"""Of a domain, that are tested where none is held out by group."""

FEWEST_LEFT = 0.8
"""The share that may be learned from."""

WAYS = ("from the shipped prior", "from made-up tasks")
CLEARLY = -0.02
"""A cell whose whole interval lies below is clearly worse."""

NOISE = 0.002


class FromMadeUp(ExpectedPayoffBySet):
    """The default that starts from a policy of made-up tasks, where other domains say how far that may be off."""

    def __init__(self, domain: str) -> None:
        super().__init__(prior=of_made_up(domain))
        self.covariance = covariance(tuple(other for other in DOMAINS if other != domain))

    def priors(self, reading: Rankings | None = None) -> tuple[Prior, ...]:
        return tuple(replace(prior, covariance=self.covariance) for prior in super().priors(reading))


@cache
def of_made_up(domain: str) -> ExpectedPayoffBySet:
    """The default, fitted on the made-up tasks alone."""
    return Unseen(domain).fit(domains.made_up(domain), PAYOFFS[0])


@cache
def real(domain: str) -> LoggedTasks:
    """The real tasks of a domain, with their vectors."""
    return domains.load(domain, SCORER, texts=True)


@cache
def distance(domain: str) -> tuple[float, float]:
    """a and s - 1, where a + s * z0 is likeliest on a domain's real tasks, and z0 is what made-up ones say of them."""
    logged = real(domain)
    listed = logged.rankings.listed
    said = logit(of_made_up(domain).probabilities(logged.rankings)[0][listed], 1e-9)
    weights = np.repeat(sizes_of(logged.groups) ** -0.5, logged.rankings.lengths)
    required = logged.required[listed]
    scale, shift = minimize(
        lambda at: partial_sums(said[:, None], required, weights / weights.sum(), at), np.array([1.0, 0.0])
    )
    return float(shift), float(scale) - 1.0


def covariance(names: Sequence[str]) -> tuple[float, float, float]:
    """Of (a, s) around (0, 1), over these domains: `FROM_MADE_UP` of camdf.policies.models.prior is of all eleven."""
    shift, scale = np.array([distance(name) for name in names]).T
    return float((shift**2).mean()), float((shift * scale).mean()), float((scale**2).mean())


def paid(policy: Policy, logged: LoggedTasks) -> Floats:
    """(payoffs, tasks): what its decisions pay."""
    return np.stack([payoff.of(logged, policy.decide(logged.rankings, payoff).acquired) for payoff in PAYOFFS])


def before_labels(domain: str) -> dict[str, float]:
    """Mean payoffs without any real label."""
    some = np.sort(np.random.default_rng(0).permutation(len(real(domain)))[:MOST_TASKS])
    logged = real(domain).take(some)
    ways = {"cold start": Cold(domain, SCORER), "top 3": TopK(3), "top 5": TopK(5), "made up": of_made_up(domain)}
    return {name: round(float(paid(policy, logged).mean()), 4) for name, policy in ways.items()}


def cells() -> Iterator[tuple[str, str, int, int]]:
    """Draw, domain, labels and split, the question that matters most first."""
    for draw, split, labels, domain in product(DRAWS, range(SPLITS), sorted(LABELS, key=lambda n: n != 20), DOMAINS):
        if tasks_of(draw, domain, labels, split):
            yield draw, domain, labels, split


@cache
def tasks_of(draw: str, domain: str, labels: int, split: int) -> tuple[Ints, Ints] | None:
    """Which tasks are learned from, and which are tested; None where too few are left."""
    if draw == "by group":
        steps = [step for step in draw_steps(real(domain), max(SPLITS, 2)) if step.labels == labels]
        return (steps[0].splits[split].train, steps[0].splits[split].test) if steps else None
    order = np.random.default_rng(split).permutation(len(real(domain)))
    return (order[:labels], order[labels:][:MOST_TASKS]) if labels <= FEWEST_LEFT * len(order) else None


def measured(draw: str, domain: str, labels: int, split: int) -> dict[str, Any]:
    """What both ways paid on the test tasks of one split, after so many real labels."""
    drawn = tasks_of(draw, domain, labels, split)
    assert drawn is not None
    train, test = map(real(domain).take, drawn)
    policies = dict(zip(WAYS, (Unseen(domain), FromMadeUp(domain)), strict=True))
    values = {name: paid(policy.fit(train, PAYOFFS[0]), test).round(4).tolist() for name, policy in policies.items()}
    return {"draw": draw, "domain": domain, "labels": labels, "split": split, "test": drawn[1].tolist(), **values}


def figures(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Means by domain and number of labels, and in how many cells the second way is clearly worse than the first."""
    labeled: list[dict[str, Any]] = []
    for draw, labels, domain in product(DRAWS, LABELS, DOMAINS):
        here = [row for row in rows if (row["draw"], row["domain"], row["labels"]) == (draw, domain, labels)]
        if not here:
            continue
        totals = {way: np.zeros((len(PAYOFFS), len(real(domain)))) for way in WAYS}
        times = np.zeros(len(real(domain)))
        for row in here:
            times[row["test"]] += 1
            for way in WAYS:
                totals[way][:, row["test"]] += row[way]
        tested = times > 0
        means = {way: total[:, tested] / times[tested] for way, total in totals.items()}
        margins = means[WAYS[1]] - means[WAYS[0]]
        groups = real(domain).groups[tested]
        below = [paired_bootstrap(margin, groups=groups).high < CLEARLY for margin in margins]
        above = [paired_bootstrap(margin, groups=groups).low > -CLEARLY for margin in margins]
        labeled.append(
            {
                "draw": draw,
                "domain": domain,
                "labels": labels,
                "splits": len(here),
                **{way: round(float(mean.mean()), 4) for way, mean in means.items()},
                "clearly worse": sum(below),
                "clearly better": sum(above),
            }
        )
    before = {domain: before_labels(domain) for domain in DOMAINS}
    return {"covariance": [round(part, 3) for part in covariance(DOMAINS)], "before labels": before, "after": labeled}


def domain_table(stored: dict[str, Any]) -> str:
    """Markdown: every domain without real labels, and with 20."""
    lines = [
        "| domain | top 3 | cold start | made-up tasks | 20 labels | made-up tasks and 20 labels |",
        "|" + " --- |" * 6,
    ]
    shown = []
    for domain, before in stored["before labels"].items():
        (here,) = (row for row in after(stored, DRAWS[0], 20) if row["domain"] == domain)
        shown.append([before["top 3"], before["cold start"], before["made up"], *(here[way] for way in WAYS)])
        lines.append(f"| {domain} | " + " | ".join(f"{figure:.3f}" for figure in shown[-1]) + " |")
    return "\n".join([*lines, "| mean | " + " | ".join(f"{figure:.3f}" for figure in np.mean(shown, axis=0)) + " |"])


def label_table(stored: dict[str, Any]) -> str:
    """Markdown: by the number of real labels."""
    lines = [
        "| drawn | labels | domains | from the shipped prior | from made-up tasks | clearly worse | clearly better |",
        "|" + " --- |" * 7,
    ]
    for draw, labels in product(DRAWS, LABELS):
        here = after(stored, draw, labels)
        means = " | ".join(f"{np.mean([row[way] for row in here]):.3f}" for way in WAYS)
        counts = (sum(row[key] for row in here) for key in ("clearly worse", "clearly better"))
        worse, better = (f"{count} of {len(PAYOFFS) * len(here)}" for count in counts)
        lines.append(f"| {draw} | {labels} | {len(here)} | {means} | {worse} | {better} |")
    return "\n".join(lines)


def after(stored: dict[str, Any], draw: str, labels: int) -> list[dict[str, Any]]:
    """The rows of one draw with so many labels."""
    return [row for row in stored["after"] if (row["draw"], row["labels"]) == (draw, labels)]


def check(stored: dict[str, Any], seed: int) -> list[str]:
    """Where the figures of one domain without real labels, measured again, are not the stored ones."""
    domain = DOMAINS[seed % len(DOMAINS)]
    before = stored["before labels"][domain]
    now = before_labels(domain)
    return [f"{domain}: stored {before}, now {now}"] if any(abs(before[way] - now[way]) > NOISE for way in now) else []


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--cells", type=Path)
    options.add_argument("--json", type=Path)
    options.add_argument("--check", type=Path)
    options.add_argument("--seed", type=int, default=0)
    chosen = options.parse_args()
    threadpool_limits(1)
    if chosen.check:
        changed = check(json.loads(chosen.check.read_text()), chosen.seed)
        print("\n".join(changed), file=sys.stderr)
        return 1 if changed else 0
    known = chosen.cells.read_text().splitlines() if chosen.cells.exists() else []
    rows = [json.loads(line) for line in known]
    if chosen.json:
        stored = figures(rows)
        chosen.json.write_text(json.dumps(stored, indent=1) + "\n")
        print(domain_table(stored), label_table(stored), sep="\n\n")
        return 0
    done = {(row["draw"], row["domain"], row["labels"], row["split"]) for row in rows}
    with chosen.cells.open("a") as file:
        for cell in cells():
            if cell not in done:
                print(json.dumps(measured(*cell)), file=file, flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

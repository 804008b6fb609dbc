"""Tasks that need no tool, mixed with others: what the default gives to each kind, from a hundred labels.

A row is one domain under one ranking and one way of deciding: the mean over three draws of a hundred tasks to learn
from, measured on all others. What a policy chooses counts, in the exact payoff at a cost pressure of .05.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np

from camdf.core.payoff import Payoff
from camdf.core.rankings import LoggedTasks
from camdf.policies.base import Policy
from camdf.policies.registry import DEFAULT
from camdf.policies.rules import FixedK, ScoreThreshold, TopK
from camdf_lab import domains
from camdf_lab.beyond.frontier import ALONE
from camdf_lab.beyond.priors import Unseen
from camdf_lab.stored import Row, Rows
from camdf_lab.study import Run, Study, differing

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture

PAYOFF = Payoff(0.05)
LABELS = 100
DRAWS = 3
NOTHING = "nothing"
FIXED = "tuned fixed number"
THRESHOLD = "tuned score threshold"
PLACE = ("domain", "scorer", "way")
FIGURES = ("payoff", "tools_without_need", "tools_with_need", "none_known", "none_estimated")
RECHECKED = ("sgd-first-message", "minilm")


def deciders(domain: str, taught: LoggedTasks) -> Mapping[str, Policy]:
    """Every way of deciding, fitted."""
    read = Unseen(domain).fit(taught, PAYOFF)
    return {
        ALONE: Unseen(domain, texts=False).fit(taught, PAYOFF),
        DEFAULT: read,
        FIXED: FixedK().fit(taught, PAYOFF),
        THRESHOLD: ScoreThreshold().fit(taught, PAYOFF),
        NOTHING: TopK(0),
    }


def draws(logged: LoggedTasks) -> Iterator[tuple[LoggedTasks, LoggedTasks]]:
    """What is learned from and what is measured, a draw each."""
    for number in range(DRAWS):
        order = np.random.default_rng([number, LABELS]).permutation(len(logged))
        yield logged.take(order[:LABELS]), logged.take(order[LABELS:])


def rows_of(domain: str, scorer: str) -> list[Row]:
    """One row a way."""
    figures: dict[str, list[tuple[float, ...]]] = {}
    for taught, tested in draws(domains.load(domain, scorer, texts=True)):
        needs_none = tested.n_required == 0
        for way, policy in deciders(domain, taught).items():
            decisions = policy.decide(tested.rankings, PAYOFF)
            tools = decisions.acquired.sum(axis=1)
            estimated = 0.0 if decisions.none is None else float(decisions.none.mean())
            figures.setdefault(way, []).append(
                (
                    float(PAYOFF.of(tested, decisions.acquired).mean()),
                    float(tools[needs_none].mean()),
                    float(tools[~needs_none].mean()),
                    float(needs_none.mean()),
                    estimated,
                )
            )
    place = {"domain": domain, "scorer": scorer}
    return [
        {**place, "way": way, **dict(zip(FIGURES, np.mean(of_draws, axis=0).tolist(), strict=True))}
        for way, of_draws in figures.items()
    ]


def measure(run: Run) -> Rows:
    """Every domain and ranking: minutes of one core."""
    return run.rows(rows_of, [(domain.name, scorer) for domain in domains.MIXED_DOMAINS for scorer in domain.scorers])


def recheck(rows: Rows, seed: int, run: Run) -> list[str]:
    """One domain under one ranking, again."""
    return differing(rows, rows_of(*RECHECKED), PLACE, FIGURES)


def section(rows: Rows) -> list[str]:
    """Payoff, and tools by need, of every way."""
    lines = [
        "## Tasks that need nothing (`none_needed`)\n",
        "Three domains in which 25 to 44% of the tasks need no tool, and one of them (sgd-first-message) in which most",
        f"need tools that their text does not name. {LABELS} labels, {DRAWS} draws, exact value, pressure",
        f"{PAYOFF.cost_pressure:g}. Tasks that need none differ in style from the others, so a policy that reads texts",
        "has it easier than in life. The domains were looked at when the model of tasks without need was made.\n",
        "| domain, ranking | decided by | payoff | tools without need | tools with need | need none | estimated |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    return [*lines, *map(_line_of, rows), ""]


def _line_of(row: Row) -> str:
    return (
        f"| {row['domain']}, {row['scorer']} | {row['way']} | {row['payoff']:.3f} | {row['tools_without_need']:.2f} "
        f"| {row['tools_with_need']:.2f} | {row['none_known']:.1%} | {row['none_estimated']:.1%} |"
    )


def pictures(rows: Rows) -> dict[str, Picture]:
    """None."""
    return {}


STUDY = Study("none_needed", measure, recheck, section, pictures)

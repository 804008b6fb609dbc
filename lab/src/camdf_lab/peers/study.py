"""What every way to choose costs and earns on the sampled tasks: `camdf-lab run peers`, from stored answers alone.

Tasks are decided on in four parts, groups kept together, by what was learned on the other three: every way that is
tuned or fitted sees the same labels. Two settings, both with the exact value. Where a miss is final, a tool costs 0.05
of a solved task. With tool search a missed tool is a search away and worth 0.8, and a tool costs 0.01: the same share
of a miss. Ways that are tuned or fitted are so for the setting at hand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from camdf.core.groups import numbered
from camdf.core.payoff import Payoff
from camdf.core.rankings import Bools, Floats, Ints
from camdf.core.resampling import CONFIDENCE, RESAMPLES
from camdf.core.stopping import prefix_oracle
from camdf.prices import Prices
from camdf_lab.beyond.batches import BATCHES, IN_TABLES, batch_of
from camdf_lab.peers.answers import Case, cases
from camdf_lab.peers.methods import CAMDF_FITTED, EVERYTHING, Method, methods_of
from camdf_lab.stored import Row, Rows

NAME = "peers"
COMMAND = "camdf-lab run peers"
FINAL, WITH_TOOL_SEARCH = "a miss is final", "with a door"
"""What stored tables call the two settings."""

RECOURSE = 0.8
SETTINGS = {FINAL: Payoff(0.05), WITH_TOOL_SEARCH: Payoff(0.05 * (1 - RECOURSE), recourse=RECOURSE)}
CROSS_FITS = 4

PRICES = Prices()
INSTRUCTIONS = 2_000
"""Tokens that a request holds besides tools."""

SEARCH_TOKENS = 150
"""The definitions of the two tools of tool search, or of a search and a call."""

FOUND_SHARE, TOOLS_ANSWERED = 0.89, 5
"""How often a search finds the tool among so many: docs/recourse.md, 40 tools."""

CALL_TOKENS, NAME_TOKENS, SCORE_TOKENS, OUTPUT = 60, 8, 12, 15.0
"""What a model writes to search, to name a tool and to score one; and dollars for a million tokens that it writes."""

PLACE = ("look", "domain", "scorer", "method", "setting")
FIGURES = ("tools", "tokens", "sufficient", "misses", "repaired", "dollars", "payoff")


@dataclass(frozen=True)
class Measured:
    """One way in one setting on the tasks of one case: (n,) of each figure, and the tasks' groups."""

    case: Case
    method: Method
    setting: str
    figures: dict[str, Floats]

    @property
    def means(self) -> dict[str, float]:
        return {name: float(self.figures[name].mean()) for name in FIGURES}


def parts_of(case: Case) -> list[Ints]:
    """The rows of each part, groups kept together."""
    group, groups = numbered(case.logged.groups)
    part = np.random.default_rng([len(group), 4]).permutation(groups) % CROSS_FITS
    return [rows for number in range(CROSS_FITS) if len(rows := np.flatnonzero(part[group] == number))]


def measured_by(case: Case, method: Method, setting: str) -> Measured:
    """Every task decided on once, by what the labels of the other parts taught."""
    n = len(case.rows)
    figures = {name: np.zeros(n) for name in FIGURES}
    for rows in parts_of(case):
        known = np.setdiff1d(np.arange(n), rows)
        masks = method.decide(case, known, rows, SETTINGS[setting])
        for mask in masks:
            for name, values in figures_of(case, method, setting, rows, mask).items():
                figures[name][rows] += values / len(masks)
    return Measured(case, method, setting, figures)


def figures_of(case: Case, method: Method, setting: str, rows: Ints, mask: Bools) -> dict[str, Floats]:
    """What these choices expose, miss, cost and pay, task by task."""
    logged, tokens = case.logged.take(rows), case.tokens[rows]
    exposed = (tokens * mask).sum(axis=1)
    missed = (logged.required & ~mask).sum(axis=1)
    reachable = logged.missing == 0
    sufficient = logged.sufficient(mask)
    search = setting == WITH_TOOL_SEARCH and method.name != EVERYTHING
    whole, count = tokens.sum(axis=1), logged.rankings.lengths
    dollars = np.array([PRICES.of_tokens(held) for held in exposed])
    if method.searches or search:
        dollars += PRICES.of_tokens(SEARCH_TOKENS)
    searches = np.full(len(rows), float(method.searches)) + (missed if search else 0)
    answered = TOOLS_ANSWERED * whole / count * (missed if search else 0)
    dollars += [
        _search(times, held, answer / times) if times else 0.0
        for times, held, answer in zip(searches, exposed, answered, strict=True)
    ]
    if method.model:
        written = SCORE_TOKENS * count if method.model == "scores" else NAME_TOKENS * mask.sum(axis=1)
        read = whole + case.request[rows]
        dollars += [PRICES.of_request(new=size) for size in read] + written * OUTPUT / 1e6
    return {
        "tools": mask.sum(axis=1).astype(np.float64),
        "tokens": exposed,
        "sufficient": sufficient.astype(np.float64),
        "misses": missed.astype(np.float64),
        "repaired": np.where(reachable, FOUND_SHARE**missed, 0.0) if search else sufficient.astype(np.float64),
        "dollars": dollars,
        "payoff": SETTINGS[setting].of(logged, mask),
    }


def _search(count: float, held: float, answered: float) -> float:
    """Dollars of so many searches that each answer with so many tokens."""
    prefix = INSTRUCTIONS + held
    return count * PRICES.of_search(prefix_tokens=prefix, found_tokens=answered, call_tokens=CALL_TOKENS, output=OUTPUT)


def measure(results: Path, progress: Callable[[str], None] = lambda said: None) -> Rows:
    """One row a domain, ranking, way and setting; and one a batch of domains with intervals, domains counting alike."""
    rows: list[Row] = []
    every: list[Measured] = []
    for case in cases(results):
        measured = rows_of(case)
        every += measured
        rows += [_row(batch_of(case.domain), case.domain, [way]) for way in measured]
        progress(f"{case.domain}, {case.scorer}: measured")
    for batch in BATCHES:
        here = [way for way in every if batch_of(way.case.domain) == batch]
        rows += [_row(batch, "all", group, _others(here, group)) for group in _grouped(here)]
    return rows


def rows_of(case: Case) -> list[Measured]:
    """Every way in both settings."""
    return [measured_by(case, method, setting) for setting in SETTINGS for method in methods_of(case)]


def ceilings(case: Case, setting: str) -> tuple[float, float]:
    """What a task earns where its needed tools are known, and by the best cut of the ranking in hindsight."""
    logged, payoff = case.logged, SETTINGS[setting]
    known = np.maximum(payoff.of(logged, logged.required), payoff.of(logged, np.zeros_like(logged.required)))
    return float(known.mean()), float(payoff.of(logged, prefix_oracle(logged, payoff).acquired).mean())


def recheck(rows: Rows, results: Path, seed: int) -> list[str]:
    """Where two small cases, measured again from the stored answers, differ from the stored rows."""
    from camdf_lab.study import differing

    small = [case for case in cases(results) if case.logged.rankings.width <= 25]
    chosen = np.random.default_rng(seed).choice(len(small), 2, replace=False)
    again = [_row(batch_of(small[i].domain), small[i].domain, [way]) for i in chosen for way in rows_of(small[i])]
    return differing(rows, again, PLACE, FIGURES)


def _grouped(every: Iterable[Measured]) -> list[list[Measured]]:
    groups: dict[tuple[str, str, str], list[Measured]] = {}
    for way in every:
        groups.setdefault((way.case.scorer, way.method.name, way.setting), []).append(way)
    return list(groups.values())


def _others(every: Iterable[Measured], group: list[Measured]) -> list[Measured]:
    """camdf, fitted, on the same cases in the same setting."""
    first = group[0]
    fitted = {
        way.case.domain: way
        for way in every
        if (way.case.scorer, way.method.name, way.setting) == (first.case.scorer, CAMDF_FITTED, first.setting)
    }
    return [fitted[way.case.domain] for way in group]


def _row(batch: str, domain: str, group: list[Measured], fitted: list[Measured] | None = None) -> Row:
    first = group[0]
    place = IN_TABLES[batch], domain, first.case.scorer, first.method.name, first.setting
    means = {name: float(np.mean([way.means[name] for way in group])) for name in FIGURES}
    low = high = behind = behind_low = behind_high = float("nan")
    if fitted is not None:
        low, high = interval([(way.case, way.figures["payoff"]) for way in group])
        apart = [(a.case, b.figures["payoff"] - a.figures["payoff"]) for a, b in zip(group, fitted, strict=True)]
        behind = float(np.mean([difference.mean() for _, difference in apart]))
        behind_low, behind_high = interval(apart)
    return {
        **dict(zip(PLACE, place, strict=True)),
        "tasks": sum(len(way.case.rows) for way in group),
        **means,
        "low": low,
        "high": high,
        "behind": behind,
        "behind_low": behind_low,
        "behind_high": behind_high,
    }


def interval(values: list[tuple[Case, Floats]]) -> tuple[float, float]:
    """The 95% bootstrap interval of a mean over domains that count alike; within each, groups are drawn."""
    rng, total = np.random.default_rng(0), np.zeros(RESAMPLES)
    for case, figures in values:
        group, groups = numbered(case.logged.groups)
        sums, sizes = np.bincount(group, figures, groups), np.bincount(group, minlength=groups).astype(np.float64)
        drawn = rng.multinomial(groups, np.full(groups, 1 / groups), size=RESAMPLES).astype(np.float64)
        total += np.einsum("bg,g->b", drawn, sums) / np.einsum("bg,g->b", drawn, sizes) / len(values)
    low, high = np.quantile(total, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    return float(low), float(high)

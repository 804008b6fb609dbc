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
from camdf_lab.study import differing, mean_of

NAME = "peers"
COMMAND = "camdf-lab run peers"
FINAL = "a miss is final"
WITH_TOOL_SEARCH = "with a door"
"""What stored tables call the two settings."""

RECOURSE = 0.8
SETTINGS = {FINAL: Payoff(0.05), WITH_TOOL_SEARCH: Payoff(0.05 * (1 - RECOURSE), recourse=RECOURSE)}
CROSS_FITS = 4

PRICES = Prices()
INSTRUCTIONS = 2_000
"""Tokens that a request holds besides tools."""

SEARCH_TOKENS = 150
"""The definitions of the two tools of tool search, or of a search and a call."""

FOUND_SHARE = 0.89
TOOLS_ANSWERED = 5
"""How often a search finds the tool among so many: docs/recourse.md, 40 tools."""

CALL_TOKENS = 60
NAME_TOKENS = 8
SCORE_TOKENS = 12
"""What a model writes to search, to name a tool and to score one."""

OUTPUT = 15.0
"""Dollars for a million tokens that a model writes."""

PLACE = ("look", "domain", "scorer", "method", "setting")
INTERVALS = ("low", "high", "behind", "behind_low", "behind_high")
"""The columns that only a batch of domains has: the interval of the payoff, and what camdf, fitted, earns more."""

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
    logged = case.logged.take(rows)
    tokens = case.tokens[rows]
    whole = tokens.sum(axis=1)
    exposed = (tokens * mask).sum(axis=1)
    listed = logged.rankings.lengths
    chosen = mask.sum(axis=1)
    missed = (logged.required & ~mask).sum(axis=1)
    sufficient = logged.sufficient(mask).astype(np.float64)
    repaired = sufficient
    searched_for = np.zeros_like(missed)
    can_search = setting == WITH_TOOL_SEARCH and method.name != EVERYTHING
    if can_search:
        repaired = np.where(logged.missing == 0, FOUND_SHARE**missed, 0.0)
        searched_for = missed
    dollars = np.array([PRICES.of_tokens(held) for held in exposed])
    if method.searches or can_search:
        dollars += PRICES.of_tokens(SEARCH_TOKENS)
    searches = float(method.searches) + searched_for
    answered = TOOLS_ANSWERED * whole / listed * searched_for
    dollars += list(map(_dollars_of_searches, searches, exposed, answered))
    if method.model:
        written = {"scores": SCORE_TOKENS * listed, "names": NAME_TOKENS * chosen}[method.model]
        read = whole + case.request[rows]
        dollars += np.array([PRICES.of_request(new=size) for size in read]) + written * OUTPUT / 1e6
    return {
        "tools": chosen.astype(np.float64),
        "tokens": exposed,
        "sufficient": sufficient,
        "misses": missed.astype(np.float64),
        "repaired": repaired,
        "dollars": dollars,
        "payoff": SETTINGS[setting].of(logged, mask),
    }


def _dollars_of_searches(count: float, held: float, answered: float) -> float:
    """Of so many searches beside so many tokens of tools, which together answer with so many tokens."""
    if not count:
        return 0.0
    dollars = PRICES.of_search(
        prefix_tokens=INSTRUCTIONS + held, found_tokens=answered / count, call_tokens=CALL_TOKENS, output=OUTPUT
    )
    return count * dollars


def measure(results: Path, progress: Callable[[str], None] = lambda said: None) -> Rows:
    """One row a domain, ranking, way and setting; and one a batch of domains with intervals, domains counting alike."""
    rows: list[Row] = []
    every: list[Measured] = []
    for case in cases(results):
        measured = measured_ways(case)
        every += measured
        rows += [_stored_row(batch_of(case.domain), case.domain, [way]) for way in measured]
        progress(f"{case.domain}, {case.scorer}: measured")
    for batch in BATCHES:
        here = [way for way in every if batch_of(way.case.domain) == batch]
        rows += [_stored_row(batch, "all", group, _fitted_on_the_same(here, group)) for group in _by_way(here)]
    return rows


def measured_ways(case: Case) -> list[Measured]:
    """Every way in both settings."""
    return [measured_by(case, method, setting) for setting in SETTINGS for method in methods_of(case)]


def ceilings(case: Case, setting: str) -> tuple[float, float]:
    """What a task earns where its needed tools are known, and by the best cut of the ranking in hindsight."""
    logged = case.logged
    payoff = SETTINGS[setting]
    known = np.maximum(payoff.of(logged, logged.required), payoff.of(logged, np.zeros_like(logged.required)))
    cut = payoff.of(logged, prefix_oracle(logged, payoff).acquired)
    return float(known.mean()), float(cut.mean())


def recheck(rows: Rows, results: Path, seed: int) -> list[str]:
    """Where two small cases, measured again from the stored answers, differ from the stored rows."""
    small = [case for case in cases(results) if case.logged.rankings.width <= 25]
    chosen = [small[i] for i in np.random.default_rng(seed).choice(len(small), 2, replace=False)]
    again = [_stored_row(batch_of(case.domain), case.domain, [way]) for case in chosen for way in measured_ways(case)]
    return differing(rows, again, PLACE, FIGURES)


def _by_way(every: Iterable[Measured]) -> list[list[Measured]]:
    """One list a ranking, way and setting: what was measured in all domains."""
    groups: dict[tuple[str, str, str], list[Measured]] = {}
    for way in every:
        groups.setdefault((way.case.scorer, way.method.name, way.setting), []).append(way)
    return list(groups.values())


def _fitted_on_the_same(every: Iterable[Measured], group: list[Measured]) -> list[Measured]:
    """camdf, fitted, on the same cases in the same setting."""
    first = group[0]
    fitted = {
        way.case.domain: way
        for way in every
        if (way.case.scorer, way.method.name, way.setting) == (first.case.scorer, CAMDF_FITTED, first.setting)
    }
    return [fitted[way.case.domain] for way in group]


def _stored_row(batch: str, domain: str, group: list[Measured], fitted: list[Measured] | None = None) -> Row:
    first = group[0]
    place = IN_TABLES[batch], domain, first.case.scorer, first.method.name, first.setting
    means = [way.means for way in group]
    return {
        **dict(zip(PLACE, place, strict=True)),
        "tasks": sum(len(way.case.rows) for way in group),
        **{name: mean_of(means, name) for name in FIGURES},
        **(dict.fromkeys(INTERVALS, float("nan")) if fitted is None else _intervals(group, fitted)),
    }


def _intervals(group: list[Measured], fitted: list[Measured]) -> Row:
    """Of what a way earns, and by how much camdf, fitted, earns more."""
    low, high = interval([(way.case, way.figures["payoff"]) for way in group])
    margins = [
        (way.case, ours.figures["payoff"] - way.figures["payoff"]) for way, ours in zip(group, fitted, strict=True)
    ]
    behind = float(np.mean([margin.mean() for _, margin in margins]))
    behind_low, behind_high = interval(margins)
    return dict(zip(INTERVALS, (low, high, behind, behind_low, behind_high), strict=True))


def interval(values: list[tuple[Case, Floats]]) -> tuple[float, float]:
    """The 95% bootstrap interval of a mean over domains that count alike; within each, groups are drawn."""
    rng = np.random.default_rng(0)
    total = np.zeros(RESAMPLES)
    for case, figures in values:
        group, groups = numbered(case.logged.groups)
        sums = np.bincount(group, figures, groups)
        sizes = np.bincount(group, minlength=groups).astype(np.float64)
        drawn = rng.multinomial(groups, np.full(groups, 1 / groups), size=RESAMPLES).astype(np.float64)
        total += np.einsum("bg,g->b", drawn, sums) / np.einsum("bg,g->b", drawn, sizes) / len(values)
    low, high = np.quantile(total, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    return float(low), float(high)

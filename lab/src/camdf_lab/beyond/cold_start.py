"""Without one label of the domain: every domain left out in turn, beside the constants that people run today.

A row is a cell: the mean payoff, over all tasks of a domain that the cold start has not seen, of the cold start, of it
told how many tools a task requires, of six constants, of the cold start for similarities whatever the scores are, and
of the cold start once two numbers of its model were fitted to the domain's labels; and the share of tasks of which the
cold start keeps no tool.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from camdf.core.payoff import Payoff
from camdf.core.probability import logit
from camdf.core.rankings import Floats, LoggedTasks
from camdf.evaluation.drawing import BLUE, COLUMN, GRAY, VERMILLION, canvas, styled
from camdf.policies.base import Policy
from camdf.policies.by_set import ExpectedPayoffBySet
from camdf.policies.cold_start import CALIBRATION, SHARPNESS, TOOLS_PER_LIST, from_prior, told_tools_per_task
from camdf.policies.models.linear import scikit_learn
from camdf.policies.models.membership import OF_SHORT_LISTS
from camdf.policies.models.prior import KINDS
from camdf.policies.rules import PlugIn, ScoreAtLeast, TopK
from camdf_lab import domains
from camdf_lab.beyond.batches import BATCHES, DOMAINS, of_batch
from camdf_lab.beyond.frontier import DISPERSIONS, Sweep
from camdf_lab.beyond.priors import kind_of, prior_without
from camdf_lab.page import yes_or_no
from camdf_lab.stored import Row, Rows
from camdf_lab.study import Run, Study, column, differing, margins, mean_of, of_pair, pairs_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture

COLD = "cold start"
TOLD = "told tools per task"
SIMILAR = "taken for similarities"
INFORMED = "shifted and scaled"
PLACE = ("domain", "scorer", "value", "cost_pressure", "dispersion")
EMPTY = "keeps nothing"
TARGET_SHARES = {COLD: (0.88, 0.62), TOLD: (0.90, 0.60)}
"""The share of comparisons that each should win, and of cells in which it should win all six."""

WORST = -0.25
MOST_EMPTY = 0.2
"""Targets of the cold start: its worst margin, and the share of tasks for which it may keep nothing."""


CONSTANTS: dict[str, Policy] = {
    **{f"top-k, {k}": TopK(k) for k in (5, 10, 20)},
    **{f"score-at-least, {score:g}": ScoreAtLeast(score) for score in (0.3, 0.5)},
    "plug-in": PlugIn(),
}
"""Nothing in them is learned or tuned; plug-in keeps every tool whose score is at least its priced cost."""


def cold_start_without(scores: str, without: str) -> ExpectedPayoffBySet:
    """The cold start for such scores, from every domain but one."""
    return from_prior(prior_without(without, scores), scores)


def informed(policy: ExpectedPayoffBySet, logged: LoggedTasks) -> ExpectedPayoffBySet:
    """The same policy with one shift and one scale of its logits fitted to these tasks: a diagnosis, not a policy."""
    listed = logged.rankings.listed
    model = policy.model_.unshifted()
    odds = logit(model.probabilities(logged.rankings)[0][listed])[:, None]
    linear_model: Any = scikit_learn()[0]
    line = linear_model.LogisticRegression(C=1e6, solver="newton-cholesky", tol=1e-9).fit(odds, logged.required[listed])
    scale = float(line.coef_[0, 0])
    shift = float(line.intercept_[0])
    wiser = ExpectedPayoffBySet(prior=policy.prior)
    wiser.model_ = replace(
        model,
        coefficients=tuple(scale * coefficient for coefficient in model.coefficients),
        intercept=scale * model.intercept + shift,
    )
    return wiser


def rows_of(domain: str) -> list[Row]:
    """Learn from the other domains, and measure every cell of this one."""
    policies = {scores: cold_start_without(scores, without=domain) for scores in KINDS}
    rows: list[Row] = []
    for scorer in domains.scorers(domain):
        policy = policies[kind_of(scorer)]
        priced = {d: domains.load(domain, scorer, dispersion=d) for d in DISPERSIONS}
        at_equal_costs = priced[0.0]
        wiser = informed(policy, at_equal_costs)
        number = float(at_equal_costs.n_required.mean())
        knows = told_tools_per_task(policy, number, at_equal_costs.rankings)
        for regime in Sweep(domain, scorer).regimes:
            logged = priced[regime.dispersion]
            payoff = Payoff(regime.cost_pressure, regime.value)
            acquired = {
                COLD: policy.decide(logged.rankings, payoff).acquired,
                TOLD: knows.decide(logged.rankings, payoff).acquired,
                **{name: rule.decide(logged.rankings, payoff).acquired for name, rule in CONSTANTS.items()},
                SIMILAR: policies["similarity"].decide(logged.rankings, payoff).acquired,
                INFORMED: wiser.decide(logged.rankings, payoff).acquired,
            }
            paid = {name: float(payoff.of(logged, kept).mean()) for name, kept in acquired.items()}
            place = zip(PLACE, (domain, scorer, *regime), strict=True)
            empty = float((~acquired[COLD].any(axis=1)).mean())
            rows.append({**dict(place), "n_tasks": len(logged), **paid, EMPTY: empty})
    return rows


def measure(run: Run) -> Rows:
    """Every domain, each left out."""
    return run.rows(rows_of, [(domain.name,) for domain in DOMAINS])


def recheck(rows: Rows, seed: int, run: Run) -> list[str]:
    """One domain, left out again."""
    names = [domain.name for domain in DOMAINS]
    domain = names[np.random.default_rng(seed).integers(len(names))]
    return differing(rows, rows_of(domain), PLACE, (COLD, TOLD, *CONSTANTS, SIMILAR, INFORMED, EMPTY))


def margins_over_constants(rows: Rows, policy: str = COLD) -> Floats:
    """(cells, constants): how much more than each constant the policy pays."""
    return np.stack([margins(rows, policy, name) for name in CONSTANTS], axis=1)


def shares_won(rows: Rows, policy: str = COLD) -> tuple[float, float]:
    """The share of comparisons won, and of cells in which all are; a tie is not won."""
    won = margins_over_constants(rows, policy) > 0
    return float(won.mean()), float(won.all(axis=1).mean())


def section(rows: Rows) -> list[str]:
    """The page's part: the headline, by constant, by domain and ranking, by price, and what limits it."""
    return [*_headline(rows), *_worst(rows), *_by_constant(rows), *_by_pair(rows), *_by_price(rows)]


def _headline(rows: Rows) -> list[str]:
    behind = margins_over_constants(rows).max(axis=1) <= 0
    similar = shares_won(rows, SIMILAR)
    with_rate = shares_won(rows, INFORMED)
    lines = [
        "## Without a label of one's own\n",
        "`camdf.cold_start()` is the default policy with a model that knows no tool, learned from all shipped tasks;",
        'the scores of Claude are read by `camdf.cold_start("probability")`, a shift and a scale of their logit. Here',
        "every shipped domain is left out in turn, and the later domains are seen by the one that ships:",
        f"{len(rows)} cells, measured on all tasks beside {len(CONSTANTS)} constants. A tie counts as not won. The one",
        "that is told knows the mean number of tools that a task requires, which any trace shows, and sees the lists",
        f"without labels. In {int(behind.sum())} cells the cold start beats no constant at all.\n",
        "| domains | | mean payoff | best constant | comparisons won | target | all six beaten | target |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for batch in BATCHES:
        here = of_batch(rows, batch)
        constant = max(mean_of(here, name) for name in CONSTANTS)
        for policy, (share_of_comparisons, share_of_cells) in TARGET_SHARES.items():
            comparisons, cells = shares_won(here, policy)
            lines.append(
                f"| {batch} | {policy} | {mean_of(here, policy):+.3f} | {constant:+.3f} | {comparisons:.3f} "
                f"| {_at_least(comparisons, share_of_comparisons)} | {cells:.3f} | {_at_least(cells, share_of_cells)} |"
            )
    return [
        *lines,
        "",
        "What limits it is how many tools a task of the new domain requires, from 1.2 in toolalpaca to 5.6 in telecom,",
        "and how sharply its scores tell them apart: no list says so. One shift and one scale of the logits, fitted",
        f"to the domain's own labels, would win {with_rate[0]:.3f} of comparisons and all six in {with_rate[1]:.3f} of",
        "cells: a bound, as it is fitted on the tasks that it is measured on. So say the number, log labels and fit.\n",
        f"Read as similarities, with rank and list, Claude's scores do worse: {similar[0]:.3f} and {similar[1]:.3f}",
        "over all cells. That probabilities need a model of their own, that one column is enough for it, and that next",
        "to no regularization is best was found with the shipped cells in view.\n",
        f"A list of similarities is taken to hold {TOOLS_PER_LIST:g} required tools, {OF_SHORT_LISTS:g} of a shorter",
        f"list; odds are taken to the power {SHARPNESS:g}, and the log odds that a set suffices times",
        f"{CALIBRATION[1]:g}. These four numbers were chosen in view of both batches, so no domain here is new to",
        "them, and numbers nearby do about as well. Before, a list was taken to hold what its columns said: too many",
        "tools of a long one, so that no set seemed to suffice. Tried in view of the shipped cells, and little",
        "was gained: a law of set sizes learned from the other domains, averages over several numbers of tools and",
        "several powers, a number between the columns' own and this one, and the same for Claude's scores. Earlier: a",
        "random effect of the domain averaged over, an intercept for every ranking, a mixture of models of single",
        "rankings, boosted trees, more columns.\n",
    ]


def _worst(rows: Rows) -> list[str]:
    """The worst cell, and how often nothing is kept where the top 5 earn something."""
    lines = [
        f"The worst cell should lie above {WORST:g}, and where the top 5 earn something under the exact value, nothing",
        f"should be kept in at most {MOST_EMPTY:.0%} of tasks:\n",
        "| domains | worst margin over the best constant | cells where the top 5 earn something | nothing kept, mean "
        f"| cells with more than {MOST_EMPTY:.0%} |",
        "| --- | --- | --- | --- | --- |",
    ]
    for batch in BATCHES:
        here = of_batch(rows, batch)
        worst = float(margins_over_constants(here).min())
        missed = "" if worst > WORST else " (**no**)"
        empty = column([row for row in here if row["value"] == "exact" and row["top-k, 5"] > 0], EMPTY)
        lines.append(
            f"| {batch} | {worst:+.3f}{missed} | {len(empty)} | {empty.mean():.1%} | {(empty > MOST_EMPTY).sum()} |"
        )
    return [*lines, ""]


def _by_constant(rows: Rows) -> list[str]:
    over_each = margins_over_constants(rows)
    lines = ["| against | comparisons won | mean margin | worst |", "| --- | --- | --- | --- |"]
    for name, margin in zip(CONSTANTS, over_each.T, strict=True):
        lines.append(f"| {name} | {(margin > 0).mean():.3f} | {margin.mean():+.3f} | {margin.min():+.3f} |")
    best = over_each.min(axis=1)
    last = f"| the best of them in each cell | {(best > 0).mean():.3f} | {best.mean():+.3f} | {best.min():+.3f} |"
    return [*lines, last, "", "![Margins over each constant](pictures/cold-start.png)\n"]


def _by_pair(rows: Rows) -> list[str]:
    lines = [
        "| domain, ranking | comparisons won | all six | mean margin over the best constant | worst | lost most to |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for domain, scorer in pairs_of(rows):
        part = of_pair(rows, (domain, scorer))
        over_each = margins_over_constants(part)
        won, cells = shares_won(part)
        best = over_each.min(axis=1)
        lost = (over_each <= 0).mean(axis=0)
        worst = list(CONSTANTS)[int(lost.argmax())]
        lines.append(
            f"| {domain}, {scorer} | {won:.2f} | {cells:.2f} | {best.mean():+.3f} | {best.min():+.3f} | {worst} |"
        )
    return [*lines, ""]


def _by_price(rows: Rows) -> list[str]:
    lines = ["| value | cost pressure | comparisons won | all six |", "| --- | --- | --- | --- |"]
    for value, pressure in product(("exact", "partial"), sorted({row["cost_pressure"] for row in rows})):
        part = [row for row in rows if (row["value"], row["cost_pressure"]) == (value, pressure)]
        won, cells = shares_won(part)
        lines.append(f"| {value} | {pressure:g} | {won:.2f} | {cells:.2f} |")
    best = {pair: margins_over_constants(of_pair(rows, pair)).min(axis=1) for pair in pairs_of(rows)}
    behind = sorted((pair for pair in best if best[pair].mean() < 0), key=lambda pair: best[pair].mean())
    return [
        *lines,
        "",
        "So do not rely on it where tools are cheap and every required one is needed. On average over its cells it is",
        f"behind the best constant in {len(behind)} of {len(best)} rankings, the worst first:",
        "; ".join(f"{domain} under {scorer}" for domain, scorer in behind) + ".",
        "They are of two kinds: scores that say little (minilm), where it takes too much or too little, and Claude's",
        "where one cut, at 0.3 or 0.5, already parts them well. But which constant is best differs from cell to cell,",
        "and the wrong one costs far more: see the mean margins above.\n",
    ]


def pictures(rows: Rows) -> dict[str, Picture]:
    """Margins over every constant."""
    return {"cold-start": constants_picture(rows)}


@styled
def constants_picture(rows: Rows) -> Picture:
    """A panel a constant, a line a domain and ranking, a dot a cell: blue where the cold start pays more."""
    pairs = pairs_of(rows)[::-1]
    pair_names = [f"{domain}, {scorer}" for domain, scorer in pairs]
    picture, grid = canvas(2 * COLUMN, 0.17 * len(pairs) + 0.9, 1, len(CONSTANTS))
    for axes, (place, name) in zip(np.ravel(grid), enumerate(CONSTANTS), strict=True):
        for line, pair in enumerate(pairs):
            over_this = margins(of_pair(rows, pair), COLD, name)
            for part, color in ((over_this > 0, BLUE), (over_this <= 0, VERMILLION)):
                shown = np.clip(over_this[part], -0.5, 1.0)
                axes.plot(shown, np.full(len(shown), line), "o", color=color, markersize=2, alpha=0.5, mew=0)
        axes.axvline(0, color=GRAY, linewidth=0.8)
        axes.set(xlim=(-0.55, 1.05), xticks=(-0.5, 0, 0.5, 1), xticklabels=("-.5", "0", ".5", "1"))
        axes.set_yticks(range(len(pairs)), pair_names if place == 0 else [""] * len(pairs))
        axes.set_title(f"over {name}", fontsize=7)
    label = "mean payoff of the cold start minus that of the constant, cut at -0.5 and 1; a dot is a cell"
    picture.supxlabel(label, fontsize=8)
    return picture


def _at_least(share: float, target: float) -> str:
    return f"at least {target:g}: {yes_or_no(share >= target)}"


STUDY = Study("cold_start", measure, recheck, section, pictures)

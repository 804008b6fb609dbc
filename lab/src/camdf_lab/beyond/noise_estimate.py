"""Does the estimate of label noise find the noise that was put in? Known shares of labels flipped, in every domain."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from camdf.core.rankings import Floats
from camdf.evaluation.drawing import BLUE, COLUMN, GRAY, VERMILLION, canvas, styled
from camdf.policies.models.label_noise import FEWEST_LABELS, noise_of
from camdf_lab import domains
from camdf_lab.beyond.batches import BATCHES, all_pairs, of_batch
from camdf_lab.beyond.priors import Unseen
from camdf_lab.flips import flipped
from camdf_lab.stored import Row, Rows
from camdf_lab.study import Run, Study, column, differing, mean_of, of_pair, pairs_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture

FLIPPED_SHARES = (0.0, 0.02, 0.05, 0.1, 0.2)
NOISE_DRAWS = 5
LARGE_TASKS = 400
LARGE_DRAWS = 2
"""Domains of more tasks get fewer draws: each has thousands of labels, and takes seconds to fit."""

RECHECKED_TASKS = 100


def rows_of(domain: str, scorer: str, injected: float) -> list[Row]:
    """One row a draw of flips; without flips there is one draw."""
    logged = domains.load(domain, scorer)
    rows: list[Row] = []
    for draw in range(_draws(len(logged), injected)):
        taught = flipped(logged, injected, np.random.default_rng([draw, 3]))
        policy = Unseen(domain)
        estimate = noise_of(taught, policy.learn(taught))
        place = {"domain": domain, "scorer": scorer, "injected": injected, "draw": draw}
        all_labels = int(logged.rankings.lengths.sum())
        figures = {
            "rate": estimate.rate,
            "at_most": estimate.at_most,
            "sure_labels": estimate.labels,
            "labels": all_labels,
        }
        rows.append({**place, **figures, "believed": policy.label_noise_})
    return rows


def _draws(tasks: int, injected: float) -> int:
    """How many draws of flips."""
    if not injected:
        return 1
    return LARGE_DRAWS if tasks > LARGE_TASKS else NOISE_DRAWS


def measure(run: Run) -> Rows:
    """Every domain, ranking and share of flips."""
    return run.rows(rows_of, [(*pair, injected) for pair in all_pairs() for injected in FLIPPED_SHARES])


def recheck(rows: Rows, seed: int, run: Run) -> list[str]:
    """One small domain, ranking and share, all draws again."""
    rng = np.random.default_rng(seed)
    pairs = all_pairs(RECHECKED_TASKS)
    again = rows_of(*pairs[rng.integers(len(pairs))], FLIPPED_SHARES[rng.integers(len(FLIPPED_SHARES))])
    figures = ("rate", "at_most", "sure_labels", "believed")
    return differing(rows, again, ("domain", "scorer", "injected", "draw"), figures)


def by_injected_share(rows: Rows) -> dict[float, dict[str, float]]:
    """By injected share: the mean bound, how often its upper end holds, and what the default believes."""
    figures = {}
    for injected in FLIPPED_SHARES:
        here = _with_injected(rows, injected)
        bound = column(here, "at_most")
        believed = _believed(rows, injected)
        figures[injected] = {
            "mean": mean_of(here, "rate"),
            "bound": float(bound.mean()),
            "holds": float((bound >= injected).mean()),
            "believed": float(believed.mean()),
            "believed error": float(np.abs(believed - injected).mean()),
            "estimates": len(here),
        }
    return figures


def section(rows: Rows) -> list[str]:
    """Bound and belief by injected share, and what is believed by domain."""
    lines = [
        "## How many labels are wrong?\n",
        "`estimate_label_noise` answers from the logged tasks alone. A prediction that is right with probability r is",
        "contradicted by a label flipped with probability e in e + (1 - 2e)(1 - r) of cases, never less than e. So the",
        "share of contradicted labels among the surest held-out predictions bounds e from above; of all predictions,",
        f"the surest half, quarter and so on (down to {FEWEST_LABELS} labels), the one whose 95% interval ends lowest",
        "is taken. `camdf fit` stores the estimate with the policy. What the default itself believes, and learns by,",
        "is another number: the share of flips under which held-out labels are likeliest. Checked against flips put",
        "in:\n",
        "| domains | flipped | estimates | mean bound | mean upper end | upper end holds | believed | error of that |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for batch in BATCHES:
        for injected, figures in by_injected_share(of_batch(rows, batch)).items():
            lines.append(
                f"| {batch} | {injected:g} | {figures['estimates']:.0f} | {figures['mean']:.3f} "
                f"| {figures['bound']:.3f} | {figures['holds']:.0%} | {figures['believed']:.3f} "
                f"| {figures['believed error']:.3f} |"
            )
    lines += [
        "",
        "The upper end is the bound to rely on; choosing the lowest of several makes it a little too tight, as the",
        "column shows. From below it promises nothing: a task that is hard to read looks like a wrong label, and only",
        "what the default believes tells the two apart. So labels are wrong in at most about the share under '0",
        "flipped', unless they are wrong in a way that the scores foresee, which nothing here can notice. What the",
        "default believes, by domain and ranking:\n",
        "| domain, ranking | labels | " + " | ".join(f"{injected:g} flipped" for injected in FLIPPED_SHARES) + " |",
        "| --- | --- |" + " --- |" * len(FLIPPED_SHARES),
    ]
    for pair in pairs_of(rows):
        here = of_pair(rows, pair)
        means = " | ".join(f"{_believed(here, injected).mean():.3f}" for injected in FLIPPED_SHARES)
        lines.append(f"| {pair[0]}, {pair[1]} | {here[0]['labels']:,.0f} | {means} |")
    return [*lines, "", "![Estimated against injected label noise](pictures/noise-estimate.png)\n"]


def pictures(rows: Rows) -> dict[str, Picture]:
    """Estimated against injected."""
    return {"noise-estimate": estimated_by_injected(rows)}


@styled
def estimated_by_injected(rows: Rows) -> Picture:
    """What is believed and the upper end, against the share of labels that was flipped; the diagonal is the truth."""
    picture, axes = canvas(COLUMN * 1.4, 3.2)
    axes.plot([0, 0.22], [0, 0.22], color=GRAY, linewidth=0.8, linestyle=":", label="what was put in")
    places = np.random.default_rng(0).uniform(-0.004, 0.004, len(rows))
    for name, shift, color, marker, label in (
        ("at_most", 0.006, VERMILLION, "^", "the bound's upper end"),
        ("believed", -0.006, BLUE, "o", "what the default believes"),
    ):
        at = column(rows, "injected") + shift + places
        axes.plot(at, column(rows, name), marker, color=color, markersize=2.5, alpha=0.5, mew=0, label=label)
    axes.set(xticks=FLIPPED_SHARES, xlabel="share of labels flipped", ylabel="estimated share", ylim=(-0.005, None))
    axes.legend(loc="upper left")
    return picture


def _believed(rows: Rows, injected: float) -> Floats:
    return column(_with_injected(rows, injected), "believed")


def _with_injected(rows: Rows, injected: float) -> Rows:
    return [row for row in rows if row["injected"] == injected]


STUDY = Study("noise_estimate", measure, recheck, section, pictures)

"""What the page says of promised sufficiency: what each level gave, and the frontier picture."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

from camdf_lab import domains
from camdf_lab.beyond.batches import BATCHES, all_pairs, of_batch
from camdf_lab.beyond.priors import Unseen
from camdf_lab.beyond.promises import CALIBRATION_SHARE, LEVELS, RECALIBRATIONS, Promises, promises
from camdf_lab.beyond.promises_picture import frontier_picture
from camdf_lab.stored import Row, Rows
from camdf_lab.study import Run, Study, column, differing, mean_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture

DRAWN = (("workbench", "minilm"), ("metatool", "minilm"))
RECHECKED = ("retail", "claude")
SHOWN_UNITS = 60
TOLERANCE = 0.005
FIGURES = ("level", "units", "refused", "highest", "sufficiency", "error", "kept", "cost")


def rows_of(domain: str, scorer: str) -> list[Row]:
    """One row a promised level."""
    rows: list[Row] = []
    for promise in _promises(domain, scorer).coverage:
        figures = {name: getattr(promise, name) for name in FIGURES}
        rows.append({"domain": domain, "scorer": scorer, **figures})
    return rows


def measure(run: Run) -> Rows:
    """Every domain and ranking, each fitted once and recalibrated a thousand times."""
    return run.rows(rows_of, all_pairs())


def recheck(rows: Rows, seed: int, run: Run) -> list[str]:
    """Retail's thousand recalibrations, all of them again."""
    return differing(rows, rows_of(*RECHECKED), ("domain", "scorer", "level"), FIGURES)


def section(rows: Rows) -> list[str]:
    """The coverage table, and what a promise is not."""
    lines = [
        "## Say what is wanted: a sufficiency or a budget\n",
        "`pressure_for_sufficiency` finds the highest cost pressure that promises, say, every required tool in 95% of",
        "tasks, by conformal risk control: no distribution and no model is assumed. `pressure_for_budget` finds the",
        "lowest pressure whose mean cost is within a budget. Here the default is fitted once on half of the groups of",
        f"every domain and ranking; {CALIBRATION_SHARE:.0%} of the other half calibrate and the rest test, drawn",
        f"{RECALIBRATIONS:,} times.\n",
        "| domains | level | rankings | promised in | kept | lowest kept | cost |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for batch, level in product(BATCHES, LEVELS):
        here = [row for row in of_batch(rows, batch) if row["level"] == level]
        if not here:
            continue
        worst = min(here, key=lambda row: row["kept"])
        promised = (1 - column(here, "refused")).mean()
        lines.append(
            f"| {batch} | {level:.2f} | {len(here)} | {promised:.0%} of draws | {mean_of(here, 'kept'):.3f} "
            f"| {worst['kept']:.3f} ({worst['domain']}, {worst['scorer']}) | {_mean_cost(here)} |"
        )
    broken = [row for row in rows if row["kept"] < row["level"] - TOLERANCE]
    names_of_broken = [f"Below that: {'; '.join(map(_kept_where, broken))}."] if broken else []
    lines += [
        "",
        "'Promised in' is the share of draws that did not refuse the level: lists that miss required tools, or too few",
        "groups, cannot promise it, and the error names the highest level that can be. 'Kept' is what the guarantee",
        "bounds from below by the level: 1 minus the mean loss, a refused draw counting as no loss. It is kept",
        f"within {TOLERANCE:g} in {len(rows) - len(broken)} of {len(rows)} rankings and levels.",
        *names_of_broken,
        "Where most draws are refused, the others were lucky, and tasks after them do worse than the level. The",
        "rankings of most tasks, and one of few:\n",
        "| domain, ranking | level | calibrating groups | refused | highest level | sufficiency | kept | cost |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in rows:
        if row["units"] < SHOWN_UNITS and (row["domain"], row["scorer"]) != RECHECKED:
            continue
        given = " |  | "
        if row["refused"] < 1:
            given = f"{row['sufficiency']:.3f} ± {row['error']:.3f} | {row['kept']:.3f} | {row['cost']:.2f}"
        lines.append(
            f"| {row['domain']}, {row['scorer']} | {row['level']:.2f} | {row['units']:.0f} | {row['refused']:.0%} "
            f"| {row['highest']:.3f} | {given} |"
        )
    return [*lines, "", "![Sufficiency against cost, with promised levels and budgets](pictures/promises.png)\n"]


def _mean_cost(rows: Rows) -> str:
    """Over the rows with a promise, if there are any."""
    promised = [row for row in rows if row["refused"] < 1]
    return f"{mean_of(promised, 'cost'):.2f}" if promised else ""


def _kept_where(row: Row) -> str:
    return f"{row['domain']} under {row['scorer']}, {row['level']:.2f}, {row['kept']:.3f}"


def pictures(rows: Rows) -> dict[str, Picture]:
    """The frontier of two domains, measured again: the curve has thousands of points and is not stored."""
    drawn = {f"{domain}, {scorer}": _promises(domain, scorer) for domain, scorer in DRAWN}
    return {"promises": frontier_picture(drawn)}


def _promises(domain: str, scorer: str) -> Promises:
    return promises(domains.load(domain, scorer), Unseen(domain))


STUDY = Study("promises", measure, recheck, section, pictures)

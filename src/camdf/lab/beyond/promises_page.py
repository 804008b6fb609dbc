"""What the page says of promised sufficiency: what each level gave, and the frontier picture."""

from __future__ import annotations

from typing import TYPE_CHECKING

from camdf import datasets
from camdf.lab.beyond.promises import CALIBRATION_SHARE, RECALIBRATIONS, Promises, promises
from camdf.lab.beyond.promises_picture import frontier_picture
from camdf.lab.stored import Row, Rows
from camdf.lab.study import Run, Study, differing

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture

CELLS = (
    ("workbench", "claude"),
    ("workbench", "minilm"),
    ("metatool", "minilm"),
    ("retail", "claude"),
    ("seal-tools", "bm25"),
)
DRAWN = CELLS[1:3]
RECHECKED = ("retail", "claude")
FIGURES = ("level", "units", "refused", "highest", "sufficiency", "error", "kept", "cost")


def rows_of(domain: str, scorer: str) -> list[Row]:
    """One row a promised level."""
    found = _promises(domain, scorer).coverage
    place = {"domain": domain, "scorer": scorer}
    return [{**place, **{name: getattr(each, name) for name in FIGURES}} for each in found]


def measure(run: Run) -> Rows:
    """Every cell, each fitted once and recalibrated a thousand times."""
    return [row for cell in CELLS for row in rows_of(*cell)]


def recheck(rows: Rows, seed: int, run: Run) -> list[str]:
    """Retail's thousand recalibrations, all of them again."""
    return differing(rows, rows_of(*RECHECKED), ("domain", "scorer", "level"), FIGURES)


def section(rows: Rows) -> list[str]:
    """The coverage table, and what a promise is not."""
    lines = [
        "## Say what is wanted: a sufficiency or a budget\n",
        "`pressure_for_sufficiency` finds the highest cost pressure that promises, say, every required tool in 95% of",
        "tasks, by conformal risk control: no distribution and no model is assumed. `pressure_for_budget` finds the",
        "lowest pressure whose mean cost is within a budget. Here the default is fitted once on half of the groups;",
        f"{CALIBRATION_SHARE:.0%} of the other half calibrate and the rest test, drawn {RECALIBRATIONS:,} times.\n",
        "| held-out tasks | level | calibrating groups | refused | highest level | sufficiency | kept | cost |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in rows:
        none = row["refused"] == 1
        given = "" if none else f"{row['sufficiency']:.3f} ± {row['error']:.3f}"
        tail = " | " if none else f"{row['kept']:.3f} | {row['cost']:.2f}"
        lines.append(
            f"| {row['domain']}, {row['scorer']} | {row['level']:.2f} | {row['units']:.0f} | {row['refused']:.0%} "
            f"| {row['highest']:.3f} | {given} | {tail} |"
        )
    return [
        *lines,
        "",
        "'Refused' is the share of draws whose lists or sample size cannot promise the level; the error names the",
        "highest that can be, whose mean is shown. 'Sufficiency' is over the draws that did promise. 'Kept' is what",
        "the guarantee bounds by the level: 1 minus the mean loss, a refused draw counting as no loss. Where most",
        "draws are refused, the others were lucky, and tasks after them do worse than the level.\n",
        "![Sufficiency against cost, with promised levels and budgets](pictures/promises.png)\n",
    ]


def pictures(rows: Rows) -> dict[str, Picture]:
    """The frontier of two domains, measured again: the curve has thousands of points and is not stored."""
    return {
        "promises": frontier_picture({f"{domain}, {scorer}": _promises(domain, scorer) for domain, scorer in DRAWN})
    }


def _promises(domain: str, scorer: str) -> Promises:
    return promises(datasets.load(domain, scorer))


STUDY = Study("promises", measure, recheck, section, pictures)

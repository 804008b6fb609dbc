"""The page that sets the paper beside the replays: Markdown, with its pictures beside it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from camdf.evaluation.replay import ORACLE, Outcomes
from camdf_lab.page import picture_line, write_page
from camdf_lab.paper import NOT_REPLICATED, TABLES
from camdf_lab.paper.cells import Cell
from camdf_lab.paper.markup import LEVELS_AND_DIFFERENCES, markdown, markdown_findings, markdown_summary
from camdf_lab.paper.pictures import (
    dispersion_picture,
    interval_picture,
    payoff_by_depth_picture,
    regime_picture,
    verdict_picture,
)
from camdf_lab.paper.results import StoredResults
from camdf_lab.paper.summary import by_place, sentences
from camdf_lab.paper.table import Result

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture

WITH_INTERVALS = ("ablations", "atlas-unit", "atlas-vectors", "tuning-controls", "ordering")
"""The tables whose differences are drawn with their intervals."""

CAPTIONS = {
    "payoff-by-depth": "Payoff against the number of tools",
    "main": "Payoff against cost dispersion on Retail",
    "dense-grid": "CAM-DF minus each baseline, over cost pressure and dispersion",
    **dict.fromkeys(WITH_INTERVALS, "Differences with 95% intervals, ours and the paper's"),
}
"""The tables that have a picture, and what each picture shows."""

OVERVIEW = "overview"
"""The picture of all verdicts."""

POLICIES_SHOWN = (
    "fixed-k",
    "score-threshold",
    "score-per-cost-threshold",
    "predict-then-threshold",
    "cam-df-lite",
    "cam-df",
    ORACLE,
)


def picture_cells() -> list[Cell]:
    """The cells whose outcomes the pictures draw; all else is drawn from stored results."""
    return [*TABLES["payoff-by-depth"].cells, *_retail_by_dispersion().values()]


def pictures(results: Iterable[Result], outcomes: Mapping[Cell, Outcomes]) -> dict[str, Picture]:
    """Every figure of the paper that a replay can draw, by the name of its table; and the overview of all verdicts."""
    every = list(results)
    by_table = {name: list(by_place(table, every).values()) for name, table in TABLES.items()}
    (depth_cell,) = TABLES["payoff-by-depth"].cells
    by_dispersion = {d: outcomes[cell] for d, cell in _retail_by_dispersion().items()}
    return {
        "payoff-by-depth": payoff_by_depth_picture(
            depth_cell.logged(), depth_cell.payoff, outcomes[depth_cell], POLICIES_SHOWN
        ),
        "main": dispersion_picture(by_dispersion, POLICIES_SHOWN),
        "dense-grid": regime_picture(TABLES["dense-grid"], every),
        **{name: interval_picture(by_table[name]) for name in WITH_INTERVALS},
        OVERVIEW: verdict_picture({name: filled for name, filled in by_table.items() if filled}),
    }


def write_markdown(stored: StoredResults, outcomes: Mapping[Cell, Outcomes], output: Path) -> None:
    """The page as Markdown, with its pictures in a folder beside it."""
    write_page(output, markdown_page(stored.results), pictures(stored.results, outcomes))


def markdown_page(results: Iterable[Result]) -> str:
    """The text of the Markdown page, from stored results alone."""
    every = list(results)
    parts = [
        "# What replicates\n",
        "Every table and figure of 'Scores Are Not Decisions', run again on open data with this package, beside the",
        "paper's own numbers. Written by `camdf-lab run all` and `camdf-lab report`;",
        "words such as payoff, cost pressure and sufficiency are in the [glossary](../../docs/glossary.md).\n",
        *(f"{sentence}\n" for sentence in sentences(every)),
        "Many entries overlap, since several tables read the same replays, so read the tables rather than the totals.",
        "Tables named after another ranker or after grouped splits repeat a table of the paper under other conditions.",
        f"{LEVELS_AND_DIFFERENCES}\n",
        f"{picture_line(OVERVIEW, 'Verdicts by table')}\n",
        markdown_summary(TABLES.values(), every),
        "## What stands out\n",
        "One finding a table. Gains and losses are differences in mean payoff whose interval excludes zero.\n",
        markdown_findings(TABLES.values(), every),
        "## Not replicated\n",
        *(f"- {what}: {why}." for what, why in NOT_REPLICATED.items()),
        "\n## The tables\n",
    ]
    for name, table in TABLES.items():
        parts.append(markdown(table, every))
        if name in CAPTIONS:
            parts.append(f"{picture_line(name, table.title)}\n")
    return "\n".join(parts)


def _retail_by_dispersion() -> dict[float, Cell]:
    return {cell.dispersion: cell for cell in TABLES["main"].cells if cell.domain == "retail"}

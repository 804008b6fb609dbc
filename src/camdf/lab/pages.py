"""The pages that set the paper beside the replays: one HTML file, or Markdown with its pictures beside it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from camdf.lab.plots import dispersion_curves, intervals, payoff_by_depth, regime_map, save, svg, verdict_overview
from camdf.lab.replay import Outcomes
from camdf.lab.report import html, sentences
from camdf.lab.results import Stored
from camdf.lab.studies import NOT_REPLICATED, STUDIES
from camdf.lab.study import Result
from camdf.lab.tables import by_place, markdown, markdown_summary

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture

    from camdf.lab.cells import Cell

REGIME_MAPS = ("dense-grid",)
INTERVAL_PLOTS = ("ablations", "atlas-unit", "atlas-vectors", "tuning-controls", "ordering")
SHOWN_POLICIES = {
    "Tuned fixed-k": "fixed-k",
    "Score threshold": "score-threshold",
    "Score-per-cost threshold": "score-per-cost",
    "Predict-then-threshold": "predict",
    "CAM-DF-lite": "cam-df-lite",
    "CAM-DF": "cam-df",
    "Prefix oracle": "prefix-oracle",
}


def picture_cells() -> list[Cell]:
    """The cells whose outcomes the pictures draw; all else comes from stored results."""
    return [*STUDIES["payoff-by-depth"].cells, *(cell for cell in STUDIES["main"].cells if cell.domain == "retail")]


def pictures(results: Iterable[Result], outcomes: Mapping[Cell, Outcomes]) -> dict[str, dict[str, Picture]]:
    """Every figure of the paper that a replay can draw: study, caption, picture."""
    found = list(results)
    of = {name: list(by_place(study, found).values()) for name, study in STUDIES.items()}
    depth_cell = STUDIES["payoff-by-depth"].cells[0]
    by_dispersion = {c.dispersion: outcomes[c] for c in STUDIES["main"].cells if c.domain == "retail"}
    drawn: dict[str, dict[str, Picture]] = {
        "payoff-by-depth": {
            "Payoff against the number of tools": payoff_by_depth(
                depth_cell.logged(), depth_cell.payoff, outcomes[depth_cell], SHOWN_POLICIES
            )
        },
        "main": {"Payoff against cost dispersion on Retail": dispersion_curves(by_dispersion, SHOWN_POLICIES)},
    }
    for name in REGIME_MAPS:
        drawn[name] = {"CAM-DF minus each baseline, over cost pressure and dispersion": regime_map(of[name])}
    for name in INTERVAL_PLOTS:
        drawn[name] = {"Differences with 95% intervals, ours and the paper's": intervals(of[name])}
    drawn["overview"] = {"Verdicts by study": verdict_overview({name: rows for name, rows in of.items() if rows})}
    return drawn


def write_html(stored: Stored, outcomes: Mapping[Cell, Outcomes], output: Path) -> None:
    """One page that needs nothing besides itself."""
    drawn = {
        study: {caption: svg(picture) for caption, picture in each.items()}
        for study, each in pictures(stored.results, outcomes).items()
    }
    output.write_text(html(STUDIES.values(), stored.results, drawn), encoding="utf-8")


def write_markdown(stored: Stored, outcomes: Mapping[Cell, Outcomes], output: Path) -> None:
    """The page as Markdown, its pictures in a folder beside it."""
    folder = output.parent / "pictures"
    folder.mkdir(parents=True, exist_ok=True)
    for study, each in pictures(stored.results, outcomes).items():
        for picture in each.values():
            save(picture, folder / study)
    output.write_text(markdown_page(stored.results), encoding="utf-8")


def markdown_page(results: Iterable[Result]) -> str:
    """The text of the Markdown page, from stored results alone."""
    found = list(results)
    drawn = {"payoff-by-depth", "main", *REGIME_MAPS, *INTERVAL_PLOTS}
    parts = [
        "# What replicates\n",
        "Every table and figure of 'Scores Are Not Decisions', run again on open data with this package, beside the",
        "paper's own numbers. Written by `camdf lab run all` and `camdf lab report -o docs/replication.md`.\n",
        *(f"{sentence}\n" for sentence in sentences(found)),
        "Many entries overlap (several tables read the same replays), and 'no clear difference in either' is weak",
        "evidence, so read the tables rather than the totals. Studies named after another ranker or after grouped",
        "splits repeat a table of the paper under other conditions.\n",
        "![Verdicts by study](pictures/overview.png)\n",
        markdown_summary(STUDIES.values(), found),
        "## Not replicated\n",
        *(f"- {what}: {why}." for what, why in NOT_REPLICATED.items()),
        "\n## The studies\n",
    ]
    for name, study in STUDIES.items():
        parts.append(markdown(study, found))
        if name in drawn:
            parts.append(f"![{study.title}](pictures/{name}.png)\n")
    return "\n".join(parts)

"""Tables, pictures and pages: what they say, not how many pixels it takes."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from camdf import MissingExtraError, Payoff
from camdf.evaluation import drawing
from camdf.evaluation.replay import ORACLE, Outcomes, replay
from camdf.evaluation.splits import draw_splits
from camdf_lab.page import picture_line, write_page
from camdf_lab.paper import markup, pictures, summary
from camdf_lab.paper.cells import Cell
from camdf_lab.paper.contestants import CONTESTANTS
from camdf_lab.paper.figure import Figure
from camdf_lab.paper.quantities import Difference, Mean
from camdf_lab.paper.table import Entry, Result, Table, judge
from saying import refuses, says
from worlds import random_logged

NASTY = "a & b <i>|50%_$x\\~"

POLICIES = ("fixed-k", "score-threshold", "acquire-all", ORACLE)


def table(name: str, entries: tuple[Entry, ...], differs: str = "") -> Table:
    return Table(name, f"Title of {name}", "tab:x", differs, entries)


def result(name: str, row: str, column: str, ours: Figure, paper: Figure | None) -> Result:
    return Result(name, row, column, ours, paper, ours, paper, *judge(ours, paper))


WIN = Figure.between(0.048, 0.019, 0.075)
LOSS = Figure.between(-0.31, -0.4, -0.2)
UNCLEAR = Figure.between(0.01, -0.02, 0.04)
GRID = table(
    "grid",
    tuple(
        Entry(
            f"{baseline}, d={d:g}",
            f"lambda {pressure:.2f}",
            (Cell("retail", "claude", ("cam-df", baseline), cost_pressure=pressure, dispersion=d),),
            Difference("cam-df", baseline),
        )
        for baseline in ("fixed-k", "predict-then-threshold")
        for d in (0.0, 1.0)
        for pressure in (0.05, 0.12)
    ),
)
GRID_RESULTS = [
    result("grid", entry.row, entry.column, WIN if entry.cells[0].dispersion else UNCLEAR, Figure(0.05, clear=True))
    for entry in GRID.entries
]
MIXED = table(
    "mixed",
    tuple(
        Entry(row, column, (), Mean("fixed-k"))
        for row in ("level", NASTY, "keyword-rule")
        for column in ("d=0", "50% & more")
    ),
    f"Only {NASTY}",
)
MIXED_RESULTS = [
    result("mixed", "level", "d=0", Figure(0.3521), Figure(0.4)),
    result("mixed", "level", "50% & more", Figure(1495.0), None),
    result("mixed", NASTY, "d=0", LOSS, WIN),
    result("mixed", NASTY, "50% & more", WIN, Figure.between(0.1, 0.05, 0.15)),
    result("mixed", "keyword-rule", "d=0", Figure(float("nan")), Figure(0.1)),
]
TABLES = (GRID, MIXED)
RESULTS = [*GRID_RESULTS, *MIXED_RESULTS]


@pytest.fixture(scope="module")
def replays() -> dict[float, Outcomes]:
    found = {}
    for number, dispersion in enumerate((0.0, 1.0, 1.5)):
        logged = random_logged(np.random.default_rng(number), 30, 5)
        policies = {name: CONTESTANTS[name] for name in POLICIES if name != ORACLE}
        found[dispersion] = replay(policies, logged, Payoff(0.1), draw_splits(logged, 3, 0))
    return found


def test_numbers_have_signs_stars_and_intervals() -> None:
    assert markup.number_text(WIN) == "+0.048*"
    assert markup.number_text(UNCLEAR) == "+0.010"
    assert markup.number_text(Figure(0.3521)) == "0.352"
    assert markup.number_text(Figure(float("nan"))) == "-"
    assert markup.interval_text(LOSS) == "[-0.400, -0.200]"
    assert markup.interval_text(Figure(0.1)) == ""


def test_markdown_has_ours_the_papers_and_the_verdict_in_one_cell() -> None:
    text = markup.markdown(MIXED, RESULTS)
    assert r"| -0.310\* [-0.400, -0.200]<br>paper +0.048\* [+0.019, +0.075]<br>**differs** |" in text
    assert "| level | 0.352<br>paper 0.400 | 1,495 |" in text
    assert "| keyword-rule | -<br>paper 0.100 |  |" in text
    assert "lambda" not in text


def test_markdown_escapes_what_would_break_a_table() -> None:
    text = markup.markdown(MIXED, RESULTS)
    assert r"| a &amp; b &lt;i&gt;\|50%\_\$x\\\~ |" in text
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {4}


def test_summary_counts_every_verdict_once() -> None:
    lines = markup.markdown_summary(TABLES, RESULTS).splitlines()
    assert lines[2] == "| Title of grid | tab:x | 8 | 4 | 4 | 0 | 0 | 0 |"
    assert lines[3] == "| Title of mixed | tab:x | 5 | 1 | 0 | 0 | 1 | 3 |"
    assert lines[4] == "| **all** |  | 13 | 5 | 4 | 0 | 1 | 3 |"
    assert set(summary.verdict_counts(RESULTS)) == set(summary.VERDICTS)


def test_a_picture_is_written_twice_with_equal_bytes_each_time(tmp_path: Path, replays: dict[float, Outcomes]) -> None:
    logged = random_logged(np.random.default_rng(0), 30, 5)
    payoff = Payoff(0.1)

    def draw() -> dict[str, Any]:
        return {
            "depth": pictures.payoff_by_depth_picture(logged, payoff, replays[0.0], POLICIES),
            "curves": pictures.dispersion_picture(replays, POLICIES),
            "map": pictures.regime_picture(GRID, GRID_RESULTS),
            "forest": pictures.interval_picture(RESULTS),
            "verdicts": pictures.verdict_picture({"grid": GRID_RESULTS, "mixed": MIXED_RESULTS}),
        }

    for folder in ("first", "second"):
        for name, picture in draw().items():
            vector, pixels = drawing.save_picture(picture, tmp_path / folder / name)
            assert (vector.name, pixels.name) == (f"{name}.svg", f"{name}.png")
    for path in sorted((tmp_path / "first").iterdir()):
        assert path.read_bytes() == (tmp_path / "second" / path.name).read_bytes(), path.name
    assert len(list((tmp_path / "first").iterdir())) == 10
    assert b"<dc:date>" not in (tmp_path / "first" / "map.svg").read_bytes()
    ElementTree.parse(tmp_path / "first" / "map.svg")


def test_payoff_by_depth_places_policies_at_their_means(replays: dict[float, Outcomes]) -> None:
    logged = random_logged(np.random.default_rng(0), 30, 5)
    payoff = Payoff(0.1)
    whole, near = pictures.payoff_by_depth_picture(logged, payoff, replays[0.0], POLICIES).axes
    drawn = {line.get_label(): line.get_xydata() for line in whole.lines}
    np.testing.assert_allclose(np.asarray(drawn["common top-k"])[:, 1], payoff.by_depth(logged).mean(axis=0))
    for policy in POLICIES:
        point = replays[0.0].mean(policy, "tools"), replays[0.0].mean(policy)
        np.testing.assert_allclose(np.asarray(drawn[policy])[0], point)
        assert near.get_xlim()[0] < point[0] < near.get_xlim()[1]
        assert near.get_ylim()[0] < point[1] < near.get_ylim()[1]


def test_dispersion_curves_show_means_and_errors(replays: dict[float, Outcomes]) -> None:
    (axes,) = pictures.dispersion_picture(replays, POLICIES).axes
    assert axes.get_legend_handles_labels()[1] == list(POLICIES)
    bars: Any = axes.containers[0]
    np.testing.assert_allclose(bars.lines[0].get_xydata()[:, 1], [each.mean("fixed-k") for each in replays.values()])
    low, high = bars.lines[2][0].get_segments()[0][:, 1]
    assert (high - low) / 2 == pytest.approx(replays[0.0].standard_error("fixed-k"))


def test_regime_map_has_a_panel_a_baseline_and_a_star_where_clear() -> None:
    *panels, _ = pictures.regime_picture(GRID, [*GRID_RESULTS, *MIXED_RESULTS]).axes
    assert [axes.get_title() for axes in panels] == ["over fixed-k", "over predict-then-threshold"]
    assert [text.get_text() for text in panels[0].texts] == ["+0.01", "+0.01", "+0.05*", "+0.05*"]
    assert [tick.get_text() for tick in panels[0].get_yticklabels()] == ["0", "1"]
    assert panels[0].get_xlabel() == "cost pressure λ"
    assert panels[0].get_ylabel() == "cost dispersion d"
    low, high = panels[0].images[0].get_clim()
    assert low == -high


def test_intervals_leave_out_levels_and_refuse_nothing_to_show() -> None:
    (axes,) = pictures.interval_picture(MIXED_RESULTS).axes
    assert [tick.get_text() for tick in axes.get_yticklabels()] == ["d=0", "50% & more"]
    assert [text.get_text() for text in axes.texts] == [NASTY]
    with refuses(ValueError, must="at least one difference"):
        pictures.interval_picture(MIXED_RESULTS[:2])
    for results in (MIXED_RESULTS[:2], GRID_RESULTS):
        with refuses(ValueError, must="at least one difference"):
            pictures.regime_picture(MIXED, results)


def test_a_long_heading_stands_on_two_lines_above_its_own_group() -> None:
    long = "cam-df, no identity - predict-then-threshold"
    results = [result("t", row, column, WIN, None) for row in ("short", long, "last") for column in ("d=0", "d=1")]
    (axes,) = pictures.interval_picture(results).axes
    first, second, third = axes.texts
    assert (first.get_text(), third.get_text()) == ("short", "last")
    assert second.get_text().split("\n") == ["cam-df, no identity -", "predict-then-threshold"]
    places = axes.get_yticks().tolist()
    assert np.diff(places) == pytest.approx([1.0, 3.4, 1.0, 2.4, 1.0])
    assert [place for text in axes.texts for place in [text.get_position()[1]]] == pytest.approx(
        [places[0] - 0.95, places[2] - 1.45, places[4] - 0.95]
    )


def test_verdict_overview_prints_counts() -> None:
    (axes,) = pictures.verdict_picture({"grid": GRID_RESULTS, "mixed": MIXED_RESULTS}).axes
    assert [text.get_text() for text in axes.texts] == ["4", "4", "1", "1", "3"]


def test_a_page_has_its_pictures_beside_it_and_shows_them(tmp_path: Path) -> None:
    page = tmp_path / "new" / "page.md"
    write_page(
        page, f"# A page\n\n{picture_line('forest', 'Intervals')}\n", {"forest": pictures.interval_picture(RESULTS)}
    )
    (shown,) = re.findall(r"!\[Intervals\]\(([^)]+)\)", page.read_text(encoding="utf-8"))
    assert (page.parent / shown).is_file()
    assert sorted(path.name for path in (page.parent / shown).parent.iterdir()) == ["forest.png", "forest.svg"]


def test_drawing_leaves_no_trace_in_the_readers_settings() -> None:
    import matplotlib as mpl

    before = dict(mpl.rcParams)
    drawing.svg(pictures.interval_picture(GRID_RESULTS))
    assert dict(mpl.rcParams) == before


def test_without_matplotlib_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtraError, match=r"camdf\[plot\]"):
        pictures.interval_picture(GRID_RESULTS)


def test_the_page_names_losses_like_wins_and_what_is_furthest_from_the_paper() -> None:
    text = markup.markdown_findings(TABLES, RESULTS)
    gains, losses, apart = (text.index(each) for each in ("Largest gains", "Largest losses", "Furthest from the paper"))
    assert r"+0.048\* [+0.019, +0.075]" in text[gains:losses]
    assert r"-0.310\* [-0.400, -0.200]" in text[losses:apart]
    assert says(text[apart:], "opposite signs")
    assert "Largest losses:\n\nnone." in markup.markdown_findings(TABLES, GRID_RESULTS[:1])


def test_sentences_say_what_replicates_and_how_often_a_policy_wins_and_loses() -> None:
    words = " ".join(summary.sentences(RESULTS))
    assert says(words, "Of 13 numbers", "10 can be compared", "5 replicate", "same sign; 4 go")
    assert says(words, "0 are clear in neither", "0 of these")
    assert "and 1 differ." in words
    assert says(words, "clearly ahead in 5", "clearly behind in 1", "neither in 4")


def test_largest_takes_one_a_table_and_only_clear_ones() -> None:
    assert [(each.table, each.ours) for each in summary.largest(RESULTS, -1)] == [("mixed", LOSS)]
    assert [each.table for each in summary.largest(RESULTS, 1)] == ["grid", "mixed"]
    assert summary.largest(MIXED_RESULTS[:2], 1) == []
    assert [each.ours for each in summary.departures(RESULTS)] == [LOSS]

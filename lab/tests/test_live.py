"""docs/live.md: what is stored of the episodes, the paper's numbers beside it, and the two tests."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binomtest

from camdf_lab.cli import main
from camdf_lab.paper import live
from camdf_lab.paper.live import (
    ANNOTATED_SET,
    CONDITIONS,
    EVERY_READ_TOOL,
    INSUFFICIENT,
    PAPER,
    TASKS,
    WITH_CAMDF,
    WITH_SEARCH,
)

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "results"
EPISODES = ROOT.parents[1] / "shared" / "live"
SEVEN, MANY = live.episodes(RESULTS)


def test_the_page_and_its_picture_are_what_the_stored_episodes_say() -> None:
    assert (ROOT / "docs" / "live.md").read_text(encoding="utf-8") == live.live_page(RESULTS)
    (axes,) = live.live_picture(SEVEN).axes
    drawn = [np.asarray(line.get_xydata()) for line in axes.lines]
    points = {tuple(each[0].round(3)) for each in drawn if len(each) == 1}
    for height, name in enumerate(reversed(CONDITIONS)):
        assert (round(live.successes(SEVEN, name) / TASKS, 3), round(height + 0.14, 3)) in points
        assert name not in PAPER or (round(PAPER[name][0] / TASKS, 3), round(height - 0.14, 3)) in points


def test_every_task_has_one_episode_under_every_condition() -> None:
    assert len(SEVEN) + len(MANY) == 469
    for rows, names in ((SEVEN, CONDITIONS), (MANY, (live.ALL_415, live.SEARCH_415))):
        for name in names:
            assert (
                len({row["task_id"] for row in live.of_condition(rows, name)})
                == len(live.of_condition(rows, name))
                == TASKS
            )


def test_every_request_and_every_task_of_many_steps_was_met_in_every_way() -> None:
    for name, column, ways, count in (
        (live.EVERYDAY, "request", live.EVERYDAY_WAYS, 120),
        (live.PLANBENCH, "task", live.PLANBENCH_WAYS, 24),
    ):
        rows = live.by_way(RESULTS, name)
        assert set(rows) == set(ways)
        (same,) = {frozenset(row[column] for row in of_way) for of_way in rows.values()}
        assert len(same) == count
        assert all(len(of_way) == count for of_way in rows.values())


def test_the_page_says_what_a_cut_list_costs_in_searches() -> None:
    answers = live.by_way(RESULTS, live.EVERYDAY)
    chains = live.by_way(RESULTS, live.PLANBENCH)
    assert {live.total(rows, "right") for rows in answers.values()} == {120}
    searches = {way: live.total(rows, "searches") for way, rows in (answers | chains).items()}
    assert (
        searches["8 by Start, search"] > searches["8 by Start, search with names"] > searches["8 by examples, search"]
    )
    assert searches["search alone"] > searches[live.MOST_USED] > searches[live.FITTED]


def test_success_asks_for_the_state_and_for_the_outputs() -> None:
    for row in (*SEVEN, *MANY):
        assert row["success"] == (row["state_matches"] and row["outputs_match"])


def test_the_conditions_gave_what_they_say() -> None:
    assert {(row["tools"], row["missed"]) for row in live.of_condition(SEVEN, EVERY_READ_TOOL)} == {(7, 0)}
    assert {(row["missed"], row["spare"]) for row in live.of_condition(SEVEN, ANNOTATED_SET)} == {(0, 0)}
    assert {(row["missed"], row["spare"]) for row in live.of_condition(SEVEN, INSUFFICIENT)} == {(1, 0)}
    assert all(row["searches"] == 0 for row in SEVEN if row["condition"] != WITH_SEARCH)
    assert live.mean(SEVEN, WITH_SEARCH, "tools") < live.mean(SEVEN, WITH_CAMDF, "tools")


def test_the_same_two_tasks_fail_whatever_the_tools() -> None:
    failed = [{row["task_id"] for row in live.of_condition(SEVEN, name) if not row["success"]} for name in CONDITIONS]
    assert set.intersection(*failed) == failed[0] == {"retail-052", "retail-064"}
    assert all(row["success"] == (row["task_id"] not in failed[0]) for row in MANY)


def test_the_papers_numbers_and_intervals_are_those_it_prints() -> None:
    printed = {
        EVERY_READ_TOOL: (0.46, 0.69),
        ANNOTATED_SET: (0.55, 0.77),
        INSUFFICIENT: (0.15, 0.35),
        WITH_CAMDF: (0.55, 0.77),
    }
    for name, interval in printed.items():
        assert live.wilson(PAPER[name].successes, TASKS) == pytest.approx(interval, abs=0.006)
    assert live.mcnemar(11, 5) == pytest.approx(0.21, abs=0.005)


@pytest.mark.parametrize(("solved", "count"), [(0, 67), (65, 67), (67, 67), (84, 134)])
def test_wilson_and_mcnemar_are_the_textbooks(solved: int, count: int) -> None:
    low, high = live.wilson(solved, count)
    expected = binomtest(solved, count).proportion_ci(method="wilson")
    assert (low, high) == pytest.approx((expected.low, expected.high), abs=1e-4)
    assert live.mcnemar(solved, count - solved) == pytest.approx(binomtest(solved, count).pvalue, abs=1e-12)


@pytest.mark.skipif(not EPISODES.is_dir(), reason="the episodes lie beside the repository or nowhere")
def test_what_is_stored_are_the_numbers_of_the_episodes(tmp_path: Path) -> None:
    page = tmp_path / "live.md"
    assert main(["live", "--episodes", str(EPISODES), "--results", str(tmp_path), "--page", str(page)]) == 0
    assert live.episodes(tmp_path) == (SEVEN, MANY)
    for name in live.TABLES:
        assert live.by_way(tmp_path, name) == live.by_way(RESULTS, name)


def test_without_stored_episodes_the_command_says_what_stores_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["live", "--results", str(tmp_path), "--page", str(tmp_path / "live.md")]) == 2
    assert "camdf-lab live --episodes FOLDER" in capsys.readouterr().err

"""Learning curves: what a step learns from, where learning overtakes the threshold, and the command that draws one."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Self

import numpy as np
import pytest

from camdf import LoggedTasks, Payoff, ScorePerCostThreshold, datasets
from camdf.cli import main
from camdf.core.resampling import Interval
from camdf.evaluation.curve import (
    LABEL_COUNTS,
    LEARNING,
    RULES,
    THRESHOLD,
    CurveStep,
    Point,
    ahead_from,
    draw_steps,
    points_of,
    replay_steps,
    table,
    verdict,
)
from camdf.evaluation.curve_picture import curve_picture
from camdf.evaluation.replay import Outcomes, replay
from camdf.policies.registry import DEFAULT
from camdf_lab import domains
from saying import says

PAYOFF = Payoff(0.12)


@pytest.fixture(scope="module")
def logged() -> LoggedTasks:
    return domains.load("airline", "claude", dispersion=1.0)


@pytest.fixture(scope="module")
def steps(logged: LoggedTasks) -> list[CurveStep]:
    return draw_steps(logged, 4)


@pytest.fixture(scope="module")
def outcomes(logged: LoggedTasks, steps: list[CurveStep]) -> Outcomes:
    return replay_steps(logged, PAYOFF, steps)


@pytest.fixture(scope="module")
def points(outcomes: Outcomes, steps: list[CurveStep]) -> list[Point]:
    return points_of(outcomes, steps)


def margins(*intervals: tuple[float, float, float]) -> list[Point]:
    flat = {name: Interval(0.1, 0.0, 0.2) for name in (*LEARNING, *RULES)}
    sizes = (10.0, 25.0, 50.0, 100.0)
    return [Point(n, flat, Interval(*each)) for n, each in zip(sizes, intervals, strict=False)]


def test_steps_are_nested_and_end_with_all_that_a_split_leaves() -> None:
    tasks = domains.load("mcp-atlas", "claude")
    steps = draw_steps(tasks, 5)
    assert [step.labels for step in steps[:-1]] == [3, 10, 20, 50, 100]
    for smaller, larger in pairwise(steps):
        for before, after in zip(smaller.splits, larger.splits, strict=True):
            assert set(before.train.tolist()) < set(after.train.tolist())
            assert (before.test == after.test).all()
    for split in steps[-1].splits:
        assert len(split.train) + len(split.test) == len(tasks)


def test_no_group_is_both_learned_from_and_tested_and_at_most_one_is_cut() -> None:
    tasks = domains.load("retail", "claude")
    for step in draw_steps(tasks, 6):
        for split in step.splits:
            taught, tested = tasks.groups[split.train], tasks.groups[split.test]
            assert not set(taught.tolist()) & set(tested.tolist())
            left = np.setdiff1d(np.arange(len(tasks)), np.concatenate([split.train, split.test]))
            assert len(set(taught.tolist()) & set(tasks.groups[left].tolist())) <= 1


def test_every_policy_learns_and_tunes_on_all_labels_of_a_step(
    logged: LoggedTasks, steps: list[CurveStep], outcomes: Outcomes
) -> None:
    learned: dict[str, int] = {}

    class Counting(ScorePerCostThreshold):
        def fit(self, tasks: LoggedTasks, payoff: Payoff, validation: LoggedTasks | None = None) -> Self:
            learned["tasks"], learned["validation"] = len(tasks), 0 if validation is None else len(validation)
            return super().fit(tasks, payoff, validation)

    again = replay({"it": Counting}, logged, PAYOFF, steps[0].splits)
    assert learned == {"tasks": LABEL_COUNTS[0], "validation": 0}
    assert np.array_equal(again.values["it"], outcomes.values[f"0: {THRESHOLD}"], equal_nan=True)


def test_a_point_has_the_margin_of_its_means_and_the_gain_over_the_one_before(points: list[Point]) -> None:
    assert points[0].gain is None
    for before, point in pairwise(points):
        assert point.margin.mean == pytest.approx(point.payoff[DEFAULT].mean - point.payoff[THRESHOLD].mean)
        assert point.gain is not None
        assert point.gain.mean == pytest.approx(point.payoff[DEFAULT].mean - before.payoff[DEFAULT].mean)
        assert {point.payoff[name] for name in RULES} == {before.payoff[name] for name in RULES}


def test_learning_is_ahead_from_where_it_stays_ahead() -> None:
    up, level, down = (0.1, 0.05, 0.2), (0.0, -0.1, 0.1), (-0.1, -0.2, 0.0)
    assert ahead_from(margins(up, down, level, up)) == 50
    assert ahead_from(margins(up, down, level, up), clearly=True) == 100
    assert ahead_from(margins(up, up, up, up), clearly=True) == 10
    assert ahead_from(margins(up, up, up, down)) is None


@pytest.mark.parametrize(
    ("last", "said"),
    [
        ((0.1, 0.05, 0.2), "25 … earns more … threshold … +0.100"),
        ((0.1, -0.05, 0.2), "25 … leads … threshold … not surely … +0.100"),
        ((-0.1, -0.2, 0.1), "not earn more … threshold … -0.100"),
    ],
)
def test_the_verdict_names_where_learning_pays_or_that_it_does_not_yet(
    last: tuple[float, float, float], said: str
) -> None:
    assert says(verdict(margins((-0.2, -0.3, -0.1), last)), said)


@pytest.mark.parametrize(
    ("gain", "said"),
    [
        (Interval(0.05, 0.01, 0.09), "should help"),
        (Interval(0.05, -0.01, 0.11), "may help"),
        (Interval(0.002, -0.01, 0.02), "add little"),
    ],
)
def test_the_verdict_says_what_more_labels_seem_to_add(gain: Interval, said: str) -> None:
    first, last = margins((0.1, 0.05, 0.2), (0.1, 0.05, 0.2))
    found = verdict([first, Point(last.labels, last.payoff, last.margin, gain)])
    assert says(found, "10", "25 labels")
    assert says(found, said)


def test_the_command_prints_the_table_draws_the_curve_and_ends_in_the_verdict(
    logged: LoggedTasks, points: list[Point], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    datasets.write_parquet(logged, tmp_path / "logged.parquet")
    asked = ["curve", str(tmp_path / "logged.parquet"), "--cost-pressure", "0.12", "--splits", "4"]
    assert main([*asked, "-o", str(tmp_path / "curve.png")]) == 0
    printed = capsys.readouterr()
    assert table(points) in printed.out
    assert printed.out.rstrip().endswith(verdict(points))
    assert "fits of three policies" in printed.err
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")
    assert main([*asked, "-o", str(tmp_path / "curve.docx")]) == 2
    assert says(capsys.readouterr().err, "end", ".png", ".svg", ".pdf")


def test_too_few_tasks_are_refused_with_what_to_do(
    logged: LoggedTasks, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    datasets.write_jsonl(logged.take(slice(0, 19)), tmp_path / "few.jsonl")
    assert main(["curve", str(tmp_path / "few.jsonl"), "--cost-pressure", "0.12"]) == 2
    assert says(capsys.readouterr().err, "20 logged", "19")


def test_a_picture_has_a_line_for_every_policy(points: list[Point]) -> None:
    (axes,) = curve_picture(points).axes
    assert len(axes.lines) == len(LEARNING) + len(RULES)
